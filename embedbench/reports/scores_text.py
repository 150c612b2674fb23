"""What `embedbench score` prints: runs whose metrics do not agree with their predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from embedbench.scores.checked import RescoredRun
from embedbench.typed import plain


def scores_text(results: Sequence[RescoredRun]) -> str:
    """How many runs agree, and one line for each value, run or list of names that needs a look."""
    faults = [r for r in results if r.fault is not None]
    differ = [r for r in results if r.differs]
    counts = f"{len(results) - len(faults) - len(differ)} agree, {len(differ)} differ"
    runs = "1 run" if len(results) == 1 else f"{len(results)} runs"
    lines = [f"{runs}: {counts}, {len(faults)} cannot be recomputed"]
    lines += [f"cannot be recomputed: {r.run}: {r.fault}" for r in faults]
    for r in differ:
        for d in r.differs:
            values = f"kept {_short(d.kept)}, recomputed {_short(d.recomputed)}"
            lines.append(f"differs: {r.run}: {d.metric}: {values}")
    for r in results:
        parts = (
            ("new", r.new, ""),
            ("open", r.open, ""),
            ("open", r.waits_for, "waits for "),
            ("not checked", r.unchecked, ""),
        )
        lines += [f"{word}: {r.run}: {before}{_few(n)}" for word, n, before in parts if n]
    for r in results:
        lines += [f"{n}: {r.run}: {_short(value)}" for n, value in (r.outside or {}).items()]
    lines += [f"not pinned: {r.run}" for r in results if r.fault is None and not r.pinned]
    return "\n".join([*lines, *(f"updated: {r.run}" for r in results if r.updated)])


def scores_rows(results: Sequence[RescoredRun]) -> list[dict[str, Any]]:
    """One row per run: whether it agrees, and what needs a look."""
    rows = []
    for r in results:
        row = {"run": r.run, "agrees": r.agrees, "pinned": r.pinned, "updated": r.updated}
        row |= {"differs": " ".join(d.metric for d in r.differs), "fault": r.fault}
        row |= {name: " ".join(getattr(r, name)) for name in ("new", "open", "unchecked")}
        rows.append(row | (r.outside or {}))
    return rows


def _short(value: Any) -> str:
    text = json.dumps(plain(value))
    return text if len(text) <= 60 else f"{text[:59]}…"


def _few(names: Sequence[str]) -> str:
    """Names in a line, the first of many."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
