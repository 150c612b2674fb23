"""Predictions: what a learner answered, for every test sample at every evaluation moment.

They are the ground truth of a run: every score is a pure function of them. docs/predictions.md
describes the layout of `predictions.h5`, so that it can be read without this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Bools, Ints
from embedbench.disk import writing
from embedbench.errors import UserError

VERSION = "1.0"

Answers = NDArray[np.int32]


class Kept:
    """Arrays stored as one HDF5 file with one dataset each; subclasses are dataclasses.

    `FORMAT` is the name of the format. `MASKS` names the bool fields, which are stored as 0 and 1.
    """

    FORMAT: ClassVar[str]
    MASKS: ClassVar[tuple[str, ...]]

    def save(self, path: Path) -> None:
        """Write the file completely or not at all."""
        with writing(path) as temporary, h5py.File(temporary, "w") as f:
            f.attrs["format"] = self.FORMAT
            f.attrs["format_version"] = VERSION
            for name in (x.name for x in fields(self)):  # type: ignore[arg-type]  # subclasses are
                value = getattr(self, name)
                if value.dtype == np.bool_:
                    value = value.astype(np.uint8)  # h5py's booleans are an enum of its own
                # neighbouring answers are often equal: gzip makes them about ten times smaller
                f.create_dataset(name, data=value, compression="gzip", shuffle=True)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a `predictions.h5`."""
        kind, version = format_of(path)
        if (kind, version) != (cls.FORMAT, VERSION):
            raise UserError(
                f"{path} is not {cls.FORMAT} version {VERSION}: it says {kind!r} {version!r}"
            )
        with _readable(path) as f:
            values = {x.name: f[x.name][()] for x in fields(cls)}  # type: ignore[arg-type]  # likewise
        for name in cls.MASKS:
            values[name] = values[name].astype(np.bool_)
        return cls(**values)


def format_of(path: Path) -> tuple[Any, Any]:
    """Name and version of the format, as stated in the file."""
    with _readable(path) as f:
        return f.attrs.get("format"), f.attrs.get("format_version")


@contextmanager
def _readable(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, "r") as f:
            yield f
    except (OSError, KeyError) as e:
        raise UserError(
            f"{path} cannot be read as predictions ({e}); run that cell again with --overwrite"
        ) from e


@dataclass(frozen=True)
class Predictions(Kept):
    """Answers of one run. M moments, n test samples, E eval sets, C classes.

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

    FORMAT: ClassVar[str] = "embedbench-predictions"
    MASKS: ClassVar[tuple[str, ...]] = ("set_classes", "seen")
