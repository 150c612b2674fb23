"""Arrays stored as one HDF5 file: written whole, read and checked; `predictions.h5` is one."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, get_origin, get_type_hints

import numpy as np

from embedbench.array_types import Array, Bools, Ints
from embedbench.config.format_versions import check_version
from embedbench.errors import UserError, short
from embedbench.storage.atomic_write import writing

if TYPE_CHECKING:
    import h5py

VERSIONS = "1.0", "1.1"  # without and with optional tables
REMEDY = "make that run again with --overwrite"
INT, BYTE, MASK = "<i8", "|u1", "bool"


class ArrayFile:
    """Arrays stored as one HDF5 file with one dataset each; subclasses are dataclasses.

    A field is `Annotated[type, STORED, AXES]`: its stored type (`MASK` of bools, which are stored
    as 0 and 1), and its axes; axes with one letter are of one length. A field with the default None
    is of version 1.1, and None where a file lacks it. `FORMAT` is the name of the format.
    """

    FORMAT: ClassVar[str]

    ids: Ints
    session: Ints
    samples_seen: Ints
    seen: Bools

    @classmethod
    @functools.cache
    def tables(cls) -> dict[str, tuple[str, str]]:
        """Stored type and axes of each table; those that it inherits from a kind come first."""
        hints = get_type_hints(cls, include_extras=True)
        kinds = [base for base in reversed(cls.__mro__) if is_dataclass(base)]
        names = dict.fromkeys(itertools.chain(*[kind.__annotations__ for kind in kinds]))
        return {
            name: hints[name].__metadata__ for name in names if get_origin(hints[name]) is Annotated
        }

    @classmethod
    def optional(cls) -> set[str]:
        """Tables of version 1.1."""
        return {name for name in cls.tables() if getattr(cls, name, "") is None}

    def __repr__(self) -> str:
        """Say how many samples, moments and classes there are."""
        return (
            f"<{type(self).__name__} of {len(self.ids):,} samples at {len(self.session)} moments, "
            f"{self.seen.shape[1]} classes>"
        )

    def _arrays(self) -> Iterator[tuple[str, Array]]:
        """The arrays that are there, by name."""
        values = ((name, getattr(self, name)) for name in self.tables())
        return ((name, value) for name, value in values if value is not None)

    @property
    def version(self) -> str:
        """The version of the format that it is saved in: the earliest that holds all its tables."""
        return VERSIONS[any(name in self.optional() for name, _ in self._arrays())]

    @property
    def ends(self) -> Ints:
        """(T,) The last moment of each session."""
        return np.flatnonzero(np.append(np.diff(self.session) > 0, True))

    def as_stored(self) -> Self:
        """These arrays as a reader of their file gets them, so that the file need not be read.

        Raises
        ------
        WrongError
            A reader would refuse them: an array is of another type than is stored, or holds what no
            run can have written.
        """
        self.check()
        arrays = dict(self._arrays())
        for name, values in arrays.items():
            stored = _held_type(self.tables()[name][0])
            demand(values.dtype == stored, f"{name} must be {stored}, it is {values.dtype}")
            # a sum of other strides may round in another way
            arrays[name] = np.ascontiguousarray(values)
        made: Self = replace(self, **arrays)  # type: ignore[type-var]
        return made

    def save(self, path: Path) -> str:
        """Write the file completely or not at all; returns the SHA-256 of its bytes."""
        from embedbench.storage import safe_hdf5  # with h5py: slow, and no list of names needs it

        with writing(path) as temporary:
            self._write(temporary)
            with temporary.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        safe_hdf5.trust(path)
        return sha256

    def _write(self, path: Path) -> None:
        from embedbench.storage import safe_hdf5

        with safe_hdf5.create_small_hdf5(path) as f:
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

    @classmethod
    def checked_version(cls, f: h5py.File) -> str | None:
        """The version of an open file, which is one that can be read."""
        name = text_attribute(f, "format")
        version = text_attribute(f, "format_version")
        if name is not None and name != cls.FORMAT and name.startswith("embedbench-"):
            raise UserError(
                f"{f.filename} is of the format {short(name)}, and this embedbench reads "
                f"{cls.FORMAT}",
                "install the embedbench that wrote it, or a newer one",
            )
        if name != cls.FORMAT:
            raise WrongError(f"expected the format {cls.FORMAT}, it says {name}")
        known = VERSIONS if cls.optional() else VERSIONS[:1]
        check_version(f.filename, version, known, REMEDY)
        return version

    @classmethod
    def read(cls, f: h5py.File) -> Self:
        """Read and check an open `predictions.h5`; only inside `readable`."""
        version = cls.checked_version(f)
        optional = cls.optional()
        found = {
            name: _table(f, name)
            for name in cls.tables()
            if name not in optional or (version == VERSIONS[1] and name in f)
        }
        sizes: dict[str, int] = {}
        values = {name: _values(found[name], name, *cls.tables()[name], sizes) for name in found}
        result = cls(**values)
        demand(result.version == version, "version 1.1 must have the table rank")
        result.check()
        return result

    def check(self) -> None:
        """Refuse values that no run can have written, and what is no array of its type and shape.

        Raises
        ------
        WrongError
            It says which table is wrong.
        """
        sizes: dict[str, int] = {}
        for name, (kind, axes) in self.tables().items():
            values = getattr(self, name)
            if values is not None or name not in self.optional():
                _check_array(values, name, kind, axes, sizes)
        session = self.session
        samples = self.samples_seen
        seen = self.seen
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
    from embedbench.storage import safe_hdf5

    return safe_hdf5.open_hdf5(path, what="predictions", remedy=REMEDY, versions=VERSIONS)


def text_attribute(f: h5py.File, key: str) -> str | None:
    """A text attribute; None where there is none."""
    from embedbench.storage import safe_hdf5

    return safe_hdf5.attribute(f, key) if key in f.attrs else None


def _table(f: h5py.File, name: str) -> h5py.Dataset:
    import h5py

    table = f.get(name)
    if not isinstance(table, h5py.Dataset):
        raise WrongError(f"the table {name} is missing")
    return table


def _values(table: h5py.Dataset, name: str, kind: str, axes: str, sizes: dict[str, int]) -> Array:
    """The values of a table; `sizes` holds the lengths of the axes that earlier tables have."""
    import h5py

    stored = np.dtype(BYTE if kind == MASK else kind)
    if not table.id.get_type().equal(h5py.h5t.py_create(stored)):
        raise WrongError(f"{name} must be {stored}, it is {table.dtype}")
    _check_shape(table.shape, name, axes, sizes)
    values = np.asarray(table[()])
    if kind != MASK:
        return values
    demand((values <= 1).all(), f"{name} must hold 0 and 1 only")
    return values.astype(np.bool_)


def _held_type(kind: str) -> np.dtype[Any]:
    """The type of an array in memory that is stored as `kind`."""
    return np.dtype(bool if kind == MASK else kind)


def _check_array(values: object, name: str, kind: str, axes: str, sizes: dict[str, int]) -> None:
    """Refuse what is no array of a kind that is stored as `kind`; `sizes` as in `_values`."""
    stored = _held_type(kind)
    if not isinstance(values, np.ndarray):
        raise WrongError(f"{name} must be an array of {stored}, it is a {type(values).__name__}")
    fits = values.dtype == stored if kind == BYTE else values.dtype.kind == stored.kind
    demand(fits, f"{name} must be {stored}, it is {values.dtype}")
    _check_shape(values.shape, name, axes, sizes)


def _check_shape(
    shape: tuple[int, ...] | None, name: str, axes: str, sizes: dict[str, int]
) -> None:
    if shape is None or len(shape) != len(axes):
        raise WrongError(f"{name} must have the axes ({', '.join(axes)}), its shape is {shape}")
    expected = tuple(sizes.setdefault(a, n) for a, n in zip(axes, shape, strict=True))
    demand(shape == expected, f"{name} must have shape {expected}, it has {shape}")
