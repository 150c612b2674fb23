"""Sources: what each layout of images becomes."""

import io
import struct
import zipfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hostile_sources import chunk, image, png, split_of
from PIL import Image

from embedbench.errors import UserError
from embedbench.extract import source as bounds
from embedbench.extract.open_source import open_source
from embedbench.files.sample_metadata import TEST, TRAIN, VAL


def put(root: Path, *paths: str) -> Path:
    for number, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(image(value=number))
    return root


def test_nested_folders_are_the_hierarchy(tmp_path: Path) -> None:
    put(tmp_path, "pet/dog/b.png", "pet/cat/a.JPG", "wild/cat/x/1.png", "wild/cat/y/2.png")
    put(tmp_path, ".cache/z/1.png", "pet/dog/.b.png", "__MACOSX/pet/1.png")
    (tmp_path / "hierarchy.json").write_text("{}")
    (tmp_path / "images.txt").write_text("")  # alone it is no list of CUB-200-2011
    source = open_source(str(tmp_path))
    assert source.ids == ("pet/cat/a.JPG", "pet/dog/b.png", "wild/cat/x/1.png", "wild/cat/y/2.png")
    # leaves pet/cat, pet/dog, wild/cat/x, wild/cat/y; inner pet, wild, wild/cat
    assert source.classes == ("cat", "dog", "x", "y", "pet", "wild", "cat")
    assert source.parents.tolist() == [4, 4, 6, 6, -1, -1, 5]
    assert source.labels.tolist() == [0, 1, 2, 3]
    assert source.split is None
    # names that are not unique become paths
    source = open_source(str(put(tmp_path / "2", "a/other/1.png", "b/other/1.png", "b/own/1.png")))
    assert source.classes == ("a/other", "b/other", "own", "a", "b")


def test_a_zip_reads_as_the_folder_that_it_holds(tmp_path: Path) -> None:
    folder = put(tmp_path / "data", "s/a/1.png", "s/b/2.png", "t/c/3.png")
    expected = open_source(str(folder))
    for prefix in ("", "data/"):
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(folder.rglob("*.png"), reverse=True):
                archive.write(file, prefix + file.relative_to(folder).as_posix())
            archive.writestr("__MACOSX/s/a/1.png", b"")
        source = open_source(str(path))
        assert (source.name, expected.name) == ("a", "data")
        assert source.ids == expected.ids
        assert source.classes == expected.classes
        assert source.labels.tolist() == expected.labels.tolist()
        assert [source.read(i) for i in range(3)] == [expected.read(i) for i in range(3)]


def test_one_folder_around_all_of_an_archive(tmp_path: Path) -> None:
    for paths, ids in (
        (["cat/1.png", "cat/2.png"], ["cat/1.png", "cat/2.png"]),
        (["test/cat/1.png", "test/dog/2.png"], ["test/cat/1.png", "test/dog/2.png"]),
        (["train/cat/1.png", "train/dog/2.png"], ["cat/1.png", "dog/2.png"]),
        (["a/cat/1.png", "a/2.png"], []),
    ):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for path in paths:
                archive.writestr(path, image(value=0))
        if ids:
            assert list(open_source(str(tmp_path / "a.zip")).ids) == ids
    with pytest.raises(UserError, match=r"^a in .*a.zip .* class folders;"):
        open_source(str(tmp_path / "a.zip"))


def test_bounds_of_ids_files_and_images(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (bounds.id_problem("é" * 256), bounds.id_problem("a/" * 32 + "b")) == ("", "")
    assert "513 bytes" in bounds.id_problem("é" * 256 + "b")
    assert "33 folders" in bounds.id_problem("a/" * 33 + "b")
    assert bounds.size_problem(2**27) == ""
    assert bounds.size_problem(2**27 + 1)
    for size in ((200, 1), (1, 200), (10240, 5120)):
        bounds._check(size)
    for size in ((201, 1), (1, 201), (10241, 5120)):
        with pytest.raises(UserError, match="at most"):
            bounds._check(size)
    assert bounds.escape_name("a" * 200) == "a" * 200
    assert bounds.escape_name("a" * 201) == "a" * 200 + "…"
    for reads, header in ((2, None), (3, 6)):
        file = bounds.EncodedSample(b"abcdefgh", reads, header)
        assert (file.read(3), file.read(3)) == (b"abc", b"def")
        with pytest.raises(UserError, match="too many"):
            file.read(3)
    # a JPEG whose head says the most pixels, of the most scans; and the longest head
    head, mark, rest = image("JPEG").partition(b"\xff\xc0\0\x11\x08")  # the size follows
    scans = head + mark + struct.pack(">HH", 5120, 10240) + rest[4:] + b"\xff\xda" * 99
    assert bounds.open_image(scans).size == (10240, 5120)
    bounds.open_image(png(chunk(b"abCd", bytes(2**25 - 100))))
    for content, words in (
        (scans + b"\xff\xda", "a JPEG of 101 scans"),
        (png(chunk(b"abCd", bytes(2**25))), "too many chunks"),
    ):
        with pytest.raises(UserError, match=words):
            bounds.open_image(content)
    # pixels are no header
    monkeypatch.setattr(bounds, "HEADER", 100)
    out = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(out, "PNG")
    assert len(bounds.open_image(out.getvalue()).tobytes()) == 64 * 64


def test_split_folders_are_the_official_split(tmp_path: Path) -> None:
    source = open_source(str(put(tmp_path / "3", "train/a/1.png", "val/a/2.png", "test/b/3.png")))
    assert source.classes == ("a", "b")
    assert source.remark == ""
    assert source.ids == ("test/b/3.png", "train/a/1.png", "val/a/2.png")
    assert split_of(source) == [TEST, TRAIN, VAL]
    # as ImageNet is used: without a test folder, val is what one is judged on
    two = open_source(str(put(tmp_path / "2", "train/a/1.png", "val/a/2.png")))
    assert split_of(two) == [TRAIN, TEST]
    assert two.remark == f"{tmp_path / '2'}: val is the test part, as there is no other."
    # a test part alone is one, by any of its names; train alone, or one beside a class, is none
    for name in ("test", "dev"):
        alone = open_source(str(put(tmp_path / name, f"{name}/a/1.png")))
        assert split_of(alone) == [TEST]
        assert "no part for training; --split 0.2 makes another" in alone.remark
    assert open_source(str(put(tmp_path / "1", "train/a/1.png"))).split is None
    assert open_source(str(put(tmp_path / "m", "train/a/1.png", "cat/2.png"))).split is None


def test_cub_layout_follows_its_ids_not_its_lines(tmp_path: Path) -> None:
    put(tmp_path, "images/002.B/x.jpg", "images/001.A/y.jpg")
    for name, text in {
        "classes.txt": "1 001.A or C\n2 002.B\n",
        "images.txt": "7 002.B/x.jpg\n3 001.A/y.jpg\n",
        "image_class_labels.txt": "3 1\n7 2\n",
        "train_test_split.txt": "3 0\n7 1\n",
    }.items():
        (tmp_path / name).write_text(text)
    source = open_source(str(tmp_path))
    assert source.ids == ("images/002.B/x.jpg", "images/001.A/y.jpg")
    assert source.classes == ("001.A or C", "002.B")
    assert source.labels.tolist() == [1, 0]
    assert split_of(source) == [TRAIN, TEST]
    assert source.read(1) == image(value=1)
    for name, text, words in (
        ("train_test_split", "3 0\n", "train_test_split.txt .* not fit"),
        ("train_test_split", "3 0\n3 1\n", "split.txt: expected lines"),
        ("train_test_split", "3 0\n7\n", "split.txt: expected lines"),
        ("train_test_split", "3 0\n7 1\n\n", ""),
        ("image_class_labels", "3 1\n7 3\n", "image_class_labels.txt, .* not fit"),
        ("image_class_labels", "3 1\n7 2\n", ""),
        ("images", "7 001.A/y.jpg\n3 001.A/y.jpg\n", "an image twice"),
    ):
        (tmp_path / f"{name}.txt").write_text(text)
        with pytest.raises(UserError, match=words) if words else nullcontext():
            open_source(str(tmp_path))
    (tmp_path / "classes.txt").unlink()
    with pytest.raises(UserError, match=r"classes\.txt is missing"):
        open_source(str(tmp_path))


def test_demo_is_the_shipped_emoji() -> None:
    source = open_source("demo")
    assert np.sum(source.parents >= 0) == 88
    assert len(source.classes) == 97
    assert len(source.ids) == 1878
    assert source.licence == "Apache-2.0"
    assert source.ids[0] == "activities/arts-crafts/art_1f3a8.noto.png"
    content = source.read(0)
    assert isinstance(content, bytes)
    assert Image.open(io.BytesIO(content)).size == (64, 64)


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        (["notes.txt"], "no image and"),
        (["notes.txt", "a/b/2.png"], ""),
        (["a/b/2.png", "a/1.png"], "^a in .* class folders;"),
        (["a/b/2.png", "a.png"], "^a.png in .* class folder;"),
    ],
)
def test_folders_that_are_no_data_set(tmp_path: Path, paths: list[str], sentence: str) -> None:
    put(tmp_path, *paths)
    with pytest.raises(UserError, match=sentence) if sentence else nullcontext():
        open_source(str(tmp_path))
