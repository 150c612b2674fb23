"""Import features: make an embedding file of arrays in another format.

docs/files.md lists what `import` reads.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.storage import user_cache
from embedbench.system.callback_types import Notify
from embedbench.text.undecoded_text import as_text

from .embedding_file import EmbeddingFile
from .equal_contents import describe_two_classes, describe_two_splits, pairs_apart, row_hashes
from .formats import arrow_files, safetensors_and_torch
from .formats.audioset import is_audioset, read_audioset
from .formats.mnist_idx import is_idx, read_idx
from .formats.numpy_files import load_folder, load_npz, npy_files
from .known_names import describe_taken, merge_texts
from .provenance import NOTHING, UserMetadata
from .raw_pixels import pixels, pixels_recipe
from .sample_metadata import Samples, read_list
from .source_arrays import Arrays, choose_arrays
from .train_test_split import describe_lopsided, describe_straddling, make_split, split_rule
from .write_file import check_target, write_file


def import_file(
    src: str | os.PathLike[str],
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
    notify: Notify = lambda _: None,
) -> EmbeddingFile:
    """Write an embedding file from features in another format.

    Parameters
    ----------
    src : str or PathLike
        An npz, Parquet, safetensors or torch file (.pt); or a directory of npy or Parquet files,
        of a data set that Hugging Face's `datasets` saved, of MNIST's four IDX files (which gives
        pixels / 255), or of AudioSet's frame embeddings (see `formats.audioset`).
    features : str or None
        Key or column of the features; None: `features`, `embeddings` or `X`.
    labels : str or None
        Key or column of the labels; None: `labels`, `label` or `y`.
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
    notify : callable
        Called with each message for the user; one says what was taken, and what was left out.

    Raises
    ------
    UserError
        The format of the source is unknown, or its parts are missing or contradict each other.
    """
    src, out = Path(src), Path(out)
    check_target(out, overwrite=overwrite)
    before = user_cache.identities(src)  # its parts are read one by one
    source = _read_source(src, {"features": features, "labels": labels, "groups": group})
    for remark in source.remarks:
        notify(remark)
    if columns is not None:
        source = _with_listed(source, Path(columns), notify, keep_groups=group is not None)
    samples, made, provenance = _split_samples(source, group, split, stratify=stratify)
    if source.has_split and (split is not None or stratify):
        notify(f"{src}: its own split is replaced, as --split or --stratify asks.")
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
        check=partial(user_cache.check_identities, src, before),
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
    equal = _same_rows(source.features, samples)
    for remark in filter(None, (taken, straddling, lopsided, *equal)):
        notify(remark)
    return file


def _same_rows(features: Array, samples: Samples) -> Iterator[str]:
    """Yield sentences on equal rows of features in two splits, and in two classes."""
    hashes = row_hashes(features)
    splits, classes = pairs_apart(hashes, samples.split), pairs_apart(hashes, samples.labels)
    for said in (
        describe_two_splits(splits, samples, "rows of features", "import"),
        describe_two_classes(classes, samples, "rows of features", "import"),
    ):
        if said:
            yield f"{said}."


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
    samples, provenance = source.samples, dict(source.provenance)
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
    origin, groups = dict(source.origin), source.groups
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


SOURCES = (
    "give an npz, Parquet, safetensors or .pt file, a directory of npy files (features.npy, "
    "labels.npy) or Parquet files, a data set that `datasets` saved, MNIST's IDX files, or "
    "AudioSet's folders of TFRecords"
)
# Who reads a file, by its suffix, and a folder, by what is in it: each returns arrays by name.
_Reader = Callable[[Path], Mapping[str, Any]]
_FILES: dict[str, _Reader] = {
    ".npz": load_npz,
    ".parquet": arrow_files.read_parquet,
    ".safetensors": safetensors_and_torch.read_safetensors,
    ".pt": safetensors_and_torch.read_torch,
    ".pth": safetensors_and_torch.read_torch,
}
_FOLDERS: list[tuple[Callable[[Path], bool], _Reader]] = [
    (arrow_files.is_saved_data_set, arrow_files.read_saved_data_set),
    (lambda path: bool(arrow_files.parquet_files(path)), arrow_files.read_parquet),
    (lambda path: bool(npy_files(path)), load_folder),
]


def _read_source(src: Path, keys: Mapping[str, str | None]) -> Arrays:
    """Read features, labels and whatever else a source has; `keys` are those that the user named.

    The key of `groups` may be a rule for the ids instead.
    """
    if src.is_dir() and (is_audioset(src) or is_idx(src)):
        if named := [name for name in keys.values() if name is not None]:
            raise UserError(f"{src} has its own layout and no key {named[0]!r}", "do not name it")
        if is_audioset(src):
            return Arrays(*read_audioset(src))
        samples, images = read_idx(src)
        source = {"name": as_text(src.resolve().name), "revision": "", "licence": ""}
        return Arrays(samples, pixels(images), {**pixels_recipe(), "source": source})
    if not os.path.exists(src):
        raise UserError(f"there is no file or folder {str(src)!r}", "correct the path")
    readers = [_FILES.get(src.suffix.lower())] if src.is_file() else []
    if src.is_dir():
        readers = [read for is_folder, read in _FOLDERS if is_folder(src)]
    if not readers or readers[0] is None:
        raise UserError(f"{src} is nothing that import reads", _find_way(src))
    return choose_arrays(readers[0](src), src, keys)


_TEXTS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
_MEDIA = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".wav", ".flac", ".mp3", ".ogg", ".zip")
_MOST = 1000  # files of a folder that are looked at to say what it holds


def _find_way(src: Path) -> str:
    """Return what to do with a source that is not read here."""
    if src.suffix.lower() in _TEXTS:
        return "save features as npz or Parquet; texts and their labels go in by `extract`"
    if src.suffix.lower() == ".npy":
        return "give a folder of npy files, features.npy and labels.npy, and not one of them"
    inside = src.rglob("*") if src.is_dir() else iter([src])
    if any(path.suffix.lower() in _MEDIA for path in itertools.islice(inside, _MOST)):
        return "images and sounds go in by `extract`, where a --backbone makes features of them"
    return SOURCES
