from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from embedbench.config.run_seeds import generator
from embedbench.config.setting_ranges import above, at_least, check_size, within
from embedbench.errors import UserError
from embedbench.learning import UNSEEN, Context, Learner, Seeds, Session, StreamSpec, Tags
from embedbench.learning.base_session_prototypes import Classifier
from embedbench.learning.optimisers import make_optimiser
from embedbench.learning.prototypes import Prototypes, cosines

from ._layer_slices import layer_slices

DECAYS = (0.6, 0.7, 0.8, 0.9)  # at these shares of the epochs the learning rate falls to a tenth
TERMS = ("cos", "novel", "class", "same", "different")  # the terms of the loss

Batch = tuple[Tensor, Tensor]  # tables (1 + L, n, d), the final embedding first; labels (n,)


@dataclass
class FR(Learner):
    """Feature rectification: a small module for every intermediate layer, and their ensemble.

    X_FR = M_mix(cat(M_I(X_l), M_F(X))) is classified by its cosines to prototypes P. The loss sums
    five terms over the layers: w_cos (1 - cos(X_FR, X)); w_novel, the cross-entropy of novel
    samples; w_class, the divergence from the intermediate feature's softmax of s cos(X_l, P);
    w_same and w_different, smooth L1 between distances of X_FR and those of X_l, for pairs of one
    class and of two classes. The base session trains on its samples without w_novel. Later sessions
    train on their shots and on draws from a Gaussian for every class and layer; a novel class uses
    the covariance of the base classes most like it. Only the modules are trained, in every session.

    **Source**: Tang et al. (2024), "Rethinking few-shot class-incremental learning: learning from
    yourself", Section 4.2, Eqs. 7 to 12, A2.2, A5.3. The defaults are the paper's, with its weights
    for CIFAR-100 (the preset `fr-mini-imagenet` has others). Details that the paper leaves open are
    from their code: s, the sign of the cosine term, the means over pairs, PyTorch's initialisation,
    SGD and its schedule, batches, K, ε, P. The presets `fr-code…` have their code's own numbers.

    **Departs**: P of base classes are their means by default (`prototype` says why); the paper's
    are the backbone's classifier, `classifier.base=FILE`. The softmax of the ensemble has the s of
    the training; the paper gives none. If a later session has more samples than a batch has draws,
    each batch gets a random subset of as many. Batches of the base session are samples of equally
    many classes, without repetition within a class that is large enough. An epoch of it is as long
    as a later session's would be, because a base session of few samples would take one step an
    epoch. A class that comes again moves its mean; a base class keeps its covariance, a novel one
    chooses donors by its new mean. Layers must be as wide as the final embedding. If a ViT's
    embedding is its class token, its last block equals the embedding: leave it out.

    Parameters
    ----------
    layers : str
        Names of the stream's layers, separated by commas, or "all".
    hidden : int or None
        Hidden units of M_F and M_I; None: d.
    w_cos, w_novel, w_class, w_same, w_different : float
        Weights of the losses.
    scale : float
        s, the factor of the cosines.
    donors : int
        K, the number of base classes whose covariance a novel class uses.
    epsilon : float
        ε, added to the variances; squared units of the features.
    epochs, epoch_samples : int
        Epochs in every session, and samples per epoch for each class seen.
    batch_classes, batch_samples : int
        Classes in a batch, and samples of each.
    optimiser : str
        "sgd", or "adam", which needs far fewer steps (preset `fr-short`).
    lr, momentum, dampening : float
        Of the optimiser; momentum and dampening for SGD only.
    ensemble : str
        "softmax" or "cosine": what is averaged over the layers.
    classifier : Classifier
        The prototypes of base classes.

    Examples
    --------
    >>> from embedbench import make_learner
    >>> make_learner("fr", layers="block-9,block-10").tags.needs_layers
    True
    """

    layers: str = "all"
    hidden: Annotated[int, at_least(1, 100_000)] | None = None
    w_cos: Annotated[float, at_least(0)] = 0.1
    w_novel: Annotated[float, at_least(0)] = 0.1
    w_class: Annotated[float, at_least(0)] = 0.5
    w_same: Annotated[float, at_least(0)] = 1.0
    w_different: Annotated[float, at_least(0)] = 1.0
    scale: Annotated[float, above(0)] = 16.0
    donors: Annotated[int, at_least(1, 100)] = 2
    epsilon: Annotated[float, above(0)] = 1e-6
    epochs: Annotated[int, at_least(1, 100_000)] = 100
    epoch_samples: Annotated[int, at_least(1, 100_000)] = 600
    batch_classes: Annotated[int, at_least(1, 10_000)] = 32
    batch_samples: Annotated[int, at_least(1, 10_000)] = 32
    optimiser: Literal["sgd", "adam"] = "sgd"
    lr: Annotated[float, above(0)] = 0.1
    momentum: Annotated[float, within("[0, 1)")] = 0.9
    dampening: Annotated[float, within("[0, 1)")] = 0.9
    ensemble: Literal["softmax", "cosine"] = "softmax"
    classifier: Classifier = field(default_factory=Classifier)

    tags: ClassVar[Tags] = Tags(needs_layers=True)
    state: ClassVar[dict[str, str]] = {
        "net": "parameters",
        "prototypes": "prototypes",
        "base": "covariances",
        "factors": "covariances",
        "donors_": "covariances",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.scores_are = "probabilities" if self.ensemble == "softmax" else "cosines"
        self.seeds, self.device, self.learned = seeds, device, 0
        self.slices = slices(spec, self.layers)
        n_classes, (all_columns,) = spec.n_classes, spec.input_shape
        n_layers = len(self.slices) - 1
        width = self.slices[0][1]
        check_size(self.name, 4 * n_layers * width * (width + (self.hidden or 0)))
        self.net = Rectifier(n_layers, width, self.hidden or width, seeds.init).to(device)
        self.prototypes = Prototypes(n_classes, all_columns, width, device)
        self.base = torch.zeros(n_classes, dtype=torch.bool, device=device)
        # factors of the base classes' covariances, and the donors among them of every class
        self.factors = torch.zeros(0, 1 + n_layers, width, width, device=device)
        self.donors_ = torch.zeros(
            n_classes, self.donors, 1 + n_layers, dtype=torch.int64, device=device
        )

    def _tables(self, x: Tensor) -> Tensor:
        """(1 + L, n, d): final and intermediate embeddings of x (n, columns)."""
        return torch.stack([x[:, a:b] for a, b in self.slices])

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        y = torch.from_numpy(session.y).to(self.device)
        draws = torch.Generator(self.device).manual_seed(
            generator(self.seeds.batches, self.learned).initial_seed()
        )
        self.prototypes.add(session, self.classifier, self.seeds.batches, ctx)
        if not self.learned:
            self._keep_covariances(session, y)
            batch = self._real(session, y, draws)
        else:
            self._borrow(torch.unique(y))
            batch = self._replayed(session, y, draws)
        n = self.epoch_samples * int(self.prototypes.seen.sum())
        return self._train(batch, n // (self.batch_classes * self.batch_samples))

    def _keep_covariances(self, session: Session, y: Tensor) -> None:
        """Store a factor for each class of the base session; each is its own donor."""
        self.base = self.prototypes.seen
        factors = []
        for place, c in enumerate(self.base.nonzero().flatten().tolist()):
            rows = (y == c).nonzero().flatten()
            factors.append(factor(self._tables(session.x.batch(rows, self.device)), self.epsilon))
            self.donors_[c] = place
        self.factors = torch.stack(factors)

    def _borrow(self, classes: Tensor) -> None:
        """Choose the donors of those of `classes` that are not base classes."""
        means = self._tables(self.prototypes.means()).transpose(0, 1)  # (C, 1 + L, d)
        novel = classes[~self.base[classes]]
        alike = most_alike(means[novel], means[self.base], self.donors)
        # repeated if they are too few
        self.donors_[novel] = alike.repeat(1, self.donors, 1)[:, : self.donors]

    def _real(self, session: Session, y: Tensor, draws: torch.Generator) -> Callable[[], Batch]:
        """Batches of the base session: real samples."""
        rows = [(y == c).nonzero().flatten() for c in torch.unique(y)]

        def batch() -> Batch:
            chosen = _permutation(len(rows), draws)[: self.batch_classes].tolist()
            index = torch.cat([_pick(rows[k], self.batch_samples, draws) for k in chosen])
            return self._tables(session.x.batch(index, self.device)), y[index]

        return batch

    def _replayed(self, session: Session, y: Tensor, draws: torch.Generator) -> Callable[[], Batch]:
        """Batches of a later session: draws of classes seen, and the session's samples."""
        means = self._tables(self.prototypes.means()).transpose(0, 1)
        seen = self.prototypes.seen.nonzero().flatten()
        size = self.batch_samples
        most = self.batch_classes * size
        everything = torch.arange(len(y), device=self.device)

        def batch() -> Batch:
            classes = seen[_permutation(len(seen), draws)[: self.batch_classes]]
            drawn = draw(means[classes], self.factors, self.donors_[classes], size, draws)
            index = everything if len(y) <= most else _pick(everything, most, draws)
            shots = self._tables(session.x.batch(index, self.device))
            labels = torch.cat([classes.repeat_interleave(size), y[index]])
            return torch.cat([drawn, shots], dim=1), labels

        return batch

    def _train(self, batch: Callable[[], Batch], steps: int) -> dict[str, Any]:
        """Train the modules on `steps` batches an epoch, at least one."""
        steps = max(steps, 1)
        total = torch.zeros(5, device=self.device)
        weights = self._weights()
        optimiser: torch.optim.Optimizer = torch.optim.SGD(
            self.net.parameters(), lr=self.lr, momentum=self.momentum, dampening=self.dampening
        )
        if self.optimiser == "adam":
            optimiser = make_optimiser("adam", self.net, lr=self.lr)
        for epoch in range(self.epochs):
            total.zero_()
            for group in optimiser.param_groups:
                group["lr"] = self.lr * 0.1 ** sum(epoch >= d * self.epochs for d in DECAYS)
            for _ in range(steps):
                terms = self._losses(*batch())
                optimiser.zero_grad(set_to_none=True)
                (terms * weights).sum().backward()  # type: ignore[no-untyped-call]  # torch
                optimiser.step()
                total += terms.detach()
        return {
            "epochs": self.epochs,
            "steps": self.epochs * steps,
            "stopped": "epochs",
            "train_loss": float((total * weights).sum()) / steps,
            "losses": dict(zip(TERMS, (total / steps).tolist(), strict=True)),
        }

    def _weights(self) -> Tensor:
        return torch.tensor([getattr(self, f"w_{t}") for t in TERMS], device=self.device)

    def _losses(self, tables: Tensor, y: Tensor) -> Tensor:
        """The five losses of a batch, each summed over the layers, (5,)."""
        final = tables[0]
        layers = tables[1:]
        seen = self.prototypes.seen
        rows = self.prototypes.rows[seen]
        place = seen.cumsum(0) - 1
        rectified = self.net(final, layers)  # (L, n, d)
        logits = self.scale * cosines(rectified, rows)  # (L, n, classes seen)
        terms = (
            cosine_constraint(rectified, final),
            novel_entropy(logits, place[y], ~self.base[y]),
            class_relation(logits, self.scale * cosines(layers, rows)),
            *instance_relation(rectified, layers, y),
        )
        return torch.stack([t.sum() for t in terms])

    @torch.inference_mode()
    def rectified(self, x: Tensor) -> Tensor:
        """X_FR of x (n, columns) by the module of each layer, (L, n, d)."""
        tables = self._tables(x)
        out: Tensor = self.net(tables[0], tables[1:])
        return out

    @torch.inference_mode()
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        seen = self.prototypes.seen
        near = cosines(self.rectified(x), self.prototypes.rows[seen])
        if self.ensemble == "softmax":
            near = torch.softmax(self.scale * near, dim=-1)
        out = x.new_full((len(x), len(seen)), UNSEEN)
        out[:, seen] = near.mean(0)
        return out


def _permutation(n: int, draws: torch.Generator) -> Tensor:
    return torch.randperm(n, generator=draws, device=draws.device)


def _pick(rows: Tensor, n: int, draws: torch.Generator) -> Tensor:
    """`n` of `rows`, with repetition only where there are fewer."""
    if len(rows) >= n:
        return rows[_permutation(len(rows), draws)[:n]]
    return rows[torch.randint(len(rows), (n,), generator=draws, device=draws.device)]


# --- feature rectification: the modules of all layers, and their losses ---


class _Linear(nn.Module):
    """L linear maps at once, x (L, n, inputs) to (L, n, outputs); PyTorch's initialisation."""

    def __init__(self, layers: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(layers, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(layers, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class _Perceptron(nn.Module):
    """FC → GELU → LayerNorm → FC, for L layers at once."""

    def __init__(self, layers: int, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.enter = _Linear(layers, inputs, hidden)
        self.gain = nn.Parameter(torch.ones(layers, 1, hidden))
        self.shift = nn.Parameter(torch.zeros(layers, 1, hidden))
        self.leave = _Linear(layers, hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.layer_norm(functional.gelu(self.enter(x)), self.gain.shape[-1:], eps=1e-6)
        out: Tensor = self.leave(h * self.gain + self.shift)
        return out


class Rectifier(nn.Module):
    """X_FR = M_mix(cat(M_I(X_l), M_F(X))), one module for each of L layers of width d.

    M_F and M_I are d → hidden → d, M_mix is 2d → 2d → d.
    """

    def __init__(self, layers: int, width: int, hidden: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.final = _Perceptron(layers, width, hidden, width)
            self.intermediate = _Perceptron(layers, width, hidden, width)
            self.mix = _Perceptron(layers, 2 * width, 2 * width, width)

    def forward(self, final: Tensor, layers: Tensor) -> Tensor:
        """Rectified features (L, n, d) of final (n, d) and intermediate ones (L, n, d)."""
        both = torch.cat([self.intermediate(layers), self.final(final.expand_as(layers))], dim=-1)
        out: Tensor = self.mix(both)
        return out


def cosine_constraint(rectified: Tensor, final: Tensor) -> Tensor:
    """Mean of 1 - cos(X_FR, X), (L,); rectified (L, n, d), final (n, d)."""
    return (1 - functional.cosine_similarity(rectified, final, dim=-1)).mean(-1)


def novel_entropy(logits: Tensor, y: Tensor, novel: Tensor) -> Tensor:
    """Cross-entropy of the `novel` samples, a mean over them, (L,); 0 where there are none.

    Logits (L, n, C) are over all classes seen, y (n,) are indices among these.
    """
    if not novel.any():
        return logits.new_zeros(len(logits))
    chosen = logits[:, novel]
    each = functional.cross_entropy(
        chosen.transpose(1, 2), y[novel].expand(len(chosen), -1), reduction="none"
    )
    return each.mean(-1)


def class_relation(logits: Tensor, targets: Tensor) -> Tensor:
    """KL(softmax(targets) ‖ softmax(logits)), mean over samples, (L,); both (L, n, C).

    The targets get no gradient.
    """
    mine = logits.log_softmax(-1)
    aim = targets.detach().log_softmax(-1)
    return functional.kl_div(mine, aim, reduction="none", log_target=True).sum(-1).mean(-1)


def instance_relation(rectified: Tensor, layers: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Smooth L1 between the pairwise distances of X_FR and those of X_l, both (L, n, d).

    Returns two means (L,): over pairs (i, j) of the same class (with i = j), and over pairs of
    different classes. A mean over no pairs is 0. `layers` gets no gradient.
    """
    with torch.no_grad():
        targets = _distances(layers)
    each = functional.smooth_l1_loss(_distances(rectified), targets, reduction="none")  # (L, n, n)
    alike = (y[:, None] == y).to(each.dtype)
    total = each.sum((1, 2))
    same = (each * alike).sum((1, 2))
    pairs = alike.sum()
    return same / pairs, (total - same) / (alike.numel() - pairs).clamp(min=1)


def _distances(x: Tensor) -> Tensor:
    """Euclidean distances within x (L, n, d), (L, n, n); the gradient at 0 is 0."""
    squares = x.square().sum(-1)
    below = torch.baddbmm(squares[:, None], x, x.mT, alpha=-2) + squares[:, :, None]
    off = 1 - torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    return (below * off).clamp(min=1e-12).sqrt()


def slices(spec: StreamSpec, names: str) -> list[tuple[int, int]]:
    """Columns of the final embedding, then of the layers in `names`; all have the same width."""
    chosen = layer_slices(spec, names)
    _, width = chosen[""]
    for name, (first, end) in chosen.items():
        if end - first != width:
            raise UserError(
                f"fr needs layers as wide as the final embedding, {width} columns, and {name} has "
                f"{end - first}",
                "choose others with --set fr.layers=…",
            )
    return [*chosen.values()]


# --- Gaussians of classes whose samples are not stored ---


def factor(x: Tensor, epsilon: float) -> Tensor:
    """Lower triangular F with F Fᵀ = Σ + εI, (T, d, d) float32, for T tables x (T, n, d).

    Σ is the sample covariance of a table; for a single sample it is 0.
    """
    away = x.double() - x.double().mean(1, keepdim=True)
    sigma = away.mT @ away / max(x.shape[1] - 1, 1)
    sigma.diagonal(dim1=1, dim2=2).add_(epsilon)
    lower, failed = torch.linalg.cholesky_ex(sigma)
    if failed.any():
        raise UserError(
            f"fr.epsilon={epsilon:g} is too small for these features", "give a larger one"
        )
    factor: Tensor = lower.float()
    return factor


def most_alike(means: Tensor, base: Tensor, k: int) -> Tensor:
    """The `k` base classes whose means (B, T, d) have the largest cosines with means (m, T, d).

    They are chosen for each table: (m, k, T).
    """
    likeness = torch.einsum(
        "mtd,btd->mbt", functional.normalize(means, dim=-1), functional.normalize(base, dim=-1)
    )
    return likeness.topk(min(k, len(base)), dim=1).indices


def draw(
    means: Tensor, factors: Tensor, donors: Tensor, n: int, generator: torch.Generator
) -> Tensor:
    """Draw `n` features for each of P classes, for T tables independently: (T, P·n, d), by class.

    A class's covariance is the mean covariance of its K donors, (P, K, T) indices of lower
    triangular factors (B, T, d, d). Σ_k F_k z_k / √K has exactly this covariance, so the mean needs
    no factor of its own.
    """
    tables = torch.arange(means.shape[1], device=means.device)
    k = donors.shape[1]
    z = torch.randn(
        (*donors.shape, n, means.shape[2]), generator=generator, device=means.device
    )  # (P, K, T, n, d)
    # class by class: indexing all factors at once would copy P·K·T·d² numbers
    noise = [(part @ factors[at, tables].mT).sum(0) for part, at in zip(z, donors, strict=True)]
    drawn: Tensor = means[:, :, None] + torch.stack(noise) / k**0.5  # (P, T, n, d)
    return drawn.transpose(0, 1).flatten(1, 2)
