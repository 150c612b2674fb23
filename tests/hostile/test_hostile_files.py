"""Embedding files and predictions with flipped bytes and hostile structures."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import victim
from file_helpers import PROVENANCE, make_features, make_samples
from hostile import cases, drawn, judge
from hostile_hdf5 import mutate
from victim import Outcome

from embedbench.files.write_file import write_file

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Sound:
    """Files that are sound: embedding files, runs, and what each says."""

    folder: Path
    embeddings: list[Path]
    runs: list[Path]
    contents: dict[Path, str]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    folder = tmp_path_factory.mktemp("sound")
    samples = make_samples(90)
    write_file(folder / "a.h5", samples, make_features(90), PROVENANCE)
    shutil.copy(ROOT / "golden" / "v1.0.h5", folder / "golden.h5")
    shutil.copy(ROOT / "golden" / "v1.1.h5", folder / "columns.h5")
    shutil.copy(ROOT / "golden" / "v1.0-pixels.h5", folder / "pixels.h5")
    words = ["--protocol", "incremental-class", "--set", "protocol.base=2", "--learner", "ncm"]
    ran = victim.run("run", folder / "a.h5", *words, "--out", folder / "runs", seconds=60)
    assert ran.code == 0, ran.err
    runs = sorted(p.parent for p in (folder / "runs").rglob("record.json"))
    names = ("a.h5", "golden.h5", "columns.h5", "pixels.h5")
    embeddings = [folder / name for name in names]
    contents = {}
    for path in embeddings:
        contents[path] = _content(victim.said, path)
    for run in runs:
        contents[run] = _content(victim.answered, run / "predictions.h5")
    return Sound(folder, embeddings, runs, contents)


def _content(function: str, path: Path) -> str:
    outcome = victim.call(function, path, seconds=60)
    assert outcome.code == 0, outcome.err
    return outcome.out


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
def test_embedding_files_with_flipped_bytes(
    numbers: list[int],
    sound: Sound,
    tmp_path: Path,
) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("flip", number)
        before = sound.embeddings[draw.integers(len(sound.embeddings))]
        path = tmp_path / "f.h5"
        shutil.copy(before, path)
        _flipped(path, draw)
        yield _as_before(victim.call(victim.said, path), sound.contents[before])

    judge("flipped embedding files", numbers, trial)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "not-pinned"])
@pytest.mark.parametrize("numbers", cases(500, 5, past=(236,)))
def test_predictions_with_flipped_bytes(
    numbers: list[int],
    pinned: bool,
    sound: Sound,
    tmp_path: Path,
) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("answers", number)
        before = sound.runs[draw.integers(len(sound.runs))]
        place = tmp_path / "run"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(before, place)
        _flipped(place / "predictions.h5", draw)
        changed = (place / "predictions.h5").read_bytes() != (
            before / "predictions.h5"
        ).read_bytes()
        if not pinned:
            _unpin(place)
            path = place / "predictions.h5"
            yield _as_before(victim.call(victim.answered, path), sound.contents[before])
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
def test_structures(
    numbers: list[int],
    sound: Sound,
    tmp_path: Path,
) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("structure", number)
        if number % 3 == 0:
            before = sound.runs[draw.integers(len(sound.runs))]
            place = tmp_path / "run"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(before, place)
            mutate(place / "predictions.h5", draw)
            _unpin(place)
            yield victim.run("score", place)
            return
        before = sound.embeddings[draw.integers(len(sound.embeddings))]
        path = tmp_path / "f.h5"
        shutil.copy(before, path)
        signed = mutate(path, draw)
        outcome = victim.call(victim.said, path)
        yield outcome if signed else _as_before(outcome, sound.contents[before])
        yield victim.run(*(("inspect", path), ("verify", path), ("diff", before, path))[number % 3])

    judge("structures", numbers, trial)
