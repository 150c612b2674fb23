"""What a search chose: as settings, in the record, and in a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .cell import Cell


def outcome(log: Mapping[str, Any]) -> str:
    """What a search chose, and whether a value beyond its grid may be better.

    >>> outcome({"learner": "ewc", "grid": {"lam": ["1", "9"]}, "chosen": {"lam": "9"}, "seed": 0})
    'tuned ewc on seed 0: lam=9 of 1, 9'
    """
    chosen: Mapping[str, str] = log["chosen"]
    listed = [f"{k}={v} of {', '.join(map(str, log['grid'][k]))}" for k, v in chosen.items()]
    edge = [f"{k}={v}" for k, v in chosen.items() if _is_edge(v, log["grid"][k])]
    beyond = " is at the edge of its grid, a value beyond may be better"
    return (
        f"tuned {log['learner']} on seed {log['seed']}: {', '.join(listed)}"
        f"{'; ' + ', '.join(edge) + beyond if edge else ''}"
    )


def _is_edge(value: str, values: Sequence[str]) -> bool:
    """Whether a value is the least or the largest of several numbers."""
    try:
        numbers = sorted(map(float, values))
        return len(numbers) > 2 and float(value) in (numbers[0], numbers[-1])
    except ValueError:
        return False


def chosen_items(log: Mapping[str, Any]) -> list[str]:
    """The chosen settings as `--set` items."""
    return [f"{log['learner']}.{name}={value}" for name, value in log["chosen"].items()]


def with_log(cell: Cell, logs: Sequence[Mapping[str, Any]]) -> Cell:
    """The cell with the log of its learner's search, to be stored in the record."""
    mine = [dict(log) for log in logs if log["learner"] == cell.learner.name]
    return dataclasses.replace(cell, tuning=mine[0]) if mine else cell
