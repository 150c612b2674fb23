from dataclasses import dataclass
from typing import Any, ClassVar

from embedbench.learning import Context, NetLearner, Session, Tags


@dataclass
class MLP(NetLearner):
    """Multi-layer perceptron trained session after session, with nothing against forgetting.

    The class-incremental literature calls it fine-tuning: `finetune` is another name for it. Label
    sets are learned by binary cross-entropy over the classes seen.

    **Source**: Kemker et al. (2018), Table S1 (400×2 ReLU, batch 256, Nadam 8e-4); the head has a
    unit for every class of the stream from the start, as the sizes in Table 2 imply, and so has the
    loss, unless `protocol.loss` is "seen".

    **Departs**: stopping rule and optimiser state are not in the paper. A fresh optimiser per
    session reproduces its MNIST rows; keeping it hides forgetting (Ω_all .73 becomes .89 on
    permuted MNIST).

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "mlp"))["average_forgetting"] > 0.1  # it forgets
    True
    """

    tags: ClassVar[Tags] = Tags(multilabel=True, images=True, heads=True)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return self.train(session, ctx)
