import copy
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import above, at_least, within
from embedbench.errors import UserError
from embedbench.learning import (
    Context,
    NetLearner,
    Seeds,
    Session,
    StreamSpec,
    Tags,
    generator,
    predict,
)
from embedbench.learning import per_sample_gradients as per_sample
from embedbench.learning.footprint import Footprint, tensor_bytes
from embedbench.learning.loss import loss_mask, pull
from embedbench.learning.optimisers import OptimiserName, trainable_parameters
from embedbench.learning.sample_containers import Rows
from embedbench.streams.view import View

SMALLEST_LAM = 1e-3


@dataclass
class EWC(NetLearner):
    """Elastic weight consolidation: a quadratic penalty on changing weights that mattered.

    L = L_t + λ/2 Σ_i F_i (θ_i - θ*_i)².

    **Source**: Kirkpatrick et al. (2017); Kemker et al. (2018), Eq. 1 and Table S2 (400×2 ReLU,
    batch 250, Adam 2e-4). λ by FACIL's rule (Masana et al. 2020; De Lange et al. 2019): λ starts at
    `lam_start` and falls until validation accuracy on the current session is at least (1 -
    `lam_drop`) of what plain fine-tuning reaches; after `lam_sessions` searches the last λ is used
    for all sessions.

    **Departs**: all classes are in the softmax, as Kemker's rows imply, unless `protocol.loss` is
    "seen" (MNIST, five classes and then one per session, λ = 100: a final accuracy above .30, and
    .100 with "seen"). The paper gives neither λ nor its estimator of the Fisher information.
    "exact" takes the expectation over at most 50 classes; for more, one sampled label. Libraries
    differ: true labels ("empirical": PyCIL, avalanche), predicted labels and squared batch means
    (FACIL). All correlate above .9 with "exact" and mostly rescale λ, so a value of λ is valid for
    one estimator only. In the search, accuracy is over the classes seen so far (within a session of
    one class it is always 1), and λ falls to 1e-3 before it gives up. With `past_validation`, as in
    Kirkpatrick et al. (2017) and in Fig. S1 of Kemker et al., the search is ours, too: λ falls
    until two values in a row are worse than the best, by mean validation accuracy over all sessions
    so far. `online-ewc` is "online" with γ = .95, our choice. Schwarz et al. weight the penalty by
    γF, here it is F: their λ is γλ here.

    Parameters
    ----------
    lam : float or None
        λ ≥ 0, or None to search it.
    fisher : str
        "exact", "sampled" (a label drawn from the model) or "empirical" (the true label).
    fisher_samples : int
        Number of the session's samples for the estimate of the Fisher information.
    merge : str
        "sum": one penalty, Fishers added, centred on the latest weights (Huszár 2018);
        "per_session": one penalty per session, each at that session's weights (Kirkpatrick et al.
        2017); "online": F ← γF + F_new, centred on the latest weights (Schwarz et al. 2018).
    gamma : float
        γ of "online", in [0, 1].
    lam_start, lam_decay, lam_drop : float
        Settings of the search: first λ, factor between one λ and the next, accuracy that may be
        lost.
    lam_sessions : int
        Number of searches; afterwards the last λ is used.
    past_validation : bool
        Store the validation samples of past sessions; stop and search by the mean over all sessions
        instead of by the current one.

    Examples
    --------
    >>> from embedbench import build_stream, make_learner, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> scores = score(run(stream, make_learner("ewc", lam=100)))
    >>> scores["learning_accuracy"] > scores["final_accuracy"]  # what it learned and lost
    True
    """

    batch_size: int = 250
    lr: float = 2e-4
    optimiser: OptimiserName = "adam"
    lam: Annotated[float, at_least(0)] | None = None
    fisher: Literal["exact", "sampled", "empirical"] = "exact"
    fisher_samples: Annotated[int, at_least(1)] = 2000
    merge: Literal["sum", "per_session", "online"] = "sum"
    gamma: Annotated[float, within("[0, 1]")] = 1.0
    lam_start: Annotated[float, above(0)] = 1e4
    lam_decay: Annotated[float, within("(0, 1)")] = 0.5
    lam_drop: Annotated[float, within("[0, 1]")] = 0.2
    lam_sessions: Annotated[int, at_least(0)] = 3
    past_validation: bool = False

    tags: ClassVar[Tags] = Tags(images=True, heads=True)
    state: ClassVar[dict[str, str]] = {
        **NetLearner.state,
        "searched": "transient",
        "lam_": "transient",
        "weight": "fisher",
        "anchor": "anchor",
        "past": "samples",
    }

    def validation_needs(self) -> dict[str, str]:
        needs = super().validation_needs()
        if self.lam is None:
            needs["lam=none"] = "lam=100"
        if self.past_validation:
            needs["past_validation=true"] = "past_validation=false"
        return needs

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.searched = 0
        self.lam_ = 0.0 if self.lam is None else self.lam
        # One penalty λ/2 weight·(θ - anchor)² serves every way of merging, however many sessions: a
        # sum of quadratics Σ_k F_k (θ - θ*_k)² is one, centred on the F-weighted mean of the θ*_k.
        self.weight = [torch.zeros_like(p) for p in trainable_parameters(self.net)]
        self.anchor = [p.detach().clone() for p in trainable_parameters(self.net)]
        # x (n, D), y (n,) and the loss's mask (C,) of the validation data of each session so far
        self.past: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        if ctx.validation == "test" and (self.lam is None or self.past_validation):
            raise UserError(
                "ewc chooses λ on validation data, and this stream's is its test data",
                "fix it with --set ewc.lam=…, or use --set protocol.validation=train",
            )
        if self.past_validation and len(session.val_x):
            y = torch.from_numpy(session.val_y).to(self.device)
            x = session.val_x.tensor(self.device)
            self.past.append((x, y, loss_mask(session, self.device)))
        log: dict[str, Any] = {}
        if self.learned == 0:
            log = self._train(session, ctx, 0.0)
        elif self.lam is None and self.searched < self.lam_sessions:
            log = self._search(session, ctx)
        else:
            log = self._train(session, ctx, self.lam_)
        log["lam"] = self.lam_ if self.learned else 0.0
        self._consolidate(session)
        return log

    def _train(self, session: Session, ctx: Context, lam: float) -> dict[str, Any]:
        def regularise() -> None:
            pull(self.net, self.weight, self.anchor, lam)

        validate = self._validate if self.past else None
        return self.train(session, ctx, regularise=regularise if lam else None, validate=validate)

    def _validate(self, monitor: str = "") -> float:
        """Mean over the sessions so far of the loss or negative accuracy on validation data."""
        monitor = monitor or self.stop.monitor
        values = [_value(self.net, monitor, *past) for past in self.past]
        return sum(values) / len(values)

    def _search(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Train with λ = 0, then with falling λ until the session is learned well enough."""
        before = (copy.deepcopy(self.net.state_dict()), copy.deepcopy(self.optimiser_.state_dict()))

        def attempt(lam: float) -> tuple[dict[str, Any], float]:
            ctx.progress(f"tries lam {lam:g}")  # `runs status` shows it: a search is long
            self.net.load_state_dict(before[0])
            self.optimiser_.load_state_dict(copy.deepcopy(before[1]))
            log = self._train(session, ctx, lam)
            if self.past_validation:
                return log, -self._validate("accuracy")
            return log, ctx.validate(self.scores)

        log, best = attempt(0.0)
        tried = [(0.0, best)]
        if math.isnan(best):  # without validation data, keep the λ of the previous session
            return attempt(self.lam_)[0] | {"search": "no validation data"}
        lam = self.lam_start
        while True:
            log, reached = attempt(lam)
            tried.append((lam, reached))
            if lam < SMALLEST_LAM or self._enough([accuracy for _, accuracy in tried]):
                break
            lam *= self.lam_decay
        self.lam_ = lam
        if self.past_validation:
            self.lam_ = max(tried, key=lambda t: t[1])[0]
            log = attempt(self.lam_)[0]
        self.searched += 1
        return log | {"search": [{"lam": a, "validation_accuracy": b} for a, b in tried]}

    def _enough(self, reached: list[float]) -> bool:
        """Whether the search ends; `reached`: validation accuracies with λ = 0, then falling λ."""
        if self.past_validation:
            return len(reached) > 3 and max(reached[-2:]) < max(reached[1:-2])
        return reached[-1] >= (1 - self.lam_drop) * reached[0]

    @torch.no_grad()
    def _consolidate(self, session: Session) -> None:
        """Add the session's Fisher information to the penalty."""
        draw = generator(self.seeds.memory, self.learned)
        chosen = torch.randperm(len(session.x), generator=draw)[: self.fisher_samples]
        x = session.x.select(chosen.numpy())
        y = torch.from_numpy(session.y)[chosen].to(self.device)
        mask = loss_mask(session, self.device)
        new = fisher_diagonal(self.net, x, y, self.fisher, draw, mask=mask, device=self.device)
        share_left = self.gamma if self.merge == "online" else 1.0
        for p, f, weight, anchor in zip(
            trainable_parameters(self.net), new, self.weight, self.anchor, strict=True
        ):
            weight.mul_(share_left).add_(f)
            if self.merge == "per_session":
                share = (f / weight).nan_to_num()  # where nothing pulls, the anchor may stay
                anchor.add_(share * (p - anchor))
            else:
                anchor.copy_(p)

    def footprint(self) -> Footprint:
        held = super().footprint()
        if self.past:  # their masks aside
            x = [past[0] for past in self.past]
            y = [past[1] for past in self.past]
            held["samples"] = tensor_bytes(*x, *y)
        return held


def _value(net: nn.Module, monitor: str, x: Tensor, y: Tensor, mask: Tensor | None) -> float:
    """Loss or negative accuracy on validation data, over all classes that the loss may use."""
    logits = predict(net, x)
    logits = logits if mask is None else logits + mask
    if monitor == "loss":
        return float(nn.functional.cross_entropy(logits, y))
    return -float((logits.argmax(1) == y).float().mean())


# --- the diagonal of the Fisher information ---


FISHER_BATCH = 1024  # samples; larger batches do not fit a processor's caches
MOST_CLASSES = 50  # of an exact expectation


@torch.no_grad()
def fisher_diagonal(
    net: nn.Module,
    x: View | Rows,
    y: Tensor,
    kind: str,
    draw: torch.Generator,
    *,
    mask: Tensor | None = None,
    device: str = "cpu",
) -> list[Tensor]:
    """Diagonal Fisher information at x, n samples (D,) or (C, H, W), and y (n,): one tensor per
    trained parameter, on `device`.

    F_i = 1/n Σ_x E_c[(∂ log p(c|x) / ∂θ_i)²]. The expectation over c is over all classes ("exact",
    up to `MOST_CLASSES`), over one draw from p ("sampled"), or the true class alone ("empirical").
    `mask`, (C,), is added to the logits, as the loss does in a session that restricts it. In a
    layer a → a Wᵀ + b of a ReLU MLP, the gradient of one sample is the outer product of δ and a. So
    Σ_x E_c[δ²] a² is one matrix product, and per-sample gradients are never formed. For other
    networks they are formed, block by block. So samples are read block by block, too.
    """
    linears = [m for m in net.modules() if isinstance(m, nn.Linear)]
    if kind == "exact" and linears[-1].out_features > MOST_CLASSES:
        kind = "sampled"
    u = torch.rand(len(x), 1, generator=draw).to(device)
    if not per_sample.is_mlp(net):
        return _by_sample(net.eval(), x, y, u, kind, mask, device)
    total = [torch.zeros_like(p) for m in linears for p in (m.weight, m.bias)]
    for part in torch.split(torch.arange(len(y), device=device), FISHER_BATCH):
        samples = x.batch(part, device)
        squares, inputs = _squared_deltas(net, samples, y[part], u[part], kind, mask)
        for k, (square, a) in enumerate(zip(squares, inputs, strict=True)):
            total[2 * k].addmm_(square.T, a.square())  # (out, b) @ (b, in) -> (out, in)
            total[2 * k + 1].add_(square.sum(0))
    return [t / len(x) for t in total]


def _labels(p: Tensor, y: Tensor, u: Tensor, kind: str) -> list[tuple[Tensor, Tensor]]:
    """The labels (b,) whose squared gradients are added, each with its probability (b, 1)."""
    n_classes = p.shape[1]
    one = torch.ones_like(u)
    if kind == "exact":
        return [(torch.full_like(y, c), p[:, c : c + 1]) for c in range(n_classes)]
    if kind == "empirical":
        return [(y, one)]
    return [((p.cumsum(1) < u).sum(1).clamp(max=n_classes - 1), one)]


def _by_sample(
    net: nn.Module,
    x: View | Rows,
    y: Tensor,
    u: Tensor,
    kind: str,
    mask: Tensor | None,
    device: str,
) -> list[Tensor]:
    """The same from the gradient of each single sample."""
    total = [torch.zeros_like(p) for p in trainable_parameters(net)]

    def log_p(logits: Tensor, label: Tensor) -> Tensor:
        masked = logits if mask is None else logits + mask
        return masked.log_softmax(0).gather(0, label[None])[0]

    for part in torch.split(torch.arange(len(y), device=device), per_sample.BLOCK):
        samples = x.batch(part, device)
        logits = net(samples)
        p = torch.softmax(logits if mask is None else logits + mask, dim=1)
        for label, probability in _labels(p, y[part], u[part], kind):
            each = per_sample.gradients(net, log_p, samples, label)
            for sum_, g in zip(total, each, strict=True):
                sum_.add_((g.square().flatten(1) * probability).sum(0).view_as(sum_))
    return [t / len(x) for t in total]


def _squared_deltas(
    net: nn.Module, x: Tensor, y: Tensor, u: Tensor, kind: str, mask: Tensor | None
) -> tuple[list[Tensor], list[Tensor]]:
    """E_c[δ²] (b, out) and the input a (b, in) of every layer; u (b, 1) uniform, for the draws."""
    linears, inputs, logits = per_sample.forward_layers(net, x)
    p = torch.softmax(logits if mask is None else logits + mask, dim=1)  # (b, C)
    labels = _labels(p, y, u, kind)
    one = torch.ones_like(u)
    squares = [p.new_zeros(len(x), m.out_features) for m in linears]
    for label, probability in labels:
        at_logits = (-p).scatter_add(1, label[:, None], one)  # e_c - p
        for k, delta in per_sample.backward_deltas(linears, inputs, at_logits):
            squares[k].addcmul_(probability, delta.square())
    return squares, inputs
