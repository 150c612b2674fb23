"""Pixel files: images in, the same images out; and one list of samples with embeddings of them.

The golden file v1.0-pixels.h5 was made once, by `write_file`, and never again; its test says
what is in it.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from file_helpers import damage, foreign_write, make_features, make_samples, refusal, written
from numpy.typing import NDArray
from PIL import Image
from tiny_images import TINY, images, weights
from torchvision.transforms import CenterCrop, InterpolationMode, Resize

from embedbench.errors import DamagedFileError
from embedbench.extract.pipeline import extract
from embedbench.files.diff import diff
from embedbench.files.embedding_file import EmbeddingFile, verify

GOLDEN = Path(__file__).parents[1] / "golden" / "v1.0-pixels.h5"


def make_images(n: int, channels: int = 3) -> NDArray[np.uint8]:
    """(n, 4, 5, C) random bytes."""
    return np.random.default_rng(0).integers(0, 256, (n, 4, 5, channels), np.uint8)


@pytest.mark.parametrize("n", [1, 2500])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("compress", [False, True])
def test_what_was_written_comes_back(tmp_path: Path, n: int, channels: int, compress: bool) -> None:
    pixels = make_images(n, channels)
    file = written(tmp_path / "a.h5", n, pixels, compress=compress)
    assert (file.kind, file.shape, file.dtype) == ("pixels", (n, 4, 5, channels), np.uint8)
    assert file.width() == 20 * channels
    assert file.images().dtype == np.uint8
    np.testing.assert_array_equal(file.images(), pixels)
    assert verify(tmp_path / "a.h5") == []
    foreign_write(tmp_path / "f.h5", make_samples(n), pixels, meta={"kind": "pixels"})
    assert EmbeddingFile.open(tmp_path / "f.h5").digests == file.digests
    with h5py.File(tmp_path / "a.h5") as plain:
        np.testing.assert_array_equal(plain["features"][()], pixels)


def test_the_golden_file_loads_for_ever() -> None:
    file, n = EmbeddingFile.open(GOLDEN), np.arange(6)
    np.testing.assert_array_equal(file.images().ravel(), np.arange(6 * 4 * 5 * 3) % 251)
    np.testing.assert_array_equal(file.split, n % 3)
    assert file.digests == {
        "samples": "5817ab82332e22cc308bf1bb9d8b74677305282ea73ee2328d98d60a5ece8b31",
        "recipe": "ac5eb1f52350853aa0e9e1973fcdad4b7e1faa304e64c1906a6fdecd4c622fca",
        "content": "ad3bcb81367a250d7f7a8fcfda803011853d8674f34e4dd4105e79830697f98b",
    }


def test_damage_names_the_block_of_rows(tmp_path: Path) -> None:
    file = written(tmp_path / "a.h5", features=make_images(2500))
    damage(file.path, "features", 2499, byte=59)
    with pytest.raises(DamagedFileError, match="rows 2048-2499 of features"):
        file.images()
    assert len(verify(file.path)) == 1


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
    ids=["four channels", "no channel axis", "float", "no rows of pixels", "vectors of bytes"],
)
def test_what_is_no_image_is_refused(tmp_path: Path, features: NDArray[Any]) -> None:
    said = refusal(written, tmp_path / "a.h5", 10, features)
    assert "features must be (N, D)" in said
    assert "or (N, H, W, C) of uint8" in said
    foreign_write(tmp_path / "f.h5", make_samples(10), features, meta={"kind": "pixels"})
    assert "expected (10, H, W, C) of uint8" in refusal(EmbeddingFile.open, tmp_path / "f.h5")


def test_the_kind_must_be_that_of_the_features(tmp_path: Path) -> None:
    foreign_write(tmp_path / "g.h5", make_samples(10), make_images(10))
    assert "expected (10, D)" in refusal(EmbeddingFile.open, tmp_path / "g.h5")


# --- extract ---


def by_torchvision(path: Path, size: int) -> NDArray[np.uint8]:
    image = Image.open(path).convert("RGB")
    image = CenterCrop(size)(Resize(size, InterpolationMode.BICUBIC, antialias=True)(image))
    return np.asarray(image)


@pytest.mark.parametrize("size", [7, 16, 40, 64])
def test_images_are_resized_and_cropped_as_before_a_backbone(tmp_path: Path, size: int) -> None:
    source = images(tmp_path / "in", 12)  # several sizes and modes
    file = extract(str(source), tmp_path / "a.h5", backbone="none", size=size)
    assert file.shape == (12, size, size, 3)
    for name, image in zip(file.sample_ids, file.images(), strict=True):
        np.testing.assert_array_equal(image, by_torchvision(source / name, size))


def test_without_a_size_images_are_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "in/a").mkdir(parents=True)
    values = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 10
    Image.fromarray(values).save(tmp_path / "in/a/1.png")
    Image.fromarray(values + 1).save(tmp_path / "in/a/2.png")
    file = extract(str(tmp_path / "in"), tmp_path / "a.h5", backbone="none", split="0.5")
    np.testing.assert_array_equal(file.images(), [values, values + 1])
    flat = extract(str(tmp_path / "in"), tmp_path / "b.h5", backbone="pixels", split="0.5")
    np.testing.assert_array_equal(flat.read() * 255, file.images().reshape(2, -1))
    Image.new("RGB", (9, 9)).save(tmp_path / "in/a/3.png")
    said = refusal(extract, str(tmp_path / "in"), tmp_path / "c.h5", backbone="none")
    assert "a/3.png" in said
    assert "expected an image of 3x2" in said
    assert "--size N" in said


def test_greyscale_images_keep_one_channel(tmp_path: Path) -> None:
    (tmp_path / "in/a").mkdir(parents=True)
    for i in range(4):
        Image.new("L", (5, 5), 50 * i).save(tmp_path / f"in/a/{i}.png")
    file = extract(str(tmp_path / "in"), tmp_path / "a.h5", backbone="none", split="0.5")
    assert file.shape == (4, 5, 5, 1)
    assert file.images()[:, 0, 0, 0].tolist() == [0, 50, 100, 150]


def test_a_pixel_file_has_the_samples_of_the_embedding_file(tmp_path: Path) -> None:
    source, path = str(images(tmp_path / "in", 24)), weights(tmp_path / "w.safetensors", TINY)
    network: dict[str, Any] = {"backbone": TINY, "weights": path, "size": 32}
    given: dict[str, Any] = {"split": "0.4", "group": "stem"}
    shown = extract(source, tmp_path / "p.h5", backbone="none", size=8, **given)
    embedded = extract(source, tmp_path / "e.h5", **network, **given)
    for key in ("source", "split"):
        assert shown.provenance[key] == embedded.provenance[key]
    result = diff(shown.path, embedded.path)
    assert result.digests == {"samples": True, "recipe": False, "content": False}
    assert result.cosine is None
    assert result.neighbours["queries"] == 24
    assert result.reasons[0].startswith("recipe: backbone.layer")


def test_the_recipe_says_how_the_images_were_made(tmp_path: Path) -> None:
    source = str(images(tmp_path / "in", 6))
    made = extract(source, tmp_path / "a.h5", backbone="none", size=8).provenance
    assert made["backbone"]["name"] == "none"
    assert made["arithmetic"]["dtype"] == "uint8"
    assert made["preprocessing"] == {
        "layout": "height, width, channels",
        "color": "Pillow convert: alpha is dropped",
        "channels": "RGB",
        "size": [8, 8],
        "resize": "shorter side to the size",
        "interpolation": "bicubic",
        "crop": "centre",
    }


@pytest.mark.parametrize(
    "options", [{"layers": ["1"]}, {"weights": "w.pth"}, {"dtype": "bfloat16"}], ids=str
)
def test_options_of_a_backbone_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    source = str(images(tmp_path / "in", 4))
    said = refusal(extract, source, tmp_path / "a.h5", backbone="none", **options)
    assert "none is no model: no --weights" in said


# --- the commands ---


def test_commands_take_pixel_files(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images(tmp_path / "in", 12)
    monkeypatch.chdir(tmp_path)
    made = call("extract", "in", "--backbone", "none", "--size", "8", "--out", "a.h5")
    assert made[:2] == (0, "a.h5: 12 images of 8 x 8 x 3\n")
    _, shown, _ = call("inspect", "a.h5")
    assert "12 x 8 x 8 x 3 uint8" in shown
    assert "kind pixels" in shown
    assert call("verify", "a.h5")[1] == "sound\n"
    assert "moved +0.0000" in call("diff", "a.h5", "a.h5")[1]
