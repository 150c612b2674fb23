"""Groups of samples in predictions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confident_runs import random_run
from pinned_runs import write_run
from plan_runs import plan
from protocol_files import make_file

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.reports.compare_learners import studies
from embedbench.reports.tables_from_runs import collect
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files


def grouped_file(folder: Path, name: str = "file.h5") -> EmbeddingFile:
    train, test = (9, 8, 7, 9, 6), (5, 3, 4, 6, 2)
    columns = {"group": np.array([f"g{i % 7}" for i in range(sum(train + test))])}
    return make_file(folder, train, (0,) * 5, test, apart=3.0, columns=columns, name=name)


def test_groups_are_numbered_by_the_whole_file(tmp_path: Path) -> None:
    path = str(grouped_file(tmp_path).path)
    specs = plan([path], "incremental-class", ["ncm"], [0], ["references=0"])
    p = record_files.read_predictions(run_grid(specs, tmp_path / "runs").run_dirs[0])
    assert p.group.tolist() == [i % 7 for i in p.ids]


def test_files_have_no_group_in_common(tmp_path: Path) -> None:
    one, other = grouped_file(tmp_path), grouped_file(tmp_path, "other.h5")
    bare, n = make_file(tmp_path, name="bare.h5"), len(one.labels)

    def groups(files: list[EmbeddingFile], ids: range) -> Any:
        (spec,) = plan([str(f.path) for f in files], "multi-modal", ["ncm"], [0])
        return make_task(spec, tmp_path, StreamCache()).group_samples(np.array([*ids], int))

    numbers = [i % 7 for i in range(n)]
    codes = groups([one, other], range(2 * n))
    assert codes.tolist() == numbers + [7 + i for i in numbers]
    assert groups([one, other], range(0)).tolist() == []
    for ids in (range(-1, 3), range(2 * n + 1)):  # of a protocol of someone else
        assert groups([one, other], ids) is None
    assert groups([one, bare], range(n)) is None


FULL = {"answers": "full"}


@pytest.mark.parametrize(("kept", "groups"), [(FULL, (4, "groups")), ({}, (39, "samples"))])
def test_groups_of_all_runs(tmp_path: Path, kept: dict[str, str], groups: tuple[int, str]) -> None:
    """Or of none: groups of one run and samples of another would not be of one kind."""
    p, _ = random_run(1)
    p = replace(p, group=np.arange(len(p.y)) % 4)
    for learner, full in (("ncm", FULL), ("slda", kept)):
        write_run(tmp_path, f"stream-1/{learner}/seed-0", p, learner=learner, **full)
    (study,) = studies(collect(tmp_path))
    assert (max(verdict.groups for verdict in study.verdicts), study.groups) == groups
