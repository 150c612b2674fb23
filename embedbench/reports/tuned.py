"""What a report says of settings that a search chose (`run --tune`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from embedbench.scores.run_record import RunRecord


def searches(runs: Sequence[RunRecord]) -> str:
    """How the settings of some runs were chosen; "" if none was tuned."""
    return "; ".join(dict.fromkeys(_search(run.tuning) for run in runs if run.tuning is not None))


def _search(log: dict[str, Any]) -> str:
    """One search in a few words; `log` comes from a record of anybody."""
    count, seed = candidates(log), log.get("seed")
    words = "chosen" if count is None else f"best of {count}"
    return f"{words} on seed {seed}" if isinstance(seed, int) else words


def candidates(log: dict[str, Any] | None) -> int | None:
    """The number of settings that a search tried; None if that is not known."""
    tried = (log or {}).get("tried")
    return len(tried) if isinstance(tried, list | tuple) else None


def beside(learners: Sequence[tuple[str, str, Sequence[RunRecord]]]) -> list[str]:
    """A sentence for each learner with several settings of which some were tuned.

    A search with another grid may choose another setting; the runs of the earlier one stay.

    Parameters
    ----------
    learners : sequence of (str, str, sequence of RunRecord)
        The directory of the runs, seen from where the report was asked for, the label of the row,
        and the runs; of each row of a table.
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
