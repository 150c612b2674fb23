"""report --bridge: pairs, gaps, what has no partner, and the three ways it is shown."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from bridge_records import shown
from command_line import embedbench
from report_records import keep, make

from embedbench.errors import UserError
from embedbench.reports.frozen_vs_full import bridge, bridge_parts
from embedbench.reports.result_rows import Row
from embedbench.reports.tables_from_runs import collect
from embedbench.text.terminal_text import render_text


def rows_of(*roots: Path) -> list[Row]:
    return [row for root in roots for row in collect(root)]


@pytest.fixture
def two_sides(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    keep(runs, make("er", 0, 0.8), make("er", 1, 0.7), make("ncm", 0), make("chance", 0))
    keep(runs, shown("er", 0, 0.6), shown("er", 1, 0.65), shown("er", 2, 0.9), stream="images")
    return runs


def test_the_gap_is_over_runs_of_equal_seeds(two_sides: Path) -> None:
    result = bridge(rows_of(two_sides))
    (stream,) = result["streams"]
    (er,) = stream["learners"]
    assert [er[key] for key in ("learner", "trunk", "n")] == ["er", "resnet8", 2]
    assert list(er["values"]) == [
        *("omega_all", "final_accuracy", "average_accuracy", "average_forgetting"),
        *("bytes.total", "seconds.learn"),
    ]
    final = er["values"]["final_accuracy"]
    assert (final["frozen"].values, final["full"].values) == ((0.8, 0.7), (0.6, 0.65))
    assert final["gap"].mean == pytest.approx(-0.125)  # of -0.2 and -0.05
    # t(.975, 1) = 12.706, sd = .15/√2, so the half-width is 12.706 · .15 / 2
    assert final["gap"].half == pytest.approx(0.95296, abs=1e-4)
    assert er["values"]["bytes.total"]["gap"].mean == 3_000_000
    assert result["alone"] == ["ncm (incremental-class · toy.h5, embeddings)"]
    lines = render_text(bridge_parts(result)).splitlines()
    assert lines[0] == "incremental-class · toy.h5 → toy-32.h5"
    assert " ".join(lines[1].split()) == "learner trunk n Ω_all accuracy % AA % AF % MB learn s"
    scores = ["0.750 → 0.625 (−0.125 ±0.953)", *["75.0 → 62.5 (−12.5 ±95.3)"] * 2]
    scores += ["15.0 → 27.5 (12.5 ±95.3)", "2.0 → 5.0", "6.0 → 1,800"]
    assert re.split("  +", lines[2])[-6:] == scores
    assert lines[-1].startswith("no pair, which takes one learner on an embedding file")
    assert lines[-1].endswith("seeds: ncm (incremental-class · toy.h5, embeddings)")


def test_namesakes_are_paired_each_and_curves_are_those_of_the_end(tmp_path: Path) -> None:
    """Without the values that no pair of the stream has."""
    keep(tmp_path, make("er", curves={"raa": [0.9, 0.5, 0.4], "raf": [None, 0.2, 0.4]}))
    keep(tmp_path, shown(curves={"raa": [0.3, 0.3, 0.3], "raf": [None, 0.1, 0.0]}), stream="images")
    keep(tmp_path, shown(learner_params={"trunk": "linear"}), stream="images", row="er-2")
    (stream,) = bridge(rows_of(tmp_path))["streams"]
    pairs = {(e["learner"], e["trunk"]): e["values"] for e in stream["learners"]}
    assert pairs.keys() == {(f"er → er trunk={t}", t) for t in ("resnet8", "linear")}
    values = pairs["er → er trunk=resnet8", "resnet8"]
    assert values["raa"]["gap"].mean == pytest.approx(0.3 - 0.4)
    assert values["raf"]["gap"].mean == pytest.approx(0.0 - 0.4)
    assert "gacc" not in values


@pytest.mark.parametrize(
    "change",
    [
        *({"digests": {key: "1" * 64}} for key in ("recipe", "train", "eval")),
        *({"seed": 5}, {"learner": "lwf"}),
        {"files": [{"name": "other.h5", "digests": {}}]},
    ],
)
def test_what_makes_no_pair_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    keep(tmp_path, make("er"))
    keep(tmp_path, shown(**change), stream="images")
    alone = re.escape("er (incremental-class · toy.h5, embeddings)")
    with pytest.raises(UserError, match=f"no pair.* {alone}"):
        bridge(rows_of(tmp_path))


def test_permuted_embeddings_are_no_permuted_pixels(tmp_path: Path) -> None:
    keep(tmp_path, make("er", protocol="permutation"))
    other = {"train": "1" * 64, "eval": "1" * 64}
    keep(tmp_path, shown(protocol="permutation", digests=other), stream="images")
    with pytest.raises(UserError, match=r"--backbone pixels.* \(permutation · toy\.h5"):
        bridge(rows_of(tmp_path))


def test_a_mismatched_pair_beside_a_good_one_is_said(two_sides: Path) -> None:
    keep(two_sides, shown(digests={"eval": "0" * 64}), stream="other-split")
    result = bridge(rows_of(two_sides))
    assert [len(s["learners"]) for s in result["streams"]] == [1]
    toy = "incremental-class · toy"
    assert result["alone"] == [f"ncm ({toy}.h5, embeddings)", f"er ({toy}-32.h5, images)"]


def test_json_and_html(two_sides: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    made = embedbench("report", two_sides, "--bridge", "--json", "--html", page)
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["schema"] == "embedbench-bridge/1.0"
    text = page.read_text(encoding="utf-8")
    for part in ("From frozen to full", "75.0 → 62.5 (−12.5 ±95.3)", "ncm (incr", "8</td><td>2<"):
        assert part in text
    (row,) = csv.DictReader(embedbench("report", two_sides, "--bridge", "--csv").stdout.split("\n"))
    assert (row["title"], row["learner"]) == ("incremental-class · toy.h5 → toy-32.h5", "er")
    assert float(row["values.final_accuracy.gap.mean"]) == pytest.approx(-0.125)
