"""Names that carry settings: over a preset's, under `--set`; the record holds them in full."""

from dataclasses import asdict
from typing import Any

import pytest
from plan_runs import plan

from embedbench import api
from embedbench.cli import list_entries
from embedbench.models.er import ER
from embedbench.models.icarl import ICaRL
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.studies.presets import preset


def params(name: str, *items: str, preset: str | None = None) -> dict[str, Any]:
    """The learner's complete settings in the cell of a run."""
    (cell,) = plan(["file.h5"], "incremental-class", [name], [0], items, preset=preset)
    assert cell.learner.name == name
    made: dict[str, Any] = asdict(cell.learner.settings)
    return made


def test_a_name_brings_its_settings() -> None:
    assert learner_class("er-infinite") is ER
    assert params("er-infinite")["memory"]["select"] == "all"
    assert params("er")["memory"]["select"] == "reservoir"
    for name, head in (("icarl-cnn", "linear"), ("icarl-norm", "cosine")):
        assert learner_class(name) is ICaRL
        assert (params(name)["answer"], params(name)["head"]) == ("logits", head)
    assert (params("icarl")["answer"], params("icarl")["head"]) == ("means", "linear")


def test_over_a_preset_and_under_the_command_line() -> None:
    made = params("er-infinite", preset="iirc")
    assert made["memory"] == {"total": None, "per_class": 20, "select": "all"}
    assert made["stop"]["rule"] == "plateau"
    made = params("er-infinite", "er-infinite.lr=0.3", "weight_decay=0", preset="iirc")
    assert (made["lr"], made["weight_decay"], made["memory"]["select"]) == (0.3, 0, "all")
    made = params("er-infinite", "er-infinite.memory.select=balanced")
    assert made["memory"]["select"] == "balanced"
    assert params("icarl-norm", "icarl-norm.head=linear")["head"] == "linear"


def test_two_names_of_one_class_in_one_run() -> None:
    items = ["er.lr=0.1", "er-infinite.lr=0.2", "batch_size=9"]
    cells = plan(["file.h5"], "incremental-class", ["er", "er-infinite"], [0], items)
    made = [asdict(c.learner.settings) for c in cells]
    assert [m["lr"] for m in made] == [0.1, 0.2]
    assert [m["batch_size"] for m in made] == [9, 9]
    assert [m["memory"]["select"] for m in made] == ["reservoir", "all"]


def test_from_python_and_in_the_list() -> None:
    learner = api.make_learner("icarl-norm", units=7)
    assert isinstance(learner, ICaRL)
    assert (learner.units, learner.head) == (7, "cosine")
    assert api.make_learner("icarl_norm") == api.make_learner("icarl-norm")
    said = {e["name"]: e["summary"] for e in list_entries.entries("learners")}
    assert said["er-infinite"] == "another name of er with memory.select=all"
    assert said["icarl-norm"] == "another name of icarl with answer=logits, head=cosine"
    assert said["fel-2012"] == "another name of fel with value=sign"
    assert said["finetune"] == "another name of mlp"


@pytest.mark.parametrize("name", sorted({key.target for key in preset("iirc")}))
def test_the_preset_iirc(name: str) -> None:
    made = params(name, preset="iirc")
    made = made.get("mlp", made)
    stop = made["stop"]
    assert (made["lr"], made["batch_size"], made["weight_decay"]) == (1.0, 128, 1e-5)
    assert (made["optimiser"], made["optimiser_state"]) == ("sgd", "fresh")
    assert (stop["rule"], stop["monitor"], stop["patience"]) == ("plateau", "pw_js", 10)
    assert stop["min_delta"] == 1e-3
    once = name == "offline"
    assert (stop["epochs"], stop["first_epochs"]) == ((200, None) if once else (140, 280))
    last = name in ("agem", "icarl", "icarl-cnn", "icarl-norm", "lucir", "bic")
    assert stop["restore"] is not last
    if "memory" in made:
        herded = last and name != "agem"
        expected = "all" if name == "er-infinite" else "herding" if herded else "random"
        assert made["memory"] == {"total": None, "per_class": 20, "select": expected}
