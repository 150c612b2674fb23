"""A stream for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedbench.table_forms import records
from embedbench.terminal import line, new_table

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from embedbench.streams.summary import StreamSummary

NAMED = 3  # classes of a session that are named


def stream_parts(summary: StreamSummary) -> list[Text | Table]:
    """Title, a table of the sessions, and the digests."""
    sessions, tests = summary.sessions, summary.tests
    each = len(tests) == len(sessions)
    table = new_table(
        ["session", "introduces", "classes", "train", "val", *["test"] * each], names=2
    )
    for i, s in enumerate(sessions):
        counts = [len(s.classes), s.train, s.val, *([tests[i]] if each else [])]
        table.add_row(str(i), line(_names(s.classes)), *(f"{n:,}" for n in counts))
    parts: list[Text | Table] = [line(summary.title, "bold"), table]
    if not each:
        parts.append(line(f"samples of the eval sets: {', '.join(f'{n:,}' for n in tests)}"))
    parts += [line(f"note: {n}") for n in summary.notes]
    digests = " · ".join(f"{name} {value[:12]}" for name, value in summary.digests.items())
    return [*parts, line(f"digests: {digests}", "dim")]


def stream_rows(summary: StreamSummary) -> list[dict[str, Any]]:
    """The numbers of the table, one row per session."""
    rows = records(summary.to_json(), "sessions")
    each = len(summary.tests) == len(rows)
    return [
        {"session": i, **row, "test": summary.tests[i] if each else None}
        for i, row in enumerate(rows)
    ]


def _names(classes: tuple[str, ...]) -> str:
    if len(classes) > NAMED + 1:  # "… 1 more" is as long as the last name
        classes = (*classes[:NAMED], f"… {len(classes) - NAMED} more")
    return ", ".join(classes) or "–"
