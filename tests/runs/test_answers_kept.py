"""Groups of samples in predictions, and tables of runs that lack them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_runs import plan
from protocol_files import make_file
from toy import plain

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.reports.compare_learners import studies
from embedbench.reports.tables_from_runs import collect
from embedbench.runs import stream_runner
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import Task, make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.scores.metric_jackknife import leave_out_metric
from embedbench.scores.metrics import Reference, final_accuracy
from embedbench.scores.predictions import Predictions

SMALL = ("units=8", "batch_size=64", "stop.rule=epochs", "stop.epochs=1")
SETTINGS = [f"offline.mlp.{s}" for s in SMALL] + ["protocol.base=2", "protocol.order=random"]


def grouped_file(folder: Path, name: str = "file.h5") -> str:
    """A file of five classes, three samples a group."""
    train, test = (9, 8, 7, 9, 6), (5, 3, 4, 6, 2)
    columns = {"group": np.array([f"g{i % 7}" for i in range(sum(train + test))])}
    made = make_file(folder, train, (0,) * 5, test, apart=3.0, columns=columns, name=name)
    return str(made.path)


def specs(file: str, learner: str, seed: int) -> list[RunSpec]:
    return plan([file], "incremental-class", [learner], [seed], SETTINGS)


def answers(run: Path) -> Predictions:
    p = record_files.read_predictions(run)
    assert isinstance(p, Predictions)
    return p


@pytest.mark.parametrize("seed", range(2))
def test_groups_are_numbered_by_the_whole_file(tmp_path: Path, seed: int) -> None:
    file = grouped_file(tmp_path)
    outcome = run_grid(specs(file, "ncm", seed), tmp_path / "runs")
    p = answers(outcome.run_dirs[0])
    assert p.group is not None
    assert p.group.tolist() == [i % 7 for i in p.ids]  # g0 to g6
    grouped = leave_out_metric(p, "accuracy", final_accuracy, Reference(), groups=p.group)
    names = np.array([f"g{i % 7}" for i in range(1 + p.ids.max())])
    by_name = leave_out_metric(p, "accuracy", final_accuracy, Reference(), groups=names[p.ids])
    np.testing.assert_array_equal(grouped.values, by_name.values)
    assert grouped.names.tolist() == sorted({i % 7 for i in p.ids.tolist()})
    alone = leave_out_metric(p, "accuracy", final_accuracy, Reference())
    assert len(alone.names) == len(np.unique(p.ids)) > len(grouped.names)


def test_files_have_no_group_in_common(tmp_path: Path) -> None:
    file, other = grouped_file(tmp_path), grouped_file(tmp_path, "other.h5")
    bare = str(make_file(tmp_path, name="bare.h5").path)

    def groups(*files: str, n: int = 110) -> Any:
        (spec,) = plan([*files], "multi-modal", ["ncm"], [0])
        return make_task(spec, tmp_path, StreamCache()).group_samples(np.arange(n))

    n = len(EmbeddingFile.open(file).labels)
    codes = groups(file, other, n=2 * n)
    assert codes[:n].tolist() == [i % 7 for i in range(n)]
    assert codes[n:].tolist() == [7 + i % 7 for i in range(n)]
    assert groups(file, other, n=2 * n + 1) is None
    assert groups(file, bare) is None


def test_a_table_with_plain_runs_takes_each_sample_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of one run and samples of another would not be of one kind."""
    file, root = grouped_file(tmp_path), tmp_path / "runs"
    for learner in ("ncm", "slda"):
        for seed in range(2):
            run_grid(specs(file, learner, seed), root)

    def count_groups() -> tuple[int, str]:
        (study,) = studies(collect(root, record_files.find(root), lambda _: None))
        return max(verdict.groups for verdict in study.verdicts), study.groups

    assert count_groups() == (7, "groups")
    shutil.rmtree(next(root.glob("incremental*/slda-*/seed-1")))
    run_stream = stream_runner.run_stream

    def run_plain(*given: Any) -> Any:  # as version 1.0 of predictions.h5 has them
        predictions, logs = run_stream(*given)
        assert isinstance(predictions, Predictions)
        return plain(predictions), logs

    monkeypatch.setattr(stream_runner, "run_stream", run_plain)
    monkeypatch.setattr(Task, "group_samples", lambda self, ids: None)
    run_grid(specs(file, "slda", 1), root)
    assert count_groups() == (20, "samples")
