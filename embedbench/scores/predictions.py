"""Predictions: what a learner answered, for every test sample at every evaluation moment.

They are the ground truth of a run: every score is a pure function of them. docs/predictions.md
describes the layout of `predictions.h5`, so that it can be read without this module.
"""

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Array, Bools, Float32s, Ints
from embedbench.storage import safe_hdf5
from embedbench.storage.atomic_write import writing

VERSIONS = "1.0", "1.1"  # without and with optional tables
LIBVER = ("v108", "v108")

Answers = NDArray[np.int32]
Ranks = NDArray[np.uint16]
Singles = Float32s
_INT, _ANSWER, _BYTE, _RANK, _SINGLE = "<i8", "<i4", "|u1", "<u2", "<f4"
UNRANKED = 65535  # the true class is no candidate yet, or a score was NaN
LAST_RANK = 65534  # this place or a later one
ROUNDING = 1e-5  # of a probability computed from its logarithm in float32, and to spare


class ArrayFile:
    """Arrays stored as one HDF5 file with one dataset each; subclasses are dataclasses.

    `FORMAT` is the name of the format. `TABLES` names the stored type of each field and its axes;
    axes with one letter are of one length. `OPTIONAL` likewise those of version 1.1, whose fields
    are None where a file lacks them. `MASKS` names the bool fields, which are stored as 0 and 1.
    `MOMENTS` are the tables that both formats have.
    """

    FORMAT: ClassVar[str]
    TABLES: ClassVar[dict[str, tuple[str, str]]]
    OPTIONAL: ClassVar[dict[str, tuple[str, str]]] = {}
    MASKS: ClassVar[tuple[str, ...]]
    MOMENTS: ClassVar[dict[str, tuple[str, str]]] = {
        "session": (_INT, "M"),
        "samples_seen": (_INT, "M"),
        "seen": (_BYTE, "MC"),
    }

    ids: Ints
    session: Ints
    samples_seen: Ints
    seen: Bools

    def __repr__(self) -> str:
        """Three lines: moments and classes, samples, and the arrays with their shapes."""
        shapes = ", ".join(f"{name} {value.shape}" for name, value in self._arrays())
        return (
            f"<{type(self).__name__} of {len(self.ids):,} samples at {len(self.session)} moments\n"
            f" {self.session[-1] + 1} sessions, {self.seen.shape[1]} classes, "
            f"{self.samples_seen[-1]:,} training samples\n"
            f" {shapes}>"
        )

    def _arrays(self) -> Iterator[tuple[str, Array]]:
        """The arrays that are there, by name."""
        values = ((x.name, getattr(self, x.name)) for x in fields(self))  # type: ignore[arg-type]  # subclasses are
        return ((name, value) for name, value in values if value is not None)

    @property
    def version(self) -> str:
        """The version of the format that it is saved in: the earliest that holds all its tables."""
        return VERSIONS[any(name in self.OPTIONAL for name, _ in self._arrays())]

    def save(self, path: Path) -> None:
        """Write the file completely or not at all."""
        # version 1.8 of HDF5's format has checksums of its structure
        with writing(path) as temporary, h5py.File(temporary, "w", libver=LIBVER) as f:
            f.attrs["format"] = self.FORMAT
            f.attrs["format_version"] = self.version
            for name, value in self._arrays():
                if value.dtype == np.bool_:
                    value = value.astype(np.uint8)  # h5py's booleans are an enum of its own
                # Neighbouring answers are often equal: gzip makes them about ten times smaller. Of
                # floating-point numbers it finds a quarter, at its lowest level as at others.
                level = 1 if value.dtype.kind == "f" else 4
                f.create_dataset(
                    name, data=value, compression="gzip", compression_opts=level, shuffle=True
                )
        safe_hdf5.trust(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a `predictions.h5`.

        Raises
        ------
        UserError
            The file cannot be read, or holds what no run can have answered.
        """
        with readable(path) as f:
            return cls.read(f)

    @classmethod
    def read(cls, f: h5py.File) -> Self:
        """Read and check an open `predictions.h5`; only inside `readable`."""
        stated = f.attrs.get("format"), f.attrs.get("format_version")
        versions = VERSIONS if cls.OPTIONAL else VERSIONS[:1]
        if stated not in [(cls.FORMAT, version) for version in versions]:
            expected = f"{cls.FORMAT} version {' or '.join(versions)}"
            raise WrongError(f"expected {expected}, it says {stated}")
        later = cls.OPTIONAL if stated[1] == VERSIONS[1] else {}
        tables = cls.TABLES | {name: table for name, table in later.items() if name in f}
        sizes: dict[str, int] = {}
        values = {}
        chunks = sorted(
            (chunk.byte_offset, chunk.byte_offset + chunk.size)
            for name in tables
            for chunk in _chunks(_table(f, name))
        )
        ends = itertools.pairwise(chunks)
        demand(all(a[1] <= b[0] for a, b in ends), "two tables have bytes in common")
        for name, (kind, axes) in tables.items():
            value = _values(f, name, kind, axes, sizes)
            if name in cls.MASKS:
                demand(bool((value <= 1).all()), f"{name} must hold 0 and 1 only")
                value = value.astype(np.bool_)
            values[name] = value
        result = cls(**values)
        demand(result.version == stated[1], "version 1.1 must have the table rank")
        result.check()
        return result

    def check(self) -> None:
        """Refuse values that no run can have written.

        Raises
        ------
        WrongError
            The first one, in words.
        """
        session, samples, seen = self.session, self.samples_seen, self.seen
        demand(len(session) > 0, "it has no evaluation moment")
        steps = np.diff(session, prepend=-1)
        demand(
            steps[0] == 1 and bool(np.isin(steps, (0, 1)).all()),
            "session must begin at 0 and go up by one",
        )
        demand(
            samples[0] >= 0 and bool((samples[1:] >= samples[:-1]).all()),
            "samples_seen must not be negative nor decrease",
        )
        demand(bool((seen[1:] >= seen[:-1]).all()), "seen must lose no class")


class WrongError(ValueError):
    """The fault of the predictions in a file, in words."""


def demand(holds: bool | np.bool_, what: str) -> None:
    """Raise `WrongError(what)` unless it holds."""
    if not holds:
        raise WrongError(what)


def inside(values: Array, low: int, high: int, name: str) -> None:
    """Refuse integers outside `low` … `high`."""
    if values.size and not low <= int(values.min()) <= int(values.max()) <= high:
        raise WrongError(
            f"{name} must lie in {low} to {high}, got {values.min()} to {values.max()}"
        )


def readable(path: Path) -> AbstractContextManager[h5py.File]:
    """Open a `predictions.h5`; whatever is wrong with it is a `UserError`."""
    return safe_hdf5.open_hdf5(
        path, what="predictions", remedy="make that run again with --overwrite"
    )


def _table(f: h5py.File, name: str) -> h5py.Dataset:
    table = f.get(name)
    if not isinstance(table, h5py.Dataset):
        raise WrongError(f"the table {name} is missing")
    return table


def _values(f: h5py.File, name: str, kind: str, axes: str, sizes: dict[str, int]) -> Array:
    """The values of a table; `sizes` holds the lengths of the axes that earlier tables have."""
    table = _table(f, name)
    if not table.id.get_type().equal(h5py.h5t.py_create(np.dtype(kind))):
        raise WrongError(f"{name} must be {np.dtype(kind)}, it is {table.dtype}")
    shape = table.shape
    if shape is None or len(shape) != len(axes):
        raise WrongError(f"{name} must have the axes ({', '.join(axes)}), its shape is {shape}")
    expected = tuple(sizes.setdefault(a, n) for a, n in zip(axes, shape, strict=True))
    demand(shape == expected, f"{name} must have shape {expected}, it has {shape}")
    return np.asarray(table[()])


def _chunks(table: h5py.Dataset) -> list[Any]:
    """The places of the chunks of a table."""
    if table.chunks is None:
        raise WrongError(f"{table.name} is not compressed")
    chunks: list[Any] = []
    table.id.chunk_iter(chunks.append)
    return chunks


@dataclass(frozen=True, repr=False)
class Predictions(ArrayFile):
    """Answers of one run. M moments, n test samples, E eval sets, C classes.

    How sure the learner was is None in a file of version 1.0; `logp`, `true_logp` and `squares` are
    None, too, where a learner's scores give no probabilities.

    Parameters
    ----------
    ids, y, eval_set : array of int
        (n,) opaque sample id, true class, index of the eval set; eval sets are contiguous.
    set_classes : array of bool
        (E, C) classes of each eval set's session, the candidates of the within-session answer.
    session : array of int
        (M,) the session learned last, from 0.
    samples_seen : array of int
        (M,) training samples so far.
    seen : array of bool
        (M, C) classes seen so far, the candidates of the answer.
    answer : Answers
        (M, n) the answer over the classes seen so far; -1 where a score was NaN.
    within : Answers
        (M, n) the answer over the classes of the sample's session; -1 where a score was NaN.
    rank : array of int or None
        (M, n) place of the true class among the candidates of the answer, from 0, at most
        `LAST_RANK`; `UNRANKED` where it is none of them or a score was NaN.
    score : array of float or None
        (M, n) score of the answer, as the learner gave it; NaN where a score was NaN.
    logp, true_logp : array of float or None
        (M, n) log-probability of the answer and of the true class over the candidates; NaN where
        there is no answer, or the true class is unranked.
    squares : array of float or None
        (M, n) the sum of the candidates' squared probabilities; NaN where there is no answer.
    group : array of int or None
        (n,) number of the sample's `group` in the embedding files; None where they have none.
    far_ids : array of int or None
        (k,) opaque sample id of each far sample, of a class that no session has; None without any.
    far_score, far_logp : array of float or None
        (M, k) as `score` and `logp`, of the answers to far samples.
    """

    ids: Ints
    y: Ints
    eval_set: Ints
    set_classes: Bools
    session: Ints
    samples_seen: Ints
    seen: Bools
    answer: Answers
    within: Answers
    rank: Ranks | None = None
    score: Singles | None = None
    logp: Singles | None = None
    true_logp: Singles | None = None
    squares: Singles | None = None
    group: Ints | None = None
    far_ids: Ints | None = None
    far_score: Singles | None = None
    far_logp: Singles | None = None

    FORMAT: ClassVar[str] = "embedbench-predictions"
    TABLES: ClassVar[dict[str, tuple[str, str]]] = {
        "ids": (_INT, "n"),
        "y": (_INT, "n"),
        "eval_set": (_INT, "n"),
        "set_classes": (_BYTE, "EC"),
        **ArrayFile.MOMENTS,
        "answer": (_ANSWER, "Mn"),
        "within": (_ANSWER, "Mn"),
    }
    OPTIONAL: ClassVar[dict[str, tuple[str, str]]] = {
        "rank": (_RANK, "Mn"),
        "score": (_SINGLE, "Mn"),
        "logp": (_SINGLE, "Mn"),
        "true_logp": (_SINGLE, "Mn"),
        "squares": (_SINGLE, "Mn"),
        "group": (_INT, "n"),
        "far_ids": (_INT, "k"),
        "far_score": (_SINGLE, "Mk"),
        "far_logp": (_SINGLE, "Mk"),
    }
    MASKS: ClassVar[tuple[str, ...]] = ("set_classes", "seen")

    @property
    def lacks_within(self) -> bool:
        """Whether answers within the session were not given, as another tool may do.

        From scores both kinds of answers are made.
        """
        return bool((self.within < 0).all() and (self.answer >= 0).any())

    def check(self) -> None:
        """Refuse values that no run can have written."""
        super().check()
        (n_sets, n_classes), eval_set = self.set_classes.shape, self.eval_set
        demand(n_sets > 0, "it has no eval set")
        inside(self.y, 0, n_classes - 1, "y")
        inside(eval_set, 0, n_sets - 1, "eval_set")
        demand((eval_set[1:] >= eval_set[:-1]).all(), "eval_set must not decrease")
        for name in ("answer", "within"):
            inside(getattr(self, name), -1, n_classes - 1, name)
        # the column for -1, no answer, is the last one
        seen, candidates = (
            np.pad(mask, ((0, 0), (0, 1)), constant_values=True)
            for mask in (self.seen, self.set_classes)
        )
        for seen_now, answer, within in zip(seen, self.answer, self.within, strict=True):
            demand(seen_now[answer].all(), "answer must be among the classes seen")
            demand(
                candidates[eval_set, within].all(),
                "within must be among the classes of the sample's session",
            )
        far = ("far_ids", "far_score")
        for names in (("rank", "score"), ("logp", "true_logp", "squares"), far):
            there = {name for name in names if getattr(self, name) is not None}
            demand(len(there) in (0, len(names)), f"only all of {', '.join(names)} can be there")
        if self.rank is None or self.score is None:
            others = self.logp is None and self.group is None and self.far_ids is None
            demand(others, "logp, true_logp, squares, group and far_ids need rank and score")
            return
        self._check_far()
        if self.group is not None:
            demand((self.group >= 0).all(), "group must not be negative")
        for moment in range(len(self.session)):
            self._check_rank(moment, self.rank[moment], self.score[moment])
        if self.logp is None or self.true_logp is None or self.squares is None:
            return
        for moment, (logp, true, squares) in enumerate(
            zip(self.logp, self.true_logp, self.squares, strict=True)
        ):
            self._check_probabilities(moment, self.rank[moment], logp, true, squares)

    def _check_far(self) -> None:
        due = self.far_ids is not None and self.logp is not None
        demand((self.far_logp is not None) == due, "far_logp must be there as logp and far_ids are")
        if self.far_score is not None and self.far_logp is not None:
            same = np.array_equal(np.isnan(self.far_score), np.isnan(self.far_logp))
            demand(same, "far_logp must be NaN exactly where far_score is")
            demand(not (self.far_logp > 0).any(), "far_logp must be at most 0")

    def _check_rank(self, moment: int, rank: Ranks, score: Singles) -> None:
        seen, answer = self.seen[moment], self.answer[moment]
        unranked, n_seen = rank == UNRANKED, int(seen.sum())
        demand(
            np.array_equal(rank == 0, answer == self.y),
            "rank must be 0 exactly where the answer is right",
        )
        demand(
            unranked[~seen[self.y] | (answer < 0)].all(),
            f"rank must be {UNRANKED} where the class was not seen or there is no answer",
        )
        demand(
            (rank[~unranked] < n_seen).all(), "rank must be lower than the number of classes seen"
        )
        demand(
            np.array_equal(np.isnan(score), answer < 0),
            "score must be NaN exactly where there is no answer",
        )

    def _check_probabilities(
        self, moment: int, rank: Ranks, logp: Singles, true: Singles, squares: Singles
    ) -> None:
        none, unranked = self.answer[moment] < 0, rank == UNRANKED
        for name, values, undefined in (
            ("logp", logp, none),
            ("true_logp", true, unranked),
            ("squares", squares, none),
        ):
            demand(np.array_equal(np.isnan(values), undefined), f"{name} is NaN elsewhere than due")
            if name != "squares":
                demand((values[~undefined] <= 0).all(), f"{name} must be at most 0")
        right = rank == 0
        demand(
            np.array_equal(logp[right], true[right]),
            "true_logp must be logp where the answer is right",
        )
        among, given = squares[~none], np.exp(2 * logp[~none].astype(np.float64))
        demand(
            ((among * self.seen[moment].sum() > 1 - ROUNDING) & (among <= 1)).all(),
            "squares must lie between 1 / the number of classes seen and 1",
        )
        demand(
            (given <= among * (1 + ROUNDING)).all(), "squares must be at least exp(logp) squared"
        )
