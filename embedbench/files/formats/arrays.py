"""Sources of `import` in one form: npz, npy pairs, MNIST's IDX files, AudioSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.callbacks import Progress
from embedbench.errors import UserError, unknown
from embedbench.files import layout
from embedbench.files.provenance import read_provenance
from embedbench.files.samples import SPLITS, TEST, Samples

from .audioset import N_CLASSES, is_audioset, read_audioset
from .idx import is_idx, pixels, pixels_recipe, read_idx
from .numpy_files import Table, load_npy, load_npz

_KEYS = {
    "features": ("features", "X", "x", "embeddings"),
    "labels": ("labels", "y", "targets"),
    "classes": ("classes", "class_names", "names"),
    "ids": ("sample_ids", "ids"),
    "groups": ("groups", "group"),
}


@dataclass(frozen=True)
class Arrays:
    """Contents of a source, before the splits are made."""

    features: Table
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    parents: NDArray[np.int64]
    ids: NDArray[np.str_]
    split: NDArray[np.uint8] | None
    groups: list[str] | None
    provenance: dict[str, Any]
    layers: dict[str, Table] = field(default_factory=dict)
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)


def read_source(
    src: Path,
    labels: Path | None,
    group: str | None,
    classes: int | None,
    progress: Progress,
) -> Arrays:
    """Read features, labels and whatever else a source has; see `exchange.import_file`."""
    for path in [src] if labels is None else [src, labels]:
        if not path.is_file() and not src.is_dir():
            raise UserError(f"there is no file {path}; give an npz or npy file or a directory.")
    if labels is not None and src.suffix != ".npy":
        raise UserError(f"--labels goes with a features file NAME.npy, not with {src}.")
    if src.is_dir() and is_audioset(src):
        return _from_samples(src, group, *read_audioset(src, classes or N_CLASSES, progress))
    if classes is not None:
        raise UserError(f"--classes chooses among AudioSet's, and {src} is not AudioSet; drop it.")
    if src.is_dir() and is_idx(src):
        samples, images = read_idx(src)
        source = {"name": src.resolve().name, "revision": "", "licence": ""}
        provenance = {**pixels_recipe(), "source": source}
        return _from_samples(src, group, samples, pixels(images), provenance)
    if src.is_dir() and (src / "features.npy").is_file():
        paths = sorted(path for path in src.glob("*.npy") if path.is_file())
        arrays = {path.stem: load_npy(path) for path in paths}
    elif src.suffix == ".npy":
        if labels is None:
            raise UserError(f"{src} has no labels; name their npy file with --labels.")
        arrays = {"features": load_npy(src), "labels": load_npy(labels)}
    elif src.suffix == ".npz":
        arrays = load_npz(src)
    else:
        raise UserError(
            f"{src} is nothing that import reads; give an npz file, a features file NAME.npy with "
            "--labels, a directory with features.npy and labels.npy, MNIST's IDX files, or "
            "AudioSet's folders of TFRecords."
        )
    return _from_arrays(arrays, src, group)


def _from_samples(
    src: Path,
    group: str | None,
    samples: Samples,
    features: NDArray[np.float32],
    provenance: dict[str, Any],
) -> Arrays:
    """Return the contents of a data set that has its own split."""
    if group is not None:
        raise UserError(f"{src} has its own layout and no key {group!r}; drop --group.")
    return Arrays(
        features=features,
        labels=samples.labels,
        classes=samples.classes,
        parents=samples.parents,
        ids=samples.ids,
        split=samples.split,
        groups=None,
        provenance=provenance,
    )


def _from_arrays(arrays: Mapping[str, Any], src: Path, group: str | None) -> Arrays:
    columns = {
        what: next((arrays[key] for key in keys if key in arrays), None)
        for what, keys in _KEYS.items()
    }
    features, given = columns["features"], columns["labels"]
    if features is None or given is None:
        raise UserError(
            f"{src} must hold 'features' and 'labels', and it holds {', '.join(arrays)}; "
            "rename them when you save it."
        )
    _check_columns(arrays, group, src)
    if features.dtype == np.float64:
        features = features.astype(np.float32)
    if group is not None and group not in arrays:
        raise unknown(f"key of {src}", group, arrays)
    groups = arrays[group] if group is not None else columns["groups"]
    labels, classes = _label_classes(given, columns["classes"])
    split = None if "split" not in arrays else _split_numbers(arrays["split"])
    ids = columns["ids"]
    return Arrays(
        features=features,
        labels=labels,
        classes=classes,
        parents=np.asarray(arrays.get("parents", np.full(len(classes), -1))),
        ids=_default_ids(len(labels), split) if ids is None else np.asarray(ids, dtype=np.str_),
        split=split,
        groups=None if groups is None else groups.astype(np.str_).tolist(),
        provenance=_provenance(arrays, features, src),
        layers={k.removeprefix("layer/"): v for k, v in arrays.items() if k.startswith("layer/")},
        columns={name: arrays[name] for name in layout.COLUMNS if name in arrays},
    )


def _check_columns(arrays: Mapping[str, Table], group: str | None, src: Path) -> None:
    """What is read has one value a row, but for features and layers."""
    tables = {*_KEYS["features"], *(key for key in arrays if key.startswith("layer/"))}
    read = {
        group,
        "split",
        "parents",
        *layout.COLUMNS,
        *tables,
        *(k for keys in _KEYS.values() for k in keys),
    }
    for key, values in arrays.items():
        axes, kinds = ((2, 4), "fiu") if key in tables else ((1,), "fiuUb")
        if key in read and (values.ndim not in axes or values.dtype.kind not in kinds):
            form = "(N, D) or (N, H, W, C)" if key in tables else "one value a row"
            raise UserError(
                f"{src}: {key} is {values.dtype} of shape {values.shape}; expected {form}."
            )


def _label_classes(
    given: NDArray[Any], names: NDArray[Any] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels as indices, and the class names; by default the label values are the names."""
    if given.ndim != 1 or given.dtype.kind not in "iuU":
        raise UserError(
            f"labels must be one integer or text per sample, not {given.dtype} of shape "
            f"{given.shape}; convert them first."
        )
    if names is None:
        if given.dtype.kind == "i" and given.size and given.min() < 0:
            raise UserError(f"label {given.min()} is negative; leave unlabelled samples out.")
        values, labels = np.unique(given, return_inverse=True)
        return labels.astype(np.int64), tuple(str(value) for value in values)
    classes = tuple(str(name) for name in names)
    if given.dtype.kind != "U":
        return given.astype(np.int64), classes
    index = {name: number for number, name in enumerate(classes)}
    for value in given.tolist():
        if value not in index:
            raise unknown("label", value, classes)
    return np.array([index[value] for value in given.tolist()], dtype=np.int64), classes


def _split_numbers(split: NDArray[Any]) -> NDArray[np.uint8]:
    if split.dtype.kind != "U":
        if split.dtype.kind not in "iu" or not np.isin(split, range(len(SPLITS))).all():
            raise UserError("split must hold 0 (train), 1 (val) or 2 (test), or their names.")
        return split
    for value in np.unique(split).tolist():
        if value not in SPLITS:
            raise unknown("split", value, SPLITS)
    return np.array([SPLITS.index(value) for value in split.tolist()], dtype=np.uint8)


def _default_ids(n: int, split: NDArray[np.uint8] | None) -> NDArray[np.str_]:
    """Return the ids `00000`, `00001`, …; with a split, `train/00000`, … within each part."""
    if split is None:
        return np.array([f"{row:05d}" for row in range(n)], dtype=np.str_)
    count = dict.fromkeys(range(TEST + 1), -1)
    ids = []
    for part in split.tolist():
        count[part] += 1
        ids.append(f"{SPLITS[part]}/{count[part]:05d}")
    return np.array(ids, dtype=np.str_)


def _provenance(arrays: Mapping[str, Any], features: Table, src: Path) -> dict[str, Any]:
    """Return the provenance in the source, or one that says that the backbone is unknown.

    The digest of the features then replaces the backbone, so that two unknown backbones are never
    taken for the same one.
    """
    if "provenance" in arrays:
        return read_provenance(str(arrays["provenance"][()]), f"{src}: provenance")
    sums = (layout.block_digest(features[a:b]) for a, b in layout.block_ranges(len(features)))
    made = layout.sha256_parts([("features", b"".join(sums))])
    return {
        "backbone": {"name": "unknown", "features_sha256": made},
        "preprocessing": {},
        "arithmetic": {"dtype": features.dtype.name},
        "source": {"name": src.stem, "revision": "", "licence": ""},
    }
