"""The split of a source's samples into train and test."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError
from embedbench.files.sample_list import SPLITS
from embedbench.files.train_test_split import groups, make_split, parse_fraction, small, split_rule

from .source import Source


def choose_split(
    source: Source, choice: str | None, group: str | None, *, stratify: bool | None = None
) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """Return the split of a source's samples, and its rule for the provenance.

    Parameters
    ----------
    source : Source
        Its own split is used if none of `choice`, `group` and `stratify` is given.
    choice : str or None
        A test fraction such as `0.3`, or a list file; None: the official split, else 0.3 by hash.
    group : str or None
        The rule for `groups`, for a hash split; None means `stem`.
    stratify : bool or None
        Let every class keep its share in a hash split, see `embedbench.files.train_test_split`.
        None: where the data are `small`.

    Returns
    -------
    tuple
        (N,) TRAIN, VAL or TEST, and the rule as plain JSON.
    """
    if source.split is not None and choice is None and group is None and not stratify:
        return source.split, {"rule": "official"}
    if stratify is None:
        stratify = parse_fraction(choice) is not None and small(source.labels)
    rule = split_rule(choice, group or "stem", stratify=stratify)
    classes = source.labels if stratify else None
    if rule["rule"] == "hash":
        return make_split(choice, source.ids, groups(source.ids, rule["group"]), classes), rule
    if group is not None:
        raise UserError(
            "--group belongs to a hash split (--split 0.3); a list file needs no groups."
        )
    return make_split(choice, source.ids, classes=classes), rule


def across(
    digests: NDArray[np.uint8], ids: Sequence[str], split: NDArray[np.uint8]
) -> list[tuple[str, str]]:
    """Return pairs of samples with the same content in different splits, the earlier split first.

    Parameters
    ----------
    digests : array of int
        (N, 16) content hashes.
    ids, split : sequence of str, array of int
        (N,) as in the file.
    """
    order = np.lexsort((split, *digests.T))
    same = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    starts = np.concatenate([[True], ~same])  # where runs of equal contents start, in `order`
    first = order[
        np.flatnonzero(starts)[np.cumsum(starts) - 1]
    ]  # (N,) first sample of each one's run
    return [
        (ids[a], ids[b])
        for a, b in zip(first.tolist(), order.tolist(), strict=True)
        if split[a] != split[b]
    ]


def pairs_text(
    pairs: Sequence[tuple[str, str]], ids: Sequence[str], split: NDArray[np.uint8], holds: str
) -> str:
    """Return what reports the pairs of `across`, and what to do about them."""
    where = {name: SPLITS[part] for name, part in zip(ids, split.tolist(), strict=True)}
    listed = "; ".join(f"{a} ({where[a]}) = {b} ({where[b]})" for a, b in pairs[:3])
    more = "; …" if len(pairs) > 3 else ""
    return (
        f"{len(pairs)} {holds} are in two splits with the same content: {listed}{more}. Remove one "
        "of each pair from the source, or keep both in one split by --group where their names have "
        "a part in common (--stratify does not), and extract again; embedbench inspect --json "
        "names up to 100 pairs"
    )
