"""Forged packs beside an honest one: each forged run is not ranked, and the reason is named.

In all of them the numbers of the record follow from the answers, and SHA-256 is that of the
predictions: who forges uses our tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packs import Forgery, forged, members, write_members
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.config.seeds import Seeds
from embedbench.scores.predictions import Predictions


def relabelled(predictions: Predictions) -> Predictions:
    """The labels are what was answered at last."""
    return replace(predictions, y=predictions.answer[-1].astype(np.int64))


def known(predictions: Predictions) -> Predictions:
    """Answers over all classes are right wherever the class was seen."""
    right = predictions.seen[:, predictions.y]
    return replace(
        predictions, answer=np.where(right, predictions.y, predictions.answer).astype(np.int32)
    )


def setting(**values: Any) -> Callable[[Any], None]:
    """Edit a record: `a__b=1` is `values["a"]["b"] = 1`."""

    def edit(record: Any) -> None:
        for path, value in values.items():
            *folders, last = path.split("__")
            part = record
            for folder in folders:
                part = part[folder]
            part[last] = value

    return edit


def reseeded(record: Any) -> None:
    """The run of one seed, said to be that of another."""
    record |= {"seed": 7, "seeds": asdict(Seeds.of(7))}


def reordered(record: Any) -> None:
    record["seeds"]["init"] += 1


def renamed_classes(record: Any) -> None:
    record["classes"] = [[f"{name}!" for name in names] for names in record["classes"]]


def by_itself(record: Any) -> None:
    """A run is the reference of itself."""
    own = re.sub("chance-.*/", "ncm-240f4494/", record["reference"]["chance_run"])
    record["reference"]["offline_runs"] = [own]


ELSEWHERE = "its place is .*by its settings and seed"
RECIPE = "its digest 'recipe' is not that of its protocol and parameters"
# forgery of a run of ncm → why it is not ranked
FORGERIES: dict[str, tuple[Forgery, str]] = {
    "answers": (Forgery(known), "contradict those within the session"),
    "parameters": (Forgery(relabelled, setting(protocol_params__sessions=7)), RECIPE),
    "no parameters": (
        Forgery(relabelled, setting(protocol_params__validation="nan")),
        "unknown validation 'nan'",
    ),
    "unknown parameters": (
        Forgery(relabelled, setting(protocol_params__mine=1)),
        "unknown setting of protocol 'mine'",
    ),
    "seeds": (Forgery(said=reordered), "its four seeds are not those that seed [012] draws"),
    "another seed": (Forgery(said=reseeded), "its digest '(train|eval)' is not that of"),
    "references": (Forgery(said=by_itself), "is not in the pack|is of 'ncm', not of offline"),
    "no references": (
        Forgery(said=setting(reference__chance_run=None)),
        "its reference chance is not in the pack",
    ),
    "duplicates": (Forgery(moved=lambda place: re.sub("seed-.", "seed-5", place)), ELSEWHERE),
    "labels": (Forgery(relabelled), "its true labels are not those of the stream"),
    "learns": (Forgery(said=setting(learns=False)), "its learns is False"),
    "session id": (Forgery(said=setting(session_id_at_test=True)), "its session_id_at_test"),
    "candidates": (
        Forgery(said=lambda values: values.update(n_candidates=[2] * len(values["n_train"]))),
        "its numbers of candidates are not those",
    ),
    "class names": (Forgery(said=renamed_classes), "its names of classes are not those"),
    "names": (Forgery(said=setting(learner="mlp")), "unknown setting of learner|as this version"),
    "names of others": (Forgery(said=setting(learner="best:Learner")), "is code of others"),
    "settings": (Forgery(said=setting(learner_params__mine=1)), "unknown setting of learner"),
    "other settings": (Forgery(said=setting(learner_params__metric="cosine")), ELSEWHERE),
}
# forgery of the references of all runs → why none of them is ranked
OF_REFERENCES = {
    "labels of offline": (
        {"offline-": Forgery(relabelled)},
        "of its reference references/offline-.*, its true labels are not those",
    ),
    "settings of offline": (
        {"offline-": Forgery(said=setting(learner_params__mlp__units=9))},
        "references are not offline and chance runs of its stream",
    ),
    "learner of chance": (
        {"/chance-": Forgery(said=setting(learner="ncm", learner_params={}, learns=True))},
        "chance-.* is of 'ncm', not of chance",
    ),
}


@dataclass(frozen=True)
class Made:
    """The exit code, the board, and for each forgery the reasons for its runs, by their places."""

    code: int
    board: dict[str, Any]
    reasons: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def made(team: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A board of an honest pack and forged ones; one run of each seed is forged at a time."""
    folder = tmp_path_factory.mktemp("forged")
    packs, places, names = [team / "a.zip"], {}, list(FORGERIES)
    small = write_members(
        folder / "small.zip", {k: v for k, v in members(packs[0]).items() if "/slda-" not in k}
    )
    for k in range(0, len(names), 3):
        three = {f"/ncm-240f4494/seed-{i}": name for i, name in enumerate(names[k : k + 3])}
        packs.append(folder / f"{k}.zip")
        forged(small, packs[-1], {at: FORGERIES[name][0] for at, name in three.items()})
        places |= {name: (packs[-1].name, at) for at, name in three.items()}
    for name, (forgeries, _) in OF_REFERENCES.items():
        packs.append(forged(small, folder / f"{name}.zip", forgeries))
        places[name] = packs[-1].name, ""
    words = ["report", *packs, "--data", team / "e.h5", "--site", folder / "site"]
    result = CliRunner().invoke(app, list(map(str, words)))
    board = json.loads((folder / "site" / "board.json").read_text())
    left = {s["pack"]: {u["run"]: u["reason"] for u in s["unranked"]} for s in board["submissions"]}
    reasons = {
        name: {
            run: why
            for run, why in left[pack].items()
            if at in run or (name == "duplicates" and "seed-5" in run)
        }
        for name, (pack, at) in places.items()
    }
    return Made(result.exit_code, board, reasons)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_run_is_not_ranked(made: Made, name: str) -> None:
    (reason,) = made.reasons[name].values()
    assert re.search(FORGERIES[name][1], reason)
    assert made.code == 1


@pytest.mark.parametrize("name", OF_REFERENCES)
def test_runs_with_forged_references_are_not_ranked(made: Made, name: str) -> None:
    reasons = {run: why for run, why in made.reasons[name].items() if "/chance-" not in run}
    assert len(reasons) == 3
    for reason in reasons.values():
        assert re.search(OF_REFERENCES[name][1], reason)


def test_an_honest_pack_is_ranked_beside_them(made: Made) -> None:
    honest = made.board["submissions"][0]
    assert (honest["ranked"], honest["unranked"]) == (9, [])
    (stream,) = made.board["streams"]
    mine = {e["learner"]: e for e in stream["entries"] if e["pack"] == honest["sha256"]}
    assert {name: e["n"] for name, e in mine.items()} == {"ncm": 3, "slda": 3, "chance": 3}
    assert all(mine[name]["ranks"]["final_accuracy"] for name in ("ncm", "slda"))
    others = [e for e in stream["entries"] if e["learner"] == "ncm" and e["by"] == "Forger"]
    assert [e["n"] for e in others] == [1]  # the run that was copied to another seed
