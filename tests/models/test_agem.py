"""agem: the projection by hand, and the plain algorithm, a step at a time."""

from typing import Any
from unittest import mock

import torch
from teaching import NEVER_FULL, SGD, SIXES, batches_of, check_online_steps, online_stream, teach
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.models.agem import AGEM, project


def test_projection_by_hand() -> None:
    r = torch.tensor([0.0, 2.0])
    assert project(torch.tensor([3.0, -1.0]), r).tolist() == [3.0, 0.0]
    assert project(torch.tensor([3.0, 1.0]), r).tolist() == [3.0, 1.0]
    assert project(torch.tensor([3.0, -1.0]), torch.zeros(2)).tolist() == [3.0, -1.0]
    assert project(torch.tensor([3.0, -1.0]), 1e-25 * r).tolist() == [3.0, 0.0]


def test_agem_steps_along_the_projected_gradient() -> None:
    signs = []

    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        cross_entropy(net(new[0]), new[1]).backward()
        if not len(old[1]):
            return
        chosen, parameters = draw(6), list(net.parameters())
        loss = cross_entropy(net(old[0][chosen]), old[1][chosen])
        reference = torch.autograd.grad(loss, parameters)
        pairs = list(zip(parameters, reference, strict=True))
        dot = sum(float((p.grad * r).sum()) for p, r in pairs)
        size = sum(float(r.square().sum()) for r in reference)
        signs.append(dot < 0)
        for p, r in pairs if dot < 0 else []:
            p.grad = p.grad - dot / size * r

    check_online_steps(AGEM(memory=NEVER_FULL, **SIXES), batches_of(online_stream(), 5), gradients)
    assert {*signs} == {True, False}


def test_agem_projects_in_every_step_of_later_sessions_of_the_same_classes() -> None:
    with mock.patch.object(AGEM, "_constrain") as projected:
        teach(AGEM(**SGD), class_stream([[0, 1], [0, 1]]))  # three epochs of 40 samples by 8
    assert [len(call.args[0]) for call in projected.call_args_list] == [8] * 15
