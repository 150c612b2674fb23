"""The split of a source's samples into train and test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError
from embedbench.files.samples import SPLITS
from embedbench.files.split import make_split, split_rule

from .source import Source


def choose_split(
    source: Source, choice: str | None, group: str | None, *, stratify: bool = False
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
    stratify : bool
        Let every class keep its share in a hash split, see `embedbench.files.stratify`.

    Returns
    -------
    tuple
        (N,) TRAIN, VAL or TEST, and the rule as plain JSON.
    """
    if source.split is not None and choice is None and group is None and not stratify:
        return source.split, {"rule": "official"}
    rule = split_rule(choice, group or "stem", stratify=stratify)
    classes = source.labels if stratify else None
    if rule["rule"] == "hash":
        return make_split(choice, source.ids, groups(source.ids, rule["group"]), classes), rule
    if group is not None:
        raise UserError(
            "--group belongs to a hash split (--split 0.3); a list file needs no groups."
        )
    return make_split(choice, source.ids, classes=classes), rule


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
