"""`run --answers`: what is kept of the answers changes no run, and finished runs are kept."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from plan_runs import plan
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.reports.compare_learners import studies
from embedbench.reports.tables_from_runs import collect
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.scores.metric_jackknife import leave_out_metric
from embedbench.scores.metrics import Reference, final_accuracy
from embedbench.scores.predictions import Predictions
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study
from embedbench.studies.study_file import read_study, study_text

SMALL = ("units=8", "batch_size=64", "stop.rule=epochs", "stop.epochs=1")
SETTINGS = [f"offline.mlp.{s}" for s in SMALL] + ["protocol.base=2", "protocol.order=random"]


def grouped_file(folder: Path, name: str = "file.h5") -> str:
    """A file of five classes, three samples a group."""
    train, test = (9, 8, 7, 9, 6), (5, 3, 4, 6, 2)
    columns = {"group": np.array([f"g{i % 7}" for i in range(sum(train + test))])}
    made = make_file(folder, train, (0,) * 5, test, apart=3.0, columns=columns, name=name)
    return str(made.path)


def specs(file: str, kept: str, learner: str = "slda", seed: int = 3) -> list[RunSpec]:
    (spec,) = plan([file], "incremental-class", [learner], [seed], SETTINGS)
    return [dataclasses.replace(spec, answers=kept)]  # type: ignore[arg-type]


def ran(file: str, root: Path, kept: str, **more: Any) -> tuple[Path, list[str]]:
    said: list[str] = []
    outcome = run_grid(specs(file, kept), root, notify=said.append, **more)
    assert not outcome.failed
    return outcome.run_dirs[0], [sentence for sentence in said if "plain answers" in sentence]


def answers(run: Path) -> Predictions:
    p = record_files.read_predictions(run)
    assert isinstance(p, Predictions)
    return p


def write_as_before(p: Predictions, path: Path) -> None:
    """The file as it was written before there was version 1.1."""
    names = [
        "ids",
        "y",
        "eval_set",
        "set_classes",
        "session",
        "samples_seen",
        "seen",
        "answer",
        "within",
    ]
    with h5py.File(path, "w", libver=("v108", "v108")) as f:
        f.attrs["format"] = "embedbench-predictions"
        f.attrs["format_version"] = "1.0"
        for name in names:
            value = getattr(p, name)
            value = value.astype(np.uint8) if value.dtype == np.bool_ else value
            f.create_dataset(name, data=value, compression="gzip", shuffle=True)


def test_plain_answers_are_the_file_of_before(tmp_path: Path) -> None:
    """Byte for byte; both kinds have one place, one record but for what is kept, and one answer."""
    file = grouped_file(tmp_path)
    plain, _ = ran(file, tmp_path / "plain", "plain")
    full, _ = ran(file, tmp_path / "full", "full")
    assert plain.relative_to(tmp_path / "plain") == full.relative_to(tmp_path / "full")
    write_as_before(answers(plain), tmp_path / "before.h5")
    assert (plain / "predictions.h5").read_bytes() == (tmp_path / "before.h5").read_bytes()
    for name in ("ids", "y", "eval_set", "answer", "within", "seen"):
        np.testing.assert_array_equal(getattr(answers(plain), name), getattr(answers(full), name))
    one, other = record_files.load(plain), record_files.load(full)
    assert (one.answers, other.answers) == (None, "full")
    assert other.by_score["accuracy"].R == one.by_score["accuracy"].R


def test_finished_runs_are_kept_for_both(tmp_path: Path) -> None:
    file = grouped_file(tmp_path)
    run, said = ran(file, tmp_path / "a", "plain")
    before = (run / "predictions.h5").read_bytes()
    assert said == []
    assert ran(file, tmp_path / "a", "plain") == (run, [])
    again, (said,) = ran(file, tmp_path / "a", "full")
    assert again == run
    assert said.startswith("1 of 1 runs have plain answers")
    assert (run / "predictions.h5").read_bytes() == before
    assert ran(file, tmp_path / "a", "full", overwrite=True) == (run, [])
    assert answers(run).logp is not None
    assert ran(file, tmp_path / "a", "plain") == (run, [])  # a full run has what plain asks for
    assert answers(run).logp is not None


@pytest.mark.parametrize("seed", range(2))
def test_groups_are_numbered_by_the_whole_file(tmp_path: Path, seed: int) -> None:
    file = grouped_file(tmp_path)
    outcome = run_grid(specs(file, "full", "ncm", seed), tmp_path / "runs")
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
    streams = StreamCache()
    codes = streams.groups((file, other))
    assert codes is not None
    n = len(codes) // 2
    assert codes[:n].tolist() == [i % 7 for i in range(n)]
    assert codes[n:].tolist() == [7 + i % 7 for i in range(n)]
    assert streams.groups((file, bare)) is None


def test_a_study_file_says_it(tmp_path: Path) -> None:
    study = Study(
        files=((grouped_file(tmp_path),),),
        protocols=("incremental-class",),
        learners=("ncm",),
        answers="plain",
    )
    (tmp_path / "s.toml").write_text(study_text(study), encoding="utf-8")
    (spec,) = resolve(read_study(tmp_path / "s.toml"))
    assert spec.answers == "plain"
    assert "--answers plain" in spec.command
    (spec,) = resolve(dataclasses.replace(study, answers=None))
    assert spec.answers == "full"
    assert "--answers" not in spec.command
    with pytest.raises(UserError, match=r"unknown answers 'ful'\. Did you mean 'full'"):
        resolve(dataclasses.replace(study, answers="ful"))


def test_a_table_with_plain_runs_takes_each_sample_for_itself(tmp_path: Path) -> None:
    """Groups of one run and samples of another would not be of one kind."""
    file, root = grouped_file(tmp_path), tmp_path / "runs"
    for learner in ("ncm", "slda"):
        for seed in range(2):
            run_grid(specs(file, "full", learner, seed), root)

    def count_groups() -> tuple[int, str]:
        (study,) = studies(collect(root, record_files.find(root), lambda _: None))
        return max(verdict.groups for verdict in study.verdicts), study.groups

    assert count_groups() == (7, "groups")
    shutil.rmtree(next(root.glob("incremental*/slda-*/seed-1")))
    run_grid(specs(file, "plain", "slda", 1), root)
    assert count_groups() == (20, "samples")
