"""Splits for sources without a split: a stable hash by group, or a list in a file."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError, short

from .sample_list import SPLITS, TEST, TRAIN
from .sample_lists import read_lines
from .stratify import stratify_groups

TEST_FRACTION = 0.3
SMALL = 50  # samples a class, below which a split by hash alone leaves classes without a side


def make_split(
    choice: str | None,
    ids: Sequence[str],
    groups: Sequence[str] | None = None,
    classes: NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """Return the split for a value of `--split`.

    Parameters
    ----------
    choice : str or None
        A test fraction such as `0.35`, the path of a list file, or None for 0.3.
    ids : sequence of str
        (N,) sample ids.
    groups : sequence of str or None
        (N,) names; no group is in both train and test. None: every sample is a group.
    classes : array of int or None
        (N,) classes that keep their shares (`--stratify`); None: they may have any.

    Returns
    -------
    array of int
        (N,) TRAIN, VAL or TEST.
    """
    fraction = parse_fraction(choice)
    if fraction is not None:
        return hash_split(groups, fraction, ids, classes)
    if classes is not None:
        raise UserError(
            "--stratify belongs to a hash split (--split 0.3); a list file says it for each sample."
        )
    return read_split_list(Path(str(choice)), ids)


def parse_fraction(choice: str | None) -> float | None:
    """Return the test fraction that a value of `--split` asks for; None for a list file."""
    try:
        return TEST_FRACTION if choice is None else float(choice)
    except ValueError:
        return None


def small(labels: NDArray[np.int64]) -> bool:
    """Whether there are fewer than `SMALL` samples a class, on average; (N,) labels."""
    return len(labels) < SMALL * len(np.unique(labels))


def split_rule(choice: str | None, group: str, *, stratify: bool = False) -> dict[str, Any]:
    """Return the rule of `make_split`, for the provenance.

    >>> split_rule("0.35", "speaker")
    {'rule': 'hash', 'test_fraction': 0.35, 'group': 'speaker'}
    """
    fraction = parse_fraction(choice)
    if fraction is None:
        return {"rule": "list file"}
    rule = {"rule": "hash", "test_fraction": fraction, "group": group}
    return {**rule, "stratified": True} if stratify else rule


def groups(ids: Sequence[str], rule: str, option: str = "--group") -> list[str]:
    """Return the group of each sample; no group is in both train and test.

    Parameters
    ----------
    ids : sequence of str
        (N,) sample ids.
    rule : str
        `stem`: the path up to the first dot of the file name, so that `art_1f3a8.noto.png` and
        `art_1f3a8.twemoji.png` of one folder belong together; `parent`: the folder; or a
        regular expression, whose first group (else the whole match) names the group.
    option : str
        The option that gave the rule, for messages.

    >>> groups(["a/x.noto.png", "a/x.twemoji.png", "b/x.png"], "stem")
    ['a/x', 'a/x', 'b/x']
    >>> groups(["v1_f1.jpg", "v1_f2.jpg"], "(v[0-9]+)_")
    ['v1', 'v1']
    """
    paths = [PurePosixPath(name) for name in ids]
    if rule == "stem":
        return [(path.parent / path.name.split(".", 1)[0]).as_posix() for path in paths]
    if rule == "parent":
        return [path.parent.as_posix() for path in paths]
    try:
        pattern = re.compile(rule)
    except re.error as error:
        raise UserError(
            f"{option} {rule!r} is no regular expression ({error}), nor 'stem' or 'parent'."
        ) from error
    matches = [pattern.search(name) for name in ids]
    out = []
    for name, match in zip(ids, matches, strict=True):
        if match is None:
            raise UserError(f"{option} {rule!r} matches nothing in sample {name!r}; widen it.")
        out.append((match.group(1) if pattern.groups else match.group(0)) or "")
    return out


def hash_split(
    groups: Sequence[str] | None,
    test_fraction: float,
    ids: Sequence[str],
    classes: NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """Put a fraction of the groups into test, chosen by the rank of the SHA-256 of their names.

    The choice depends on nothing but the group names, so every team makes the same one; their
    number is exact: the fraction of the groups, rounded half up, and at least one on each side.
    With `classes` (N,), see `stratify_groups` instead.

    Returns
    -------
    array of int
        (N,) TRAIN or TEST.

    >>> hash_split(["ann", "ann", "bob", "cy"], 0.3, ["1", "2", "3", "4"])
    array([0, 0, 0, 2], dtype=uint8)
    """
    if not 0 < test_fraction < 1:
        raise UserError(f"the test fraction must lie between 0 and 1, not {test_fraction}.")
    names = [str(name) for name in (ids if groups is None else groups)]
    if len(names) != len(ids):
        raise UserError(f"{len(names)} groups for {len(ids)} samples; give one group per sample.")
    ranked = sorted(set(names), key=lambda name: hashlib.sha256(name.encode()).digest())
    if len(ranked) < 2:
        raise UserError(
            f"all {len(names)} samples are of one {'id' if groups is None else 'group'}, and a "
            "split into train and test needs two; group by another key, or give the splits in a "
            "list file (--split FILE)."
        )
    if classes is not None:
        return stratify_groups(names, test_fraction, classes)
    count = min(max(int(test_fraction * len(ranked) + 0.5), 1), len(ranked) - 1)
    test = set(ranked[:count])
    return np.array([TEST if name in test else TRAIN for name in names], dtype=np.uint8)


def read_split_list(path: Path, ids: Sequence[str]) -> NDArray[np.uint8]:
    """Read a split from a CSV or TSV file with one line `sample_id,train|val|test` per sample.

    A first line `sample_id,split` is skipped. Every sample must be listed exactly once.

    Returns
    -------
    array of int
        (N,) TRAIN, VAL or TEST in the order of `ids`.
    """
    if not path.is_file():
        raise UserError(
            f"--split {path} is neither a fraction such as 0.3 nor a list file that exists; "
            "give one of the two."
        )
    row_of = {str(name): row for row, name in enumerate(ids)}
    split = np.full(len(ids), 255, dtype=np.uint8)
    for number, fields in read_lines(path):
        if number == 1 and fields[:2] == ["sample_id", "split"]:
            continue
        where = f"{path}, line {number}"
        if len(fields) != 2 or fields[1].strip() not in SPLITS:
            raise UserError(f"{where}: expected sample_id,train|val|test, not {short(fields)}.")
        row = row_of.get(fields[0])
        if row is None:
            raise UserError(f"{where}: no sample {fields[0]!r} in the source; remove the line.")
        if split[row] != 255:
            raise UserError(f"{where}: sample {fields[0]!r} is listed twice; keep one line.")
        split[row] = SPLITS.index(fields[1].strip())
    missing = np.flatnonzero(split == 255)
    if len(missing):
        raise UserError(
            f"{path} lists no split for {len(missing)} of {len(ids)} samples, the first "
            f"{ids[missing[0]]!r}; add them."
        )
    return split
