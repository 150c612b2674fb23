"""Shell completion of names; nothing here imports torch."""

from collections.abc import Callable


def of(kind: str) -> Callable[[str], list[tuple[str, str]]]:
    """Completes a name of a kind that `embedbench list` knows, the last one of a list with commas.

    Examples
    --------
    >>> [name for name, _ in of("learners")("ncm,sld")]
    ['ncm,slda']
    """

    def completed(incomplete: str) -> list[tuple[str, str]]:
        from .list_entries import entries

        before, comma, begun = incomplete.rpartition(",")
        rows = [row for row in entries(kind) if row["name"].startswith(begun)]
        return [(before + comma + row["name"], row["summary"]) for row in rows]

    return completed


def of_kinds(incomplete: str) -> list[str]:
    """Completes what `embedbench list` takes: a kind, or what has settings."""
    from .list_entries import KINDS, NAMES

    every = [*KINDS, *(name for names in NAMES.values() for name in names())]
    return [name for name in dict.fromkeys(every) if name.startswith(incomplete)]


def of_figures(incomplete: str) -> list[tuple[str, str]]:
    """Completes a kind of figure."""
    from embedbench.reports.figure_kinds import KINDS

    return [(name, what) for name, what in KINDS.items() if name.startswith(incomplete)]
