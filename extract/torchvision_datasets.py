"""The data sets of torchvision with one label an image, with their official splits."""

import contextlib
import inspect
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import EpsImagePlugin, Image
from torchvision import datasets

from embedbench.config.plain_numbers import has_only_digits
from embedbench.errors import UserError, unknown
from embedbench.files.sample_metadata import TEST, TRAIN, VAL

from .data_set_parts import Part, join_parts, name_labels, parse_address
from .source import Content, Source, escape_name, open_image, read_bytes

_OFFICIAL = (  # the parameter that chooses a part; its values for train, val and test; the classes
    ("train", (True, None, False), "CIFAR10 CIFAR100 EMNIST FashionMNIST KMNIST MNIST QMNIST USPS"),
    ("split", ("train", "val", "test"), "DTD FGVCAircraft Flowers102 PCAM RenderedSST2"),
    ("split", ("train", "valid", "test"), "Country211"),
    ("split", ("train", None, "test"), "FER2013 Food101 GTSRB LFWPeople StanfordCars STL10 SVHN"),
    ("split", ("trainval", None, "test"), "OxfordIIITPet"),
    ("split", ("train", "val", None), "CLEVRClassification ImageNet Imagenette"),
    ("split", ("train-standard", "val", None), "Places365"),
    ("", ("all",), "Caltech101 Caltech256 EuroSAT SEMEION"),
)  # not those in the disk's order, which are folders of classes: INaturalist, Omniglot, SUN397
_GIVEN: dict[str, dict[str, Any]] = {  # where a class has no default, or downloads by default
    "EMNIST": {"split": "balanced"},
    "SEMEION": {"download": False},
}
_OURS = ("root", "transform", "transforms", "target_transform", "loader", "is_valid_file")
_WORDS = {"yes": True, "true": True, "no": False, "false": False}


def torchvision_source(source: str) -> Source:
    """Return a data set of torchvision: `torch/NAME?OPTION=VALUE@ROOT`.

    Parameters
    ----------
    source : str
        NAME is the class in small letters, `_` as you like: `torch/cifar100`,
        `torch/oxford_iiit_pet`. Options are those of the class: `torch/dtd?partition=2`. ROOT is
        the folder in which torchvision finds the data, by default `~/.cache/embedbench`.
        Nothing is downloaded unless `download=yes` asks for it.
    """
    typed, options, place = parse_address(source)
    known: dict[str, tuple[Any, ...]] = {}
    for row in _OFFICIAL:
        known |= dict.fromkeys(row[2].lower().split(), row)
    key = typed.lower().replace("_", "").replace("-", "")
    if key not in known:
        raise unknown("data set of torchvision with one label an image", typed, sorted(known))
    switch, values, classes = known[key]
    cls = getattr(datasets, next(name for name in classes.split() if name.lower() == key))
    root = Path(os.path.expanduser(place or "~/.cache/embedbench"))
    settings = _GIVEN.get(cls.__name__, {}) | _settings(switch, options, f"torch/{typed}")
    EpsImagePlugin.gs_binary = False  # where others open images: EPS is a program for Ghostscript
    opened = {
        value: _open(cls, root, {**settings, switch: value} if switch else settings, source)
        for value in values
        if value is not None
    }
    roles = dict(zip(values, (TRAIN, VAL, TEST), strict=False)) if len(values) == 3 else {}
    parts = [
        _part(_part_name(switch, value), roles.get(value), data) for value, data in opened.items()
    ]
    said = "&".join(f"{name}={text}" for name, text in options.items() if name != "download")
    return join_parts(f"torch/{typed}{'?' if said else ''}{said}", parts, [])


def _part_name(switch: str, value: Any) -> str:
    if switch == "train":
        return "train" if value else "test"
    return str(value)


def _part(name: str, role: int | None, data: Any) -> Part:
    """Return a part; its classes are called by their numbers if the data set has no names."""
    names = _class_names(data)
    labels = _labels(data)
    if names:
        called = name_labels(labels, names, f"the part {name} of {type(data).__name__}")
    else:
        called = [None if i is None or i < 0 else str(i) for i in labels]

    def read(i: int) -> Content:
        if isinstance(data, datasets.OxfordIIITPet):  # torchvision drops transparency there
            return _load(data._images[i])
        image: Image.Image = data[i][0]
        return image

    return Part(name, role, called, names, read)


def _settings(switch: str, options: dict[str, str], source: str) -> dict[str, Any]:
    """Return options as arguments of a class; the class itself knows which there are."""
    for name, text in options.items():
        if name in (*_OURS, switch):
            raise UserError(f"{source} takes no option {name!r}", "leave it out")
        if name == "download" and text not in _WORDS:
            raise unknown("value", text, _WORDS)
    return {
        name: int(text) if has_only_digits(text) else _WORDS.get(text, text)
        for name, text in options.items()
    }


def _open(cls: Any, root: Path, settings: dict[str, Any], source: str) -> Any:
    """Return torchvision's data set; its images are read from regular files of our formats."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # downloads print to stdout
            data = cls(root, **settings)
    except TypeError as error:
        known = [name for name in inspect.signature(cls).parameters if name not in _OURS]
        strange = [name for name in settings if name not in known]
        what = (
            f"takes no argument {strange[0]!r}" if strange else "takes no such value of an option"
        )
        raise UserError(
            f"{escape_name(source)}: torchvision's {cls.__name__} {what}",
            f"its options are {', '.join(known)}",
        ) from error
    except Exception as error:  # each class raises errors of its own
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{escape_name(source)} cannot be read in {root} ({reason}). Nothing is "
            f"downloaded unasked: unpack the data there as torchvision's {cls.__name__} has them, "
            "or let torchvision do it by the option download=yes."
        ) from error
    for name in ("loader", "_loader"):
        if getattr(data, name, None) is datasets.folder.default_loader:
            setattr(data, name, _load)  # the other one reads any file, and drops transparency
    return data


def _load(path: str) -> Image.Image:
    """Return an opened image, from regular files and of our formats alone.

    Its pixels are as the file has them: what becomes of transparency is the pixel policy's.
    """
    return open_image(read_bytes(path))


def _labels(data: Any) -> list[int | None]:
    """Return the label of each image; if the data set allows it, no image is decoded."""
    for name in ("targets", "_labels", "labels", "y"):
        values = getattr(data, name, None)
        if values is not None and len(values) == len(data):
            if getattr(values, "ndim", 1) == 2:  # QMNIST's eight columns; the class is the first
                values = values[:, 0]
            return [None if value is None else int(value) for value in values]
    if values := getattr(data, "_samples", None):
        return [label for _, label in values]
    return [data[i][1] for i in range(len(data))]


def _class_names(data: Any) -> list[str]:
    """Return the names of the classes, with a number where two are the same; or none."""
    indexed: dict[str, int] = getattr(data, "class_to_idx", None) or {}
    listed = (getattr(data, name, None) for name in ("classes", "categories"))
    given = next(filter(None, listed), sorted(indexed, key=lambda name: indexed[name]))
    names = [name if isinstance(name, str) else ", ".join(name) for name in given]
    times = Counter(names)
    return [f"{name} ({i})" if times[name] > 1 else name for i, name in enumerate(names)]
