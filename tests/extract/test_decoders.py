"""The decoder of torchvision: pixels and guards are those of Pillow; the recipe names it."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.io
from hostile_sources import EPS, chunk, png
from PIL import Image

from embedbench.errors import UserError
from embedbench.extract import backbone
from embedbench.extract.backbone import Backbone
from embedbench.extract.extraction_work import decode
from embedbench.extract.open_backbone import open_backbone
from embedbench.extract.pipeline import extract
from embedbench.extract.source import Source, open_image

CPU = torch.device("cpu")


def picture(mode: str) -> Image.Image:
    coarse = np.random.default_rng(0).integers(0, 256, (6, 7, 4), np.uint8)
    whole = Image.fromarray(np.kron(coarse, np.ones((9, 9, 1), np.uint8)))  # 63 x 54, RGBA
    if mode == "I;16":
        return Image.fromarray(np.asarray(whole.convert("L")).astype(np.uint16) * 257 // 2)
    return whole.convert("RGB").quantize(16) if mode == "P" else whole.convert(mode)


def encoded(mode: str, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture(mode).save(file, form, **options)
    return file.getvalue()


TAKEN = {
    "colour JPEG": encoded("RGB", "JPEG"),
    "JPEG without subsampling": encoded("RGB", "JPEG", subsampling=0),
    "progressive JPEG": encoded("RGB", "JPEG", progressive=True),
    "grey JPEG": encoded("L", "JPEG"),
    "colour PNG": encoded("RGB", "PNG"),
    "PNG with alpha": encoded("RGBA", "PNG"),
    "grey PNG": encoded("L", "PNG"),
    "grey PNG with alpha": encoded("LA", "PNG"),
    "PNG with a palette": encoded("P", "PNG"),
    "PNG with a transparent colour": encoded("P", "PNG", transparency=1),
}
LEFT = {
    "JPEG of four inks": encoded("CMYK", "JPEG"),
    "PNG of 16 bits": encoded("I;16", "PNG"),
    "PNG of one bit": encoded("1", "PNG"),
    "GIF": encoded("P", "GIF"),
    "BMP": encoded("RGB", "BMP"),
    "WebP": encoded("RGB", "WEBP"),
    "TIFF": encoded("RGB", "TIFF"),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_pixels_are_those_of_pillow(kind: str) -> None:
    """Alpha is dropped by both; a JPEG may differ by a little with another library behind it."""
    image = open_image(TAKEN[kind])
    got = backbone.by_torchvision(image, TAKEN[kind], CPU)
    assert got is not image
    assert got.mode == ("L" if image.mode in ("L", "LA") else "RGB")
    expected = np.asarray(image.convert(got.mode)).astype(int)
    difference = np.abs(np.asarray(got).astype(int) - expected)
    assert difference.max() <= (3 if "JPEG" in kind else 0)


@pytest.mark.parametrize("kind", LEFT)
def test_the_others_are_left_to_pillow(kind: str) -> None:
    image = open_image(LEFT[kind])
    assert backbone.by_torchvision(image, LEFT[kind], CPU) is image


def test_colours_of_16_bits_are_left_to_pillow() -> None:
    """Pillow calls them RGB, as those of 8 bits."""
    rows = b"".join(b"\0" + bytes(6 * 4) for _ in range(3))  # 4 x 3 pixels
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 3, 16, 2, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows))
    image = open_image(content)
    assert image.mode == "RGB"
    assert backbone.by_torchvision(image, content, CPU) is image


def opened(name: str) -> Backbone:
    return open_backbone(name, lambda: picture("RGB"), size=8, decoder="torchvision")


def problem(content: bytes) -> str:
    """What the file says of a sample that cannot be decoded."""
    nothing = np.zeros(1, np.int64)
    source = Source("in", ("a/1.jpg",), nothing, ("a",), nothing - 1, lambda i: content)
    return decode(source, 0, opened("none")).problem


@pytest.mark.parametrize("kind", ["colour JPEG", "progressive JPEG", "colour PNG"])
def test_truncated_images(kind: str) -> None:
    content = TAKEN[kind]
    assert problem(content) == ""
    reason = problem(content[: len(content) // 2])
    assert reason.startswith("torchvision cannot decode it (")
    assert "/" not in reason  # no path of its source code: the text goes into the file


def test_bounds_hold_before_torchvision_sees_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("torchvision was called")

    monkeypatch.setattr(torchvision.io, "decode_image", refuse)
    assert problem(png(size=(60_000, 60_000))).startswith("too many pixels; at most")
    assert "scans" in problem(TAKEN["progressive JPEG"] + b"\xff\xda" * 2_000_000)
    assert problem(EPS) == "not an image that Pillow knows"


def test_a_card_is_not_asked_for_a_jpeg_without_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvJPEG may fill what is missing with grey."""
    asked: list[torch.device] = []

    def on_card(data: torch.Tensor, *, mode: Any, device: torch.device) -> torch.Tensor:
        asked.append(device)
        return torchvision.io.decode_image(data, mode=mode)

    monkeypatch.setattr(torchvision.io, "decode_jpeg", on_card)
    content, card = TAKEN["progressive JPEG"], torch.device("cuda")
    with pytest.raises(UserError, match="truncated"):
        backbone.by_torchvision(open_image(content), content[:-2], card)
    assert not asked
    backbone.by_torchvision(open_image(content), content, card)
    assert asked == [card]
    backbone.by_torchvision(open_image(TAKEN["colour PNG"]), TAKEN["colour PNG"], card)
    assert len(asked) == 1  # a PNG is decoded by the processor


def test_the_recipe_names_the_decoder_unless_it_is_pillow(pictures: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"backbone": "pixels", "size": 8}
    plain = extract(pictures, tmp_path / "a.h5", **options)
    other = extract(pictures, tmp_path / "b.h5", decoder="torchvision", **options)
    assert "decoder" not in plain.provenance["preprocessing"]
    assert other.provenance["preprocessing"]["decoder"] == "torchvision.io"
    assert backbone.decoder_recipe("torchvision", torch.device("cuda")) == {
        "decoder": "torchvision.io, JPEG by nvJPEG"
    }
    assert other.digests["recipe"] != plain.digests["recipe"]
    assert other.digests["content"] == plain.digests["content"]  # PNG


def test_what_cannot_be(pictures: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--decoder must be one of pil, torchvision, not 'turbo'"):
        extract(pictures, tmp_path / "a.h5", backbone="pixels", decoder="turbo")
    with pytest.raises(UserError, match="is for images"):
        opened("log-mel")
    monkeypatch.delattr(torchvision.io, "decode_image")
    with pytest.raises(UserError, match=r"torchvision .* has no decoders"):
        opened("none")
