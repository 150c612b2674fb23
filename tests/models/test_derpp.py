"""derpp against its equation, a step at a time."""

from typing import Any

import pytest
import torch
from teaching import NEVER_FULL, SIXES, batches_of, check_online_steps, online_stream
from torch.nn.functional import cross_entropy, mse_loss

from embedbench.models.derpp import DERpp


@pytest.mark.parametrize("seen_alone", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(0.4, 0.0), (0.4, 0.7), (0.0, 0.7)])
def test_derpp_is_its_equation(alpha: float, beta: float, seen_alone: bool) -> None:
    """At β = 0 it is DER. Over the classes seen, a class's stored logits count once it has come."""
    stored = []

    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        n = max(*new[1].tolist(), *old[1].tolist()) + 1 if seen_alone else 4
        z = net(new[0])
        loss = cross_entropy(z[:, :n], new[1])
        if stored:
            first = draw(6)
            loss = loss + alpha * mse_loss(net(old[0][first])[:, :n], torch.cat(stored)[first, :n])
            if beta:
                second = draw(6)
                loss = loss + beta * cross_entropy(net(old[0][second])[:, :n], old[1][second])
        loss.backward()
        stored.append(z.detach())

    learner = DERpp(memory=NEVER_FULL, alpha=alpha, beta=beta, **SIXES)
    check_online_steps(
        learner, batches_of(online_stream(), 5), gradients, loss_over_seen=seen_alone
    )
    kept = learner.exemplars.state_dict()["logits"]
    torch.testing.assert_close(kept, torch.cat(stored), rtol=1e-4, atol=1e-5)
