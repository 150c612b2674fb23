import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from embedbench.learning import Context, Learner, Seeds, Session, StreamSpec, Tags


@dataclass
class Chance(Learner):
    """Uniformly random scores, from a hash of the sample's bits.

    The same sample always gets the same answer. The hash uses integers, so that answers do not
    depend on how a batch is cut. With label sets, a fair coin decides each label.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> round(score(run(stream, "chance"))["final_accuracy"], 3)
    0.03
    """

    tags: ClassVar[Tags] = Tags(learns=False, multilabel=True, images=True)
    scores_are = "other"

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        draw = torch.Generator().manual_seed(seeds.init)
        n_inputs = math.prod(spec.input_shape)
        odd = torch.randint(-(2**62), 2**62, (n_inputs + spec.n_classes,), generator=draw) * 2 + 1
        self.least = -0.5 if spec.multilabel else 0.0
        self.column = odd[:n_inputs].to(device)
        self.class_ = odd[n_inputs:].to(device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {}

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        bits = x.flatten(1).contiguous().view(torch.int32).long()  # (n, D)
        key = (bits * self.column).sum(1, keepdim=True)  # wraps modulo 2^64
        mixed = _mix(_mix(key) + self.class_)  # (n, C)
        return (mixed >> 40).float() / 2**23 + self.least  # upper bits in [0, 1), shifted


def _mix(h: torch.Tensor) -> torch.Tensor:
    """Spread every bit over the upper half: multiply by an odd number and fold, twice."""
    for odd in (-7046029254386353131, -4417276706812531889):
        h = h * odd
        h = h ^ (h >> 32)
    return h
