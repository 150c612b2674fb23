"""The tables that a `[report]` of a TOML file selects from runs."""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import embedbench
from confident_runs import hinted_run, keep_runs
from report_records import keep, make, put

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.reports.compare_learners import studies
from embedbench.reports.comparison_tables import TableView, allowed_ranks
from embedbench.reports.load_results import load_runs
from embedbench.reports.published_table import read_published
from embedbench.reports.results_csv import read_csv
from embedbench.reports.run_rows import streams
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.toml_report import read_selections, select
from embedbench.scores.run_record import RunRecord
from embedbench.studies.resolve import resolve
from embedbench.studies.study_file import read_study
from embedbench.text.table_export import csv_text
from embedbench.text.terminal_text import render_text

STUDIES = Path(__file__).resolve().parents[2] / "docs" / "studies"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two streams; two settings of mlp, ewc and chance, each with three seeds."""
    root = tmp_path_factory.mktemp("runs")
    for base, less in ((2, 0.0), (3, 0.4)):
        other = {"protocol_params": {"base": base}, "digests": {"recipe": f"{base:064x}"}}
        # the second run of mlp is a little off, so that no difference is equal in all seeds
        rows = ("mlp", 400, 0.5, 0.001), ("mlp", 100, 0.3, -0.001), ("ewc", 9, 0.6, 0.0)
        for name, units, gain, off in rows:
            for s in range(3):
                made = make(name, s, gain + s / 100 + off * (s == 1) - less / 2, **other)
                made["learner_params"] = {"units": units}
                keep(root, made, stream=f"base-{base}", row=f"{name}-{units}")
        keep(root, make("chance", 0, 0.95, **other), stream=f"base-{base}")
    return root


def shown(folder: Path, text: str) -> list[TableView]:
    (folder / "shown.toml").write_text(text)
    return select(read_selections(folder / "shown.toml"), folder, pytest.fail)


def test_means_are_over_seeds_and_then_over_streams(root: Path, tmp_path: Path) -> None:
    base = f'[report]\nruns = ["{root}"]\n'
    two = 'metrics = ["final_accuracy", "max bytes.total"]'
    (table,) = shown(tmp_path, base + f'columns = "stream"\nover = "seeds"\n{two}')
    assert [(row["learner"], row["settings"]) for row in table.rows] == [
        ("ewc", ""), ("mlp", "units=400"), ("mlp", "units=100"), ("chance", ""),
    ]  # fmt: skip
    # t(0.975, 2) = 4.302653, sd .01 of three seeds
    found = [table.rows[0][f"base=2 accuracy %{end}"] for end in ("", ".half_95")]
    assert found == pytest.approx([0.61, 4.302653 * 0.01 / math.sqrt(3)])
    (table,) = shown(tmp_path, base + two)
    assert table.rows[0]["final_accuracy"] == pytest.approx((0.61 + 0.41) / 2)
    # two streams: t(0.975, 1) = 12.706, sd .2/√2
    assert table.rows[0]["final_accuracy.half_95"] == pytest.approx(12.706 * 0.1, rel=1e-3)
    assert table.rows[0]["max bytes.total"] == 2_000_000
    assert render_text(table.parts).splitlines()[1] == "2 streams"
    (table,) = shown(tmp_path, base + 'metrics = ["average_forgetting", "max final_accuracy"]')
    assert [row["learner"] for row in table.rows] == ["ewc", "mlp", "mlp", "chance"]  # least first
    assert table.rows[0]["max final_accuracy"] == 0.62
    one = 'where = { learner = ["chance"], final_accuracy = 0.95, run = "base-2/chance/seed-0" }'
    (table,) = shown(tmp_path, base + one)  # one value, or a list
    assert render_text(table.parts).splitlines()[1] == "incremental-class · toy.h5 · accuracy %"
    assert table.rows == [{"learner": "chance", "settings": "", "final_accuracy": 0.95}]


def test_streams_of_one_title_have_names_of_their_own() -> None:
    assert streams([{"protocol.base": base} for base in (2, 3)]) == ["base=2", "base=3"]
    one = {"protocol": "p", "files": "a.h5", "digests.recipe": "r"}
    each = [one | {"digests.features": features * 10} for features in "aba"]
    first, last = "p · a.h5 (aaaaaaaa 0)", "p · a.h5 (bbbbbbbb 1)"
    assert streams([*each, one | {"stream": "mine"}]) == [first, last, first, "mine"]


def test_what_is_not_averaged(root: Path, tmp_path: Path) -> None:
    base = f'[report]\nruns = ["{root}"]\n'
    with pytest.raises(UserError, match=r"mlp .* two runs .* seed 0"):
        shown(tmp_path, base + 'rows = ["learner"]')
    keep(tmp_path / "few", make("mlp", 5, 0.0, flags=["diverged"]))
    drawn = [vars(Seeds.of(s)) for s in (0, 1)]
    keep(tmp_path / "few", *(make("ncm", s, 0.9 - s / 5, seeds=drawn[s]) for s in (0, 1)))
    varied = make("ncm", 0, 0.1, seeds=drawn[0] | {"init": 9})  # repeats seed 0 but for its init
    put(RunRecord.from_json(varied), tmp_path / "few" / "stream-1" / "ncm" / "seed-0-x")
    (table,) = shown(tmp_path, '[report]\nruns = ["few"]\nrows = ["learner"]')
    assert [row["learner"] for row in table.rows] == ["ncm"]
    assert table.rows[0]["final_accuracy"] == pytest.approx(0.8)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs whose answers are stored: two learners, two seeds, 100 test samples."""
    root, hints = tmp_path_factory.mktemp("answered"), {"mlp": 1.0, "ewc": 3.0}
    keep_runs(root, {name: [hinted_run(s, hint) for s in (0, 1)] for name, hint in hints.items()})
    return root


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ('"final_accuracy"', "over seeds and the test sample"),
        ('"class_accuracy", "final_accuracy"', "over seeds and the test sample"),
        ('"accuracy", "nll"', "over seeds and, for accuracy %, the test sample"),
    ],
)
def test_a_remark_says_what_ranks_in_brackets_are_over(
    answered: Path, tmp_path: Path, metrics: str, expected: str
) -> None:
    text = f'[report]\nruns = ["{answered}"]\nrows = ["learner"]\nmetrics = [{metrics}]\n'
    (table,) = shown(tmp_path, f'{text}over = "seeds and samples"')
    assert any(str(part).endswith(f"a bound of 5 % a row, {expected}") for part in table.parts)


def test_what_guessing_scores_on_average_is_no_run_with_equal_answers(tmp_path: Path) -> None:
    keep(tmp_path / "r", *(make("ncm", s, 0.8 + s / 10) for s in (0, 1)))
    keep(tmp_path / "r", *(make("chance", s, 0.1) for s in (0, 1)))
    (table,) = shown(tmp_path, '[report]\nruns = ["r"]\nrows = ["learner"]')
    assert not any("chance" in str(part) for part in table.parts[-2:])


def test_metrics_of_answers_have_columns_and_ranks(answered: Path, tmp_path: Path) -> None:
    base = f'[report]\nruns = ["{answered}"]\nrows = ["learner"]\nmetrics = ["max omega_all", '
    base += '"bytes.total", "unknown_auroc_by_score", "final_accuracy"]\n'
    (table,) = shown(tmp_path, f'{base}over = "seeds and samples"')
    rows = collect(answered, metrics=["unknown_auroc_by_score"])
    means = {row.learner: row.metrics["unknown_auroc_by_score"].mean for row in rows}
    assert {r["learner"]: r["unknown_auroc_by_score"] for r in table.rows} == means
    text = render_text(table.parts)
    assert text.count("[") == 4
    assert "over seeds and, for accuracy %, the test sample" in text
    (alone,) = shown(tmp_path, f'{base}over = "seeds"')
    assert "a bound of 5 % a row, over seeds alone" in render_text(alone.parts)
    (tmp_path / "rows.csv").write_text(csv_text(load_runs(answered).rows()))
    more = 'runs = ["rows.csv"]\nrows = ["learner"]\nover = "seeds and samples"'
    (numbers,) = shown(tmp_path, f"[report]\n{more}")  # which has no answers
    (both,) = studies(collect(answered, over="seeds"))
    said = render_text(numbers.parts)
    assert all(f"[{allowed_ranks(verdict)}]" in said for verdict in both.verdicts)
    assert "over seeds alone" in said
    # differences .10 .11 .12
    values = {"a": (0, 0.01, 0.02), "b": (0.1, 0.12, 0.14)}
    lines = [f"{name},{seed},{value}" for name in values for seed, value in enumerate(values[name])]
    (tmp_path / "rows.csv").write_text("\n".join(["learner,seed,x", *lines]))  # learners all
    (plain,) = shown(tmp_path, f'[report]\n{more}\nmetrics = ["x"]')
    assert [row["learner"] for row in plain.rows] == ["b", "a"]
    assert "  12.0 ±5.0 [1]" in render_text(plain.parts)


# what Python alone reads as a number
NOT_NUMBERS = ("1_0", "٠.٥", "０", " 0.5", "inf", "-Infinity", "1e999", "9" * 5000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"table \[report\] .* RUNS"),
        ("[[report]]\nruns = []\n[[report]]\nrun = 1", "report 2: .* key 'run'"),
        ('[report]\nruns = []\nover = "seed"', "report: .* over 'seed'.* 'seeds'"),
        ('[report]\nruns = ["x"]\ncolumns = "streams"', "columns 'streams'.* 'stream'"),
        ('[report]\nruns = ["x"]\nrows = ["leaner"]', "rows 'leaner'.* 'learner'"),
        ('[report]\nruns = "x"', "runs .* list, got 'x'"),
        *(('[report]\nruns = ["x"]', "no directory .*/x;"), ("#" * (2**20 + 1), "1,048,576")),
        ('[report]\nruns = ["bad.csv"]', "line 2 of .*bad.csv .* seed"),
        ('[report]\nruns = ["long.csv"]', "long.csv .*field larger"),
        *((f'[report]\nruns = ["{n}.csv"]', f"{n}.csv .* whole") for n in ("seed", "negative")),
        *(
            (f'[report]\nruns = ["one.csv"]\n{key} = []', f"report: {key} .*one value or more")
            for key in ("rows", "metrics", "where.seed")
        ),
        ("[report]\nruns = []", r"report: runs .*one value or more, got \[\]"),
        ('[report]\nruns = ["seed_.csv"]', "line 2 of .*seed_.csv .*whole"),
        ('[report]\nruns = ["twice.csv"]', "twice.csv has two columns 'final_accuracy'"),
        ('[report]\nruns = ["more.csv"]', "line 2 of .*more.csv has 4 cells for 3 columns"),
        ('[report]\nruns = ["fewer.csv"]', "line 2 of .*fewer.csv has 2 cells for 3 columns"),
        *(
            (f'[report]\nruns = ["number-{k}.csv"]', "final_accuracy in line 2 .* decimal number")
            for k in range(len(NOT_NUMBERS))
        ),
        ('[report]\nruns = ["one.csv"]\nmetrics = ["final_acuracy"]', "acuracy'.*'final_accuracy'"),
        ('[report]\nruns = ["one.csv"]\nwhere = { lerner = 1 }', "'lerner'.* 'learner'"),
        ('[report]\ntitle = "T"\nruns = ["one.csv"]\nwhere = { seed = 1 }', "table 'T'"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,seed\n1,2\n")
    (tmp_path / "long.csv").write_text("x" * 2**18)
    (tmp_path / "seed.csv").write_text("learner,seed\nncm,x\n")
    (tmp_path / "negative.csv").write_text("learner,seed,sessions\nncm,0,-1\n")
    (tmp_path / "seed_.csv").write_text("learner,seed\nncm,1_0\n")
    (tmp_path / "twice.csv").write_text(
        "learner,seed,final_accuracy,final_accuracy\nncm,0,0.5,0.9\n"
    )
    (tmp_path / "more.csv").write_text("learner,seed,final_accuracy\nncm,0,0.5,0.9\n")
    (tmp_path / "fewer.csv").write_text("learner,seed,final_accuracy\nncm,0\n")
    for k, number in enumerate(NOT_NUMBERS):
        text_of_one = f"learner,seed,final_accuracy\nncm,0,{number}\n"
        (tmp_path / f"number-{k}.csv").write_text(text_of_one, encoding="utf-8")
    (tmp_path / "one.csv").write_text("learner,seed,final_accuracy,x\nncm,0,0.5,nan\n")
    with pytest.raises(UserError, match=says):
        shown(tmp_path, text)


def test_the_command_shows_a_file_in_every_form(root: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "study.toml", tmp_path / "page.html"
    file.write_text(f'[report]\ntitle = "T"\nruns = ["{root}"]\ncolumns = "stream"\nover = "seeds"')

    def report(*words: object) -> Any:
        return embedbench("report", file, *words)

    assert "61.0 ±2.5 [1]" in report("--html", page).stdout
    assert "<h3>T</h3>" in page.read_text()
    assert "61.0 ±2.5 [1]" in page.read_text()
    assert report("--markdown").stdout.startswith("| learner |")
    assert "tabular" in report("--latex").stdout
    rows = list(csv.DictReader(report("--csv").stdout.splitlines()))
    data = json.loads(report("--json").stdout)
    assert data["tables"][0]["rows"][0]["base=2"] == float(rows[0]["base=2"])
    assert "says what to show" in str(report("--compare").exception)


def test_the_study_of_a_page_is_one(tmp_path: Path) -> None:
    """One stream × (ncm, three slda, ewc) × five seeds."""
    page = (STUDIES.parent / "studies.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "study.toml").write_text("".join(blocks), encoding="utf-8")
    made = resolve(read_study(tmp_path / "study.toml"))
    assert (len({(run.files, run.protocol) for run in made}), len(made)) == (1, 5 * 5)
    assert len(read_selections(tmp_path / "study.toml")) == 2
    assert read_published(tmp_path / "study.toml") is not None
    assert len(resolve(read_study(STUDIES / "backbone.toml"))) == 11 * 5


def test_a_cell_of_two_lines_in_quotes_is_one_cell(tmp_path: Path) -> None:
    text = 'learner,seed,settings,final_accuracy\nncm,0,"a\nb",0.5\n'
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    (row,) = read_csv(tmp_path / "rows.csv")
    assert row == {"learner": "ncm", "seed": 0, "settings": "a\nb", "final_accuracy": 0.5}


def test_a_name_that_python_reads_as_a_number_stays_a_text(tmp_path: Path) -> None:
    text = "learner,seed,settings,final_accuracy\ninf,0,1_0,0.5\n"
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    (row,) = read_csv(tmp_path / "rows.csv")
    assert (row["learner"], row["settings"]) == ("inf", "1_0")


def test_a_base_score_among_metrics_is_that_of_its_table(tmp_path: Path) -> None:
    """Ten samples, two in the smaller class; accuracy .9, mean per-class accuracy .75."""
    made = make("ncm")
    for name, final in (("accuracy", 0.9), ("class_accuracy", 0.75)):
        metrics = made["metrics"] | {"final_accuracy": final, "average_accuracy": final / 2}
        made["by_score"][name] = made["by_score"][name] | {"metrics": metrics}
    made["metrics"] = made["by_score"]["class_accuracy"]["metrics"]
    keep(tmp_path / "runs", made)
    text = '[report]\nruns = ["runs"]\nmetrics = ["class_accuracy", "average_accuracy", "accuracy"]'
    (table,) = shown(tmp_path, text)
    row = {"learner": "ncm", "settings": ""}
    assert table.rows == [
        row | {"class_accuracy": 0.75, "average_accuracy": 0.375, "accuracy": 0.9}
    ]


@pytest.mark.parametrize("name", ["A_last", "a_last", "final_accuracy"])
def test_the_column_of_the_final_score_is_named_for_it(tmp_path: Path, name: str) -> None:
    keep(tmp_path / "runs", make("ncm"))
    (table,) = shown(tmp_path, f'[report]\nruns = ["runs"]\nmetrics = ["{name}", "bytes.total"]')
    header = next(x for x in render_text(table.parts).splitlines() if x.startswith("learner"))
    assert "accuracy %" in header


@pytest.mark.parametrize("column", ["accuracy", "final_accuracy", "A_last"])
@pytest.mark.parametrize("metric", ["A_last", "final_accuracy", "accuracy", "max A_last"])
def test_the_final_score_of_a_result_from_elsewhere_has_two_names(
    column: str, metric: str, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs.csv").write_text(f"method,seed,protocol.base,{column}\nmine,0,2,0.7\n")
    runs = f'runs = ["{root}", "theirs.csv"]\ncolumns = "stream"\n'
    (table,) = shown(tmp_path, f'[report]\n{runs}metrics = ["{metric}"]')
    (mine,) = [row for row in table.rows if row["learner"] == "mine"]
    assert 0.7 in mine.values()


def test_why_a_result_from_elsewhere_has_no_number_is_said(root: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("method,seed,protocol.base,class_accuracy\nmine,0,2,0.7\n")
    runs = f'runs = ["{root}", "theirs.csv"]\ncolumns = "stream"\n'
    (tmp_path / "shown.toml").write_text(f"[report]\n{runs}")
    notes: list[str] = []
    select(read_selections(tmp_path / "shown.toml"), tmp_path, notes.append)
    assert "mine has no final_accuracy (accuracy); it has class_accuracy" in notes
