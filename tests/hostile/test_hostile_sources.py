"""Folders and archives of images and sounds with hostile members, in processes with bounds.

What each must be answered is in `tests/extract/test_hostile_sources.py`.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import victim
from hostile import cases, drawn, judge
from hostile_sources import BAD, WHOLE, archive, good, image, spoil
from victim import Outcome


def _flip(path: Path, draw: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(int(draw.integers(1, 20))):
        data[int(draw.integers(min(len(data), 1000)))] = int(draw.integers(256))
    path.write_bytes(data)


def _listed(root: Path, draw: np.random.Generator) -> None:
    spoil([*BAD, *WHOLE][draw.integers(len(BAD) + len(WHOLE))], root)


def _flipped(root: Path, draw: np.random.Generator) -> None:
    for path in good(root, (".png", ".wav")[draw.integers(2)]).rglob("*.*"):
        _flip(path, draw)


def _flipped_archive(root: Path, draw: np.random.Generator) -> None:
    archive(root)
    _flip(root, draw)


def _circles_and_names(root: Path, draw: np.random.Generator) -> None:
    good(root)
    for name in ("one", "two"):
        (root / "cat" / name).symlink_to(root)
    for name in ("\x1b[31mred.png", "new\nline.png", "\udcff\udcfe.png", "e\u0301.png", "-x.png"):
        (root / "dog" / name).write_bytes(image())


SPOILS = (_listed, _listed, _listed, _listed, _flipped, _flipped_archive, _circles_and_names)


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
