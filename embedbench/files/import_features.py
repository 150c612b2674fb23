"""Import features: make an embedding file of arrays in another format.

docs/files.md lists what `import` reads.
"""

import itertools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Bytes, Ints, Strings
from embedbench.errors import LONG, UserError, unknown
from embedbench.storage import user_cache
from embedbench.storage.regular_files import explain_errors
from embedbench.system.callback_types import Notify

from . import file_digests, hdf5_layout
from .embedding_file import EmbeddingFile
from .formats import arrow_files, safetensors_and_torch
from .formats.arrow_files import NamedLabels
from .formats.audioset import is_audioset, read_audioset
from .formats.mnist_idx import is_idx, read_idx
from .formats.numpy_files import load_folder, load_npz
from .provenance import NOTHING, UserMetadata, read_provenance
from .raw_pixels import pixels, pixels_recipe
from .sample_metadata import SPLIT_NAMES, SPLITS, Samples, read_list
from .train_test_split import describe_lopsided, make_split, split_rule
from .train_test_split import groups as groups_of
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
        `train_test_split.groups`; no group is in both train and test.
    split : str or None
        A test fraction or a list file; None: the source's own split if it has one and neither
        `group` nor `stratify` is given, else 0.3.
    stratify : bool
        Let every class keep its share in a split by test fraction.
    columns : str or PathLike or None
        A CSV file of optional columns, see `sample_metadata.read_list`; they replace those of
        the source.
    notify : callable
        Called with each message for the user.

    Raises
    ------
    UserError
        The format of the source is unknown, or its parts are missing or contradict each other.
    """
    src, out = Path(src), Path(out)
    check_target(out, overwrite=overwrite)
    before = user_cache.identities(src)  # its parts are read one by one
    source = _read_source(src, {"features": features, "labels": labels, "groups": group})
    samples, n = source.samples, len(source.features)
    if n != len(samples.labels):
        raise UserError(
            f"{src} has {n} rows of features and {len(samples.labels)} labels",
            "give one label per row",
        )
    made, provenance = source.provenance.get("split", {"rule": "official"}), dict(source.provenance)
    if not source.has_split or split is not None or group is not None or stratify:
        named = group or ("sample" if source.groups is None else "groups")
        made = split_rule(split, named, stratify=stratify)
        classes = samples.labels if stratify else None
        rows = make_split(split, samples.ids.tolist(), source.groups, classes)
        samples = replace(samples, split=rows)
        provenance.pop("same_content_in_two_splits", None)  # it was said of another split
    listed = {} if columns is None else read_list(Path(columns), samples.ids.tolist())
    leaves = samples.classes[: samples.n_leaves]
    file = write_file(
        out,
        samples,
        source.features,
        stated.added_to({**provenance, "split": made}, leaves),
        layers=source.layers,
        columns={**source.columns, **listed},
        overwrite=overwrite,
        check=partial(user_cache.check_identities, src, before),
    )
    if remark := describe_lopsided(samples.split, samples.labels, leaves, made):
        notify(remark)
    return file


_KEYS = {
    "features": ("features", "X", "x", "embeddings", "embedding"),
    "labels": ("labels", "y", "targets", "label", "target"),
    "classes": ("classes", "class_names", "names"),
    "ids": ("sample_ids", "ids", "sample_id", "id"),
    "groups": ("groups", "group"),
}
_PLAIN, _LAYER = ("split", "parents", "provenance", *hdf5_layout.COLUMNS), "layer/"

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
    (lambda path: any(path.glob("*.parquet")), arrow_files.read_parquet),
    (lambda path: any(path.glob("*.npy")), load_folder),
]


@dataclass(frozen=True)
class Arrays:
    """Contents of a source; without `has_split`, all samples are in train so far."""

    samples: Samples
    features: Array
    provenance: dict[str, Any]
    has_split: bool = True
    groups: list[str] | None = None
    layers: dict[str, Array] = field(default_factory=dict)
    columns: dict[str, Array] = field(default_factory=dict)


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
        source = {"name": src.resolve().name, "revision": "", "licence": ""}
        return Arrays(samples, pixels(images), {**pixels_recipe(), "source": source})
    readers = [_FILES.get(src.suffix.lower())] if src.is_file() else []
    if src.is_dir():
        readers = [read for is_folder, read in _FOLDERS if is_folder(src)]
    if not readers or readers[0] is None:
        raise UserError(
            f"{src} is nothing that import reads, or not there",
            "give an npz, Parquet, safetensors or .pt file, a directory of npy files "
            "(features.npy, labels.npy) or Parquet files, a data set that `datasets` saved, "
            "MNIST's IDX files, or AudioSet's folders of TFRecords",
        )
    return _from_arrays(without_parts(readers[0](src), str(src)), src, keys)


def _from_arrays(arrays: Mapping[str, Any], src: Path, asked: Mapping[str, str | None]) -> Arrays:
    names = {
        what: next((key for key in keys if key in arrays), None) for what, keys in _KEYS.items()
    }
    rule = None if asked["groups"] in arrays else asked["groups"]
    names |= {k: v for k, v in asked.items() if v is not None and (k, v) != ("groups", rule)}
    if names["features"] is None or names["labels"] is None:
        listed = ", ".join(list(arrays)[:LONG]) or "nothing"
        raise UserError(
            f"{src} must hold 'features' and 'labels', and it holds {listed}",
            "name them with --features and --labels",
        )
    rest = {key for key in arrays if key in _PLAIN or key.startswith(_LAYER)}
    taken = {key: _taken(arrays, key, src) for key in {*rest, *filter(None, names.values())}}
    given: Any = taken[names["labels"]]
    taken = {k: v.names[v.values] if isinstance(v, NamedLabels) else v for k, v in taken.items()}
    taken = {k: _checked(k, v, k == names["features"], src) for k, v in taken.items()}
    classes, given_ids, groups = (
        None if names[what] is None else taken[str(names[what])]
        for what in ("classes", "ids", "groups")
    )
    features: Any = taken[names["features"]]
    if isinstance(given, NamedLabels):
        given, classes = given.values, given.names if classes is None else classes
    labels, leaves = _label_classes(given, classes)
    split = None if "split" not in taken else _split_numbers(taken["split"])
    ids = _default_ids(len(labels), split) if given_ids is None else given_ids.astype(np.str_)
    if rule is not None:
        try:
            groups = np.array(groups_of(ids.tolist(), rule), dtype=np.str_)
        except UserError:  # one that does not fit all ids was meant as a key
            raise unknown(f"key of {src}", rule, arrays) from None
    parents = np.asarray(taken.get("parents", np.full(len(leaves), -1)))
    return Arrays(
        Samples(
            ids, labels, np.zeros(len(ids), np.uint8) if split is None else split, leaves, parents
        ),
        features,
        _provenance(taken, features, src),
        split is not None,
        None if groups is None else groups.astype(np.str_).tolist(),
        layers={k.removeprefix(_LAYER): v for k, v in taken.items() if k.startswith(_LAYER)},
        columns={name: taken[name] for name in hdf5_layout.COLUMNS if name in taken},
    )


def _taken(arrays: Mapping[str, Any], key: str, src: Path) -> Any:
    try:
        return arrays[key]
    except KeyError:
        raise unknown(f"key of {src}", key, arrays) from None


def _checked(key: str, values: Array, table: bool, src: Path) -> Array:
    """Check that all but features and layers have one value a row; these leave float64."""
    table = table or key.startswith(_LAYER)
    axes, kinds = ((2, 4), "fiu") if table else ((1,), "fiuUb")
    if key != "provenance" and (values.ndim not in axes or values.dtype.kind not in kinds):
        form = "(N, D) or (N, H, W, C)" if table else "one value a row"
        raise UserError(f"{src}: {key} is {values.dtype} of shape {values.shape}; expected {form}")
    return values.astype(np.float32) if table and values.dtype == np.float64 else values


def _label_classes(given: Array, names: Array | None) -> tuple[Ints, tuple[str, ...]]:
    """Return labels as indices, and the class names; by default the label values are the names."""
    if given.ndim != 1 or given.dtype.kind not in "iuU":
        raise UserError(
            f"labels must be one integer or text per sample, not {given.dtype} of shape "
            f"{given.shape}",
            "convert them first",
        )
    if names is None:
        if given.dtype.kind == "i" and (given < 0).any():
            raise UserError(f"label {given.min()} is negative", "leave unlabelled samples out")
        values, labels = np.unique(given, return_inverse=True)
        return labels.astype(np.int64), tuple(str(value) for value in values)
    classes = tuple(str(name) for name in names)
    if given.dtype.kind != "U":
        return given.astype(np.int64), classes
    index = {name: number for number, name in enumerate(classes)}
    return _numbers(given, index, "label").astype(np.int64), classes


def _numbers(given: Array, index: Mapping[str, int], what: str) -> Array:
    """Return the numbers of texts (N,)."""
    names, place = np.unique(given, return_inverse=True)
    for name in names.tolist():
        if name not in index:
            raise unknown(what, name, index)
    numbers: Array = np.array([index[name] for name in names.tolist()])[place]
    return numbers


def _split_numbers(split: Array) -> Bytes:
    if split.dtype.kind != "U":
        if split.dtype.kind not in "iu" or not np.isin(split, range(len(SPLITS))).all():
            raise UserError("split must hold 0 (train), 1 (val) or 2 (test), or their names.")
        return split
    return _numbers(split, SPLIT_NAMES, "split").astype(np.uint8)


def _default_ids(n: int, split: Bytes | None) -> Strings:
    """Return the ids `00000`, `00001`, …; with a split, `train/00000`, … within each part."""
    if split is None:
        return np.array([f"{row:05d}" for row in range(n)], dtype=np.str_)
    within = {part: itertools.count() for part in range(len(SPLITS))}
    ids = [f"{SPLITS[part]}/{next(within[part]):05d}" for part in split.tolist()]
    return np.array(ids, dtype=np.str_)


def _provenance(arrays: Mapping[str, Any], features: Array, src: Path) -> dict[str, Any]:
    """Return the provenance in the source, or one that says that the backbone is unknown.

    The digest of the features then replaces the backbone, so that two unknown backbones are never
    taken for the same one.
    """
    if "provenance" in arrays:
        return read_provenance(str(arrays["provenance"][()]), f"{src}: provenance")
    sums = (
        file_digests.block_digest(features[a:b]) for a, b in hdf5_layout.block_ranges(len(features))
    )
    made = file_digests.sha256_parts([("features", b"".join(sums))])
    return {
        "backbone": {"name": "unknown", "features_sha256": made},
        "preprocessing": {},
        "arithmetic": {"dtype": features.dtype.name},
        "source": {"name": src.stem, "revision": "", "licence": ""},
    }


FIT = "all of one part need as many rows, and rows of one name one shape"
_WORDS = "|".join(SPLIT_NAMES)
_KEY = re.compile(f"(?:(?P<a>{_WORDS})_(?P<key>.+)|(?P<key2>.+)_(?P<b>{_WORDS}))")


def without_parts(arrays: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Join keys such as `X_train` and `X_test`, or `train_labels` and `test_labels`, into one.

    What is joined gets the name without the part, and `split` says which rows are which.
    """
    by_name: dict[str, dict[str, str]] = {}
    for key in arrays:
        if match := _KEY.fullmatch(key):
            part, name = match["a"] or match["b"], match["key"] or match["key2"]
            by_name.setdefault(name, {})[part] = key
    found = {part for keys in by_name.values() for part in keys}
    parts = sorted(found, key=SPLIT_NAMES.__getitem__)
    whole = {name: keys for name, keys in by_name.items() if len(keys) == len(parts)}
    if "split" in arrays or not whole or len(parts) < 2:
        return arrays
    taken = {key for keys in whole.values() for key in keys.values()}
    out = {key: value for key, value in arrays.items() if key not in taken}
    joined = {name: [arrays[keys[part]] for part in parts] for name, keys in whole.items()}
    with explain_errors(f"{where}: {', '.join(sorted(taken))} do not fit together", FIT):
        out |= {name: np.concatenate(tables) for name, tables in joined.items()}
        (rows,) = {tuple(map(len, tables)) for tables in joined.values()}
    out["split"] = np.repeat([SPLIT_NAMES[part] for part in parts], rows).astype(np.uint8)
    return out
