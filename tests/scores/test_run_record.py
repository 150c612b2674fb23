"""Records: what was written is read back byte by byte, older ones load, wrong ones are refused."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from plan_runs import plan
from protocol_files import make_file
from report_records import make, unscored

from embedbench.errors import UserError
from embedbench.reports.html_report import render
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_text
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.scores.offline_references import References
from embedbench.scores.run_record import RunRecord
from embedbench.scores.verified_records import rescore

BRIEF = ["stop.rule=epochs", "stop.epochs=1", "units=4"]
# keys that the first records did not have
LATER = (
    *("session_id_at_test", "order", "n_classes", "n_candidates", "tuning", "joules", "resumed"),
    *("moments", "curves", "predictions_sha256", "n_train_by_class"),
)
LATER_METRICS = ("worst_class_accuracy", "per_class_forgetting", "few_shot_accuracy")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several learners on several protocols, with their references."""
    folder = tmp_path_factory.mktemp("records")
    files = [
        str(make_file(folder, [12] * n, [0] * n, [6] * n, name=f"{n}.h5").path) for n in (4, 3)
    ]
    settings = [*BRIEF, *(f"offline.mlp.{item}" for item in BRIEF)]
    for protocol, many in (("incremental-class", 1), ("permutation", 1), ("multi-modal", 2)):
        cells = plan(files[:many], protocol, ["mlp", "ncm"], [0], settings)
        outcome = run_grid(cells, folder / "runs")
        assert not outcome.failed
    return folder / "runs"


def test_a_record_is_written_as_it_was_read(runs: Path, tmp_path: Path) -> None:
    places = sorted(p.parent for p in runs.rglob("record.json"))
    assert len(places) > 3 * 3
    for place in places:
        read = record_files.load(place)
        record_files.save(read, tmp_path)
        assert (tmp_path / "record.json").read_bytes() == (place / "record.json").read_bytes()
        assert read.run == "0"
        assert record_files.evaluate(read, place, runs).to_json() == read.to_json()


def old(data: dict[str, Any]) -> dict[str, Any]:
    """A record as the first version wrote it."""
    data = {k: v for k, v in json.loads(json.dumps(data)).items() if k not in LATER}
    for scored in (data, *data["by_score"].values()):
        scored["metrics"] = {k: v for k, v in scored["metrics"].items() if k not in LATER_METRICS}
        scored.pop("curves", None)
    for file in data["files"]:
        file.pop("kind", None)
    for session in data["sessions"]:
        session.pop("learn_joules", None)
        session.pop("evaluate_joules", None)
    return data


def test_an_older_record_loads_is_shown_and_scored(runs: Path, tmp_path: Path) -> None:
    for place in record_files.find(runs):
        data = old(record_files.load(place).to_json())
        copy = tmp_path / place.relative_to(runs)
        copy.mkdir(parents=True)
        (copy / "predictions.h5").write_bytes((place / "predictions.h5").read_bytes())
        again = record_files.evaluate(RunRecord.from_json(data), copy, runs)
        data["flags"] = list(again.flags)  # chance without n_candidates
        (copy / "record.json").write_text(json.dumps(data))
        read = record_files.load(copy)
        assert old(read.to_json()) == data
        assert (read.joules, read.resumed, read.moments, read.curves) == (None,) * 4
        assert {f.kind for f in read.files} == {None}
        result = rescore(copy, tmp_path, update=True)
        assert (result.differs, result.updated, result.pinned) == ((), True, True)
        again = record_files.load(
            copy
        ).to_json()  # it has its curves now, and what it lacked stays out
        assert set(again) - set(data) == {"order", "moments", "curves", "predictions_sha256"}
        assert set(LATER_METRICS) <= set(again["metrics"])
        assert again["metrics"]["few_shot_accuracy"] is None  # the sizes of classes are not known
        record_files.save(read, copy)
    rows = collect(tmp_path)
    assert all(r.moments for row in rows for r in row.records)
    assert "P  not-pinned" in table_text(rows)
    assert "ncm" in table_text(rows)
    assert "ncm" in render(rows, "old runs")


def test_what_a_later_version_adds_is_kept() -> None:
    data = make() | {"warmth": "0" * 64, "power": {"idle": [1.0, None]}}
    read = RunRecord.from_json(data)
    assert read.to_json()["power"] == {"idle": [1.0, None]}
    assert read.more == {k: data[k] for k in ("warmth", "power")}


def test_null_infinity_and_what_is_absent() -> None:
    read = RunRecord.from_json(make(metrics={**make()["metrics"], "fwt": None, "bwt": "-inf"}))
    assert math.isnan(read.metrics["fwt"])
    assert read.metrics["bwt"] == -math.inf
    assert math.isnan(read.R[0][1])
    assert read.order is None
    assert read.to_json()["metrics"]["bwt"] == "-inf"


def test_ideals() -> None:
    def ideals(value: Any) -> tuple[float, ...]:
        reference = make()["reference"] | {"ideal": {"class_accuracy": value}}
        return RunRecord.from_json(make(reference=reference)).ideals

    assert ideals(0.5) == (0.5,)
    assert ideals([0.5, 0.75]) == (0.5, 0.75)
    assert ideals(None) == ideals([0.5, None]) == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"learner": 3}, "learner must be a text, got 3"),
        ({"seed": "0"}, "seed must be an integer, got '0'"),
        ({"learns": 1}, "learns must be true or false, got 1"),
        ({"seeds": {"order": 1}}, "the key seeds.init is missing"),
        ({"digests": {"train": 5}}, "digests.train must be a text, got 5"),
        ({"files": [{"digests": {}}]}, r"the key files\[0\].name is missing"),
        ({"order": {"name": "x"}}, "the key order.kind is missing"),
        ({"classes": ["a"]}, r"classes\[0\] must be a list, got 'a'"),
        ({"n_train": [1.5]}, r"n_train\[0\] must be an integer, got 1.5"),
        ({"n_candidates": [None, "x"]}, r"n_candidates\[1\] must be null or an integer, got 'x'"),
        ({"sessions": [{"log": {}}]}, r"the key sessions\[0\].learn_seconds is missing"),
        ({"seconds": {"learn": "1 s", "evaluate": 0}}, "seconds.learn must be a number, got '1 s'"),
        ({"metrics": [0.5]}, "metrics must be an object, got a list"),
        ({"metrics": {"fwt": 0.5}}, "the key metrics.final_accuracy is missing"),
        ({"footprint": {"samples": 1}}, "the key footprint.total is missing"),
        ({"R": [[0.5], [0.5, 0.5], [0.5]]}, "the rows of R must be of one length"),
        ({"R": [[0.5]]}, "R must have one entry for each of the 3 sessions of n_train, got 1"),
        ({"sessions": []}, "sessions must have one entry for each of the 3 sessions"),
        ({"curves": {"raa": [0.5]}}, "curves.raa must have one entry for each of the 3 sessions"),
        ({"score": "js"}, "score is 'js', and by_score has no such key"),
        (
            {"moments": {"samples_seen": [1], "pooled": []}},
            "moments must have as many samples_seen as pooled",
        ),
        (
            {"reference": make()["reference"] | {"offline_runs": [["a"], 1]}},
            r"reference.offline_runs\[.\] must be",
        ),
        ({"flags": None}, "flags must be a list, got null"),
        ({"schema": "embedbench-record/9.0"}, "has schema 'embedbench-record/9.0', expected"),
    ],
)
def test_a_wrong_record_is_one_sentence_with_path_and_key(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    path = tmp_path / "record.json"
    change = dict(change)
    digests = change.pop("digests", {})
    path.write_text(json.dumps(make(digests=digests) | change))
    with pytest.raises(UserError, match=says) as e:
        record_files.load(tmp_path)
    assert str(e.value).startswith(str(path))


@pytest.mark.parametrize("key", sorted(make().keys() - {"schema", "predictions_sha256"}))
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    (tmp_path / "record.json").write_text(json.dumps({k: v for k, v in make().items() if k != key}))
    with pytest.raises(UserError, match=f"the key {key} is missing"):
        record_files.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[1, 2]", "it must be an object, got a list"),
        (b"null", "it must be an object, got null"),
        (b"{", "is not valid JSON"),
        (b"\xff\xfe\x00", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b'{"schema": ' + b"1" * 5000 + b"}", "is not valid JSON"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(UserError, match=says):
        record_files.load(tmp_path)
    with pytest.raises(UserError, match="holds no record"):
        record_files.load(tmp_path / "none")


def test_a_run_before_it_is_scored() -> None:
    read = unscored(2)
    assert len(read.sessions) == 2
    assert read.reference == References("kemker_table", False, (), None)
    assert "score" not in read.to_json()
