"""The results that `reproduce` writes: the tables of a paper with their runs, data and command.

The files are read back from other people: `PaperResults.read` checks them.
"""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np

from embedbench.config.format_versions import check_version
from embedbench.config.json_records import ABSENT, JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.scores.mean_intervals import Stat
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.regular_files import read_text
from embedbench.text.undecoded_text import as_text, join_words
from embedbench.version import __version__

from .paper_table import PaperTable, TableRow

FORMAT, VERSION = "embedbench-results", 1
LONGEST, MOST = 2**24, 1000  # bytes of a file, files of a directory
CLOSE = 1e-9  # of a stored mean to that of its values


@dataclass(frozen=True)
class DataFile(JsonRecord):
    """A file that tables were measured on: its name without directory, and its digests.

    `pixels` is whether it holds images and no embeddings, `kind` what it is to the paper, one of
    `data_kinds.DATA_KINDS`, and `label` what tables call it; None in older files of results.
    """

    name: str
    digests: dict[str, str]
    pixels: bool | None = field(default=None, metadata=ABSENT)
    kind: str | None = field(default=None, metadata=ABSENT)
    label: str | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class PaperResults(JsonRecord):
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
    tables: tuple[PaperTable, ...]
    format: str = FORMAT
    version: int = VERSION

    @classmethod
    def now(
        cls,
        paper: str,
        words: Sequence[str],
        seeds: Sequence[int],
        files: Sequence[Path | EmbeddingFile],
        tables: Sequence[PaperTable],
        failed: Sequence[str],
        data: Sequence[tuple[str, str]] = (),
    ) -> "PaperResults":
        """The results of a command that ends now; `words` follow `embedbench reproduce`.

        A file that was opened is named by what it held then, a path by what is there now. `data`
        has the kind and the label of each file.
        """
        opened = {}
        known = [*data, *[(None, None)] * (len(files) - len(data))]
        for item, (kind, label) in zip(files, known, strict=True):
            file = item if isinstance(item, EmbeddingFile) else EmbeddingFile.open(item)
            pixels = file.kind == PIXELS or None
            opened[file.path] = DataFile(
                as_text(file.path.name), dict(file.digests), pixels, kind, label
            )
        return cls(
            paper,
            join_words(["embedbench", "reproduce", *without_paths(words)]),
            datetime.now(UTC).date().isoformat(),
            {
                "embedbench": __version__,
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("numpy", "torch")},
            },
            tuple(seeds) if files else (),
            tuple(opened.values()),
            tuple(failed),
            tuple(tables),
        )

    @classmethod
    def read(cls, path: Path) -> "PaperResults":
        """Read and check a file."""
        data = parse_json(read_text(path, LONGEST), str(path))
        given = data.get("format") if isinstance(data, dict) else None
        remedy = "make it again with embedbench reproduce"
        if given != FORMAT:
            raise UserError(f"{path} must hold {FORMAT!r}", remedy)
        version = data.get("version")
        if version != VERSION or isinstance(version, bool):
            check_version(str(path), version, [str(VERSION)], remedy)
        results = cls.from_json(data, str(path))
        for table in results.tables:
            for row in table.rows:
                if not _is_sound(table, row):
                    raise UserError(
                        f"{path}: table {table.name!r}, row {row.labels}: expected "
                        f"{len(table.heads)} labels, values in the table's columns of 0 to 12 "
                        "decimals, and the mean and the interval of the values"
                    )
        return results

    def write(self, path: Path) -> None:
        """Write the file."""
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        write_safely(path, text + "\n")


def _is_sound(table: PaperTable, row: TableRow) -> bool:
    """Whether a row fits its table, and its means and intervals are those of the values."""
    stats = [value.ours for value in row.values.values() if value.ours is not None]
    stored = [(stat.mean, stat.half, stat.sd) for stat in stats]
    again = [(stat.mean, stat.half, stat.sd) for stat in (Stat.of(s.values) for s in stats)]
    return (
        len(row.labels) == len(table.heads)
        and {*row.values} <= {*table.columns}
        and all(0 <= value.decimals <= 12 for value in row.values.values())
        and np.allclose(stored, again, rtol=CLOSE, atol=CLOSE, equal_nan=True)
    )


def read_results(paths: Sequence[Path], paper: str) -> dict[str, PaperResults]:
    """The results of a paper in files and directories (`*.json`), by name, ordered by name."""
    by_name: dict[str, PaperResults] = {}
    for given in paths:
        files = [given] if given.is_file() else sorted(given.glob("*.json"))
        if not 0 < len(files) <= MOST:
            raise UserError(
                f"{given} must hold 1 to {MOST} files *.json, has {len(files)}",
                "embedbench reproduce writes them, and --results says where they are",
            )
        for path in files:
            results = PaperResults.read(path)
            if results.paper == paper and by_name.setdefault(path.stem, results) is not results:
                raise UserError(f"two files of results are named {path.name}", f"rename {path}")
    return dict(sorted(by_name.items()))


def without_paths(words: Sequence[str]) -> list[str]:
    """Words of a command with file names in place of paths; names of files elsewhere stay.

    >>> without_paths(["--data", "mnist=/home/me/mnist.h5", "--set", "er.lr=0.1"])
    ['--data', 'mnist=mnist.h5', '--set', 'er.lr=0.1']
    """
    parts = [word.rpartition("=") for word in words]
    return [
        word if "://" in word else name + equals + (Path(value).name or value)
        for word, (name, equals, value) in zip(words, parts, strict=True)
    ]
