"""A self-organising map with a linear readout, trained one sample at a time; its rehearsal."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from embedbench.array_types import Bools, Float32s, Ints
from embedbench.config.setting_ranges import (
    above,
    at_least,
    check_settings,
    check_size,
    require,
    within,
)
from embedbench.learning import Context, Learner, Seeds, Session, Store, StreamSpec, Tags
from embedbench.learning.footprint import Stateful

from ._som_kernel import (
    GATED,
    JOINT,
    LEAST_WIDTH,
    SOM_ONLY,
    Draws,
    Products,
    Readout,
    Rule,
    Updates,
    steps,
)

BLOCK = 256  # samples per block, with their inner products; larger blocks leave the caches
LONGEST = 4096  # draws per block, for data with few samples
LEAST_ERROR = 0.2  # share of the base session's spread; for maps with more units than samples
FIRST_LOOK = 1000  # samples for the first value of the mean distance
Take = Callable[[Ints], torch.Tensor]
Labels = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Som:
    """Settings of the map and its readout. For fitted values see `geppnet`.

    **Source**: Kemker et al. (2018), Table S4 (23×23 units; learning rates .1 for the map and 1e-3
    for the readout; θ .5; 80,000 iterations). The paper does not give the other settings.

    Parameters
    ----------
    side : int
        Units along each of the two sides of the grid.
    iterations, som_iterations : int
        Steps in the base session, and the first of them, in which only the map learns.
    hold : int
        First steps with the initial `eps` and `sigma`; then both fall exponentially until the
        readout begins to learn.
    eps, eps_end, eps_later : float
        Learning rate of the map in the base session, initial and final, and in later sessions.
    sigma, sigma_end : float or None, float
        Initial and final width (standard deviation) of the neighbourhood, in grid units. None: a
        third of `side`.
    theta : float
        A sample is novel below this confidence: the largest output minus the second largest.
    kappa, ema : float
        Width of the transfer, in units of the running mean of the distance between a sample and its
        nearest unit; and the rate of that mean.
    sharpness : float
        p, exponent of the transfer function.
    lr : float
        Learning rate of the readout; a step that would overshoot is shortened.
    """

    side: Annotated[int, at_least(1, 1000)] = 23
    iterations: Annotated[int, at_least(1, 10_000_000)] = 80_000
    som_iterations: Annotated[int, at_least(0)] = 20_000
    hold: Annotated[int, at_least(0)] = 5_000
    eps: Annotated[float, within("(0, 1)")] = 0.1
    eps_end: Annotated[float, within("(0, 1)")] = 0.03
    eps_later: Annotated[float, within("[0, 1)")] = 3e-4
    sigma: Annotated[float, at_least(1e-3)] | None = None
    sigma_end: Annotated[float, at_least(1e-3)] = 0.7
    theta: Annotated[float, at_least(0)] = 0.5
    kappa: Annotated[float, above(0)] = 2.0
    ema: Annotated[float, within("[0, 1]")] = 1e-3
    sharpness: Annotated[float, above(0)] = 20.0
    lr: Annotated[float, at_least(0)] = 4e-3

    def __post_init__(self) -> None:
        check_settings(self, "som")
        require(self, "som", som_iterations=within(f"[0, {self.iterations}]"))
        require(self, "som", hold=within(f"[0, {self.som_iterations}]"))

    def schedule(self) -> tuple[Floats, Floats]:
        """ε and σ of every step of the base session, (iterations,) each."""
        gone = np.interp(np.arange(self.iterations), [self.hold, self.som_iterations], [0, 1])
        sigma = self.side / 3 if self.sigma is None else self.sigma
        return (
            self.eps * (self.eps_end / self.eps) ** gone,
            sigma * (self.sigma_end / sigma) ** gone,
        )


class MapNetwork(Stateful):
    """The map's units `W` (U, D) and the readout `V` (U, C), `b` (C,), float32 on the CPU.

    Parameters
    ----------
    error : float
        Running mean of the distance between a sample and its nearest unit.
    """

    state: ClassVar[dict[str, str]] = {
        "W": "som",
        "V": "readout",
        "b": "readout",
        "error": "transient",
    }

    def __init__(self, som: Som, n_inputs: int, n_classes: int) -> None:
        self.som = som
        check_size("the map", som.side**2 * (n_inputs + n_classes))
        self.W = torch.zeros(som.side**2, n_inputs)
        self.V = torch.zeros(som.side**2, n_classes)
        self.b = torch.zeros(n_classes)
        self.error = self.least_error = 0.0

    def learn_base(
        self, take: Take, y: Labels, seed: int, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Learn the base session from draws of n samples; log the novelty in the joint steps.

        `take` returns copies of samples by index, (m, D); `seed` is for the samples at which the
        units start.
        """
        som = self.som
        n = len(y)
        begin = np.random.default_rng(seed)
        self.W = take(begin.choice(n, len(self.W), replace=n < len(self.W)))
        some = take(begin.choice(n, min(n, FIRST_LOOK), replace=False))
        self.error = float(self.distances(some).min(1).values.sqrt().mean())
        self.least_error = LEAST_ERROR * float((some - some.mean(0)).square().sum(1).mean().sqrt())
        drawn = rng.integers(n, size=som.iterations)
        eps, sigma = som.schedule()
        cut = som.som_iterations
        self._learn(take, y, drawn[:cut], eps[:cut], sigma[:cut], SOM_ONLY)
        novel = self._learn(take, y, drawn[cut:], eps[cut:], sigma[cut:], JOINT)
        return {"iterations": som.iterations, "novelty": _mean(novel)}

    def learn(self, take: Take, y: Labels, drawn: Ints) -> dict[str, Any]:
        """Learn the draws, (m,) indices of samples, that are novel when they are reached."""
        eps = np.full(len(drawn), self.som.eps_later)
        sigma = np.full(len(drawn), self.som.sigma_end)
        novel = self._learn(take, y, drawn, eps, sigma, GATED)
        return {"iterations": len(drawn), "novelty": _mean(novel)}

    def is_novel(self, take: Take, y: Labels, drawn: Ints) -> Bools:
        """Whether each of the draws, (m,) indices of samples, is novel for the present network."""
        index, which = np.unique(drawn, return_inverse=True)
        novel = []
        for part in np.array_split(index, len(index) // 1024 + 1):
            o = self.outputs(take(part))
            first, answer = o.max(1)
            second = o.scatter(1, answer[:, None], -torch.inf).max(1).values
            wrong = answer != torch.from_numpy(y[part])
            novel.append(((first - second < self.som.theta) | wrong).numpy())
        result: Bools = np.concatenate(novel)[which]
        return result

    def _learn(
        self, take: Take, y: Labels, drawn: Ints, eps: Floats, sigma: Floats, what: int
    ) -> Bools:
        novel = np.zeros(len(drawn), np.bool_)
        before = previous(drawn)
        start = 0
        while start < len(drawn):
            new = np.cumsum(before[start : start + LONGEST] < start)
            part = slice(start, start + int(np.searchsorted(new, BLOCK, side="right")))
            index, local, over = by_last_use(drawn[part])
            draws = Draws(local, over, y[index], eps[part], sigma[part])
            start += self._learn_block(take(index), draws, what, novel[part])
        return novel

    def _learn_block(self, x: torch.Tensor, draws: Draws, what: int, novel: Bools) -> int:
        """Learn draws of x (S, D) until the kernel stops; return how many (see `steps`)."""
        som = self.som
        labels = draws.labels
        if not 0 <= labels.min() <= labels.max() < len(self.b):  # the kernel looks at no bounds
            raise ValueError(f"labels {labels.min()} to {labels.max()} of {len(self.b)} classes")
        moved = torch.zeros(len(x), len(self.W))
        left = torch.ones(len(self.W))
        error = np.array([self.error])
        rule = Rule(
            what=what,
            side=som.side,
            kappa=float(som.kappa),
            sharpness=float(som.sharpness),
            ema=0.0 if what == GATED else float(som.ema),
            lr=float(som.lr),
            theta=float(som.theta),
            least_error=self.least_error,
        )
        products = Products(
            P=(x @ self.W.T).numpy(),  # (S, D) @ (D, U) -> (S, U)
            G=(x @ x.T).numpy(),
            x2=squares(x),
            w2=squares(self.W),
        )
        readout = Readout(self.V.numpy(), self.b.numpy(), error)
        updates = Updates(moved.numpy(), left.numpy(), novel)
        done = steps(draws, rule, products, readout, updates)
        self.error = float(error[0])
        used = moved.any(1)
        if used.any():
            self.W.addmm_(moved[used].T, x[used])  # (U, m) @ (m, D) -> (U, D)
            self.W *= left[:, None]
        return int(done)

    def distances(self, x: torch.Tensor) -> torch.Tensor:
        """Squared distances of x (n, D) to all units, (n, U) float64.

        In float32 the difference of large squares would depend on how a batch is cut, visibly so
        for units that are close to samples.
        """
        x, W = x.double(), self.W.to(x.device).double()
        d2 = x.square().sum(1, keepdim=True) + W.square().sum(1) - 2 * x @ W.T
        return d2.clamp(min=0)

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs for x (n, D), (n, C)."""
        d2 = self.distances(x)
        least = d2.min(1, keepdim=True).values
        width = 2 * max((self.som.kappa * self.error) ** 2, LEAST_WIDTH)
        z = torch.exp((self.som.sharpness * (least - d2) - least) / width)
        return (z @ self.V.to(z) + self.b.to(z)).float()  # (n, U) @ (U, C) -> (n, C)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`; the compiled kernel looks at no sizes."""
        for name in ("W", "V", "b"):
            if state[name].shape != getattr(self, name).shape:
                raise ValueError(f"{name} is of shape {tuple(state[name].shape)}")
        super().load_state_dict(state)


def squares(x: torch.Tensor) -> Float32s:
    """Squared lengths of the rows, (n,)."""
    squares: Float32s = torch.linalg.vector_norm(x, dim=1).square().numpy()
    return squares


def _mean(novel: Bools) -> float:
    return float(novel.mean()) if len(novel) else math.nan


def previous(drawn: Ints) -> Ints:
    """For every draw, the index of the previous draw of the same sample, or -1.

    >>> previous(np.array([7, 3, 7, 7])).tolist()
    [-1, -1, 0, 2]
    """
    order = np.argsort(drawn, kind="stable")
    again = drawn[order[1:]] == drawn[order[:-1]]
    before = np.full(len(drawn), -1)
    before[order[1:][again]] = order[:-1][again]
    return before


def by_last_use(drawn: Ints) -> tuple[Ints, Ints, Ints]:
    """Drawn samples (S,), ordered by their last draw, so that finished samples are a prefix.

    Also returns the draws as rows of these, (n,), and the length of the prefix after each draw,
    (n,).

    >>> [a.tolist() for a in by_last_use(np.array([7, 3, 7, 5]))]
    [[3, 7, 5], [1, 0, 1, 2], [0, 1, 2, 3]]
    """
    values, last, which = np.unique(drawn[::-1], return_index=True, return_inverse=True)
    order = np.argsort(-last)
    row = np.empty_like(order)
    row[order] = np.arange(len(order))
    over = np.searchsorted(len(drawn) - 1 - last[order], np.arange(len(drawn)), side="right")
    return values[order], row[which[::-1]], over


# --- rehearsal of stored samples ---


@dataclass(frozen=True)
class Rehearsal:
    """Chooses the samples of a later session: first new ones, then all stored ones.

    Parameters
    ----------
    iterations, share : int, float
        Draws in a session, and the share of them that are replay; these are the last ones.
    draws : str
        How replay is drawn: "balanced" (a class, then one of its samples) or "iid".
    """

    iterations: Annotated[int, at_least(1, 10_000_000)] = 20_000
    share: Annotated[float, within("[0, 1]")] = 0.5
    draws: Literal["balanced", "iid"] = "balanced"

    def __post_init__(self) -> None:
        check_settings(self, "rehearsal")

    def draw(self, y: NDArray[np.int32], new: int, rng: np.random.Generator) -> Ints:
        """(iterations,) indices of drawn samples, of n stored ones; the last `new` are new."""
        n = len(y)
        replayed = round(self.share * self.iterations)
        first = rng.integers(n - new, n, size=self.iterations - replayed)
        if self.draws == "iid":
            return np.concatenate([first, rng.integers(n, size=replayed)])
        order = np.argsort(y, kind="stable")
        _, starts, counts = np.unique(y[order], return_index=True, return_counts=True)
        c = rng.integers(len(starts), size=replayed)
        return np.concatenate([first, order[starts[c] + rng.integers(counts[c])]])


@dataclass
class MapLearner(Learner):
    """Base of learners with the map. They store all samples; later sessions draw from them.

    Parameters
    ----------
    som : Som
        The network and its training.
    rehearsal : Rehearsal
        How later sessions draw samples.
    """

    som: Som = field(default_factory=Som)
    rehearsal: Rehearsal = field(default_factory=Rehearsal)

    tags: ClassVar[Tags] = Tags(stores_samples=True)
    scores_are = "other"
    state: ClassVar[dict[str, str]] = {"net": "som", "samples": "samples"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.learned = seeds, 0
        self.net = MapNetwork(self.som, spec.input_shape[0], spec.n_classes)
        self.samples = Store(spec.input_shape[0])

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.samples.add(session.x, session.y)
        y = self.samples.y
        rng = np.random.default_rng([self.seeds.batches, self.learned])
        if self.learned == 0:
            return self.net.learn_base(self.samples.take, y, self.seeds.init, rng)
        return self.learn_draws(self.rehearsal.draw(y, len(session.x), rng), rng)

    def learn_draws(self, drawn: Ints, rng: np.random.Generator) -> dict[str, Any]:
        """Learn the draws of a later session, (m,) indices of samples."""
        return self.net.learn(self.samples.take, self.samples.y, drawn)

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return self.net.outputs(x)
