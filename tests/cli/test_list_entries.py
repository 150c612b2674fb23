"""`embedbench list NAME`: what a learner, a protocol or a preset is, and its settings."""

import csv
import dataclasses
import json
import re
from pathlib import Path
from typing import Annotated, Literal, get_args, get_type_hints

import pytest
from commands import Call

from embedbench.cli import list_entries
from embedbench.config.describe_settings import REQUIRED, flatten_settings, list_settings
from embedbench.config.make_from_settings import make
from embedbench.config.setting_ranges import above, at_least, within
from embedbench.errors import UserError
from embedbench.learning.exemplars import Memory
from embedbench.runs import learner_and_protocol_names as names


def by_name(kind: str, name: str) -> dict[str, dict[str, str]]:
    return {row["setting"]: row for row in list_entries.describe(kind, name)["settings"]}


def test_a_learner_is_listed_with_its_settings(call: Call) -> None:
    code, text, _ = call("list", "ewc")
    assert code == 0
    lines = text.splitlines()
    assert lines[0].startswith("ewc: Elastic weight consolidation")
    assert lines[1].startswith("Source: Kirkpatrick et al. (2017)")
    assert lines[2] == "Takes and needs: sessions, images, heads."
    assert "--set ewc.SETTING=VALUE" in lines[3]
    at = lines.index("ewc.lam=none  (float or None, at least 0)")
    assert lines[at + 1] == "    λ ≥ 0, or None to search it."
    code, text, _ = call("list", "online-ewc")
    assert text.startswith("online-ewc: another name of ewc with merge=online, gamma=0.95. Elastic")
    assert "\nonline-ewc.gamma=0.95  (float" in text
    eeil = by_name("learners", "eeil")  # two settings that share a line of the docstring
    assert eeil["eeil.finetune_epochs"]["values"].startswith("int, at least 0")
    assert eeil["eeil.finetune_rate"]["values"] == "float, above 0"


@pytest.mark.parametrize("name", names.our_learners())
def test_a_memory_is_listed_with_what_the_learner_accepts(name: str) -> None:
    row = by_name("learners", name).get(f"{name}.memory.select")
    for choice in get_args(get_type_hints(Memory)["select"]) if row else ():
        assert row is not None
        memory = Memory(total=5, select=choice)
        try:
            make(names.learner_class(name), {"memory": memory}, name=name)
            accepted = True
        except UserError as e:
            accepted = "memory.select" not in str(e)
        assert (choice in row["values"].partition("one of ")[2].split(", ")) == accepted


@pytest.mark.parametrize("name", [*names.our_learners(), *names.our_protocols()])
def test_set_takes_every_setting_that_is_listed(name: str) -> None:
    """With its default nothing changes, and each has a meaning."""
    is_learner = name in names.our_learners()
    cls = (names.learner_class if is_learner else names.protocol_class)(name)
    start = make(cls, names.alias_settings(name), name=name)
    rows = by_name("learners" if is_learner else "protocols", name)
    given = {key.partition(".")[2]: row["default"] for key, row in rows.items()}
    assert make(cls, {k: v for k, v in given.items() if "," not in v}, name=name) == start
    assert all(row["meaning"] and row["values"] for row in rows.values()), rows


@dataclasses.dataclass
class Inner:
    """Inner.

    Parameters
    ----------
    depth : int
        How deep.
    """

    depth: Annotated[int, at_least(1, 9)] = 1


@dataclasses.dataclass
class Mine:
    """Mine.

    Parameters
    ----------
    rate : float
        How fast.
    inner : Inner
        A group.
    """

    share: Annotated[float, within("(0, 1]")] = 0.5
    rate: Annotated[float, above(0)] | None = 1.0
    kind: Literal["plain", "round"] = "plain"
    inner: Inner = dataclasses.field(default_factory=lambda: Inner(depth=3))


def test_ranges_groups_and_the_described_first() -> None:
    said = [(s.name, s.default, s.range, s.meaning) for s in flatten_settings(Mine)]
    assert said == [
        ("rate", 1.0, "above 0", "How fast."),
        ("inner.depth", 3, "at least 1, at most 9", "How deep."),
        ("share", 0.5, "in (0, 1]", ""),
        ("kind", "plain", "one of plain, round", ""),
    ]
    needs = dataclasses.make_dataclass("Needs", [("size", int)])
    assert [(s.name, s.default) for s in list_settings(needs)] == [("size", REQUIRED)]


def test_every_form_of_a_table(call: Call) -> None:
    rows = list(csv.DictReader(call("list", "mixture", "--csv").out.splitlines()))
    assert rows == [*by_name("protocols", "mixture").values()]
    assert call("list", "mixture", "--markdown")[1].startswith("| setting | default | values |")
    assert "\\toprule" in call("list", "mixture", "--latex")[1]
    assert call("list", "chance")[1].endswith("It has no settings.\n")


def test_a_protocol_and_a_preset_of_one_name(call: Call) -> None:
    assert re.findall("^iirc: ", call("list", "iirc").out, re.MULTILINE) == ["iirc: "] * 2
    both = json.loads(call("list", "iirc", "--json")[1])
    assert [data["kind"] for data in both] == ["protocols", "presets"]
    rows = list(csv.DictReader(call("list", "iirc", "--csv").out.splitlines()))
    assert len(rows) == sum(len(data["settings"]) for data in both)
    kemker = json.loads(call("list", "kemker", "--json").out)
    assert kemker["summary"].startswith("Kemker et al. (2018)")
    assert {"setting": "protocol.validation", "value": "test"} in kemker["settings"]
    summaries = {row["name"]: row["summary"] for row in list_entries.entries("presets")}
    assert summaries["kemker"] == kemker["summary"]


def test_a_stream_by_name_says_what_its_papers_print(call: Call) -> None:
    assert (
        "Its papers print accuracy." in json.loads(call("list", "b0-inc2", "--json").out)["about"]
    )


@pytest.mark.parametrize(
    ("name", "meant"), [("ewcc", "ewc"), ("class-incremental", "incremental-class")]
)
def test_what_has_no_settings_is_one_sentence(call: Call, name: str, meant: str) -> None:
    sentence = f"embedbench: unknown listing {name!r}. Did you mean {meant!r}?\n"
    assert call("list", name) == (2, "", sentence)


def test_an_entry_says_what_it_takes_and_its_package() -> None:
    entry = {"name": "mine", "summary": "Mine.", "takes": "images", "package": "kiln 1.0"}
    assert list_entries.listed_text([entry]).endswith("  Mine. (images) [kiln 1.0]")


def test_code_from_outside(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "listed_mine.py").write_text(
        "from dataclasses import dataclass\nfrom embedbench.models.ncm import NCM\n"
        "@dataclass\nclass Mine(NCM):\n    '''Mine.'''\n    extra: int = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code, text, err = call("list", "listed_mine:Mine")
    assert code == 0
    assert err == ""
    assert "\nlisted_mine:Mine.extra=3  (int)\n" in text
