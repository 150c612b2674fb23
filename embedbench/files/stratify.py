"""A split in which every class keeps its share, and where a split is far from that."""

import hashlib
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sample_list import TEST, TRAIN

ROUNDS = 20  # most passes over the groups
LEAST = 1e-9  # gains below it are rounding
FAR = 0.5  # a share is far from f if it differs by more than half of min(f, 1 - f)


def stratify_groups(
    groups: Sequence[str], test_fraction: float, labels: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Put whole groups into test so that each class has its share of samples there.

    A class of n samples wants `test_fraction` · n of them in test, rounded half up, and at least
    one on each side if it has two. Groups are gone through in the order of the SHA-256 of their
    names, again and again; each changes sides if that lessens the sum of `_cost` over classes,
    until none does. Where every sample is a group, the wanted numbers are exact.

    Parameters
    ----------
    groups : sequence of str
        (N,) names.
    test_fraction : float
        Between 0 and 1.
    labels : array of int
        (N,) classes.

    Returns
    -------
    array of int
        (N,) TRAIN or TEST.

    >>> stratify_groups(["ann", "ann", "bob", "cy"], 0.3, np.array([0, 1, 0, 1])).tolist()
    [0, 0, 2, 2]
    """
    held: dict[str, Counter[int]] = defaultdict(Counter)  # samples of each class in each group
    for group, label in zip(groups, labels.tolist(), strict=True):
        held[group][label] += 1
    total, have = Counter(labels.tolist()), Counter[int]()  # samples of each class; of them in test
    test: set[str] = set()
    ranked = sorted(held, key=lambda name: hashlib.sha256(name.encode()).digest())
    for _ in range(ROUNDS):
        before = set(test)
        for name in ranked:
            sign = -1 if name in test else 1
            gain = sum(
                _cost(have[c], total[c], test_fraction)
                - _cost(have[c] + sign * n, total[c], test_fraction)
                for c, n in sorted(held[name].items())
            )
            if gain > LEAST:
                test ^= {name}
                for c, n in held[name].items():
                    have[c] += sign * n
        if before == test:
            break
    return np.array([TEST if name in test else TRAIN for name in groups], dtype=np.uint8)


def _cost(have: int, n: int, fraction: float) -> float:
    """((in test - wanted) / n)² of a class of n samples, plus 1 if all are on one side."""
    wanted = min(max(int(fraction * n + 0.5), 1), n - 1)
    return float((have - wanted) / n) ** 2 + (have in (0, n))


def describe_lopsided(
    split: NDArray[np.uint8],
    labels: NDArray[np.int64],
    classes: Sequence[str],
    rule: Mapping[str, Any],
    remedy: str = "--stratify keeps the shares of classes.",
) -> str:
    """Return in words which classes lack a side, or a fair share of test; empty if none does.

    Parameters
    ----------
    split, labels : array of int
        (N,) of the samples.
    classes : sequence of str
        Names of the classes; those without a sample do not count.
    rule : mapping
        How the split was made, see `split.split_rule`; empty: in some other way.
    remedy : str
        What to do about a split by hash.
    """
    n, test, train = (
        np.bincount(labels[rows], minlength=len(classes))
        for rows in (split >= 0, split == TEST, split == TRAIN)
    )
    there = n > 0
    no_train, no_test = there & (train == 0), there & (test == 0)
    parts, test_fraction = [], rule.get("test_fraction")
    for mask, lack in ((no_train, "no training samples"), (no_test, "no test samples")):
        if mask.any():
            parts.append(f"{_counted(mask, there, classes)} {lack}")
    if test_fraction is not None:
        bound = FAR * min(test_fraction, 1 - test_fraction)
        share = test / np.maximum(n, 1)
        far = there & ~no_train & ~no_test & (abs(share - test_fraction) > bound)
        far &= abs(test - test_fraction * n) >= 2  # fewer are no fault

        if far.any():
            worst = int(np.argmax(np.where(far, abs(share - test_fraction), -1)))
            parts.append(
                f"{_counted(far, there, classes)} a share of test samples far from "
                f"{100 * test_fraction:g} % (of {classes[worst]!r}: {100 * share[worst]:.0f} %)"
            )
    said = f"the split is lopsided: {'; '.join(parts)}." if parts else ""
    if parts and test_fraction is not None and "stratified" not in rule:
        said += f" {remedy}"
    return said


def split_again(path: Path, rule: Mapping[str, Any]) -> str:
    """Say how to split an extracted file anew, stratified, without its backbone; end by a command.

    Parameters
    ----------
    path : Path
        The file.
    rule : mapping
        How its split was made, see `split.split_rule`.
    """
    source, arrays = shlex.quote(str(path)), shlex.quote(str(path.with_suffix(".npz")))
    out = shlex.quote(str(path.with_name(f"{path.stem}-stratified{path.suffix}")))
    return (
        f"Split again without extracting: embedbench export {source} --out {arrays} && "
        f"embedbench import {arrays} --split {rule['test_fraction']:g} "
        f"--group {shlex.quote(rule['group'])} --stratify --out {out}"
    )


def _counted(mask: NDArray[np.bool_], there: NDArray[np.bool_], classes: Sequence[str]) -> str:
    first = classes[int(np.flatnonzero(mask)[0])]
    verb = "has" if mask.sum() == 1 else "have"
    return f"{mask.sum()} of {there.sum()} classes (first {first!r}) {verb}"
