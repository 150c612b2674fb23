"""Hostile sources end with one sentence, or are left out with `--skip-bad`; soon, and in memory.

Some are listed, with what must be said; others are drawn, folders and archives of images and sounds
with hostile members, and extracted in processes with bounds.
"""

import errno
import os
import shutil
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import hostile_sources
import numpy as np
import pytest
import victim
from commands import Call
from hostile import cases, drawn, judge
from victim import Outcome

from embedbench.errors import UserError
from embedbench.extract import extraction_work, pipeline, sound_files, source  # noqa: F401  slow to import
from embedbench.extract.open_backbone import Images
from embedbench.extract.open_source import open_source
from embedbench.extract.source import Content
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.storage.regular_files import open_regular

SECONDS = 10  # no source takes longer

Extract = Callable[..., str]
BOUNDED = pytest.mark.usefixtures("soon", "low_bounds")


@pytest.fixture
def soon(tmp_path: Path) -> Iterator[None]:
    """Fail a test that takes long; one that waits for a FIFO is let go."""

    def let_go() -> None:
        for path in filter(Path.is_fifo, tmp_path.rglob("*")):
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))

    timer = threading.Timer(2 * SECONDS, let_go)
    timer.start()
    start = time.monotonic()
    yield
    timer.cancel()
    assert time.monotonic() - start < SECONDS


@pytest.fixture
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a file of a few kilobytes reaches."""
    monkeypatch.setattr(source, "READS", 1000)
    monkeypatch.setattr(source, "HEADER", 50_000)
    monkeypatch.setattr(source, "SCANS", 0.005)
    monkeypatch.setattr(sound_files, "READS", 1000)


@pytest.fixture
def extract(tmp_path: Path, call: Call) -> Extract:
    """Run `embedbench extract` to out.h5 and return its sentence; empty if it succeeds."""

    def run(path: Path, *words: str) -> str:
        where = ("--out", tmp_path / "out.h5", "--size", "2", "--overwrite", "--quiet")
        code, out, err = call("extract", path, *where, *words)
        if code == 0:
            return ""
        assert code == 2
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("embedbench: ")
        assert len(err) < 1000
        return err

    return run


def check_bad(extract: Extract, path: Path, reason: str, backbone: str = "pixels") -> str:
    """The bad file is named; without it, the good ones make a file."""
    sentence = extract(path, "--backbone", backbone)
    assert extract(path, "--skip-bad", "--split", "0.5", "--backbone", backbone) == ""
    file = EmbeddingFile.open(path.parent / "out.h5")
    assert len(file.sample_ids) == 3
    ((name, text),) = file.provenance["skipped"]
    assert "bad" in name
    assert reason in text
    assert str(path.parent) not in text
    assert f"({text})" in sentence
    assert "--skip-bad" in sentence
    return str(name)


@BOUNDED
@pytest.mark.parametrize("name", hostile_sources.BAD)
def test_one_bad_file(extract: Extract, tmp_path: Path, name: str) -> None:
    hostile_sources.spoil(name, tmp_path / "in")
    backbone = "log-mel" if name.endswith(".wav") else "pixels"
    check_bad(extract, tmp_path / "in", hostile_sources.BAD[name], backbone)


@BOUNDED
@pytest.mark.parametrize("name", hostile_sources.WHOLE)
def test_whole_sources(extract: Extract, tmp_path: Path, name: str) -> None:
    make, reason = hostile_sources.WHOLE[name]
    make(tmp_path / "in")
    for words in ([], ["--skip-bad"]):
        assert reason in extract(tmp_path / "in", "--backbone", "pixels", *words)


@BOUNDED
@pytest.mark.parametrize("path", ["../../bad.png", "/bad.png", "a/../../../bad.png", "a/" * 40])
def test_cub_lists_that_lead_elsewhere(tmp_path: Path, path: str) -> None:
    hostile_sources.cub(tmp_path / "in", path)
    (tmp_path / "bad.png").write_bytes(hostile_sources.image())
    ((name, problem),) = open_source(str(tmp_path / "in"), skip_bad=True).refused
    assert name == f"images/{path}"
    assert ("41 folders deep" if path == "a/" * 40 else "leads out") in problem


@BOUNDED
def test_names_that_are_not_utf8(extract: Extract, tmp_path: Path) -> None:
    root = hostile_sources.good(tmp_path / "in")
    (root / os.fsdecode(b"cat/bad\xff.png")).write_bytes(hostile_sources.image())
    assert check_bad(extract, root, "not UTF-8") == "cat/bad\\udcff.png"
    # nor does the name of the source itself stop the work
    assert (
        extract(hostile_sources.good(tmp_path / os.fsdecode(b"\xff")), "--backbone", "pixels") == ""
    )
    assert EmbeddingFile.open(tmp_path / "out.h5").provenance["source"]["name"] == "\\udcff"


@BOUNDED
def test_circles_of_links_end(tmp_path: Path) -> None:
    """Two links to the parent make 2**40 paths; a directory counts once, under its real path."""
    root = hostile_sources.good(tmp_path / "in")
    elsewhere = hostile_sources.good(tmp_path / "elsewhere")
    ids = open_source(str(root)).ids
    links = {"cat/up": "..", "cat/up2": "..", "a-cat": "cat", "root": "/", "gone": "nowhere"}
    for name, to in (links | {"out": "../../"}).items():  # which holds the source itself
        (root / name).symlink_to(to)
    assert open_source(str(root)).ids == ids
    # a directory elsewhere is followed, once; a link to a file gives its name
    for link in ("other", "third"):
        (root / link).symlink_to(elsewhere)
    (root / "dog/link.png").symlink_to(elsewhere / "cat/1.png")
    followed = open_source(str(root))
    assert set(followed.ids) == {*ids, "dog/link.png", *(f"other/{name}" for name in ids)}
    assert followed.read(followed.ids.index("dog/link.png")) == hostile_sources.image(value=0)


@BOUNDED
def test_no_permission(extract: Extract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imitated, because root may read everything."""
    root = hostile_sources.good(tmp_path / "in")
    denied = root / "cat/bad.png"
    denied.write_bytes(hostile_sources.image())
    really = {"open": os.open, "scandir": os.scandir}

    def imitate(name: str) -> None:
        def call(path: Any, *args: Any, **options: Any) -> Any:
            if not isinstance(path, int) and os.fspath(path).rstrip("/") == str(denied):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return really[name](path, *args, **options)

        monkeypatch.setattr(os, name, call)

    imitate("open")
    check_bad(extract, root, "no permission")
    imitate("scandir")
    denied.unlink()
    hostile_sources.good(denied)
    check_bad(extract, root, "no permission")
    monkeypatch.undo()
    denied = root
    imitate("scandir")
    with pytest.raises(UserError, match=f"{root} .*no permission"):
        open_source(str(root))


@BOUNDED
def test_a_fifo_in_the_place_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    regular = os.stat(__file__)
    monkeypatch.setattr(os, "stat", lambda path: regular)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "fifo")


@BOUNDED
def test_a_member_is_unpacked_to_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen megabytes of zeros under their real size, and under one of 20 bytes."""
    path, zeros = tmp_path / "in.zip", bytes(2**24)
    hostile_sources.patched(path, zeros, size=20)
    opened = open_source(str(path))
    tracemalloc.start()
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        opened.read(opened.ids.index("cat/bad.png"))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    hostile_sources.patched(path, zeros)
    monkeypatch.setattr(source, "BYTES", 2**24 - 1)
    ((name, problem),) = open_source(str(path), skip_bad=True).refused
    assert name == "cat/bad.png"
    assert problem[:36] == "16,777,216 bytes; at most 16,777,215"


@BOUNDED
def test_sounds_are_scaled_in_pieces_and_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(64000, dtype="<i2").tobytes()
    stereo = hostile_sources.riff((b"fmt ", hostile_sources.form(2, align=4)), (b"data", data))
    rate, whole = sound_files.read_wav(stereo)
    monkeypatch.setattr(sound_files, "PIECE", 1000)
    assert np.array_equal(sound_files.read_wav(stereo)[1], whole)
    assert np.array_equal(sound_files.read_wav(stereo, 1)[1], whole[:rate])


class Counting(Images):
    now, most = 0, 0

    def prepare(self, content: Content) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        time.sleep(0.005)
        self.now -= 1
        return super().prepare(content)


@BOUNDED
@pytest.mark.parametrize("large", [True, False])
def test_large_images_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    monkeypatch.setattr(extraction_work, "LARGE", 6 * 5 - 1 if large else 6 * 5)
    opened = open_source(str(hostile_sources.good(tmp_path / "in")))
    counting = Counting(extraction_work.first_image(opened), 2)
    batches = [range(i, i + 1) for i in range(3)] * 5
    assert len(list(extraction_work.compute_batches(opened, batches, counting, workers=3))) == 15
    assert (counting.most == 1) is large


def _flip(path: Path, draw: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(int(draw.integers(1, 20))):
        data[int(draw.integers(min(len(data), 1000)))] = int(draw.integers(256))
    path.write_bytes(data)


def _listed(root: Path, draw: np.random.Generator) -> None:
    names = [*hostile_sources.BAD, *hostile_sources.WHOLE]
    hostile_sources.spoil(names[draw.integers(len(names))], root)


def _flipped(root: Path, draw: np.random.Generator) -> None:
    for path in hostile_sources.good(root, (".png", ".wav")[draw.integers(2)]).rglob("*.*"):
        _flip(path, draw)


def _flipped_archive(root: Path, draw: np.random.Generator) -> None:
    hostile_sources.archive(root)
    _flip(root, draw)


def _circles_and_names(root: Path, draw: np.random.Generator) -> None:
    hostile_sources.good(root)
    for name in ("one", "two"):
        (root / "cat" / name).symlink_to(root)
    for name in ("\x1b[31mred.png", "new\nline.png", "\udcff\udcfe.png", "e\u0301.png", "-x.png"):
        (root / "dog" / name).write_bytes(hostile_sources.image())


SPOILS = (_listed, _listed, _listed, _listed, _flipped, _flipped_archive, _circles_and_names)


@pytest.mark.parametrize("numbers", cases(80, 7, batch=20))
def test_drawn_sources(numbers: list[int], tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        root = tmp_path / f"s{number}"
        SPOILS[number % len(SPOILS)](root, drawn("source", number))
        sounds = root.is_dir() and any(root.rglob("*.wav"))
        how = ("log-mel",) if sounds else ("pixels", "--size", "8")
        words = ("extract", root, "--quiet", "--backbone", *how)
        yield victim.run(*words, "--out", tmp_path / f"{number}.h5")
        yield victim.run(*words, "--out", tmp_path / f"{number}s.h5", "--skip-bad")
        if root.is_dir():  # rmtree would wait for a FIFO
            shutil.rmtree(root)

    judge("sources", numbers, trial)
