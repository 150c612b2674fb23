from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from torch import Tensor

from embedbench.config.setting_ranges import above
from embedbench.learning import Context, ReplayLearner, Session
from embedbench.learning.exemplars import Memory, session_classes
from embedbench.learning.loss import Objective, distilling_loss
from embedbench.learning.network import Net


@dataclass
class WA(ReplayLearner):
    """Weight aligning: the head's weights of new classes are scaled to the length of the old.

    After a session, the head's weights of its classes are multiplied by γ, the mean length of the
    old classes' weight vectors over that of the session's. Before, the session and all exemplars
    are learned with (1 - λ) cross-entropy + λ distillation; λ is the old classes' share of all
    classes seen. The aligned network is the next session's teacher. Old classes are those seen
    before that the session does not have.

    **Source**: Zhao et al. (2020), "Maintaining discrimination and fairness in class incremental
    learning", abstract and Figure 3: distillation first, then γ, with no validation data and no
    more parameters. λ, T = 2, and the aligned teacher are from the code of Yan et al. (2021, DER).

    **Departs**: the text of the paper could not be read, so its details are those of others' code.
    Biases stay as they are, as in PyCIL, which gives distillation the weight 2 beside a whole
    cross-entropy. The trunk, the optimiser and the stopping rule are `mlp`'s. Negative weights
    are clipped after every step, which a reimplementation (runhang) names as a part of the paper
    that it lacks; PyCIL does not clip, DER's code clips biases too. A class that comes
    again is learned by its labels and aligned with the session's classes. If a session has all
    classes seen so far, nothing is distilled or aligned. 20 exemplars per class, growing.

    **Measured**: it is worse than its neighbours here, and γ says why: it should be below 1. On
    Spoken100 (ten sessions, preset `league`, four epochs, three seeds) it is .96 to 1.01 with
    clipping, so there is nothing to align, and 1.11 to 1.18 without, which strengthens the bias to
    new classes. Final accuracy 51.6 ±1.3 and 48.1 ±5.5 %; `eeil` 56.1, `bic` 55.9, `icarl` 52.7,
    `lucir` 57.0.

    Parameters
    ----------
    temperature : float
        T > 0.
    positive : bool
        After every step, negative weights of the head become 0.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "wa"))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    temperature: Annotated[float, above(0)] = 2.0
    positive: bool = True
    memory: Memory = field(default_factory=Memory)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        present = session_classes(session)
        old = sorted(self.exemplars.classes - present)
        new = sorted(present)
        self.net: Net
        weights = self.net.head.weight

        def clip() -> None:
            weights.data.clamp_(min=0)

        objective = self._objective(old, new)
        stepped = clip if self.positive else None
        log = self.train_with_exemplars(session, ctx, objective=objective, stepped=stepped)
        return log | {"gamma": align(weights.data, old, new)}

    def _objective(self, old: list[int], new: list[int]) -> Objective:
        seen = old + new
        classes = torch.tensor(seen, device=self.device)
        share = len(old) / len(seen)
        return distilling_loss(self.net, classes, [old], self.temperature, (1 - share, share))


def align(weights: Tensor, old: list[int], new: list[int]) -> float:
    """Multiply rows `new` of weights (C, d) by γ, so that they are as long as `old` in the mean.

    Returns γ: 1 if one list of classes is empty, or all rows of `new` are 0.

    >>> import torch
    >>> w = torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 6.0]])
    >>> align(w, [0, 1], [2]), w[2].tolist()
    (0.5, [0.0, 3.0])
    """
    length = weights.norm(dim=1)
    if not old or not new or not length[new].any():
        return 1.0
    gamma = length[old].mean() / length[new].mean()
    weights[new] *= gamma
    return float(gamma)
