"""Runs of small teams, their packs, and what dishonest teams make of them."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from image_files import embedding_file

from embedbench.runs.command import start_of_command
from embedbench.runs.grid import run_grid
from embedbench.runs.settings import parse_settings, plan
from embedbench.scores import record
from embedbench.scores.predictions import Predictions
from embedbench.sharing.pack import pack
from embedbench.sharing.unpack import unpacked

SMALL = [
    f"offline.mlp.{s}" for s in ("units=8", "batch_size=64", "stop.rule=epochs", "stop.epochs=1")
]


def runs_of(folder: Path, learners: str = "ncm,slda", width: int = 10) -> Path:
    """Runs on a file in `folder`, with two seeds each; their commands name it in full."""
    file, out = str(embedding_file(folder, width).path), folder / "runs"
    names = learners.split(",")
    settings = parse_settings([*SMALL, "protocol.order=random", "protocol.scale=none"], names, None)
    start = start_of_command([file], "incremental-class", out)
    cells = plan(
        *([file], "incremental-class", names, [0, 1]),
        settings=settings,
        device="cpu",
        command=start,
    )
    assert not run_grid(cells, out).failed
    return out


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, values: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in values.items():
            archive.writestr(name, data)
    return path


def edited(path: Path, out: Path, part: str, edit: Callable[[bytes], bytes]) -> Path:
    """A pack whose first member with `part` in its name is another one."""
    values = members(path)
    name = next(name for name in values if part in name)
    return write_members(out, values | {name: edit(values[name])})


def edited_record(path: Path, out: Path, part: str, edit: Callable[[Any], None]) -> Path:
    """A pack whose record with `part` in its path is another one."""

    def change(data: bytes) -> bytes:
        values = json.loads(data)
        edit(values)
        return json.dumps(values).encode()

    values = [n for n in members(path) if part in n and n.endswith("record.json")]
    return edited(path, out, values[0], change)


def forged(path: Path, out: Path, part: str, change: Callable[[Predictions], Predictions]) -> Path:
    """A pack in which a run's predictions are others, and record and SHA-256 fit to them."""
    folder = out.with_suffix(".runs")
    with unpacked(path) as made:
        shutil.copytree(made.runs, folder)
    for place in record.find(folder, references=True):
        if part in str(place):
            kept, predictions = record.load(place), record.predictions_of(place)
            assert isinstance(predictions, Predictions)
            change(predictions).save(place / "predictions.h5")
            again = replace(kept, predictions_sha256=None)
            sha256 = record.pinned(place, again)
            made_again = replace(again, predictions_sha256=sha256)
            record.save(record.evaluate(made_again, place, folder), place)
    pack(folder, out, by="Forger")
    return out
