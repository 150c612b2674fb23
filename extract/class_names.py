"""Names of classes that are one name in two spellings, and names that only look alike."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

LISTED = 3  # groups of names that a line lists
_GAPS = re.compile(r"[\s_-]+")

Path = tuple[str, ...]


def join_spellings(paths: Sequence[Path]) -> tuple[list[Path], str]:
    """Return paths of names in one Unicode form where two forms of a name occur, and a line on it.

    `é` is one sign or two (NFC, as Linux and Windows write it, and NFD, as macOS does); nobody can
    tell them apart. A name that occurs in one form alone stays as it is.

    >>> join_spellings([("caf\\u00e9",), ("cafe\\u0301",), ("tea",)])[0]
    [('café',), ('café',), ('tea',)]
    """
    spellings: dict[Path, set[str]] = {}
    for path in set(paths):
        for depth in range(1, len(path) + 1):
            spellings.setdefault(_composed(path[:depth]), set()).add(path[depth - 1])
    double = {key for key, written in spellings.items() if len(written) > 1}
    if not double:
        return list(paths), ""
    joined = {path: _joined(path, double) for path in set(paths)}
    names = ", ".join(sorted({key[-1] for key in double})[:LISTED])
    line = f"{names}: written in two Unicode forms, and taken for one name each"
    return [joined[path] for path in paths], line


def _composed(path: Path) -> Path:
    return tuple(unicodedata.normalize("NFC", name) for name in path)


def _joined(path: Path, double: set[Path]) -> Path:
    composed = _composed(path)
    return tuple(
        composed[depth] if composed[: depth + 1] in double else name
        for depth, name in enumerate(path)
    )


def look_alikes(names: Iterable[str]) -> str:
    """Return a line on different names that are easily taken for one; empty if there are none.

    >>> look_alikes(["cat", "Cat ", "1", "001", "dog"])
    "names that look alike are different classes: '001' and '1'; 'Cat ' and 'cat'"
    """
    groups: dict[str, set[str]] = {}
    for name in names:
        groups.setdefault(_likeness(name), set()).add(name)
    alike = sorted(sorted(group) for group in groups.values() if len(group) > 1)
    if not alike:
        return ""
    listed = "; ".join(" and ".join(map(repr, group)) for group in alike[:LISTED])
    more = f" and {len(alike) - LISTED:,} more" if len(alike) > LISTED else ""
    return f"names that look alike are different classes: {listed}{more}"


def _likeness(name: str) -> str:
    """Return a name without its case, gaps and width; of a number, its value."""
    plain = _GAPS.sub(" ", unicodedata.normalize("NFKC", name)).strip().casefold()
    whole = re.fullmatch(r"(\d+)(?:\.0*)?", plain)
    return str(int(whole[1])) if whole and len(plain) < 100 else plain
