"""Several sources of one layout as one: domains, or train and test."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Bytes
from embedbench.errors import UserError, list_first, short

from .arrays_by_part import parse_key
from .known_names import split_roles, without_common_words
from .numbered_labels import check_counts
from .sample_metadata import SPLITS, TRAIN, VAL, Samples
from .source_arrays import Arrays, unknown_backbone


def join_sources(sources: Mapping[Path, Arrays], where: str) -> Arrays:
    """Return the samples of all sources as one, in their order.

    Names of files that are parts of a data set are the split, other names the column `domain`;
    words that all names have are left out. A class is the same where its name is. Columns of
    features that have names are the same where these are.

    Raises
    ------
    UserError
        The sources have features of other widths or names, or other columns or layers; or their
        own split is another one than that of their names.
    """
    names = _names_of_files(sources)
    roles = split_roles(names)
    parts = [roles[name] for name in names]
    by_part = None not in parts and len(set(parts)) == len(parts)
    sources = _by_name(sources)
    _check_layout(sources, by_part=by_part)
    sources = _count_alike(sources)
    several = list(sources.values())
    sizes = [len(source.features) for source in several]
    classes, numbers = _join_classes(sources)
    prefixes = [SPLITS[part] for part in parts if part is not None] if by_part else names
    ids = _join_ids(several, prefixes, keep=by_part)
    columns = {
        name: np.concatenate([source.columns[name] for source in several])
        for name in several[0].columns
    }
    origin = dict(several[0].origin)
    if by_part:
        split, origin["split"] = _split_of_parts(sources, [part or 0 for part in parts])
    else:
        split = np.concatenate([source.samples.split for source in several])
    if not by_part and "domain" not in columns:
        columns["domain"] = np.repeat(np.array(names, np.str_), sizes)
        origin["domain"] = f"the names of the files ({list_first(names, 10)})"
    features = np.concatenate([source.features for source in several])
    groups: list[Any] | None = None
    if several[0].groups is not None:
        groups = list(itertools.chain(*[source.groups or () for source in several]))
    left_out = itertools.chain(*[source.left_out for source in several])
    unsure = [source.unsure for source in several if source.unsure]
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
        groups=groups,
        layers=layers,
        columns=columns,
        origin=origin,
        left_out=list(dict.fromkeys(left_out)),
        remarks=_remarks(sources),
        unsure=unsure[0] if unsure else "",
    )


def _names_of_files(sources: Mapping[Path, Arrays]) -> list[str]:
    """What the files are called apart; of `features_train` and `features_test`, the parts."""
    names = without_common_words([path.stem for path in sources])
    parsed = [parse_key(name) for name in names]
    words = [word for word, _ in filter(None, parsed)]
    rests = {rest for _, rest in filter(None, parsed)}
    return words if len(words) == len(names) and len(rests) == 1 else names


def _by_name(sources: Mapping[Path, Arrays]) -> dict[Path, Arrays]:
    """Return the sources with features in the order of the first, where their columns have names.

    Raises
    ------
    UserError
        The columns have other names.
    """
    first = next(iter(sources))
    names = sources[first].feature_names
    out = {}
    for path, source in sources.items():
        out[path] = source
        theirs = source.feature_names
        if not names or not theirs or [*theirs] == [*names]:
            continue
        if {*theirs} != {*names}:
            raise of_other_columns(path, theirs, first, names)
        place = {name: at for at, name in enumerate(theirs)}
        order = [place[name] for name in names]
        said = f"its features are in another order than those of {first.name}, and joined by name."
        out[path] = replace(
            source, features=source.features[:, order], remarks=[*source.remarks, said]
        )
    return out


def of_other_columns(
    path: Path, names: Sequence[str], first: Path, expected: Sequence[str]
) -> UserError:
    """Return the error for a file whose columns of features are not those of the first."""
    alone = [name for name in names if name not in expected]
    lacking = [name for name in expected if name not in names]
    phrases = [f"has {list_first(alone, 3)}"] if alone else []
    if lacking:
        phrases.append(f"lacks {list_first(lacking, 3)}")
    return UserError(
        f"{path} has other features than {first}: it {' and '.join(phrases)}",
        "give all files the same columns, or import them one by one",
    )


def _count_alike(sources: Mapping[Path, Arrays]) -> dict[Path, Arrays]:
    """Return the sources with labels that are all counted from one number: that of those it shows.

    Raises
    ------
    UserError
        Some are counted from 0, and others from 1; or some are names, and others numbers.
    """
    sure = {path: source.counts_from for path, source in sources.items()}
    from_one = [path for path in sure if [*sure[path]] == [1]]
    from_zero = [path for path in sure if [*sure[path]] == [0]]
    if from_one and from_zero:
        raise UserError(
            f"labels of {from_one[0]} are counted from 1, and those of {from_zero[0]} from 0",
            "count both from 0, or give labels as texts",
        )
    check_counts({path.name: _as_numbers(source) for path, source in sources.items()})
    _check_kinds(sources)
    out = {}
    for path, source in sources.items():
        out[path] = source
        if not source.unsure or not (from_one or from_zero):
            continue
        labels = source.samples.labels - (1 if from_one else 0)
        samples = replace(source.samples, labels=labels)
        said = "labels are counted from 1, as in the other files."
        remarks = [*source.remarks, said] if from_one else source.remarks
        out[path] = replace(source, samples=samples, unsure="", remarks=remarks)
    return out


def _as_numbers(source: Arrays) -> Array:
    """The labels (N,) as the whole numbers that their names are; as texts if they are none."""
    names = np.array(source.samples.classes, np.str_)[source.samples.labels]
    if not all(name.isdecimal() and len(name) < 19 for name in source.samples.classes):
        return names
    return names.astype(np.int64)


def _check_kinds(sources: Mapping[Path, Arrays]) -> None:
    """Refuse classes that are numbers in some sources, and none in others."""
    numbers = {
        path: sum(name.isdecimal() for name in source.samples.classes)
        for path, source in sources.items()
    }
    none = [path for path in sources if not numbers[path]]
    all_of_them = [path for path in sources if numbers[path] == len(sources[path].samples.classes)]
    if none and all_of_them:
        raise UserError(
            f"the classes of {none[0]} have names, such as "
            f"{short(sources[none[0]].samples.classes[0])}, and those of {all_of_them[0]} are "
            "numbers",
            "give all files the names, or none",
        )


def _split_of_parts(sources: Mapping[Path, Arrays], parts: Sequence[int]) -> tuple[Bytes, str]:
    """Return the split (N,) of files that are parts, and where it is from.

    A column of theirs may say it more exactly: that some rows of `train` are validation.

    Raises
    ------
    UserError
        A column says another part.
    """
    split = []
    own = ""
    for (path, source), part in zip(sources.items(), parts, strict=True):
        rows = np.full(len(source.features), part, np.uint8)
        if source.has_split:
            rows = source.samples.split
            allowed = (TRAIN, VAL) if part == TRAIN else (part,)
            wrong = rows[~np.isin(rows, allowed)]
            if len(wrong):
                raise UserError(
                    f"{path}: {source.origin.get('split', 'split')} says {SPLITS[wrong[0]]} in "
                    f"{len(wrong):,} rows, and the file is called {SPLITS[part]}",
                    "rename the files, or drop the column",
                )
            own = own or f" and {source.origin.get('split', 'split')}"
        split.append(rows)
    return np.concatenate(split), f"the names of the files{own}"


def _join_ids(several: Sequence[Arrays], prefixes: Sequence[str], *, keep: bool) -> list[str]:
    """Return the ids of all samples, behind the name of their file; `keep` those that may stay.

    They may where each source has ids, and no two are one.
    """
    own = [source.samples.ids.tolist() for source in several]
    together = list(itertools.chain.from_iterable(own))
    named = all("ids" in source.origin for source in several)
    if keep and named and len(set(together)) == len(together):
        return together
    ids: list[str] = []
    for prefix, names in zip(prefixes, own, strict=True):
        ids += [f"{prefix}/{name}" for name in names]
    return ids


def _remarks(sources: Mapping[Path, Arrays]) -> list[str]:
    """The sentences on all sources; one that is the same for all is said once."""
    said = [tuple(source.remarks) for source in sources.values()]
    if len(set(said)) == 1:
        return list(said[0])
    remarks: list[str] = []
    for path, source in sources.items():
        remarks += [f"{path.name}: {text}" for text in source.remarks]
    return remarks


def _check_layout(sources: Mapping[Path, Arrays], *, by_part: bool) -> None:
    first, *others = sources
    for path in others:
        for what, layout in _layout(sources[first]).items():
            if what == "a split" and by_part:
                continue  # files that are parts need none
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
