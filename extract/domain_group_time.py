"""Columns `domain`, `group` and `time` of a source, and its split into train and test."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Bytes
from embedbench.errors import UserError, short
from embedbench.files.known_names import merge_texts
from embedbench.files.sample_metadata import SPLITS, read_list
from embedbench.files.train_test_split import groups, make_split, parse_fraction, small, split_rule

from .folder_classes import find_split, join_spellings, read_classes, without_parts
from .source import Source

FOLDER = "folder"


def add_columns(
    source: Source,
    listed: str | os.PathLike[str] | None = None,
    domain: str | None = None,
    group: str | None = None,
    whole: str | None = None,
) -> Source:
    """Return a source with optional columns of a file, in the place of its own ones.

    Parameters
    ----------
    listed : str or PathLike or None
        A CSV file, see `embedbench.files.sample_metadata.read_list`.
    domain, group : str or None
        The rule that takes the value out of a sample's path: as for `groups`, or `folder` for the
        domain, see `by_domain`.
    whole : str or None
        The rule of `--group`, whose groups are the column where no other option makes one.
    """
    columns: dict[str, Any] = {} if listed is None else {**read_list(Path(listed), source.ids)}
    for name, rule in (("domain", domain), ("group", group)):
        if rule is not None and name in columns:
            raise UserError(
                f"column {name!r} is in {listed}, and --{name}-from makes it too",
                "drop one of them",
            )
        if (name, rule) == ("domain", FOLDER):
            source = by_domain(source)
        elif rule is not None:
            columns[name] = np.array(groups(source.ids, rule, f"--{name}-from"))
    if whole is not None and "group" not in columns:
        if "group" in source.columns:
            line = f"{source.name}: its column group is replaced, as --group asks."
            source = replace(source, remark=" ".join(filter(None, (source.remark, line))))
        columns["group"] = np.array(groups(source.ids, whole))
    for name in sorted({"domain", "group"} & columns.keys()):  # as `import` does
        columns[name], said = merge_texts(columns[name], name)
        line = f"{source.name}: {said}." if said else ""
        source = replace(source, remark=" ".join(filter(None, (source.remark, line))))
    return replace(source, **columns)


def by_domain(source: Source) -> Source:
    """Return a source whose first folders are domains, not classes.

    If the first folders are splits (`train/`, …), the folders below them are the domains.
    `art/cat/1.png` is of the domain `art`, `photo/cat/7.png` of `photo`; both are of the class
    `cat`.
    """
    folders: list[tuple[str, ...]] = [tuple(id_.split("/")[:-1]) for id_ in source.ids]
    if source.split is not None:
        found, _ = find_split(folders, source.name)
        folders = folders if found is None else without_parts(folders, found)
    folders, said = join_spellings(folders)
    for id_, inside in zip(source.ids, folders, strict=True):
        if len(inside) < 2:
            raise UserError(
                f"--domain-from folder takes DOMAIN/CLASS/FILE, and sample {short(id_)} of "
                f"{source.name} lies in no class folder below a domain",
                "give a pattern instead",
            )
    fields = read_classes([inside[1:] for inside in folders], source.name)
    line = f"{source.name}: {said}." if said else ""
    fields["remark"] = " ".join(filter(None, (source.remark, line)))
    return replace(source, domain=np.array([domain for domain, *_ in folders]), **fields)


# --- the split into train and test ---


def choose_split(
    source: Source, choice: str | None, group: str | None, *, stratify: bool | None = None
) -> tuple[Bytes, dict[str, Any]]:
    """Return the split of a source's samples (N,), and its rule for the provenance.

    Parameters
    ----------
    choice : str or None
        A test fraction such as `0.3`, or a list file; None: the official split, else 0.3 by hash.
    group : str or None
        The rule for `groups`, which a hash split keeps whole; None: the groups of the source's
        column, as for `import`, else `stem`. An official split and a list file stay as they are.
    stratify : bool or None
        Let every class keep its share in a hash split, see `embedbench.files.train_test_split`.
        None: where the data are `small`.
    """
    if source.split is not None and choice is None and not stratify:
        return source.split, {"rule": "official"}
    if stratify is None:
        stratify = parse_fraction(choice) is not None and small(source.labels)
    listed = source.columns.get("group") if group is None else None
    named = group or ("stem" if listed is None else "groups")
    rule = split_rule(choice, named, stratify=stratify)
    classes = source.labels if stratify else None
    if rule["rule"] == "hash":
        names = groups(source.ids, named) if listed is None else listed.tolist()
        return make_split(choice, source.ids, names, classes), rule
    return make_split(choice, source.ids, classes=classes), rule


def across(digests: Bytes, ids: Sequence[str], split: Bytes) -> list[tuple[str, str]]:
    """Return pairs of samples with the same content in different splits, the earlier split first.

    `digests` (N, 16) are hashes of the contents.
    """
    order = np.lexsort((split, *digests.T))
    same = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    starts = np.concatenate([[True], ~same])  # where runs of equal contents start, in `order`
    first = order[np.flatnonzero(starts)[np.cumsum(starts) - 1]]  # (N,) of each one's run
    return [
        (ids[a], ids[b])
        for a, b in zip(first.tolist(), order.tolist(), strict=True)
        if split[a] != split[b]
    ]


def pairs_text(
    pairs: Sequence[tuple[str, str]], ids: Sequence[str], split: Bytes, holds: str
) -> str:
    """Return what reports the pairs of `across`, and what to do about them."""
    where = {name: SPLITS[part] for name, part in zip(ids, split.tolist(), strict=True)}
    listed = "; ".join(f"{a} ({where[a]}) = {b} ({where[b]})" for a, b in pairs[:3])
    more = "; …" if len(pairs) > 3 else ""
    return (
        f"{len(pairs)} {holds} are in two splits with the same content: {listed}{more}. Remove one "
        "of each pair, or keep both in one split by --group, and extract again; embedbench inspect "
        "--json names up to 100 pairs"
    )
