"""Pixel files: images in, the same images out; and one list of samples with embeddings of them.

The golden file was made once, by `write_file`, and never again.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import damage, foreign_write, make_features, make_samples, refusal, written
from numpy.typing import NDArray
from PIL import Image
from tiny_images import TINY, images, weights
from torchvision.transforms import CenterCrop, InterpolationMode, Resize

from embedbench.extract.pipeline import extract
from embedbench.files.diff import diff
from embedbench.files.embedding_file import EmbeddingFile, verify

GOLDEN = Path(__file__).parents[1] / "golden" / "v1.0-pixels.h5"


def make_images(n: int, channels: int = 3) -> NDArray[np.uint8]:
    """(n, 4, 5, C) random bytes."""
    return np.random.default_rng(0).integers(0, 256, (n, 4, 5, channels), np.uint8)


@pytest.mark.parametrize(("n", "channels", "compress"), [(1, 3, True), (2500, 1, False)])
def test_what_was_written_comes_back(tmp_path: Path, n: int, channels: int, compress: bool) -> None:
    pixels = make_images(n, channels)
    file = written(tmp_path / "a.h5", n, pixels, compress=compress)
    assert file.kind == "pixels"
    assert file.shape == (n, 4, 5, channels)
    assert file.dtype == np.uint8
    assert file.width() == 20 * channels
    assert file.images().dtype == np.uint8
    np.testing.assert_array_equal(file.images(), pixels)
    assert verify(tmp_path / "a.h5") == []
    foreign_write(tmp_path / "f.h5", make_samples(n), pixels, meta={"kind": "pixels"})
    assert EmbeddingFile.open(tmp_path / "f.h5").digests == file.digests
    if not compress:
        damage(file.path, "features", 2499, byte=19)
        assert "rows 2048-2499 of features" in refusal(file.images)


def test_the_golden_file_loads_for_ever() -> None:
    file, n = EmbeddingFile.open(GOLDEN), np.arange(6)
    np.testing.assert_array_equal(file.images().ravel(), np.arange(6 * 4 * 5 * 3) % 251)
    np.testing.assert_array_equal(file.split, n % 3)
    assert file.digests == {
        "samples": "5817ab82332e22cc308bf1bb9d8b74677305282ea73ee2328d98d60a5ece8b31",
        "recipe": "ac5eb1f52350853aa0e9e1973fcdad4b7e1faa304e64c1906a6fdecd4c622fca",
        "content": "ad3bcb81367a250d7f7a8fcfda803011853d8674f34e4dd4105e79830697f98b",
    }


def test_images_and_embeddings_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    shown = written(tmp_path / "p.h5", 10, make_images(10))
    embedded = written(tmp_path / "e.h5", 10)
    assert "p.h5 holds images" in refusal(shown.read)
    assert "extract SOURCE --backbone NAME" in refusal(shown.read)
    assert "e.h5 holds embeddings" in refusal(embedded.images)
    assert "--backbone none" in refusal(embedded.images)


@pytest.mark.parametrize(
    "features",
    [
        make_images(10, 4),
        make_images(10)[..., 0],
        make_images(10).astype(np.float32),
        make_images(10)[:, :0],
        make_features(10).astype(np.uint8),
    ],
)
def test_what_is_no_image_is_refused(tmp_path: Path, features: NDArray[Any]) -> None:
    said = refusal(written, tmp_path / "a.h5", 10, features)
    assert "features must be (N, D) of float32 or float16, or (N, H, W, C) of uint8" in said
    for kind, form in (("pixels", "(10, H, W, C) of uint8"), ("embedding", "(10, D)")):
        foreign_write(tmp_path / "f.h5", make_samples(10), features, meta={"kind": kind})
        assert f"expected {form}" in refusal(EmbeddingFile.open, tmp_path / "f.h5")


@pytest.mark.parametrize("size", [7, 40])
def test_images_are_resized_and_cropped_as_before_a_backbone(tmp_path: Path, size: int) -> None:
    source = images(tmp_path / "in", 12)  # several sizes and modes
    file = extract(str(source), tmp_path / "a.h5", backbone="none", size=size, alpha="drop")
    resize = Resize(size, InterpolationMode.BICUBIC, antialias=True)
    for name, image in zip(file.sample_ids, file.images(), strict=True):
        expected = CenterCrop(size)(resize(Image.open(source / name).convert("RGB")))
        np.testing.assert_array_equal(image, np.asarray(expected))
    made = file.provenance
    assert (made["backbone"]["name"], made["arithmetic"]["dtype"]) == ("none", "uint8")
    assert made["preprocessing"] == {
        "layout": "height, width, channels",
        "color": "Pillow convert: alpha is dropped",
        "channels": "RGB",
        "size": [size, size],
        "resize": "shorter side to the size",
        "interpolation": "bicubic",
        "crop": "centre",
    }


def test_without_a_size_images_are_as_they_are(tmp_path: Path) -> None:
    for folder in ("in", "grey"):
        (tmp_path / folder / "a").mkdir(parents=True)
    values = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 10
    for i in range(2):
        Image.fromarray(values + i).save(tmp_path / f"in/a/{i}.png")
        Image.new("L", (5, 5), 50 * i).save(tmp_path / f"grey/a/{i}.png")
    file = extract(str(tmp_path / "in"), tmp_path / "a.h5", backbone="none", split="0.5")
    np.testing.assert_array_equal(file.images(), [values, values + 1])
    flat = extract(str(tmp_path / "in"), tmp_path / "b.h5", backbone="pixels", split="0.5")
    np.testing.assert_array_equal(flat.read() * 255, file.images().reshape(2, -1))
    grey = extract(str(tmp_path / "grey"), tmp_path / "g.h5", backbone="none", split="0.5")
    np.testing.assert_array_equal(grey.images(), np.multiply.outer([0, 50], np.ones((5, 5, 1))))
    Image.new("RGB", (9, 9)).save(tmp_path / "in/a/3.png")
    said = refusal(extract, str(tmp_path / "in"), tmp_path / "c.h5", backbone="none")
    for words in ("a/3.png", "expected an image of 3x2", "--size N"):
        assert words in said


def test_a_pixel_file_has_the_samples_of_the_embedding_file(tmp_path: Path) -> None:
    source, path = str(images(tmp_path / "in", 24)), weights(tmp_path / "w.safetensors", TINY)
    given: dict[str, Any] = {"split": "0.4", "group": "stem"}
    shown = extract(source, tmp_path / "p.h5", backbone="none", size=8, **given)
    embedded = extract(source, tmp_path / "e.h5", backbone=TINY, weights=path, size=32, **given)
    for key in ("source", "split"):
        assert shown.provenance[key] == embedded.provenance[key]
    result = diff(shown.path, embedded.path)
    same = {"samples": True, "recipe": False, "content": False, "columns": True}
    assert result.digests == same
    assert result.cosine is None
    assert result.neighbours["queries"] == 24
    assert result.reasons[0].startswith("recipe: backbone.layer")
    for options in ({"layers": ["1"]}, {"weights": path}, {"dtype": "bfloat16"}):
        said = refusal(extract, source, tmp_path / "a.h5", backbone="none", **options)
        assert "none is no model: no --weights" in said


def test_commands_take_images(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images(tmp_path / "in", 12)
    monkeypatch.chdir(tmp_path)
    made = call("extract", "in", "--backbone", "none", "--size", "8", "--out", "a.h5")
    assert made[:2] == (0, "a.h5: 12 images of 8 x 8 x 3\n")
    shown = call("inspect", "a.h5")[1]
    assert "12 x 8 x 8 x 3 uint8" in shown
    assert "kind pixels" in shown
    assert call("verify", "a.h5")[1] == "sound\n"
    assert "moved +0.0000" in call("diff", "a.h5", "a.h5")[1]
