"""The results that `reproduce` writes: the tables of a paper with their runs, data and command.

The files are read back from other people: `Results.read` checks them.
"""

import json
import math
import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.scores.mean_intervals import Stat
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.regular_files import read_text
from embedbench.version import __version__

from .paper_table import DRAWN, EXACT, FIXED, PaperTable, Value

FORMAT, VERSION = "embedbench-results", 1
LONGEST, MOST = 2**24, 1000  # bytes of a file, files of a directory
CLOSE = 1e-9  # of a stored mean to that of its values


@dataclass(frozen=True)
class ResultRow(JsonRecord):
    """One row of a table: labels, and values by column."""

    labels: tuple[str, ...]
    values: dict[str, Value]


@dataclass(frozen=True)
class ResultTable(JsonRecord):
    """A table; the fields are those of `PaperTable`."""

    name: str
    title: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...] = ()
    of: str = ""
    data: str = ""
    printed: dict[str, str] = field(default_factory=dict)
    unit: str = ""
    units: dict[str, str] = field(default_factory=dict)
    named: int | None = None

    @classmethod
    def made(cls, table: PaperTable) -> "ResultTable":
        """The table as it is written."""
        values = {f.name: getattr(table, f.name) for f in fields(cls)}
        rows = tuple(ResultRow(tuple(labels), dict(of)) for labels, of in table.rows)
        lists = {name: tuple(values[name]) for name in ("heads", "columns", "notes")}
        return cls(**values | lists | {"rows": rows})

    def key(self, row: ResultRow) -> tuple[str, ...]:
        """The labels of the printed row that a row belongs to."""
        return tuple(self.printed.get(label, label) for label in row.labels)

    def unit_of(self, column: str) -> str:
        return self.units.get(column, self.unit)


@dataclass(frozen=True)
class DataFile(JsonRecord):
    """An embedding file that tables were measured on: its name without directory, and digests."""

    name: str
    digests: dict[str, str]


@dataclass(frozen=True)
class Results(JsonRecord):
    """The results of one `reproduce`.

    Parameters
    ----------
    command : str
        The command, with file names in place of paths.
    date : str
        Day, UTC.
    versions : dict
        Of embedbench, python, numpy and torch.
    """

    paper: str
    command: str
    date: str
    versions: dict[str, str]
    seeds: tuple[int, ...]
    files: tuple[DataFile, ...]
    failed: tuple[str, ...]
    tables: tuple[ResultTable, ...]
    format: str = FORMAT
    version: int = VERSION

    @classmethod
    def now(
        cls,
        paper: str,
        words: Sequence[str],
        seeds: Sequence[int],
        files: Sequence[Path],
        tables: Sequence[PaperTable],
        failed: Sequence[str],
    ) -> "Results":
        """The results of a command that ends now; `words` follow `embedbench reproduce`."""
        return cls(
            paper,
            shlex.join(["embedbench", "reproduce", *without_paths(words)]),
            datetime.now(UTC).date().isoformat(),
            {
                "embedbench": __version__,
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("numpy", "torch")},
            },
            tuple(seeds) if files else (),
            tuple(
                DataFile(path.name, dict(EmbeddingFile.open(path).digests))
                for path in dict.fromkeys(files)
            ),
            tuple(failed),
            tuple(map(ResultTable.made, tables)),
        )

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Read and check a file.

        Raises
        ------
        UserError
            It is no file of results, or its numbers contradict each other.
        """
        data = parse_json(read_text(path, LONGEST), str(path))
        given = data.get("format") if isinstance(data, dict) else None
        if given != FORMAT or data.get("version") != VERSION:
            raise UserError(
                f"{path} must hold {FORMAT!r} of version {VERSION}, which embedbench reproduce "
                "writes; make it again"
            )
        results = cls.from_json(data, str(path))
        for table, row in results.rows():
            if wrong := _wrong(table, row):
                raise UserError(f"{path}: table {table.name!r}, row {row.labels}: {wrong}")
        return results

    def write(self, path: Path) -> None:
        """Write the file."""
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        write_safely(path, text + "\n")

    def rows(self) -> Iterator[tuple[ResultTable, ResultRow]]:
        """All rows with their tables."""
        return ((table, row) for table in self.tables for row in table.rows)


def _wrong(table: ResultTable, row: ResultRow) -> str:
    """The fault of a row; "" if there is none."""
    if len(row.labels) != len(table.heads):
        return f"expected {len(table.heads)} labels, got {len(row.labels)}"
    for column, value in row.values.items():
        if column not in table.columns:
            return f"no column {column!r}"
        if value.made not in (DRAWN, FIXED, EXACT):
            return f"{column}: 'made' must be {DRAWN}, {FIXED} or {EXACT}, got {value.made!r}"
        if not 0 <= value.decimals <= 12:
            return f"{column}: 'decimals' must be 0 to 12, got {value.decimals}"
        if value.words is not None and len(value.words) != 2:
            return f"{column}: 'words' must be two texts, got {len(value.words)}"
        if value.ours is not None and not _consistent(value.ours):
            return f"{column}: mean and interval must be those of the values"
    return ""


def _consistent(stat: Stat) -> bool:
    """Whether a mean and its interval are those of the values."""
    again = Stat.of(stat.values)
    pairs = ((stat.mean, again.mean), (stat.half, again.half), (stat.sd, again.sd))
    return all(
        (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE)
        for a, b in pairs
    )


def read_results(paths: Sequence[Path], paper: str) -> dict[str, Results]:
    """The results of a paper in files and directories (`*.json`), by name, ordered by name.

    Raises
    ------
    UserError
        A path is not there or is no file of results, or two files have one name.
    """
    by_name: dict[str, Results] = {}
    for path in (path for given in paths for path in _files(given)):
        results = Results.read(path)
        if results.paper == paper and path.stem in by_name:
            raise UserError(f"two files of results are named {path.name}; rename {path}")
        if results.paper == paper:
            by_name[path.stem] = results
    return dict(sorted(by_name.items()))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.json"))
    if not 0 < len(files) <= MOST:
        raise UserError(f"{path} must hold 1 to {MOST} files *.json, has {len(files)}")
    return files


def without_paths(words: Sequence[str]) -> list[str]:
    """Words of a command with file names in place of paths; names of files elsewhere stay.

    >>> without_paths(["--data", "mnist=/home/me/mnist.h5", "--set", "er.lr=0.1"])
    ['--data', 'mnist=mnist.h5', '--set', 'er.lr=0.1']
    """
    shown = []
    for word in words:
        if "://" in word:
            shown.append(word)
            continue
        name, equals, value = word.rpartition("=")
        shown.append(name + equals + (Path(value).name if "/" in value or "\\" in value else value))
    return shown
