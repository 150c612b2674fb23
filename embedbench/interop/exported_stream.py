"""Export a stream as files for other tools: the samples of each session, with labels.

docs/answers.md describes the files. `stream.json` is written last.
"""

import csv
import io
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from embedbench.array_types import Bools, Ints
from embedbench.config.format_versions import check_schema
from embedbench.config.json_records import ABSENT, JsonRecord, parse_json
from embedbench.config.plain_numbers import has_only_digits
from embedbench.errors import UserError, short
from embedbench.runs.run_task import Task
from embedbench.runs.stream_metadata import record_stream
from embedbench.scores.run_record import DescribedStream
from embedbench.storage import atomic_write, regular_files, value_digest
from embedbench.streams import view
from embedbench.streams.class_order import number_of
from embedbench.streams.stream import Stream, eval_parts, view_columns
from embedbench.text.undecoded_text import check_text

NAME = "embedbench-stream"
PLAIN, BLACK = "1.0", "1.1"  # of which the later one has a black pixel, -1, among its columns
MOST = 2**30  # sessions times classes
_DIRECTORY = re.compile(r"\w[\w.-]{0,190}-[0-9a-f]{8}", re.ASCII)
_RUN = re.compile(r"seed-\d{1,19}(-(order|init|batches|memory)\d{1,19})*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SessionEntry(JsonRecord):
    """One session: the classes that it introduces, its samples, and its column permutation."""

    introduces: tuple[int, ...]
    train: int
    val: int
    columns: tuple[int, ...] | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class EvalEntry(JsonRecord):
    """One eval set: its classes, its samples, and its column permutation."""

    classes: tuple[int, ...]
    test: int
    columns: tuple[int, ...] | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class ExportedStream(DescribedStream):
    """The contents of `stream.json`.

    In addition to what a record says of a stream:

    Parameters
    ----------
    digest : str
        What answers name: of the four digests, the classes that sessions introduce, and their size.
    directory, run : str
        Where the runs of a learner on this stream lie: `RUNS/directory/LEARNER/run`.
    samples : tuple of str
        Digests of the sample lists of the files.
    """

    digest: str
    directory: str
    run: str
    samples: tuple[str, ...]
    input_shape: tuple[int, ...]
    sessions: tuple[SessionEntry, ...]
    eval_sets: tuple[EvalEntry, ...]

    @classmethod
    def from_json(cls, data: Any, name: str = "the stream") -> Self:
        """Read and check a stream; `name` is the path to show in errors."""
        if isinstance(data, dict):
            remedy = "embedbench show FILE --protocol NAME --export DIR writes it"
            newest = f"{NAME}/{BLACK}"
            check_schema(name, data.get("schema"), newest, remedy, earlier=[PLAIN])
        stream = super().from_json(data, name)
        if not stream._is_whole():
            raise UserError(
                f"{name} was changed: its parts do not fit each other, or its digest",
                "export the stream again",
            )
        return stream

    @property
    def n_labels(self) -> int:
        """C, the number of classes; labels are below it."""
        return sum(map(len, self.classes))

    @property
    def identity(self) -> str:
        """The value that `digest` must have."""
        sizes = np.array(self.n_train, dtype=np.int64)
        introduced = (np.array(s.introduces, dtype=np.int64) for s in self.sessions)
        return value_digest.digest(*vars(self.digests).values(), sizes, *introduced)

    def mask(self, classes: Sequence[int]) -> Bools:
        """(C,) Whether a class is among `classes`."""
        result = np.zeros(self.n_labels, dtype=np.bool_)
        result[list(classes)] = True
        return result

    def seen(self) -> Bools:
        """(T, C) The classes seen after each session."""
        new = [self.mask(s.introduces) for s in self.sessions]
        return np.logical_or.accumulate(np.stack(new), axis=0)

    def _is_whole(self) -> bool:
        """Whether its parts agree, and can be those of a stream."""
        named = list(itertools.chain(*[session.introduces for session in self.sessions]))
        named += itertools.chain(*[test.classes for test in self.eval_sets])
        size = max(len(self.sessions), len(self.eval_sets)) * self.n_labels
        if not (self.sessions and self.eval_sets and size <= MOST):
            return False
        if not all(0 <= label < self.n_labels for label in named):
            return False
        if tuple(session.train for session in self.sessions) != self.n_train:
            return False
        if not (_DIRECTORY.fullmatch(self.directory) and _RUN.fullmatch(self.run)):
            return False
        return self.digest == self.identity


STREAM, FEATURES = "stream.json", "features.npy"
LISTS = ("train.csv", "val.csv", "test.csv")
COLUMNS = ["session", "row", "sample", "label"]
LONGEST = 2**30  # bytes of a list
BLOCK = 4096  # rows of features that are written at once


@dataclass(frozen=True)
class EvalList:
    """The samples of all eval sets, in order.

    Parameters
    ----------
    rows, labels, sets : array of int
        (n,) row in the file, class, and number of the eval set, which does not decrease.
    """

    rows: Ints
    labels: Ints
    sets: Ints


def describe_stream(task: Task) -> ExportedStream:
    """The contents of `stream.json` for a run's stream."""
    stream = task.stream
    spec = task.spec
    limited = any(e.candidates is not None for e in stream.eval_sets)
    if stream.spec.multilabel or limited or len(task.files) > 1:
        raise UserError(
            f"{spec.protocol.name} makes a stream with several files, several labels a sample, or "
            "answers among some of the classes, which cannot be exported",
            "take a protocol such as incremental-class",
        )
    sessions = [
        SessionEntry(
            introduces=tuple(session.classes.tolist()),
            train=len(session.x),
            val=len(session.val_x),
            columns=_columns(session.x),
        )
        for session in stream.sessions
    ]
    eval_sets = [
        EvalEntry(
            classes=tuple(np.flatnonzero(test.classes).tolist()),
            test=len(test.x),
            columns=_columns(test.x),
        )
        for test in stream.eval_sets
    ]
    exported = record_stream(task).extend(
        ExportedStream,
        schema=f"{NAME}/{_version(stream)}",
        digest="",  # follows from the rest
        directory=task.run_dir.relative_to(task.root).parts[0],
        run=task.run_dir.name,
        samples=stream.samples,
        input_shape=stream.without_layers().spec.input_shape,
        sessions=tuple(sessions),
        eval_sets=tuple(eval_sets),
    )
    return replace(exported, digest=exported.identity)


def _columns(x: view.View) -> tuple[int, ...] | None:
    """The column permutation of some samples; None where columns stay in their places."""
    return tuple(view_columns(x).tolist()) or None


def _version(stream: Stream) -> str:
    """The format version: the earliest that has all that the stream needs."""
    views = [session.x for session in stream.sessions]
    views += [test.x for test in stream.eval_sets]
    is_black = any((view_columns(x) < 0).any() for x in views)
    return BLACK if is_black else PLAIN


def label_notes(stream: ExportedStream) -> tuple[str, ...]:
    """A sentence where classes are named by numbers that are not their labels."""
    for label, name in enumerate(itertools.chain(*stream.classes)):
        number = number_of(name)
        if number is not None and number != label:
            return (
                "labels are positions in `classes` of stream.json, and not the numbers that are "
                f"names: label {label} is the class {name!r}",
            )
    return ()


def export(task: Task, directory: Path, *, features: bool = False) -> ExportedStream:
    """Write a run's stream to a directory; what lies there is replaced.

    Parameters
    ----------
    features : bool
        Whether to write the features too, scaled as learners get them.
    """
    exported = describe_stream(task)
    check_text(exported.to_json(), "what stream.json holds")
    stream = task.stream.without_layers()
    names = task.files[0].sample_ids
    sessions = stream.sessions
    parts = (
        [(s.ids, s.y) for s in sessions],
        [(s.val_ids, s.val_y) for s in sessions],
        [(e.ids, e.y) for e in stream.eval_sets],
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in (STREAM, FEATURES):  # features of another stream must not stay
            (directory / name).unlink(missing_ok=True)
    except OSError as e:
        raise UserError(f"cannot write to {directory} ({e.strerror})", "name another one") from e
    for name, lists in zip(LISTS, parts, strict=True):
        atomic_write.write_safely(directory / name, _list_text(lists, names))
    if features:
        _write_features(stream, directory / FEATURES)
    atomic_write.write_safely(directory / STREAM, json.dumps(exported.to_json(), indent=1) + "\n")
    return exported


def _list_text(lists: Sequence[tuple[Ints, Any]], names: Any) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, (rows, labels) in enumerate(lists):
        samples = names[rows].tolist()
        listed = zip(rows.tolist(), samples, labels.tolist(), strict=True)
        writer.writerows((number, *line) for line in listed)
    return text.getvalue()


def _write_features(stream: Stream, path: Path) -> None:
    """Write the table behind a stream of one file, (N, *input_shape) float32, block by block."""
    first_view = stream.sessions[0].x
    table = view.table_of(first_view)
    width = first_view.width
    n = len(table.values)
    with atomic_write.writing(path) as temporary:
        array = np.lib.format.open_memmap(
            temporary, "w+", dtype="<f4", shape=(n, *stream.spec.input_shape)
        )
        for first in range(0, n, BLOCK):
            rows = np.arange(first, min(first + BLOCK, n))
            array[rows] = view.View(table, rows, width).numpy()


def load(directory: Path) -> tuple[ExportedStream, EvalList]:
    """Read an exported stream, and its test samples."""
    path = directory / STREAM
    lists = directory / LISTS[2]
    if not path.is_file():
        raise UserError(
            f"{directory} holds no {STREAM}",
            "embedbench show FILE --protocol NAME --export DIR writes it",
        )
    stream = ExportedStream.from_json(
        parse_json(regular_files.read_text(path), str(path)), str(path)
    )
    tests = _read_list(lists)
    sizes = [e.test for e in stream.eval_sets]
    fits = min(sizes) >= 0 and sum(sizes) == len(tests.sets)  # nothing is allocated by what it says
    if not (
        fits
        and np.array_equal(tests.sets, np.repeat(np.arange(len(sizes)), sizes))
        and _digest(stream, tests) == stream.digests.eval
    ):
        raise UserError(
            f"{lists} does not list the test samples of {STREAM} beside it: the digest differs",
            "export the stream again",
        )
    return stream, tests


def _digest(stream: ExportedStream, tests: EvalList) -> str:
    """The digest of the test data."""
    covered = [
        eval_parts(
            "test",
            tests.rows[tests.sets == number],
            tests.labels[tests.sets == number],
            stream.mask(e.classes),
            np.array(e.columns or (), dtype=np.int64),
            None,
        )
        for number, e in enumerate(stream.eval_sets)
    ]
    return value_digest.digest("eval", *stream.samples, *itertools.chain(*covered))


def _read_list(path: Path) -> EvalList:
    """The samples of a list."""
    lines = csv.reader(io.StringIO(regular_files.read_text(path, LONGEST)), strict=True)
    values: list[tuple[int, int, int]] = []
    try:
        if next(lines, None) != COLUMNS:
            raise ValueError(f"expected the columns {', '.join(COLUMNS)}")
        for session, row, _, label in lines:
            if not (has_only_digits(session) and has_only_digits(row) and has_only_digits(label)):
                raise ValueError(f"expected whole numbers, got {short([session, row, label])}")
            values.append((int(row), int(label), int(session)))
        table = np.array(values, dtype=np.int64).reshape(-1, 3)
    except (csv.Error, OverflowError, ValueError) as e:
        raise UserError(f"{path}, line {lines.line_num}: {e}", "export the stream again") from None
    return EvalList(*np.ascontiguousarray(table.T))
