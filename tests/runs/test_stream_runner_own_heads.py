"""Task-incremental training where sessions share classes, against loops with a head a session."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from file_helpers import says
from protocol_files import make_file
from teaching import SGD, minibatches
from torch import Tensor, nn

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.learning import Context, Learner, Memory, Seeds, Session, StreamSpec, generator
from embedbench.learning.network import mlp_net
from embedbench.models.chance import Chance
from embedbench.models.er import ER
from embedbench.models.ewc import EWC
from embedbench.models.gdumb import GDumb
from embedbench.models.joint import Joint
from embedbench.models.lwf import LwF
from embedbench.models.mlp import MLP
from embedbench.models.ncm import NCM
from embedbench.models.offline import Offline
from embedbench.models.pathnet import PathNet
from embedbench.protocols.domain_incremental import DomainIncremental
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.permutation import Permutation
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream

SEEDS = Seeds.of(0)
PLAIN: dict[str, Any] = {**SGD, "weight_decay": 0.0}
ALL = Memory(select="all")
N_CLASSES, N_SESSIONS, WIDTH = 3, 3, 4


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    counts = [14] * N_CLASSES, [2] * N_CLASSES, [6] * N_CLASSES
    rows = sum(map(sum, counts))
    columns = {"domain": np.array([f"room {n % N_SESSIONS}" for n in range(rows)])}
    return make_file(tmp_path_factory.mktemp("heads"), *counts, apart=2.0, columns=columns)


def permuted(file: EmbeddingFile, **settings: Any) -> Stream:
    given = {"sessions": N_SESSIONS, "loss": "session", "observe_batch": 0, **settings}
    return Permutation(**given).build([file], seed=0)


# --- a trunk with a list of heads, by plain loops ---


class Heads(nn.Module):
    """A trunk and a linear head a session, with the initial weights of the learner's one layer."""

    def __init__(self) -> None:
        super().__init__()
        net = mlp_net(WIDTH, 6, 2, N_SESSIONS * N_CLASSES, SEEDS.init)
        self.trunk = net[:-1]
        self.heads = nn.ModuleList(nn.Linear(6, N_CLASSES) for _ in range(N_SESSIONS))
        with torch.no_grad():
            for t, head in enumerate(self.heads):
                units = slice(t * N_CLASSES, (t + 1) * N_CLASSES)
                head.weight.copy_(net[-1].weight[units])  # type: ignore[operator]  # a Tensor
                head.bias.copy_(net[-1].bias[units])  # type: ignore[operator]  # a Tensor

    def forward(self, x: Tensor, session: int) -> Tensor:
        out: Tensor = self.heads[session](self.trunk(x))
        return out


Samples = list[tuple[Tensor, int, int]]  # a sample, its class, the number of its session
Loss = Callable[[Heads, Samples, Samples, Any, int], Tensor]


def own_loss(net: Heads, samples: Samples) -> Tensor:
    """The mean loss, each sample by the head of its session."""
    losses = []
    for x, y, session in samples:
        z = net(x, session)
        losses.append(torch.log(z.exp().sum()) - z[y])
    return torch.stack(losses).mean()


def samples_of(session: Session, number: int) -> Samples:
    pairs = zip(session.x.tensor(), session.y.tolist(), strict=True)
    return [(x, y, number) for x, y in pairs]


def by_loops(stream: Stream, loss: Loss, *, joint: bool = False) -> list[list[int]]:
    """The answers to all test samples after each session."""
    net, old, answers = Heads(), list[Any](), []
    for number, session in enumerate(stream.sessions):
        new = samples_of(session, number)
        data = old + new if joint else new
        net = Heads() if joint else net
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        draw = np.random.default_rng([SEEDS.batches, number])
        for index in minibatches(len(data), generator(SEEDS.batches, number)):
            sgd.zero_grad()
            loss(net, [data[i] for i in index], old, draw, number).backward()  # type: ignore[no-untyped-call]
            sgd.step()
        old = old + new
        found = []
        for asked, test in enumerate(stream.eval_sets):
            found += [int(net(x, asked).argmax()) for x in test.x.tensor()]
        answers.append(found)
    return answers


def alone(net: Heads, new: Samples, old: Samples, draw: Any, number: int) -> Tensor:
    return own_loss(net, new)


def replayed(net: Heads, new: Samples, old: Samples, draw: Any, number: int) -> Tensor:
    if not old:
        return own_loss(net, new)
    chosen = draw.choice(len(old), min(8, len(old)), replace=False, shuffle=False)
    return own_loss(net, new + [old[i] for i in chosen])


def distilled() -> Loss:
    teachers: dict[int, Heads] = {}

    def loss(net: Heads, new: Samples, old: Samples, draw: Any, number: int) -> Tensor:
        teacher = teachers.setdefault(number, copy.deepcopy(net))
        total = own_loss(net, new)
        for earlier in range(number):
            for x, _, _ in new:
                target = torch.softmax(teacher(x, earlier).detach() / 2, 0)
                kept = -(target * torch.log_softmax(net(x, earlier) / 2, 0)).sum()
                total = total + 1.5 * kept / len(new)
        return total

    return loss


CASES: dict[str, tuple[Learner, Callable[[], Loss], bool]] = {
    "mlp": (MLP(**PLAIN), lambda: alone, False),
    "er": (ER(**PLAIN, memory=ALL, replay_by="step"), lambda: replayed, False),
    "lwf": (LwF(**PLAIN, lam=1.5), distilled, False),
    "joint": (Joint(**PLAIN), lambda: alone, True),
}
PROTOCOLS: list[Protocol] = [
    Permutation(sessions=N_SESSIONS, loss="session", observe_batch=0, scale="none"),
    DomainIncremental(loss="session", observe_batch=0, scale="none"),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_a_head_a_session(
    name: str, protocol: Protocol, file: EmbeddingFile
) -> None:
    learner, loss, joint = CASES[name]
    stream = protocol.build([file], seed=0)
    answers, _ = run_stream(stream, copy.deepcopy(learner), SEEDS)
    assert answers.answer.tolist() == by_loops(stream, loss(), joint=joint)


def test_one_head_for_all_answers_otherwise(file: EmbeddingFile) -> None:
    """So that the loops above tell one from the other."""
    stream = permuted(file, loss="all", scale="none")
    answers, _ = run_stream(stream, MLP(**PLAIN), SEEDS)
    own = permuted(file, scale="none")
    assert answers.answer.tolist() != by_loops(own, alone)


# --- answers and what is known of the stream ---


@dataclass
class Units(Learner):
    """Scores unit u, of all heads, u for every sample; but its best of each head t is class t."""

    state: ClassVar[dict[str, str]] = {}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.width = spec.n_classes

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        labels = sorted({*session.y.tolist()})
        return {"labels": labels, "validated": ctx.validate(self.scores)}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        each = torch.arange(float(self.width))
        for t in range(N_SESSIONS):
            each[t * N_CLASSES + t] += N_CLASSES
        return each.expand(len(x), -1)


def test_answers_by_hand(file: EmbeddingFile) -> None:
    """Of 9 units 3t + t is the best of head t: the answer to samples of session t is t."""
    stream = permuted(file)
    answers, costs = run_stream(stream, Units(), SEEDS)
    assert answers.answer.tolist() == [[0] * 18 + [1] * 18 + [2] * 18] * 3
    assert answers.within.tolist() == answers.answer.tolist()
    assert answers.seen.tolist() == [[True] * N_CLASSES] * N_SESSIONS
    learned = [cost.log["labels"] for cost in costs]
    assert learned == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_validation_samples_are_answered_within_their_head(file: EmbeddingFile) -> None:
    """A third of them is of class t; other heads have higher scores."""
    _, costs = run_stream(permuted(file), Units(), SEEDS)
    assert [cost.log["validated"] for cost in costs] == pytest.approx([1 / 3] * N_SESSIONS)


def test_the_runner_says_that_ids_are_known(file: EmbeddingFile) -> None:
    stream = permuted(file)
    assert stream.spec.reveals_session_id
    assert [s.session_id for s in stream.sessions] == [0, 1, 2]


def test_truth_and_reference_are_those_without_heads(file: EmbeddingFile) -> None:
    plain, own = permuted(file, loss="all"), permuted(file)
    assert own.digests["eval"] == plain.digests["eval"]
    assert own.digests["features"] == plain.digests["features"]
    assert own.digests["train"] != plain.digests["train"]
    assert own.digests["recipe"] != plain.digests["recipe"]
    assert own.merged().digests == plain.merged().digests
    learner = Offline(learner="mlp")
    learner.mlp = MLP(**PLAIN)
    answers = [run_stream(each, copy.deepcopy(learner), SEEDS)[0].answer for each in (plain, own)]
    np.testing.assert_array_equal(*answers)


def test_ncm_has_means_of_each_session(file: EmbeddingFile) -> None:
    """The nearest mean of the sample's own session, by hand."""
    stream = permuted(file, observe_batch=10)
    answers, _ = run_stream(stream, NCM(metric="euclidean", average="plain"), SEEDS)
    expected: list[int] = []
    for session, test in zip(stream.sessions, stream.eval_sets, strict=True):
        x = session.x.numpy()
        means = np.stack([x[session.y == c].mean(0) for c in range(N_CLASSES)])
        distance = np.square(test.x.numpy()[:, None] - means).sum(2)
        expected += distance.argmin(1).tolist()
    assert answers.answer[-1].tolist() == expected


def test_chance_and_pathnet_learn_the_classes_themselves(file: EmbeddingFile) -> None:
    small = {"units": 4, "modules": 2, "active": 1, "population": 2, "batches": 1, "cap": 2}
    for learner in (Chance(), PathNet(**small)):
        answers, _ = run_stream(permuted(file), learner, SEEDS)
        assert answers.answer.max() < N_CLASSES


def test_ewc_trains_no_head_of_another_session(file: EmbeddingFile) -> None:
    learner = EWC(**PLAIN, lam=5.0)
    run_stream(permuted(file), learner, SEEDS)
    start = mlp_net(WIDTH, 6, 2, N_SESSIONS * N_CLASSES, SEEDS.init)[-1].weight
    assert learner.net.head.weight.shape == start.shape
    assert (learner.net.head.weight != start).any(1).all()


# --- where it is refused ---


@pytest.mark.parametrize(
    ("learner", "what"),
    [
        (GDumb(units=4), "wants a head a session"),
        (ER(**PLAIN), "observe_batch=0"),
    ],
    ids=["no heads", "batches"],
)
def test_who_has_no_heads_is_refused(learner: Learner, what: str, file: EmbeddingFile) -> None:
    with pytest.raises(UserError, match=what):
        run_stream(permuted(file, observe_batch=10), learner, SEEDS)


def test_one_test_set_of_all_domains_has_no_head() -> None:
    what = (
        "protocol.loss=session answers by the head of a sample's session, and protocol.test=all "
        "has test samples of no session"
    )
    with pytest.raises(UserError, check=says(what=what)):
        DomainIncremental(loss="session", test="all")


def test_places_as_labels_have_no_heads() -> None:
    what = (
        "protocol.loss=session wants classes of its own for the head of each session, and "
        "protocol.labels=place gives all sessions the same labels"
    )
    with pytest.raises(UserError, check=says(what=what)):
        IncrementalClass(labels="place", loss="session")


@pytest.mark.parametrize("cls", [Permutation, DomainIncremental])
def test_the_place_without_heads_stays(cls: type[Protocol]) -> None:
    assert '"loss"' not in cls().recipe()
