"""Sources that timm's data sets or MNIST's IDX files provide."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import EpsImagePlugin, Image
from torchvision.datasets.folder import default_loader

from embedbench.errors import UserError
from embedbench.files.formats.mnist_idx import read_idx
from embedbench.files.sample_metadata import TEST, TRAIN

from .source import BYTES, Content, Source, open_image, read_sample, size_problem

_SPLITS = (("train",), ("test", "validation", "val"))  # the first that exists is used
_STREAMED = ("hfids/", "tfds/", "wds/")


def timm_source(name: str) -> Source:
    """Return a data set that `timm.data.create_dataset` reads, train and test parts joined.

    It is named as timm spells it (`torch/cifar100`, `hfds/cifar100`, `wds/name`), optionally with
    `@ROOT`. Without a root, `torch/` data sets are in `~/.cache/embedbench`; missing ones are
    downloaded.
    """
    name, _, root = name.partition("@")
    if not root and name.startswith("torch/"):
        root = str(Path("~/.cache/embedbench").expanduser())
    streamed = name.startswith(_STREAMED)
    EpsImagePlugin.gs_binary = False  # where others open images: EPS is a program for Ghostscript
    try:
        parts = [_Part(*_create(name, root, options), streamed) for options in _SPLITS]
    except UserError:
        raise
    except Exception as error:  # as in `_create`
        raise UserError(f"timm cannot read {name} ({_first_line(error)}).") from error
    train, test = parts
    if train.dataset is None:
        raise UserError(f"timm cannot read the training part of {name} ({train.problem}).")
    if test.dataset is None or _same(train.dataset, test.dataset):
        parts = [train]
    counts = [len(part.labels) for part in parts]
    if not counts[0]:
        raise UserError(f"the training part of {name} is empty; choose another data set.")
    first = np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    part_of = np.repeat(np.arange(len(parts)), counts)
    labels = np.concatenate([part.labels for part in parts])
    classes = train.classes(int(labels.max()) + 1)
    return Source(
        name=name,
        ids=tuple(
            f"{split}/{i:05d}"
            for split, count in zip(("train", "test"), counts, strict=False)
            for i in range(count)
        ),
        labels=labels,
        classes=classes,
        parents=np.full(len(classes), -1, np.int64),
        read=lambda i: parts[part_of[i]].read(int(i - first[i])),
        split=np.where(part_of == 0, TRAIN, TEST).astype(np.uint8) if len(parts) > 1 else None,
        revision=train.revision,
        in_order=streamed,
    )


def _create(name: str, root: str, splits: Sequence[str]) -> tuple[Any, str]:
    """Return timm's data set for the first split that exists, or None and the problem."""
    from timm.data.dataset_factory import create_dataset

    problem = ""
    for split in splits:
        for download in (False, True) if name.startswith("torch/") else (False,):
            try:
                with contextlib.redirect_stdout(sys.stderr):  # readers print to stdout
                    data = create_dataset(name, root=root or None, split=split, download=download)
                return data, ""
            except ImportError as error:
                raise UserError(
                    f"{name} needs the package {error.name!r}, which embedbench does not bring; "
                    f"install it (pip install {error.name})."
                ) from error
            except Exception as error:  # the readers of many libraries raise many kinds of errors
                problem = _first_line(error)
    return None, problem


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0]


def _same(a: Any, b: Any) -> bool:
    """Whether timm used one folder for both parts, because it found no split folders."""
    return getattr(a, "samples", None) is not None and a.samples == getattr(b, "samples", None)


class _Part:
    """One split of a timm data set: its labels, and a function that reads its images."""

    def __init__(self, dataset: Any, problem: str, streamed: bool) -> None:
        self.dataset, self.problem = dataset, problem
        if dataset is None:
            return
        if getattr(dataset, "loader", None) is default_loader:  # which would read any file
            dataset.loader = _load
        self.reader = getattr(dataset, "reader", None)
        info = getattr(getattr(self.reader, "dataset", None), "info", None)
        self.revision = str(getattr(info, "version", "") or "")
        self.read: Callable[[int], Content] = self._read
        if streamed:
            stream = _SequentialDataset(dataset)
            self.labels, self.read = stream.labels, stream.read
        else:
            self.labels = np.array(self._targets(), np.int64)
        if self.labels.size and self.labels.min() < 0:
            raise UserError("the data set has images without a label; choose a labelled split.")

    def _targets(self) -> Sequence[int]:
        """Return all labels; if the data set allows it, no image is decoded."""
        column = getattr(self.reader, "label_key", None)
        if column is not None and self.reader is not None:
            return list(self.reader.dataset[column])
        for attribute in ("targets", "_labels"):
            if hasattr(self.dataset, attribute):
                return list(getattr(self.dataset, attribute))
        return [target for _, target in (self.dataset[i] for i in range(len(self.dataset)))]

    def _read(self, i: int) -> Content:
        if self.reader is None:
            image: Content = self.dataset[i][0]
            return image
        # timm's own __getitem__ would return the next image instead of a damaged one
        file, _ = self.reader[i][:2]
        with file:
            content: bytes = file.read(BYTES + 1)
        if problem := size_problem(len(content)):
            raise UserError(problem)
        return content

    def classes(self, at_least: int) -> tuple[str, ...]:
        """Return the class names; numbers if the data set has none."""
        names = getattr(self.dataset, "classes", None)
        indexed = getattr(self.reader, "class_to_idx", None)
        if names is None and indexed:
            names = sorted(indexed, key=indexed.__getitem__)
        names = [name if isinstance(name, str) else ", ".join(name) for name in names or ()]
        if len(names) < at_least or len(set(names)) < len(names):
            names = [str(i) for i in range(max(at_least, len(names)))]
        return tuple(names)


def _load(path: str) -> Image.Image:
    """Return an image as torchvision does, but from regular files and of our formats alone."""
    return open_image(read_sample(path)).convert("RGB")


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


def idx_source(root: Path) -> Source:
    """Return MNIST as it is published: four IDX files, gzipped or not, in one folder."""
    samples, images = read_idx(root)
    return Source(
        name=root.resolve().name,
        ids=tuple(samples.ids.tolist()),
        labels=samples.labels,
        classes=samples.classes,
        parents=samples.parents,
        read=lambda i: Image.fromarray(images[i]),
        split=samples.split,
    )
