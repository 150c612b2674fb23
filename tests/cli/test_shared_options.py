"""`--markdown`, `--latex`, `--csv`, completion, and what the terminal says of many failures."""

import csv
from pathlib import Path

import pytest
from command_line import embedbench as asked
from report_records import keep, make

from embedbench.checks import conformance_suite
from embedbench.cli.list_entries import entries
from embedbench.errors import UserError, short, unknown
from embedbench.reports.tables_from_runs import collect
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
    assert ("t-interval" in done.stderr, "t-interval" in done.stdout) == (True, False)
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


def test_a_suggestion_stands_without_a_long_list() -> None:
    many = [f"{c}-name" for c in "abcdefghijk"]
    near = "unknown learner 'b-nam'. Did you mean 'b-name'?"
    assert str(unknown("learner", "b-nam", many)) == near
    listed = ", ".join(many[:10])
    assert str(unknown("learner", "b-nam", many[:10])) == f"{near} Known: {listed}."
    long = [f"x{n:03}" for n in range(1100)]
    listed = ", ".join(long[:60])
    cut = f"unknown learner 'zzz'. Known: {listed} and 1,040 more."
    assert str(unknown("learner", "zzz", long)) == cut
    assert (short("x" * 58), short("x" * 59)) == (repr("x" * 58), f"'{'x' * 58}…")


def test_an_error_behind_several_failures_is_said_once() -> None:
    class Faulty:
        def start(self) -> None:
            raise TypeError("no width")

    def one(cls: "type[Faulty]") -> None:
        """Can be started."""
        cls().start()

    def other(cls: "type[Faulty]") -> None:
        """Has another fault."""
        raise KeyError("x")

    results = conformance_suite.run_checks([other, *[one] * 3], Faulty)
    lines = conformance_suite.check_text(results).splitlines()
    assert "raised KeyError: 'x'" in lines[2]
    assert "start raised TypeError: no width" in lines[5]
    assert [line.endswith(" s): as one") for line in lines[6:8]] == [True, True]
    assert lines[-1] == "0 of 4 checks passed, 4 failed by 2 faults"


def test_one_line_with_several_numbers_is_one_fault() -> None:
    class Faulty:
        def scores(self, n: int) -> None:
            raise ValueError(f"{n} rows")

    def few(cls: "type[Faulty]") -> None:
        """Scores few."""
        cls().scores(2)

    def many(cls: "type[Faulty]") -> None:
        """Scores many."""
        cls().scores(3)

    text = conformance_suite.check_text(conformance_suite.run_checks([few, many], Faulty))
    assert text.endswith("0 of 2 checks passed, 2 failed by 1 fault")


def test_a_fault_says_where_it_is() -> None:
    class Faulty:
        def scores(self) -> None:
            raise ValueError("no rows")

    def one(cls: "type[Faulty]") -> None:
        """Scores."""
        cls().scores()

    (result,) = conformance_suite.run_checks([one], Faulty)
    line = Faulty.scores.__code__.co_firstlineno + 1
    assert result.place == f"test_tables.py, line {line}"
