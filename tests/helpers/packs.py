"""Runs of small teams, their packs, and what dishonest teams make of them."""

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from image_files import embedding_file
from plan_runs import plan
from toy import plain

from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.scores.predictions import Predictions
from embedbench.sharing.pack import pack, unpack

SMALL = [f"offline.mlp.{s}" for s in ("batch_size=64", "stop.rule=epochs", "stop.epochs=1")]


def runs_of(folder: Path, learners: str = "ncm,slda", width: int = 10, **more: Any) -> Path:
    """Runs on a file in `folder`, with three seeds each; their commands name it in full."""
    file, out = str(embedding_file(folder, width).path), folder / "runs"
    protocol = more.pop("protocol", "incremental-class")
    more = {"offline.mlp.units": 8} | more
    items = [*SMALL, "protocol.scale=none", *(f"{name}={value}" for name, value in more.items())]
    items += ["protocol.order=random"] if protocol == "incremental-class" else []
    cells = plan([file], protocol, learners.split(","), [0, 1, 2], items, out=out)
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


@dataclass(frozen=True)
class Forgery:
    """What is changed in a run: its answers and labels, its record, its place.

    The answers are plain ones unless `full`.
    """

    answers: Callable[[Predictions], Predictions] = lambda predictions: predictions
    said: Callable[[Any], object] = lambda values: None
    moved: Callable[[str], str] = lambda place: place
    full: bool = False


def forged(path: Path, out: Path, forgeries: Mapping[str, Forgery]) -> Path:
    """A pack with other runs where a key is in their place.

    All numbers and the SHA-256 follow from the answers, also those of runs that refer to them.
    """
    folder = out.with_suffix(".runs")
    with unpack(path) as made:
        shutil.copytree(made.runs, folder)
    changed: set[str] = set()
    for place in record_files.find(folder, references=True)[::-1]:  # references first
        name = place.relative_to(folder).as_posix()
        kept = record_files.load(place)
        forgery = next((f for part, f in forgeries.items() if part in name), None)
        if forgery is None and not changed & {*kept.reference.runs}:
            continue
        forgery = forgery or Forgery()
        values, predictions = kept.to_json(), record_files.read_predictions(place)
        forgery.said(values)
        changed.add(name := forgery.moved(name))
        assert isinstance(predictions, Predictions)
        (folder / name).mkdir(parents=True, exist_ok=True)
        predictions = predictions if forgery.full else plain(predictions)
        forgery.answers(predictions).save(folder / name / "predictions.h5")
        again = replace(record_files.RunRecord.from_json(values), predictions_sha256=None)
        again = replace(
            again, predictions_sha256=record_files.predictions_sha256(folder / name, again)
        )
        record_files.save(record_files.evaluate(again, folder / name, folder), folder / name)
    pack(folder, out, by="Forger")
    return out
