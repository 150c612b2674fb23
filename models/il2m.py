from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from embedbench.learning import Context, Memory, ReplayLearner, Seeds, Session, StreamSpec, predict
from embedbench.learning.sample_containers import blocks


@dataclass
class IL2M(ReplayLearner):
    """Dual memory: exemplars, and scores of old classes corrected by their statistics.

    If the best class of a sample is one of the current session, the score of every old class c,
    first learned in session s, is multiplied by μ_first(c)/μ_now(c) · conf_now/conf_s. μ_first is
    the mean score of c over its training samples when it was learned; μ_now is the same over its
    exemplars now. conf is the mean of the best score over a session's training samples when it was
    learned.

    **Source**: Belouadah and Popescu (2019); cross-entropy on the session and the exemplars, with
    no term against forgetting in the loss.

    **Departs**: the softmax includes all classes of the stream, also those not seen yet, unless
    `protocol.loss` is "seen", as in FACIL and in the presets that imitate it (on MNIST the two end
    within .01 of each other, on a data set of 7 classes .07 apart). Libraries (FACIL) rectify
    logits, whose ratios have no meaning where they are negative; here softmax probabilities over
    the classes seen are rectified, as in the paper. A class without exemplars, or whose mean score
    has vanished, keeps its score. A class that comes again counts as one of the current session. 20
    exemplars per class, growing.

    Parameters
    ----------
    rectified : str
        Which scores are rectified, "probabilities" or "logits".

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "il2m"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    memory: Memory = field(default_factory=Memory)
    rectified: Literal["probabilities", "logits"] = "probabilities"

    state: ClassVar[dict[str, str]] = {
        **ReplayLearner.state,
        "first": "statistics",
        "now": "statistics",
        "confidence": "statistics",
        "session_of": "statistics",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.scores_are = self.rectified
        # By class: μ_first, μ_now, conf of its session, and its session's number (-1: unseen).
        self.first, self.now, self.confidence = (
            torch.ones(spec.n_classes, device=device) for _ in range(3)
        )
        self.session_of = torch.full((spec.n_classes,), -1, device=device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = self.train_with_exemplars(session, ctx)
        self._remember(session)
        return log

    @torch.no_grad()
    def _remember(self, session: Session) -> None:
        """Compute the statistics of the session's classes, and μ_now of the older classes."""
        y = torch.from_numpy(session.y).to(self.device)
        new = torch.from_numpy(np.unique(session.y)).to(self.device)
        self.session_of[new] = self.learned
        raw = torch.cat([self._raw(x) for x in blocks(session.x, self.device)])
        self.confidence[new] = raw[:, self.session_of >= 0].max(1).values.mean()
        self.first = class_means(raw, y, self.first)
        if len(self.exemplars):
            self.now = class_means(self._raw(self.exemplars.x), self.exemplars.y, self.now)

    def _raw(self, x: torch.Tensor) -> torch.Tensor:
        """Scores before rectification, (n, C): logits, or probabilities of classes seen."""
        logits = predict(self.net, x)
        if self.rectified == "logits":
            return logits
        return torch.softmax(logits.masked_fill(self.session_of < 0, -torch.inf), dim=1)

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        raw = self._raw(x)
        seen = self.session_of >= 0
        old = seen & (self.session_of < self.learned - 1)
        best = raw.masked_fill(~seen, -torch.inf).argmax(1)
        newest = self.session_of == self.learned - 1
        factor = self._factors()
        return torch.where(newest[best][:, None] & old, raw * factor, raw)

    def _factors(self) -> torch.Tensor:
        """The factor of each old class's score, (C,); 1 where a mean is not known."""
        held = torch.bincount(self.exemplars.y, minlength=len(self.now)) > 0
        known = held & (self.now.abs() > 1e-12)
        latest = self.confidence[self.session_of.argmax()]  # conf of the current session
        ratio = self.first / self.now.where(known, self.first.new_ones(()))
        return torch.where(known, ratio * latest / self.confidence, 1.0)


def class_means(scores: torch.Tensor, y: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """Mean score of each class over its own samples, (C,); `otherwise` for classes without any."""
    true = scores.gather(1, y[:, None])[:, 0]
    counts = torch.bincount(y, minlength=scores.shape[1])
    sums = torch.zeros_like(otherwise).index_add_(0, y, true)
    return torch.where(counts > 0, sums / counts.clamp(min=1), otherwise)
