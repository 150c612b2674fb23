"""Joint: the offline learner after the last session, what it keeps, and its two ways to go on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy import class_stream, context

from embedbench.cli import list_entries
from embedbench.config.run_seeds import Seeds, generator
from embedbench.learning.learner import learn_session
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop
from embedbench.models.joint import Joint
from embedbench.models.mlp import MLP
from embedbench.models.offline import Offline
from embedbench.runs import learner_and_protocol_names
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.single_label_scores import score_matrix
from embedbench.streams.stream import Stream

SMALL: dict[str, Any] = {
    "units": 8,
    "layers": 1,
    "batch_size": 8,
    "lr": 0.05,
    "optimiser": "sgd",
    "stop": Stop(rule="epochs", epochs=3),
}
STREAM = class_stream([[0, 1], [2], [3]])
X = torch.cat([e.x.tensor() for e in STREAM.eval_sets])


def taught(stream: Stream, **settings: Any) -> Joint:
    learner = Joint(**{**SMALL, **settings})
    learner.start(stream.spec, Seeds.of(0), "cpu")
    for part in stream.sessions:
        learn_session(learner, part, context())
    return learner


@pytest.mark.parametrize("weights", ["fresh", "kept"])
def test_each_session_trains_on_all_samples_so_far(weights: str) -> None:
    """The plain algorithm: gather, initialise (or not), three epochs of SGD."""
    learner = taught(STREAM, weights=weights)
    x = torch.cat([s.x.tensor() for s in STREAM.sessions])
    y = torch.cat([torch.tensor(s.y) for s in STREAM.sessions])
    ends = np.cumsum([len(s.y) for s in STREAM.sessions])
    seeds = Seeds.of(0)
    net = mlp_net(6, 8, 1, 4, seeds.init)
    for t, end in enumerate(ends):
        if weights == "fresh":
            net = mlp_net(6, 8, 1, 4, seeds.init)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        draw = generator(seeds.batches, t)
        for _ in range(3):
            for batch in torch.randperm(end, generator=draw).split(8):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
                optimiser.step()
    torch.testing.assert_close(learner.scores(X), net(X).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_at_the_end_it_has_reached_what_the_offline_learner_reaches(seed: int) -> None:
    """The same data, shuffled otherwise: within what seeds allow; and exactly on one session."""
    stream = class_stream([[0, 1], [2], [3, 4]], n_train=40, spread=1.0, seed=seed)
    settings = {**SMALL, "units": 32, "lr": 0.01, "stop": Stop(epochs=30)}

    def final(learner: Any, given: Stream) -> float:
        matrix = score_matrix(run_stream(given, learner, Seeds.of(seed))[0])
        return float(matrix.pooled[-1])

    joint = final(Joint(**settings), stream)
    offline = final(Offline(mlp=MLP(**settings)), stream)
    assert abs(joint - offline) < 0.1
    assert final(MLP(**settings), stream) < joint - 0.2
    whole = stream.merged()
    one, other = Joint(**settings), MLP(**settings)
    run_stream(whole, one, Seeds.of(seed))
    run_stream(whole, other, Seeds.of(seed))
    x = whole.eval_sets[0].x.tensor()
    assert torch.equal(one.scores(x), other.scores(x))


def test_validation_data_of_all_sessions_decide_when_to_stop() -> None:
    stop = Stop(epochs=4, min_steps=0, monitor="accuracy")
    learner = taught(STREAM, stop=stop)
    kept = [learner.validation, learner.samples]
    assert [len(k) for k in kept] == [4 * 4, 4 * 20]
    x = torch.cat([s.val_x.tensor() for s in STREAM.sessions])
    assert torch.equal(learner.validation.tensor(), x)
    assert learner.validation.y.tolist() == np.concatenate(
        [s.val_y for s in STREAM.sessions]
    ).tolist()  # fmt: skip


def test_every_sample_is_counted_once() -> None:
    learner = taught(STREAM)
    held = learner.footprint()
    n = 4 * 24  # training and validation samples
    assert held["samples"] == n * (6 * 4 + 4)  # float32 values, an int32 label
    assert held["index"] == n * 8
    assert taught(class_stream([[0, 1]])).footprint()["samples"] == n * (6 * 4 + 4) // 2


def test_permuted_sessions_are_read_through_their_permutations() -> None:
    one = class_stream([[0, 1]]).sessions[0]
    columns = np.array([3, 1, 0, 5, 4, 2])
    again = replace(one, x=replace(one.x, columns=columns))
    learner = taught(replace(class_stream([[0, 1]]), sessions=(one, again)))
    n = len(one.x)
    index = torch.tensor([n + 3, 2, n, 7])
    expected = torch.stack([one.x.tensor()[3, columns], one.x.tensor()[2],
                            one.x.tensor()[0, columns], one.x.tensor()[7]])  # fmt: skip
    assert torch.equal(learner.samples.batch(index), expected)
    assert torch.equal(learner.samples.tensor()[index], expected)


def test_the_loss_sees_the_classes_of_all_sessions() -> None:
    masks = [np.array(m, dtype=np.bool_) for m in ([1, 1, 0, 0], [0, 0, 1, 0])]
    sessions = tuple(
        replace(s, loss_classes=m) for s, m in zip(STREAM.sessions[:2], masks, strict=True)
    )
    learner = taught(replace(STREAM, sessions=sessions))
    assert learner.loss_classes is not None
    assert learner.loss_classes.tolist() == [True, True, True, False]
    unseen = mlp_net(6, 8, 1, 4, Seeds.of(0).init)[-1].weight[3]
    assert torch.equal(learner.net[-1].weight[3], unseen)  # no gradient reached it
    assert taught(STREAM).loss_classes is None


def test_other_names_are_the_same_learners() -> None:
    assert learner_and_protocol_names.learner_class("incremental-joint") is Joint
    assert learner_and_protocol_names.learner_class("incremental_joint") is Joint
    assert learner_and_protocol_names.learner_class("finetune") is MLP
    said = {e["name"]: e["summary"] for e in list_entries.entries("learners")}
    assert said["finetune"] == "another name of mlp"
    assert said["incremental-joint"] == "another name of joint"
