"""The published lists of few-shot class-incremental learning, and the rows that they name.

**Source**: the benchmarks are Tao et al.'s (2020), the lists those of CEC (Zhang et al., 2021) that
later papers use: all training images of session 0, and five of each class after it.
"""

from __future__ import annotations

import gzip
from importlib import resources

import numpy as np

from embedbench.arrays import Ints
from embedbench.errors import UserError
from embedbench.files.file import EmbeddingFile

# classes of session 0, and of each later session
LISTS = {"cifar100": (60, 5), "cub200": (100, 10), "mini-imagenet": (60, 5)}
SHOT = 5
CIFAR = 50_000  # training samples of CIFAR-100; its lists number them


def read_list(name: str) -> list[list[str]]:
    """The lines of each session's list: numbers of training images (CIFAR-100), or their paths."""
    asset = resources.files("embedbench") / "assets" / "fscil" / f"{name}.txt.gz"
    text = gzip.decompress(asset.read_bytes()).decode()
    return [session.splitlines() for session in text.split("\n\n")]


def listed_rows(name: str, file: EmbeddingFile, pool: Ints) -> list[Ints]:
    """The rows that the list of each session names, in its order.

    The lists of CIFAR-100 hold numbers: those of sample ids `train/NUMBER`, or else positions in
    `pool`. The other lists hold paths, which are matched by their last part, the image's name.

    Parameters
    ----------
    pool : array of int
        Rows of the file's training samples, (n,), ascending.

    Raises
    ------
    UserError
        A listed sample is missing, or a session's samples are of unexpected classes.
    """
    sessions = read_list(name)
    numbered = name == "cifar100"
    row = _by_number(file, pool) if numbered else _by_name(file, pool)
    keys = [[_last(line) for line in lines] for lines in sessions]
    missing = [line for lines in sessions for line in lines if _last(line) not in row]
    if missing:
        raise UserError(
            f"the lists of {name} name {sum(map(len, sessions))} training images, and "
            f"{len(missing)} of them are not among the training samples of {file.path.name}, the "
            f"first {missing[0]!r}; extract the data set with its official split and sample ids"
        )
    rows = [np.array([row[key] for key in session], dtype=np.int64) for session in keys]
    _check_classes(name, file, rows)
    return rows


def _by_number(file: EmbeddingFile, pool: Ints) -> dict[str, int]:
    """Row of each training sample by its number in the data set."""
    if len(pool) != CIFAR:
        raise UserError(
            f"the lists of cifar100 count its {CIFAR} training samples, and {file.path.name} has "
            f"{len(pool)}; extract the whole data set with its official split"
        )
    ids = file.sample_ids[pool].tolist()
    tails = [i.removeprefix("train/") for i in ids]
    numbered = all(
        i != tail and tail.isdecimal() and len(tail) < 9 for i, tail in zip(ids, tails, strict=True)
    )
    numbers = map(int, tails) if numbered else range(CIFAR)
    return dict(zip(map(str, numbers), pool.tolist(), strict=True))


def _by_name(file: EmbeddingFile, pool: Ints) -> dict[str, int]:
    """Row of each training sample by the last part of its id."""
    return dict(zip(map(_last, file.sample_ids[pool].tolist()), pool.tolist(), strict=True))


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _check_classes(name: str, file: EmbeddingFile, rows: list[Ints]) -> None:
    """Refuse a file whose labels do not fit the lists."""
    base, way = LISTS[name]
    seen: set[int] = set()
    for k, taught in enumerate(rows):
        classes, counts = np.unique(file.labels[taught], return_counts=True)
        expected = way if k else base
        new = {*classes.tolist()} - seen
        if len(new) != expected or len(classes) != expected or (k and (counts != SHOT).any()):
            raise UserError(
                f"session {k} of {name} should have {expected} new classes"
                f"{f' of {SHOT} samples each' if k else ''}, and the samples of {file.path.name} "
                f"that its list names are of {len(classes)} classes, {len(new)} of them new: the "
                "file has its samples or labels in another order; extract the data set again"
            )
        seen |= new
