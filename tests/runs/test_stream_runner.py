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
from embedbench.learning.learner import Context, Learner, Tags, refuse_without_validation
from embedbench.learning.stopping import Stop
from embedbench.models.alice import ALICE
from embedbench.models.chance import Chance
from embedbench.models.er import ER
from embedbench.models.ewc import EWC
from embedbench.models.fel import FEL
from embedbench.models.fr import FR
from embedbench.models.gdumb import GDumb
from embedbench.models.icarl import ICaRL
from embedbench.models.mlp import MLP
from embedbench.models.ncm import NCM
from embedbench.models.offline import Offline
from embedbench.models.pathnet import PathNet
from embedbench.runs.stream_runner import _validation_score, enough_memory, run_stream
from embedbench.streams.stream import Session, Stream, StreamSpec
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


def test_a_head_a_session_is_refused_by_learners_that_compare_the_classes_seen() -> None:
    stream = class_stream([[0, 1], [2]])
    stream = replace(stream, spec=replace(stream.spec, loss_over_session=True))
    for learner in (ICaRL(**TRAINING), FEL(), GDumb(**TRAINING)):
        with pytest.raises(UserError, match="wants a head a session"):
            run_stream(stream, learner, Seeds.of(0))
    for learner in (Chance(), NCM(), MLP(**TRAINING), Offline(mlp=MLP(**TRAINING))):
        run_stream(stream, learner, Seeds.of(0))


def test_batches_of_an_online_stream_have_no_heads() -> None:
    stream = class_stream([[0, 1], [2]])
    stream = replace(stream, spec=replace(stream.spec, loss_over_session=True), observe_batch=10)
    with pytest.raises(UserError, match="observe_batch=0"):
        run_stream(stream, ER(**TRAINING), Seeds.of(0))


@dataclass
class Numbered(MLP):
    """Trains on the number of the session; forgets to count, as none must."""

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {**self.train(session, ctx), "number": self.learned}


BY_VALIDATION = MLP(units=4, stop=Stop(epochs=2, min_steps=0))


def without_validation() -> Stream:
    """A stream whose protocol holds nothing out."""
    stream = class_stream([[0, 1], [2], [3]])
    none = [
        replace(s, val_x=s.val_x.select(np.arange(0)), val_y=s.val_y[:0]) for s in stream.sessions
    ]
    return replace(stream, sessions=tuple(none), validation="none")


@pytest.mark.parametrize(
    ("learner", "names"),
    [
        (BY_VALIDATION, r"mlp\.stop\.rule=patience.*--set mlp\.stop\.rule=epochs"),
        (MLP(stop=Stop(rule="plateau")), r"mlp\.stop\.rule=plateau"),
        (EWC(**TRAINING), r"ewc\.lam=none.*--set ewc\.lam="),
        (EWC(**TRAINING, lam=1.0, past_validation=True), "ewc.past_validation=true"),
        (ALICE(), r"alice\.stop\.rule=patience"),
        (PathNet(), r"\(pathnet\.val_samples=\d+\), .* leaves none; take --set"),
    ],
)
def test_a_learner_that_looks_at_validation_data_needs_some(learner: Learner, names: str) -> None:
    with pytest.raises(UserError, match=names):
        refuse_without_validation(learner, learner.name, online=True)


@pytest.mark.parametrize(
    "learner",
    [MLP(**TRAINING), MLP(passes=2.0), EWC(**TRAINING, lam=1.0), ER(), ICaRL(), NCM(), GDumb()],
)
def test_others_need_none(learner: Learner) -> None:
    refuse_without_validation(learner, learner.name, online=True)


def test_a_learner_of_batches_needs_some_where_it_gets_sessions() -> None:
    with pytest.raises(UserError, match=r"er\.stop\.rule=patience"):
        refuse_without_validation(ER(), "er", online=False)


def test_the_runner_refuses_it() -> None:
    with pytest.raises(UserError, match="mlp looks at validation data"):
        run_stream(without_validation(), BY_VALIDATION, Seeds.of(0))


def test_a_learner_that_asks_for_its_score_is_refused_then() -> None:
    class Asks(Chance):
        def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
            return {"score": ctx.validate(self.scores)}

    with pytest.raises(UserError, match="asks for its score on validation data"):
        run_stream(without_validation(), Asks(), Seeds.of(0))


def test_the_reference_looks_at_its_training_loss_instead() -> None:
    _, (costs,) = run_stream(without_validation(), Offline(mlp=BY_VALIDATION), Seeds.of(0))
    assert costs.log["monitor"] == "train_loss"


@pytest.mark.parametrize(
    ("learner", "unread"),
    [(NCM(), [True] * 3), (MLP(**TRAINING), [True] * 3), (BY_VALIDATION, [False] * 3)],
)
def test_the_log_says_whether_test_data_was_read(learner: Learner, unread: list[bool]) -> None:
    _, costs = run_stream(
        replace(class_stream([[0, 1], [2], [3]]), validation="test"), learner, Seeds.of(0)
    )
    assert [c.log["test_data_unread"] for c in costs] == unread


def test_a_learner_that_validates_by_the_context_has_read_it() -> None:
    class Asks(Chance):
        def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
            if self.learned == 1:
                ctx.validate(self.scores)
            return {"test_data_unread": True}  # which the runner knows better

    stream = replace(class_stream([[0, 1], [2], [3]]), validation="test")
    _, costs = run_stream(stream, Asks(), Seeds.of(0))
    assert [c.log["test_data_unread"] for c in costs] == [True, False, False]


def test_validation_data_from_training_data_is_not_watched() -> None:
    _, costs = run_stream(class_stream([[0, 1], [2], [3]]), NCM(), Seeds.of(0))
    assert not any("test_data_unread" in c.log for c in costs)


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
