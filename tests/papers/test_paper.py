"""What the reproductions share: papers, tables, files, runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.papers.catalogue import PAPERS, reproducer
from embedbench.papers.data import find_files
from embedbench.papers.page import save, table_text
from embedbench.papers.published import published
from embedbench.papers.runs import Runs, wanted
from embedbench.papers.table import Table, Value
from embedbench.scores.stats import Stat


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_has_published_values_and_what_runs_it(paper: str) -> None:
    assert published(paper)["paper"]
    assert published(paper)["tables"]
    assert callable(reproducer(paper))


def test_an_unknown_paper_is_refused() -> None:
    with pytest.raises(UserError, match="Did you mean 'new-metrics'"):
        reproducer("new-metric")


def test_a_table_has_only_the_parts_that_some_value_has() -> None:
    ours = Stat.of([0.25])
    cases = {
        ("v", "ours", "diff."): Value(0.2, ours),
        ("v", "ours"): Value(0.2, ours, stands_in=True),
        ("v",): Value(None, ours),
    }
    for heads, value in cases.items():
        table = Table("1", "t", ("a",), ("v",), [(("x",), {"v": value}), (("y",), {})])
        lines = table_text(table).splitlines()
        assert tuple(lines[1].split()) == ("a", *heads)
        assert all(len(line) == 1 + len(heads) for line in table.lines())


def test_a_printed_deviation_stands_in_brackets() -> None:
    value = Value(51.8, Stat.of([60.0]), 1, stands_in=True, sd=5.3)
    assert value.texts() == ("51.8 (5.3)", "60.0", "")
    table = Table("1", "t", ("a",), ("v",), [(("x",), {"v": value})])
    assert table.to_json()["rows"][0]["values"]["v"]["published_sd"] == 5.3


def test_names_that_are_words_stand_alone() -> None:
    heads = {"S6": "Table S6", "2 MB": "Table 2 MB", "Figure 3": "Figure 3", "Rankings": "Rankings"}
    for name, short in heads.items():
        assert Table(name, "t", (), ()).short == short


def test_a_page_places_figures_as_asked(tmp_path: Path) -> None:
    table = Table("Figure 1", "t", (), (), figures=[("a", "<svg></svg>")], across=2)
    page = save([table], "new-metrics", tmp_path).read_text(encoding="utf-8")
    assert "repeat(2, 1fr)" in page
    assert json.loads((tmp_path / "new-metrics.json").read_text())[0]["table"] == "Figure 1"


def test_files_go_by_their_stem(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one = blob_file(tmp_path / "a.h5", 2, 4).path
    two = blob_file(tmp_path / "b" / "a.h5", 2, 4).path
    assert find_files([str(one), str(one)], tmp_path) == {"a": one}
    with pytest.raises(UserError, match="have one name"):
        find_files([str(one), str(two)], tmp_path)
    with pytest.raises(UserError, match=r"none\.h5"):
        find_files([str(tmp_path / "none.h5")], tmp_path)


def test_wanted_is_all_where_nothing_is_asked() -> None:
    assert wanted([], {"1": 0, "2": 0}, "table") == ["1", "2"]
    assert wanted(["2"], {"1": 0, "2": 0}, "table") == ["2"]
    with pytest.raises(UserError, match="unknown table '3'"):
        wanted(["3"], {"1": 0, "2": 0}, "table")


def test_settings_of_the_paper_yield_to_the_users_but_for_the_fixed(tmp_path: Path) -> None:
    runs = Runs(
        tmp_path,
        [3, 4],
        items=["er.lr=0.5", "er.memory.total=9", "stop.epochs=2"],
        known=["er", "gdumb"],
    )
    items, fixed = ["er.lr=0.1", "er.batch_size=7"], ["er.memory.total=0"]
    cells = runs.plan("er", "incremental-class", [tmp_path / "a.h5"], items, fixed=fixed)
    assert [c.seed for c in cells] == [3, 4]
    params = asdict(cells[0].learner.settings)
    assert (params["lr"], params["batch_size"], params["memory"]["total"]) == (0.5, 7, 0)
    (other, _) = runs.plan("gdumb", "incremental-class", [tmp_path / "a.h5"], [])
    assert asdict(other.learner.settings)["stop"]["epochs"] == 2
    assert runs.sessions_asked("incremental-class") == 0
    runs.items = ["protocol.sessions=7"]
    assert runs.sessions_asked("incremental-class") == 7
    runs.items = ["stop.epocs=2", "sop.epochs=2"]
    with pytest.raises(UserError, match="unknown setting"):
        runs.plan("er", "incremental-class", [tmp_path / "a.h5"], [])
