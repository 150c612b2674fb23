"""Where a learner stands on the floor: verdicts from stored answers alone, as from whole runs."""

import gzip
import json
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import pytest
import torch
from commands import Call
from file_helpers import says
from honest_learners import Good
from torch import Tensor

from embedbench import run_all
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.reports.compare_learners import judge
from embedbench.reports.tables_from_runs import collect
from embedbench.scores import record_files
from embedbench.sharing import floor
from embedbench.sharing.pack import pack
from embedbench.streams.stream import StreamSpec
from embedbench.studies.study_file import read_study

STUDY = """
files = ["known:digits"]
protocols = ["incremental-class"]
learners = ["ncm", "slda", "knn"]
seeds = "0-2"

[set]
references = 0
protocol.sessions = 5
protocol.order = "random"
knn.k = 3
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a floor of three learners: `floor.toml`, `floor.zip.gz` and whole `runs`."""
    folder = tmp_path_factory.mktemp("floor")
    (folder / "floor.toml").write_text(STUDY)
    settings = {"references": 0, "protocol.sessions": 5, "protocol.order": "random"}
    learners = ["ncm", "slda", "knn"]
    run_all(
        "known:digits",
        "incremental-class",
        learners,
        range(3),
        folder / "runs",
        settings=settings | {"knn.k": 3},
    )
    pack(folder / "runs", folder / "floor.zip", answers_only=True)
    (folder / "floor.zip.gz").write_bytes(gzip.compress((folder / "floor.zip").read_bytes()))
    return folder


@pytest.fixture
def small_floor(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the floor that commands know."""
    monkeypatch.setattr(floor, "STUDY", made / "floor.toml")
    monkeypatch.setattr(floor, "ANSWERS", made / "floor.zip.gz")
    return made


@pytest.fixture
def fecam(small_floor: Path, call: Call, tmp_path: Path) -> dict[str, object]:
    """What `rank fecam` prints as JSON; its runs are in `mine`."""
    code, out, _ = call("rank", "fecam", "--out", str(tmp_path / "mine"), "--json", "--jobs", "1")
    assert code == 0
    entry: dict[str, object] = json.loads(out)["learners"][0]
    return entry


def test_the_accuracy_is_the_share_of_right_answers(
    fecam: dict[str, list[dict[str, float]]], tmp_path: Path
) -> None:
    shares = []
    for place in (tmp_path / "mine").rglob("fecam-*/seed-*/predictions.h5"):
        with h5py.File(place) as f:
            shares.append(np.mean(f["answer"][-1] == f["y"][()]))
    assert fecam["sets"][0]["accuracy"] == pytest.approx(np.mean(shares), abs=1e-12)


def test_verdicts_are_those_of_whole_runs(
    fecam: dict[str, list[dict[str, object]]], small_floor: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    floor.shutil.copytree(small_floor / "runs", whole)
    floor.shutil.copytree(tmp_path / "mine", whole, dirs_exist_ok=True)
    rows = collect(whole)
    judged = judge(rows)
    mine = next(i for i, row in enumerate(rows) if row.label == "fecam")
    expected = judged.rows[mine]
    assert expected is not None
    said = fecam["sets"][0]
    names = ("behind_by", "behind_by_least", "behind_by_most")
    assert [said[name] for name in names] == [getattr(expected, name) for name in names]
    above = {
        row.label: "behind" if i in expected.above else "above" if mine in v.above else "open"
        for i, (row, v) in enumerate(zip(rows, judged.rows, strict=True))
        if v is not None and i != mine
    }
    assert said["against"] == {k: v.replace("open", "not decided") for k, v in above.items()}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"joint": "behind", "ncm": "above", "slda": "above"}, "above"),  # joint is no closed form
        ({"ncm": "above", "slda": "not decided"}, "not decided"),
        ({"ncm": "above", "slda": "not decided", "acil": "behind"}, "behind"),
        ({"joint": "above"}, "not decided"),
    ],
)
def test_a_set_is_won_against_every_closed_form(said: dict[str, str], expected: str) -> None:
    of = {name: (mock.Mock(), word) for name, word in said.items()}
    one = floor.Standing(mock.Mock(), mock.Mock(), of)
    assert one.against(floor.CLOSED_FORMS) == expected


def test_the_sentence(fecam: dict[str, str]) -> None:
    assert fecam["sentence"] == (
        "fecam: above every closed form on 0 of 1 sets, not decided on 1, behind one on 0; "
        "mean rank 1.0 of 4"
    )


def test_a_directory_of_runs_stands_where_its_learner_does(
    fecam: dict[str, object], call: Call, tmp_path: Path
) -> None:
    code, out, _ = call("rank", str(tmp_path / "mine"), "--json")
    assert code == 0
    assert json.loads(out)["learners"] == [fecam]


def test_each_learner_of_a_directory_has_the_others_of_the_floor_beside_it(
    small_floor: Path,
) -> None:
    standings = floor.stand(small_floor / "runs", lambda _: None)
    beside = {label: {*of[0].floor} for label, of in standings.items()}
    every = {"ncm", "slda", "knn"}
    assert beside == {label: every - {label} for label in every}


def test_what_lies_in_the_directory_changes_no_place(
    fecam: dict[str, object], call: Call, tmp_path: Path
) -> None:
    words = ["--out", str(tmp_path / "mine"), "--json", "--jobs", "1"]
    _, alone, _ = call("rank", "naive-bayes", "--out", str(tmp_path / "alone"), *words[2:])
    _, beside, _ = call("rank", "naive-bayes", *words)
    names = ("learner", "rank", "of", "behind_by_most", "against")
    sets = [json.loads(out)["learners"][0]["sets"][0] for out in (alone, beside)]
    assert [sets[1][name] for name in names] == [sets[0][name] for name in names]
    assert len(json.loads(beside)["learners"]) == 1  # fecam was not asked for


def test_one_made_again_has_the_others_beside_it(
    small_floor: Path, call: Call, tmp_path: Path
) -> None:
    words = ["rank", "ncm", "--out", str(tmp_path / "again"), "--json", "--jobs", "1"]
    _, out, _ = call(*words)
    assert [*json.loads(out)["learners"][0]["against"]] == ["knn", "slda"]


def test_runs_on_another_stream_are_named(small_floor: Path, call: Call, tmp_path: Path) -> None:
    run_all("known:digits", "incremental-class", "ncm", 0, tmp_path / "other")
    code, _, err = call("rank", str(tmp_path / "other"))
    assert code == 2
    assert "is no stream of the floor" in err


def test_other_seeds_than_the_floors_are_refused(small_floor: Path) -> None:
    with pytest.raises(UserError, check=says(what="seeds of the floor", got="7")):
        floor.floor_study("ncm", [1, 7])


def test_a_file_of_python_is_named_by_its_module(small_floor: Path, call: Call) -> None:
    code, _, err = call("rank", "mine.py:Mine")
    assert code == 2
    assert "mine:Mine" in err


class Unsure(Good):
    """A learner whose scores are no numbers."""

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return torch.full_like(super().scores(x), torch.nan)


class Breaks(Good):
    """A learner that ends with an error with one of the seeds."""

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        if seeds == Seeds.of(1):
            raise ValueError("no")
        super().start(spec, seeds, device)


def test_a_learner_without_a_number_is_named_and_has_no_place(
    small_floor: Path, call: Call, tmp_path: Path
) -> None:
    name = f"{__name__}:Unsure"
    words = ["rank", name, "--out", str(tmp_path / "a"), "--seeds", "0", "--json", "--jobs", "1"]
    code, out, err = call(*words)
    assert code == 0
    assert json.loads(out)["learners"] == []
    assert "on digits.h5 without NaN" in err


def test_a_run_that_fails_ends_the_command_with_one_after_the_table(
    small_floor: Path, call: Call, tmp_path: Path
) -> None:
    name = f"{__name__}:Breaks"
    code, out, _ = call("rank", name, "--out", str(tmp_path / "a"), "--json", "--jobs", "1")
    assert code == 1
    assert json.loads(out)["learners"][0]["sets"][0]["runs"] == 2


# --- what ships ---


def test_the_pack_that_ships_has_every_run_of_its_study() -> None:
    study = read_study(floor.STUDY)
    with floor._floor_runs() as runs:
        made = [record_files.load(place) for place in record_files.find(runs)]
    found = {(one.files[0].name, one.learner, one.seed) for one in made if one.learns}
    names = [files[0].removeprefix("known:") + ".h5" for files in study.files]
    every = {(f, learner, s) for f in names for learner in study.learners for s in study.seeds}
    assert found == every


@pytest.mark.parametrize("learner", ["ncm", "slda"])
def test_a_cell_made_again_has_the_answers_that_ship(learner: str, tmp_path: Path) -> None:
    study = read_study(floor.STUDY)
    settings = {str(key): value for key, value in study.set.items() if key.head == "protocol"}
    again = run_all(
        "known:digits",
        "incremental-class",
        learner,
        0,
        tmp_path / "again",
        settings=settings | {"references": 0},
    )
    (place,) = (p for p in again.places if learner in str(p))
    mine = record_files.read_predictions(place)
    with floor._floor_runs() as runs:
        shipped = record_files.read_predictions(runs / place.relative_to(tmp_path / "again"))
    assert (mine.answer == shipped.answer).mean() > 0.999  # other processors round otherwise
