"""`extract --backbone pixels --normalise channel --flip`, as RanDumb takes its images."""

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from PIL import Image
from scipy.io import wavfile

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.extract import measure_channels
from embedbench.extract.channel_statistics import ChannelScale
from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.storage import user_cache
from embedbench.streams.make_sessions import split_rows

SIDE, EACH = 5, {"train": 6, "test": 2}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of noisy pictures; those of the test part are much brighter."""
    root = tmp_path_factory.mktemp("pictures")
    draw = np.random.default_rng(0)
    for part, n in EACH.items():
        for name in "ab":
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(n):
                low, high = (200, 256) if part == "test" else (10, 120)
                picture = draw.integers(low, high, (SIDE, SIDE, 3), np.uint8)
                picture[..., 2] //= 3  # the channels differ
                Image.fromarray(picture).save(folder / f"{i}.png")
    return root


def made(images: Path, folder: Path, **options: Any) -> EmbeddingFile:
    given = {"backbone": "pixels", "device": "cpu", "notify": lambda _: None, **options}
    return extract(str(images), folder / "out.h5", overwrite=True, **given)


def picture(images: Path, name: str) -> Array:
    """An image (H, W, C) by Pillow, values from 0 to 1."""
    return np.asarray(Image.open(images / name)) / 255


def test_each_channel_is_normalised_by_the_training_images(images: Path, tmp_path: Path) -> None:
    file = made(images, tmp_path, normalise="channel")
    train = [n for n, part in zip(file.sample_ids, file.split, strict=True) if part == TRAIN]
    values = np.stack([picture(images, name) for name in train])
    mean, std = values.mean((0, 1, 2)), values.std((0, 1, 2))
    for name, row in zip(file.sample_ids, file.read(), strict=True):
        expected = (picture(images, name) - mean) / std
        np.testing.assert_allclose(row, expected.ravel(), atol=1e-4)
    numbers = file.provenance["preprocessing"]
    np.testing.assert_allclose(numbers["mean"], mean, atol=1e-6)
    np.testing.assert_allclose(numbers["std"], std, atol=1e-6)


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for name in "ab":
        (tmp_path / "grey" / name).mkdir(parents=True)
        for i in range(3):
            picture = Image.fromarray(draw.integers(10, 120, (SIDE, SIDE), np.uint8))
            picture.save(tmp_path / "grey" / name / f"{i}.png")
    file = made(tmp_path / "grey", tmp_path, normalise="channel", split="0.34")
    assert len(file.provenance["preprocessing"]["mean"]) == 1


def test_numbers_can_be_given(images: Path, tmp_path: Path) -> None:
    measured = made(images, tmp_path, normalise="channel")
    scale = ChannelScale(*(tuple(measured.provenance["preprocessing"][k]) for k in ("mean", "std")))
    assert made(images, tmp_path, normalise=str(scale)).digests == measured.digests
    file = made(images, tmp_path, normalise="0.5,0.4,0.3/0.2,0.25,1")
    expected = (picture(images, file.sample_ids[0]) - [0.5, 0.4, 0.3]) / [0.2, 0.25, 1]
    np.testing.assert_allclose(file.read()[0], expected.ravel(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backbone", ["pixels", "none"])
def test_each_training_image_is_also_flipped(images: Path, tmp_path: Path, backbone: str) -> None:
    plain = made(images, tmp_path, backbone=backbone)
    ids, split = plain.sample_ids.tolist(), plain.split.tolist()
    rows = plain.read() if backbone == "pixels" else plain.images()
    pictures = rows.reshape(-1, SIDE, SIDE, 3)
    file = made(images, tmp_path, backbone=backbone, flip=True)
    got = (file.read() if backbone == "pixels" else file.images()).reshape(-1, SIDE, SIDE, 3)
    expected, named = [], []
    for name, part, image in zip(ids, split, pictures, strict=True):
        expected.append(image)
        named.append(name)
        if part == TRAIN:
            expected.append(np.fliplr(image))
            named.append(f"{name}#flipped")
    assert file.sample_ids.tolist() == named
    np.testing.assert_array_equal(got, np.stack(expected))
    assert np.bincount(file.split, minlength=3)[[TRAIN, TEST]].tolist() == [24, 4]


def test_no_copy_of_a_validation_image_is_trained_on(images: Path, tmp_path: Path) -> None:
    file = made(images, tmp_path, flip=True)
    split = split_rows(file, "train", 0.3)
    held = {*file.sample_ids[split.val]}
    assert len(held) == 4  # two of each class
    assert not any(name.endswith("#flipped") for name in held)
    assert not {f"{name}#flipped" for name in held} & {*file.sample_ids[split.train]}
    assert len(split.train) == 24 - 2 * 4
    stream = IncrementalClass(base=1).build([file], seed=0)
    assert sum(len(s.x) for s in stream.sessions) == 24 - 2 * 2
    assert len(split_rows(file, "none", 0.3).train) == 24


def test_a_file_without_both_is_as_before(images: Path, tmp_path: Path) -> None:
    file = made(images, tmp_path)
    recipe = {"scale": "value / 255", "layout": "row by row", "channels": "RGB"}
    assert file.provenance["preprocessing"] == recipe
    assert made(images, tmp_path, normalise="channel").digests["recipe"] != file.digests["recipe"]
    flipped = made(images, tmp_path, flip=True)
    assert flipped.digests["samples"] != file.digests["samples"]


@pytest.mark.parametrize(
    "text", ["mean", "0.5/0", "0.5/-1", "0.5,0.5/1", "1/2/3", "", "nan/1", "0.5", "0.5,/1,1"]
)
def test_what_is_no_scale_is_refused(images: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, check=says(what="--normalise", got=text)):
        made(images, tmp_path, normalise=text)


def test_where_they_are_refused(images: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--normalise is of --backbone pixels"):
        made(images, tmp_path, backbone="none", normalise="channel")
    with pytest.raises(UserError, match="--flip is for images that stay pixels"):
        made(images, tmp_path, backbone="test_resnet", weights=None, flip=True)
    with pytest.raises(
        UserError, check=says(what="--normalise", expected="3 means", got="0.5/0.2")
    ):
        made(images, tmp_path, normalise="0.5/0.2")


@pytest.mark.parametrize("asked", [{"normalise": "channel"}, {"flip": True}])
def test_sounds_are_refused_as_sounds(tmp_path: Path, asked: dict[str, Any]) -> None:
    """And not as images that cannot be decoded, or for a backbone that takes images."""
    for part in ("train", "test"):
        folder = tmp_path / "hums" / part / "a"
        folder.mkdir(parents=True)
        wavfile.write(folder / "0.wav", 16_000, np.ones(800, np.int16))
    with pytest.raises(UserError, check=says(what="hums holds sounds, and pixels takes images")):
        made(tmp_path / "hums", tmp_path, **asked)


# --- measuring: in threads, and once ---


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The samples that measuring decodes, in any order; nothing was measured before."""
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    found: list[int] = []
    decode = measure_channels.decode

    def watched(source: Any, i: int, *args: Any) -> Any:
        found.append(i)
        return decode(source, i, *args)

    monkeypatch.setattr(measure_channels, "decode", watched)
    monkeypatch.setattr(measure_channels, "PART", 5)
    return found


def copied(images: Path, folder: Path) -> Path:
    """A copy of the pictures, which a test may change."""
    return Path(shutil.copytree(images, folder / "copied"))


def test_each_training_image_is_decoded_once(
    images: Path, tmp_path: Path, decoded: list[int]
) -> None:
    file = made(copied(images, tmp_path), tmp_path, normalise="channel")
    assert sorted(decoded) == np.flatnonzero(file.split == TRAIN).tolist()


def test_an_extraction_that_goes_on_measures_nothing_anew(
    images: Path, tmp_path: Path, decoded: list[int]
) -> None:
    source = copied(images, tmp_path)
    first = made(source, tmp_path, normalise="channel").digests
    decoded.clear()
    assert made(source, tmp_path, normalise="channel").digests == first
    assert decoded == []


def test_changed_images_are_measured_anew(images: Path, tmp_path: Path, decoded: list[int]) -> None:
    source = copied(images, tmp_path)
    made(source, tmp_path, normalise="channel")
    decoded.clear()
    shutil.copy(source / "test/a/0.png", source / "train/a/0.png")  # a brighter one
    file = made(source, tmp_path, normalise="channel")
    values = [picture(source, n) for n in file.sample_ids[file.split == TRAIN]]
    np.testing.assert_allclose(
        file.provenance["preprocessing"]["mean"], np.mean(values, (0, 1, 2)), atol=1e-6
    )
    assert len(decoded) == 12


def test_what_is_damaged_in_the_cache_is_measured_anew(
    images: Path, tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = copied(images, tmp_path)
    first = made(source, tmp_path, normalise="channel").digests
    for kept in (
        [],
        {"contents": "a"},
        {"contents": "a", "scale": "no"},
        {"contents": "a", "scale": 3},
    ):
        monkeypatch.setattr(user_cache, "load", lambda *_, kept=kept: kept)
        assert made(source, tmp_path, normalise="channel").digests == first


def test_several_threads_count_as_one_does(
    images: Path, tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three parts of the twelve images, in three threads."""
    monkeypatch.setattr(measure_channels, "cores", lambda: 3)
    threads: set[str] = set()
    decode = measure_channels.decode

    def watched(*args: Any) -> Any:
        threads.add(threading.current_thread().name)
        barrier.wait(20)  # ends only where three threads are at work
        return decode(*args)

    barrier = threading.Barrier(3)
    monkeypatch.setattr(measure_channels, "PART", 4)
    monkeypatch.setattr(measure_channels, "decode", watched)
    file = made(copied(images, tmp_path), tmp_path, normalise="channel")
    assert len(threads) == 3
    values = [picture(images, n) for n in file.sample_ids[file.split == TRAIN]]
    np.testing.assert_allclose(
        file.provenance["preprocessing"]["std"], np.std(values, (0, 1, 2)), atol=1e-6
    )


def test_an_image_that_cannot_be_read_is_named(images: Path, tmp_path: Path) -> None:
    source = copied(images, tmp_path)
    (source / "train/b/2.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"train/b/2\.png"):
        made(source, tmp_path, normalise="channel")
    made(source, tmp_path, normalise="channel", skip_bad=True)


def test_a_constant_channel_counts_as_one_level() -> None:
    counts = np.zeros((1, 256), np.int64)
    counts[0, 51] = 7
    assert ChannelScale.measured(counts) == ChannelScale((0.2,), (round(1 / 255, 6),))
