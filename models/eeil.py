from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from embedbench.config.setting_ranges import above, at_least
from embedbench.errors import UserError
from embedbench.learning import Context, ReplayLearner, Seeds, Session, Stop, StreamSpec, generator
from embedbench.learning.exemplars import Memory, require_exemplars, session_classes
from embedbench.learning.image_training import augmented_views
from embedbench.learning.loss import Objective, distilling_loss
from embedbench.learning.optimisers import make_optimiser
from embedbench.learning.sample_containers import with_data
from embedbench.learning.training_loop import Training

BALANCED = 1  # number of the random stream for the batches of the balanced fine-tuning


@dataclass
class EEIL(ReplayLearner):
    """End-to-end incremental learning: distillation, then fine-tuning on a balanced set.

    The loss is L_C + λ Σ_f L_f, f the earlier sessions. L_C is the cross-entropy over all classes
    seen, L_f the distillation of the classes that session f introduced, with a softmax of their
    own. It is on new samples and exemplars alike. Then the exemplars are chosen anew, equally many
    of every class, and the network is fine-tuned on them with a small learning rate; now its
    teacher is the network before the fine-tuning, for the new classes too.

    **Source**: Castro et al. (2018), "End-to-end incremental learning", and their code
    (`incremental_training.m`, `fork_resnet_distillation.m`): T = 2, 30 epochs of fine-tuning that
    begin at a tenth of the learning rate, herding.

    **Departs**: the trunk, the optimiser and the stopping rule are `mlp`'s; the fine-tuning has a
    new optimiser and one rate, which the authors divide by ten after 10 and after 20 epochs. There
    is no noise on the gradients and no augmentation. The exemplars that the fine-tuning uses are
    kept; the authors choose them once more after it, and a memory of fixed size shrinks only then.
    A class with fewer samples than its share gives all of them. A class that comes again is learned
    by its labels. A session that introduced one class has nothing to distil.

    Parameters
    ----------
    lam, temperature : float
        λ ≥ 0, and T > 0.
    finetune_epochs, finetune_rate : int, float
        Epochs of the balanced fine-tuning, 0: none; its learning rate as a share of `lr`.
    memory : Memory
        At least one exemplar per class, "herding" or "random".

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "eeil"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    lam: Annotated[float, at_least(0)] = 1.0
    temperature: Annotated[float, above(0)] = 2.0
    finetune_epochs: Annotated[int, at_least(0, 100_000)] = 30
    finetune_rate: Annotated[float, above(0)] = 0.1
    memory: Memory = field(default_factory=Memory)

    selects: ClassVar[tuple[str, ...]] = ("herding", "random")
    state: ClassVar[dict[str, str]] = {**ReplayLearner.state, "session_of": "heads"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_exemplars(self, "fine-tunes on exemplars")
        if self.passes:
            raise UserError(
                "eeil trains twice in a session, and eeil.passes would count one training",
                "leave it 0",
            )

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        # the session that introduced a class; -1: unseen
        self.session_of = torch.full((spec.n_classes,), -1, device=device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        present = session_classes(session)
        seen = set(self.exemplars.classes)
        objective = self._objective(self.heads(seen - present), seen | present)
        log = self.train_with_exemplars(session, ctx, objective=objective)
        self.session_of[sorted(present - seen)] = self.learned
        if self.learned and self.finetune_epochs:
            log |= self._finetune(session, ctx, seen | present)
        return log

    def heads(self, classes: set[int]) -> list[list[int]]:
        """The classes in groups, one for each session that introduced some of them."""
        groups: dict[int, list[int]] = {}
        for c in sorted(classes):
            groups.setdefault(int(self.session_of[c]), []).append(c)
        return list(groups.values())

    def _objective(self, heads: list[list[int]], seen: set[int]) -> Objective:
        """L_C over `seen` + λ Σ L_f over `heads`."""
        classes = torch.tensor(sorted(seen), device=self.device)
        return distilling_loss(self.net, classes, heads, self.temperature, (1.0, self.lam))

    def _finetune(self, session: Session, ctx: Context, seen: set[int]) -> dict[str, Any]:
        """Train on the exemplars alone; return what the log says about it."""
        rate = self.lr * self.finetune_rate
        optimiser = make_optimiser(
            self.optimiser, self.net, lr=rate, weight_decay=self.weight_decay
        )
        stop = Stop(rule="epochs", epochs=self.finetune_epochs)
        batches = generator(self.seeds.batches, self.learned, BALANCED)
        objective = self._objective(self.heads(seen), seen)
        balanced = self.balanced(session)
        log = Training(
            self.net, optimiser, balanced, self.batch_size, stop, batches, self.device,
            views=augmented_views(self, self.learned), objective=objective,
        ).run(ctx.checkpoint)  # fmt: skip
        return {"balanced": len(balanced.y), "finetune": log}

    def balanced(self, session: Session) -> Session:
        """The session with the exemplars in place of its training data."""
        y = self.exemplars.y.cpu().numpy()
        return with_data(session, self.exemplars.rows, y, ids=np.full(len(y), -1))
