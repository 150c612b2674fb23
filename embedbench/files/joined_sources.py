"""Several sources of one layout as one: domains, or train and test."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, list_first, short

from .arrays_by_part import parse_key
from .known_names import KEYS, find_keys, split_roles, without_common_words
from .sample_metadata import SPLITS, Samples
from .source_arrays import Arrays, unknown_backbone


def hold_one_array_each(names: Sequence[str]) -> bool:
    """Whether files are arrays by their names, one with features and one with labels.

    >>> hold_one_array_each(["X_train", "y_train"]), hold_one_array_each(["amazon", "dslr"])
    (True, False)
    """
    there = set()
    for name in names:
        parsed = parse_key(name)
        rest = name if parsed is None else parsed[1]
        there |= {what for what in ("features", "labels") if find_keys(KEYS[what], [rest])}
    return len(there) == 2


def join_sources(sources: Mapping[Path, Arrays], where: str) -> Arrays:
    """Return the samples of all sources as one, in their order.

    Names of files that are parts of a data set are the split, other names the column `domain`;
    words that all names have are left out. A class is the same where its name is.

    Raises
    ------
    UserError
        The sources have features of other widths, or other columns or layers.
    """
    names = without_common_words([path.stem for path in sources])
    several = list(sources.values())
    _check_layout(sources)
    roles = split_roles(names)
    parts = [roles[name] for name in names]
    by_part = None not in parts and len(set(parts)) == len(parts)
    sizes = [len(source.features) for source in several]
    classes, numbers = _join_classes(sources)
    prefixes = [SPLITS[part] for part in parts if part is not None] if by_part else names
    ids = _join_ids(several, prefixes, keep=by_part)
    split = np.concatenate([source.samples.split for source in several])
    columns = {
        name: np.concatenate([source.columns[name] for source in several])
        for name in several[0].columns
    }
    origin = dict(several[0].origin)
    if by_part:
        split = np.repeat(np.array(parts, np.uint8), sizes)
        origin["split"] = "the names of the files"
    elif "domain" not in columns:
        columns["domain"] = np.repeat(np.array(names, np.str_), sizes)
        origin["domain"] = f"the names of the files ({list_first(names, 10)})"
    features = np.concatenate([source.features for source in several])
    groups = [source.groups for source in several]
    layers = {
        name: np.concatenate([source.layers[name] for source in several])
        for name in several[0].layers
    }
    samples = Samples(np.array(ids, np.str_), numbers, split, classes, np.full(len(classes), -1))
    return Arrays(
        samples,
        features,
        _provenance(several, features, where),
        has_split=by_part or several[0].has_split,
        groups=None if groups[0] is None else [name for part in groups for name in part or ()],
        layers=layers,
        columns=columns,
        origin=origin,
        left_out=list(dict.fromkeys(phrase for source in several for phrase in source.left_out)),
        remarks=_remarks(sources),
    )


def _join_ids(several: Sequence[Arrays], prefixes: Sequence[str], *, keep: bool) -> list[str]:
    """Return the ids of all samples, behind the name of their file; `keep` those that may stay.

    They may where each source has ids, and no two are one.
    """
    own = [source.samples.ids.tolist() for source in several]
    together = list(itertools.chain.from_iterable(own))
    named = all("ids" in source.origin for source in several)
    if keep and named and len(set(together)) == len(together):
        return together
    pairs = zip(prefixes, own, strict=True)
    return [f"{prefix}/{name}" for prefix, names in pairs for name in names]


def _remarks(sources: Mapping[Path, Arrays]) -> list[str]:
    """The sentences on all sources; one that is the same for all is said once."""
    said = [tuple(source.remarks) for source in sources.values()]
    if len(set(said)) == 1:
        return list(said[0])
    return [f"{path.name}: {text}" for path, source in sources.items() for text in source.remarks]


def _check_layout(sources: Mapping[Path, Arrays]) -> None:
    first, *others = sources
    for path in others:
        for what, layout in _layout(sources[first]).items():
            came = _layout(sources[path])[what]
            if came != layout:
                raise UserError(
                    f"{path} has {what} {short(came)}, and {first} has {short(layout)}",
                    "give files of one layout, or import them one by one",
                )


def _layout(source: Arrays) -> dict[str, Any]:
    return {
        "rows of features of the shape": source.features.shape[1:],
        "layers": sorted(source.layers),
        "columns": sorted(source.columns),
        "a split": source.has_split,
        "groups": source.groups is not None,
    }


def _join_classes(sources: Mapping[Path, Arrays]) -> tuple[tuple[str, ...], Array]:
    """Return the names of all classes, and the labels (N,) as numbers of them."""
    known: dict[str, None] = {}
    lists = []
    for path, source in sources.items():
        if (source.samples.parents != -1).any():
            raise UserError(f"{path} has a hierarchy of classes", "import it by itself")
        lists.append(source.samples.classes)
        known |= dict.fromkeys(source.samples.classes)
    classes = list(known)
    if len(set(lists)) > 1:
        whole = all(name.isdigit() and str(int(name)) == name for name in classes)
        classes.sort(key=(lambda name: (int(name), name)) if whole else (lambda name: (0, name)))
    number = {name: place for place, name in enumerate(classes)}
    labels = []
    for source in sources.values():
        places = np.array([number[name] for name in source.samples.classes], np.int64)
        labels.append(places[source.samples.labels])
    return tuple(classes), np.concatenate(labels)


def _provenance(several: Sequence[Arrays], features: Array, where: str) -> dict[str, Any]:
    """The provenance of all; a backbone that is named must be that of all."""
    backbones = [source.provenance.get("backbone", {}) for source in several]
    if all(backbone.get("name") == "unknown" for backbone in backbones):
        return unknown_backbone(features, where)
    if any(backbone != backbones[0] for backbone in backbones):
        raise UserError(f"{where}: the features are of several backbones", "import them one by one")
    return dict(several[0].provenance)
