"""er against the plain algorithm, a step at a time."""

from typing import Any

import torch
from teaching import NEVER_FULL, SIXES, batches_of, check_online_steps, online_stream
from torch.nn.functional import cross_entropy

from embedbench.models.er import ER


def test_er_trains_on_the_batch_and_a_draw_of_all_before_it() -> None:
    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        chosen = draw(6)
        x, y = (torch.cat([a, b[chosen]]) for a, b in zip(new, old, strict=True))
        cross_entropy(net(x), y).backward()

    check_online_steps(ER(memory=NEVER_FULL, **SIXES), batches_of(online_stream(), 5), gradients)
