from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from embedbench.learning import UNSEEN, Context, Learner, Seeds, Session, StreamSpec
from embedbench.learning.base_session_prototypes import Classifier
from embedbench.learning.prototypes import Prototypes, cosines


@dataclass
class Prototype(Learner):
    """The few-shot baseline on a frozen backbone: cos(x, P_c), P_c the class's prototype.

    **Source**: Tang et al. (2024), Section 4.1, "Baseline": the classifier of the base session is
    extended by the mean features of each novel class; both are scaled to length 1.

    **Departs**: in the paper, P of base classes are the weights that were trained with the
    backbone, which draws each class's features to its weight: `classifier.base=FILE`, a file of
    `pretrain --head cosine`. Features of other backbones have no such weights, and a classifier
    trained on features that do not change cannot draw them. Its weights leave out what the classes
    have in common, the means of novel classes do not, and cosines to the two cannot be compared. On
    48 base classes of emoji (EfficientNet-Lite0), 58 % of the samples are right before the first
    novel class and 2 % after the last; with means, 50 and 46 %. So the default is means for all
    classes. `classifier.base=trained` trains such a classifier. A class that comes again moves its
    mean; a weight does not change.

    Parameters
    ----------
    classifier : Classifier
        The prototypes of base classes.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> round(score(run(stream, "prototype"))["final_accuracy"], 3)
    0.18
    """

    classifier: Classifier = field(default_factory=Classifier)

    scores_are = "cosines"
    state: ClassVar[dict[str, str]] = {"prototypes": "prototypes"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds = seeds
        width = spec.input_shape[0]
        self.prototypes = Prototypes(spec.n_classes, width, width, device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.prototypes.add(session, self.classifier, self.seeds.batches, ctx)
        return {}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return cosines(x, self.prototypes.rows).masked_fill(~self.prototypes.seen, UNSEEN)
