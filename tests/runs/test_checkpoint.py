"""Checkpoints: what is kept and when, what is taken up or refused; runs that go on from them."""

import json
import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import start, stored
from file_helpers import flip
from pretend_card import pretended_card
from small_grid import open_cells
from torch import Tensor, nn
from toy import class_stream

from embedbench.checks.learner_check_tools import SEEDS, same
from embedbench.checks.learner_contract import CutOffError, Saboteur
from embedbench.config.json_records import plain
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
from embedbench.runs import run_one
from embedbench.runs.checkpoint import CheckpointDirectory, UnusableError, saved_at
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.scores import record_files
from embedbench.streams.stream import Session
from embedbench.system.callback_types import Notify

Make = Callable[[], Learner]
STREAM = class_stream([[0, 1], [2], [3]])
EARLY = Stop(epochs=6, min_steps=1, monitor="accuracy", ties="earlier")


def mlp(**settings: Any) -> MLP:
    settings = {"stop": Stop(rule="epochs", epochs=3)} | settings
    return MLP(**{"units": 8, "batch_size": 16, **settings})


def search() -> Learner:
    stop = Stop(rule="epochs", epochs=4)
    return EWC(units=8, batch_size=16, lr=0.05, stop=stop, lam_decay=0.01, lam_drop=0.0)


MAKE: dict[str, Make] = {
    "patience": lambda: mlp(stop=replace(EARLY, rule="patience", patience=2), lr=0.05),
    "plateau": lambda: mlp(
        stop=replace(EARLY, rule="plateau", patience=1, min_delta=1), optimiser="sgd"
    ),
    "trained": lambda: mlp(stop=Stop(rule="trained", epochs=9, target=0.8), lr=0.05),
    "kept": lambda: mlp(stop=Stop("epochs", epochs=3, first_epochs=2), optimiser_state="kept"),
    "diverged": lambda: mlp(optimiser="sgd", lr=1e15),
    "search": search,  # many trainings in a session
    "parts": lambda: Prototype(classifier=Classifier(base="trained", epochs=3, batch_size=16)),
    "online": lambda: ER(units=8),
}


@pytest.mark.parametrize("name", MAKE)
def test_a_run_in_pieces_is_the_whole_one(name: str, tmp_path: Path) -> None:
    """Cut off after checkpoints again and again: answers, logs and state are as they would be."""
    far, after = STREAM.eval_sets[0].x, 3 if name == "search" else 1
    stream = replace(STREAM, observe_batch=5, evaluate_every=7, far=far)
    whole, cut = MAKE[name](), 0
    answers, logs = run_stream(stream, whole, SEEDS)
    assert name != "search" or len(logs[1].log["search"]) > 2
    while cut < 100:
        checkpoint, pieces = Saboteur(tmp_path, after), MAKE[name]()
        checkpoint.open()
        try:
            found, kept = run_stream(stream, pieces, SEEDS, checkpoint=checkpoint)
            break
        except CutOffError:
            cut += 1
    assert cut >= len(stream.sessions) + (name != "online")  # within sessions, too
    assert same(vars(found), vars(answers))
    np.testing.assert_equal([log.log for log in kept], [log.log for log in logs])
    assert pack_state(pieces.state_dict()) == pack_state(whole.state_dict())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_layers_that_draw_from_the_global_state_draw_the_same(device: str, tmp_path: Path) -> None:
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


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@dataclass
class Slow(MLP):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        Clock.now += 10
        return super().learn(session, ctx)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Make:
    for module in ("checkpoint", "stream_runner"):
        monkeypatch.setattr(f"embedbench.runs.{module}.time", Clock())
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
    ("seconds", "cuts", "at_work", "saves"),
    [
        (30, 1, "fit-0-0", 6),  # before the third epoch
        (30, 2, "fit-0-0", 6),  # at the end of the session
        (60, 1, "fit-1-0", 2),  # the first session is learned again
        (150, 1, "fit-2-0", 2),
    ],
)
def test_checkpoints_are_as_far_apart_as_asked(
    slow: Make, tmp_path: Path, seconds: float, cuts: int, at_work: str, saves: int
) -> None:
    whole, logs = run_stream(STREAM, slow(), SEEDS)
    with pytest.raises(CutOffError):
        run_stream(STREAM, slow(), SEEDS, checkpoint=Saboteur(tmp_path, cuts, seconds=seconds))
    assert names(tmp_path) == ["begun.json", at_work, "sessions"]
    shorter = CheckpointDirectory(tmp_path / "partial", {}, seconds=151)
    run_stream(STREAM, slow(), SEEDS, checkpoint=shorter)
    assert not (tmp_path / "partial").exists()
    every = Saboteur(tmp_path / "every", seconds=seconds)
    run_stream(STREAM, slow(), SEEDS, checkpoint=every)
    assert every.saves == saves
    for resumed in (1, 2):
        again = CheckpointDirectory(tmp_path, {}, seconds=math.inf)
        assert again.open()
        assert again.resumed == resumed
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
    assert checkpoint.resumed == len(saves) - 2
    assert [saves[0], saved_at(tmp_path / "none")] == [0, 0]
    assert saves[:-1] == sorted(set(saves))  # the last one had nothing left to learn
    assert len(saves) > 1 + 3 * len(STREAM.sessions)  # after every epoch
    assert same(vars(answers), vars(whole))


class HoldsItself(Chance):
    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["itself"] = state
        return state


class Odd(Chance):
    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"rule": str}


@pytest.mark.parametrize("over", [False, True])  # whether the time of the process is
@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (Chance, "Not a directory: "),
        (HoldsItself, "maximum recursion depth exceeded"),
        (Odd, "'learner.rule' of the state is of type type"),
    ],
)
def test_none_can_be_kept(tmp_path: Path, learner: type[Chance], reason: str, over: bool) -> None:
    (tmp_path / "file").touch()
    place, told = tmp_path / ("file" if learner is Chance else "") / "partial", list[str]()
    checkpoint = CheckpointDirectory(place, {}, seconds=3600 * over, notify=told.append)
    if over:
        ends_soon.set()
    try:
        answers, _ = run_stream(STREAM, learner(), SEEDS, checkpoint=checkpoint)
    finally:
        ends_soon.clear()
    assert same(vars(answers), vars(run_stream(STREAM, Chance(), SEEDS)[0]))
    (sentence,) = told
    assert sentence.startswith("no checkpoint can be kept, the run goes on without: ")
    assert reason in sentence


def leave(directory: Path, after: int, **how: Any) -> Path:
    with pytest.raises(CutOffError):
        run_stream(STREAM, mlp(), SEEDS, checkpoint=Saboteur(directory, after=after, **how))
    return directory


def go_on(checkpoint: CheckpointDirectory, learner: Learner) -> None:
    checkpoint.open()
    run_stream(STREAM, learner, SEEDS, checkpoint=checkpoint)


def refused(directory: Path, reason: str, learner: Learner | None = None, **decided: Any) -> None:
    checkpoint = CheckpointDirectory(directory, decided, seconds=0)
    with pytest.raises(UnusableError, match=reason):
        go_on(checkpoint, learner or mlp())


@pytest.mark.parametrize("name", ["begun.json", "sessions", "fit-1-0"])
def test_damage_is_never_read(name: str, tmp_path: Path) -> None:
    """`tests/learning/test_checkpoint_state.py` has all kinds of damage."""
    assert names(leave(tmp_path, 6)) == ["begun.json", "fit-1-0", "sessions"]
    if name == "begun.json":  # the middle of it is a word that nothing asks for
        (tmp_path / name).write_text("[]")
    else:
        flip(tmp_path / name, (tmp_path / name).stat().st_size // 2)
    refused(tmp_path, rf"^{name} is damaged$")


def test_the_checkpoint_of_another_run_is_not_read(tmp_path: Path) -> None:
    leave(tmp_path, 6, decided={"torch": "2.1", "setting": {"lr": 1}})
    refused(tmp_path, "another torch$", torch="2.2", setting={"lr": 1})
    refused(tmp_path, "another setting$", torch="2.1", setting={"lr": 2})
    begun = {"format": 2, "resumed": 0, "decided": {"torch": "2.2"}}
    (tmp_path / "begun.json").write_text(json.dumps(begun))
    refused(tmp_path, "^sessions is damaged$", torch="2.2")  # its checksum covers it


def test_a_state_that_does_not_fit_is_told(tmp_path: Path) -> None:
    for after, name in ((4, "sessions"), (2, "fit-0-0")):
        refused(leave(tmp_path / name, after), f"^{name} does not fit", mlp(units=9))


def test_what_lies_there_without_a_beginning_is_cleared(tmp_path: Path) -> None:
    (leave(tmp_path, 2) / "begun.json").unlink()
    checkpoint = Saboteur(tmp_path, after=1)
    assert not checkpoint.open()
    assert not tmp_path.exists()
    with pytest.raises(CutOffError):
        run_stream(STREAM, mlp(), SEEDS, checkpoint=checkpoint)
    assert names(tmp_path) == ["begun.json", "fit-0-0", "sessions"]


@pytest.mark.parametrize(
    "begun",
    # the last is of a checkpoint before it had a number
    [b"[" * 100_000, b"\xff\xff", b"null", b'{"resumed": 0, "decided": {}}'],
    ids=lambda begun: str(begun)[:20],
)
def test_what_begun_json_holds_is_looked_at(begun: bytes, tmp_path: Path) -> None:
    (leave(tmp_path, 2) / "begun.json").write_bytes(begun)
    refused(tmp_path, r"^begun\.json is damaged")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun.json")
    refused(tmp_path, r"^begun\.json cannot be read")


LOG: dict[str, Any] = {"learn_seconds": 1.0, "evaluate_seconds": 1.0, "footprint": {}, "log": {}}


@pytest.mark.parametrize(
    "change",
    [
        {"logs": [{}]},
        {"logs": [{**LOG, "log": {"loss": torch.zeros(3)}}]},
        {"logs": None},
        {"learner": None},
        {"evaluator": {}},
        {"evaluator": {"moments": [{"session": 0}], "answer": [], "within": []}},
        {"random": [torch.zeros(3)]},
    ],
    ids=str,
)
def test_a_forged_state_begins_anew(change: dict[str, Any], tmp_path: Path) -> None:
    """Data under the right checksum, of another shape than ours."""
    path = leave(tmp_path, 4) / "sessions"
    state = unpack_state(path.read_bytes(), "cpu", b"{}") | change
    path.write_bytes(pack_state(state, b"{}"))
    refused(tmp_path, r"^sessions (does not fit|is missing or damaged)")


TWO = ["protocol.base=3", "protocol.step=3", "units=8", "stop.rule=epochs"]  # sessions


def vector_cell(folder: Path) -> RunSpec:
    return open_cells(folder, "mlp", *TWO, "stop.epochs=3", seeds=(0,))[0]


def run(cell: RunSpec, root: Path, threads: int, notify: Notify = lambda _: None) -> Path:
    task = make_task(cell, root, StreamCache(), threads)
    run_one.execute(task, notify)
    return task.run_dir


def cut_off(cell: RunSpec, root: Path, threads: int = 1) -> Path:
    task = make_task(cell, root, StreamCache(), threads)
    decided = run_one.checkpoint_key(task)
    checkpoint = Saboteur(task.checkpoint, after=5, decided=decided)
    told: list[str] = []
    with pytest.raises(CutOffError):
        run_one.train_and_predict(task, checkpoint, told.append)
    assert told[0] == "session 0/2"
    assert {p.name for p in task.checkpoint.iterdir()} == {"begun.json", "fit-1-0", "sessions"}
    return task.checkpoint


def test_a_cell_goes_on_and_says_so(tmp_path: Path) -> None:
    cell, told = vector_cell(tmp_path), []
    partial = cut_off(cell, tmp_path / "a", 2)
    assert record_files.find(tmp_path / "a") == []  # no run yet
    place = run(cell, tmp_path / "a", 2, told.append)
    says = "mlp seed 0 was cut off and goes on from its checkpoint, 1 of 2 sessions done"
    assert told == [says]
    assert not partial.exists()
    ours = record_files.load(place)
    assert ours.resumed == 1
    assert ours.environment["threads"] == 2
    for _ in range(2):  # another process could have been first
        whole = run(cell, tmp_path / "b", 2, told.append)
    assert told[1:] == ["another process has finished mlp seed 0 first; its run is kept"]
    assert same(stored(place), stored(whole))


@pytest.mark.parametrize(
    ("name", "threads", "reason"),
    [
        ("begun.json", 2, "it was made with another number of threads"),
        ("sessions", 1, "sessions is damaged"),
        ("fit-1-0", 1, "fit-1-0 is damaged"),
    ],
)
def test_a_cell_begins_anew_and_says(tmp_path: Path, name: str, threads: int, reason: str) -> None:
    cell, told = vector_cell(tmp_path), list[str]()
    partial = cut_off(cell, tmp_path / "a", threads)
    if name != "begun.json":
        flip(partial / name, -1)
    place = run(cell, tmp_path / "a", 1, told.append)
    *before, sentence = told
    assert len(before) == (name == "fit-1-0")  # it had begun to go on
    says = "mlp seed 0 begins anew, its checkpoint cannot be used: "
    assert sentence == says + reason
    ours = record_files.load(place)
    assert ours.resumed == 0
    assert ours.environment["threads"] == 1
    assert same(stored(place), stored(run(cell, tmp_path / "b", 1)))


def test_overwrite_begins_anew(tmp_path: Path) -> None:
    cell, told = vector_cell(tmp_path), []
    partial = cut_off(cell, tmp_path / "a")
    (place,) = run_grid([cell], tmp_path / "a", overwrite=True, notify=told.append).run_dirs
    assert told == []
    assert record_files.load(place).resumed == 0
    assert not partial.exists()


def wait_for(path: Path, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < ends, f"no {path} after {seconds} s"
        time.sleep(0.002)


@pytest.mark.thorough
def test_kill_9_inside_a_session_changes_no_answer(tmp_path: Path) -> None:
    items = [*TWO, "stop.epochs=300"]
    (cell,) = open_cells(tmp_path, "mlp", *items, seeds=(0,))
    line = ["run", *cell.files, "--protocol", "incremental-class", "--learner", "mlp"]
    line += [w for item in ("references=0", *items) for w in ("--set", item)]
    line += ["--checkpoint", "0", "--jobs", "1", "--device", "cpu", "--out", str(tmp_path / "a")]
    task, told = make_task(cell, tmp_path / "a", StreamCache()), tmp_path / "told"
    place, partial = task.run_dir, task.checkpoint
    for name in ("fit-0-0", "fit-1-0"):  # twice, in the first session and in the second
        process = start(line, told)
        for path in (partial / "begun.json", partial / name):
            wait_for(path)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert (partial / name).exists()  # or the session would have ended before
    assert not place.exists()
    process = start(line, told)
    process.join()
    assert process.exitcode == 0, told.read_text()
    assert "goes on from its checkpoint, 1 of 2 sessions done\n" in told.read_text()
    assert not partial.exists()
    (whole,) = run_grid([cell], tmp_path / "b").run_dirs
    assert same(stored(place), stored(whole))
    ours, theirs = record_files.load(place), record_files.load(whole)
    assert (ours.resumed, theirs.resumed) == (2, 0)
    assert plain(ours.metrics) == plain(theirs.metrics)
    assert [s.log for s in ours.sessions] == [s.log for s in theirs.sessions]
