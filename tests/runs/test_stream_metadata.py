"""A run notes which of its classes the backbone of its file was pretrained on, by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_files import samples
from plan_runs import plan

from embedbench.files.write_file import write_file
from embedbench.reports.tables_from_runs import collect
from embedbench.runs.run_one import execute
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache

HAS = "which has 2 of the 6 classes by name (b, f)"
NOTE = f"the backbone of e.h5 was pretrained on imagenet-1k, {HAS}"


def run(folder: Path, **weights: Any) -> Path:
    made = {"backbone": {"name": "some"}, **({"weights": weights} if weights else {})}
    x = np.random.default_rng(2).normal(size=(84, 4)).astype(np.float32)
    file = write_file(folder / "e.h5", samples(), x, made)
    (cell,) = plan([str(file.path)], "incremental-class", ["ncm"], [0], ["protocol.base=2"])
    execute(make_task(cell, folder / "runs", StreamCache()))
    return folder / "runs"


def test_a_run_notes_the_classes_that_the_backbone_has_seen(tmp_path: Path) -> None:
    seen = {"imagenet-1k": ["b", "f", "not in the file"], "laion-2b": ["nothing"]}
    rows = collect(run(tmp_path, pretrained_on=list(seen), classes_seen=seen))
    assert rows[0].records[0].notes == (NOTE,)
    assert NOTE in rows[0].group.notes


@pytest.mark.parametrize("weights", [{}, {"pretrained_on": ["imagenet-1k"]}])
def test_where_nothing_is_known_nothing_is_said(tmp_path: Path, weights: dict[str, Any]) -> None:
    assert collect(run(tmp_path, **weights))[0].records[0].notes == ()
