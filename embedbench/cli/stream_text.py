"""A stream for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def _names(classes: tuple[str, ...]) -> str:
    more = f", … {len(classes) - NAMED} more" if len(classes) > NAMED else ""
    return ", ".join(classes[:NAMED]) + more if classes else "–"
