"""Extraction in shards: the file of one process, whatever happens to the workers."""

import os
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from commands import quick_workers
from file_helpers import says
from PIL import Image, UnidentifiedImageError
from pretend_card import pretended_card
from tiny_images import TINY, images

from embedbench.engines import local_pool
from embedbench.engines.engine_tasks import Resources
from embedbench.errors import UserError
from embedbench.extract import extraction_work, pipeline
from embedbench.extract.extraction_work import Job
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.resumable_file import Partial

BLOCK = 16  # samples, here and in the workers
PIXELS: dict[str, Any] = {"backbone": "pixels", "size": 8, "threads": 1}


@dataclass
class Small(Executor):
    """Hands tasks on to processes that have small blocks; a task may be changed on its way."""

    executor: Executor
    change: Callable[..., Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        return self.executor.submit(_small, self.change, fn, *args)


def _small(change: Callable[..., Any] | None, function: Callable[..., Any], *args: Any) -> Any:
    Partial.BLOCK = BLOCK
    _, asked, *shard = args
    if change is None or asked is not pipeline.fill_range:
        return function(*args)
    path, job, blocks = shard

    def fill(path: Path = path) -> None:
        function(*args[:2], path, job, blocks)

    return change(fill, path, blocks)


@dataclass
class TwoWorkers:
    """An engine of two processes that begin at once."""

    change: Callable[..., Any] | None = None
    resources: Resources = field(default_factory=Resources)

    @contextmanager
    def executor(self, tasks: int, notify: Callable[[str], None]) -> Iterator[Executor]:
        assert tasks == 3  # a block each
        with quick_workers(), local_pool.local_executor(2) as executor:
            yield Small(executor, self.change)


@pytest.fixture(autouse=True, scope="module")
def _blocks() -> Iterator[None]:
    with mock.patch.object(Partial, "BLOCK", BLOCK), mock.patch.object(pipeline, "LOOK", 0.05):
        yield


def made(file: EmbeddingFile) -> dict[str, Any]:
    return {key: value for key, value in file.provenance.items() if key != "date_utc"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of three blocks of images."""
    return str(images(tmp_path_factory.mktemp("three") / "in", 40))


@pytest.fixture(scope="module")
def whole(source: str, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    """The pixels that one process extracts from `source`."""
    return extract(source, tmp_path_factory.mktemp("whole") / "whole.h5", **PIXELS)


@pytest.mark.thorough
def test_the_file_is_that_of_one_process(source: str, tiny_weights: Path, tmp_path: Path) -> None:
    """Rows, layers, samples left out, provenance and job."""
    spoilt = shutil.copytree(source, tmp_path / "in")
    (spoilt / "s0/c0/0033.png").write_bytes(b"no image")
    options: dict[str, Any] = {"backbone": TINY, "weights": tiny_weights, "size": 32, "threads": 1}
    options |= {"layers": ["1"], "dtype": "bfloat16", "skip_bad": True, "notify": lambda _: None}
    whole = extract(str(spoilt), tmp_path / "whole.h5", **options)
    seen: list[tuple[int, int]] = []
    options |= {"engine": TwoWorkers(), "progress": lambda *done: seen.append(done)}
    file = extract(str(spoilt), tmp_path / "a.h5", **options)
    assert file.digests == whole.digests
    assert made(file) == made(whole)
    assert seen[-1] == (40, 40)
    assert len({*seen}) > 1
    assert seen == sorted(seen)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "in", "whole.h5"]


def test_a_worker_is_killed_at_a_block(source: str, whole: EmbeddingFile, tmp_path: Path) -> None:
    killed: list[int] = []

    def progress(done: int, total: int) -> None:
        pids = [int(path.suffix[1:]) for path in tmp_path.glob("worker.*")]
        if pids and not killed:
            killed.append(pids[0])
            os.kill(killed[0], signal.SIGKILL)

    slow = TwoWorkers(_slowly)
    file = extract(source, tmp_path / "a.h5", engine=slow, progress=progress, **PIXELS)
    assert killed
    assert file.digests == whole.digests


def _slowly(fill: Callable[..., None], path: Path, blocks: tuple[int, ...]) -> None:
    write = Partial.write
    (path.parent / f"worker.{os.getpid()}").touch()

    def slow(self: Partial, *words: Any, **more: Any) -> None:
        time.sleep(0.3)
        write(self, *words, **more)

    with mock.patch.object(Partial, "write", slow):
        fill()


def test_a_failing_task_ends_the_command(source: str, whole: EmbeddingFile, tmp_path: Path) -> None:
    copy, out = shutil.copytree(source, tmp_path / "in"), tmp_path / "a.h5"
    bad = copy / "s0/c0/0033.png"
    good = bad.read_bytes()
    bad.write_bytes(b"no image")
    with pytest.raises(UserError, match=r"s0/c0/0033\.png of in ") as error:
        extract(str(copy), out, engine=TwoWorkers(), **PIXELS)
    assert error.value.remedy.endswith("--skip-bad")
    assert not out.exists()
    # what is there is kept, and one process goes on without the engine
    bad.write_bytes(good)
    partial = tmp_path / ".a.h5.partial"
    kept = len(list(partial.glob("*.bin")))
    assert kept >= 1
    assert not list(partial.glob("*.lease"))
    seen: list[int] = []
    file = extract(str(copy), out, progress=lambda done, _: seen.append(done), **PIXELS)
    assert seen[0] >= max(1, (kept - 1) * BLOCK)  # the last block is shorter
    assert file.digests == whole.digests


def _dies(fill: Callable[..., None], path: Path, blocks: tuple[int, ...]) -> None:
    if 1 in blocks:
        os.kill(os.getpid(), signal.SIGKILL)
    fill()


def _older(fill: Callable[..., None], path: Path, blocks: tuple[int, ...]) -> None:
    """Block 1 is computed by an older processor."""
    if 1 not in blocks:
        return fill()
    with mock.patch.object(extraction_work, "_device", return_value="cpu OLD"):
        return fill()


def _elsewhere(fill: Callable[..., None], path: Path, blocks: tuple[int, ...]) -> None:
    """The machine does not share the directory."""
    (path.parent / "elsewhere").mkdir(exist_ok=True)
    fill(path.parent / "elsewhere" / path.name)


def _other_contents(fill: Callable[..., None], path: Path, blocks: tuple[int, ...]) -> None:
    """Under the names of the samples the worker's machine has other pictures."""
    opened = pipeline._work

    def work(job: Job) -> extraction_work.ExtractionWork:
        made = opened(job)
        read = made.source.read
        return replace(made, source=replace(made.source, read=lambda i: read(0)))

    with mock.patch.object(pipeline, "_work", work):
        fill()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_other_contents, r"other contents than this command for \d+ samples of block [012] "),
        (_dies, r"failed \(LostTaskError: .* are kept"),
        (_older, r"differs in device .*'cpu OLD'"),
        (_elsewhere, r"elsewhere/\.a\.h5\.partial.* they share"),
    ],
)
def test_bad_worker(change: Callable[..., Any], sentence: str, source: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        extract(source, tmp_path / "a.h5", engine=TwoWorkers(change), **PIXELS)


ALONE = Job("in", "pixels", size=8, device="cpu")


def test_threads_are_part_of_the_job_and_lanes_are_not(source: str) -> None:
    def facts(**options: Any) -> tuple[int, int, dict[str, Any]]:
        job = replace(ALONE, source=source, **options)
        made = job.work(job.open_source())
        return made.workers, made.threads, made.facts()[0]

    one, three = facts(threads=1, cpus=1), facts(threads=1, cpus=3)
    assert ((one[0], three[0]), (one[2], one[2]["batch size"])) == ((1, 3), (three[2], 4))
    assert facts(threads=2)[2] == {**one[2], "threads": 2}
    # lanes of a process share its cores; an engine's workers have one thread an operation
    assert (facts(cpus=8, threads=2)[:2], facts(cpus=32)[:2]) == ((4, 2), (8, 4))
    there, two = ALONE.elsewhere(3), replace(ALONE, threads=2).elsewhere(1)
    assert there.threads == 1
    assert there.cpus == 3
    assert two.threads == 2
    assert facts(cpus=1, threads=2)[:2] == (1, 2)
    assert one[2]["device"] == f"cpu {torch.backends.cpu.get_cpu_capability()}"
    with pretended_card():
        with mock.patch.object(Partial, "BLOCK", 1024):
            assert facts(device="cuda", cpus=1)[2]["batch size"] == 128
        assert facts(device="cuda", cpus=40, batch_size=16)[:2] == (16, 2)
        assert facts(device="cuda", cpus=40, threads=3, batch_size=16)[:2] == (16, 3)
    for size in (-4, 3):
        with pytest.raises(UserError, match="the batch size"):
            facts(batch_size=size)


def test_the_samples_of_the_command_count(source: str) -> None:
    job = replace(ALONE, source=source)
    other = replace(job.open_source(), ids=("a/1.png",))
    with ThreadPoolExecutor(1) as pool:
        assert pipeline.Workers(job, other, pool).facts["samples"] == other.digest


@pytest.mark.parametrize("wrong", [{"alpha": "no colour"}, {"orientation": "up"}])
def test_a_policy_that_is_none_is_refused_before_any_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, check=says(got=next(iter(wrong.values())))):
        replace(ALONE, **wrong)


def test_arithmetic_is_repeatable() -> None:
    flags = torch.backends.cudnn
    with extraction_work.arithmetic_settings(1):
        assert flags.enabled is True
        assert flags.benchmark is False
        assert flags.deterministic is True
        assert not flags.allow_tf32
        assert torch.get_num_threads() == 1


def test_what_is_wrong_with_a_sample() -> None:
    for error, reason in (
        (UnidentifiedImageError("x"), "not an image that Pillow knows"),
        (Image.DecompressionBombError("x"), "too many pixels; at most 52,428,800 are possible"),
        (MemoryError("x"), "it does not fit into memory"),
        (ValueError(" a\n b "), "a b"),
        (ValueError("a" * 201), "a" * 200),
        (KeyError(), "KeyError"),
    ):
        assert extraction_work._reason(error) == reason


def test_readers_are_quiet() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with extraction_work.quiet_readers():
            warnings.warn_explicit("odd", UserWarning, "a.py", 1, module="PIL.Image")
            warnings.warn("Chunk (non-data) not understood", stacklevel=1)
            with pytest.raises(UserWarning):
                warnings.warn("another", stacklevel=1)


def test_an_image_that_cannot_be_decoded_is_not_the_first(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / "a").mkdir(exist_ok=True)
        Image.new("L", (30 + i, 30)).save(tmp_path / f"a/{i}.png")
    bad = tmp_path / "a/0.png"
    bad.write_bytes(bad.read_bytes()[:-30])
    assert extraction_work.first_image(open_source(str(tmp_path))).size == (31, 30)


def test_a_process_opens_source_and_model_once(source: str) -> None:
    job = replace(ALONE, source=source)
    first = pipeline._work(job)
    assert pipeline._work(replace(job)) is first
    other = pipeline._work(replace(job, size=9))
    assert other is not first
    assert list(pipeline._opened.values()) == [other]  # one model fits a card, not two


def test_a_process_that_outlives_a_command_opens_all_anew(source: str) -> None:
    job = replace(ALONE, source=source)
    first = pipeline._work(job.elsewhere(1))
    assert pipeline._work(job.elsewhere(1)) is not first


def test_relative_paths(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(source).parent)
    there = ALONE.elsewhere(1)
    monkeypatch.chdir(tmp_path)
    assert len(pipeline._work(there).source.ids) == 40
