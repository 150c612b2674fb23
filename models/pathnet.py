import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import at_least, check_size
from embedbench.learning import Context, Learner, Seeds, Session, StreamSpec, Tags, generator
from embedbench.learning.footprint import Footprint, tensor_bytes
from embedbench.learning.loss import loss_mask


@dataclass
class PathNet(Learner):
    """A path of small modules for each session, chosen by evolution and then frozen.

    A genotype names at most N modules in each of L layers. Tournament: two genotypes of the
    population are trained for a few mini-batches. The one with the higher training accuracy
    overwrites the other, and each gene of the copy mutates with probability 1 / (L N), by U{-2, …,
    2} modulo M. After a session the modules of its best path are frozen; all others, and the
    population, are drawn anew. Each session has its own head, so the session id must be given at
    test.

    **Source**: Fernando et al. (2017), with binary tournaments; Kemker et al. (2018), Table S3 (L
    2, M 10, N 5, 80 units, batch 16, Adam 2e-3). Population and mini-batches per tournament are
    those of public implementations, as recalled; neither paper's text gives them.

    **Departs**: "batched" trains both contestants on the same mini-batches at once: modules that
    they share get the sum of their gradients, and the second has no head start; "sequential" is the
    original, in nearly twice the time. A gene that occurs twice in a layer counts once. Early
    stopping is ours: the path and weights with the highest validation accuracy, then training
    accuracy, are kept. A session ends after more than `patience` tournaments without a new best, or
    when the best cannot be improved. A session that was never learned gets the answers of the
    latest one. Once every module is frozen (after about three sessions) only heads learn, as the
    paper says.

    **Measured**: its base cannot be lost: on MNIST's permutations Ω_base is .991 where Kemker's
    Table 2 has .687. The nearest of four other readings freezes the latest path only: .663 / .912 /
    .807 for the paper's .687 / .887 / .848 (a trial).

    Parameters
    ----------
    layers, modules, active : int
        L, M, N.
    units : int
        Number of units in a module.
    batch_size : int
        Samples per step.
    lr : float
        Learning rate of Adam; its moments are reset after a session.
    population, batches : int
        Number of genotypes; mini-batches for which a contestant is trained in a tournament.
    contestants : str
        "batched" or "sequential".
    patience, cap : int
        Tournaments without a new best before a session ends; largest number of tournaments.
    val_samples : int
        Most validation samples that score the winner.

    Examples
    --------
    >>> from embedbench import make_learner
    >>> make_learner("pathnet").tags.needs_session_id
    True
    """

    layers: Annotated[int, at_least(1, 100)] = 2
    modules: Annotated[int, at_least(1, 10_000)] = 10
    active: Annotated[int, at_least(1, 10_000)] = 5
    units: Annotated[int, at_least(1)] = 80
    batch_size: Annotated[int, at_least(1, 10_000)] = 16
    lr: Annotated[float, at_least(0)] = 2e-3
    population: Annotated[int, at_least(2, 100_000)] = 64
    batches: Annotated[int, at_least(1, 100_000)] = 50
    contestants: Literal["batched", "sequential"] = "batched"
    patience: Annotated[int, at_least(0)] = 50
    cap: Annotated[int, at_least(1, 100_000)] = 300
    val_samples: Annotated[int, at_least(1)] = 1000

    tags: ClassVar[Tags] = Tags(needs_session_id=True)
    scores_are = "logits"
    state: ClassVar[dict[str, str]] = {
        "banks": "parameters",
        "heads": "parameters",
        "paths": "paths",
        "ids": "paths",
    }

    def validation_needs(self) -> dict[str, str]:
        return {f"val_samples={self.val_samples}": ""}  # they choose the path

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds = seeds
        self.device = device
        self.n_classes = spec.n_classes
        inputs = [spec.input_shape[0], *[self.units] * (self.layers - 1)]
        check_size(self.name, self.modules * self.units * sum(inputs))
        self.banks = [  # the modules of each layer, (M, U, f + 1)
            torch.zeros(self.modules, self.units, f + 1, device=device) for f in inputs
        ]
        self.paths: list[Tensor] = []  # of each session learned, (L, M) bool
        self.heads: list[Tensor] = []  # of each session learned, (C, U + 1)
        self.ids: list[int] = []

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        assert session.session_id is not None  # the runner guarantees it
        draw = generator(self.seeds.init, len(self.ids))
        frozen = torch.zeros(self.layers, self.modules, dtype=torch.bool, device=self.device)
        for path in self.paths:
            frozen |= path
        for bank, fixed in zip(self.banks, frozen, strict=True):
            bank[~fixed] = draw_weights(bank.shape, draw).to(self.device)[~fixed]
        head = draw_weights((self.n_classes, self.units + 1), draw).to(self.device)
        genes = torch.randint(
            self.modules, (self.population, self.layers, self.active), generator=draw
        )
        search = _Tournaments(self, session, frozen, head)
        log = search.run(genes)
        self.banks = [torch.stack([p.data for p in layer]) for layer in search.modules]
        self.paths.append(search.best_path)
        self.heads.append(search.head.data)
        self.ids.append(session.session_id)
        return log | {"frozen": (frozen | search.best_path).sum(1).tolist()}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        assert session_id is not None  # the runner guarantees it
        learned = {number: k for k, number in enumerate(self.ids)}
        out = x.new_zeros(len(x), self.n_classes)
        for number in torch.unique(session_id).tolist():
            k = learned.get(number, -1)
            taken = [bank[path] for bank, path in zip(self.banks, self.paths[k], strict=True)]
            rows = session_id == number
            out[rows] = path_scores(x[rows], taken, self.heads[k])
        return out

    def footprint(self) -> Footprint:
        return Footprint(
            parameters=tensor_bytes(*self.banks, *self.heads),
            paths=tensor_bytes(*self.paths) + 8 * len(self.ids),
        )


class _Tournaments:
    """The tournaments of one session."""

    def __init__(self, learner: PathNet, session: Session, frozen: Tensor, head: Tensor) -> None:
        self.learner, self.session, self.frozen = learner, session, frozen
        self.modules = [[nn.Parameter(w.clone()) for w in bank] for bank in learner.banks]
        self.head = nn.Parameter(head)
        every = [self.head, *itertools.chain(*self.modules)]
        self.optimiser = torch.optim.Adam(every, lr=learner.lr, fused=True)  # counts steps a module
        self.draw = generator(learner.seeds.batches, len(learner.ids))
        self.y = torch.from_numpy(session.y).to(learner.device)
        self.mask = loss_mask(session, learner.device)
        n_val = min(len(session.val_x), learner.val_samples)
        chosen = torch.randperm(len(session.val_x), generator=self.draw)[:n_val]
        self.val_x = session.val_x.batch(chosen.to(learner.device), learner.device)
        self.val_y = torch.from_numpy(session.val_y)[chosen].to(learner.device)
        self.steps = 0

    @torch.no_grad()
    def run(self, genes: Tensor) -> dict[str, Any]:
        """Hold tournaments, then restore the best path's weights; `genes` (population, L, N)."""
        learner = self.learner
        best = (-1.0, -1.0)
        best_at = 0
        reason = "cap"
        self._remember(path_masks(genes[:1], learner.modules)[0].to(learner.device))
        tournament = 0
        while reason == "cap" and tournament < learner.cap:
            tournament += 1
            pair = torch.randperm(learner.population, generator=self.draw)[:2]
            paths = path_masks(genes[pair], learner.modules).to(learner.device)
            parts = [paths] if learner.contestants == "batched" else torch.split(paths, 1)
            fitness, loss = (torch.cat(v) for v in zip(*map(self._train, parts), strict=True))
            if not loss.isfinite().all():
                reason = "diverged"
                break
            won = int(fitness.argmax())
            genes[pair[1 - won]] = mutate_genes(genes[pair[won]], learner.modules, self.draw)
            trained = float(fitness[won])
            value = (self._validate(paths[won], trained), trained)
            if value > best:
                best, best_at = value, tournament
                self._remember(paths[won])
            if best == (1.0, 1.0):
                reason = "perfect"
            elif tournament - best_at > learner.patience:
                reason = "patience"
        self._restore()
        return {
            "tournaments": tournament,
            "steps": self.steps,
            "epochs": math.ceil(self.steps * learner.batch_size / len(self.y)),
            "stopped": reason,
            "train_loss": float(loss[won]) if reason != "diverged" else math.nan,
            "kept_tournament": best_at,
            "monitor": "accuracy" if len(self.val_y) else "train_accuracy",
            "best": best[0],
        }

    def _train(self, paths: Tensor) -> tuple[Tensor, Tensor]:
        """Train paths (P, L, M) on the same mini-batches; training accuracy and loss, (P,) each."""
        learner = self.learner
        n = len(self.y)
        size = learner.batches * learner.batch_size
        # each sample once before any is repeated
        orders = [torch.randperm(n, generator=self.draw) for _ in range(math.ceil(size / n))]
        index = torch.cat(orders)[:size].to(learner.device)
        x = with_ones(self.session.x.batch(index, learner.device))
        y = self.y[index]
        layers = gather_layers(self.modules, self.frozen, paths)
        logits = []
        for first in range(0, size, learner.batch_size):
            batch = slice(first, first + learner.batch_size)
            self.optimiser.zero_grad()  # modules of other paths must not move
            with torch.enable_grad():
                logits.append(train_paths(layers, self.head, x[batch], y[batch], self.mask))
            self.optimiser.step()
        self.steps += learner.batches
        out = torch.cat(logits, 1)  # (P, size, C)
        right = (out.argmax(2) == y).float().mean(1)
        loss = nn.functional.cross_entropy(
            out.transpose(1, 2), y.expand(len(out), -1), reduction="none"
        )
        return right, loss.mean(1)

    def _validate(self, path: Tensor, instead: float) -> float:
        """Validation accuracy of a path (L, M); `instead` if there is no validation data."""
        if len(self.val_y) == 0:
            return instead
        taken = [torch.stack(weights) for weights in self._weights(path)]
        logits = path_scores(self.val_x, taken, self.head)
        logits = logits if self.mask is None else logits + self.mask
        return float((logits.argmax(1) == self.val_y).float().mean())

    def _weights(self, path: Tensor) -> list[list[Tensor]]:
        """The modules on a path (L, M)."""
        return [
            [p.data for p, taken in zip(layer, row, strict=True) if taken]
            for layer, row in zip(self.modules, path.tolist(), strict=True)
        ]

    def _remember(self, path: Tensor) -> None:
        self.best_path = path
        self.best = [[w.clone() for w in layer] for layer in self._weights(path)]
        self.best_head = self.head.data.clone()

    def _restore(self) -> None:
        for layer, best in zip(self._weights(self.best_path), self.best, strict=True):
            for weight, value in zip(layer, best, strict=True):
                weight.copy_(value)
        self.head.data = self.best_head


def path_masks(genes: Tensor, modules: int) -> Tensor:
    """The modules on the paths of genotypes (n, L, N): (n, L, M) bool; duplicates count once."""
    masks = torch.zeros(*genes.shape[:2], modules, dtype=torch.bool)
    return masks.scatter_(2, genes, True)


def mutate_genes(genes: Tensor, modules: int, draw: torch.Generator) -> Tensor:
    """A copy of genotypes (…, L, N): each gene moves with probability 1 / (L N), modulo M."""
    chosen = torch.rand(genes.shape, generator=draw) < 1 / (genes.shape[-1] * genes.shape[-2])
    return (genes + chosen * torch.randint(-2, 3, genes.shape, generator=draw)) % modules


# --- paths through layers of modules ---


Modules = Sequence[nn.Parameter]


def with_ones(x: Tensor) -> Tensor:
    """Append a column of ones, (…, f) -> (…, f + 1): the last column of a weight is its bias."""
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], -1)


def draw_weights(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Weights of linear maps, (…, outputs, f + 1), by PyTorch's default: U(±1/√f), biases too."""
    bound = (shape[-1] - 1) ** -0.5
    return torch.empty(*shape).uniform_(-bound, bound, generator=generator)


def path_scores(x: Tensor, layers: Sequence[Tensor], head: Tensor) -> Tensor:
    """Logits of x (n, D), (n, C); `layers`: the modules on the path, (k, U, f + 1) each.

    A module is a linear map with the bias as its last column, followed by ReLU. A layer's output is
    the sum of its modules on the path. A linear head, (C, U + 1), follows the last layer.
    """
    h = x
    for taken in layers:
        z = torch.relu(with_ones(h) @ taken.flatten(0, 1).T)  # (n, f+1) @ (f+1, kU) -> (n, kU)
        h = z.view(len(x), *taken.shape[:2]).sum(1)
    return with_ones(h) @ head.T


class _Layer(NamedTuple):
    """The modules of a layer that are on some of P paths, side by side, those to train first."""

    weight: Tensor  # (k, U, f + 1)
    takes: Tensor  # (P, 1, k, 1), 1 where a path has a module
    trained: list[nn.Parameter]  # parts of the weight


def gather_layers(modules: Sequence[Modules], frozen: Tensor, paths: Tensor) -> list[_Layer]:
    """The layers of paths (P, L, M) bool; `modules` are M parameters for each of L layers.

    Their data moves into the weight of their layer, so that a step of theirs moves it. Those that
    are `frozen`, (L, M) bool, are not trained.
    """
    layers = []
    for layer, fixed, takes in zip(modules, frozen, paths.unbind(1), strict=True):
        used = takes.any(0)
        which = torch.cat([(used & ~fixed).nonzero(), (used & fixed).nonzero()])[:, 0]
        taken = [layer[i] for i in which.tolist()]
        weight = torch.stack([p.data for p in taken])
        for p, part in zip(taken, weight, strict=True):
            p.data = part
        trained = taken[: int((used & ~fixed).sum())]
        weight.requires_grad_(bool(trained))
        layers.append(_Layer(weight, takes[:, which].to(weight.dtype)[:, None, :, None], trained))
    return layers


def train_paths(
    layers: Sequence[_Layer], head: nn.Parameter, x: Tensor, y: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Set the gradient of Σ_paths (mean cross-entropy) of P paths; return the logits (P, b, C).

    A layer is one matrix product for all modules on any path; the first layer has the same input
    for all paths. A module on several paths gets the sum of their gradients, and so does the head
    (C, U + 1). The last column of x (b, D + 1) is 1; `mask`, (C,), is added to the logits.
    """
    h = x[None]
    for weight, takes, _ in layers:
        z = torch.relu(h.flatten(0, 1) @ weight.flatten(0, 1).T)
        z = z.view(*h.shape[:2], *weight.shape[:2])  # (P, b, k, U); in the first layer P is 1
        h = with_ones((z * takes).sum(2))  # (P, b, U + 1)
    logits = h @ head.T  # (P, b, U+1) @ (U+1, C)
    logits = logits if mask is None else logits + mask
    delta = torch.softmax(logits.detach(), 2)
    delta[:, torch.arange(len(y), device=y.device), y] -= 1
    logits.backward(delta / len(y))  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for weight, _, trained in layers:
        if weight.grad is not None:
            for p, grad in zip(trained, weight.grad, strict=False):
                p.grad = grad
            weight.grad = None
    return logits.detach()
