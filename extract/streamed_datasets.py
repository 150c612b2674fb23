"""Data sets that timm reads as streams, in order: `hfids/`, `tfds/` and `wds/`."""

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import EpsImagePlugin, Image

from embedbench.errors import UserError
from embedbench.storage.regular_files import explain_errors

from .data_set_parts import SPLIT_NAMES, Part, join_parts
from .source import Source

_SPLITS = (("train",), ("validation", "val", "valid", "dev"), ("test",))  # the first that exists


def streamed_source(source: str) -> Source:
    """Return a data set that `timm.data.create_dataset` reads in order, its parts joined.

    It is named as timm spells it (`wds/name`), optionally with `@ROOT`.
    """
    name, _, root = source.partition("@")
    EpsImagePlugin.gs_binary = False  # where others open images: EPS is a program for Ghostscript
    parts, version, problems = [], "", list[str]()
    with explain_errors(f"timm cannot read {name}"):
        for names in _SPLITS:
            split, dataset = _create(name, root, names, problems)
            if dataset is None:
                continue
            reader = getattr(dataset, "reader", None)
            info = getattr(getattr(reader, "dataset", None), "info", None)
            version = version or str(getattr(info, "version", "") or "")
            stream = _SequentialDataset(dataset)
            classes = _class_names(reader, int(stream.labels.max(initial=-1)) + 1)
            labels = [classes[i] if i >= 0 else None for i in stream.labels]
            parts.append(Part(split, SPLIT_NAMES[split], labels, classes, stream.read))
    if not parts:
        raise UserError(f"timm cannot read any part of {name} ({problems[0]}).")
    return join_parts(name, parts, [], revision=version, in_order=True)


def _create(name: str, root: str, splits: Sequence[str], problems: list[str]) -> tuple[str, Any]:
    """Return the first split that exists, and timm's data set for it, or None."""
    from timm.data.dataset_factory import create_dataset

    for split in splits:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # readers print to stdout
                return split, create_dataset(name, root=root or None, split=split)
        except ImportError as error:
            raise UserError(
                f"{name} needs the package {error.name!r}, which embedbench does not bring; "
                f"install it (pip install {error.name})."
            ) from error
        except Exception as error:  # the readers of many libraries raise many kinds of errors
            problems.append(f"{type(error).__name__}: {error}".split("\n")[0])
    return splits[0], None


def _class_names(reader: Any, at_least: int) -> list[str]:
    """Return the names of the classes; numbers if the reader has too few."""
    indexed = getattr(reader, "class_to_idx", None) or {}
    names = sorted(indexed, key=indexed.__getitem__)
    return names if len(names) >= at_least else [str(i) for i in range(at_least)]


class _SequentialDataset:
    """A data set that can only be read in order; it is read for its labels, then for its images."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.labels = np.array([target for _, target in dataset], np.int64)
        self._lock = threading.Condition()
        self._next = 0
        self._items: Iterator[tuple[Image.Image, int]] = iter(())

    def read(self, i: int) -> Image.Image:
        """Return image i; images before it that were not read are skipped."""
        with self._lock:
            if i < self._next or self._next == 0:
                self._items, self._next = iter(self.dataset), 0
            for image, label in self._items:
                self._next += 1
                if self._next == i + 1:
                    if label != self.labels[i]:
                        raise UserError("the data set was in another order at the second reading.")
                    return image
        raise UserError(f"the data set ended before image {i}, which it had the first time.")
