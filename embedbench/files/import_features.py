"""Import features: make an embedding file of arrays in another format.

docs/files.md lists what `import` reads.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, short
from embedbench.storage import user_cache
from embedbench.system.callback_types import Notify, Progress

from .embedding_file import EmbeddingFile
from .equal_contents import describe_two_classes, describe_two_splits, pairs_apart, row_hashes
from .known_names import describe_taken, merge_texts
from .provenance import NOTHING, UserMetadata
from .sample_metadata import Samples, read_list
from .source_arrays import Arrays
from .source_readers import read_sources
from .train_test_split import describe_lopsided, describe_straddling, make_split, split_rule
from .write_file import check_target, write_file

FEW_ROWS = 20  # in fewer, each row may be of a class of its own
MOST_CLASSES = 0.9  # classes a row


def import_file(
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    features: str | None = None,
    labels: str | None = None,
    group: str | None = None,
    split: str | None = None,
    stratify: bool = False,
    columns: str | os.PathLike[str] | None = None,
    stated: UserMetadata = NOTHING,
    overwrite: bool = False,
    progress: Progress = lambda *_: None,
    notify: Notify = lambda _: None,
) -> EmbeddingFile:
    """Write an embedding file from features in another format.

    Parameters
    ----------
    src : str or PathLike, or several
        A file of arrays or a table (npz, npy, mat, HDF5, CSV, TSV, TXT, JSON, JSON lines, Parquet,
        safetensors, .pt); or a directory of those of one kind, of a data set that Hugging Face's
        `datasets` saved, of MNIST's four IDX files (which gives pixels / 255), or of AudioSet's
        frame embeddings (see `formats.audioset`). Several files of one layout are domains, or the
        parts that their names say.
    features : str or None
        Key or column of the features, or in a table the stem of their columns; None: `features`,
        `embeddings` or `X`, or what else can only be them.
    labels : str or None
        Key or column of the labels; None: `labels`, `label` or `y`. Or a file of labels, one a row
        in order, or lines of id and label; its split, groups and ids are taken where the source has
        none.
    group : str or None
        Key or column of the source that groups the samples, or a rule for their ids, see
        `train_test_split.groups`. The groups become the column `group`; where the split is made
        here, no group is in both train and test.
    split : str or None
        A test fraction or a list file; None: the source's own split if it has one and `stratify`
        is not given, else 0.3.
    stratify : bool
        Let every class keep its share in a split by test fraction.
    columns : str or PathLike or None
        A CSV file of optional columns, see `sample_metadata.read_list`; they replace those of
        the source.
    progress : callable
        Called with (rows written, all) before each block of rows.
    notify : callable
        Called with each message for the user; one says what was taken, and what was left out.

    Raises
    ------
    UserError
        The format of the source is unknown, or its parts are missing or contradict each other.
    """
    paths = _paths(src)
    out = Path(out)
    check_target(out, overwrite=overwrite)
    beside = [Path(name) for name in (labels, columns, split) if name is not None]
    read = [*paths, *[path for path in beside if path.is_file()]]
    before = {path: user_cache.identities(path) for path in read}  # they are read part by part
    source = read_sources(paths, {"features": features, "labels": labels, "groups": group})
    for remark in source.remarks:
        notify(remark)
    if source.unsure:
        notify(source.unsure)
    if columns is not None:
        source = _with_listed(source, Path(columns), notify, keep_groups=group is not None)
    _check_classes(source, paths)
    samples, made, provenance = _split_samples(source, group, split, stratify=stratify)
    if source.has_split and (split is not None or stratify):
        notify(f"{paths[0]}: its own split is replaced, as --split or --stratify asks.")
    stored = _columns_of(source, notify)
    leaves = samples.classes[: samples.n_leaves]
    file = write_file(
        out,
        samples,
        source.features,
        stated.added_to({**provenance, "split": made}, leaves),
        layers=source.layers,
        columns=stored,
        overwrite=overwrite,
        progress=progress,
        check=partial(_check_identities, before),
    )
    grouped = stored.get("group")
    origin = dict(source.origin)
    if split is not None or stratify:
        origin.pop("split", None)  # it was replaced
    taken = describe_taken(
        samples,
        made,
        groups=None if grouped is None else len(np.unique(grouped)),
        columns=tuple(stored),
        left_out=source.left_out,
        origin=origin,
    )
    straddling = describe_straddling(grouped, samples.split, made)
    lopsided = describe_lopsided(samples.split, samples.labels, leaves, made)
    for remark in (taken, straddling, lopsided, *_same_rows(source.features, samples)):
        if remark:
            notify(remark)
    return file


def _paths(src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    if isinstance(src, str | os.PathLike):
        return [Path(src)]
    return [Path(path) for path in src]


def _check_classes(source: Arrays, paths: Sequence[Path]) -> None:
    """Refuse labels of which nearly every one is different: they name the rows.

    A few rows may well be of one class each; a class with one sample is not both learned and asked.
    """
    samples = source.samples
    used, counts = np.unique(samples.labels, return_counts=True)
    n = len(samples.labels)
    if n < FEW_ROWS or len(used) <= MOST_CLASSES * n:
        return
    if used[0] < 0 or used[-1] >= len(samples.classes):
        return  # which is refused in words of its own
    alone = [samples.classes[label] for label in used[counts == 1]]
    where = source.origin.get("labels", "labels")
    raise UserError(
        f"{paths[0]}: {where} has {len(used):,} different labels for {n:,} rows, such as "
        f"{short(alone[0])} and {short(alone[1])}: they name the rows, and are no classes",
        "give labels that several rows share, by --labels FILE or --labels KEY of the source",
    )


def _check_identities(before: Mapping[Path, dict[str, str]]) -> None:
    """Refuse sources that changed while they were read."""
    for path, identities in before.items():
        user_cache.check_identities(path, identities)


def _same_rows(features: Array, samples: Samples) -> Iterator[str]:
    """Yield sentences on equal rows of features in two splits, and in two classes."""
    hashes = row_hashes(features)
    splits = pairs_apart(hashes, samples.split)
    in_two_splits = describe_two_splits(splits, samples, "rows of features", "import")
    if in_two_splits:
        yield f"{in_two_splits}."
    classes = pairs_apart(hashes, samples.labels)
    in_two_classes = describe_two_classes(classes, samples, "rows of features", "import")
    if in_two_classes:
        yield f"{in_two_classes}."


def _rule_of(source: Arrays) -> dict[str, Any]:
    """How the split of a source was made, as its provenance says."""
    rule = source.provenance.get("split")
    return dict(rule) if isinstance(rule, dict) else {"rule": "official"}


def _split_samples(
    source: Arrays, group: str | None, split: str | None, *, stratify: bool
) -> tuple[Samples, dict[str, Any], dict[str, Any]]:
    """Return the samples with their split, its rule, and the provenance.

    A split of the source stays, unless another one is asked for; groups do not change it.
    """
    samples = source.samples
    provenance = dict(source.provenance)
    if source.has_split and split is None and not stratify:
        return samples, _rule_of(source), provenance
    named = group or ("sample" if source.groups is None else "groups")
    rule = split_rule(split, named, stratify=stratify)
    classes = samples.labels if stratify else None
    rows = make_split(split, samples.ids.tolist(), source.groups, classes)
    provenance.pop("same_content_in_two_splits", None)  # it was said of another split
    return replace(samples, split=rows), rule, provenance


def _with_listed(source: Arrays, path: Path, notify: Notify, *, keep_groups: bool) -> Arrays:
    """Return a source with the columns of a list in the place of its own ones.

    Groups of the list are those that a split keeps whole, unless `--group` names others for it.
    """
    listed = _merged(read_list(path, source.samples.ids.tolist()), notify)
    left_out = [*source.left_out]
    left_out += [f"{name} ({path} has another)" for name in source.columns if name in listed]
    origin = dict(source.origin)
    groups = source.groups
    if "group" in listed:
        if groups is not None and not keep_groups:
            left_out.append(f"{origin.get('groups', 'groups')} (the groups are those of {path})")
        if not keep_groups:
            groups = listed["group"].tolist()
        origin["groups"] = str(path)
    columns = source.columns | listed
    return replace(source, columns=columns, left_out=left_out, origin=origin, groups=groups)


def _columns_of(source: Arrays, notify: Notify) -> dict[str, Array]:
    """Return the optional columns; groups are the one by which results count samples."""
    columns = dict(source.columns)
    if source.groups is not None:
        columns.setdefault("group", np.array(source.groups, np.str_))
    return _merged(columns, notify)


def _merged(columns: Mapping[str, Array], notify: Notify) -> dict[str, Array]:
    """Return columns in which texts that look alike are one, and say so."""
    merged = dict(columns)
    for name, values in columns.items():
        if values.dtype.kind == "U":
            merged[name], said = merge_texts(values, name)
            if said:
                notify(f"{said}.")
    return merged
