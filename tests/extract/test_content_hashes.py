"""Work that is resumed goes by the contents of samples, whatever their names say."""

import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

from embedbench.errors import UserError
from embedbench.extract.content_hashes import NOTHING, content_hash, read_hash
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.files.diff import diff
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.resumable_file import Partial

N, BLOCK = 40, 16  # samples, in three blocks


class StoppedError(Exception):
    """The user pressed Ctrl-C."""


@pytest.fixture(autouse=True)
def _blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partial, "BLOCK", BLOCK)


# --- hashes ---


def test_the_hash_of_encoded_bytes_is_the_start_of_their_sha256() -> None:
    assert content_hash(b"abc") == hashlib.sha256(b"abc").digest()[:16]


def palette(*colours: int) -> Image.Image:
    image = Image.new("P", (2, 2))
    image.putpalette(colours)
    return image


def turned(orientation: int) -> Image.Image:
    image = Image.new("L", (2, 2))
    image.getexif()[0x0112] = orientation
    return image


def see_through(value: int) -> Image.Image:
    image = Image.new("L", (2, 2))
    image.info["transparency"] = value
    return image


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Image.new("L", (2, 6)), Image.new("L", (6, 2))),
        (Image.new("L", (6, 2)), Image.new("RGB", (2, 2))),
        (palette(255, 0, 0), palette(0, 255, 0)),
        (turned(1), turned(6)),
        (see_through(0), see_through(1)),
        (Image.new("L", (2, 2), 3), Image.new("L", (2, 2), 4)),
    ],
)
def test_images_that_differ_have_other_hashes(a: Image.Image, b: Image.Image) -> None:
    assert content_hash(a) != content_hash(b)


def test_images_that_are_equal_have_one_hash() -> None:
    assert content_hash(palette(255, 0, 0)) == content_hash(palette(255, 0, 0))


def test_what_cannot_be_read_has_no_hash(tmp_path: Path) -> None:
    pictures(tmp_path / "in", np.arange(2))
    source = open_source(str(tmp_path / "in"))
    shutil.rmtree(tmp_path / "in")
    assert read_hash(source, 0) == NOTHING


# --- a source of grey pictures, and the rows of a file of them ---


def pictures(folder: Path, grey: Any) -> Path:
    """Write pictures of one grey value each; even numbers are of class a, odd ones of class b."""
    for i, value in enumerate(grey):
        path = folder / "ab"[i % 2] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), int(value)).save(path)
    return folder


def archive(path: Path, grey: Any) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for file in sorted(pictures(path.with_suffix(".d"), grey).rglob("*.png")):
            made.write(file, f"{file.parent.name}/{file.name}")
    return path


def table(path: Path, grey: Any, labels: Any = None) -> str:
    """Write a table of pictures as a data set of the hub has them."""
    path.mkdir(exist_ok=True)
    files = sorted(pictures(path / "png", grey).rglob("*.png"), key=lambda file: file.name)
    form = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    rows = {
        "image": [{"bytes": file.read_bytes(), "path": None} for file in files],
        "label": [i % 2 for i in range(len(files))] if labels is None else labels,
    }
    shutil.rmtree(path / "png")
    datasets.Dataset.from_dict(rows, features=form).to_parquet(path / "train.parquet")
    return f"hfds/{path}"


def rows(file: EmbeddingFile) -> Any:
    """The grey value of each row, by the number in its id."""
    number = [int(id_.rpartition("/")[2].partition(".")[0]) for id_ in file.sample_ids.tolist()]
    return (255 * file.read()[np.argsort(number), 0]).round()


def stopped(source: str, out: Path, after: int, **options: Any) -> None:
    """Extract, and stop when so many samples are done."""

    def stop(done: int, total: int) -> None:
        if done >= after:
            raise StoppedError

    with pytest.raises(StoppedError):
        pixels(source, out, progress=stop, **options)


def pixels(source: str, out: Path, **options: Any) -> EmbeddingFile:
    options = {"notify": lambda message: None, "split": "0.3", **options}
    return extract(source, out, backbone="pixels", **options)


SOURCES: dict[str, Callable[[Path, Any], Any]] = {
    "folder": lambda path, grey: pictures(path / "in", grey),
    "zip": lambda path, grey: archive(path / "in.zip", grey),
    "hfds": lambda path, grey: table(path / "in", grey),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_are_those_of_the_contents_that_are_there(tmp_path: Path, kind: str) -> None:
    """Two samples of the first of two finished blocks are exchanged while the work lies still."""
    before = np.arange(N) + 100
    after = before.copy()
    after[[0, 2]] = before[[2, 0]]
    source, out, seen = str(SOURCES[kind](tmp_path, before)), tmp_path / "a.h5", list[int]()
    stopped(source, out, 36)
    SOURCES[kind](tmp_path, after)
    file = pixels(source, out, progress=lambda done, total: seen.append(done))
    np.testing.assert_array_equal(rows(file), after)
    assert seen[0] == BLOCK  # the other finished block was not computed again


def test_the_file_is_that_of_work_that_was_not_interrupted(tmp_path: Path) -> None:
    source = str(pictures(tmp_path / "in", range(N)))
    stopped(source, tmp_path / "a.h5", 36)
    pictures(tmp_path / "in", range(N, 0, -1))
    resumed, whole = (pixels(source, tmp_path / name) for name in ("a.h5", "b.h5"))
    assert resumed.digests == whole.digests


def test_a_line_says_what_is_computed_again(tmp_path: Path) -> None:
    source, said = str(pictures(tmp_path / "in", range(N))), list[str]()
    stopped(source, tmp_path / "a.h5", 36)
    Image.new("L", (8, 8), 255).save(
        tmp_path / "in/b/033.png"
    )  # number 36 of 40: in no whole block
    Image.new("L", (8, 8), 255).save(tmp_path / "in/a/004.png")
    pixels(source, tmp_path / "a.h5", notify=said.append)
    line = (
        "1 samples of in have other contents than when this work was interrupted (first "
        "a/004.png): 1 of 2 finished blocks are computed again."
    )
    assert line in said


def test_an_unchanged_source_is_computed_once(tmp_path: Path) -> None:
    source, seen, said = str(pictures(tmp_path / "in", range(N))), list[int](), list[str]()
    stopped(source, tmp_path / "a.h5", 36)
    options: dict[str, Any] = {"progress": lambda done, total: seen.append(done)}
    pixels(source, tmp_path / "a.h5", notify=said.append, **options)
    assert seen[0] == 2 * BLOCK
    assert not any("other contents" in line for line in said)


def test_another_folder_of_the_same_name_has_rows_of_its_own(tmp_path: Path) -> None:
    for i, grey in enumerate((range(N), range(100, 100 + N))):
        pictures(tmp_path / str(i) / "in", grey)
    stopped(str(tmp_path / "0/in"), tmp_path / "a.h5", 36)
    file = pixels(str(tmp_path / "1/in"), tmp_path / "a.h5")
    np.testing.assert_array_equal(rows(file), np.arange(100, 100 + N))


def test_a_picture_that_was_left_out_is_taken_when_it_is_mended(tmp_path: Path) -> None:
    source = pictures(tmp_path / "in", range(N))
    (source / "a/004.png").write_bytes(b"no picture")
    stopped(str(source), tmp_path / "a.h5", 36, skip_bad=True)
    pictures(source, range(N))
    file = pixels(str(source), tmp_path / "a.h5", skip_bad=True)
    np.testing.assert_array_equal(rows(file), np.arange(N))


def test_labels_are_those_that_the_source_has_now(tmp_path: Path) -> None:
    source, seen = table(tmp_path / "in", range(N)), list[int]()
    stopped(source, tmp_path / "a.h5", 36)
    labels = [int(i < 10) for i in range(N)]
    table(tmp_path / "in", range(N), labels)
    file = pixels(source, tmp_path / "a.h5", progress=lambda done, total: seen.append(done))
    assert file.labels.tolist() == labels
    assert seen[0] == 2 * BLOCK  # no content has changed


def test_another_list_of_samples_is_other_work(tmp_path: Path) -> None:
    source = pictures(tmp_path / "in", range(N))
    stopped(str(source), tmp_path / "a.h5", 36)
    (source / "a/004.png").unlink()
    with pytest.raises(UserError, match=r"another job \(another samples\)"):
        pixels(str(source), tmp_path / "a.h5")


def test_other_samples_replace_work_that_is_dropped(tmp_path: Path) -> None:
    source = pictures(tmp_path / "in", range(N))
    stopped(str(source), tmp_path / "a.h5", 36)
    (source / "a/004.png").unlink()
    resumed = pixels(str(source), tmp_path / "a.h5", overwrite=True)
    assert resumed.digests == pixels(str(source), tmp_path / "b.h5").digests


def bad_at(source: Path, number: int) -> Path:
    """Make a picture bad by its number in the order of a folder: a/000, a/002, …, b/001, …."""
    path = sorted(source.rglob("*.png"))[number]
    path.write_bytes(b"no picture")
    return path


def refused(source: Path, out: Path, **options: Any) -> None:
    with pytest.raises(UserError, match="repair or remove it, or leave it out with --skip-bad"):
        pixels(str(source), out, **options)


@pytest.mark.parametrize(("number", "kept"), [(3, 0), (20, 1), (39, 2)])
def test_work_goes_on_when_the_bad_file_is_removed(tmp_path: Path, number: int, kept: int) -> None:
    """As the sentence on the bad file advises; finished blocks before it stay."""
    source, seen = pictures(tmp_path / "in", range(N)), list[int]()
    bad = bad_at(source, number)
    refused(source, tmp_path / "a.h5")
    bad.unlink()
    resumed = pixels(str(source), tmp_path / "a.h5", progress=lambda done, n: seen.append(done))
    assert seen[0] == kept * BLOCK
    assert resumed.digests == pixels(str(source), tmp_path / "b.h5").digests


@pytest.mark.parametrize(("number", "kept"), [(3, 0), (20, 1), (39, 2)])
def test_work_goes_on_when_the_bad_file_is_left_out(tmp_path: Path, number: int, kept: int) -> None:
    """As the sentence advises, too."""
    source, seen = pictures(tmp_path / "in", range(N)), list[int]()
    bad = bad_at(source, number)
    refused(source, tmp_path / "a.h5")
    options: dict[str, Any] = {"skip_bad": True, "progress": lambda done, n: seen.append(done)}
    resumed = pixels(str(source), tmp_path / "a.h5", **options)
    assert seen[0] == kept * BLOCK
    assert [name for name, _ in resumed.provenance["skipped"]] == [f"{bad.parent.name}/{bad.name}"]
    assert len(resumed.sample_ids) == N - 1


def test_a_sample_that_was_left_out_is_named_where_none_may_be(tmp_path: Path) -> None:
    source = pictures(tmp_path / "in", range(N))
    bad_at(source, 3)
    stopped(str(source), tmp_path / "a.h5", 36, skip_bad=True)
    refused(source, tmp_path / "a.h5")
    seen: list[int] = []
    options: dict[str, Any] = {"skip_bad": True, "progress": lambda done, n: seen.append(done)}
    pixels(str(source), tmp_path / "a.h5", **options)
    assert seen[0] == 2 * BLOCK  # nothing was lost


def test_that_samples_are_others_is_said(tmp_path: Path) -> None:
    source, said = pictures(tmp_path / "in", range(N)), list[str]()
    stopped(str(source), tmp_path / "a.h5", 36)
    sorted(source.rglob("*.png"))[20].unlink()
    pixels(str(source), tmp_path / "a.h5", notify=said.append)
    line = (
        "in has other samples than when this work was interrupted: 1 of 2 finished blocks are "
        "computed again."
    )
    assert said[0] == line


def test_blocks_behind_the_last_sample_are_dropped(tmp_path: Path) -> None:
    """The data set is shorter now by more than a block."""
    source = pictures(tmp_path / "in", range(2 * N))
    stopped(str(source), tmp_path / "a.h5", 76)
    for path in sorted(source.rglob("*.png"))[18:]:
        path.unlink()
    resumed = pixels(str(source), tmp_path / "a.h5")
    assert resumed.digests == pixels(str(source), tmp_path / "b.h5").digests


def test_a_table_of_the_same_date_is_read_anew(tmp_path: Path) -> None:
    """The package `datasets` keeps what it has read under the path and the date of a file."""
    path = tmp_path / "t.csv"
    texts = []
    for word in ("one", "two"):
        path.write_text(f"text,label\n{word},x\n{word},y\n")
        os.utime(path, (0, 0))
        texts.append(open_source(f"hfds/{path}").read(0))
    assert texts == [b"one", b"two"]


# --- what the file says of them ---


def test_diff_says_which_pictures_changed(tmp_path: Path) -> None:
    source = pictures(tmp_path / "in", range(N))
    a = pixels(str(source), tmp_path / "a.h5")
    Image.new("L", (8, 8), 200).save(source / "a/004.png")
    Image.new("L", (8, 8), 200).save(source / "b/007.png")
    b = pixels(str(source), tmp_path / "b.h5")
    assert diff(a.path, b.path).contents == {
        "compared": N,
        "changed": 2,
        "first": ["a/004.png", "b/007.png"],
    }


def test_contents_are_the_same_in_a_folder_and_in_a_zip(tmp_path: Path) -> None:
    grey = np.arange(N)
    a, b = (
        pixels(str(SOURCES[kind](tmp_path, grey)), tmp_path / f"{kind}.h5")
        for kind in ("folder", "zip")
    )
    assert a.provenance["contents"] == b.provenance["contents"]


def test_contents_are_of_the_samples_that_were_taken(tmp_path: Path) -> None:
    source = pictures(tmp_path / "in", range(N))
    (source / "a/004.png").write_bytes(b"no picture")
    file = pixels(str(source), tmp_path / "a.h5", skip_bad=True)
    expected = [
        hashlib.sha256((source / id_).read_bytes()).digest()[:16] for id_ in sorted(file.sample_ids)
    ]
    assert file.provenance["contents"]["sha256"] == hashlib.sha256(b"".join(expected)).hexdigest()


def test_contents_of_decoded_images_say_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part, n in (("train", 20), ("t10k", 6)):
        images = rng.integers(0, 256, (n, 4, 4), np.uint8)
        head = np.array([n, 4, 4], ">u4").tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + head + bytes(images))
        labels = np.array([n], ">u4").tobytes() + bytes(i % 2 for i in range(n))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + labels)
    file = pixels(str(tmp_path), tmp_path / "a.h5", split=None)
    assert file.provenance["contents"]["of"] == "decoded"
