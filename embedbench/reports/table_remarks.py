"""Sentences under a table: memories that limit nothing, tuned settings, several settings."""

import itertools
from collections.abc import Sequence
from typing import Any

from embedbench.config.run_seeds import format_seeds
from embedbench.scores.run_record import RunRecord

SHARED = ("herding", "random")  # `memory.select` of memories that classes share equally


def remark_on_memory(learners: Sequence[tuple[str, Sequence[RunRecord]]]) -> list[str]:
    """A sentence on the learners that stored every training sample, though they have a limit.

    A learner is the label of a row of a table, and its runs.
    """
    by_size: dict[str, list[str]] = {}
    for label, runs in learners:
        if all(map(stores_all, runs)):
            sizes = sorted({sum(run.n_train) for run in runs})
            text = "–".join(f"{n:,}" for n in sorted({sizes[0], sizes[-1]}))
            by_size.setdefault(text, []).append(label)
    sentences = []
    for size, (*first, last) in by_size.items():
        who = f"{', '.join(first)} and {last}" if first else last
        whose = "their memories do" if first else "its memory does"
        sentences.append(f"{who} stored all {size} training samples: {whose} not bind")
    return sentences


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


# What a report says of settings that a search chose (`run --tune`).


def searches(runs: Sequence[RunRecord]) -> str:
    """The search that chose the settings of some runs, in words; "" if none was tuned."""
    return "; ".join(dict.fromkeys(_search(run.tuning) for run in runs if run.tuning is not None))


def _search(log: dict[str, Any]) -> str:
    """One search in a few words; `log` comes from a record of anybody."""
    count, seed, seeds = candidates(log), log.get("seed"), log.get("seeds")
    kept = "default" in log and log.get("chosen") == log["default"]
    words = "chosen" if count is None else f"best of {count}"
    if kept:
        words = "default kept" if count is None else f"default kept of {count}"
    if isinstance(seeds, list) and seeds and all(isinstance(s, int) for s in seeds):
        words += f" on seeds {format_seeds(sorted(seeds))}"
    elif isinstance(seed, int):
        words += f" on seed {seed}"
    return f"{words}, at the grid's edge" if log.get("edge") else words


def candidates(log: dict[str, Any] | None) -> int | None:
    """The number of settings that a search tried; None if that is not known."""
    tried = (log or {}).get("tried")
    return len(tried) if isinstance(tried, list | tuple) else None


def beside(learners: Sequence[tuple[str, str, Sequence[RunRecord]]]) -> list[str]:
    """A sentence for each learner with several settings of which some were tuned.

    A search with another grid may choose another setting; the runs of the earlier one stay. Each
    row of a table has the directory of its runs, as the report's user sees it, its label, its runs.
    """
    names = dict.fromkeys(runs[0].learner for _, _, runs in learners)
    sentences = []
    for name in names:
        mine = [entry for entry in learners if entry[2][0].learner == name]
        if len(mine) > 1 and any(run.tuning is not None for *_, runs in mine for run in runs):
            where = ", ".join(f"{place} ({label})" for place, label, _ in mine)
            sentences.append(
                f"{name} is compared with {len(mine)} settings, some of them tuned: each is a "
                "learner of its own, also in ranks and in Holm's correction; to keep one, move the "
                f"others out of the directory of runs: {where}"
            )
    return sentences
