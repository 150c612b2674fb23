"""Directories of runs that shards made apart, merged into one."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from file_helpers import says
from image_files import embedding_file
from plan_runs import plan
from small_grid import ITEMS, LEARNERS, answers, tree

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.runs import merge_runs as merging
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.merge_runs import merge
from embedbench.runs.run_spec import RunSpec
from embedbench.scores import record_files
from embedbench.storage import leases
from embedbench.storage.atomic_write import temporary_name
from embedbench.studies.resolve import take_shard

Made = tuple[list[RunSpec], Path]
SETTINGS = ["protocol.order=random", "protocol.scale=none", *ITEMS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Four cells, made at once, and in two shards that know nothing of each other."""
    folder = tmp_path_factory.mktemp("merge")
    file = str(embedding_file(folder).path)
    cells = plan([file], "incremental-class", LEARNERS, [0, 1], SETTINGS)
    run_grid(cells, folder / "whole")
    for i in (1, 2):
        assert not run_grid(take_shard(cells, f"{i}/2"), folder / f"shard-{i}").failed
    return cells, folder


@pytest.fixture
def shards(made: Made, tmp_path: Path) -> list[Path]:
    return [shutil.copytree(made[1] / f"shard-{i}", tmp_path / f"shard-{i}") for i in (1, 2)]


def names(root: Path) -> list[str]:
    return [str(p.relative_to(root)) for p in record_files.find(root, references=True)]


@pytest.mark.parametrize("shard", ["0/64", "65/64", "x/y", "3", "/3", "1/", "-1/2", "1/2/3"])
def test_shards_are_disjoint_and_whole(shard: str) -> None:
    cells: Any = list(range(10))
    shares = [take_shard(cells, f"{i}/4") for i in range(1, 5)]
    assert shares == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    assert take_shard(cells, "11/11") == []
    assert take_shard(cells, None) == cells
    with pytest.raises(UserError, check=says(what="--shard", got=shard)):
        take_shard(cells, shard)


def metrics(root: Path) -> dict[str, Any]:
    return {name: plain(record_files.load(root / name).metrics) for name in names(root)}


def test_merged_shards_are_what_one_command_makes(made: Made, tmp_path: Path) -> None:
    folder, out = made[1], tmp_path / "out"
    assert take_shard(made[0], "1/2") + take_shard(made[0], "2/2") != made[0]  # seeds 0, seeds 1
    before = tree(folder)
    result = merge([folder / "shard-1", folder / "shard-2"], out)
    assert names(out) == names(folder / "whole")
    # the offline run does not depend on the order, so that both shards have made it
    assert result.copied == 7
    assert result.there == 1
    assert result.filled == 0
    assert result.left_out == ()
    assert answers(out) == answers(folder / "whole")
    assert metrics(out) == metrics(folder / "whole")
    assert tree(folder) == before
    assert list(out.rglob(".*")) == []
    text = tree(out)
    again = merge([folder / "shard-2", out], out)
    assert again.copied == 0
    assert again.there == 4
    assert tree(out) == text
    assert run_grid(made[0], out).skipped == 7


def test_a_reference_fills_open_values(made: Made, shards: list[Path], tmp_path: Path) -> None:
    """One directory lost its references before its runs were scored; the other has them."""

    def open_values(values: Any) -> None:
        values["reference"]["source"] = "missing"
        del values["reference"]["ideal"], values["reference"]["chance"]
        for part in (values, *values["by_score"].values()):
            part["metrics"] |= {"omega_base": None, "omega_all": None, "fwt": None}

    for path in record_files.find(shards[0]):
        edit(path, open_values)
    shutil.move(shards[0] / "references", tmp_path / "references")
    result = merge(shards, tmp_path / "out")
    assert result.filled == len(record_files.find(shards[0]))
    assert metrics(tmp_path / "out") == metrics(made[1] / "whole")


def edit(run: Path, change: Callable[[Any], object]) -> None:
    values = json.loads((run / "record.json").read_text())
    change(values)
    (run / "record.json").write_text(json.dumps(values))


def unpin(run: Path) -> None:
    edit(run, lambda values: values.pop("predictions_sha256"))


def nul(run: Path) -> None:
    edit(run, lambda values: values["reference"].update(chance_run="references/a\0b"))


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (nul, "a path inside the directory of runs"),
        (lambda run: os.truncate(run / "predictions.h5", 1000), "not the file"),
        (lambda run: (run / "record.json").write_text("{}"), "schema"),
        (unpin, "--update"),
        (lambda run: (run / "predictions.h5").unlink(), "no predictions.h5"),
    ],
)
def test_a_damaged_run_is_named(shards: list[Path], tmp_path: Path, spoil: Any, word: str) -> None:
    (run, *_) = record_files.find(shards[0])
    spoil(run)
    result = merge(shards, tmp_path / "out")
    assert [(str(run) in text, word in text) for text in result.left_out] == [(True, True)]
    assert not (tmp_path / "out" / run.relative_to(shards[0])).exists()
    assert result.copied == 6
    assert result.there == 1


def differ(run: Path) -> None:
    (run / "predictions.h5").write_bytes((run / "predictions.h5").read_bytes() + b"\0")
    unpin(run)
    sha256 = record_files.predictions_sha256(run, record_files.load(run))
    edit(run, lambda values: values.update(predictions_sha256=sha256))


@pytest.mark.parametrize("where", ["two directories", "the result"])
def test_two_runs_of_one_place_are_refused(shards: list[Path], tmp_path: Path, where: str) -> None:
    out = tmp_path / "out"
    if where == "the result":
        merge(shards[:1], out)
    (shared,) = (shards[1] / "references").glob("offline-*/seed-0")
    differ(shared)
    before = tree(out)
    with pytest.raises(UserError, match=r"offline-.*different predictions"):
        merge(shards, out)
    assert tree(out).items() >= before.items()


@pytest.fixture
def at_copy(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], object]], None]:
    """Lets something happen when the next run is to be copied; it gets the run's directory."""
    copy = merging._copy_file

    def once(what: Callable[[Path], object]) -> None:
        def late(source: Path, target: Path) -> None:
            monkeypatch.setattr(merging, "_copy_file", copy)
            what(source.parent)
            copy(source, target)

        monkeypatch.setattr(merging, "_copy_file", late)

    return once


def test_no_grid_clears_up_a_copy_at_work(made: Made, tmp_path: Path, at_copy: Any) -> None:
    root, out, taken = made[1] / "shard-1", tmp_path / "out", []
    at_copy(lambda run: taken.append(leases.take(leases.lease_path(out / run.relative_to(root)))))
    merge([root], out)
    assert taken == [None]
    with leases.alone(out / names(root)[0]):
        assert merge([root], out).filled == 0


def test_what_another_process_copies(shards: list[Path], tmp_path: Path, at_copy: Any) -> None:
    out, first = tmp_path / "out", names(shards[0])[0]
    at_copy(lambda run: (merge(shards[1:], out), shutil.copytree(run, out / first)))
    result = merge(shards, out)
    assert result.copied == 2
    assert result.there == 6
    out = tmp_path / "other"
    (shared,) = (shards[1] / "references").glob("offline-*/seed-0")
    at_copy(lambda _: (differ(shared), merge(shards[1:], out)))
    with pytest.raises(UserError, match="different predictions"):
        merge(shards[:1], out)
    assert not list(out.rglob("*.tmp"))


def test_a_run_that_changes_is_not_copied(shards: list[Path], tmp_path: Path, at_copy: Any) -> None:
    at_copy(differ)
    with pytest.raises(UserError, match=r"seed-0 changed .* copied"):
        merge(shards, tmp_path / "out")
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file()]


def test_what_a_killed_merge_leaves_is_cleared_up(made: Made, tmp_path: Path) -> None:
    roots, out = [made[1] / "shard-1", made[1] / "shard-2"], tmp_path / "out"
    merge(roots[:1], out)
    for name in names(made[1] / "whole"):
        left = temporary_name(out / name)
        left.mkdir(parents=True)
        (left / "predictions.h5").write_text("half")
    merge(roots, out)
    assert names(out) == names(made[1] / "whole")
    assert list(out.rglob(".*")) == []


def test_what_is_no_directory_of_runs_is_refused(made: Made, tmp_path: Path) -> None:
    (run, *_) = record_files.find(made[1] / "whole")
    (tmp_path / "empty").mkdir()
    for given, words in (
        (run, "seed-0 .* single run"),
        (tmp_path / "none", "no directory .*none"),
        (tmp_path / "empty", "empty .* finished"),
    ):
        with pytest.raises(UserError, match=words):
            merge([made[1] / "shard-1", given], tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        merge([made[1] / "whole"], tmp_path / "file")
    assert not (tmp_path / "out").exists()
