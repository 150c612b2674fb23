"""Offline: the reference α_ideal, an MLP that gets all sessions at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from embedbench.config.seeds import Seeds
from embedbench.learning.learner import Context, Learner, Tags, learn_session
from embedbench.learning.stopping import Stop
from embedbench.streams.stream import Session, StreamSpec

from .mlp import MLP

PERFECT = 5  # as many epochs as the patience: fewer end too early on few validation samples


@dataclass
class Offline(Learner):
    """The baseline MLP trained on the merged stream: every sample once, all classes at once.

    **Source**: Kemker et al. (2018), "α_ideal", the offline MLP accuracy that normalises Ω.

    **Departs**: training also ends after five epochs in a row in which every validation sample was
    answered right. With `--set offline.mlp.stop.perfect=0` patience alone decides, as in the first
    runs of this learner.

    Parameters
    ----------
    mlp : MLP
        The hyperparameters of the MLP.
    """

    mlp: MLP = field(default_factory=lambda: MLP(stop=Stop(perfect=PERFECT)))

    tags: ClassVar[Tags] = Tags(offline=True, multilabel=True, images=True)
    scores_are = "logits"
    state: ClassVar[dict[str, str]] = {"mlp": "parameters"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.mlp.start(spec, seeds, device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return learn_session(self.mlp, session, ctx)

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return self.mlp.scores(x)
