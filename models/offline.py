from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from embedbench.config.fields_added_later import later
from embedbench.errors import UserError
from embedbench.learning import Context, Learner, Seeds, Session, Stop, StreamSpec, Tags
from embedbench.learning.learner import learn_session

from .mlp import MLP
from .slda import SLDA

BATCH = 1024  # samples that SLDA gets at once
PERFECT = 5  # as many epochs as the patience: fewer end too early on few validation samples


@dataclass
class Offline(Learner):
    """The baseline MLP, or SLDA, on the merged stream: every sample once, all classes at once.

    **Source**: Kemker et al. (2018), "α_ideal", the offline MLP accuracy that normalises Ω.

    **Departs**: training also ends after five epochs in a row in which every validation sample was
    answered right. On a stream without validation data its rule looks at the training loss.

    Parameters
    ----------
    mlp : MLP
        The hyperparameters of the MLP.
    learner : str
        "mlp"; "slda", with its defaults: no seed and no stopping rule decides its score.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "offline"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    mlp: MLP = field(default_factory=lambda: MLP(stop=Stop(perfect=PERFECT)))

    learner: Literal["mlp", "slda"] = later("mlp", earlier="mlp")

    tags: ClassVar[Tags] = Tags(offline=True, multilabel=True, images=True)
    state: ClassVar[dict[str, str]] = {"model": "parameters"}

    def validation_needs(self) -> dict[str, str]:
        return {} if self.learner == "slda" else super().validation_needs()

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        if self.learner == "slda" and (spec.multilabel or len(spec.input_shape) > 1):
            raise UserError(
                "the reference slda takes vectors with one class each",
                "for images and label sets leave offline.learner out",
            )
        self.model: MLP | SLDA = SLDA() if self.learner == "slda" else self.mlp
        self.model.start(spec, seeds, device)
        self.scores_are = self.model.scores_are
        self.device = device

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        if isinstance(self.model, MLP):
            return learn_session(self.model, session, ctx)
        labels = torch.from_numpy(session.y).to(self.device)
        for rows in torch.split(torch.arange(len(labels), device=self.device), BATCH):
            self.model.observe(session.x.batch(rows, self.device), labels[rows])
        return {"epochs": 1}

    def prepare(self) -> None:
        self.model.prepare()

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return self.model.scores(x)
