"""Decoding in processes beside a card: the file that threads make, whatever happens to them."""

import os
import shutil
import signal
import subprocess
import sys
import time
import wave
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import hostile_sources
import numpy as np
import pytest
from commands import CONTEXT
from datasets import ClassLabel, Features
from PIL import Image
from quick_decoders import BLOCK, STAND_IN, StandIn, decoding_in_processes, ended, small_units
from tiny_images import images

from embedbench.errors import UserError
from embedbench.extract import extraction_work
from embedbench.extract.decoding_processes import DecodingProcesses, InMemory, Opening
from embedbench.extract.decoding_worker import DecodingWorker, LargeTurn
from embedbench.extract.extraction_work import Job
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.extract.pixel_policy import DEFAULT
from embedbench.extract.source import Source
from embedbench.files.embedding_file import EmbeddingFile

HOW: dict[str, Any] = {"backbone": STAND_IN, "batch_size": 8, "notify": lambda _: None}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of six blocks of images, of which the last is shorter."""
    return str(images(tmp_path_factory.mktemp("six") / "in", 90))


@pytest.fixture(scope="module")
def whole(source: str, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    """What threads extract from `source`."""
    with small_units():
        return extract(source, tmp_path_factory.mktemp("whole") / "whole.h5", **HOW)


def made(file: EmbeddingFile) -> dict[str, Any]:
    return {key: value for key, value in file.provenance.items() if key != "date_utc"}


# --- sources ---


def folder(root: Path) -> str:
    return str(images(root / "in", 24))


def archive(root: Path) -> str:
    images(root / "in", 24)
    return shutil.make_archive(str(root / "zipped"), "zip", root / "in")


def idx(root: Path) -> str:
    hostile_sources.idx(root / "idx")
    return str(root / "idx")


def parquet(root: Path) -> str:
    features = Features(image=datasets.Image(), label=ClassLabel(names=["x", "y"]))
    content = [{"bytes": hostile_sources.image(value=i), "path": None} for i in range(24)]
    rows = {"image": content, "label": [i % 2 for i in range(24)]}
    (root / "set").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(root / "set/train.parquet"))
    return f"hfds/{root / 'set'}"


def torchvision(root: Path) -> str:
    names = [f"{c}/{c}_{i:04d}.jpg" for c in ("banded", "dotted") for i in range(12)]
    for i, name in enumerate(names):
        path = root / "dtd/dtd/images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 8), (10 * i, 0, 0)).save(path)
    (root / "dtd/dtd/labels").mkdir()
    for i, part in enumerate(("train", "val", "test")):
        path = root / f"dtd/dtd/labels/{part}1.txt"
        path.write_text("".join(f"{name}\n" for name in names[i::3]))
    return f"torch/DTD@{root}"


def sounds(root: Path) -> str:
    for i in range(24):
        path = root / "in" / "ab"[i % 2] / f"{i}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(bytes([i, 0]) * 800)
    return str(root / "in")


def from_outside(root: Path) -> str:
    return f"quick_decoders:outside@{images(root / 'in', 24)}"


SLOW = pytest.param(parquet, marks=pytest.mark.thorough)


@pytest.mark.parametrize("make", [folder, archive, idx, SLOW, torchvision, sounds, from_outside])
def test_the_file_is_that_of_threads(
    make: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "copies"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", copies)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(copies))
    name = make(tmp_path)
    how = {**HOW, "split": "0.3"}
    if make is sounds:
        how["backbone"] = "quick_decoders:OfSounds"
    with small_units():
        expected = extract(name, tmp_path / "threads.h5", **how)
    for workers in (2,) if make in (parquet, from_outside) else (1, 2):  # these two open slowly
        with decoding_in_processes() as asked:
            file = extract(name, tmp_path / f"{workers}.h5", cpus=workers, **how)
        assert len({*asked}) == min(workers, len(asked))
        assert file.digests == expected.digests
        assert made(file) == made(expected)
        assert all(map(ended, asked))


# --- what may happen ---


def test_a_killed_process_ends_the_command_with_a_sentence(
    source: str, whole: EmbeddingFile, tmp_path: Path
) -> None:
    out = tmp_path / "a.h5"
    with decoding_in_processes() as asked:

        def kill(done: int, total: int) -> None:
            if done >= BLOCK and asked:
                os.kill(asked[0], signal.SIGKILL)

        with pytest.raises(UserError, match=r"ended by SIGKILL; was it .* are kept") as error:
            extract(source, out, progress=kill, cpus=2, **HOW)
    assert error.value.remedy.startswith("the blocks that are done are kept")
    assert all(map(ended, asked))
    check_it_goes_on(source, out, whole)


def test_ctrl_c_ends_the_processes(source: str, whole: EmbeddingFile, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > BLOCK:
            raise KeyboardInterrupt

    out = tmp_path / "a.h5"
    with decoding_in_processes() as asked, pytest.raises(KeyboardInterrupt):
        extract(source, out, progress=interrupt, cpus=2, **HOW)
    assert asked
    assert all(map(ended, asked))
    check_it_goes_on(source, out, whole)


def check_it_goes_on(source: str, out: Path, whole: EmbeddingFile) -> None:
    """The first block is kept, and the file becomes that of threads."""
    assert not out.exists()
    seen: list[int] = []
    with small_units():
        file = extract(source, out, progress=lambda done, _: seen.append(done), **HOW)
    assert seen[0] >= BLOCK
    assert file.digests == whole.digests


def _extract(source: str, out: Path, told: Path) -> None:
    def progress(done: int, total: int) -> None:
        if done > BLOCK:
            told.write_text("".join(f"{pid}\n" for pid in {*asked}))
            time.sleep(60)

    with decoding_in_processes(quick=False) as asked:
        extract(source, out, progress=progress, cpus=1, **HOW)


@pytest.mark.thorough
def test_processes_end_with_their_parent(source: str, whole: EmbeddingFile, tmp_path: Path) -> None:
    """They are begun as they are outside of tests; the block that they decoded counts."""
    out, told = tmp_path / "a.h5", tmp_path / "told"
    parent = CONTEXT.Process(target=_extract, args=(source, out, told))
    parent.start()
    wait_for(told.exists)
    (pid,) = map(int, told.read_text().split())
    assert os.getsid(pid) == pid  # Ctrl-C in a terminal is for the parent alone
    assert not ended(pid)
    parent.kill()
    parent.join()
    wait_for(lambda: ended(pid))
    check_it_goes_on(source, out, whole)


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_broken_image_gives_the_sentence_of_threads(source: str, tmp_path: Path) -> None:
    spoilt = shutil.copytree(source, tmp_path / "in")
    bad = spoilt / "s0/c1/0025.png"
    bad.write_bytes(bad.read_bytes()[:-40])
    with small_units(), pytest.raises(UserError) as expected:
        extract(str(spoilt), tmp_path / "a.h5", **HOW)
    with decoding_in_processes() as asked, pytest.raises(UserError) as error:
        extract(str(spoilt), tmp_path / "b.h5", cpus=2, **HOW)
    assert asked
    assert str(error.value) == str(expected.value)


def test_broken_images_that_are_left_out(source: str, tmp_path: Path) -> None:
    """One among others, and a whole unit."""
    spoilt = shutil.copytree(source, tmp_path / "in")
    for bad in [spoilt / "s0/c0/0033.png", *sorted((spoilt / "s0/c1").iterdir())[:4]]:
        bad.write_bytes(b"no image")
    how = {**HOW, "skip_bad": True}
    with small_units():
        expected = extract(str(spoilt), tmp_path / "a.h5", **how)
    with decoding_in_processes():
        file = extract(str(spoilt), tmp_path / "b.h5", cpus=2, **how)
    assert len(file.provenance["skipped"]) == 5
    assert file.digests == expected.digests
    assert made(file) == made(expected)


def opening(source: Source, **changes: Any) -> Opening:
    fields = {
        "open_source": partial(open_source, "demo"),
        "directory": "/",
        "samples": source.digest,
        "policy": DEFAULT,
        "backbone": {"name": "stand-in"},
        "prepare": StandIn.make,
        "threads": 1,
    }
    return Opening(**{**fields, **changes})


def test_a_process_that_has_other_samples(source: str) -> None:
    other = opening(open_source(source))  # it opens the shipped images
    with decoding_in_processes():
        processes = DecodingProcesses(1, other)
        with pytest.raises(UserError, match=r"^emoji-noto has other samples than when"):
            processes.begin()
        processes.end()


def test_what_a_process_raises_is_an_answer(tmp_path: Path) -> None:
    good, error = DecodingWorker(0).answer(
        opening(open_source("demo"), directory=str(tmp_path / "x"))
    )
    assert not good
    assert isinstance(error, FileNotFoundError)


def test_little_work_begins_no_process(source: str) -> None:
    job = Job(source, STAND_IN)
    work = job.work(job.open_source())
    assert work.processes is not None
    assert work._processes([0]) is None


def test_a_cpu_has_threads(source: str) -> None:
    job = Job(source, "pixels", size=8)
    assert job.work(job.open_source()).processes is None


def test_a_preparer_that_cannot_be_pickled(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandIn, "preparer", lambda self: lambda content: content)
    job = Job(source, STAND_IN)
    with pytest.raises(UserError, match=r"preparer` of the backbone stand-in .* be pickled"):
        job.work(job.open_source())


def test_a_large_image_waits_for_other_processes(tmp_path: Path) -> None:
    attempt = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with (tmp_path / "turn").open("w+b") as file:
        number = file.fileno()
        command = [sys.executable, "-S", "-c", attempt, str(number)]

        def other() -> int:
            run = subprocess.run(command, pass_fds=[number], stderr=subprocess.DEVNULL, check=False)
            return run.returncode

        with LargeTurn(number):
            assert other() == 1
        assert other() == 0


def test_arrays_grow_in_their_memory(tmp_path: Path) -> None:
    with (tmp_path / "memory").open("w+b") as file:
        worker = DecodingWorker(file.fileno())
        worker._stacked([np.zeros(3, np.uint8)])
        there = worker._stacked([np.arange(3.0), np.arange(3.0, 6.0)])
        assert there == InMemory((2, 3), "<f8")
        assert np.fromfile(tmp_path / "memory", "<f8").tolist() == [0, 1, 2, 3, 4, 5]


# --- memory ---


def test_few_units_wait_to_be_computed(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the card is: those of the batch in front, and two of each worker more."""
    decode, taken, most = extraction_work.decode_unit, list[int](), 0
    decoded = list[range]()

    def counted(opened: Source, rows: range, *more: Any) -> Any:
        nonlocal most
        decoded.append(rows)
        most = max(most, len(decoded) - len(taken))
        return decode(opened, rows, *more)

    monkeypatch.setattr(extraction_work, "decode_unit", counted)
    opened = open_source(source)
    batches = [range(i, i + 8) for i in range(0, 88, 8)]
    with small_units():
        for _ in extraction_work.compute_batches(opened, batches, StandIn(), 2):
            time.sleep(0.01)
            taken += [0, 0]  # units of a batch
    assert 2 * 2 <= most <= 2 + 2 * 2 + 2


@pytest.mark.long
def test_memory_does_not_grow_with_the_images(tmp_path: Path) -> None:
    """Of 60,000 images in place of 6,000: parent and two processes as they are begun."""
    picture = hostile_sources.image(value=9)
    peaks = []
    for count in (6_000, 60_000):
        root = tmp_path / str(count)
        for i in range(count):
            path = root / "ab"[i % 2] / f"{i:05d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
        run = subprocess.run(
            [sys.executable, "-c", PEAK, str(root), str(tmp_path / f"{count}.h5")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append([int(word) for word in run.stdout.split()])
    (few_here, few_there), (many_here, many_there) = peaks
    assert many_here - few_here < 150_000  # kilobytes: ids, labels and hashes of the samples
    assert many_there - few_there < 60_000


PEAK = """
import resource, sys, warnings
from embedbench.extract import extract
warnings.simplefilter("ignore")
extract(sys.argv[1], sys.argv[2], backbone="quick_decoders:StandIn", batch_size=128, cpus=2,
        notify=lambda _: None)
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    print(resource.getrusage(who).ru_maxrss)
"""
