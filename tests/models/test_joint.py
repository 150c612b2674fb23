"""Joint: trained on all data so far after every session; what it keeps, and its two ways on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from teaching import SGD, assert_same_weights, descend, minibatches, teach
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.learning import Seeds, Stop, generator
from embedbench.learning.network import mlp_net
from embedbench.models.joint import Joint
from embedbench.streams.stream import Stream

STREAM = class_stream([[0, 1], [2], [3]])


def taught(stream: Stream, **settings: Any) -> Any:
    return teach(Joint(**{**SGD, "layers": 1, **settings}), stream)[0]


@pytest.mark.parametrize("weights", ["fresh", "kept"])
def test_each_session_trains_on_all_samples_so_far(weights: str) -> None:
    """The plain algorithm: gather, initialise (or not), three epochs of SGD."""
    x = torch.cat([s.x.tensor() for s in STREAM.sessions])
    y = torch.cat([torch.tensor(s.y) for s in STREAM.sessions])
    seeds = Seeds.of(0)
    net = mlp_net(6, 6, 1, 4, seeds.init)
    for t, end in enumerate(np.cumsum([len(s.y) for s in STREAM.sessions])):
        if weights == "fresh":
            net = mlp_net(6, 6, 1, 4, seeds.init)
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for batch in minibatches(int(end), generator(seeds.batches, t)):
            descend(sgd, cross_entropy(net(x[batch]), y[batch]))
    assert_same_weights(taught(STREAM, weights=weights), net)


def test_validation_data_of_all_sessions_are_kept_and_every_sample_is_counted_once() -> None:
    learner = taught(STREAM, stop=Stop(epochs=4, min_steps=0, monitor="accuracy"))
    assert [len(k) for k in (learner.validation, learner.samples)] == [4 * 4, 4 * 20]
    x = torch.cat([s.val_x.tensor() for s in STREAM.sessions])
    assert torch.equal(learner.validation.tensor(), x)
    y = np.concatenate([s.val_y for s in STREAM.sessions])
    assert learner.validation.y.tolist() == y.tolist()
    held = learner.footprint()
    assert held["samples"] == 4 * 24 * (6 * 4 + 4)  # float32 values, an int32 label
    assert held["index"] == 4 * 24 * 8


def test_the_loss_sees_the_classes_of_all_sessions() -> None:
    own = (replace(s, loss_classes=np.isin(range(4), s.classes)) for s in STREAM.sessions[:2])
    learner = taught(replace(STREAM, sessions=tuple(own)))
    assert learner.loss_classes.tolist() == [True, True, True, False]
    unseen = mlp_net(6, 6, 1, 4, Seeds.of(0).init)[-1].weight[3]
    assert torch.equal(learner.net[-1].weight[3], unseen)  # no gradient reached it
    assert taught(STREAM).loss_classes is None
