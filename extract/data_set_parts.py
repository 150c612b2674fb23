"""The parts of a data set by their usual names, and one source made of them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedbench.array_types import Ints
from embedbench.errors import UserError
from embedbench.files.known_names import describe_spelling, one_spelling, read_split
from embedbench.files.sample_metadata import SPLITS, TEST, TRAIN, VAL

from .source import Content, Source


def official_split(parts: Mapping[str, int | None]) -> tuple[dict[str, int], str]:
    """Return what each part is in the official split, and what is no matter of course in it.

    No part is returned if there is no official split. Without a test part, the validation part is
    the test part, as ImageNet's is. A test part alone is a split: all samples are in it. `parts`
    has TRAIN, VAL, TEST or None by the name that the data set gives the part.

    >>> official_split({"train": TRAIN, "dev": VAL})
    ({'train': 0, 'dev': 2}, 'dev is the test part, as there is no other')
    """
    known = {name: part for name, part in parts.items() if part is not None}
    if not set(known.values()) - {TRAIN}:
        return {}, "no official split; --split decides, by default 0.3 by hash"
    remarks = []
    if TEST not in known.values():
        moved = ", ".join(name for name, part in known.items() if part == VAL)
        remarks.append(f"{moved} is the test part, as there is no other")
        known = {name: TEST if part == VAL else part for name, part in known.items()}
    if TRAIN not in known.values():
        remarks.append("no part for training; --split 0.2 makes another split")
    return known, "; ".join(remarks)


@dataclass(frozen=True)
class Part:
    """One part of a data set, as a library reads it.

    Parameters
    ----------
    name : str
        The name that the data set gives it.
    role : int or None
        TRAIN, VAL or TEST; None: it is none of them.
    labels : sequence of str or None
        (n,) names of classes; None: the sample has no label and is left out.
    classes : sequence of str
        (C,) all names in order; none: those among the labels of all parts, whole numbers by value.
    read : callable
        Function from a sample's number in the part to its content.
    columns : mapping
        Values (n,) of `domain`, `group` and `time`, where there are any.
    place : callable
        Function from a sample's number to where it is, for people.
    """

    name: str
    role: int | None
    labels: Sequence[str | None]
    classes: Sequence[str]
    read: Callable[[int], Content]
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    place: Callable[[int], str] = "row {}".format

    @cached_property
    def labelled(self) -> list[int]:
        """The numbers of the samples that have a label."""
        return [row for row, label in enumerate(self.labels) if label is not None]


def name_labels(values: Sequence[int | None], names: Sequence[str], where: str) -> list[str | None]:
    """Return the names of classes; None for a missing one, which is below 0 in some data sets.

    A number that has no name is a UserError; `where` is the list that has it.

    >>> name_labels([1, None, -1], ["cat", "dog"], "column 'label'")
    ['dog', None, None]
    """
    if not all(isinstance(name, str) for name in names):
        raise UserError(f"{where} has names of classes that are no texts", "get it again")
    for row, value in enumerate(values):
        if value is not None and value >= len(names):
            raise UserError(
                f"{where} has class {value} in row {row}, and names {len(names)} classes from 0",
                "it is damaged, or another data set's: get it again",
            )
    return [None if value is None or value < 0 else names[value] for value in values]


def cut_part(part: Part, split: Sequence[str | None], where: str) -> list[Part]:
    """Return the parts of a table whose column (n,) says of each row which part it is in.

    Raises
    ------
    UserError
        A value is no name of a part.
    """
    texts = np.array([text or "" for text in split], np.str_)
    roles = read_split(texts, f"the split column of {where}")
    return [_rows_of(part, role, np.flatnonzero(roles == role)) for role in np.unique(roles)]


def _rows_of(part: Part, role: int, rows: Ints) -> Part:
    """Return some rows of a part as a part of their own."""

    def read(i: int) -> Content:
        return part.read(int(rows[i]))

    return Part(
        name=SPLITS[role],
        role=int(role),
        labels=[part.labels[row] for row in rows],
        classes=part.classes,
        read=read,
        columns={name: [values[row] for row in rows] for name, values in part.columns.items()},
        place=lambda i: part.place(int(rows[i])),
    )


def join_parts(name: str, parts: Sequence[Part], facts: Iterable[str], **given: Any) -> Source:
    """Return one source of several parts; its remark is a line that says what became of each.

    `facts` are phrases that the line begins with, `given` other fields of the source. A sample is
    named by what its part is, and its number there: `train/00000`.
    """
    lost = _describe_unlabelled(parts)
    parts = [part for part in parts if part.labelled]
    if not parts:
        raise UserError(f"{name} has no sample with a label", "choose another data set or column")
    samples: list[PartSample] = []
    listed: list[str] = []  # the classes that parts declare
    for part in parts:
        samples += [PartSample(part, row) for row in part.labelled]
        listed += part.classes
    written = sorted({*[sample.label for sample in samples], *listed})
    spelling = one_spelling(written)
    labels = [spelling[sample.label] for sample in samples]
    classes = list(dict.fromkeys(spelling[label] for label in listed))
    if not classes:  # by their names, those that are numbers by value
        classes = sorted(set(labels), key=lambda name: (len(name) if name.isdigit() else 0, name))
    index = {label: i for i, label in enumerate(classes)}
    official, remark = official_split({part.name: part.role for part in parts})
    roles = [official.get(sample.part.name, TRAIN) for sample in samples]
    sizes = _describe_sizes(parts, official)
    said = describe_spelling(written, "class")
    line = [*facts, f"{len(index)} classes", sizes, lost, remark, said]
    columns: dict[str, Any] = {
        column: np.array([sample.part.columns[column][sample.row] for sample in samples])
        for column in parts[0].columns
    }
    return Source(
        name=name,
        ids=_numbered_ids(roles),
        labels=np.array([index[label] for label in labels], np.int64),
        classes=tuple(index),
        parents=np.full(len(index), -1, np.int64),
        read=lambda i: samples[i].part.read(samples[i].row),
        split=np.array(roles, np.uint8) if official else None,
        remark=f"{name}: {'; '.join(filter(None, line))}.",
        **columns,
        **given,
    )


class PartSample(NamedTuple):
    """A sample by its number in its part."""

    part: Part
    row: int

    @property
    def label(self) -> str:
        return self.part.labels[self.row] or ""


def _numbered_ids(roles: Sequence[int]) -> tuple[str, ...]:
    """Ids that count the samples of each role: `train/00000`."""
    numbers: dict[int, Iterator[int]] = {role: count() for role in roles}
    return tuple(f"{SPLITS[role]}/{next(numbers[role]):05d}" for role in roles)


def _describe_sizes(parts: Sequence[Part], official: Mapping[str, int]) -> str:
    """How many samples each part has, by its role in the official split."""
    if not official and parts[0].role == TRAIN:  # it is no split yet
        return f"{sum(len(part.labelled) for part in parts):,} samples"
    sizes = []
    for part in parts:
        role = SPLITS[official[part.name]] if official else part.name
        name = role if part.name == role else f"{role} ({part.name})"
        sizes.append(f"{name} {len(part.labelled):,}")
    return ", ".join(sizes)


def _describe_unlabelled(parts: Sequence[Part]) -> str:
    """Return how many samples have no label, and where the first is; empty if all have one."""
    missing = []
    for part in parts:
        missing += [part.place(row) for row, label in enumerate(part.labels) if label is None]
    if not missing:
        return ""
    return f"left out {len(missing):,} samples without a label (first {missing[0]})"


# --- addresses: `hfds/NAME?KEY=VALUE&KEY=VALUE@PLACE` ---


def parse_address(source: str, *, path_first: bool = False) -> tuple[str, dict[str, str], str]:
    """Return the name behind its prefix, the options, and the text after `@`.

    With `path_first`, a name that begins with a path that is there is this path, though it may hold
    a `?` or `@`; the longest one counts.

    >>> parse_address("hfds/org/set?label=wnid&domain=@main")
    ('org/set', {'label': 'wnid', 'domain': ''}, 'main')
    """
    address = source.partition("/")[2]
    path = _longest_path(address) if path_first else ""
    behind, _, place = address[len(path) :].partition("@")
    behind, _, query = behind.partition("?")
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        key, equals, value = pair.partition("=")
        if not equals or key in options:
            raise UserError(
                f"{source} has {pair!r} behind its '?'; expected KEY=VALUE&KEY=VALUE, each key "
                "once, and quotes around the whole in a shell"
            )
        options[key] = value
    return path + behind, options, place


def _longest_path(address: str) -> str:
    """Return the longest beginning of an address, up to a `?`, an `@` or its end, that exists."""
    ends = [len(address), *(i for i, letter in enumerate(address) if letter in "?@")]
    for end in sorted(ends, reverse=True):
        if end and find_path(address[:end]) is not None:
            return address[:end]
    return ""


def find_path(name: str) -> Path | None:
    """Return the path of a file or folder that is there, or a link; None: there is none.

    What exists under the name as it stands is meant; else `~` is a home directory.
    """
    for written in (name, os.path.expanduser(name)):
        try:
            os.lstat(written)
        except (OSError, ValueError):  # a zero byte is a ValueError
            continue
        return Path(written)
    return None
