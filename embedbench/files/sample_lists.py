"""List files of users: CSV or TSV with one line a sample."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from embedbench.errors import UserError
from embedbench.storage.atomic_write import read_text


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
