"""Records: what was written is read back byte by byte, older ones load, wrong ones are refused."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from file_helpers import says
from report_records import make, unscored

from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.offline_references import References
from embedbench.scores.run_record import RunRecord


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


def test_values_at_their_bounds_are_read() -> None:
    reference = make()["reference"] | {"ideal": {"a": 1 + 1e-9}, "chance": {"a": [None, 0]}}
    RunRecord.from_json(
        make(
            reference=reference,
            n_train_by_class=[0, 500],
            n_candidates=[1, None, 4],
            seconds={"learn": 1e15, "evaluate": 0},
            footprint={"total": 0},
            seeds=dict.fromkeys(make()["seeds"], 0),
        )
    )


def test_ideals() -> None:
    def ideals(value: Any, **more: bool) -> tuple[float, ...]:
        reference = make()["reference"] | {"ideal": {"class_accuracy": value}} | more
        return RunRecord.from_json(make(reference=reference)).ideals

    assert ideals(0.5) == (0.5,)
    assert ideals([0.5, 0.75]) == (0.5, 0.75)
    assert ideals(None) == ideals([0.5, None]) == ()
    assert ideals([None, 0.5, 0.75], so_far=True) == (0.75,)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"learner": 3}, ("learner .* text", 3)),
        ({"seeds": {"order": 1}}, "key seeds.init "),
        ({"files": [{"digests": {}}]}, r"key files\[0\].name "),
        ({"order": {"name": "x"}}, "key order.kind "),
        ({"n_candidates": [None, "x"]}, (r"n_candidates\[1\] .* integer", "x")),
        ({"sessions": [{"log": {}}]}, r"key sessions\[0\].learn_seconds "),
        ({"metrics": {"fwt": 0.5}}, "key metrics.final_accuracy "),
        ({"footprint": {"samples": 1}}, "key footprint.total "),
        ({"R": [[0.5], [0.5, 0.5], [0.5]]}, "rows of R "),
        ({"R": [[0.5]]}, ("entries of R .* 3, ", 1)),
        ({"sessions": []}, ("entries of sessions .* 3, ", 0)),
        ({"curves": {"raa": [0.5]}}, ("entries of curves.raa .* 3, ", 1)),
        ({"score": "js"}, "'js', .* by_score "),
        ({"moments": {"samples_seen": [1], "pooled": []}}, "samples_seen as pooled"),
        ({"reference": make()["reference"] | {"offline_runs": [["a"], 1]}}, (r"runs\[0\]", ["a"])),
        ({"n_classes": [2, 1]}, ("entries of n_classes .* 3, ", 2)),
        ({"seed": -1}, r"each seed .* 2\*\*63"),
        ({"predictions_sha256": "0" * 63 + "G"}, "each SHA-256 .* 64 "),
        ({"imported": {"tool": {"name": "", "version": ""}, "gave": "", "sha256": ""}}, "SHA-256"),
        ({"n_train": [501, -1, 0]}, "each of n_train .* 0 "),
        ({"n_train_by_class": [400, 101]}, "n_train_by_class .* n_train$"),
        ({"n_candidates": [1, 0, None]}, "each of n_candidates .* 1 "),
        ({"footprint": {"total": "inf"}}, "each of footprint .* finite"),
        ({"footprint": {"total": None}}, "each of footprint .* finite"),
        ({"footprint": {"total": -1}}, "each of footprint .* 0 "),
        ({"seconds": {"learn": 1.1e15, "evaluate": 0}}, r"each of seconds .* 1e\+15"),
        ({"sessions": [make()["sessions"][0] | {"learn_seconds": -1}] * 3}, "each of seconds "),
        ({"seconds": {"learn": 0, "evaluate": -1}}, "each of seconds .* 0 "),
        *(
            ({"reference": make()["reference"] | {"chance_run": run}}, "each reference run ")
            for run in ("a/../b", "/a/b", "a\0b")
        ),
        ({"reference": make()["reference"] | {"ideal": {"accuracy": [0.5, 1 + 1.5e-9]}}}, "ideal "),
        ({"schema": "embedbench-record/9.0"}, ("newer embedbench: .* this one reads 1.0 ", "9.0")),
        ({"schema": "embedbench-report/1.0"}, "schema 'embedbench-report/1.0'; expected "),
    ],
)
def test_a_wrong_record_is_one_sentence(tmp_path: Path, change: dict[str, Any], fault: Any) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(make() | change))
    words, got = fault if isinstance(fault, tuple) else (fault, ...)
    with pytest.raises(UserError, match=f"^{path}.*{words}", check=says(got=got)):
        record_files.load(tmp_path)


LEFT_OUT = {"schema", "predictions_sha256", "n_classes"}  # a record may lack the last two


@pytest.mark.parametrize("key", sorted(make().keys() - LEFT_OUT))
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    (tmp_path / "record.json").write_text(json.dumps({k: v for k, v in make().items() if k != key}))
    with pytest.raises(UserError, match=f"key {key} is"):
        record_files.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[1, 2]", "object, got a list"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"schema": ' + b"1" * 5000 + b"}", "is not JSON"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(UserError, match=words):
        record_files.load(tmp_path)
    with pytest.raises(UserError, match="No such file"):
        record_files.load(tmp_path / "none")


def test_a_record_has_128_mib_at_most(tmp_path: Path) -> None:
    (tmp_path / "record.json").touch()
    os.truncate(tmp_path / "record.json", 2**27)
    assert len(record_files.read(tmp_path)) == 2**27
    os.truncate(tmp_path / "record.json", 2**27 + 1)
    with pytest.raises(UserError, match="larger than 128 MiB"):
        record_files.read(tmp_path)


def test_a_run_before_it_is_scored() -> None:
    read = unscored(2)
    assert len(read.sessions) == 2
    assert read.reference == References("kemker_table", False, (), None)
    assert "score" not in read.to_json()
