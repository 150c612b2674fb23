from dataclasses import dataclass, field
from typing import Annotated, Any

from embedbench.config.setting_ranges import above, at_least
from embedbench.learning import Context, Memory, ReplayLearner, Session
from embedbench.learning.loss import distilling_loss, only


@dataclass
class LwF(ReplayLearner):
    """Learning without forgetting: cross-entropy on new classes + λ distillation on old ones.

    Without exemplars (the default, as in the paper) the cross-entropy includes only the session's
    classes; with exemplars it includes all classes seen, and both terms are on both kinds of
    sample.

    **Source**: Li and Hoiem (2016), T = 2, λ = 1; with one head for all classes as in Rebuffi et
    al. (2017), whose "LwF.MC" has sigmoids in both terms.

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

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        present, old = set(session.y.tolist()), sorted(self.exemplars.classes)
        alone = len(present) > 1 and not len(self.exemplars)
        mask = only(present if alone else present | {*old}, self.spec.n_classes, self.device)
        objective = distilling_loss(self.net, mask, [old], self.temperature, (1.0, self.lam))
        return self.train_with_exemplars(session, ctx, objective=objective)
