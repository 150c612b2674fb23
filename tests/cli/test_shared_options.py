"""`--markdown`, `--latex`, `--csv`, completion, and the orders that `list` names."""

import csv
from contextlib import nullcontext
from pathlib import Path

import pytest
from command_line import embedbench as asked
from report_records import keep, make

from embedbench.cli import shared_options
from embedbench.cli.list_entries import entries
from embedbench.errors import UserError
from embedbench.reports.tables_from_runs import collect
from embedbench.runs.progress_line import Progress
from embedbench.streams.make_class_order import CONFUSION, KINDS
from embedbench.streams.order_names import NAMED, ORDERS, PUBLISHED

METRIC = "learning_accuracy"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for name, gain in (("mlp", 0.1), ("ewc", 0.2)):
        for s in range(3):
            made = make(name, seed=s, final=gain + 0.1 * s * s)
            made["metrics"] |= {METRIC: gain + s / 7}
            keep(place, made)
    return place


def test_csv_of_a_report_has_exact_means_and_intervals(runs: Path) -> None:
    done = asked("report", runs, "--csv", "--metric", METRIC)
    rows = {row["learner"]: row for row in csv.DictReader(done.stdout.splitlines())}
    assert [float(rows[name]["behind_by"]) for name in ("ewc", "mlp")] == pytest.approx([0, 0.1])
    for row in collect(runs, metrics=[METRIC]):
        for name in ("final_accuracy", "omega_all", METRIC):
            stat, cells = row.metrics[name], rows[row.label]
            read_back = [float(cells[n] or "nan") for n in (name, f"{name}.half_95")]
            assert read_back == pytest.approx([stat.mean, stat.half], rel=0, nan_ok=True)
        assert float(cells["bytes.total"]) == row.footprint["total"]


def test_every_command_with_tables_has_the_three_forms(runs: Path) -> None:
    for command in (["report", runs, "--compare", "--metric", METRIC], ["list", "presets"]):
        for form, start in (("markdown", "| "), ("latex", "% \\usepackage"), ("csv", "")):
            done = asked(*command, f"--{form}")
            assert done.exit_code == 0, (command, form, done.exception)
            assert done.stdout.startswith(start)
            assert len(done.stdout.splitlines()) > 2
    done = asked("report", runs, "--markdown")  # stdout is the table alone
    assert done.stdout.startswith("| learner |")
    assert "t-interval" in done.stderr
    assert "t-interval" not in done.stdout
    said = [asked("runs", "status", runs, f"--{form}").stderr for form in ("markdown", "csv")]
    assert said == ["6 finished\n", "there is no table to print\n"]  # no cell is at work
    rows = list(csv.DictReader(asked("report", runs, "--compare", "--csv").stdout.splitlines()))
    assert [(row["learner"], row["rank"]) for row in rows] == [("ewc", "1"), ("mlp", "2")]
    assert {"mean", "behind", "behind_by", "behind_by_least"} <= {*rows[1]}
    for words in (["--latex", "--csv"], ["--json", "--csv"]):
        done = asked("report", runs, *words)
        assert isinstance(done.exception, UserError)
        assert str(done.exception).startswith(f"{words[0]} and {words[1]} ")


def test_every_order_with_a_name_is_listed() -> None:
    assert set(NAMED) == {*KINDS, *ORDERS}
    assert {*CONFUSION, *PUBLISHED} < set(KINDS)
    rows = {row["name"]: row for row in entries("orders")}
    assert list(rows) == list(NAMED)
    hundred = {name for name, row in rows.items() if row["summary"].endswith("; 100 classes")}
    assert hundred == {"icarl_87", *PUBLISHED}


def test_completion_is_in_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shell; a process that none has started, as in CI, is taken for one here."""
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    assert "--install-completion" in asked("--help").stdout
    assert "complete" in asked("--show-completion").stdout.lower()


def test_what_is_fetched_is_counted_in_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress("fetch")
    monkeypatch.setattr(shared_options, "bar", lambda *_: nullcontext(progress))
    with shared_options.fetching(quiet=True) as how:
        how["progress"](2_999_999, 40_000_000)
    assert (progress.unit, progress.done, progress.total) == ("MB", 2, 40)
