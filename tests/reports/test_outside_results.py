"""Results from elsewhere: what a CSV file of them says, and what is refused in one sentence."""

import math
from pathlib import Path

import pytest

from embedbench.errors import UserError
from embedbench.reports.outside_results import read_results
from embedbench.reports.results import Result

HEAD = "method,mean,±,n,± is\n"


def read(folder: Path, text: str) -> list[Result]:
    (folder / "table.csv").write_text(text, encoding="utf-8")
    return read_results(folder / "table.csv")


def only(folder: Path, text: str) -> Result:
    (result,) = read(folder, text)
    return result


@pytest.mark.parametrize(
    ("kind", "sd"),
    [
        ("std", 1.0),
        ("Std. dev.", 1.0),
        ("std (n)", math.sqrt(5 / 4)),  # np.std divides by n
        ("sem", math.sqrt(5)),
        ("95 % CI", math.sqrt(5) / 2.776445),  # t(.975, 4)
        ("1.96 sem", math.sqrt(5) / 1.96),
    ],
)
def test_what_stands_behind_the_sign(kind: str, sd: float, tmp_path: Path) -> None:
    stat = only(tmp_path, f"{HEAD}a,72.5,1.0,5,{kind}\n").values["mean"]
    assert stat.sd == pytest.approx(sd / 100, rel=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}a,72.5,0.3,5,std\n",
        "Method,mean,std,count\na,72.5,0.3,5\n",
        "learner,accuracy,spread,runs,spread is\na,72.5,0.3,5,sd\n",
        "method,mean,n,± is\na,72.5 ± 0.3,5,std\n",
        "method,mean,n,± is\na,72.5+-0.3,5.0,std\n",
        f"{HEAD}a,0.725,0.003,5,std\n",
        "method,metric,mean,std,n,unit,source\na,accuracy,72.5,0.3,5,%,here\n",
    ],
)
def test_one_mean_in_many_forms(text: str, tmp_path: Path) -> None:
    (stat,) = [v for v in only(tmp_path, text).values.values() if hasattr(v, "sd")]
    found = (stat.mean, stat.sd, stat.n)
    assert found == (pytest.approx(0.725), pytest.approx(0.003), 5)


def test_runs_in_percent_are_fractions(tmp_path: Path) -> None:
    made = read(tmp_path, "method,seed,accuracy\na,0,72.5\na,1,70\n")
    assert [(r.seed, r.value("accuracy")) for r in made] == [(0, 0.725), (1, 0.7)]


def test_lines_of_sessions_are_one_curve(tmp_path: Path) -> None:
    text = "method,seed,session,accuracy\na,3,1,0.5\na,3,0,0.9\na,4,0,0.8\na,4,1,0.4\n"
    made = read(tmp_path, text)
    values = [[r.value("accuracy", moment=i) for i in (0, 1, None)] for r in made]  # type: ignore[arg-type]
    assert values == [[0.9, 0.5, 0.5], [0.8, 0.4, 0.4]]


def test_lines_of_sessions_of_a_mean_are_one_curve(tmp_path: Path) -> None:
    made = only(tmp_path, "method,session,accuracy,std,n\na,0,90,1,3\na,1,50,2,3\n")
    assert [made.value("accuracy", moment=i) for i in (0, 1)] == [0.9, 0.5]


def test_tables_and_metrics_have_units_of_their_own(tmp_path: Path) -> None:
    text = "table,method,metric,mean\nx,a,accuracy,72.5\ny,a,accuracy,0.5\nx,a,omega,0.9\n"
    made = {r.values["table"]: r.values for r in read(tmp_path, text)}
    found = [made["x"]["accuracy"].mean, made["y"]["accuracy"].mean, made["x"]["omega"].mean]
    assert found == [0.725, 0.5, 0.9]


@pytest.mark.parametrize(
    ("metric", "better", "lower"),
    [
        ("accuracy", "", False),
        ("forgetting", "", True),
        ("forgetting", "higher", False),
        ("x", "lower", True),
    ],
)
def test_whether_less_is_better(metric: str, better: str, lower: bool, tmp_path: Path) -> None:
    made = only(tmp_path, f"method,metric,mean,better\na,{metric},0.5,{better}\n")
    assert (metric in made.lower) is lower


RUNS = "method,seed,accuracy\n"
SESSIONS = "method,seed,session,accuracy\n"
REFUSED = {
    "column twice": ("method,mean,mean\na,1,2\n", r"two columns 'mean'; leave one out"),
    "± twice": ("method,mean,±,spread\na,1,2,3\n", r"two columns '±' \(± and spread\)"),
    "extra cell": (f"{HEAD}a,72,0.3,5,std,9\n", "line 2 .* has 6 cells for 5 columns"),
    "cell missing": (f"{HEAD}a,72\n", "line 2 .* has 2 cells for 5 columns"),
    "text for a mean": (f"{HEAD}a,high,0.3,5,std\n", "mean in line 2 .* decimal number.*'high'"),
    "text for ±": (f"{HEAD}a,72,some,5,std\n", "± in line 2 .* decimal number.*'some'"),
    "text for n": (f"{HEAD}a,72,0.3,five,std\n", "n in line 2 .* whole number.*'five'"),
    "1_0": (f"{HEAD}a,1_0,0.3,5,std\n", "mean in line 2 .*'1_0'"),
    "n of 1_0": (f"{HEAD}a,72,0.3,1_0,std\n", "n in line 2 .*'1_0'"),
    "n of 0": (f"{HEAD}a,72,0.3,0,std\n", "n in line 2 .* 1 or more, got '0'"),
    "n of 2.5": (f"{HEAD}a,72,0.3,2.5,std\n", "n in line 2 .* whole number"),
    "percent sign": ("method,accuracy\na,72%\n", "accuracy in line 2 .*'72%'"),
    "percent and fraction": (f"{HEAD}a,0.72,,,\nb,71,,,\n", "71 in line 3.* 0.72 in line 2"),
    "runs in both": (f"{RUNS}a,0,0.7\na,1,70\n", "70 in line 3.* 0.7 in line 2"),
    "± in the other": (f"{HEAD}a,0.72,1.2,5,std\n", "mean 0.72, a fraction, and ± 1.2"),
    "negative ±": (f"{HEAD}a,72,-0.3,5,std\n", "± in line 2 .* 0 or more, got '-0.3'"),
    "± of one run": (f"{HEAD}a,72,0.3,1,std\n", "n = 1 and ± 0.3; one run has no spread"),
    "± in two cells": ("method,mean,±\na,72 ± 0.3,0.4\n", "± twice"),
    "no kind": (f"{HEAD}a,72,0.3,5,range\n", "line 2.*: unknown ± is 'range'.* std"),
    "decimal comma": ('method,mean\na,"72,5"\n', "mean in line 2 .*'72,5'"),
    "semicolons": ("method;mean\na;72\n", "separate columns by commas"),
    "more than all": ("method,accuracy\na,720\n", "accuracy in line 2 .* 0 to 100 %"),
    "less than none": (f"{RUNS}a,0,-0.5\n", "accuracy in line 2 .* 0 to 100 %"),
    "infinite": ("method,mean\na,inf\n", "mean in line 2 .*'inf'"),
    "method twice": ("method,mean\na,72\na,71\n", "two lines of a;"),
    "no method": ("mean,n\n72,3\n", "line 2 .* names no method"),
    "no number": ("method,what\na,b\n", "no column of numbers"),
    "± of which": ("method,x,y,±\na,72,71,0.3\n", "which of x, y its ± is of"),
    "± of which of four": ("method,w,x,y,z,±\na,1,2,3,4,1\n", "which of w, x, y and 1 more its"),
    "run or mean": ("method,seed,mean\na,0,72\n", "both seed and mean"),
    "text for a run": (f"{RUNS}a,0,high\n", "accuracy in line 2 .*'high'"),
    "session missing": (f"{SESSIONS}a,0,0,0.7\na,0,2,0.6\n", "0, 1, 2, …, got '0, 2'"),
    "from session 1": (f"{SESSIONS}a,0,1,0.7\na,0,2,0.6\n", "counted from 0"),
    "session twice": (f"{SESSIONS}a,0,0,0.7\na,0,0,0.6\n", "two lines of a seed 0 after session 0"),
    "half a session": (f"{SESSIONS}a,0,0.5,0.7\n", "line 2 .* whole number"),
    "no unit": ("method,mean,unit\na,72,km\n", "unknown unit 'km'"),
    "no direction": ("method,mean,better\na,72,more\n", "unknown better 'more'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_one_sentence(case: str, tmp_path: Path) -> None:
    text, sentence = REFUSED[case]
    with pytest.raises(UserError, match=sentence) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)


def test_a_unit_that_is_said_goes_before_the_size(tmp_path: Path) -> None:
    made = read(tmp_path, "method,mean,unit\na,0.72,%\nb,71,%\n")
    assert [r.value("mean") for r in made] == [0.0072, 0.71]


@pytest.mark.parametrize("head", ["method,mean", "method,seed,accuracy"])
def test_of_columns_that_are_not_read_twenty_are_named(head: str, tmp_path: Path) -> None:
    names = [f"n{i:02}" for i in range(22)]
    row = {"method": "a", "mean": "72", "seed": "0", "accuracy": "72"}
    cells = [*(row[name] for name in head.split(",")), *["text"] * 22]
    (tmp_path / "t.csv").write_text(f"{head},{','.join(names)}\n{','.join(cells)}\n")
    said: list[str] = []
    read_results(tmp_path / "t.csv", said.append)
    assert f"not read in {tmp_path}/t.csv: {', '.join(names[:20])} and 2 more" in said


def test_what_is_converted_and_not_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("method,mean,year\na,72,2021\n")
    said: list[str] = []
    read_results(tmp_path / "t.csv", said.append)
    path = tmp_path / "t.csv"
    assert said == [f"not read in {path}: year", f"mean of {path} is in percent"]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("A_last", "final_accuracy"),
        ("a_last", "final_accuracy"),
        ("A_AVG", "average_incremental_accuracy"),
        ("AIA", "average_incremental_accuracy"),
        ("aia", "average_incremental_accuracy"),
        ("A_auc", "average_anytime_accuracy"),
        ("AF", "average_forgetting"),
        ("PD", "performance_drop"),
        ("Accuracy", "accuracy"),
        ("RAA", "raa"),
    ],
)
def test_a_column_of_a_usual_name_is_that_metric(column: str, name: str, tmp_path: Path) -> None:
    (made,) = read(tmp_path, f"method,seed,{column}\na,0,0.725\n")
    assert made.value(name) == 0.725


@pytest.mark.parametrize("head", ["method,A_avg", "method,metric,mean"])
def test_a_printed_mean_of_a_usual_name_is_that_metric(head: str, tmp_path: Path) -> None:
    cells = "72.5" if head.endswith("A_avg") else "a_AVG,72.5"
    made = only(tmp_path, f"{head}\na,{cells}\n")
    assert made.value("average_incremental_accuracy") == pytest.approx(0.725)


def test_only_values_have_curves(tmp_path: Path) -> None:
    head = "method,seed,session,accuracy,protocol.base\n"
    made = only(tmp_path, f"{head}a,0,0,0.7,2\na,0,1,0.6,2\n")
    assert made.curves == {"accuracy": (0.7, 0.6)}


def test_two_names_of_one_metric_are_two_columns(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"two columns 'final_accuracy' \(A_last and final_acc"):
        read(tmp_path, "method,seed,A_last,final_accuracy\na,0,0.5,0.5\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",method,seed,accuracy,note\n0,a,0,0.5,x\n", "note, a column without a name"),
        (",method,accuracy\n0,a,0.5\n", "a column without a name"),
    ],
)
def test_columns_that_are_left_out_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    notes: list[str] = []
    read_results(tmp_path / "t.csv", notes.append)
    assert f"not read in {tmp_path / 't.csv'}: {said}" in notes
