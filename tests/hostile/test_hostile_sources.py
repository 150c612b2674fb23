"""Folders and archives of images and sounds with hostile members, in processes with bounds.

What each must be answered is in `tests/extract/test_hostile_sources.py`.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hostile_sources
import numpy as np
import pytest
import victim
from hostile import cases, drawn, judge
from victim import Outcome


def _one_of(table: dict[str, Any], draw: np.random.Generator) -> tuple[str, Any]:
    """The name and the maker of one of the entries."""
    name = list(table)[draw.integers(len(table))]
    return name, table[name][0]


def _flip(path: Path, draw: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(int(draw.integers(1, 20))):
        data[int(draw.integers(min(len(data), 1000)))] = int(draw.integers(256))
    path.write_bytes(data)


def _bytes(root: Path, draw: np.random.Generator) -> None:
    name, make = _one_of(hostile_sources.BYTES, draw)
    suffix = ".wav" if name.endswith(".wav") else ".png"
    (hostile_sources.good(root, suffix) / f"cat/bad{Path(name).suffix}").write_bytes(make())


def _place(root: Path, draw: np.random.Generator) -> None:
    _one_of(hostile_sources.PLACES, draw)[1](hostile_sources.good(root) / "cat/bad.png")


def _member(root: Path, draw: np.random.Generator) -> None:
    _one_of(hostile_sources.MEMBERS, draw)[1](root)


def _whole(root: Path, draw: np.random.Generator) -> None:
    _one_of(hostile_sources.WHOLE, draw)[1](root)


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


SPOILS = (_bytes, _place, _member, _whole, _flipped, _flipped_archive, _circles_and_names)


@pytest.mark.parametrize("numbers", cases(80, 7, batch=20))
def test_sources(numbers: list[int], tmp_path: Path) -> None:
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
