"""Learners whose memory is larger than the stream, so that it limits nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from embedbench.scores.run_record import RunRecord

SHARED = ("herding", "random")  # `memory.select` of memories that classes share equally


def remark_on_memory(learners: Sequence[tuple[str, Sequence[RunRecord]]]) -> list[str]:
    """A sentence on the learners that stored every training sample, though they have a limit.

    Parameters
    ----------
    learners : sequence of (str, sequence of RunRecord)
        The label of each row of a table, and its runs.
    """
    by_size: dict[str, list[str]] = {}
    for label, runs in learners:
        if all(map(stores_all, runs)):
            sizes = sorted({sum(run.n_train) for run in runs})
            text = "–".join(f"{n:,}" for n in sorted({sizes[0], sizes[-1]}))
            by_size.setdefault(text, []).append(label)
    return [_sentence(size, labels) for size, labels in by_size.items()]


def _sentence(size: str, labels: Sequence[str]) -> str:
    *first, last = labels
    who = f"{', '.join(first)} and {last}" if first else last
    whose = "their memories do" if first else "its memory does"
    return f"{who} stored all {size} training samples: {whose} not bind"


def stores_all(run: RunRecord) -> bool:
    """Whether a learner with a limit on its memory stored all training samples of its run.

    The limit is not below what came, and the bytes under "samples" grew with the samples, session
    by session. False where a record does not say enough, and for `memory.select=all`.
    """
    memory = run.learner_params.get("memory")
    if not isinstance(memory, dict) or memory.get("select", "all") == "all":
        return False
    total, n = memory.get("total"), sum(run.n_train)
    sizes = [size for size in run.n_train_by_class or () if size]
    if memory["select"] not in SHARED and total is not None:
        limit, needed = total, n
    elif sizes:
        limit = memory.get("per_class") if total is None else total
        needed = max(sizes) * (1 if total is None else len(sizes))
    else:
        return False
    if not isinstance(limit, int) or limit < needed:
        return False
    held = [s.footprint.get("samples", 0) for s in run.sessions]
    came = itertools.accumulate(run.n_train)
    return any(held) and all(h * n == held[-1] * c for h, c in zip(held, came, strict=True))
