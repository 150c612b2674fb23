"""What the reproductions share: papers, tables, files, runs."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pytest
from file_helpers import says
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.files.integrity_checks import damaged_rows
from embedbench.papers.paper import PaperData, PaperRuns, Variant, find_files, select_names
from embedbench.papers.paper_folders import names, paper
from embedbench.papers.paper_table import PaperTable, TableRow, Value, table_parts
from embedbench.scores.mean_intervals import Stat
from embedbench.studies.study import parse_settings
from embedbench.text.terminal_text import render_text

ALIASES = {
    "kemker2018": (),
    "masana2020": ("class-orderings",),
    "abdelsalam2021": ("iirc",),
    "tang2024": ("fscil",),
    "michel2023": ("new-metrics",),
}


def test_a_paper_is_found_by_its_first_author_and_year_and_by_aliases() -> None:
    assert {of_folder[0]: of_folder[1:] for of_folder in names().values()} == ALIASES
    for name, aliases in ALIASES.items():
        chosen = paper(name)
        assert all(paper(alias) is chosen for alias in aliases)
        parts = re.fullmatch(r"(\w+) et al\. \((\d{4})\): .+", chosen.facts["citation"])
        assert parts is not None
        assert name == chosen.name == "".join(parts.groups()).lower()
    every = ", ".join(sorted([*ALIASES, *(a for aliases in ALIASES.values() for a in aliases)]))
    with pytest.raises(UserError, match=f"paper 'new-metric'.* 'new-metrics'.* {every}"):
        paper("new-metric")


def test_a_table_has_only_the_parts_that_some_value_has() -> None:
    ours = Stat.of([0.25])
    cases = {
        ("v", "ours", "diff."): Value(0.2, ours),
        ("v", "ours"): Value(0.2, ours, stands_in=True),
        ("v",): Value(None, ours),
    }
    for heads, value in cases.items():
        rows = (TableRow(("x",), {"v": value}), TableRow(("y",), {}))
        table = PaperTable("1", "t", ("a",), ("v",), rows)
        lines = render_text(table_parts(table)).splitlines()
        assert tuple(lines[1].split()) == ("a", *heads)
        assert all(len(line) == 1 + len(heads) for line in table.lines())
    names = {"S6": "Table S6: t", "2 MB": "Table 2 MB: t", "Figure 3": "t", "Rankings": "t"}
    for name, heading in names.items():
        assert PaperTable(name, "t", (), ()).heading == heading


def test_files_go_by_their_stem(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one, two = (str(blob_file(tmp_path / at, 2, 4).path) for at in ("a.h5", "b/a.h5"))
    assert find_files([one, one]) == {"a": PaperData(Path(one))}
    with pytest.raises(UserError, match=re.escape(f"{one} and {two}")):
        find_files([one, two])
    with pytest.raises(UserError, match=r"none\.h5"):
        find_files([str(tmp_path / "none.h5")])
    named = {"cub": PaperData(Path(one), "cub"), "mnist": PaperData(Path(two))}
    assert find_files([f"cub={one}", f"mnist-stand-in={two}"], ["cub", "mnist"]) == named
    for item in (f"cup={one}", two):  # "a" is a name of the paper's
        with pytest.raises(UserError, check=says(what="--data", got=item)):
            find_files([item], ["a", "cub"])


def test_the_shipped_emoji_stand_in_where_no_file_is_given(tmp_path: Path) -> None:
    for name in ALIASES:
        said = list[str]()
        runs = paper(name).runs(tmp_path, [0], notify=said.append)
        ((key, data),) = runs.find_data([]).items()
        assert "emoji-vit.h5 is taken, 600 emoji" in said[0]
        assert key == ("cub" if name == "kemker2018" else "emoji-vit")
        assert data.file.name == "emoji-vit.h5"
        assert data.stands_in is True
        assert data.opened.samples.parents.max() >= 0  # the hierarchy of IIRC
    assert data.opened.shape == (600, 384)
    assert list(data.opened.layers.values()) == [384] * 4
    assert damaged_rows(data.file) == []


def test_settings_of_the_paper_yield_to_the_users_but_for_the_fixed(tmp_path: Path) -> None:
    er = Variant("ER", "er", parse_settings(["er.memory.total=0"]))
    gdumb, data = Variant("GDumb", "gdumb"), [PaperData(tmp_path / "a.h5")]

    class Runs(PaperRuns):
        every: ClassVar = {"er": er, "gdumb": gdumb}

    runs = Runs(tmp_path, [3, 4], items=["er.lr=0.5", "er.memory.total=9", "stop.epochs=2"])
    given: dict[str, Any] = {"er": {"lr": 0.1, "batch_size": 7}}
    cells = runs.plan(er, "incremental-class", data, given)
    assert [(c.seed, c.device) for c in cells] == [(3, "cpu"), (4, "cpu")]
    params = asdict(cells[0].learner.settings)
    assert (params["lr"], params["batch_size"], params["memory"]["total"]) == (0.5, 7, 0)
    (other, _) = runs.plan(gdumb, "incremental-class", data)
    assert asdict(other.learner.settings)["stop"]["epochs"] == 2
    assert runs.threads == 1
    assert runs.sessions_asked("incremental-class") == 0
    runs.items = ["stop.epocs=2", "sop.epochs=2"]
    with pytest.raises(UserError, match="unknown setting"):
        runs.plan(er, "incremental-class", data)


def test_the_text_of_a_value() -> None:
    ours = Stat.of([0.25, 0.35])
    assert Value(0.2, ours).difference == pytest.approx(0.1)
    assert {v.difference for v in (Value(0.2, ours, stands_in=True), Value(None, ours))} == {None}
    for value, texts in {
        # t(0.975, 1) = 12.706, sd/√2 = .05
        Value(0.2, ours): ("0.200", "0.300 ±0.635", "+0.100"),
        Value(0.2, Stat.of([0.1]), 1, remark="why"): ("0.2 *", "0.1", "−0.1"),
        Value(None, Stat.of([0.1]), 1, remark="why"): ("– *", "0.1", ""),
        Value(None, None, 1, remark="why"): ("– *", "–", ""),
        Value(51.8, Stat.of([60.0]), 1, stands_in=True, sd=5.3): ("51.8 (5.3)", "60.0", ""),
        Value(): ("–", "–", ""),
    }.items():
        assert value.texts() == texts


def test_all_names_are_selected_where_none_is_asked_for() -> None:
    assert select_names([], {"1": 0, "2": 0}, "table") == ["1", "2"]
    assert select_names(["2"], {"1": 0, "2": 0}, "table") == ["2"]
    with pytest.raises(UserError, match="unknown table '3'"):
        select_names(["3"], {"1": 0, "2": 0}, "table")
