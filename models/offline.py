from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from embedbench.config.fields_added_later import identity, later
from embedbench.errors import UserError
from embedbench.learning import Context, Learner, Seeds, Session, Stop, StreamSpec, Tags

from ._best_learner import MODELS, Candidates, can_choose, teach
from .mlp import MLP

PERFECT = 5  # as many epochs as the patience: fewer end too early on few validation samples


def default_mlp() -> MLP:
    """The MLP of the reference, unless it is set."""
    return MLP(stop=Stop(perfect=PERFECT))


@dataclass
class Offline(Learner):
    """The best of MLP, SLDA and RanPAC on all sessions at once, every sample once.

    The one with the most right answers to samples that it did not learn. These are the validation
    samples where there are at least 1,000; else the training samples, a fifth at a time, each
    answered by a learner of the other four fifths; the groups of a file, and images with their
    flipped copies, are not divided. Of equal ones the first is taken; it then learns
    all training samples. The log names it (`learner`), and the share of right answers of each
    (`judged`).

    **Source**: Kemker et al. (2018), "α_ideal", the offline MLP accuracy that normalises Ω. The
    preset `kemker` has their MLP.

    **Departs**: theirs is the MLP whatever the data; on small files learners of a single pass are
    above it (docs/fidelity.md, "The offline reference"). Training of the MLP also ends after five
    epochs in a row in which every validation sample was answered right. On a stream without
    validation data its rule looks at the training loss.

    Parameters
    ----------
    mlp : MLP
        The hyperparameters of the MLP.
    learner : str or None
        "mlp"; "slda" or "ranpac", with their defaults: no stopping rule decides their score;
        "best": the best of these three, refused where there is nothing to choose (images, label
        sets) or to choose by (no validation samples, or test samples in their place). None: the
        MLP if a setting of it is not the default, or where "best" would be refused; else "best".

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "offline"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    mlp: MLP = field(default_factory=default_mlp)

    learner: Literal["mlp", "slda", "ranpac", "best"] | None = later(None, earlier="mlp")

    tags: ClassVar[Tags] = Tags(offline=True, multilabel=True, images=True)
    state: ClassVar[dict[str, str]] = {"model": "parameters", "answers": "transient"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learner is None and identity(self.mlp) != identity(default_mlp()):
            self.learner = "mlp"

    def validation_needs(self) -> dict[str, str]:
        if self.learner in ("slda", "ranpac"):
            return {}
        return super().validation_needs()

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        plain = not spec.multilabel and len(spec.input_shape) == 1
        if self.learner not in ("mlp", None) and not plain:
            raise UserError(
                f"the reference {self.learner} takes vectors with one class each",
                "for images and label sets leave offline.learner out",
            )
        self.spec, self.seeds, self.device = spec, seeds, device
        self._take("mlp" if self.learner in ("best", None) else self.learner)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        if self.learner == "best" and not can_choose(self.spec, session, ctx):
            raise UserError(
                "the reference best is chosen by validation samples, and this stream has none that "
                "are no test samples",
                "name one: --set offline.learner=mlp, slda or ranpac",
            )
        if self.learner in ("best", None) and can_choose(self.spec, session, ctx):
            self.model, log = Candidates(self._start, session, ctx, self.device).best()
            self.answers, self.scores_are = log["learner"], self.model.scores_are
            return log
        return teach(self.model, session, ctx, self.device)

    def prepare(self) -> None:
        self.model.prepare()

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return torch.as_tensor(self.model.scores(x))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._take(state.get("answers", self.answers))  # which earlier checkpoints do not have
        super().load_state_dict({"answers": self.answers, **state})

    def _take(self, name: str) -> None:
        """Answer by a new learner of this name."""
        self.answers, self.model = name, self._start(name)
        self.scores_are = self.model.scores_are

    def _start(self, name: str) -> Learner:
        model = self.mlp if name == "mlp" else MODELS[name]()
        model.start(self.spec, self.seeds, self.device)
        return model
