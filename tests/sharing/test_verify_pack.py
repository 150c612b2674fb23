"""Forged packs beside an honest one: each forged run is not ranked, and the reason is named.

In all of them the numbers of the record follow from the answers, and SHA-256 is that of the
predictions: who forges uses our tools.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packs import Forgery, edited_record, forged, members, runs_of, write_members
from toy import class_stream, predictions
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.scores.label_set_predictions import LabelSets
from embedbench.scores.predictions import Predictions
from embedbench.sharing import verify_pack
from embedbench.sharing.board import board, write_board
from embedbench.sharing.pack import pack

Reasons = dict[str, list[str]]
TABLES = ("session", "samples_seen", "seen", "answer", "within")  # one row a moment


def relabelled(predictions: Predictions) -> Predictions:
    return replace(predictions, y=predictions.answer[-1].astype(np.int64))


def known(predictions: Predictions) -> Predictions:
    """Answers over all classes are right wherever the class was seen."""
    right = predictions.seen[:, predictions.y]
    return replace(
        predictions, answer=np.where(right, predictions.y, predictions.answer).astype(np.int32)
    )


def one_moment_more(predictions: Predictions) -> Predictions:
    """The last moment is there twice, the second time with right answers."""
    values = {name: getattr(predictions, name) for name in TABLES}
    last = {"answer": predictions.y, "within": predictions.y}
    return replace(
        predictions,
        **{k: np.concatenate([v, [last.get(k, v[-1])]], dtype=v.dtype) for k, v in values.items()},
    )


def own_answer(predictions: Predictions) -> Predictions:
    """One answer of the last moment is another one, so that the run is no duplicate."""
    answer = predictions.answer.copy()
    i = np.argmax(answer[-1] != predictions.within[-1])
    answer[-1, i] = predictions.within[-1, i]
    return replace(predictions, answer=answer)


def unranked(predictions: Predictions) -> Predictions:
    """Classes that were not answered are said not to be there."""
    assert predictions.rank is not None
    hidden = predictions.rank > 0
    changed: dict[str, Any] = {"rank": np.where(hidden, 65535, 0).astype(np.uint16)}
    if predictions.true_logp is not None:
        changed["true_logp"] = np.where(hidden, np.nan, predictions.true_logp)
    return replace(predictions, **changed)


def wrong(predictions: Predictions) -> Predictions:
    answer = (predictions.y + (np.arange(len(predictions.y)) > 5)) % predictions.seen.shape[1]
    both = np.repeat(answer[None].astype(np.int32), len(predictions.session), 0)
    return replace(predictions, answer=both, within=both)


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


def renamed_classes(record: Any) -> None:
    record["classes"] = [[f"{name}!" for name in names] for names in record["classes"]]


def by_itself(record: Any) -> None:
    own = re.sub("chance-.*/", "ncm-240f4494/", record["reference"]["chance_run"])
    record["reference"]["offline_runs"] = [own]


ELSEWHERE = "its place is .*by its settings and seed"
RECIPE = "its digest 'recipe' is not that of its protocol and parameters"
MOMENTS = "its 'moments' is not that of the stream"
# forgery of a run of ncm → why it is not ranked
FORGERIES: dict[str, tuple[Forgery, str]] = {
    "answers": (Forgery(known), "contradict those within the session"),
    "groups": (Forgery(lambda p: replace(p, group=0 * p.ids), full=True), "its 'group' is not"),
    "ranks": (Forgery(unranked, full=True), "its ranks contradict the candidates"),
    "parameters": (Forgery(relabelled, setting(protocol_params__sessions=7)), RECIPE),
    "unknown parameters": (Forgery(said=setting(protocol_params__mine=1)), "of protocol 'mine'"),
    "seeds": (Forgery(said=setting(seeds__init=1)), "its four seeds are not"),
    "another seed": (Forgery(said=setting(seed=7, seeds=asdict(Seeds.of(7)))), "its digest '[te]"),
    "references": (Forgery(said=by_itself), "is not in the pack|is of 'ncm', not of offline"),
    "no references": (Forgery(said=setting(reference__chance_run=None)), "chance is not in the"),
    "reference's name": (Forgery(said=setting(reference__learner="linear")), "references are not"),
    "duplicates": (Forgery(moved=lambda place: re.sub("seed-.", "seed-5", place)), ELSEWHERE),
    "moments": (Forgery(one_moment_more), MOMENTS),
    "samples seen": (Forgery(lambda p: replace(p, samples_seen=p.samples_seen // 2)), MOMENTS),
    "seen": (Forgery(lambda p: replace(p, seen=p.seen | True)), "its 'seen' is not that of the"),
    "labels": (Forgery(relabelled), "its 'y' is not that of the stream"),
    "learns": (Forgery(said=setting(learns=False)), "its learns is False"),
    "session id": (Forgery(said=setting(session_id_at_test=True)), "its session_id_at_test"),
    "candidates": (Forgery(said=setting(n_candidates=[2] * 4)), "its 'n_candidates' is not that"),
    "class names": (Forgery(said=renamed_classes), "its 'classes' is not that"),
    "names": (Forgery(said=setting(learner="mlp")), "unknown setting of learner|as this version"),
    "names of others": (Forgery(said=setting(learner="best:Learner")), "is code of others"),
    "other settings": (Forgery(said=setting(learner_params__metric="cosine")), ELSEWHERE),
}
# forgery of the references of all runs → why none of them is ranked
OF_REFERENCES = {
    "labels of offline": ({"offline-": Forgery(relabelled)}, "of its reference .*, its 'y' is no"),
    "settings of offline": (
        {"offline-": Forgery(said=setting(learner_params__mlp__units=9))},
        "references are not offline and chance runs of its stream",
    ),
    "seeds of offline": ({"offline-": Forgery(said=setting(seeds__init=1))}, "its seeds are not t"),
    "learner of chance": (
        {"/chance-": Forgery(said=setting(learner="ncm", learner_params={}, learns=True))},
        "chance-.* is of 'ncm', not of chance",
    ),
}


@pytest.fixture(scope="module")
def made(team: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Reasons]:
    """A board of an honest pack and forged ones, and the reasons for each forgery, by its place.

    One run of each seed is forged at a time.
    """
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
    places["duplicates"] = places["duplicates"][0], "seed-5"
    for name, (forgeries, _) in OF_REFERENCES.items():
        packs.append(forged(small, folder / f"{name}.zip", forgeries))
        places[name] = packs[-1].name, ""
    words = ["report", *packs, "--data", team / "e.h5", "--site", folder / "site"]
    assert CliRunner().invoke(app, list(map(str, words))).exit_code == 1
    board = json.loads((folder / "site" / "board.json").read_text())
    left = {s["pack"]: {u["run"]: u["reason"] for u in s["unranked"]} for s in board["submissions"]}
    reasons = {
        name: [why for run, why in left[pack].items() if at in run and "/chance-" not in run]
        for name, (pack, at) in places.items()
    }
    return board, reasons


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_run_is_not_ranked(made: tuple[Any, Reasons], name: str) -> None:
    (reason,) = made[1][name]
    assert re.search(FORGERIES[name][1], reason)


@pytest.mark.thorough
@pytest.mark.parametrize("name", OF_REFERENCES)
def test_runs_with_forged_references_are_not_ranked(made: tuple[Any, Reasons], name: str) -> None:
    assert len(made[1][name]) == 3
    for reason in made[1][name]:
        assert re.search(OF_REFERENCES[name][1], reason)


@pytest.mark.thorough
def test_an_honest_pack_is_ranked_beside_them(made: tuple[Any, Reasons]) -> None:
    board = made[0]
    honest = board["submissions"][0]
    assert honest["ranked"] == 6
    assert honest["unranked"] == []
    (stream,) = board["streams"]
    mine = {e["learner"]: e["n"] for e in stream["entries"] if e["pack"] == honest["sha256"]}
    assert mine == {"ncm": 3, "slda": 3, "chance": 3}
    assert {e["by"] for e in stream["entries"]} == {"Team A"}


def test_a_learner_that_needs_the_session_is_ranked_beside_chance(tmp_path: Path) -> None:
    more = {"references": 0, "protocol.sessions": 2, "pathnet.batches": 1, "pathnet.cap": 1}
    pack(runs_of(tmp_path, "pathnet", protocol="permutation", **more), tmp_path / "a.zip")
    assert board([tmp_path / "a.zip"], [tmp_path / "e.h5"]).submissions[0].ranked == 3


def test_what_more_moments_would_cost_is_not_computed(
    team: Path, lean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(verify_pack, "_check_answers", lambda _, p: asked.append(len(p.session)))
    path = forged(lean, tmp_path / "b.zip", {"/ncm-": Forgery(one_moment_more)})
    (one,) = board([path], [team / "e.h5"]).submissions[0].unranked
    assert re.search(MOMENTS, one.reason)
    assert {*asked} == {1, 4}  # of references; the forged run has five


@pytest.mark.thorough
def test_moments_within_sessions_are_those_of_the_learner(tmp_path: Path) -> None:
    honest = tmp_path / "a.zip"
    pack(runs_of(tmp_path, "ncm", references=2, **{"protocol.evaluate_every": 7}), honest)

    def ends(predictions: Predictions) -> Predictions:
        last = np.append(np.diff(predictions.session) > 0, True)
        return replace(predictions, **{name: getattr(predictions, name)[last] for name in TABLES})

    bad = forged(honest, tmp_path / "b.zip", {"/ncm-240f4494/seed-0": Forgery(ends)})
    (first,) = board([honest], [tmp_path / "e.h5"]).submissions
    assert first.ranked == 3
    assert first.unranked == ()
    ((one,),) = (s.unranked for s in board([bad], [tmp_path / "e.h5"]).submissions)
    assert one.reason == "its evaluation moments are not those of its protocol and learner"
    second = {"offline-0606c50b-583dbe35/seed-1": Forgery(said=setting(learner_params__mlp__lr=9))}
    last = board([forged(honest, tmp_path / "c.zip", second)], [tmp_path / "e.h5"]).submissions[0]
    assert "/seed-1, its settings are not those of its place" in last.unranked[0].reason


def test_reasons(team: Path, lean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = setting(moments={"samples_seen": [1] * 5000, "pooled": [0.5] * 5000})
    path = edited_record(lean, tmp_path / "b.zip", "/ncm-", large)
    (one,) = board([path], [team / "e.h5"]).submissions[0].unranked
    assert "moments.samples_seen is [1, 1, 1, " in one.reason
    assert len(one.reason) < 250
    monkeypatch.setattr(verify_pack, "make_task", lambda *_: [][0])
    (one, *_) = board([lean], [team / "e.h5"]).submissions[0].unranked
    assert one.reason == "its stream cannot be rebuilt (list index out of range)"
    path = edited_record(lean, path, "/ncm-", lambda v: v.pop("predictions_sha256"))
    said = {one.reason for one in board([path]).submissions[0].unranked}
    assert "its record does not name the SHA-256 of its predictions" in said


def test_what_no_learner_of_a_stream_can_have_answered() -> None:
    stream = class_stream([[0, 1], [2]], n_test=1)
    assert verify_pack._difference(stream, LabelSets.from_sets([[1]], [[1]], [-1])) == "y"
    stream = replace(stream, eval_sets=[replace(e, candidates=e.classes) for e in stream.eval_sets])
    within = np.array([[0, 1, 2]] * 2)
    p = predictions([[0, 1], [2]], [[0, 1, 0], [0, 1, 2]], [[0, 1], [2]], within=within)
    verify_pack._check_answers(stream, p)
    with pytest.raises(UserError, match=r"outside of .* candidates"):
        verify_pack._check_answers(stream, replace(p, answer=p.answer[[0, 0]]))


def test_shares_of_other_references_are_not_shown(team: Path, tmp_path: Path) -> None:
    parts = {"offline-": Forgery(wrong), "/ncm-": Forgery(own_answer)}
    other = forged(team / "a.zip", tmp_path / "b.zip", parts)
    made = board([team / "a.zip", other], [team / "e.h5"])
    (stream,) = made.streams
    assert len({e.pack for e in stream.entries if e.learns}) == 2
    assert "Ω of these rows are shares of different offline references" in " ".join(stream.notes)
    assert all((entry.verdict is not None) == entry.learns for entry in stream.entries)
    page = (write_board(made, tmp_path / "site")[0].parent / stream.page).read_text()
    shown = [f'data-sort="{e.metrics["omega_all"].mean!r}"' in page for e in stream.entries]
    assert not any(shown)
