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
from embedbench.reports.terminal_tables import table_text
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


TOOL = {"tool": {"name": "t", "version": "1"}, "gave": "answers", "sha256": "1" * 64}
IMPORTED = {"imported": TOOL}


@pytest.mark.parametrize("kept", [FULL, {}, {**FULL, **IMPORTED}])
@pytest.mark.parametrize("which", ["ncm", "slda"])
def test_groups_are_those_of_any_run(tmp_path: Path, kept: dict[str, Any], which: str) -> None:
    """Plain answers and imported ones hold none: a sample's group is known from another run."""
    p, _ = random_run(1)
    grouped = replace(p, group=np.arange(len(p.y)) % 4)
    for learner in ("ncm", "slda"):
        made = {"learner": learner, **(kept if learner == which else FULL)}
        place = f"stream-1/{learner}/seed-0"
        write_run(tmp_path, place, grouped if made == {"learner": learner, **FULL} else p, **made)
    assert counted(tmp_path) == (4, "groups", "")


def test_samples_of_no_known_group_make_all_count_samples(tmp_path: Path) -> None:
    """And the sentence below the table says so."""
    p, _ = random_run(1)
    some = replace(p, ids=p.ids + 1000)
    grouped = replace(p, group=np.arange(len(p.y)) % 4)
    write_run(tmp_path, "stream-1/ncm/seed-0", grouped, learner="ncm", **FULL)
    write_run(tmp_path, "stream-1/slda/seed-0", some, learner="slda")
    why = "some runs have samples of no known group"
    assert counted(tmp_path) == (78, "samples", why)
    assert f"(78 samples, as {why})" in table_text(collect(tmp_path)).replace("\n", " ")


def test_runs_that_disagree_on_groups_count_samples(tmp_path: Path) -> None:
    p, _ = random_run(1)
    for learner, n in (("ncm", 4), ("slda", 5)):
        grouped = replace(p, group=np.arange(len(p.y)) % n)
        write_run(tmp_path, f"stream-1/{learner}/seed-0", grouped, learner=learner, **FULL)
    assert counted(tmp_path) == (39, "samples", "the runs disagree on the groups")


def test_one_big_group_counts_as_few(tmp_path: Path) -> None:
    """Of 39 samples 20 are one group; G* is one over the sum of squared shares of the score."""
    p, _ = random_run(1)
    group = np.maximum(np.arange(len(p.y)) - 19, 0)
    for learner in ("ncm", "slda"):
        made = replace(p, group=group)
        write_run(tmp_path, f"stream-1/{learner}/seed-0", made, learner=learner, **FULL)
    weights = [np.mean(group == g) for g in range(20)]  # 20 of 39 samples, and 1 each
    (study,) = studies(collect(tmp_path))
    effective = 1 / sum(w**2 for w in weights)
    assert study.verdicts[0].effective_groups == pytest.approx(effective)
    said = f"20 groups of unequal weight that count as {effective:.1f}"
    assert said in table_text(collect(tmp_path)).replace("\n", " ")


@pytest.mark.parametrize(("size", "says"), [(3, False), (5, True)])
def test_groups_that_count_as_a_tenth_fewer_are_said(size: int, says: bool, tmp_path: Path) -> None:
    """Of 39 samples 3 or 5 are one group: 39² / 45 is .913 of 37, 39² / 59 is .737 of 35."""
    p, _ = random_run(1)
    group = np.maximum(np.arange(len(p.y)) - size + 1, 0)
    for learner in ("ncm", "slda"):
        made = replace(p, group=group)
        write_run(tmp_path, f"stream-1/{learner}/seed-0", made, learner=learner, **FULL)
    said = "of unequal weight that count as" in table_text(collect(tmp_path)).replace("\n", " ")
    assert said is says


def counted(root: Path) -> tuple[int, str, str]:
    """Of the one study: groups, what they are, and why they are not groups."""
    (study,) = studies(collect(root))
    most = max(verdict.groups for verdict in study.verdicts)
    return most, study.groups, study.judged.why
