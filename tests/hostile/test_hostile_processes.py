"""Commands that work on one directory at once, and commands that are killed at random moments."""

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crowd import Member, alive, answers, cut_power, events, metrics
from file_helpers import PROVENANCE, make_features, make_samples
from hostile import cases, drawn
from tiny_images import images

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.write_file import write_file

LEARNERS = ("mlp,ncm", "mlp,si")


@dataclass(frozen=True)
class Expected:
    """What one process alone makes."""

    file: Path
    images: Path
    runs: dict[str, dict[str, bytes]]
    metrics: dict[str, Any]
    digests: dict[str, str]


def _run(file: Path, out: Path, learners: str, jobs: int = 1) -> list[object]:
    size = ("--set", "protocol.base=2", "--set", "units=8", "--set", "stop.epochs=20")
    words = ("run", file, "--protocol", "incremental-class", "--learner", learners, *size)
    return [*words, "--seeds", "0-2", "--jobs", jobs, "--checkpoint", 0, "--out", out, "--quiet"]


def _extract(source: Path, out: Path) -> list[object]:
    return ["extract", source, "--backbone", "pixels", "--size", 8, "--out", out, "--quiet"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    folder = tmp_path_factory.mktemp("alone")
    file = folder / "a.h5"
    write_file(file, make_samples(120), make_features(120), PROVENANCE)
    pictures = images(folder / "images", 2500)
    for learners in LEARNERS:
        Member(_run(file, folder / "runs", learners), folder / f"{learners}.log").end()
    Member(_extract(pictures, folder / "x.h5"), folder / "x.log").end()
    runs, digests = folder / "runs", EmbeddingFile.open(folder / "x.h5").digests
    return Expected(file, pictures, answers(runs), metrics(runs), digests)


def _same_runs(out: Path, expected: Expected, power: bool = False) -> None:
    """The runs equal those of one process, and nothing unfinished is left."""
    made = answers(out)
    assert made == {place: expected.runs[place] for place in made}
    assert metrics(out) == {place: expected.metrics[place] for place in made}
    left = [p.name for p in out.rglob(".*")]
    # a lease that the power cut emptied, and what lies beside its finished run, go a minute later
    assert left == [] or (power and all(n.endswith((".lease", ".partial")) for n in left)), left


@pytest.mark.parametrize("numbers", cases(50, 0, batch=5))
def test_several_runs_at_once(numbers: list[int], expected: Expected, tmp_path: Path) -> None:
    """Of three runs one is killed: it loses the cell at work and no other."""
    for number in numbers:
        out = tmp_path / f"out{number}"
        words = [_run(expected.file, out, LEARNERS[number % 2 * k % 2]) for k in range(3)]
        logs = [tmp_path / f"{number}.{k}" for k in range(4)]
        members = [Member(*pair) for pair in zip(words, logs, strict=False)]
        time.sleep(float(drawn("one of them", number).uniform(0, 4)))
        members.pop(0).kill()
        for member in members:
            member.end()
        # what it left beside a run that it had just finished goes the next time
        Member(words[0], logs[3]).end()
        _same_runs(out, expected)
        assert len(answers(out)) >= 9  # two learners, chance and a reference
        times = Counter(place for log in logs for (place,) in events(log, "taught"))
        again = [place for place, n in times.items() if n > 1]
        assert len(again) <= 1, f"made again: {again}"


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power-cut"])
@pytest.mark.parametrize("numbers", cases(50, 0, batch=5))
def test_killed_often(numbers: list[int], power: bool, expected: Expected, tmp_path: Path) -> None:
    for number in numbers:
        draw = drawn(f"killed {power}", number)
        folder = tmp_path / str(number)
        folder.mkdir()
        extracts = number % 2 == 0
        out = folder / ("x.h5" if extracts else "out")
        words = _extract(expected.images, out) if extracts else _run(
            expected.file, out, LEARNERS[0], jobs=1 if power else 2
        )  # fmt: skip
        _kill_often(words, folder, power, draw)
        Member(words, folder.with_suffix(".last")).end()
        if extracts:
            assert EmbeddingFile.open(out).digests == expected.digests
            assert [p.name for p in folder.iterdir()] == ["x.h5"]
        else:
            _same_runs(out, expected, power)


def _kill_often(words: list[object], folder: Path, power: bool, draw: np.random.Generator) -> None:
    """Begin a command and kill it, twice; no process is left behind."""
    log = folder.with_suffix(".log")
    for _ in range(2):
        member = Member(words, log)
        time.sleep(float(draw.uniform(0, 3)))
        left = member.kill()
        assert not alive(left), "processes are left"
        if power:
            cut_power(folder, log)
