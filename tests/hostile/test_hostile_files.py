"""Embedding files and predictions with flipped bytes and hostile structures."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import victim
from file_helpers import PROVENANCE, make_features, make_samples
from hostile import cases, drawn, judge
from hostile_hdf5 import mutate
from victim import Outcome

from embedbench.files.write_file import write_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Files that are sound, and what each says."""
    folder = tmp_path_factory.mktemp("sound")
    write_file(folder / "a.h5", make_samples(90), make_features(90), PROVENANCE)
    words = ["--protocol", "incremental-class", "--set", "protocol.base=2", "--learner", "ncm"]
    ran = victim.run("run", folder / "a.h5", *words, "--out", folder / "runs", seconds=60)
    assert ran.code == 0, ran.err
    golden = [GOLDEN / name for name in ("v1.0.h5", "v1.1.h5", "v1.0-pixels.h5")]
    runs = sorted(p.parent for p in (folder / "runs").rglob("record.json"))
    return SimpleNamespace(
        embeddings={path: _content(victim.said, path) for path in (folder / "a.h5", *golden)},
        runs={run: _content(victim.answered, run / "predictions.h5") for run in runs},
    )


def _content(function: str, path: Path) -> str:
    outcome = victim.call(function, path, seconds=60)
    assert outcome.code == 0, outcome.err
    return outcome.out


def _copy_of_one(paths: Iterable[Path], draw: np.random.Generator, to: Path) -> Path:
    """Copy one of the files or runs; returns which."""
    listed = list(paths)
    one = listed[draw.integers(len(listed))]
    shutil.rmtree(to, ignore_errors=True)
    (shutil.copytree if one.is_dir() else shutil.copy)(one, to)
    return one


def _as_before(outcome: Outcome, expected: str) -> Outcome:
    """The outcome; it fails where the content is another and nothing was said."""
    if outcome.code == 0 and outcome.out != expected:
        return replace(outcome, code=99)
    return outcome


def _flipped(path: Path, draw: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    how = draw.integers(8)
    if how == 0:  # cut, or torn
        del data[int(draw.integers(len(data))) :]
    elif how == 1:
        start = int(draw.integers(len(data)))
        data[start : start + 512] = bytes(len(data[start : start + 512]))
    else:
        data[int(draw.integers(len(data)))] ^= int(draw.integers(1, 256))
    path.write_bytes(data)


@pytest.mark.parametrize("numbers", cases(1200, 12))
def test_flipped_embedding_files(numbers: list[int], sound: Any, tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("flip", number)
        path = tmp_path / "f.h5"
        before = _copy_of_one(sound.embeddings, draw, path)
        _flipped(path, draw)
        yield _as_before(victim.call(victim.said, path), sound.embeddings[before])

    judge("flipped embedding files", numbers, trial)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "not-pinned"])
@pytest.mark.parametrize("numbers", cases(500, 5, past=(236,)))
def test_flipped_predictions(numbers: list[int], pinned: bool, sound: Any, tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("answers", number)
        place = tmp_path / "run"
        before, path = _copy_of_one(sound.runs, draw, place), place / "predictions.h5"
        _flipped(path, draw)
        changed = path.read_bytes() != (before / path.name).read_bytes()
        if not pinned:
            _unpin(place)
            yield _as_before(victim.call(victim.answered, path), sound.runs[before])
            return
        kept = (place / "record.json").read_bytes()
        outcome = victim.run("score", place)
        if (changed and outcome.code != 1) or (place / "record.json").read_bytes() != kept:
            outcome = replace(outcome, code=99)
        yield outcome

    kind = "flipped predictions" + ("" if pinned else ", not pinned")
    judge(kind, numbers, trial)


def _unpin(place: Path) -> None:
    record: dict[str, Any] = json.loads((place / "record.json").read_text())
    record.pop("predictions_sha256", None)
    (place / "record.json").write_text(json.dumps(record))


@pytest.mark.parametrize("numbers", cases(300, 8, batch=25))
def test_structures(numbers: list[int], sound: Any, tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("structure", number)
        if number % 3 == 0:
            place = tmp_path / "run"
            _copy_of_one(sound.runs, draw, place)
            mutate(place / "predictions.h5", draw)
            _unpin(place)
            yield victim.run("score", place)
            return
        path = tmp_path / "f.h5"
        before = _copy_of_one(sound.embeddings, draw, path)
        signed = mutate(path, draw)
        outcome = victim.call(victim.said, path)
        yield outcome if signed else _as_before(outcome, sound.embeddings[before])
        yield victim.run(*(("inspect", path), ("verify", path), ("diff", before, path))[number % 3])

    judge("structures", numbers, trial)
