"""The runner's online side: batches, evaluation moments, and what a record has of them."""

import itertools
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from multilabel_streams import hierarchy_stream
from toy import class_stream

from embedbench.api import make_learner
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.footprint import Footprint
from embedbench.learning.learner import Context, Learner, Tags
from embedbench.learning.stopping import Stop
from embedbench.models.chance import Chance
from embedbench.models.er import ER
from embedbench.models.fr import FR
from embedbench.models.mlp import MLP
from embedbench.models.offline import Offline
from embedbench.runs.stream_runner import _validation_score, enough_memory, run_stream
from embedbench.streams.stream import Session, StreamSpec
from embedbench.streams.view import View, rows_of, table_of

TRAINING = {"units": 4, "stop": Stop(rule="epochs", epochs=1)}


@dataclass
class Counter(Learner):
    """Remembers the sizes of its batches and their first column; answers the last label."""

    tags: ClassVar[Tags] = Tags(online=True, learns=False)

    sizes: list[int] = field(default_factory=list, init=False)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.sizes, self.read, self.prepared = [], list[int](), 0
        self.last, self.classes = 0, spec.n_classes

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.sizes.append(len(x))
        self.read += x[:, 0].int().tolist()
        self.last = int(y[-1])

    def prepare(self) -> None:
        self.prepared += 1

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.full((len(x),), self.last), self.classes).float()

    def footprint(self) -> Footprint:
        return Footprint()


# 40, 20 and 20 training samples; evaluated after the batch that reaches a multiple of `every`
@pytest.mark.parametrize(
    ("batch", "every", "moments"),
    [
        (10, 0, [40, 60, 80]),
        (10, 20, [20, 40, 60, 80]),
        (10, 15, [20, 30, 40, 50, 60, 80]),  # 75 is reached with 80
        (12, 40, [40, 60, 80]),
        (7, 30, [35, 40, 60, 80]),  # a session's last batch is short: 40 = 5·7 + 5
        (100, 1, [40, 60, 80]),
    ],
)
def test_an_online_learner_is_evaluated_often(batch: int, every: int, moments: list[int]) -> None:
    stream = class_stream([[0, 1], [2], [3]], n_train=20)
    stream, learner = replace(stream, observe_batch=batch, evaluate_every=every), Counter()
    found, logs = run_stream(stream, learner, Seeds.of(0))
    assert found.samples_seen.tolist() == moments
    assert found.session.tolist() == [0 if n <= 40 else 1 if n <= 60 else 2 for n in moments]
    per_session = [-(-n // batch) for n in (40, 20, 20)]
    assert [s.log["batches"] for s in logs] == per_session
    assert (len(learner.sizes), sum(learner.sizes)) == (sum(per_session), 80)
    assert learner.prepared == len(moments)


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_an_ordered_stream_comes_in_its_order(batch: int) -> None:
    stream = class_stream([[0, 1], [2]], n_test=2)
    draw = np.random.default_rng(0)
    rows = [draw.permutation(rows_of(s.x)) for s in stream.sessions]
    values = table_of(stream.sessions[0].x).values
    values[:, 0] = np.arange(len(values))
    pairs = zip(stream.sessions, rows, strict=True)
    sessions = [replace(s, x=View(table_of(s.x), r, s.x.width)) for s, r in pairs]
    ordered = replace(stream, sessions=tuple(sessions), observe_batch=batch, ordered=True)
    learner, expected = Counter(), np.concatenate(rows).tolist()
    run_stream(ordered, learner, Seeds.of(0))
    assert learner.read == expected
    run_stream(replace(ordered, ordered=False), learner, Seeds.of(0))
    assert learner.read != expected
    assert sorted(learner.read) == sorted(expected)


def test_label_sets_are_validated_by_what_is_above_0() -> None:
    """Of the classes that the loss uses; a sample with a right answer counts 1, one with none 0."""
    session = hierarchy_stream().sessions[1]
    y, used = session.val_y, session.loss_classes
    scores = torch.from_numpy(np.where(y, 1.0, 0.0 if used is None else ~used))
    scores[:2] = -1.0
    score = _validation_score(lambda _: scores, session, np.ones(y.shape[1], np.bool_), "cpu")
    assert score == pytest.approx(1 - 2 / len(y))


def test_a_task_free_stream_takes_learners_of_batches() -> None:
    stream = replace(class_stream([[0, 1], [2]]), task_free=True)
    for learner in (Counter(), Chance(), Offline(mlp=MLP(**TRAINING))):
        run_stream(stream, learner, Seeds.of(0))
    says = {MLP: "MLP learns whole", FR: "FR needs intermediate", Counter: "Counter learns from"}
    for kind, said in says.items():
        with pytest.raises(UserError, match=said):
            run_stream(replace(stream, observe_batch=0), kind(), Seeds.of(0))


@dataclass
class Numbered(MLP):
    """Trains on the number of the session; forgets to count, as none must."""

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {**self.train(session, ctx), "number": self.learned}


def test_the_runner_counts_the_sessions() -> None:
    stream = class_stream([[0, 1], [2], [3]])
    learner = Numbered(**TRAINING)
    for _ in range(2):  # `start` begins anew
        told: list[str] = []
        _, logs = run_stream(stream, learner, Seeds.of(0), progress=told.append)
        assert [log.log["number"] for log in logs] == [0, 1, 2]
        told = [text for text in told if text.startswith("session")]
        assert told == [f"session {i}/3" for i in (1, 2, 3)]
        assert learner.learned == learner.state_dict()["learned"] == 3
    held = Offline(mlp=MLP(**TRAINING))
    run_stream(stream, held, Seeds.of(0))
    assert held.mlp.learned == 1


def test_a_card_without_enough_memory_is_one_sentence() -> None:
    with pytest.raises(UserError) as raised, enough_memory("cuda"):
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of …"
        )
    says = "cuda has not enough memory (Tried to allocate 20.00 GiB); let fewer runs"
    assert str(raised.value).startswith(says)


@pytest.mark.parametrize("every", [0, 7])
def test_the_seconds_of_a_run_are_a_sum(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr("embedbench.runs.stream_runner.time", clock)
    stream = class_stream(((0, 1), (2,)), n_train=10)
    _, logs = run_stream(replace(stream, evaluate_every=every), ER(), Seeds.of(0))
    # one second a lesson and one an evaluation; 20 and 10 samples come in batches of 10
    moments = [2, 1] if every else [1, 1]
    assert [log.learn_seconds for log in logs] == moments
    assert [log.evaluate_seconds for log in logs] == moments


def test_a_closed_form_logs_batches_and_no_steps() -> None:
    stream = replace(class_stream([[0, 1], [2]], n_train=20), observe_batch=10)
    _, logs = run_stream(stream, make_learner("slda"), Seeds.of(0))
    assert [log.log for log in logs] == [{"batches": 4, "epochs": 1}, {"batches": 2, "epochs": 1}]
