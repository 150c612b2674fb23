"""Columns `domain`, `group` and `time` of a source, and its split into train and test."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Bytes
from embedbench.errors import UserError, short
from embedbench.files.known_names import merge_texts
from embedbench.files.sample_metadata import read_list
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
    asked = dict.fromkeys(columns, "--columns")  # the option that a column is of
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
            asked[name] = f"--{name}-from"
    if whole is not None and "group" not in columns:
        columns["group"] = np.array(groups(source.ids, whole))
        asked["group"] = "--group"
    lines = [
        f"{source.name}: its column {name} is replaced, as {asked[name]} asks."
        for name in source.columns
        if name in columns
    ]
    for name in sorted({"domain", "group"} & columns.keys()):  # as `import` does
        columns[name], said = merge_texts(columns[name], name)
        if said:
            lines.append(f"{source.name}: {said}.")
    return replace(source, remark=" ".join(filter(None, (source.remark, *lines))), **columns)


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
