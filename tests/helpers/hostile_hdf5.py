"""Hostile changes to the structure of HDF5 files; half of them with the checksum made anew."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from embedbench.files import file_digests, hdf5_layout

Change = Callable[[h5py.File, str, np.random.Generator], None]
HUGE = 10**10
SIGNED = 3  # exit code of the process that made a checksum anew
CHANGES: list[Change] = []


def change(function: Change) -> Change:
    """Add a change to the list."""
    CHANGES.append(function)
    return function


def mutate(path: Path, draw: np.random.Generator) -> bool:
    """Make one or two changes to a file in place; returns whether its checksum was made anew.

    In a process of its own: some structures, once they are changed, crash HDF5.
    """
    child = multiprocessing.get_context("fork").Process(target=_mutate, args=(path, draw))
    child.start()
    child.join()
    assert child.exitcode != 1, "the change itself failed"  # 1: an exception
    return child.exitcode == SIGNED


def _mutate(path: Path, draw: np.random.Generator) -> None:
    with h5py.File(path, "r") as file:
        tables: list[str] = []
        file.visititems(lambda n, i: tables.append(n) if isinstance(i, h5py.Dataset) else None)
    with h5py.File(path, "r+") as file:
        for _ in range(int(draw.integers(1, 3))):
            chosen = CHANGES[draw.integers(len(CHANGES))]
            table = str(draw.choice(tables))
            if table not in file or not isinstance(file.get(table, getlink=True), h5py.HardLink):
                continue
            try:
                chosen(file, table, draw)
            except (ValueError, TypeError, OSError, RuntimeError, KeyError, MemoryError):
                continue  # HDF5 itself refuses
            except AttributeError:
                continue  # the first change has made a group of the table
        signed = bool(draw.integers(2)) and _sign(file)
    os._exit(SIGNED if signed else 0)


def _sign(file: h5py.File) -> bool:
    """Make the checksum anew; whether the structure still has one."""
    try:
        sum_ = file_digests.metadata_digest(file)
        hdf5_layout.set_attribute(file["checksums"], "metadata", sum_)
    except Exception:
        return False
    return True


def replace(file: h5py.File, table: str, values: object) -> None:
    del file[table]
    file[table] = values


@change
def deleted(file: h5py.File, table: str, _: np.random.Generator) -> None:
    del file[table]


@change
def scalar(file: h5py.File, table: str, _: np.random.Generator) -> None:
    replace(file, table, np.int64(3))


@change
def another_type(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    kinds = ["f8", "c16", "i1", "u8", "S1", "b1", [("a", "i4"), ("b", "f4")], "V7"]
    dtype = np.dtype(kinds[draw.integers(len(kinds))])
    replace(file, table, np.zeros(file[table].shape, dtype))


@change
def texts_or_references(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    n = file[table].shape[:1] or (1,)
    del file[table]
    file.create_dataset(table, n, h5py.string_dtype() if draw.integers(2) else h5py.ref_dtype)


@change
def another_rank(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    values = np.asarray(file[table][()])
    replace(file, table, values[..., None] if draw.integers(2) else values.reshape(-1))


@change
def fewer_rows(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    values = file[table][()]
    replace(file, table, values[: int(draw.integers(0, max(1, len(values))))])


@change
def empty(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    dtype = file[table].dtype
    del file[table]
    if draw.integers(2):
        file[table] = h5py.Empty(dtype)
    else:
        file.create_dataset(table, (0, 0), dtype)


@change
def huge_and_late(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    old = file[table]
    shape, dtype = (HUGE, *old.shape[1:]), old.dtype
    del file[table]
    if draw.integers(2):
        file.create_dataset(table, shape, dtype)  # contiguous, allocated late: no bytes
    else:
        chunk = (1024, *old.shape[1:]) if len(shape) > 1 else (1024,)
        file.create_dataset(table, shape, dtype, chunks=chunk, compression="gzip")


@change
def zeros_compressed(file: h5py.File, table: str, _: np.random.Generator) -> None:
    values = np.zeros(1 << 22, file[table].dtype)
    del file[table]
    file.create_dataset(table, data=values, chunks=values.shape, compression="gzip")


@change
def external_bytes(file: h5py.File, table: str, _: np.random.Generator) -> None:
    shape, dtype = file[table].shape, file[table].dtype
    del file[table]
    file.create_dataset(table, shape, dtype, external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


@change
def link(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    targets = [h5py.SoftLink(place) for place in (f"/{table}", "/labels", "/nowhere", "/")]
    targets.append(h5py.ExternalLink("other.h5", "/features"))
    replace(file, table, targets[draw.integers(len(targets))])


@change
def group_instead(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    del file[table]
    group = file.create_group(table)
    if draw.integers(2):
        group["again"] = file["/"]  # a circle of hard links


@change
def virtual(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    shape, dtype = file[table].shape, file[table].dtype
    name = "." if draw.integers(2) else "other.h5"
    source = h5py.VirtualSource(name, table, shape=shape, dtype=dtype)
    del file[table]
    whole = h5py.VirtualLayout(shape=shape, dtype=dtype)
    whole[...] = source
    file.create_virtual_dataset(table, whole)


@change
def attributes(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    where = [file, file[table], *(file[g] for g in ("digests", "checksums") if g in file)]
    item = where[draw.integers(len(where))]
    names = [*item.attrs, "new"]
    name = str(draw.choice(names))
    values = [np.float64("nan"), np.zeros((3, 3)), "\x1b[31mred\x07", b"\xff\xfe", "x" * 60000, -1]
    pick = int(draw.integers(len(values) + 1))
    if pick == len(values):
        del item.attrs[name]
    else:
        item.attrs[name] = values[pick]


@change
def other_values(file: h5py.File, table: str, draw: np.random.Generator) -> None:
    data = file[table]
    kind = data.dtype.kind
    if kind == "f":
        data[0] = draw.choice([np.nan, np.inf, -np.inf])
    elif kind in "iu":
        info = np.iinfo(data.dtype)
        data[0] = draw.choice([info.max, info.min, 0])
    else:
        data[...] = np.asarray(b"\xff\x1b[2J{", data.dtype)
