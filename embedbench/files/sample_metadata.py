"""Metadata of samples: ids, labels, splits, hierarchy of classes, and optional columns."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import h5py
import numpy as np

from embedbench.array_types import Array, Bytes, Ints, Strings
from embedbench.config.plain_numbers import plain_number
from embedbench.errors import UserError, short, unknown
from embedbench.storage.regular_files import explain_errors, read_text
from embedbench.text.undecoded_text import check_text

from . import file_digests, hdf5_layout

TRAIN, VAL, TEST = 0, 1, 2
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Samples:
    """The samples of a file, without their features.

    Parameters
    ----------
    ids : array of str
        (N,) names that are stable across teams: POSIX path from the source's root, or split/index.
    labels : array of int
        (N,) index of the leaf class.
    split : array of int
        (N,) TRAIN, VAL or TEST.
    classes : tuple of str
        (C,) names; leaves first, then inner nodes.
    parents : array of int
        (C,) index of each class's parent, -1 where there is none.
    """

    ids: Strings
    labels: Ints
    split: Bytes
    classes: tuple[str, ...]
    parents: Ints

    def __post_init__(self) -> None:
        """Convert every field to its type; labels and splits that are not integers are refused."""
        for name, dtype in (("labels", np.int64), ("split", np.uint8), ("parents", np.int64)):
            values = np.asarray(getattr(self, name))
            if values.size and values.dtype.kind not in "iu":
                raise UserError(name, "convert them first", expected="integers", got=values.dtype)
            if name == "split" and values.size and not 0 <= values.min() <= values.max() <= TEST:
                raise UserError("split must hold 0 (train), 1 (val) or 2 (test) only.")
            object.__setattr__(self, name, values.astype(dtype, copy=False))
        object.__setattr__(self, "ids", np.asarray(self.ids, dtype=np.str_))
        object.__setattr__(self, "classes", tuple(str(name) for name in self.classes))

    @property
    def n_leaves(self) -> int:
        """Number of classes that are nobody's parent; labels lie below it."""
        return len(self.classes) - len({*self.parents.tolist()} - {-1})

    def check(self) -> None:
        """Raise UserError unless the samples form a valid data set."""
        n = len(self.ids)
        if not n:
            raise UserError("no samples; an embedding file needs at least one row")
        if self.labels.shape != (n,) or self.split.shape != (n,):
            raise UserError(
                f"{n} sample ids, but labels of shape {self.labels.shape} and splits of shape "
                f"{self.split.shape}",
                "give one of each per sample",
            )
        check_text(self.classes, "the name of a class")
        check_text("\0".join(self.ids.tolist()), "the ids of the samples")
        self._check_hierarchy()
        low = int(self.labels.min())
        high = int(self.labels.max())
        if low < 0 or high >= self.n_leaves:
            bad = low if low < 0 else high
            row = int(np.flatnonzero(self.labels == bad)[0])
            raise UserError(
                f"label {bad} of sample {str(self.ids[row])!r} (row {row}) is out of range: there "
                f"are {self.n_leaves} leaf classes",
                f"number the labels from 0 to {self.n_leaves - 1}",
            )
        self._check_ids()

    def _check_ids(self) -> None:
        ids = self.ids.tolist()
        if len(set(ids)) == len(ids):
            return
        ((name, _),) = Counter(ids).most_common(1)
        where = " and in ".join(
            f"{SPLITS[self.split[row]]} (row {row})" for row in np.flatnonzero(self.ids == name)[:2]
        )
        raise UserError(
            f"sample {name!r} is in {where}", "give every sample an id of its own, in one split"
        )

    def _check_hierarchy(self) -> None:
        n = len(self.classes)
        parents = self.parents
        if not n or parents.shape != (n,):
            raise UserError(
                f"{n} classes, but parents of shape {parents.shape}", "give one a class"
            )
        if parents.min() < -1 or parents.max() >= n:
            bad = int(np.flatnonzero((parents < -1) | (parents >= n))[0])
            raise UserError(
                f"the parent of class {self.classes[bad]!r} is {parents[bad]}; a parent must be "
                f"-1 or a class below {n}"
            )
        inner = np.unique(parents[parents >= 0])
        leaves = n - len(inner)
        if len(inner) and inner[0] < leaves:
            raise UserError(
                f"class {self.classes[inner[0]]!r} (index {inner[0]}) has children but comes "
                "before a leaf",
                "list the leaf classes first, then the inner nodes",
            )
        for names in (self.classes[:leaves], self.classes[leaves:]):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise UserError(
                    f"class name {twice[0]!r} occurs twice", "give each class its own name"
                )
        try:
            TopologicalSorter({i: [above] for i, above in enumerate(parents.tolist())}).prepare()
        except CycleError as error:
            name = self.classes[error.args[1][0]]
            raise UserError(
                f"class {name!r} is its own ancestor; parents must form a tree"
            ) from error

    def digest(self) -> str:
        """Return the SHA-256 of ids, labels, splits and hierarchy, in row order."""
        return file_digests.sha256_parts(
            [
                ("ids", "\0".join(self.ids.tolist()).encode()),
                ("labels", self.labels.astype("<i8").tobytes()),
                ("split", self.split.tobytes()),
                ("classes", "\0".join(self.classes).encode()),
                ("parents", self.parents.astype("<i8").tobytes()),
            ]
        )


# --- lists of samples: CSV and TSV files, one line a sample ---


def read_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of every line that is not empty; of a row of several lines, the last."""
    text = read_text(path)
    delimiter = find_delimiter(text.partition("\n")[0])
    with explain_errors(f"{path} is not a CSV or TSV file"):
        rows = csv.reader(io.StringIO(text), delimiter=delimiter)
        lines = [(rows.line_num, fields) for fields in rows]
    return ((number, fields) for number, fields in lines if fields)


def find_delimiter(line: str) -> str:
    """Return what separates the fields of a list, by its first line: tab, comma or semicolon.

    With both of the last two, a head decides (`sample_id;domain`), else it is the comma.

    >>> find_delimiter("sample_id;split"), find_delimiter("a;1.png,train")
    (';', ',')
    """
    if "\t" in line:
        return "\t"
    head = line.strip().strip('"').casefold()
    semicolon = "," not in line or head.startswith(("sample_id;", 'sample_id";'))
    return ";" if semicolon and ";" in line else ","


def read_by_sample(
    path: Path, ids: Sequence[str], lines: Iterable[tuple[int, list[str]]], head: Sequence[str]
) -> list[list[str]]:
    """Return the fields behind each sample's id; each of (N,) `ids` must have one line.

    `head` names the fields of a line, none of which is empty.
    """
    values: dict[str, list[str]] = {}
    known = set(ids)
    for number, fields in lines:
        where = f"{path}, line {number}"
        name = fields[0]
        if len(fields) != len(head) or not all(fields):
            raise UserError(f"{where}: expected {','.join(head)}, not {short(fields)}.")
        if name not in known or name in values:
            problem = "is listed twice" if name in values else "is not in the source"
            raise UserError(f"{where}: sample {short(name)} {problem}", "remove the line")
        values[name] = fields[1:]
    missing = [name for name in ids if name not in values]
    if missing:
        raise UserError(
            f"{path} has no line for {len(missing)} of {len(ids)} samples, the first "
            f"{short(missing[0])}",
            "add them",
        )
    return [values[name] for name in ids]


# --- optional columns: `domain`, `group` and `time`, one value a sample ---


def checked_columns(columns: Mapping[str, Array], n: int) -> dict[str, Array]:
    """Return columns (n,) in the types of the format; whole numbers may stand for texts."""
    for name in columns:
        if name not in hdf5_layout.COLUMNS:
            raise unknown("column", name, hdf5_layout.COLUMNS)
    there = [name for name in hdf5_layout.COLUMNS if name in columns]
    return {name: _checked(name, np.asarray(columns[name]), n) for name in there}


def _checked(name: str, values: Array, n: int) -> Array:
    text = hdf5_layout.COLUMNS[name] == "S"
    if values.shape != (n,) or values.dtype.kind not in ("Uiu" if text else "fiu"):
        raise UserError(
            f"column {name!r} is {values.dtype} of shape {values.shape}; expected one "
            f"{'text' if text else 'number'} for each of {n} samples",
            "convert the column, or leave it out",
        )
    values = values.astype(np.str_ if text else np.float64)
    wrong = values == "" if text else ~np.isfinite(values)
    if wrong.any():
        raise UserError(
            f"column {name!r} has {'no text' if text else 'NaN or an infinite value'} in row "
            f"{int(wrong.argmax())}",
            f"give every sample a {'text' if text else 'finite number'}",
        )
    return values if text else values + 0.0  # no -0.0


def read_list(path: Path, ids: Sequence[str]) -> dict[str, Array]:
    """Read columns from a CSV or TSV file, one line a sample, in the order of `ids`.

    The first line is `sample_id` and any of `domain`, `group` and `time`.
    """
    lines = [*read_lines(path)]
    head = [name.strip().casefold() for name in (lines[0][1] if lines else [""])]
    names = head[1:]
    repeated = len(set(names)) < len(names)
    if head[0] != "sample_id" or not names or repeated or {*names} - {*hdf5_layout.COLUMNS}:
        raise UserError(
            f"{path} begins with {short(','.join(head))}; expected a first line such as "
            f"sample_id,{','.join(hdf5_layout.COLUMNS)}, each column once"
        )
    rows = read_by_sample(path, ids, lines[1:], head)
    _check_times(path, lines[1:], head)
    table = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns = {
        name: hdf5_layout.texts(column, f"{path}: {name}")
        if hdf5_layout.COLUMNS[name] == "S"
        else np.array(column, np.float64)
        for name, column in table.items()
    }
    return checked_columns(columns, len(ids))


def _check_times(path: Path, lines: Iterable[tuple[int, list[str]]], head: Sequence[str]) -> None:
    """Refuse the first time of a list that is no number."""
    for number, fields in lines if "time" in head else ():
        text = fields[head.index("time")]
        if plain_number(text.strip()) is None:
            raise UserError(
                f"{path}, line {number}: a time that is no finite number, {short(text)}",
                "correct it",
            )


def pack_column(values: Array) -> Array:
    """Return a column as it lies in the file."""
    return hdf5_layout.pack_strings(values) if values.dtype.kind == "U" else values.astype("<f8")


def read_columns(path: Path, file: h5py.File, n: int) -> dict[str, Array]:
    """Read the columns of a file whose tables were checked."""
    stored = {name: table[()] for name, table in file.get("columns", {}).items()}
    columns = {
        k: hdf5_layout.unpack_strings(v) if v.dtype.kind == "S" else v for k, v in stored.items()
    }
    try:
        return checked_columns(columns, n)
    except UserError as error:
        raise error.at(path) from error
