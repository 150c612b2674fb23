import copy
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import above, at_least
from embedbench.learning import Context, Memory, ReplayLearner, Session, Tags, predict
from embedbench.learning.loss import Objective, distilling_loss


@dataclass
class LwF(ReplayLearner):
    """Learning without forgetting: cross-entropy on new classes + λ distillation on old ones.

    Without exemplars (the default, as in the paper) the cross-entropy includes only the session's
    classes; with exemplars it includes all classes seen, and both terms are on both kinds of
    sample. Where `protocol.loss` is "session", the old classes of each session are distilled by
    themselves, as the paper's heads.

    **Source**: Li and Hoiem (2016), T = 2, λ = 1; with one head for all classes as in Rebuffi et
    al. (2017), whose "LwF.MC" has sigmoids in both terms. With `among` "stream" it is that of van
    de Ven et al. (2022): λ = 1, and one softmax for both terms.

    **Departs**: the trunk, the optimiser and the stopping rule are `mlp`'s. λ = 3, as in PyCIL;
    FACIL searches it downwards from 10. In a session of one class there is nothing to distinguish,
    so its cross-entropy includes all classes seen. Exemplars are not in the paper; libraries add
    them.

    Parameters
    ----------
    lam, temperature : float
        λ ≥ 0, and T > 0.
    memory : Memory
        "herding", "random" or "all"; none by default.
    among : str
        Classes of the softmaxes. "new": as above. "stream": in both terms those of `protocol.loss`,
        exemplars or none. With "all" the old network is asked for all classes of the stream; with
        "seen" for the old ones, and the targets of new classes are 0.

    Examples
    --------
    >>> from embedbench import build_stream, make_learner, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, make_learner("lwf", lam=3)))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    lam: Annotated[float, at_least(0)] = 3.0
    temperature: Annotated[float, above(0)] = 2.0
    memory: Memory = field(default_factory=lambda: Memory(per_class=0))
    among: Literal["new", "stream"] = later("new", earlier="new")

    tags: ClassVar[Tags] = Tags(stores_samples=True, images=True, heads=True)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        old = sorted(self.exemplars.classes)
        earlier_heads = self.exemplars.heads.classes()
        joined = self.exemplars.join(session)  # its head is known from here on
        if self.exemplars.heads.exist:
            within = self.exemplars.heads.beside(self.device)  # the sample's own head
            objective = self._distilling(within, earlier_heads)
        elif self.among == "stream":
            objective = self._over_stream(old, session)
        else:
            objective = self._over_new(old, session)
        log = self.train(joined, ctx, objective=objective)
        self.exemplars.choose(session, self.features)
        return log

    def _over_new(self, old: list[int], session: Session) -> Objective:
        present = {*session.y.tolist()}
        alone = len(present) > 1 and not len(self.exemplars)
        compared = sorted(present if alone else present | {*old})
        classes = torch.tensor(compared, device=self.device)
        return self._distilling(classes, [old])

    def _distilling(self, classes: Tensor | None, heads: list[list[int]]) -> Objective:
        """Cross-entropy over `classes`, as in `among`, + λ distillation of each of the `heads`."""
        return distilling_loss(self.net, classes, heads, self.temperature, (1.0, self.lam))

    def _over_stream(self, old: list[int], session: Session) -> Objective:
        """Both terms by one softmax, over all classes of the stream or those seen."""
        teacher = copy.deepcopy(self.net)
        everything = range(self.spec.n_classes)
        seen = sorted({*old, *session.y.tolist()})
        among = torch.tensor(seen if self.spec.loss_over_seen else everything, device=self.device)
        asked = torch.tensor(old if self.spec.loss_over_seen else everything, device=self.device)
        place = torch.searchsorted(among, asked)  # of each class asked among the others

        def loss(x: Tensor, y: Tensor) -> Tensor:
            logits = self.net(x)[:, among]
            total = cross_entropy(logits, torch.searchsorted(among, y))
            if not old:
                return total
            targets = torch.zeros_like(logits)
            before = predict(teacher, x)[:, asked]
            targets[:, place] = torch.softmax(before / self.temperature, dim=1)
            return total + self.lam * cross_entropy(logits / self.temperature, targets)

        return loss
