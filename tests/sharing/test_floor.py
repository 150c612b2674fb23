"""Where a learner stands on the floor: verdicts from stored answers alone, as from whole runs."""

import gzip
import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
import torch
from command_line import embedbench
from commands import Call
from file_helpers import says
from honest_learners import Good
from protocol_files import make_file
from torch import Tensor

from embedbench import run_all
from embedbench.cli.rank import fewer_seeds
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.reports.compare_learners import judge
from embedbench.reports.tables_from_runs import collect
from embedbench.scores import record_files
from embedbench.sharing import floor
from embedbench.sharing.pack import pack
from embedbench.streams.stream import StreamSpec
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Key

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
    monkeypatch.setattr(floor, "FOLDER", made)
    monkeypatch.setattr(floor, "REGIMES", {"pilot": ("floor",)})
    return made


@pytest.fixture(scope="module")
def ranked(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The runs of `rank fecam` on this floor, and what it printed as JSON."""
    runs = tmp_path_factory.mktemp("ranked") / "mine"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floor, "FOLDER", made)
        patch.setattr(floor, "REGIMES", {"pilot": ("floor",)})
        done = embedbench("rank", "fecam", "--out", runs, "--json", "--jobs", "1")
    assert done.exit_code == 0, done.output
    return runs, done.stdout


@pytest.fixture
def fecam(small_floor: Path, ranked: tuple[Path, str], tmp_path: Path) -> dict[str, object]:
    """What `rank fecam` prints as JSON; its runs are in `mine`."""
    shutil.copytree(ranked[0], tmp_path / "mine")
    entry: dict[str, object] = json.loads(ranked[1])["learners"][0]
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
    shutil.copytree(small_floor / "runs", whole)
    shutil.copytree(tmp_path / "mine", whole, dirs_exist_ok=True)
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


def test_the_sentence_says_that_seeds_are_fewer(
    small_floor: Path, call: Call, tmp_path: Path
) -> None:
    words = ["rank", "fecam", "--seeds", "0", "--out", str(tmp_path / "few"), "--jobs", "1"]
    code, out, _ = call(*words)
    assert code == 0
    assert "; with 1 of the floor's 3 seeds, so that little can be decided" in out


def test_settings_of_the_protocol_are_refused_before_any_run() -> None:
    settings = {Key("protocol", "validation"): "train"}
    with pytest.raises(UserError, match="would change the floor's streams"):
        floor.floor_study("fecam", settings=settings)


def test_a_directory_of_runs_stands_where_its_learner_does(
    fecam: dict[str, object], call: Call, tmp_path: Path
) -> None:
    code, out, _ = call("rank", str(tmp_path / "mine"), "--json")
    assert code == 0
    assert json.loads(out)["learners"] == [fecam]


def test_a_directory_with_the_name_of_a_learner_is_said(
    fecam: dict[str, object], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").rename("fecam")
    _, _, told = call("rank", "fecam", "--json")
    assert "fecam: the runs of the directory here, not the learner of that name" in told


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


def test_pairs_are_counted_by_what_verdicts_say(small_floor: Path) -> None:
    """On digits `ncm` (85 %) is behind `slda` (94 %) and `knn` (96 %)."""
    above = {row["learner"]: row["above"] for row in floor.list_floor(floor.read_floor(print))}
    assert (above["ncm"], above["knn"]["ncm"], above["slda"]["ncm"]) == (
        {"slda": 0, "knn": 0},
        1,
        1,
    )


def test_runs_on_another_stream_are_named(small_floor: Path, call: Call, tmp_path: Path) -> None:
    run_all(
        "known:digits",
        "incremental-class",
        "ncm",
        0,
        tmp_path / "other",
        settings={"references": 0},
    )
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


# --- sets that do not ship, and other regimes ---


@pytest.fixture(scope="module")
def with_data(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same floor with a part of one set that does not ship, `few`; its file lies there, too."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("floor.toml", "floor.zip.gz"):
        floor.shutil.copy(made / name, folder)
    make_file(folder, [30] * 4, test=[20] * 4, name="few.h5", apart=5.0)
    text = STUDY.replace("known:digits", "few.h5").replace("sessions = 5", "sessions = 2")
    (folder / "floor-images.toml").write_text(text + '[set-of."few.h5"]\nknn.k = 5\n')
    run_all(
        folder / "few.h5",
        "incremental-class",
        ["ncm", "slda", "knn"],
        range(3),
        folder / "runs",
        settings={
            "references": 0,
            "protocol.sessions": 2,
            "protocol.order": "random",
            "knn.k": 5,
        },
    )
    pack(folder / "runs", folder / "images.zip", answers_only=True)
    packed = gzip.compress((folder / "images.zip").read_bytes())
    (folder / "floor-images.zip.gz").write_bytes(packed)
    return folder


@pytest.fixture
def floor_with_data(with_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the floor that commands know."""
    monkeypatch.setattr(floor, "FOLDER", with_data)
    monkeypatch.setattr(floor, "REGIMES", {"pilot": ("floor", "floor-images"), "online": ("o",)})
    return with_data


def test_a_set_of_the_readers_is_run_as_its_study_says(floor_with_data: Path) -> None:
    study = floor.floor_study("knn", data={"few": "mine/few.h5"})
    assert study.files == (("known:digits",), ("mine/few.h5",))
    assert study.set_of == {"mine/few.h5": {Key.parse("knn.k"): "5"}}


def test_a_set_that_no_part_has_is_refused(floor_with_data: Path) -> None:
    with pytest.raises(UserError, check=says(what="unknown set", got="many")):
        floor.floor_study("knn", data={"many": "many.h5"})


def test_data_and_another_regime_are_refused(floor_with_data: Path) -> None:
    with pytest.raises(UserError, match="of the regime pilot, and not of online"):
        floor.floor_study("knn", regime="online", data={"few": "few.h5"})


def test_a_regime_that_is_none_is_refused(floor_with_data: Path) -> None:
    with pytest.raises(UserError, check=says(what="unknown regime", got="offline")):
        floor.floor_study("knn", regime="offline")


def test_data_that_names_no_file_is_refused(floor_with_data: Path, call: Call) -> None:
    code, _, err = call("rank", "ncm", "--data", "few.h5")
    assert (code, "such as cub50=cub50.h5" in err) == (2, True)


def test_the_floor_has_the_sets_of_all_its_parts(floor_with_data: Path) -> None:
    assert {*floor.read_floor(lambda _: None)} == {"digits.h5", "few.h5"}


@pytest.fixture(scope="module")
def on_other_bits(with_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of `fecam` on the same samples, whose features were made again a little otherwise."""
    folder = tmp_path_factory.mktemp("other")
    make_file(folder, [30] * 4, test=[20] * 4, name="again.h5", apart=5.0001)
    settings = {"references": 0, "protocol.sessions": 2, "protocol.order": "random"}
    run_all(
        folder / "again.h5",
        "incremental-class",
        "fecam",
        range(3),
        folder / "runs",
        settings=settings,
    )
    return folder / "runs"


def test_features_of_other_bits_are_placed(floor_with_data: Path, on_other_bits: Path) -> None:
    (standing,) = floor.stand(on_other_bits, lambda _: None)["fecam"]
    assert (standing.name, {*standing.floor}) == ("few.h5", {"ncm", "slda", "knn"})


def test_features_of_other_bits_are_named(floor_with_data: Path, on_other_bits: Path) -> None:
    said: list[str] = []
    floor.stand(on_other_bits, said.append)
    assert any(one.startswith("few.h5: ") and "have other bits" in one for one in said)


def test_features_of_other_bits_have_a_mark(
    floor_with_data: Path, on_other_bits: Path, call: Call
) -> None:
    _, out, _ = call("rank", str(on_other_bits), "--json")
    assert json.loads(out)["learners"][0]["sets"][0]["other_bits"] is True
    _, out, _ = call("rank", str(on_other_bits))
    assert "few.h5*" in out


def test_features_of_the_same_bits_have_none(floor_with_data: Path, fecam: object) -> None:
    assert isinstance(fecam, dict)
    assert [one["other_bits"] for one in fecam["sets"]] == [False]


def test_other_samples_of_the_same_number_are_no_set_of_the_floor(
    floor_with_data: Path, tmp_path: Path
) -> None:
    make_file(tmp_path, [30] * 4, test=[20] * 4, name="few.h5", apart=5.0, backbone="another")
    settings = {"references": 0, "protocol.sessions": 2, "protocol.order": "random"}
    file = tmp_path / "few.h5"
    run_all(file, "incremental-class", "ncm", range(3), tmp_path / "runs", settings=settings)
    with pytest.raises(UserError, match="on a stream of the floor"):
        floor.stand(tmp_path / "runs", lambda _: None)


def test_means_over_fewer_seeds_are_named_in_the_legend() -> None:
    places = {"ncm": mock.Mock(), "derpp": mock.Mock()}
    places["ncm"].row.used, places["derpp"].row.used = [0, 1, 2], [0, 2]
    assert fewer_seeds({"few.h5": places}) == " (derpp on few: 2)"


# --- what ships ---


@pytest.mark.thorough
@pytest.mark.parametrize("part", [part for parts in floor.REGIMES.values() for part in parts])
def test_the_pack_that_ships_has_every_run_of_its_study(part: str) -> None:
    study = floor.part_study(part)
    with floor._floor_runs([part]) as runs:
        made = [record_files.load(place) for place in record_files.find(runs)]
    found = {(one.files[0].name, one.learner, one.seed) for one in made if one.learns}
    names = [Path(files[0].removeprefix("known:")).stem + ".h5" for files in study.files]
    every = {(f, learner, s) for f in names for learner in study.learners for s in study.seeds}
    assert found == {one for one in every if not _is_cut(*one)}


def _is_cut(file: str, learner: str, seed: int) -> bool:
    """Whether docs/floor.md says that a run was cut for time."""
    return file == "cifar100-15k.h5" and (learner == "derpp" or seed > 2)


@pytest.mark.thorough
@pytest.mark.parametrize("part", [part for parts in floor.REGIMES.values() for part in parts])
def test_the_pack_that_ships_has_the_settings_of_its_study(part: str) -> None:
    study = floor.part_study(part)
    asked = {
        (Path(run.files[0].removeprefix("known:")).stem + ".h5", run.learner.name): run.learner
        for run in resolve(study)
    }
    with floor._floor_runs([part]) as runs:
        for place in record_files.find(runs):
            made = record_files.load(place)
            if made.learns:
                spec = asked[made.files[0].name, made.learner]
                assert made.learner_params == json.loads(spec.text), place


def test_sets_that_do_not_ship_have_the_settings_of_those_that_do() -> None:
    """`rank` runs a learner on both as one study."""
    assert floor.part_study(floor.BY_COMMAND).set == floor.part_study("floor").set


@pytest.mark.parametrize("learner", [pytest.param("ncm", marks=pytest.mark.thorough), "slda"])
def test_a_cell_made_again_has_the_answers_that_ship(learner: str, tmp_path: Path) -> None:
    study = floor.part_study("floor")
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
    with floor._floor_runs(["floor"]) as runs:
        shipped = record_files.read_predictions(runs / place.relative_to(tmp_path / "again"))
    assert (mine.answer == shipped.answer).mean() > 0.999  # other processors round otherwise


def test_learners_stand_in_the_order_of_their_mean_rank() -> None:
    """Of c no verdict gives a rank, and it is the last; b has the lower one of two means."""

    def place(rank: int | None, cost: float, *above: str) -> Any:
        verdict = SimpleNamespace(rank=rank, behind=rank != 1)
        return SimpleNamespace(
            verdict=verdict, mean=0.5, above=frozenset(above), cost=lambda _: cost
        )

    first = {"c": place(None, 1), "a": place(3, 1, "b"), "b": place(1, 2)}
    second = {"a": place(1, 9), "b": place(2, 4)}
    rows = floor.list_floor({"first": first, "second": second})
    assert [(row["learner"], row["mean_rank"]) for row in rows] == [
        ("b", 1.5),
        ("a", 2),
        ("c", math.inf),
    ]
    assert [row["level"] for row in rows] == [["first"], ["second"], []]
    assert [row["seconds"] for row in rows] == [3, 5, 1]
    assert rows[0]["above"] == {"c": 0, "a": 1}
