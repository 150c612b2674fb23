"""Import features: make an embedding file of arrays in another format.

docs/files.md lists what `import` reads.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from embedbench.array_types import Bytes
from embedbench.errors import UserError
from embedbench.system.callback_types import Notify, Progress

from .embedding_file import EmbeddingFile
from .formats.read_import_source import Arrays, ImportRequest, read_source
from .optional_columns import read_list
from .output_path import check_target
from .raw_pixels import pixels, pixels_recipe
from .sample_metadata import Samples
from .train_test_split import describe_lopsided, make_split, split_rule
from .user_metadata import NOTHING, UserMetadata
from .write_file import write_file


def import_file(
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    features: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    group: str | None = None,
    split: str | None = None,
    classes: int | None = None,
    stratify: bool = False,
    columns: str | os.PathLike[str] | None = None,
    column_keys: Mapping[str, str] = MappingProxyType({}),
    backbone: str | None = None,
    stated: UserMetadata = NOTHING,
    overwrite: bool = False,
    progress: Progress = lambda *_: None,
    notify: Notify = lambda _: None,
) -> EmbeddingFile:
    """Write an embedding file from features in another format.

    Parameters
    ----------
    src : str or PathLike
        An npz, Parquet, safetensors or torch file (.pt); a features file NAME.npy; or a directory
        of npy or Parquet files, of a data set that Hugging Face's `datasets` saved, of MNIST's four
        IDX files (which gives pixels / 255), or of AudioSet's frame embeddings (see
        `formats.audioset`).
    features : str or None
        Key or column of the features, or a pattern of numeric columns such as `f*`; None:
        `features`, `embeddings` or `X`.
    labels : str or PathLike or None
        Key or column of the labels; None: `labels`, `label` or `y`. If `src` is a features file
        NAME.npy, the npy file of the labels.
    group : str or None
        Key or column of the source that groups the samples, or a rule for their ids, see
        `train_test_split.groups`; no group is in both train and test.
    split : str or None
        A test fraction or a list file; None: the source's own split, or 0.3 if it has none.
    classes : int or None
        How many of AudioSet's classes to take; None: 100.
    stratify : bool
        Let every class keep its share in a split by test fraction.
    columns : str or PathLike or None
        A CSV file of optional columns, see `optional_columns.read_list`; they replace those of
        the source.
    column_keys : mapping
        Keys of the source whose arrays are the columns `domain`, `group` and `time`, by column;
        without one, the key is the column's name.
    backbone : str or None
        "pixels": the features are raw values of images, bytes or between 0 and 1; they become rows
        of values between 0 and 1, as those of `extract --backbone pixels`, so that
        `protocol.scale=auto` leaves them so.
    progress : callable
        Called with (files read, total), for AudioSet only.
    notify : callable
        Called with each message for the user.

    Raises
    ------
    UserError
        The format of the source is unknown, or its parts are missing or contradict each other.
    """
    src, out = Path(src), Path(out)
    check_target(out, overwrite=overwrite)
    named = None if labels is None else os.fspath(labels)
    wanted = ImportRequest(features, named, group, classes, column_keys)
    source = read_source(src, wanted, progress)
    if len(source.features) != len(source.labels):
        raise UserError(
            f"{src} has {len(source.features)} rows of features and {len(source.labels)} labels; "
            "give one label per row."
        )
    if backbone is not None:
        source = _pixel_rows(src, source, backbone)
    rows, rule = _split(src, source, group, split, stratify=stratify)
    samples = Samples(source.ids, source.labels, rows, source.classes, source.parents)
    listed = {} if columns is None else read_list(Path(columns), samples.ids.tolist())
    leaves = samples.classes[: samples.n_leaves]
    made, provenance = ({} if rows is source.split else rule), dict(source.provenance)
    if made:
        provenance.pop("same_content_in_two_splits", None)  # it was said of another split
    file = write_file(
        out,
        samples,
        source.features,
        stated.added_to({**provenance, "split": rule}, leaves),
        layers=source.layers,
        columns={**source.columns, **listed},
        overwrite=overwrite,
    )
    if remark := describe_lopsided(rows, samples.labels, leaves, made):
        notify(remark)
    return file


def _pixel_rows(src: Path, source: Arrays, backbone: str) -> Arrays:
    """The source with raw values as rows of values between 0 and 1, and their recipe."""
    if backbone != "pixels":
        raise UserError(
            f"import --backbone takes pixels, for raw values, got {backbone!r}; name what made the "
            "features with --backbone-name."
        )
    x, recipe = np.asarray(source.features[:]), pixels_recipe()
    low, high, most = x.min(initial=0), x.max(initial=0), 1 if x.dtype.kind == "f" else 255
    if not 0 <= low <= high <= most:
        raise UserError(
            f"{src} has features from {low:g} to {high:g}; pixels are bytes or between 0 and 1, so "
            "divide them first, or drop --backbone pixels."
        )
    if most == 255:
        x = pixels(x.astype(np.uint8))
    else:
        recipe["preprocessing"] = {"scale": "value", "layout": "row by row"}
    rows = x.reshape(len(x), -1).astype(np.float32)
    return replace(source, features=rows, provenance={**source.provenance, **recipe})


def _split(
    src: Path, source: Arrays, group: str | None, split: str | None, *, stratify: bool
) -> tuple[Bytes, dict[str, Any]]:
    """Return the split of a source, and its rule."""
    if split is None and source.split is not None:
        option = f"--group {group}" if group is not None else "--stratify" if stratify else None
        if option is not None:
            raise UserError(
                f"{src} has its own split, to which {option} does not apply; drop it, or ask for a "
                "new split with --split."
            )
        return source.split, source.provenance.get("split", {"rule": "official"})
    classes = source.labels if stratify else None
    named = group or ("sample" if source.groups is None else "groups")
    rows = make_split(split, source.ids.tolist(), source.groups, classes)
    return rows, split_rule(split, named, stratify=stratify)
