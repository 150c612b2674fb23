"""MLP: the baseline that only learns the present."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from embedbench.learning.learner import Context, Tags
from embedbench.learning.network import NetLearner
from embedbench.streams.stream import Session


@dataclass
class MLP(NetLearner):
    """Multi-layer perceptron trained session after session, with nothing against forgetting.

    The class-incremental literature calls it fine-tuning: `finetune` is another name of it. Sets of
    labels are learned by binary cross-entropy over the classes seen.

    **Source**: Kemker et al. (2018), Table S1 (400×2 ReLU, batch 256, Nadam 8e-4); the head has a
    unit for every class of the stream from the start, as the sizes in Table 2 imply.

    **Departs**: stopping rule and optimiser state are not in the paper. A fresh optimiser per
    session reproduces its MNIST rows; keeping it hides forgetting (Ω_all .73 becomes .89 on
    permuted MNIST).

    Parameters
    ----------
    trunk : the network below the head: "mlp"; "linear", none at all; for images also "resnet8",
        "resnet20", "resnet32" (He et al. 2016) or a model of timm. The first two take the values of
        an image in a row
    units, layers : of the trunk "mlp": hidden units per layer, hidden layers
    batch_size : samples per step
    lr, weight_decay : of the optimiser
    optimiser : "nadam", "adam" or "sgd"
    optimiser_state : "fresh" per session, or "kept" over all
    stop : the stopping rule
    images : how a trunk for images is trained, see `ImageTraining`: from which weights, with how
        many stages that stand still, on which augmentation, in which arithmetic
    """

    tags: ClassVar[Tags] = Tags(multilabel=True, images=True)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = self.train(session, ctx)
        self.learned += 1
        return log
