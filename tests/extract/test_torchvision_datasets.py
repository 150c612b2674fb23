"""Data sets of torchvision: small ones in the official layouts, read by its own classes."""

import inspect
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hostile_sources import split_of
from PIL import EpsImagePlugin, Image
from scipy.io import savemat
from torchvision import datasets

from embedbench.errors import UserError
from embedbench.extract import torchvision_datasets
from embedbench.extract.open_source import open_source
from embedbench.files.sample_metadata import TEST, TRAIN, VAL


def put(root: Path, *paths: str) -> None:
    """Write an image for each path; the red of the image is its number in the call."""
    for number, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (10 * number, 0, 0)).save(root / path)


def text(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def cifar100(root: Path, patch: pytest.MonkeyPatch) -> None:
    folder = root / "cifar-100-python"
    folder.mkdir()
    for name, n in (("train", 4), ("test", 2)):
        part = {"data": np.zeros((n, 3072), np.uint8), "fine_labels": list(range(n))}
        (folder / name).write_bytes(pickle.dumps(part | {"coarse_labels": [0] * n}))
    names = {"fine_label_names": ["apple", "bear", "crab", "dog"], "coarse_label_names": ["x"]}
    (folder / "meta").write_bytes(pickle.dumps(names))
    patch.setattr(datasets.CIFAR100, "train_list", [["train", None]])
    patch.setattr(datasets.CIFAR100, "test_list", [["test", None]])
    patch.setattr(datasets.CIFAR100, "meta", {**datasets.CIFAR100.meta, "md5": None})


def dtd(root: Path, _: pytest.MonkeyPatch) -> None:
    names = [f"{c}/{c}_{i:04d}.jpg" for c in ("banded", "dotted") for i in range(3)]
    put(root / "dtd/dtd/images", *names)
    for partition in (1, 2):
        order = names if partition == 1 else names[::-1]
        for part, some in zip(("train", "val", "test"), np.array_split(order, 3), strict=True):
            text(root / f"dtd/dtd/labels/{part}{partition}.txt", *some)


def gtsrb(root: Path, _: pytest.MonkeyPatch) -> None:
    put(root / "gtsrb/GTSRB/Training", "00000/00000_00000.ppm", "00001/00000_00000.ppm")
    put(root / "gtsrb/GTSRB/Final_Test/Images", "00000.ppm")
    text(root / "gtsrb/GT-final_test.csv", "Filename;Width;ClassId", "00000.ppm;8;1")


def oxford_iiit_pet(root: Path, _: pytest.MonkeyPatch) -> None:
    folder = root / "oxford-iiit-pet"
    names = ("Abyssinian", "great_pyrenees")
    put(folder / "images", *[f"{c}_{i}.jpg" for c in names for i in (1, 2)])
    for part, i in (("trainval", 1), ("test", 2)):
        lines = (f"Abyssinian_{i} 1 1 1", f"great_pyrenees_{i} 2 2 1")
        text(folder / f"annotations/{part}.txt", *lines)


def country211(root: Path, _: pytest.MonkeyPatch) -> None:
    for part in ("train", "valid", "test"):
        put(root / "country211" / part, "AD/1.jpg", "AE/1.jpg")


def eurosat(root: Path, _: pytest.MonkeyPatch) -> None:
    put(root / "eurosat/2750", "Forest/Forest_1.jpg", "River/River_1.jpg", "River/River_2.jpg")


def caltech101(root: Path, _: pytest.MonkeyPatch) -> None:
    names = ("BACKGROUND_Google", "Faces", "airplanes")
    put(root / "caltech101/101_ObjectCategories", *[f"{c}/image_0001.jpg" for c in names])


def svhn(root: Path, patch: pytest.MonkeyPatch) -> None:
    parts = {part: ("", f"{part}_32x32.mat", None) for part in ("train", "test")}
    patch.setattr(datasets.SVHN, "split_list", parts)
    for part, y in (("train", [10, 1, 2]), ("test", [2, 10])):
        x = np.zeros((32, 32, 3, len(y)), np.uint8)
        savemat(root / f"{part}_32x32.mat", {"X": x, "y": np.array(y)[:, None]})


def clevr_classification(root: Path, _: pytest.MonkeyPatch) -> None:
    folder = root / "clevr/CLEVR_v1.0"
    for part, counts in (("train", (10, 3)), ("val", (3,))):
        names = [f"CLEVR_{part}_{i}.png" for i in range(len(counts))]
        put(folder / "images" / part, *names)
        pairs = zip(names, counts, strict=True)
        scenes = [{"image_filename": name, "objects": [{}] * n} for name, n in pairs]
        text(folder / f"scenes/CLEVR_{part}_scenes.json", json.dumps({"scenes": scenes}))


NO_SPLIT = "no official split; --split decides, by default 0.3 by hash"
IS_TEST = "is the test part, as there is no other"
LAYOUTS: list[tuple[Callable[[Path, pytest.MonkeyPatch], None], str]] = [
    (cifar100, "4 classes; train 4, test 2."),
    (dtd, "2 classes; train 2, val 2, test 2."),
    (gtsrb, "2 classes; train 2, test 1."),
    (oxford_iiit_pet, "2 classes; train (trainval) 2, test 2."),
    (country211, "2 classes; train 2, val (valid) 2, test 2."),
    (eurosat, f"2 classes; all 3; {NO_SPLIT}."),
    (caltech101, f"2 classes; all 2; {NO_SPLIT}."),
    (svhn, "3 classes; train 3, test 2."),
    (clevr_classification, f"2 classes; train 2, test (val) 1; val {IS_TEST}."),
]


@pytest.mark.parametrize(("make", "line"), LAYOUTS)
def test_a_layout_is_read_and_a_line_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., None], line: str
) -> None:
    make(tmp_path, monkeypatch)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # not looked for yet
    source = open_source(f"torch/{make.__name__}@{tmp_path}")
    assert EpsImagePlugin.gs_binary is False  # no image starts Ghostscript
    assert source.remark == f"torch/{make.__name__}: {line}"
    assert all(isinstance(source.read(i), Image.Image) for i in range(len(source.ids)))


@pytest.mark.parametrize(
    ("make", "picture"),
    [
        (clevr_classification, "clevr/CLEVR_v1.0/images/train/CLEVR_train_0.png"),
        (oxford_iiit_pet, "oxford-iiit-pet/images/Abyssinian_1.jpg"),
    ],
)
def test_transparency_is_left_to_the_pixel_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., None], picture: str
) -> None:
    """torchvision's own loaders would drop it."""
    make(tmp_path, monkeypatch)
    Image.new("RGBA", (8, 8), (9, 9, 9, 0)).save(tmp_path / picture, "PNG")
    source = open_source(f"torch/{make.__name__}@{tmp_path}")
    modes = [source.read(i).mode for i in range(len(source.ids))]
    assert modes.count("RGBA") == 1


def test_parts_and_labels_are_torchvisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option of the class chooses another partition; numbers may be the names of classes."""
    dtd(tmp_path, monkeypatch)
    source = open_source(f"torch/dtd@{tmp_path}")
    assert split_of(source) == [TRAIN, TRAIN, VAL, VAL, TEST, TEST]
    assert source.classes == ("banded", "dotted")
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert source.ids[2:5] == ("val/00000", "val/00001", "test/00000")
    reds = [np.asarray(source.read(i))[0, 0, 0] for i in range(6)]
    assert np.allclose(reds, np.arange(6) * 10, atol=2)  # JPEG
    source = open_source(f"torch/DTD?partition=2@{tmp_path}")
    assert source.name == "torch/DTD?partition=2"
    assert [source.classes[i] for i in source.labels[:2]] == ["dotted", "dotted"]
    for make, classes, labels in (
        (svhn, ("0", "1", "2"), [0, 1, 2, 2, 0]),
        (clevr_classification, ("3", "10"), [1, 0, 0]),
    ):
        make(tmp_path, monkeypatch)
        source = open_source(f"torch/{make.__name__}@{tmp_path}")
        assert source.classes == classes
        assert source.labels.tolist() == labels
    eurosat(tmp_path, monkeypatch)
    source = open_source(f"torch/eurosat@{tmp_path}")
    for path in tmp_path.glob("eurosat/**/*.jpg"):
        path.write_bytes(b"P3 1 1 255 0 0 0")  # torchvision itself would read it
    with pytest.raises(UserError, match=r"a PPM .*text"):
        source.read(0)


def test_two_classes_of_one_name_stay_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ImageNet has two cranes."""
    cifar100(tmp_path, monkeypatch)
    names = {"fine_label_names": ["crane", "bear", "crane", "dog"]}
    (tmp_path / "cifar-100-python/meta").write_bytes(pickle.dumps(names))
    source = open_source(f"torch/cifar100@{tmp_path}")
    assert source.classes == ("crane (0)", "bear", "crane (2)", "dog")


def test_labels_and_names_of_other_forms() -> None:
    class QMNIST(list[Any]):
        targets, classes = np.array([[3, 1], [5, 2]]), [("crane", "bird"), "dog"]

    assert torchvision_datasets._labels(QMNIST("ab")) == [3, 5]
    assert torchvision_datasets._labels(QMNIST([("image", 4)])) == [4]
    assert torchvision_datasets._class_names(QMNIST()) == ["crane, bird", "dog"]
    (part := QMNIST("abc")).targets = [None, -1, 1]  # type: ignore[assignment]
    assert torchvision_datasets._part("", None, part).labels == [None, None, "dog"]


def test_every_class_of_the_table_is_torchvisions_and_can_be_asked_for() -> None:
    for switch, _, names in torchvision_datasets._OFFICIAL:
        for cls in (getattr(datasets, name) for name in names.split()):
            taken: dict[str, Any] = {}
            for base in reversed(cls.__mro__):
                if "__init__" in vars(base):
                    taken |= inspect.signature(vars(base)["__init__"]).parameters
            given = torchvision_datasets._GIVEN.get(cls.__name__, {})
            downloads = taken["download"].default if "download" in taken else False
            assert given.get("download", downloads) is False
            assert not switch or switch in taken


def test_names_and_options_that_are_unknown() -> None:
    for source, sentence in (
        ("torch/dtdd", "data set of .*'dtdd'.* 'dtd'"),
        ("torch/dtd?partitoin=2", "argument 'partitoin'"),
        ("torch/dtd?split=train", "torch/dtd .*option 'split'"),
        ("torch/dtd?transform=x", "torch/dtd .*option 'transform'"),
        ("torch/cifar100?download=maybe", "value 'maybe'"),
        ("~no-such-user/x", "no .*folder '~no-such-user/x'"),
    ):
        with pytest.raises(UserError, match=sentence):
            open_source(source)


def test_nothing_is_downloaded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is missing is an error, and no other split is made instead."""
    gtsrb(tmp_path, monkeypatch)
    shutil.rmtree(tmp_path / "gtsrb/GTSRB/Final_Test/Images")
    with pytest.raises(UserError, match=f"gtsrb@{tmp_path} .* in {tmp_path} .* download=yes"):
        open_source(f"torch/gtsrb@{tmp_path}")
    asked: list[bool] = []
    monkeypatch.setattr(datasets.GTSRB, "download", lambda self: asked.append(True))
    for word, calls in (("no", 0), ("false", 0), ("yes", 2), ("true", 4)):  # one for each part
        with pytest.raises(UserError):
            open_source(f"torch/gtsrb?download={word}@{tmp_path}")
        assert len(asked) == calls


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 4000, "١", "²"])
def test_a_number_that_no_option_can_have(digits: str) -> None:
    with pytest.raises(UserError, check=lambda error: len(str(error)) < 900):
        open_source(f"torch/dtd?partition={digits}")


def test_a_label_without_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SimpleNamespace(classes=["a", "b"])
    monkeypatch.setattr(torchvision_datasets, "_labels", lambda _: [0, 2])
    with pytest.raises(UserError, match="has class 2 in row 1, and names 2 classes from 0"):
        torchvision_datasets._part("train", 0, data)
