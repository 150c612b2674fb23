"""Backbones and sources from outside: options, what they must say, where they are from."""

import hashlib
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from file_helpers import says
from PIL import Image
from torchvision import transforms

from embedbench import plugins
from embedbench.errors import CodeExitError, UserError
from embedbench.extract import open_backbone as backbones
from embedbench.extract.backbone import Backbone
from embedbench.extract.extract_plugins import is_outside, outside_backbone
from embedbench.extract.open_backbone import Images, Pixels, centre, choose_backbone, open_backbone
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.extract.source import Source
from embedbench.extract.timm_backbone import Layers, parse_layers
from embedbench.networks.published_weights import SHIPPED

HERE = __name__


class Taking(Backbone):
    """Keeps the options that it was given."""

    takes = "sounds"

    def __init__(self, size: int | None = None, layers: tuple[str, ...] = ()) -> None:
        self.given = (size, layers)
        self.backbone = {"name": "taking", "library": "a lie"}
        self.preprocessing = {"none": True}

    def prepare(self, content: Any) -> Any:
        return np.zeros(2)

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"features": torch.from_numpy(batch)}


class Mute(Taking):
    def __init__(self) -> None:
        self.backbone, self.preprocessing = {}, {}


class Broken(Taking):
    def __init__(self, device: torch.device) -> None:
        raise ZeroDivisionError(f"on {device.type}")


def source(text: str) -> Source:
    """Sounds that are never read."""
    if text == "bad":
        raise KeyError("bad")
    if text == "other":
        return None  # type: ignore[return-value]
    n = 3 if text == "short" else 2
    return Source(
        name=text or "empty",
        ids=("a/0", "b/0", "b/1")[:n],
        labels=np.array([0, 1]),
        classes=("a", "b"),
        parents=np.full(3 if text == "above" else 2, -1),
        read=lambda i: b"",
        holds="sounds",
    )


def opened(name: str, **changes: Any) -> Any:
    return open_backbone(f"{HERE}:{name}", lambda: None, **changes)  # type: ignore[arg-type,return-value]


def test_options_reach_a_backbone_where_it_takes_them() -> None:
    made = opened("Taking", size=7, layers=["a", "b"])
    assert (opened("Taking").given, made.given) == ((None, ()), (7, ("a", "b")))
    assert made.backbone["library"] == f"{HERE}:Taking"  # in no package: as it was typed
    assert len(made.backbone["library_version"]) == len("sha256 ") + 64  # and the code's
    assert (made.backbone["name"], made.backbone["weights_id"]) == ("taking", "")
    bare = type("Bare", (Taking,), {"__module__": "nowhere"})  # its code is in no file
    made = outside_backbone("nowhere:Bare", bare, torch.device("cpu"))
    assert made.backbone["library_version"] == "sha256 "
    for changes, option in (({"dtype": "bfloat16"}, "dtype"), ({"weights": Path("w")}, "weights")):
        with pytest.raises(UserError, match=f":Taking cannot .*TypeError.* '{option}'"):
            opened("Taking", **changes)
    for name, sentence in (
        ("Mute", ":Mute must state"),
        ("Broken", r":Broken .*\(ZeroDivisionError: on cpu\)"),
        ("Source", ":Source' .*'s Backbone"),
    ):
        with pytest.raises(UserError, match=sentence):
            opened(name)


class Weighing(Taking):
    """Loads weights, and does not say which."""

    def __init__(self, weights: Path) -> None:
        super().__init__()


def test_a_file_of_weights_is_in_the_recipe_of_a_backbone_that_does_not_say_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "w.bin").write_bytes(b"abc")
    made = opened("Weighing", weights=tmp_path / "w.bin")
    assert made.backbone["weights_sha256"] == hashlib.sha256(b"abc").hexdigest()


def test_the_code_of_a_backbone_is_compared_when_work_is_resumed() -> None:
    assert opened("Taking").also_decides == {"code": plugins.code_digest(Taking)}


def test_which_backbone_and_weights(tmp_path: Path) -> None:
    shipped = choose_backbone("demo", None, None)
    assert shipped == choose_backbone("demo", SHIPPED, None)
    assert shipped == choose_backbone("in", SHIPPED, "shipped")
    assert shipped[0] == SHIPPED
    assert choose_backbone("demo", "resnet18", None) == ("resnet18", None)
    assert choose_backbone("demo", SHIPPED, "w") == (SHIPPED, Path("w"))
    assert choose_backbone("in", SHIPPED, None) == (SHIPPED, None)


def test_images_say_what_is_done_to_them() -> None:
    resized = {"size": [4, 4], "resize": "shorter side to the size"}
    resized |= {"interpolation": "bicubic", "crop": "centre"}
    for kind in (Images, Pixels):
        grey, coloured = (kind(Image.new(mode, (9, 7)), None) for mode in ("1", "RGBA"))
        assert coloured.preprocessing == {**grey.preprocessing, "channels": "RGB"}
        small = kind(Image.new("L", (9, 7)), 4)
        assert small.preprocessing == {**grey.preprocessing, **resized}
    images = Images(Image.new("L", (9, 7)), None)
    assert images.backbone["name"] == "none"
    assert images.dtype == "uint8"
    Images(Image.new("L", (2048, 2048)), None)  # rows of exactly the bound
    with pytest.raises(UserError, match=r"2049x2048 .* 4,196,352 .* 4,194,304;"):
        Images(Image.new("L", (2049, 2048)), None)
    with pytest.raises(UserError, match="rows of 4,320,000 bytes"):
        Pixels(Image.new("RGB", (6, 5)), 600)


@pytest.mark.parametrize(
    ("width", "height", "size"), [(50, 41, 8), (41, 50, 9), (9, 9, 9), (30, 17, 17), (17, 30, 17)]
)
def test_the_centre_is_torchvisions(width: int, height: int, size: int) -> None:
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    resize = transforms.Resize(size, transforms.InterpolationMode.BICUBIC)
    expected = transforms.CenterCrop(size)(resize(Image.fromarray(values)))
    assert np.array_equal(centre(Image.fromarray(values), size), expected)


@pytest.mark.parametrize("size", [10_000, 10_001, 1, 0])
def test_sizes(size: int) -> None:
    refused = pytest.raises(UserError, check=says(what="--size", got=size))
    with nullcontext() if 1 <= size <= 10_000 else refused:
        assert open_backbone("log-mel", lambda: Image.new("L", (1, 1)), size=size).backbone


def test_names_of_layers() -> None:
    for words, numbers in (
        (["all"], [0, 1, 2, 3, 4]),
        (["last5"], [0, 1, 2, 3, 4]),
        (["stage-4", "last1", " 1 ", "0"], [0, 1, 4]),
    ):
        assert parse_layers(words, "stage", 5) == numbers
    for word in ("last0", "last6", "5", "stage-5", "last", "-1", "block-1"):
        with pytest.raises(UserError, match=f"layer '{word}'.* stage-0 to stage-4"):
            parse_layers(["0", word], "stage", 5)
    assert Layers(object(), []).described() == {}
    for count in (0, -1):
        with pytest.raises(UserError, match="no intermediate layers"):
            parse_layers(["all"], "block", count)
    assert parse_layers(["all"], "block", 1) == [0]
    with pytest.raises(UserError, match="no intermediate layers"):
        Layers(object(), ["all"])


def test_a_source_gets_the_text_after_its_name() -> None:
    sounds = open_source(f"{HERE}:source")
    backbones.check_kind(f"{HERE}:Taking", sounds)
    with pytest.raises(UserError, match=r"^empty .* pixels takes images"):
        backbones.check_kind("pixels", sounds)
    made = open_source(f"{HERE}:source@some@where")
    assert sounds.name == "empty"
    assert made.name == "some@where"
    assert made.package is None
    for text, sentence in (
        ("bad", r":source cannot .*\(KeyError: 'bad'\)"),
        ("other", ":source must return"),
        ("short", ":source has 3 ids"),
        ("above", "2 classes .*3 parents"),
    ):
        with pytest.raises(UserError, match=sentence):
            open_source(f"{HERE}:source@{text}")


def test_a_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_outside("my.mod:source")
    (tmp_path / "my.mod:source").mkdir()
    assert not any(map(is_outside, ("my.mod:source", "no such folder")))
    with pytest.raises(UserError, match=r"'no such folder'.* \(package\.module:function\)"):
        open_source("no such folder")


class Quits(Taking):
    """It leaves where it is asked."""

    takes = "images"

    def __init__(self, where: str = "") -> None:
        super().__init__()
        self.where = where

    def prepare(self, content: Any) -> Any:
        if self.where == "prepare":
            raise SystemExit(0)
        return np.zeros(2, np.float32)

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        raise GeneratorExit


class QuitsAtOnce(Quits):
    def __init__(self) -> None:
        raise SystemExit(0)


class QuitsPreparing(Quits):
    def __init__(self) -> None:
        super().__init__("prepare")


def gone(text: str) -> Source:
    """A source of which nothing can be read, or none."""
    if text == "at once":
        raise SystemExit(0)
    return replace(source("gone"), read=lambda i: sys.exit(0), holds="images")


@pytest.mark.parametrize(
    ("backbone", "text", "who"),
    [
        ("Quits", "", "the backbone taking left with GeneratorExit"),
        ("QuitsPreparing", "", "the backbone taking left with SystemExit: 0"),
        ("QuitsAtOnce", "", f"the backbone {HERE}:QuitsAtOnce cannot be opened .it left with S"),
        ("Quits", "gone", "the source gone left with SystemExit: 0"),
        ("Quits", "at once", f"the source {HERE}:gone cannot be opened .it left with SystemExit"),
    ],
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_who_exits_ends_the_extraction_with_a_sentence(
    pictures: str, tmp_path: Path, backbone: str, text: str, who: str, skip_bad: bool
) -> None:
    """Also with `skip_bad`: it is no fault of the sample."""
    name = f"{HERE}:gone@{text}" if text else pictures
    with pytest.raises((UserError, CodeExitError), match=who):
        extract(name, tmp_path / "f.h5", backbone=f"{HERE}:{backbone}", skip_bad=skip_bad)
    assert not (tmp_path / "f.h5").exists()


class Untrained(Taking):
    """A layer whose weights have gradients, as any layer's have."""

    takes = "images"

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 3)
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def prepare(self, content: Any) -> Any:
        return np.full(2, 2, np.float32)

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"features": self.layer(torch.from_numpy(batch))}


def test_a_network_from_outside_need_not_think_of_gradients(pictures: str, tmp_path: Path) -> None:
    file = extract(pictures, tmp_path / "f.h5", backbone=f"{HERE}:Untrained")
    assert np.unique(file.read()).tolist() == [4]  # 2 + 2
