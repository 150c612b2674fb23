"""Read lists of samples from CSV and TSV files, one line a sample."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from embedbench.errors import UserError, short
from embedbench.storage.regular_files import read_text


def read_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of every line that is not empty.

    Raises
    ------
    UserError
        The file cannot be read, or is not such a file.
    """
    text = read_text(path)
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    try:
        for number, fields in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), 1):
            if fields:
                yield number, fields
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV or TSV file ({error}).") from error


def read_by_sample(
    path: Path,
    ids: Sequence[str],
    lines: Iterable[tuple[int, list[str]]],
    check: Callable[[str, list[str]], None],
    lacks: str = "has no line",
) -> list[list[str]]:
    """Return the fields behind each sample's id; each of (N,) `ids` must have one line.

    `check` refuses the fields of a line, whose place it takes in words.
    """
    values: dict[str, list[str]] = {}
    known = set(ids)
    for number, fields in lines:
        where, name = f"{path}, line {number}", fields[0]
        check(where, fields)
        if name not in known:
            raise UserError(f"{where}: no sample {short(name)} in the source; remove the line.")
        if name in values:
            raise UserError(f"{where}: sample {short(name)} is listed twice; keep one line.")
        values[name] = fields[1:]
    missing = [name for name in ids if name not in values]
    if missing:
        raise UserError(
            f"{path} {lacks} for {len(missing)} of {len(ids)} samples, the first "
            f"{short(missing[0])}; add them."
        )
    return [values[name] for name in ids]
