"""Small, difficult embedding files for the checks of protocols, and streams of them."""

import contextlib
import dataclasses
import itertools
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from embedbench.array_types import Array, Ints
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN, VAL, Samples
from embedbench.files.write_file import write_file
from embedbench.streams.class_subset import choose_classes
from embedbench.streams.feature_tables import Table
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import EvalSet, Session, Stream
from embedbench.streams.view import View, rows_of, table_of

WIDTH = 6
SEEDS = (0, 1, 2)
COMMON: tuple[dict[str, Any], ...] = ({"validation": "none"}, {"classes": 4})
# samples of each leaf class for training, validation and test
KINDS = {
    "plain": [(10, 0, 4)] * 6,
    "brings its validation data": [(6, 2, 3)] * 6,
    "uneven": [(1, 0, 1), (2, 0, 2), (3, 0, 1), (4, 0, 0), (5, 0, 3), (12, 0, 1)],
}

_folder = cache(TemporaryDirectory)  # lasts as long as the process


@cache
def small_file(kind: str, width: int = WIDTH) -> EmbeddingFile:
    """The small file of a kind, written at its first use; two of its leaves have a parent."""
    folder = Path(_folder().name) / str(width)
    folder.mkdir(exist_ok=True)
    train, val, test = zip(*KINDS[kind], strict=True)
    n_classes = len(train)
    labels = np.concatenate([np.repeat(np.arange(n_classes), n) for n in (train, val, test)])
    split = np.repeat([TRAIN, VAL, TEST], [sum(train), sum(val), sum(test)])
    draw = np.random.default_rng(0)
    order = draw.permutation(len(labels))
    samples = Samples(
        ids=np.array([f"{i:03d}.png" for i in range(len(labels))]),
        labels=labels[order],
        split=split[order].astype(np.uint8),
        classes=(*(f"leaf {c}" for c in range(n_classes)), "node"),
        parents=np.array([n_classes, n_classes, *[-1] * (n_classes - 1)]),
    )
    features = draw.normal(size=(len(labels), width)).astype(np.float32)
    made = {"backbone": {"name": "made up"}}
    return write_file(folder / f"{kind}.h5", samples, features, made, columns=_columns(samples))


def _columns(samples: Samples) -> dict[str, Array]:
    """Two domains, each in training and in test; groups of two, some of two classes; times."""
    number = np.zeros(len(samples.ids), dtype=np.int64)
    for role in (TRAIN, VAL, TEST):
        rows = np.flatnonzero(samples.split == role)
        number[rows] = np.arange(len(rows))
    return {
        "domain": np.array(["odd" if n % 2 else "even" for n in number]),
        "group": np.array([f"group {n // 2}" for n in number]),
        "time": -number.astype(np.float64),
    }


@dataclass(frozen=True)
class Case:
    """A stream, its files, and its name in messages; rows are numbered through all files.

    The files have the classes of the stream alone; samples of others have no split.
    """

    where: str
    protocol: type[Protocol]
    files: list[EmbeddingFile]
    stream: Stream
    validation: str

    @property
    def pairs(self) -> list[tuple[Session, EvalSet]]:
        """Each session with its eval set."""
        return list(zip(self.stream.sessions, self.stream.eval_sets, strict=True))

    @cached_property
    def labels(self) -> Ints:
        """(N,) classes of all files' samples."""
        first = np.cumsum([0, *(f.samples.n_leaves for f in self.files[:-1])])
        return np.concatenate([f.labels + c for f, c in zip(self.files, first, strict=True)])

    @cached_property
    def split(self) -> Ints:
        """(N,) roles of all files' samples."""
        return np.concatenate([f.split for f in self.files]).astype(np.int64)

    @cached_property
    def tables(self) -> list[Table]:
        """The tables behind the stream, in order of first use."""
        views: list[View] = []
        for session in self.stream.sessions:
            views += [session.x, session.val_x]
        views += [test.x for test in self.stream.eval_sets]
        by_id = {id(table): table for table in map(table_of, views)}
        return list(by_id.values())

    def file(self, view: View) -> int:
        """Index of the file behind a view; an unknown table counts as the last file's."""
        numbers = [i for i, table in enumerate(self.tables) if table is table_of(view)]
        return min(numbers[0], len(self.files) - 1)

    def rows(self, *views: View) -> Ints:
        """Row numbers of the samples of views."""
        first = np.cumsum([0, *(len(f.labels) for f in self.files)])
        return np.concatenate([rows_of(v) + first[self.file(v)] for v in views])


def build(cls: type[Protocol], kind: str, seed: int, **settings: Any) -> Case:
    """A stream of small files of one kind, with default parameters and a random class order."""
    if any(f.name == "order" for f in dataclasses.fields(cls)):
        settings = {"order": "random", **settings}
    widths = (WIDTH, WIDTH - 2) if cls.several_files else (WIDTH,)
    files = [small_file(kind, width) for width in widths]
    protocol = cls(**settings)
    stream = protocol.build(files, seed=seed)
    order = getattr(protocol, "order", "natural")
    files = [choose_classes(file, protocol.classes, order) for file in files]
    given = "".join(f", {name}={value}" for name, value in settings.items() if name != "order")
    where = f"file {kind!r}, seed {seed}{given}"
    return Case(where, cls, files, stream, protocol.validation)


@lru_cache(maxsize=2)
def all_cases(cls: type[Protocol]) -> list[Case]:
    """Streams of every kind of small file and seed, with each of the settings to check.

    Then those with each of `COMMON`, unless the protocol refuses it, or the file is too small.
    """
    each = itertools.product(KINDS, SEEDS, cls.checked)
    cases = [build(cls, kind, seed, **settings) for kind, seed, settings in each]
    for kind, settings in itertools.product(KINDS, COMMON):
        with contextlib.suppress(UserError):
            cases.append(build(cls, kind, 0, **settings))
    return cases
