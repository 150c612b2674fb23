"""Answers of another tool: they come in as the run that ours would be, or not at all."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import PROVENANCE, make_samples, says
from plan_runs import plan
from protocol_files import make_file

from embedbench.api import make_learner
from embedbench.checks.learner_check_tools import same
from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.files.raw_pixels import pixels_recipe
from embedbench.files.write_file import write_file
from embedbench.interop.exported_stream import (
    LISTS,
    STREAM,
    ExportedStream,
    export,
    label_notes,
    load,
)
from embedbench.interop.import_answers import import_answers, parse_tool, read_answers
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_dirs import checkpoint_path
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.scores import record_files
from embedbench.scores.predictions import Predictions
from embedbench.scores.verified_records import rescore
from embedbench.storage import leases

Ours = tuple[dict[str, Any], Predictions]
TOOL = parse_tool("avalanche-lib==0.6.0")
SMALL = [
    f"offline.mlp.{s}" for s in ("units=8", "batch_size=64", "stop.rule=epochs", "stop.epochs=1")
]
PROTOCOLS = {
    "incremental-class": ["protocol.base=2", "protocol.order=random"],
    "permutation": ["protocol.sessions=3"],
}


def cell_of(folder: Path, protocol: str = "incremental-class") -> RunSpec:
    path = folder / "file.h5"
    if not path.exists():
        make_file(folder, (9, 8, 7, 9, 6), (0,) * 5, (5, 3, 4, 6, 2), apart=4.0)
    (cell,) = plan([str(path)], protocol, ["slda"], [3], [*SMALL, *PROTOCOLS[protocol]])
    return cell


def exported(folder: Path, protocol: str = "incremental-class") -> Path:
    stream = folder / protocol / "s"
    export(make_task(cell_of(folder, protocol), folder / "runs", StreamCache()), stream)
    return stream


@pytest.fixture(scope="module")
def plain_stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported stream of three sessions; it is only read."""
    return exported(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def ours(plain_stream: Path) -> Ours:
    """Scores and answers of a learner on it."""
    return scores_of(cell_of(plain_stream.parents[1]))


def write(path: Path, stream: Path, **arrays: Any) -> Path:
    np.savez(path, **{"stream": load(stream)[0].digest, **arrays})
    return path


def come_in(answers: Path, stream: Path, **how: Any) -> Path:
    """Import answers as a run in `r` beside them."""
    return import_answers(answers, stream, answers.parent / "r", tool=TOOL, **{"name": "x", **how})


def scores_of(cell: RunSpec) -> Ours:
    """What a learner's `scores` returned for all test samples, session by session; its answers."""
    learner, moments = make_learner("slda"), list[list[Any]]()
    scores, prepare = learner.scores, learner.prepare

    def begin() -> None:
        moments.append([])
        prepare()

    def kept(x: Any, **more: Any) -> Any:
        moments[-1].append(scores(x, **more))
        return moments[-1][-1]

    learner.scores, learner.prepare = kept, begin  # type: ignore[method-assign]
    predictions, _ = run_stream(StreamCache().stream(cell), learner, cell.seeds)
    assert isinstance(predictions, Predictions)
    arrays = {f"scores_after_{i}": np.concatenate(parts) for i, parts in enumerate(moments)}
    return arrays, predictions


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scores_of_ours_come_back_as_the_same_run(tmp_path: Path, protocol: str) -> None:
    """Predictions, scores, metrics and Ω of an imported run are those of the run, bit for bit."""
    cell, root = cell_of(tmp_path, protocol), tmp_path / "runs"
    outcome = run_grid([cell], root)
    assert not outcome.failed
    arrays, _ = scores_of(cell)
    stream = exported(tmp_path, protocol)
    answers = write(tmp_path / "answers.npz", stream, scores_are="log-likelihoods", **arrays)
    place = import_answers(answers, stream, root, name="theirs", tool=TOOL)
    (ours,) = outcome.run_dirs
    mine, theirs = record_files.load(ours), record_files.load(place)
    assert place.parents[1] == ours.parents[1]
    assert place.name == ours.name
    made, came = (vars(record_files.read_predictions(p)) for p in (ours, place))
    assert same(made, came)
    assert plain(theirs.by_score) == plain(mine.by_score)
    assert plain(theirs.reference) == plain(mine.reference)
    assert not np.isnan(theirs.metrics["omega_all"])
    assert theirs.digests == mine.digests
    assert theirs.learns == mine.learns
    assert set(theirs.flags) - set(mine.flags) == {"imported"}
    assert rescore(place, root).agrees


def test_masks_are_those_of_a_plain_loop(plain_stream: Path, tmp_path: Path) -> None:
    """The best class among those seen, and among the session's; the first of equal ones."""
    rng, (stream, tests) = np.random.default_rng(0), load(plain_stream)
    n, c = len(tests.rows), stream.n_labels
    scores = [rng.integers(-2, 3, (n, c)).astype(np.float64) for _ in stream.sessions]
    scores[0][:4] = -np.inf
    arrays = {f"scores_after_{i}": s for i, s in enumerate(scores)}
    p, gave = read_answers(write(tmp_path / "a.npz", plain_stream, **arrays), stream, tests)
    assert gave == "scores"
    assert p.logp is None  # the file does not say what its scores are
    assert p.rank is not None
    assert p.score is not None
    seen: list[int] = []
    for i, session in enumerate(stream.sessions):
        seen += session.introduces
        for k in range(n):
            among = sorted(stream.eval_sets[tests.sets[k]].classes)
            assert p.answer[i, k] == max(sorted(seen), key=lambda j: scores[i][k, j])
            assert p.within[i, k] == max(among, key=lambda j: scores[i][k, j])
            order = sorted(seen, key=lambda j: (-scores[i][k, j], j))
            assert p.score[i, k] == scores[i][k, order[0]]
            assert p.rank[i, k] == (order.index(p.y[k]) if p.y[k] in seen else 65535)
    assert p.samples_seen.tolist() == np.cumsum(stream.n_train).tolist()


def test_answers_alone_have_no_scores(plain_stream: Path, ours: Ours, tmp_path: Path) -> None:
    """Within sessions: NaN, not 0. And what a run cost is NaN, for an imported one alone."""
    _, p = ours
    arrays = {f"answers_after_{i}": a for i, a in enumerate(p.answer)}
    answers = write(tmp_path / "a.npz", plain_stream, rows=p.ids, **arrays)
    np.testing.assert_array_equal(read_answers(answers, *load(plain_stream))[0].answer, p.answer)
    place = come_in(answers, plain_stream)
    made = record_files.load(place)
    assert np.isnan(made.by_score["within_accuracy"].pooled).all()
    assert np.isnan(made.by_score["within_class_accuracy"].metrics["final_accuracy"])
    right = p.answer[-1] == p.y
    assert made.by_score["accuracy"].metrics["final_accuracy"] == pytest.approx(right.mean())
    assert np.isnan([made.seconds.learn, made.seconds.evaluate, made.footprint["total"]]).all()
    data = json.loads((place / "record.json").read_text())
    assert data["footprint"] == {"total": None}
    assert data["imported"] == {
        "tool": {"name": "avalanche-lib", "version": "0.6.0"},
        "gave": "answers",
        "sha256": hashlib.sha256((tmp_path / "a.npz").read_bytes()).hexdigest(),
    }
    with pytest.raises(UserError, check=says(what="the record: each of footprint")):
        record_files.RunRecord.from_json(replace(made, imported=None).to_json())


def test_a_run_that_is_there_is_kept(plain_stream: Path, ours: Ours, tmp_path: Path) -> None:
    first = write(tmp_path / "a.npz", plain_stream, **ours[0])
    zeros = {name: np.zeros_like(a) for name, a in ours[0].items()}
    second = write(tmp_path / "b.npz", plain_stream, **zeros)
    place = come_in(first, plain_stream)
    before = (place / "record.json").read_bytes()
    checkpoint_path(place).mkdir()  # of a run that has ended
    with pytest.raises(UserError, match="is there already"):
        come_in(second, plain_stream)
    with leases.alone(place), pytest.raises(UserError, match="another process writes"):
        come_in(second, plain_stream, overwrite=True)
    assert (place / "record.json").read_bytes() == before
    assert come_in(second, plain_stream, overwrite=True) == place
    assert (place / "record.json").read_bytes() != before
    assert come_in(first, plain_stream, settings={"lr": 0.1}) != place
    assert {p.name for p in place.parent.iterdir()} <= {"seed-3", ".seed-3.lease"}


Change = Callable[[dict[str, Any]], Any]
WRONG: dict[str, tuple[Change, str]] = {
    "stream missing": (lambda a: a.pop("stream"), "another stream"),
    "stream wrong": (lambda a: a.update(stream="0" * 64), "another stream"),
    "stream no text": (lambda a: a.update(stream=np.arange(3)), "another stream"),
    "session missing": (lambda a: a.pop("scores_after_1"), "scores_after_1 is missing"),
    "session too many": (lambda a: a.update(scores_after_9=a["scores_after_0"]), "scores_after_9'"),
    "typing error": (lambda a: a.update(score_after_0=np.zeros(3)), "'score_after_0'.* 'scores_"),
    "width": (lambda a: a.update(scores_after_1=a["scores_after_1"][:, :-1]), r"\(20, 4\)"),
    "length": (lambda a: a.update(scores_after_1=a["scores_after_1"][1:]), r"\(19, 5\)"),
    "text": (lambda a: a.update(scores_after_1=a["scores_after_1"].astype(str)), "numbers"),
    "NaN": (lambda a: a["scores_after_1"].__setitem__((7, 0), np.nan), "scores_after_1 .*row 7;"),
    "both kinds": (lambda a: a.update(answers_after_0=np.zeros(20, int)), "answers_after_0.*alone"),
    "rows wrong": (lambda a: a.update(rows=np.arange(20) + 1000), "rows .*test.csv;"),
    "rows short": (lambda a: a.update(rows=np.arange(3)), "rows .*test.csv;"),
    "no kind": (lambda a: a.update(scores_are="logit"), "scores_are 'logit'.* 'logits'"),
    "kind no text": (lambda a: a.update(scores_are=np.zeros(2)), "unknown scores_are"),
    "objects": (lambda a: a.update(rows=np.array([{}] * 20)), "holds Python objects"),
}


def answers_of(stream: ExportedStream, kind: str, shape: Any, value: float) -> dict[str, Any]:
    """Arrays of one value after each session."""
    return {f"{kind}_after_{i}": np.full(shape, value) for i in range(len(stream.sessions))}


def test_malformed_scores_are_one_sentence(plain_stream: Path, tmp_path: Path) -> None:
    stream = load(plain_stream)[0]
    for change, sentence in WRONG.values():
        arrays = answers_of(stream, "scores", (20, stream.n_labels), 0.0)
        arrays["stream"] = stream.digest
        change(arrays)
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(UserError, match=sentence) as e:
            come_in(tmp_path / "a.npz", plain_stream)
        assert "\n" not in str(e.value)
    assert not list((tmp_path / "r").rglob("record.json"))


def test_answers_of_another_stream_are_named_so_before_their_sessions(
    plain_stream: Path, tmp_path: Path
) -> None:
    stream = load(plain_stream)[0]
    arrays = answers_of(stream, "answers", 20, 0)
    arrays["answers_after_9"] = arrays["answers_after_0"]  # of a stream of ten sessions
    np.savez(tmp_path / "a.npz", stream="0" * 64, **arrays)
    with pytest.raises(UserError, match="these are answers on another stream"):
        come_in(tmp_path / "a.npz", plain_stream)


def test_answers_beyond_the_classes_are_refused(plain_stream: Path, tmp_path: Path) -> None:
    """And a sample without an answer is flagged."""
    stream, tests = load(plain_stream)
    unseen = stream.sessions[-1].introduces[0]
    for session, value, sentence in (
        (1, 99, "answers_after_1 .*-1 to 4, .*99"),
        (1, -2, "answers_after_1 .*-1 to 4, .*-2 "),
        (0, unseen, f"answers_after_0 .*class {unseen} .*so far"),
    ):
        arrays = answers_of(stream, "answers", 20, stream.sessions[0].introduces[0])
        arrays[f"answers_after_{session}"][5] = value
        with pytest.raises(UserError, match=sentence):
            read_answers(write(tmp_path / "a.npz", plain_stream, **arrays), stream, tests)
    arrays[f"answers_after_{session}"][5] = -1
    answers = write(tmp_path / "a.npz", plain_stream, **arrays)
    assert "nan" in record_files.load(come_in(answers, plain_stream)).flags
    with pytest.raises(UserError, match=r"y .* 0 to 4, .*1 to 5"):
        read_answers(answers, stream, replace(tests, labels=tests.labels + 1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lists_are_the_stream(tmp_path: Path, protocol: str) -> None:
    """Rows, labels and names of each session and eval set; features as a learner gets them."""
    task = make_task(cell_of(tmp_path, protocol), tmp_path, StreamCache())
    with pytest.raises(UserError, match=r"cannot write to .*file\.h5/s"):
        export(task, tmp_path / "file.h5" / "s")
    made = export(task, tmp_path / "s")
    assert {p.name for p in (tmp_path / "s").iterdir()} == {STREAM, *LISTS}
    assert (tmp_path / "s" / STREAM).read_text() == json.dumps(made.to_json(), indent=1) + "\n"
    export(task, tmp_path / "s", features=True)
    features = np.load(tmp_path / "s" / "features.npy")
    names = task.files[0].sample_ids
    sessions, sets = task.stream.sessions, task.stream.eval_sets
    parts = [
        [(s.x, s.y, s.ids, made.sessions) for s in sessions],
        [(s.val_x, s.val_y, s.val_ids, made.sessions) for s in sessions],
        [(e.x, e.y, e.ids, made.eval_sets) for e in sets],
    ]
    for name, views in zip(LISTS, parts, strict=True):
        head, *lines = (tmp_path / "s" / name).read_text().splitlines()
        assert head == "session,row,sample,label"
        table = [line.split(",") for line in lines]
        for number, (x, y, ids, entries) in enumerate(views):
            here = [t for t in table if t[0] == str(number)]
            rows = np.array([t[1] for t in here], dtype=int)
            assert rows.tolist() == ids.tolist()
            assert [t[2] for t in here] == names[ids].tolist()
            assert [int(t[3]) for t in here] == y.tolist()
            assert np.array_equal(features[rows][:, entries[number].columns or range(4)], x.numpy())


def test_what_was_changed_in_an_export_is_refused(plain_stream: Path, tmp_path: Path) -> None:
    """Labels, their order, and the classes that sessions introduce: digests cover them."""

    def swapped(text: str) -> str:
        head, *lines = text.splitlines()
        return "\n".join([head, *lines[::-1]]) + "\n"

    def reordered(text: str) -> str:
        data = json.loads(text)
        data["sessions"][-1], data["sessions"][0] = data["sessions"][0], data["sessions"][-1]
        data["n_train"] = [s["train"] for s in data["sessions"]]
        return json.dumps(data)

    def changed(**fields: Any) -> Callable[[str], str]:
        return lambda text: json.dumps({**json.loads(text), **fields})

    for name, change, sentence in (
        ("test.csv", swapped, "the digest differs"),
        ("test.csv", lambda t: t[: t.rindex(",")] + ",4\n", "the digest differs"),
        ("test.csv", lambda t: t.replace(",", ";"), "line 1: .*the columns"),
        ("test.csv", lambda t: t.replace("\n0,", "\n0_0,", 1), "line 2: expected whole numbers"),
        ("test.csv", lambda t: t.replace("\n0,", "\n٠,", 1), "line 2: expected whole numbers"),
        ("test.csv", lambda t: t + "1,2\n", "line 22"),
        ("test.csv", lambda t: re.sub(r"(\n\d+,\d+,)", r'\1"a"', t, count=1), "line 2: "),
        (STREAM, reordered, "was changed"),
        (STREAM, changed(eval_sets=[]), "was changed"),
        (STREAM, changed(eval_sets=[{"classes": [5], "test": 20}]), "was changed"),
        (STREAM, changed(directory="../x-01234567"), "was changed"),
        (STREAM, changed(sessions=[], n_train=[]), "was changed"),
        (STREAM, lambda t: t[:-9], "is not JSON"),
        (STREAM, lambda t: t.replace("embedbench-stream/1.0", "x/2"), "says schema 'x/2'"),
        (STREAM, lambda t: t.replace('"n_train"', '"m_train"'), "n_train is missing"),
    ):
        bad = shutil.copytree(plain_stream, tmp_path / "bad", dirs_exist_ok=True)
        text = (bad / name).read_text()
        assert change(text) != text
        (bad / name).write_text(change(text))
        with pytest.raises(UserError, match=sentence):
            load(bad)
    shutil.copy(plain_stream / STREAM, bad)
    (bad / LISTS[2]).write_bytes(b"\xff")
    os.truncate(bad / LISTS[2], 2**30 + 1)
    with pytest.raises(UserError, match="longer than 1,073,741,824 bytes"):
        load(bad)
    wide = replace(load(plain_stream)[0], classes=(("c",) * 2**10,))
    empty = replace(wide.eval_sets[0], classes=(), test=0)
    for more in (0, 1):  # masks fit memory: eval sets times classes are limited
        assert replace(wide, eval_sets=(empty,) * (2**20 + more))._is_whole() == (not more)


REFERENCE: dict[str, dict[str, Any]] = {
    "NUL in an offline run": {"offline_runs": ["references/a\0b"]},
    "NUL in the chance run": {"chance_run": "a\0b"},
    "few offline runs": {"offline_runs": [["a"], ["b"]]},
    "no ideals": {"ideal": {"accuracy": []}, "so_far": True},
    "many ideals": {"ideal": {"accuracy": [0.5] * 9}},
    "no chances": {"chance": {"accuracy": []}},
    "many chances": {"ideal": {"accuracy": 0.5}, "chance": {"accuracy": [0.5] * 9}},
}


@pytest.mark.parametrize("case", [*REFERENCE, "few candidates", "many candidates", "long place"])
def test_lists_and_paths_that_do_not_fit(plain_stream: Path, tmp_path: Path, case: str) -> None:
    """Neither digest covers them; a record of a run with such a list is refused as well."""
    stream = shutil.copytree(plain_stream, tmp_path / "stream")
    scores = answers_of(load(stream)[0], "scores", (20, load(stream)[0].n_labels), 0)
    answers = write(tmp_path / "a.npz", stream, **scores)
    good = come_in(answers, stream)
    for path in (stream / STREAM, good / record_files.RECORD):
        data = json.loads(path.read_text())
        data["reference"] |= REFERENCE.get(case, {})
        if "candidates" in case:
            data["n_candidates"] = [1] * (1 if "few" in case else 9)
        if case == "long place":
            data["directory"] = "a" * 300 + "-01234567"
        path.write_text(json.dumps(data))
    with pytest.raises(UserError) as error:
        come_in(answers, stream, name="y")
    assert "\n" not in str(error.value)
    assert [p.parent for p in (tmp_path / "r").rglob("record.json")] == [good]
    if case != "long place":
        with pytest.raises(UserError):
            record_files.evaluate(record_files.load(good), good, tmp_path / "r")


def test_limited_answers_are_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(cell_of(tmp_path), tmp_path / "runs", StreamCache())
    first, *others = task.stream.eval_sets
    stream = replace(task.stream, eval_sets=(replace(first, candidates=first.classes), *others))
    monkeypatch.setattr(task.streams, "stream", lambda _: stream)
    with pytest.raises(UserError, match=r"^incremental-class .*answers among"):
        export(task, tmp_path / "s")


def test_names_that_mean_something_else_are_refused(tmp_path: Path) -> None:
    for name in ("er", "a/b", "..", "", "x" * 61, "pkg.mod:Name"):
        with pytest.raises(UserError, check=says(what="--name", got=name)):
            come_in(tmp_path, tmp_path, name=name)


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (["0", "1", "10", "11", "2"], "label 2 is the class '10'"),
        ([*"01234"], ""),
        ([*"abcde"], ""),
        (["b", "a", "7", "x", "y"], "label 2 is the class '7'"),
    ],
)
def test_labels_that_are_not_the_numbers_of_names_are_noted(
    names: list[str], note: str, tmp_path: Path
) -> None:
    made = make_file(tmp_path, (9,) * 5, (0,) * 5, (2,) * 5, classes=names)
    (cell,) = plan([str(made.path)], "incremental-class", ["slda"], [0], SMALL)
    stream = export(make_task(cell, tmp_path / "runs", StreamCache()), tmp_path / "s")
    assert [text.partition("names: ")[2] for text in label_notes(stream)] == [note] * bool(note)


# --- answers that are missing ---


def before_learning(stream: Path, p: Predictions) -> dict[str, Any]:
    """Answers as PILOT and Mammoth have them: -1 for samples of sessions that come later."""
    reached = load(stream)[1].sets <= np.arange(len(p.answer))[:, None]
    return {f"answers_after_{i}": a for i, a in enumerate(np.where(reached, p.answer, -1))}


def imported(stream: Path, folder: Path, arrays: dict[str, Any]) -> tuple[Any, list[str]]:
    """The record of an import, and what was said of it."""
    folder.mkdir()
    notes: list[str] = []
    answers = write(folder / "a.npz", stream, **arrays)
    return record_files.load(come_in(answers, stream, notify=notes.append)), notes


def test_no_answer_before_learning_leaves_a_run_in(
    plain_stream: Path, ours: Ours, tmp_path: Path
) -> None:
    """Every score but those before learning is that of all answers."""
    whole, _ = imported(
        plain_stream,
        tmp_path / "whole",
        {f"answers_after_{i}": a for i, a in enumerate(ours[1].answer)},
    )
    made, _ = imported(plain_stream, tmp_path / "part", before_learning(plain_stream, ours[1]))
    assert made.flags == whole.flags
    assert plain(made.by_score) == plain(whole.by_score)


def test_what_is_missing_is_said(plain_stream: Path, ours: Ours, tmp_path: Path) -> None:
    arrays = before_learning(plain_stream, ours[1])
    n = sum(int((a < 0).sum()) for a in arrays.values())
    arrays["answers_after_2"] = np.where(np.arange(20) == 7, -1, arrays["answers_after_2"])
    made, notes = imported(plain_stream, tmp_path / "a", arrays)
    row = load(plain_stream)[1].rows[7]
    assert [note.partition(" answers are missing")[0] for note in notes] == [str(n), "1"]
    assert f"first after session 2 for row {row}: they count as wrong" in notes[1]
    assert "nan" in made.flags


def test_a_score_before_learning_is_undefined_where_all_classes_are_known(tmp_path: Path) -> None:
    """On a permutation stream every class is seen at once: R above the diagonal is NaN, not 0."""
    stream = exported(tmp_path, "permutation")
    tests = load(stream)[1]
    reached = tests.sets <= np.arange(3)[:, None]
    answers = {f"answers_after_{i}": np.where(r, tests.labels, -1) for i, r in enumerate(reached)}
    made, _ = imported(stream, tmp_path / "a", answers)
    expected = np.where(np.tri(3, dtype=bool), 1.0, np.nan)
    np.testing.assert_array_equal(np.array(made.R, dtype=float), expected)
    assert made.metrics["final_accuracy"] == 1.0
    assert "nan" not in made.flags
    assert np.isnan(made.metrics["fwt"])


@pytest.mark.parametrize("name", ["mine.csv", "mine.json", "mine.npy", "mine.npz"])
def test_what_is_no_npz_is_told_where_accuracies_go(
    name: str, plain_stream: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("learner,seed,accuracy\nmine,0,0.5\n")
    with pytest.raises(UserError, match=r"no npz file; give an npz .* report RUNS TABLE.csv$"):
        come_in(tmp_path / name, plain_stream)


def test_an_npz_of_accuracies_is_told_where_they_go(plain_stream: Path, tmp_path: Path) -> None:
    answers = write(tmp_path / "a.npz", plain_stream, accuracy=np.array([0.9, 0.8, 0.7]))
    with pytest.raises(UserError, match=r"holds accuracy, stream, and no answers; .* TABLE.csv$"):
        come_in(answers, plain_stream)


def test_of_arrays_that_are_no_answers_three_are_named(plain_stream: Path, tmp_path: Path) -> None:
    answers = write(tmp_path / "a.npz", plain_stream, **dict.fromkeys("dcba", np.zeros(3)))
    with pytest.raises(UserError, match=r"it holds a, b, c and 2 more, and no answers"):
        come_in(answers, plain_stream)


def test_a_run_that_was_flagged_for_it_is_in_no_doubt(
    plain_stream: Path, ours: Ours, tmp_path: Path
) -> None:
    """Records of earlier versions say `nan`, and `score --update` writes them anew."""
    arrays = before_learning(plain_stream, ours[1])
    place = come_in(write(tmp_path / "a.npz", plain_stream, **arrays), plain_stream)
    earlier = record_files.load(place)
    record_files.save(replace(earlier, flags=("nan", *earlier.flags)), place)
    seen = rescore(place, tmp_path / "r")
    assert seen.agrees is True
    assert seen.new == ("flags.nan",)


@pytest.mark.parametrize(("transform", "version"), [("permutation", "1.0"), ("rotation", "1.1")])
def test_a_stream_with_black_pixels_is_of_the_later_version(
    tmp_path: Path, transform: str, version: str
) -> None:
    """Who reads 1.0 would take its -1 for the last column."""
    path = tmp_path / "file.h5"
    rng = np.random.default_rng(0)
    pixels = rng.random((60, 16)).astype(np.float32)
    write_file(path, make_samples(60), pixels, {**PROVENANCE, **pixels_recipe()})
    items = [*SMALL, "protocol.sessions=2", f"protocol.transform={transform}"]
    (cell,) = plan([str(path)], "permutation", ["slda"], [3], [*items, "protocol.scale=none"])
    export(make_task(cell, tmp_path / "runs", StreamCache()), tmp_path / "s")
    stated = json.loads((tmp_path / "s" / "stream.json").read_text())["schema"]
    assert stated == f"embedbench-stream/{version}"
