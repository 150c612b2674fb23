import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from embedbench.array_types import Bools
from embedbench.learning import Context, NetLearner, Seeds, Session, Store, StreamSpec, Tags
from embedbench.learning.loss import batch_loss
from embedbench.learning.optimisers import fresh_optimiser
from embedbench.learning.sample_containers import with_data
from embedbench.learning.session_heads import SessionHeads


@dataclass
class Joint(NetLearner):
    """Incremental joint training: every sample of every session so far is stored and trained on.

    `incremental-joint` is another name for it. After the last session it has seen the same data as
    `offline`.

    **Source**: Masana et al. (2022), "Class-incremental learning: survey and performance
    evaluation", "Joint"; the upper bound of their tables. Label sets: Abdelsalam et al. (2021,
    IIRC), whose "incremental joint" is this one on sessions with complete information.

    **Departs**: validation data are stored as well, so that the stopping rule sees every class. A
    sample that comes with one label set and later with another has the labels of both. Where
    `protocol.loss` is "session", each sample's loss is over its own session, and validation
    accuracy (`stop.monitor`) over the classes seen. It is a bound of what its network can do, and
    not of other kinds of models: on small files `slda` can be above it, whatever the settings
    (docs/fidelity.md, "The offline reference").

    Parameters
    ----------
    weights : str
        "fresh": each session begins with the same initial weights; "kept": with the weights of the
        previous session, as in the code of IIRC's authors.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "joint"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    weights: Literal["fresh", "kept"] = "fresh"

    tags: ClassVar[Tags] = Tags(stores_samples=True, multilabel=True, images=True, heads=True)
    state: ClassVar[dict[str, str]] = {
        **NetLearner.state,
        "samples": "samples",
        "validation": "samples",
        "loss_classes": "mask",
        "heads": "transient",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        n_labels = spec.n_classes if spec.multilabel else 0
        width = math.prod(spec.input_shape[-2:])  # D, or H·W
        self.samples, self.validation = (Store(width, n_labels) for _ in range(2))
        self.heads = SessionHeads(spec)
        self.loss_classes: Bools | None = np.zeros(spec.n_classes, dtype=np.bool_)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.samples.add(session.x, session.y, session.ids)
        self.validation.add(session.val_x, session.val_y, session.val_ids)
        if session.loss_classes is None or self.loss_classes is None:
            self.loss_classes = None  # from here on the loss uses all classes
        else:
            self.loss_classes = self.loss_classes | session.loss_classes
        if self.weights == "fresh":
            self.net = self.make_net(self.spec, self.seeds.init).to(self.device)
            self.optimiser_ = fresh_optimiser(self, self.net)
        y, val_y = (  # stored as int32
            s.y if s.y.ndim == 2 else s.y.astype(np.int64) for s in (self.samples, self.validation)
        )
        limits: dict[str, Any] = {"val_x": self.validation, "loss_classes": self.loss_classes}
        self.heads.add(session)
        beside = self.heads.beside(self.device)

        def by_heads(x: Tensor, y: Tensor) -> Tensor:
            return batch_loss(self.net(x), y, beside)

        objective = by_heads if self.heads.exist else None
        whole = with_data(session, self.samples, y, val_y=val_y, **limits)
        return self.train(whole, ctx, objective=objective)
