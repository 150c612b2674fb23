"""Checkpoints: what is kept and when, what is taken up, and what is refused."""

import json
import math
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from file_helpers import flip
from pretend_card import pretended_card
from torch import Tensor, nn
from toy import class_stream

from embedbench.checks.learner_check_tools import SEEDS, same
from embedbench.checks.learner_contract import CutOffError, Saboteur
from embedbench.config.run_seeds import generator
from embedbench.engines.engine_tasks import TimeUpError, ends_soon
from embedbench.learning.base_session_prototypes import Classifier
from embedbench.learning.checkpoint_state import pack_state, unpack_state
from embedbench.learning.learner import NO_CHECKPOINT, Checkpoint, Context, Learner
from embedbench.learning.optimisers import make_optimiser
from embedbench.learning.stopping import Stop
from embedbench.learning.training_loop import Training
from embedbench.models.chance import Chance
from embedbench.models.er import ER
from embedbench.models.ewc import EWC
from embedbench.models.mlp import MLP
from embedbench.models.prototype import Prototype
from embedbench.runs.checkpoint import CheckpointDirectory, UnusableError, saved_at
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Session, Stream

Make = Callable[[], Learner]
STREAM = class_stream([[0, 1], [2], [3]])
EARLY = Stop(epochs=6, min_steps=1, monitor="accuracy", ties="earlier")


def mlp(**settings: Any) -> MLP:
    settings = {"stop": Stop(rule="epochs", epochs=3)} | settings
    return MLP(**{"units": 8, "batch_size": 16, **settings})


def check_pieces(make: Make, stream: Stream, directory: Path, after: int = 1) -> int:
    """Cut a run off after every so many checkpoints: answers, logs and state are as they would be.

    Returns how often it was cut off.
    """
    whole = make()
    answers, logs = run_stream(stream, whole, SEEDS)
    cut = 0
    while cut < 100:
        checkpoint, pieces = Saboteur(directory, after), make()
        checkpoint.open()
        try:
            answers_of_pieces, logs_of_pieces = run_stream(
                stream, pieces, SEEDS, checkpoint=checkpoint
            )
            break
        except CutOffError:
            cut += 1
    assert same(vars(answers_of_pieces), vars(answers))
    np.testing.assert_equal([log.log for log in logs_of_pieces], [log.log for log in logs])
    assert same(as_bits(pieces.state_dict()), as_bits(whole.state_dict()))
    return cut


def as_bits(state: Any) -> Any:
    """A state in which NaN is equal to NaN."""
    if isinstance(state, dict):
        return {k: as_bits(v) for k, v in state.items()}
    if isinstance(state, list | tuple):
        return [as_bits(v) for v in state]
    return np.array(state) if isinstance(state, float) else state


@pytest.mark.parametrize(
    "settings",
    [
        {"stop": replace(EARLY, rule="patience", patience=2), "lr": 0.05},
        {"stop": replace(EARLY, rule="plateau", patience=1, min_delta=1), "optimiser": "sgd"},
        {"stop": Stop(rule="trained", epochs=9, target=0.8), "optimiser": "adam", "lr": 0.05},
        {"stop": Stop(rule="epochs", epochs=3, first_epochs=2), "optimiser_state": "kept"},
        {"optimiser": "sgd", "lr": 1e15},
    ],
    ids=["patience", "plateau", "trained", "kept", "diverged"],
)
def test_every_rule_goes_on_after_every_epoch(settings: dict[str, Any], tmp_path: Path) -> None:
    assert check_pieces(lambda: mlp(**settings), STREAM, tmp_path) > len(STREAM.sessions)


def test_a_search_of_many_trainings_goes_on(tmp_path: Path) -> None:
    def make() -> Learner:
        stop = Stop(rule="epochs", epochs=4)
        return EWC(units=8, batch_size=16, lr=0.05, stop=stop, lam_decay=0.01, lam_drop=0.0)

    _, logs = run_stream(STREAM, make(), SEEDS)
    assert len(logs[1].log["search"]) > 2
    assert check_pieces(make, STREAM, tmp_path, after=3) > 3


def test_trainings_of_parts_go_on(tmp_path: Path) -> None:
    """The cosine classifier of the base session has a network of its own."""
    classifier = Classifier(base="trained", epochs=3, batch_size=16)
    assert check_pieces(lambda: Prototype(classifier=classifier), STREAM, tmp_path) == 6


def test_online_runs_go_on_between_sessions(tmp_path: Path) -> None:
    stream = replace(STREAM, observe_batch=5, evaluate_every=7)
    assert check_pieces(lambda: ER(units=8), stream, tmp_path) == len(stream.sessions)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_layers_that_draw_from_the_global_state_draw_the_same(device: str, tmp_path: Path) -> None:
    """On a card its own random numbers are part of a checkpoint."""

    def trained(checkpoint: Checkpoint, seed: int) -> dict[str, Any]:
        torch.manual_seed(5)
        net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 4)).to(device)
        torch.manual_seed(seed)
        checkpoint.begin(0)
        optimiser, stop = make_optimiser("sgd", net, lr=0.1), Stop(rule="epochs", epochs=4)
        data = STREAM.sessions[0]
        log = Training(net, optimiser, data, 16, stop, generator(0, 0), device).run(checkpoint)
        return log | {name: p.cpu() for name, p in net.state_dict().items()}

    card = pretended_card() if device == "cuda" else nullcontext()
    with torch.random.fork_rng(devices=[]), card:
        whole, other = trained(NO_CHECKPOINT, 1), trained(NO_CHECKPOINT, 2)
        with pytest.raises(CutOffError):
            trained(Saboteur(tmp_path, after=2, device=device), 1)
        checkpoint = Saboteur(tmp_path, device=device)
        checkpoint.open()
        assert same(trained(checkpoint, 2), whole)
        assert not same(other, whole)


# --- when -----------------------------------------------------------------------------------------


class Clock:
    """Stands still but when it is moved."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("embedbench.runs.checkpoint.time", clock)
    monkeypatch.setattr("embedbench.runs.stream_runner.time", clock)
    return clock


@dataclass
class Slow(MLP):
    """Takes ten seconds before it trains, and ten for an epoch."""

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        Clock.now += 10
        return super().learn(session, ctx)


@pytest.fixture
def slow(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(Clock, "now", 0.0)
    shuffle = torch.randperm

    def randperm(*told: Any, **named: Any) -> Tensor:  # once an epoch
        Clock.now += 10
        return shuffle(*told, **named)

    monkeypatch.setattr(torch, "randperm", randperm)
    return lambda: Slow(units=8, stop=Stop(rule="epochs", epochs=4))  # 50 s a session


def names(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.glob("*"))


@pytest.mark.parametrize(
    ("seconds", "cuts", "expected"),
    [
        (30, 1, ["begun.json", "fit-0-0", "sessions"]),  # before the third epoch
        (30, 2, ["begun.json", "fit-0-0", "sessions"]),  # at the end of the session
        (60, 1, ["begun.json", "fit-1-0", "sessions"]),  # the first session is learned again
        (150, 1, ["begun.json", "fit-2-0", "sessions"]),
    ],
)
def test_checkpoints_are_as_far_apart_as_asked(
    slow: Make, tmp_path: Path, seconds: float, cuts: int, expected: list[str]
) -> None:
    whole, logs = run_stream(STREAM, slow(), SEEDS)
    checkpoint = Saboteur(tmp_path, after=cuts, seconds=seconds)
    with pytest.raises(CutOffError):
        run_stream(STREAM, slow(), SEEDS, checkpoint=checkpoint)
    assert names(tmp_path) == expected
    shorter = CheckpointDirectory(tmp_path / "partial", {}, seconds=151)
    run_stream(STREAM, slow(), SEEDS, checkpoint=shorter)
    assert not (tmp_path / "partial").exists()
    again = CheckpointDirectory(tmp_path, {}, seconds=math.inf)
    assert again.open()
    answers, kept = run_stream(STREAM, slow(), SEEDS, checkpoint=again)
    assert same(vars(answers), vars(whole))
    assert [log.learn_seconds for log in kept] == [log.learn_seconds for log in logs] == [50] * 3


def test_a_process_whose_time_is_over_saves_what_it_has_done_and_ends(tmp_path: Path) -> None:
    """However far apart checkpoints are; each process gets further, to the same answers."""
    whole, _ = run_stream(STREAM, mlp(), SEEDS)
    saves, answers = [saved_at(tmp_path)], None
    ends_soon.set()
    try:
        while answers is None and len(saves) < 50:
            checkpoint = CheckpointDirectory(tmp_path, {}, seconds=3600)
            checkpoint.open()
            with suppress(TimeUpError):
                answers, _ = run_stream(STREAM, mlp(), SEEDS, checkpoint=checkpoint)
            saves.append(saved_at(tmp_path))
    finally:
        ends_soon.clear()
    assert saves[0] == 0
    assert saves[:-1] == sorted(set(saves))  # the last one had nothing left to learn
    assert len(saves) > 1 + 3 * len(STREAM.sessions)  # after every epoch
    assert same(vars(answers), vars(whole))


class HoldsItself(Chance):
    """Its state has no end."""

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["itself"] = state
        return state


def test_a_run_goes_on_whose_state_has_no_end(tmp_path: Path) -> None:
    told: list[str] = []
    checkpoint = CheckpointDirectory(tmp_path, {}, seconds=0, notify=told.append)
    answers, _ = run_stream(STREAM, HoldsItself(), SEEDS, checkpoint=checkpoint)
    assert same(vars(answers), vars(run_stream(STREAM, Chance(), SEEDS)[0]))
    (sentence,) = told
    assert sentence.startswith("no checkpoint can be kept")


@pytest.mark.parametrize("time_is_over", [False, True])
def test_where_nothing_can_be_written_the_run_goes_on(tmp_path: Path, time_is_over: bool) -> None:
    (tmp_path / "file").touch()
    told: list[str] = []
    checkpoint = CheckpointDirectory(
        tmp_path / "file" / "partial", {}, seconds=3600 * time_is_over, notify=told.append
    )
    if time_is_over:
        ends_soon.set()
    try:
        answers, _ = run_stream(STREAM, mlp(), SEEDS, checkpoint=checkpoint)
    finally:
        ends_soon.clear()
    assert same(vars(answers), vars(run_stream(STREAM, mlp(), SEEDS)[0]))
    (sentence,) = told
    assert sentence.startswith("no checkpoint can be kept")


def test_a_learner_whose_state_is_no_data_goes_on(tmp_path: Path) -> None:
    @dataclass
    class Odd(MLP):
        state: ClassVar[dict[str, str]] = {**MLP.state, "rule": "transient"}

        def start(self, *told: Any) -> None:
            super().start(*told)
            self.rule = lambda: 0

    told: list[str] = []
    checkpoint = CheckpointDirectory(tmp_path, {}, seconds=0, notify=told.append)
    _, logs = run_stream(STREAM, Odd(units=8, stop=EARLY), SEEDS, checkpoint=checkpoint)
    assert len(logs) == len(STREAM.sessions)
    (sentence,) = told
    assert "'learner.rule' of the state is of type function" in sentence


# --- what cannot be used --------------------------------------------------------------------------


def go_on(checkpoint: CheckpointDirectory, learner: Learner | None = None) -> None:
    checkpoint.open()
    run_stream(STREAM, learner or mlp(), SEEDS, checkpoint=checkpoint)


@pytest.mark.parametrize("name", ["begun.json", "sessions", "fit-1-0"])
def test_damage_is_never_read(name: str, tmp_path: Path) -> None:
    """`tests/learning/test_checkpoint_state.py` has all kinds of damage."""
    with pytest.raises(CutOffError):
        run_stream(STREAM, mlp(), SEEDS, checkpoint=Saboteur(tmp_path, after=6))
    assert names(tmp_path) == ["begun.json", "fit-1-0", "sessions"]
    if name == "begun.json":  # the middle of it is a word that nothing asks for
        (tmp_path / name).write_text("[]")
    else:
        flip(tmp_path / name, (tmp_path / name).stat().st_size // 2)
    checkpoint = CheckpointDirectory(tmp_path, {}, seconds=0)
    with pytest.raises(UnusableError, match=rf"^{name} is damaged$"):
        go_on(checkpoint)
    checkpoint.clear()
    answers, _ = run_stream(STREAM, mlp(), SEEDS, checkpoint=checkpoint)
    assert same(vars(answers), vars(run_stream(STREAM, mlp(), SEEDS)[0]))


def test_the_checkpoint_of_another_run_is_not_read(tmp_path: Path) -> None:
    checkpoint = Saboteur(tmp_path, after=6, decided={"torch": "2.1", "setting": {"lr": 1}})
    with pytest.raises(CutOffError):
        run_stream(STREAM, mlp(), SEEDS, checkpoint=checkpoint)
    other = CheckpointDirectory(tmp_path, {"torch": "2.2", "setting": {"lr": 1}}, seconds=0)
    with pytest.raises(UnusableError, match=r"another torch$"):
        other.open()
    other = CheckpointDirectory(tmp_path, {"torch": "2.1", "setting": {"lr": 2}}, seconds=0)
    with pytest.raises(UnusableError, match=r"another setting$"):
        other.open()
    (tmp_path / "begun.json").write_text(
        json.dumps({"format": 2, "resumed": 0, "decided": other.decided})
    )
    with pytest.raises(UnusableError, match=r"^sessions is damaged$"):  # its checksum covers it
        other.open()


def test_a_state_that_does_not_fit_is_told(tmp_path: Path) -> None:
    for after, name in ((4, "sessions"), (2, "fit-0-0")):
        with pytest.raises(CutOffError):
            run_stream(STREAM, mlp(), SEEDS, checkpoint=Saboteur(tmp_path / name, after))
        with pytest.raises(UnusableError, match=f"^{name} does not fit"):
            go_on(CheckpointDirectory(tmp_path / name, {}, seconds=0), mlp(units=9))


def test_what_lies_there_without_a_beginning_is_cleared(tmp_path: Path) -> None:
    with pytest.raises(CutOffError):
        run_stream(STREAM, mlp(), SEEDS, checkpoint=Saboteur(tmp_path, after=2))
    (tmp_path / "begun.json").unlink()
    assert not CheckpointDirectory(tmp_path, {}, seconds=0).open()
    assert not tmp_path.exists()


@pytest.mark.parametrize(
    "begun",
    [
        "[" * 100_000,
        b"\xff\xff",
        b'{"resumed": 0, "decided": {}}',  # before it had a number
        "null",
        {"format": "2"},
        {"resumed": None},
        {"decided": []},
    ],
    ids=lambda begun: str(begun)[:20],
)
def test_what_begun_json_holds_is_looked_at(begun: Any, tmp_path: Path) -> None:
    checkpoint = Saboteur(tmp_path, after=2)
    with pytest.raises(CutOffError):
        run_stream(STREAM, mlp(), SEEDS, checkpoint=checkpoint)
    path = tmp_path / "begun.json"
    if isinstance(begun, dict):
        begun = json.dumps(json.loads(path.read_text()) | begun)
    path.write_bytes(begun if isinstance(begun, bytes) else begun.encode())
    with pytest.raises(UnusableError, match=r"^begun\.json is damaged"):
        CheckpointDirectory(tmp_path, {}, seconds=0).open()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun.json")
    with pytest.raises(UnusableError, match=r"^begun\.json cannot be read"):
        CheckpointDirectory(tmp_path, {}, seconds=0).open()


@pytest.mark.parametrize(
    "change",
    [
        {"logs": [{}]},
        {"logs": [{"learn_seconds": "1", "evaluate_seconds": 1, "footprint": {}, "log": {}}]},
        {"logs": [1]},
        {"logs": None},
        {"learner": None},
        {"learner": {"net": {}}},
        {"evaluator": {}},
        {"evaluator": {"moments": [{"session": 0}], "answer": [], "within": []}},
        {"random": []},
        {"random": [torch.zeros(3)]},
    ],
    ids=str,
)
def test_a_forged_state_begins_anew(change: dict[str, Any], tmp_path: Path) -> None:
    """Data under the right checksum, of another shape than ours."""
    with pytest.raises(CutOffError):
        run_stream(STREAM, mlp(), SEEDS, checkpoint=Saboteur(tmp_path, after=4))
    path = tmp_path / "sessions"
    state = unpack_state(path.read_bytes(), "cpu", b"{}") | change
    path.write_bytes(pack_state(state, b"{}"))
    with pytest.raises(UnusableError, match=r"^sessions (does not fit|is missing or damaged)"):
        go_on(CheckpointDirectory(tmp_path, {}, seconds=0))
