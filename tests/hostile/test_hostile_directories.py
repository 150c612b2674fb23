"""Directories of runs with hostile contents: reported, scored, and gone on with."""

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import victim
from file_helpers import PROVENANCE, make_features, make_samples
from hostile import cases, drawn, judge
from pickled import Hostile
from victim import Outcome

from embedbench.files.write_file import write_file
from embedbench.storage.leases import Lease

RUN = ("--protocol", "incremental-class", "--set", "protocol.base=2", "--quiet", "--seeds", "0-1")
LEARNERS = ("--learner", "ncm,mlp", "--set", "mlp.units=8", "--checkpoint", "0", "--jobs", "1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of four runs and their references, beside the file they learned."""
    folder = tmp_path_factory.mktemp("runs")
    write_file(folder / "a.h5", make_samples(90), make_features(90), PROVENANCE)
    ran = victim.run("run", folder / "a.h5", *RUN, *LEARNERS, "--out", folder / "runs", seconds=90)
    assert ran.code == 0, ran.err
    return folder


VALUES: list[Any] = [
    None, True, [], {}, "", "x", -1, 0, 2**63, 10**400, -(10**30), 0.5, float("nan"), float("inf"),
    1e308, "\x1b]0;title\x07\x1b[2J", "../../../etc/passwd", "/etc/passwd",
    "<script>alert(1)</script>", "[red]rich[/red]", "\u202e\u0000", "é" * 5000, [[[[]]]],
    {"a": {"b": None}}, [1, "two", None], "os:system", "pkg.mod:Name",
]  # fmt: skip
TEXTS = [
    b"", b"[]", b"null", b"3", b"\"text\"", b"{", b"{}", b"\xff\xfe\x00", b"\x80abc",
    b"[" * 200_000, b"{\"a\":" * 100_000, b"1" * 1_000_000, b"NaN",
    b"{\"schema\": \"embedbench-record/1.0\"}",
]  # fmt: skip


def changed(text: str, draw: np.random.Generator) -> bytes:
    """A document with one to three changed places; one in eight is another text."""
    if draw.integers(8) == 0:
        return TEXTS[draw.integers(len(TEXTS))]
    document = json.loads(text)
    for _ in range(int(draw.integers(1, 4))):
        _change(document, draw)
    return json.dumps(document).encode()


def _change(document: Any, draw: np.random.Generator) -> None:
    """Change, remove or add one value at a random place."""
    at = document
    while keys := list(at if isinstance(at, dict) else range(len(at))):
        key = keys[draw.integers(len(keys))]
        if not (isinstance(at[key], dict | list) and at[key] and draw.integers(3)):
            break
        at = at[key]
    else:
        return
    how = draw.integers(6)
    if how == 0:
        del at[key]
    elif how == 1 and isinstance(at, list):
        at.append(at[key])
    elif how == 1:
        at[f"{key}\x1b[31m"] = at[key]
    else:
        at[key] = VALUES[draw.integers(len(VALUES))]


COMMANDS = (
    "report RUNS", "score RUNS", "report RUNS --compare", "report RUNS --html NEW",
    "report RUNS --json", "score RUNS --update", "runs status RUNS", "runs status RUNS --json",
    "runs merge RUNS --out OUT",
)  # fmt: skip
Spoil = Callable[[Path, np.random.Generator, Path], None]


def _record(place: Path, draw: np.random.Generator, _: Path) -> None:
    path = place / "record.json"
    path.write_bytes(changed(path.read_text(), draw))


def _kinds_of_file(place: Path, draw: np.random.Generator, _: Path) -> None:
    path = place / ("record.json", "predictions.h5")[draw.integers(2)]
    path.unlink()
    how = draw.integers(6)
    if how < 2:
        (os.mkfifo, os.mkdir)[how](path)
    elif how < 5:
        path.symlink_to((path, "/dev/zero", "/etc/passwd")[how - 2])


def _predictions(place: Path, draw: np.random.Generator, _: Path) -> None:
    path = place / "predictions.h5"
    others = [p for p in place.parent.parent.rglob("predictions.h5") if p != path]
    if draw.integers(2) and others:
        shutil.copy(others[draw.integers(len(others))], path)
    else:
        path.write_bytes(draw.bytes(int(draw.integers(2000))))


def _checkpoint(place: Path, draw: np.random.Generator, trap: Path) -> None:
    partial = place.with_name(f".{place.name}.partial")
    partial.mkdir()
    texts = [pickle.dumps(Hostile(trap)), draw.bytes(500), *TEXTS]
    for name in ("begun.json", "sessions", "fit-0-0"):
        (partial / name).write_bytes(texts[draw.integers(len(texts))])
    if draw.integers(2):
        shutil.rmtree(place)


def _leases(place: Path, draw: np.random.Generator, _: Path) -> None:
    place.with_name(f".{place.name}.lease").write_bytes(TEXTS[draw.integers(len(TEXTS))])
    (place / "record.json").unlink()


def _plans(place: Path, draw: np.random.Generator, _: Path) -> None:
    """Of a process that runs, so that it is read."""
    root = place.parents[2]
    living = Lease(root / ".plan-x.lease").contents()
    (root / ".plan-x.lease").write_bytes(living)
    cells = {str(run): {"name": "\x1b[31mred"} for run in (place.relative_to(root), "../..", "/")}
    text = json.dumps({"cells": cells, "failed": {"/etc": "x"} if draw.integers(2) else {}})
    (root / ".plan-x.json").write_bytes([text.encode(), *TEXTS][draw.integers(len(TEXTS) + 1)])


def _links(place: Path, draw: np.random.Generator, _: Path) -> None:
    if (place.parent / "round").is_symlink():
        return
    (place.parent / "round").symlink_to(place.parent.parent)
    (place.parent / "up").symlink_to(place.parent.parent.parent)
    if draw.integers(2):
        (place.parent / "\x1b[31mred\udcff").mkdir()


SPOILS: tuple[Spoil, ...] = (
    _record, _record, _record, _record, _kinds_of_file, _predictions, _checkpoint, _leases, _plans,
    _links,
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("numbers", cases(250, 4, batch=25))
def test_directories(numbers: list[int], runs: Path, tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("directory", number)
        root, trap = tmp_path / "runs", tmp_path / "trap"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(runs / "runs", root)
        places = sorted(p.parent for p in root.rglob("record.json"))
        for place in draw.choice(len(places), int(draw.integers(1, 3)), replace=False):
            SPOILS[draw.integers(len(SPOILS))](places[place], draw, trap)
        words = COMMANDS[number % len(COMMANDS)].split()
        given = {"RUNS": root, "NEW": tmp_path / f"{number}.html", "OUT": tmp_path / f"{number}"}
        yield victim.run(*(given.get(word, word) for word in words))
        if number % 3 == 0:  # goes on; a lease that nobody moves is waited for
            words = ("run", runs / "a.h5", *RUN, *LEARNERS, "--out", root)
            outcome = victim.run(*words, seconds=100)
            yield replace(outcome, code=99) if trap.exists() else outcome

    judge("directories", numbers, trial)
