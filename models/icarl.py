import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from embedbench.learning import Context, OptimiserName, ReplayLearner, Seeds, Session, StreamSpec
from embedbench.learning.exemplars import Memory, require_exemplars, session_classes
from embedbench.learning.learner import Tags
from embedbench.learning.loss import Objective, set_loss, soft_targets
from embedbench.learning.network import CosineNet, Net, cosine_net, predict, predict_cosines
from embedbench.learning.stopping import Stop

NO_EXEMPLARS = -2.0  # score of a class without exemplars: below every cosine
ETA = 1.0  # initial η of a cosine head in every session


@dataclass
class ICaRL(ReplayLearner):
    """Incremental classifier and representation learning: distillation, herding, nearest means.

    A session and all exemplars are learned by binary cross-entropy, with one sigmoid per class. The
    targets of new classes are their labels; the targets of old classes are the sigmoids of the
    network before the session. The answer is the class whose exemplars' mean feature is nearest.
    With `answer` "logits", and always with label sets, the network itself answers.

    **Source**: Rebuffi et al. (2017), Algorithms 1 to 5. The feature φ is the last hidden
    activation, scaled to length 1; so is the mean. The answer by logits ("iCaRL-CNN"), and that
    with a cosine head ("iCaRL-norm"), whose η begins at 1 in every session: Abdelsalam et al.
    (2021, IIRC), Section 5.

    **Departs**: the embeddings are frozen; the network that is learned takes them as input. The
    loss is summed over the classes seen and averaged over the samples, as in the paper; libraries
    also average over the classes, or add a cross-entropy to a distillation of weight 4 (FACIL). For
    label sets it is averaged over the classes, as in IIRC. A class that comes again is learned by
    its labels, except with label sets. 20 exemplars per class, growing; the paper has 2,000 in all
    (`--set icarl.memory.total=2000`). A cosine head has `lucir`'s φ, without the last ReLU, and the
    cosines are the answer: with label sets their signs decide, like those of the logits. Training
    is that of the preset `league`, 20 epochs: a session's validation data has no old classes, so
    patience stops early or overfits the new ones.

    Parameters
    ----------
    memory : Memory
        At least one exemplar per class, "herding", "random" or "all".
    answer : str
        "means" of exemplars, or "logits".
    head : str
        "linear" or "cosine".

    Examples
    --------
    >>> from embedbench import build_stream, make_learner, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, make_learner("icarl", answer="logits")))["final_accuracy"] > 0.1
    True
    """

    batch_size: int = 64
    lr: float = 1e-3
    optimiser: OptimiserName = "adam"
    stop: Stop = field(default_factory=lambda: Stop(rule="epochs", epochs=20))
    memory: Memory = field(default_factory=Memory)
    answer: Literal["means", "logits"] = "means"
    head: Literal["linear", "cosine"] = "linear"

    tags: ClassVar[Tags] = Tags(stores_samples=True, multilabel=True, images=True)
    state: ClassVar[dict[str, str]] = {**ReplayLearner.state, "means": "means"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.answer == "means":
            require_exemplars(self, "answers with the means of exemplars")

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.net: Net | CosineNet
        super().start(spec, seeds, device)
        self.by_means = self.answer == "means" and not spec.multilabel
        by_cosines = self.by_means or isinstance(self.net, CosineNet)
        self.scores_are = "cosines" if by_cosines else "logits"
        head = self.net.theta if isinstance(self.net, CosineNet) else self.net.head.weight
        width = head.shape[1]
        self.means = torch.zeros(spec.n_classes if self.by_means else 0, width, device=device)

    def make_net(self, spec: StreamSpec, seed: int) -> torch.nn.Module:
        if self.head == "cosine":
            return cosine_net(self, spec, seed, eta=ETA)
        return super().make_net(spec, seed)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        new = session_classes(session)
        old = sorted(self.exemplars.classes - new)
        objective = self._objective(sorted(new), old)
        if isinstance(self.net, CosineNet):
            self.net.eta.data.fill_(ETA)  # the old network is a copy and keeps its learned η
        log = self.train_with_exemplars(session, ctx, objective=objective)
        if self.by_means:
            phi = self.features(self.exemplars.x)
            for c in sorted(self.exemplars.classes):
                self.means[c] = normalize(phi[self.exemplars.y == c].mean(0), dim=0)
        return log

    def _objective(self, new: list[int], old: list[int]) -> Objective:
        """Binary cross-entropy; targets of old classes are the present network's sigmoids."""
        seen = torch.tensor([*new, *old], device=self.device)
        teacher = copy.deepcopy(self.net)

        def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            logits = self.net(x)
            targets = soft_targets(y, predict(teacher, x), old)
            if y.ndim == 2:
                return set_loss(logits, targets, seen)
            entropy = binary_cross_entropy_with_logits(
                logits[:, seen], targets[:, seen], reduction="sum"
            )
            return entropy / len(x)

        return loss

    @torch.no_grad()
    def features(self, x: torch.Tensor) -> torch.Tensor:
        """φ(x), the last hidden activation scaled to length 1, (n, d)."""
        return normalize(super().features(x))

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        if self.by_means:
            # ‖φ - μ‖² = 2 - 2 φ·μ where both have length 1
            near = self.features(x) @ self.means.T  # (n, d) @ (d, C) -> (n, C)
            return near.masked_fill((self.means == 0).all(1), NO_EXEMPLARS)
        if isinstance(self.net, CosineNet):
            return predict_cosines(self.net, x)
        return super().scores(x)
