"""A published table beside runs: what agrees, what differs, what is undecided."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Call
from file_helpers import says

from embedbench.errors import UserError
from embedbench.reports.published_table import (
    AGREES,
    DIFFERS,
    NO_RUN,
    UNDECIDED,
    Agreement,
    PublishedRow,
    PublishedTable,
    compare,
    count_verdicts,
    read_published,
)
from embedbench.reports.results import Result
from embedbench.scores.mean_intervals import Stat

ROW = PublishedRow(method="Replay", mean="50.0", spread="1.0", learner="er")
TABLE = PublishedTable(
    title="Table 3",
    source="the paper, page 5",
    metric="accuracy",
    spread_is="standard deviation",
    runs=10,
    margin=2.0,
    because="two standard deviations",
    data="the paper's data and backbone",
    rows=(ROW,),
)
# of ten values with sd .01: t(.975, 9) = 2.262, so half = 2.262 × .01 / √10 = .00715
OFF = 0.00715 * 2**0.5 + 0.0005  # both alike, and half a unit of the printed digit


def runs(mean: float, learner: str = "er", n: int = 10, **more: object) -> list[Result]:
    """Values of sd .01 around a mean: pairs as far above as below."""
    off = 0.01 * ((n - 1) / n) ** 0.5
    return [
        Result(learner=learner, seed=s, values={"accuracy": mean + off * (-1) ** s, **more})
        for s in range(n)
    ]


def test_the_interval_has_both_spreads_and_the_rounding() -> None:
    (row,) = compare(TABLE, runs(0.51))
    assert row.half == pytest.approx(OFF, abs=1e-5)


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [
        (0.5, AGREES),
        (0.5 + 0.02 - OFF - 1e-4, AGREES),
        (0.5 + 0.02 - OFF + 1e-4, UNDECIDED),
        (0.5 - 0.02 - OFF + 1e-4, UNDECIDED),
        (0.5 - 0.02 - OFF - 1e-4, DIFFERS),
    ],
)
def test_verdicts_at_their_edges(mean: float, verdict: str) -> None:
    (row,) = compare(TABLE, runs(mean))
    assert row.verdict == verdict


@pytest.mark.parametrize(
    ("kind", "factor"), [("standard deviation", 1.0), ("standard error", 10**0.5)]
)
def test_what_stands_behind_the_sign_decides(kind: str, factor: float) -> None:
    (row,) = compare(replace(TABLE, spread_is=kind), runs(0.5))
    assert row.printed.stat.half == pytest.approx(0.00715 * factor, abs=2e-5)


def test_one_run_of_ours_decides_nothing() -> None:
    (row,) = compare(TABLE, runs(0.5, n=1))
    assert row.verdict == UNDECIDED


@pytest.mark.parametrize("mean", [0.5, 0.7])
def test_two_equal_runs_decide_nothing(mean: float) -> None:
    both = [Result(learner="er", seed=s, values={"accuracy": mean}) for s in (0, 1)]
    (row,) = compare(TABLE, both)
    assert row.verdict == UNDECIDED


def test_runs_of_several_settings_are_refused_also_with_other_seeds() -> None:
    both = [
        *runs(0.5, n=2, **{"learner.lr": 1}),
        *runs(0.7, n=4, **{"learner.lr": 2})[2:],
    ]
    with pytest.raises(UserError, match="Replay has runs of er with several settings"):
        compare(TABLE, both)


def test_a_mean_without_a_spread_decides_nothing() -> None:
    (row,) = compare(replace(TABLE, rows=(replace(ROW, spread=""),)), runs(0.5))
    assert row.verdict == UNDECIDED


def test_a_row_without_runs_stays() -> None:
    (row,) = compare(TABLE, runs(0.5, "derpp"))
    assert row.verdict == NO_RUN


def test_a_row_takes_the_runs_that_it_names() -> None:
    both = runs(0.5, **{"learner.memory.total": 200}) + runs(0.7, **{"learner.memory.total": 500})
    named = replace(ROW, where={"learner.memory.total": 500})
    (row,) = compare(replace(TABLE, rows=(named,)), both)
    assert row.ours is not None
    assert row.ours.mean == pytest.approx(0.7)


def test_runs_of_two_settings_are_refused() -> None:
    both = runs(0.5, **{"learner.lr": 1}) + runs(0.7, **{"learner.lr": 2})
    with pytest.raises(UserError, match="Replay has runs of er with several settings"):
        compare(TABLE, both)


def test_runs_of_two_streams_are_refused() -> None:
    """Also where their seeds differ."""
    streams = [{"protocol": "incremental-class", "protocol.step": step} for step in (1, 2)]
    both = [*runs(0.5, n=2, **streams[0]), *runs(0.7, n=4, **streams[1])[2:]]
    with pytest.raises(UserError, match="Replay has runs of er on 2 streams"):
        compare(TABLE, both)


def test_a_row_may_have_a_margin_of_its_own() -> None:
    (row,) = compare(replace(TABLE, rows=(replace(ROW, margin=9.0),)), runs(0.55))
    assert row.verdict == AGREES


def test_verdicts_are_counted() -> None:
    stat = Stat.printed(0.5, 10, sd=0.01)
    printed = compare(TABLE, [])[0].printed
    rows = [Agreement(ROW, printed, ours, 0.02) for ours in (stat, stat, None)]
    assert count_verdicts(rows) == {AGREES: 2, DIFFERS: 0, UNDECIDED: 0, NO_RUN: 1}


# --- files ---

TEXT = """
[published]
title = "Table 3"
source = "the paper, page 5"
metric = "accuracy"
spread_is = "standard error"
runs = 10
margin = 2.0
because = "two standard deviations"
data = "the paper's data and backbone"
results = ["ours.csv"]

[[published.rows]]
method = "Replay"
mean = 50.0
spread = 0.3
learner = "er"

[[published.rows]]
method = "None"
mean = 7.71
spread = 0.18
learner = "finetune"
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def written(old: str = "", new: str = "") -> Path:
        lines = [f"er,{s},{0.5 + 0.01 * (-1) ** s}" for s in range(6)]
        (tmp_path / "ours.csv").write_text("\n".join(["learner,seed,accuracy", *lines]))
        path = tmp_path / "table.toml"
        path.write_text(TEXT.replace(old, new))
        return path

    return written


def test_the_command_prints_theirs_and_ours(write: Callable[..., Path], call: Call) -> None:
    out = call("report", write()).out
    assert "50.0 ±0.3" in out
    assert "agrees 1, no run 1" in out


def test_rows_as_csv(write: Callable[..., Path], call: Call) -> None:
    lines = list(csv.DictReader(call("report", write(), "--csv").out.splitlines()))
    assert [line["verdict"] for line in lines] == [AGREES, NO_RUN]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("50.0", '"50.0 %"', "mean of Replay"),
        ("50.0", "150", "mean of Replay"),
        ("0.3", '"±0.3"', "spread of Replay"),
        ("margin = 2.0", "margin = 0.0", "margin"),
    ],
)
def test_what_is_no_percentage_is_refused(
    write: Callable[..., Path], old: str, new: str, what: str
) -> None:
    path = write(old, new)
    with pytest.raises(UserError, check=says(what=f"{path}: published: {what}")):
        read_published(path)


def test_a_spread_of_another_kind_is_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="range"):
        read_published(write('"standard error"', '"range"'))


def test_a_file_without_either_table_is_refused(tmp_path: Path, call: Call) -> None:
    (tmp_path / "x.toml").write_text("a = 1")
    assert "must have a table [report]" in call("report", tmp_path / "x.toml").err


@pytest.mark.parametrize("value", ["0.5", "[1, 0.5]"])
def test_conditions_of_a_file_may_be_decimal_numbers(
    write: Callable[..., Path], call: Call, value: str
) -> None:
    path = write('learner = "er"', f'learner = "er"\nwhere = {{ "learner.lr" = {value} }}')
    lines = ["learner,seed,accuracy,learner.lr"]
    lines += [f"er,{s},{0.5 + 0.01 * (-1) ** s},0.5" for s in range(6)]
    (path.parent / "ours.csv").write_text("\n".join(lines))
    assert "agrees 1" in call("report", path).out


def test_json_says_what_the_spread_is(write: Callable[..., Path], call: Call) -> None:
    (table,) = json.loads(call("report", write(), "--json").out)["tables"]
    assert table["spread_is"] == "standard error"
    assert table["runs"] == 10


def test_a_run_that_is_left_out_is_named(write: Callable[..., Path], call: Call) -> None:
    path = write()
    lines = ["learner,seed,accuracy,flags", *(f"er,{s},0.5,{'nan' * (s == 2)}" for s in range(3))]
    (path.parent / "ours.csv").write_text("\n".join(lines))
    assert "left out: er seed 2: nan" in call("report", path).err
