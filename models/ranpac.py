import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least, check_size
from embedbench.learning import Context, Seeds, Session, StreamSpec, generator

from ._linear_models import RidgeLearner, ridge

LAMBDAS = [10.0**k for k in range(-8, 9)]


@dataclass
class RanPAC(RidgeLearner):
    """Ridge regression on random ReLU projections; λ is chosen on held-out samples.

    **Source**: McDonnell et al. (2023), "RanPAC: random projections and pre-trained models for
    continual learning", Algorithm 1, and their code: h = ReLU(x P), P ~ N(0, 1) frozen, M = 10,000;
    λ from 10⁻⁸ to 10⁸ by the squared error on a fifth of the session's samples, with the ridge
    fitted to the other four fifths. Its first stage, adapters in the backbone, is not part of
    learning on frozen embeddings.

    **Departs**: M = 2,000 by default, for processors without an accelerator. The split is drawn at
    random. The authors choose λ in every session on that session alone, so that the last session
    decides; `lam_rule` = "session" does so. By default the moments of the fitted samples and of the
    held-out fifths are added up apart. They give the squared error on all held-out samples so far
    exactly, of every λ: tr(WᵀGW) - 2 tr(WᵀQ) + n, with the W of the fitted samples and G, Q and n
    of the others. The first choice is the authors'; later ones go from the last λ to a neighbour
    for as long as that has a smaller error, or a λ ten times as large has the same (to a part in
    10,000; no λ below 10⁻¹² tr G is tried). A session of one sample chooses nothing. Sums are in
    float64; if G + λI is still not positive definite, λ rises tenfold until it is.

    **Measured**: on few shots the squared error of a fifth of ten samples often chooses 1e-8. That
    is no harm to novel classes; a fixed 1e5 gains 4 points of aAcc and 3 of gAcc over the search
    (emoji, `fscil`).

    Parameters
    ----------
    projections : int
        M, the number of projections.
    lam : float or None
        λ ≥ 0, or None to choose it.
    lam_sessions : int or None
        Number of choices; afterwards the last λ is used. None: one in each session.
    lam_rule : str
        The samples that λ is chosen on: "all", the held-out ones of all sessions so far; "session",
        those of the last session, the authors' rule.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "ranpac"))["final_accuracy"] > 0.2  # chance has 1/40
    True
    """

    projections: Annotated[int, at_least(1)] = 2000
    lam: Annotated[float, at_least(0)] | None = None
    lam_sessions: Annotated[int, at_least(1)] | None = later(None, earlier=None)
    lam_rule: Literal["all", "session"] = later("all", earlier="session")

    scores_are = "other"
    state: ClassVar[dict[str, str]] = {
        "projection": "projection",
        "gram": "moments",
        "targets": "moments",
        "held_gram": "moments",
        "held_targets": "moments",
        "n_held": "transient",
        "weights": "classifier",
        "lam_": "transient",
        "searched": "transient",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device = seeds, device
        self.learned = self.searched = 0
        self.lam_ = 1.0 if self.lam is None else self.lam
        size = self.projections
        n_classes = spec.n_classes
        apart = self.lam is None and self.lam_rule == "all" and self.lam_sessions != 1
        check_size(self.name, size * ((1 + apart) * size + spec.input_shape[0]))
        drawn = torch.randn(spec.input_shape[0], size, generator=generator(seeds.init, 0))
        self.projection = drawn.to(device)
        self.gram, self.targets = self.no_moments(size, n_classes)
        # of the held-out samples; if they are not kept apart, all are in the sums above
        self.held_gram, self.held_targets = (
            self.no_moments(size, n_classes) if apart else self.no_moments(0, 0)
        )
        self.n_held = 0
        self.weights = torch.zeros(size, n_classes, device=device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        n = len(session.x)
        held = max(1, n // 5) if n > 1 else 0
        order = torch.randperm(n, generator=generator(self.seeds.batches, self.learned))
        fitted, held_out = torch.split(order.to(self.device), [n - held, held])
        gram, targets = self.moments(session, fitted)
        log: dict[str, Any] = {}
        searches = self.lam_sessions is None or self.searched < self.lam_sessions
        chooses = self.lam is None and held > 0 and searches
        by_session = not (len(self.held_gram) and self.searched)
        if chooses and by_session:
            errors = self._errors(session, fitted, held_out, gram, targets)
            self.lam_ = LAMBDAS[int(errors.argmin())]
            log["validation_mse"] = errors.tolist()
        rest = self.moments(session, held_out)
        if len(self.held_gram):
            self.held_gram += rest[0]
            self.held_targets += rest[1]
            self.n_held += held
        else:
            gram = gram + rest[0]
            targets = targets + rest[1]
        self.gram += gram
        self.targets += targets
        if chooses and not by_session:
            log["tried_mse"] = self._choose_nearby()
        self.searched += chooses
        if self.lam is not None:
            self.lam_ = self.lam
        gram = self.gram
        targets = self.targets
        if len(self.held_gram):
            gram = gram + self.held_gram
            targets = targets + self.held_targets
        weights, self.lam_ = ridge(gram, targets, self.lam_, LAMBDAS[0])
        self.weights = weights.float()
        return log | {"lam": self.lam_}

    def features(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.projection)  # (n, D) @ (D, M)

    def _errors(
        self, session: Session, fitted: Tensor, held_out: Tensor, gram: Tensor, targets: Tensor
    ) -> Tensor:
        """Mean squared error on `held_out` of the ridge fitted to `fitted`, for every λ.

        One eigendecomposition is enough for all λ: of HᵀH = V S Vᵀ (`gram`) or, if there are fewer
        samples than projections, of the smaller HHᵀ = U S Uᵀ. Predictions are h V (S + λ)⁻¹ VᵀHᵀY,
        or h HᵀU (S + λ)⁻¹ UᵀY.
        """
        n_classes = targets.shape[1]
        if len(fitted) < self.projections:
            blocks = list(self.feature_blocks(session, fitted))
            h = torch.cat([b[0] for b in blocks])
            values, vectors = torch.linalg.eigh(h @ h.T)
            true = nn.functional.one_hot(torch.cat([b[1] for b in blocks]), n_classes)
            right = vectors.T @ true.double()
            vectors = h.T @ vectors
        else:
            values, vectors = torch.linalg.eigh(gram)
            right = vectors.T @ targets
        total = torch.zeros(len(LAMBDAS), dtype=torch.float64, device=gram.device)
        for h, y in self.feature_blocks(session, held_out):
            left = h @ vectors
            true = nn.functional.one_hot(y, n_classes).double()
            for k, lam in enumerate(LAMBDAS):
                total[k] += ((left / (values.clamp(min=0) + lam)) @ right - true).square().sum()
        return total / (len(held_out) * n_classes)

    def _choose_nearby(self) -> dict[str, float]:
        """Go from the last λ to the least error nearby; the errors of the λ that were tried."""
        errors: dict[int, float] = {}
        # below, errors differ by rounding alone, and no step would lead away
        first = sum(lam < 1e-12 * float(self.gram.trace()) for lam in LAMBDAS[:-1])
        best = LAMBDAS.index(min(LAMBDAS[first:], key=lambda lam: abs(math.log(lam / self.lam_))))
        at = -1
        while best != at:
            at = best
            near = range(max(at - 1, first), min(at + 2, len(LAMBDAS)))
            errors |= {k: self._error(LAMBDAS[k]) for k in near if k not in errors}
            least = min(errors[k] for k in near)
            best = max(k for k in near if errors[k] <= 1.0001 * least)
        self.lam_ = LAMBDAS[best]
        return {f"{LAMBDAS[k]:g}": errors[k] for k in sorted(errors) if errors[k] < math.inf}

    def _error(self, lam: float) -> float:
        """Mean squared error on all held-out samples of the ridge fitted to all others."""
        w, used = ridge(self.gram, self.targets, lam, lam)  # (M, C)
        if used != lam:  # with this one there is none
            return math.inf
        total = (w * (self.held_gram @ w - 2 * self.held_targets)).sum() + self.n_held
        return float(total) / (self.n_held * w.shape[1])
