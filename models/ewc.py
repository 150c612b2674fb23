"""EWC: the MLP and a quadratic penalty on what mattered for the sessions before."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from embedbench.errors import UserError, unknown
from embedbench.learner import Context, Footprint, Learner, Seeds, tensor_bytes
from embedbench.stream import Session, StreamSpec

from ._penalty import pull
from ._sgd import (
    Stop,
    check_training,
    generator,
    loss_mask,
    mlp_net,
    optimiser_bytes,
    optimiser_of,
    predict,
    train,
)

FISHERS = ("exact", "sampled", "empirical")
MERGES = ("sum", "per_session", "online")
SMALLEST_LAM = 1e-3
FISHER_BATCH = 1024  # samples; larger ones fall out of a processor's caches


@dataclass
class EWC(Learner):
    """Elastic weight consolidation: L = L_t + λ/2 Σ_i F_i (θ_i - θ*_i)².

    **Source**: Kirkpatrick et al. (2017); Kemker et al. (2018), Eq. 1 and Table S2 (400×2 ReLU,
    batch 250, Adam 2e-4). λ by FACIL's rule (Masana et al. 2020; De Lange et al. 2019): from
    `lam_start`, decay until validation accuracy on the current session is at least (1 - `lam_drop`)
    of what plain fine-tuning reaches; after `lam_sessions` searches the last λ stays.

    **Departs**: the paper prints neither λ nor its estimator of the Fisher information. "exact"
    takes the expectation over all classes where there are at most 50, one sampled label above.
    Libraries differ: true labels ("empirical": PyCIL, avalanche), predicted labels and squared
    batch means (FACIL); all correlate above .9 with "exact" and mostly rescale λ, so λ does not
    carry over. FACIL's search measures accuracy within the session's own classes and tries seven λ;
    here it is over the classes seen so far (within a session of one class it is always 1), and λ
    falls to 1e-3 before the search gives up.

    Parameters
    ----------
    units, layers, batch_size, lr, weight_decay, optimiser, optimiser_state, stop : as in `mlp`
    lam : λ ≥ 0, or None to search it
    fisher : "exact", "sampled" (a label drawn from the model) or "empirical" (the true label)
    fisher_samples : samples of the session that the Fisher information is estimated on
    merge : "sum": one penalty, Fishers added, centred on the latest weights (Huszár 2018);
        "per_session": one penalty a session, each at its own weights (Kirkpatrick et al. 2017);
        "online": F ← γF + F_new, centred on the latest (Schwarz et al. 2018)
    gamma : γ of "online", in [0, 1]
    lam_start, lam_decay, lam_drop, lam_sessions : of the search
    """

    units: int = 400
    layers: int = 2
    batch_size: int = 250
    lr: float = 2e-4
    weight_decay: float = 0.0
    optimiser: str = "adam"
    optimiser_state: str = "fresh"
    stop: Stop = field(default_factory=Stop)
    lam: float | None = None
    fisher: str = "exact"
    fisher_samples: int = 2000
    merge: str = "sum"
    gamma: float = 1.0
    lam_start: float = 1e4
    lam_decay: float = 0.5
    lam_drop: float = 0.2
    lam_sessions: int = 3

    state: ClassVar[tuple[str, ...]] = (
        "net", "optimiser_", "learned", "searched", "lam_", "weight", "anchor",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_training(self)
        for what, value, known in (("fisher", self.fisher, FISHERS), ("merge", self.merge, MERGES)):
            if value not in known:
                raise unknown(what, value, known)
        for setting, fits, expected in (
            ("lam", self.lam is None or 0 <= self.lam < math.inf, "finite and at least 0"),
            ("lam_start", 0 < self.lam_start < math.inf, "finite and above 0"),
            ("lam_decay", 0 < self.lam_decay < 1, "in (0, 1)"),
            ("lam_drop", 0 <= self.lam_drop <= 1, "in [0, 1]"),
            ("gamma", 0 <= self.gamma <= 1, "in [0, 1]"),
            ("fisher_samples", self.fisher_samples >= 1, "at least 1"),
        ):
            if not fits:
                raise UserError(f"ewc.{setting} must be {expected}, got {getattr(self, setting)}")

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device = seeds, device
        self.learned = self.searched = 0
        self.lam_ = 0.0 if self.lam is None else self.lam
        net = mlp_net(spec.input_shape[0], self.units, self.layers, spec.n_classes, seeds.init)
        self.net = net.to(device)
        self.optimiser_ = optimiser_of(self)
        # One penalty λ/2 weight·(θ - anchor)² serves every way of merging, however many sessions: a
        # sum of quadratics Σ_k F_k (θ - θ*_k)² is one, centred on the F-weighted mean of the θ*_k.
        self.weight = [torch.zeros_like(p) for p in self.net.parameters()]
        self.anchor = [p.detach().clone() for p in self.net.parameters()]

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        if self.lam is None and ctx.validation == "test":
            raise UserError(
                "ewc chooses λ on validation data, and this stream's validation data is its test "
                "data; fix it with --set ewc.lam=…, or use --set protocol.validation=train"
            )
        log: dict[str, Any] = {}
        if self.learned == 0:
            log = self._train(session, 0.0)
        elif self.lam is None and self.searched < self.lam_sessions:
            log = self._search(session, ctx)
        else:
            log = self._train(session, self.lam_)
        log["lam"] = self.lam_ if self.learned else 0.0
        self._consolidate(session)
        self.learned += 1
        return log

    def _train(self, session: Session, lam: float) -> dict[str, Any]:
        def regularise() -> None:
            pull(self.net, self.weight, self.anchor, lam)

        return train(self, session, regularise=regularise if lam > 0 else None)

    def _search(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Train with λ = 0, then with falling λ until the session is learned well enough."""
        before = (copy.deepcopy(self.net.state_dict()), copy.deepcopy(self.optimiser_.state_dict()))

        def attempt(lam: float) -> tuple[dict[str, Any], float]:
            self.net.load_state_dict(before[0])
            self.optimiser_.load_state_dict(copy.deepcopy(before[1]))
            log = self._train(session, lam)
            return log, ctx.validate(self.scores)

        log, best = attempt(0.0)
        tried = [(0.0, best)]
        if math.isnan(best):  # no validation data, no evidence: keep the λ of the session before
            return attempt(self.lam_)[0] | {"search": "no validation data"}
        self.lam_ = self.lam_start
        while True:
            log, reached = attempt(self.lam_)
            tried.append((self.lam_, reached))
            if reached >= (1 - self.lam_drop) * best or self.lam_ < SMALLEST_LAM:
                break
            self.lam_ *= self.lam_decay
        self.searched += 1
        return log | {"search": [{"lam": a, "validation_accuracy": b} for a, b in tried]}

    @torch.no_grad()
    def _consolidate(self, session: Session) -> None:
        """Add the session's Fisher information to the penalty."""
        draw = generator(self.seeds.memory, self.learned)
        chosen = torch.randperm(len(session.x), generator=draw)[: self.fisher_samples]
        x = session.x.batch(chosen.to(self.device), self.device)
        y = torch.from_numpy(session.y)[chosen].to(self.device)
        mask = loss_mask(session, self.device)
        new = fisher_diagonal(self.net, x, y, self.fisher, draw, mask=mask)
        keep = self.gamma if self.merge == "online" else 1.0
        for p, f, weight, anchor in zip(
            self.net.parameters(), new, self.weight, self.anchor, strict=True
        ):
            weight.mul_(keep).add_(f)
            if self.merge == "per_session":
                share = torch.where(weight > 0, f / weight, 1.0)
                anchor.add_(share * (p - anchor))
            else:
                anchor.copy_(p)

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        held = Footprint(
            parameters=tensor_bytes(*self.net.parameters()),
            fisher=tensor_bytes(*self.weight),
            anchor=tensor_bytes(*self.anchor),
        )
        if self.optimiser_state == "kept":
            held["optimiser"] = optimiser_bytes(self.optimiser_)
        return held


@torch.no_grad()
def fisher_diagonal(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    kind: str,
    draw: torch.Generator,
    *,
    most_classes: int = 50,
    mask: Tensor | None = None,
) -> list[Tensor]:
    """Diagonal Fisher information of a ReLU MLP at x (n, D), y (n,): one tensor per parameter.

    F_i = 1/n Σ_x E_c[(∂ log p(c|x) / ∂θ_i)²], c over all classes ("exact", up to `most_classes`),
    one draw from p ("sampled") or the true class ("empirical"). `mask`, (C,), is added to the
    logits, as the loss does where a session restricts it. In a layer a → a Wᵀ + b the gradient of
    one sample is the outer product of δ and a, so Σ_x E_c[δ²] a² is one matrix product: no
    per-sample gradients are formed.
    """
    linears = [m for m in net.modules() if isinstance(m, nn.Linear)]
    if kind == "exact" and linears[-1].out_features > most_classes:
        kind = "sampled"
    total = [torch.zeros_like(p) for m in linears for p in (m.weight, m.bias)]
    u = torch.rand(len(x), 1, generator=draw).to(x.device)
    for first in range(0, len(x), FISHER_BATCH):
        part = slice(first, first + FISHER_BATCH)
        squares, inputs = _squared_deltas(linears, x[part], y[part], u[part], kind, mask)
        for k, (square, a) in enumerate(zip(squares, inputs, strict=True)):
            total[2 * k].addmm_(square.T, a.square())  # (out, b) @ (b, in) -> (out, in)
            total[2 * k + 1].add_(square.sum(0))
    return [t / len(x) for t in total]


def _squared_deltas(
    linears: list[nn.Linear], x: Tensor, y: Tensor, u: Tensor, kind: str, mask: Tensor | None
) -> tuple[list[Tensor], list[Tensor]]:
    """E_c[δ²] (b, out) and the input a (b, in) of every layer; u (b, 1) uniform, for a draw."""
    inputs = [x]
    for layer in linears[:-1]:
        inputs.append(torch.relu(layer(inputs[-1])))
    logits = linears[-1](inputs[-1])
    p = torch.softmax(logits if mask is None else logits + mask, dim=1)  # (b, C)
    n_classes = p.shape[1]
    one = torch.ones_like(u)
    if kind == "exact":
        labels = [(torch.full_like(y, c), p[:, c : c + 1]) for c in range(n_classes)]
    elif kind == "empirical":
        labels = [(y, one)]
    else:
        labels = [((p.cumsum(1) < u).sum(1).clamp(max=n_classes - 1), one)]
    squares = [p.new_zeros(len(x), m.out_features) for m in linears]
    for label, probability in labels:
        delta = (-p).scatter_add(1, label[:, None], one)  # e_c - p
        for k in range(len(linears) - 1, -1, -1):
            squares[k].addcmul_(probability, delta.square())
            if k:
                delta = (delta @ linears[k].weight) * (inputs[k] > 0)
    return squares, inputs
