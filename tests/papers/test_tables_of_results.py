"""Files of results as tables for claims: names of data, joins by seed, curves and digits."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from file_helpers import says

from embedbench.errors import UserError
from embedbench.papers.claim_table import LAST, PRINTED, ClaimTable, Draws
from embedbench.papers.paper_table import EXACT, PaperTable, TableRow, Value
from embedbench.papers.result_files import DataFile, PaperResults
from embedbench.papers.tables_of_results import make_row, tables_of_results
from embedbench.reports.results import Results
from embedbench.scores.mean_intervals import Stat

Values = Mapping[Any, Sequence[float]]  # by labels


def tables(
    *sources: Values,
    name: str = "2",
    heads: Sequence[str] = ("learner", "data"),
    seeds: Sequence[int] = (0, 1, 2),
    official: Mapping[str, str] | None = None,
    files: Sequence[str] = (),
) -> dict[str, ClaimTable]:
    """The tables of results with one table of one column, "Ω", by file."""
    results = {}
    for i, rows in enumerate(sources):
        made = tuple(TableRow(k, {"Ω": Value(None, Stat.of(v))}) for k, v in rows.items())
        table = PaperTable(name, "", tuple(heads), ("Ω",), made)
        given = tuple(DataFile(f"{file}.h5", {}) for file in files)
        results[f"file {i}"] = PaperResults("a", "", "", {}, tuple(seeds), given, (), (table,))
    return {table.file: table for table in tables_of_results(results, official or {})}


def runs_of(table: ClaimTable, learner: str = "a") -> dict[Any, float]:
    number = table("Ω", learner=learner)
    return dict(zip(number.seeds, number.values.tolist(), strict=True))


THREE: Values = {("a", "MNIST"): [0.1, 0.2, 0.3]}


def test_data_by_a_label() -> None:
    assert runs_of(tables(THREE)["MNIST"]) == {0: 0.1, 1: 0.2, 2: 0.3}


def test_a_stand_in_by_its_label() -> None:
    made = tables({("a", "emoji for CUB-200 / words for AudioSet"): [0.1, 0.2, 0.3]})
    assert [(t.file, t.stands_for) for t in made.values()] == [
        ("emoji / words", "CUB-200 / AudioSet")
    ]


@pytest.mark.parametrize(
    ("name", "official", "files", "file"),
    [
        ("5 · emoji", {"5": "IIRC-CIFAR"}, ["emoji"], "emoji"),
        ("5 · cifar", {"cifar": "IIRC-CIFAR"}, ["images"], "IIRC-CIFAR"),
        ("5", {"5": "IIRC-CIFAR"}, ["images"], "IIRC-CIFAR"),
        ("5", {}, ["images"], "images"),
        ("5", {"5": "IIRC-CIFAR"}, [], PRINTED),
    ],
)
def test_data_by_the_name_of_a_table(
    name: str, official: Any, files: Sequence[str], file: str
) -> None:
    made = tables({("a",): [0.1]}, name=name, heads=["learner"], official=official, files=files)
    assert list(made) == [file]


def test_sources_are_joined_by_seed() -> None:
    joined = tables(THREE, {("a", "MNIST"): [0.1, 0.2, 0.3]})["MNIST"]
    assert runs_of(joined) == {0: 0.1, 1: 0.2, 2: 0.3}


def test_flags_of_one_source_hold_where_another_does_not_say_them() -> None:
    def of(flags: tuple[str, ...] | None) -> PaperResults:
        row = TableRow(("a", "MNIST"), {"Ω": Value(None, Stat.of([0.1, 0.2]), flags=flags)})
        table = PaperTable("2", "", ("learner", "data"), ("Ω",), (row,))
        return PaperResults("a", "", "", {}, (0, 1), (), (), (table,))

    says, silent = of(("few-steps", "test-validation")), of(None)
    for sources in ({"x": says, "y": silent}, {"x": silent, "y": says}):
        (table,) = tables_of_results(sources, {})
        assert table("Ω", learner="a").flags == {"few-steps", "test-validation"}


def test_sources_that_disagree_are_refused() -> None:
    with pytest.raises(UserError, check=says(remedy="judge these results apart")):
        tables(THREE, {("a", "MNIST"): [0.1, 0.2, 0.9]})


def test_of_runs_with_unknown_seeds_the_longer_list_stays() -> None:
    (table,) = tables({("a", "MNIST"): [0.4]}, THREE).values()
    assert sorted(runs_of(table).values()) == [0.1, 0.2, 0.3]


def test_runs_with_unknown_seeds_of_one_source_are_paired_by_place() -> None:
    both: Values = {("a", "MNIST"): [1.0, 2.0], ("b", "MNIST"): [0.5, 1.0]}
    table = tables(both)["MNIST"]
    gap = table("Ω", learner="a") - table("Ω", learner="b")
    assert gap.values.tolist() == [0.5, 1.0]


def test_a_table_by_session_is_a_curve_of_each_learner() -> None:
    rows: Values = {("0",): [0.9, 0.8, 0.7], ("2",): [0.5, 0.4, 0.3]}
    table = tables(rows, name="5 · emoji", heads=["after session"])["emoji"]
    assert table("pw-JS", learner="Ω", at=LAST).values.tolist() == [0.5, 0.4, 0.3]


def test_a_session_that_a_curve_lacks_is_missing() -> None:
    rows: Values = {("0",): [0.9, 0.8, 0.7], ("2",): [0.5, 0.4, 0.3]}
    table = tables(rows, name="5 · emoji", heads=["after session"])["emoji"]
    assert [number.runs for number in table.curve("pw-JS", learner="Ω")] == [3, 0, 3]


def test_what_no_row_has_is_missing() -> None:
    number = tables(THREE)["MNIST"]("Ω", learner="a", protocol="permutation")
    assert math.isnan(number.mean)


def test_a_number_that_is_undefined_in_a_run_is_missing() -> None:
    table = tables({("a", "MNIST"): [0.1, math.nan, 0.3]})["MNIST"]
    assert table("Ω", learner="a").runs == 0


def test_rows_that_are_not_told_apart_are_refused() -> None:
    rows: Values = {("a", "x"): [0.1, 0.2, 0.3], ("a", "y"): [0.4, 0.5, 0.6]}
    table = tables(rows, name="2 · emoji", heads=("learner", "value"))["emoji"]
    what = "a, Ω of table 2: expected one row of each seed"
    with pytest.raises(UserError, check=says(what=what, remedy="name more of its labels")):
        table("Ω", learner="a", table="2")


@pytest.mark.parametrize(
    ("value", "agrees"),
    [
        (Value(0.33, Stat.of([0.3349]), 2, made=EXACT), [True]),
        (Value(0.33, Stat.of([0.3351]), 2, made=EXACT), [False]),
        (Value(0.99, Stat.of([0.3349]), 2, made=EXACT, reads=0.33), [True]),  # a misprint
        (Value(0.33, Stat.of([0.33]), 2, True, made=EXACT), []),  # of a stand-in
        (Value(0.33, Stat.of([0.33]), 2), []),  # of runs
        (Value(0.33, None, 2, made=EXACT), []),
    ],
)
def test_printed_digits(value: Value, agrees: list[bool]) -> None:
    table = PaperTable("2", "", ("k",), ("Ω",), (TableRow(("x",), {"Ω": value}),))
    results = PaperResults("a", "", "", {}, (), (), (), (table,))
    made = tables_of_results({"": results}, {})
    contrasts = [contrast for t in made for contrast in t.digits("Ω", table="2")]
    assert [float(contrast.margin) > 0 for contrast in contrasts] == agrees


def test_printed_digits_are_named_with_their_table() -> None:
    """Rows of two tables may have the same labels, as Tables 1 and 2 of Michel et al."""
    value = Value(0.33, Stat.of([0.33]), 2, made=EXACT)
    made = [PaperTable(n, "", ("k",), ("Ω",), (TableRow(("x",), {"Ω": value}),)) for n in "12"]
    results = PaperResults("a", "", "", {}, (), (), (), tuple(made))
    (table,) = (t for t in tables_of_results({"": results}, {}) if t.file == PRINTED)
    names = [contrast.number.name for contrast in table.digits("Ω")]
    assert names == ["Table 1: x Ω", "Table 2: x Ω"]


def test_simulated_runs_have_the_printed_mean_and_spread() -> None:
    row = make_row({"learner": "a"}, {"Ω": Stat.printed(3.0, 10, sd=2.0)}, None)
    number = ClaimTable(Results((row,)), draws=Draws(20_000, 3))("Ω", learner="a")
    assert (number.values.mean(), number.values.std()) == pytest.approx((3, 2), abs=0.05)


def test_simulated_numbers_of_one_row_move_together() -> None:
    columns = {"Ω": Stat.printed(3.0, 10, sd=2.0), "M": Stat.printed(1.0, 10, sd=2.0)}
    table = ClaimTable(Results((make_row({"learner": "a"}, columns, None),)), draws=Draws(5, 3))
    assert (table("Ω", learner="a") - table("M", learner="a")).values == pytest.approx(2)
