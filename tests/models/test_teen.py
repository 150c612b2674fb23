"""teen: calibrated prototypes by hand."""

import math
from typing import Any

import numpy as np
import torch
from teaching import learn, start
from toy import session

from embedbench.learning import StreamSpec
from embedbench.learning.learner import Learner
from embedbench.models.teen import TEEN


def started(learner: Learner, width: int, n_classes: int) -> Any:
    return start(learner, StreamSpec((width,), n_classes))


def test_teen_by_hand_on_three_classes() -> None:
    """p_0 = (1, 0), p_1 = (0, 1) of the base session, p_2 = (.6, .8) novel; τ = 5, α = .25.

    Weights are e³ and e⁴ over their sum: .26894 and .73106, Δ of length √(.26894² + .73106²) =
    .77896 points to (.34526, .93850). p_2 becomes .75 (.6, .8) + .25 Δ = (.53631, .83463).
    """
    learner = started(TEEN(alpha=0.25, scale=5.0), 2, 3)
    learn(learner, session(np.array([[2.0, 0], [0, 3.0], [4, 0]]), [0, 1, 0]))
    learn(learner, session(np.array([[3.0, 4.0]]), [2]))
    found = learner.scores(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    length = math.hypot(0.53631, 0.83463)
    expected = torch.tensor([[1, 0, 0.53631 / length], [0, 1, 0.83463 / length]])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
