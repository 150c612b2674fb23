"""Learners that are started and taught, and the plain training that they are compared with."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from toy import Array, blobs, class_stream, context

from embedbench.checks.learner_contract import (
    footprint_counts_the_state,
    no_sample_is_kept_in_secret,
    same_seed_same_predictions,
    state_round_trips,
)
from embedbench.checks.learner_edge_cases import learns_blobs
from embedbench.learning import Memory, Seeds, Session, Stop, generator
from embedbench.learning.learner import learn_session
from embedbench.learning.network import mlp_net
from embedbench.streams.stream import Stream, StreamSpec

SGD: dict[str, Any] = {
    "units": 6, "batch_size": 8, "lr": 0.02, "optimiser": "sgd", "stop": Stop("epochs", epochs=3),
}  # fmt: skip
STORAGE_CHECKS = (  # of the conformance suite: those in which it matters how samples are stored
    state_round_trips, same_seed_same_predictions, no_sample_is_kept_in_secret,
    footprint_counts_the_state, learns_blobs,
)  # fmt: skip
ONLINE: dict[str, Any] = {"units": 8, "lr": 0.05, "weight_decay": 0.01, "updates": 1}
SIXES: dict[str, Any] = {**ONLINE, "batch_size": 6}
NEVER_FULL = Memory(total=1000, select="reservoir")
# where the samples of a stream are cut into batches: nowhere, at its start, evenly
CUTS: list[list[int]] = [[], [1, 2, 3], list(range(10, 200, 10))]


def start(learner: Any, spec: StreamSpec, seed: int = 0) -> Any:
    learner.start(spec, Seeds.of(seed), "cpu")
    return learner


def teach(
    learner: Any, stream: Stream, sessions: int | None = None, seed: int = 0
) -> tuple[Any, list[Any]]:
    """The learner, started and taught the first sessions, and its logs."""
    start(learner, stream.spec, seed)
    return learner, [learn(learner, s) for s in stream.sessions[:sessions]]


def learn(learner: Any, *sessions: Session) -> dict[str, Any]:
    """Let a learner learn sessions; the log of the last one."""
    return [learn_session(learner, s, context()) for s in sessions][-1]


def show(learner: Any, x: Array, y: Array, cuts: Sequence[int] = (), seed: int = 0) -> Any:
    """The learner of four classes, given x in batches cut at `cuts`, and ready to answer."""
    start(learner, StreamSpec((x.shape[1],), 4), seed)
    for part in np.split(np.arange(len(y)), list(cuts)):
        learner.observe(torch.tensor(x[part]), torch.tensor(y[part]))
    learner.prepare()
    return learner


def scores_of(learner: Any, asked: Array) -> Array:
    """What the learner scores, as an array."""
    scores: Array = torch.as_tensor(learner.scores(torch.tensor(asked))).numpy()
    return scores


def three_classes(seed: int, n: int = 200) -> tuple[Array, Array, Array]:
    """Samples and labels of three of four classes, in random order, and 60 other samples."""
    y = np.random.default_rng(seed).integers(0, 3, n)
    return blobs(y, 5, seed, spread=1.5), y, blobs(y[:60], 5, seed + 9, spread=1.5)


def online_stream(n_train: int = 12) -> Stream:
    """Two classes, one, and one more."""
    return class_stream([[0, 1], [2], [3]], n_train=n_train, spread=1.0)


def assert_same_weights(a: Any, b: Any, rtol: float = 1e-4, atol: float = 1e-6) -> None:
    """Of learners, of networks, or of lists of tensors."""
    torch.testing.assert_close(weights(a), weights(b), rtol=rtol, atol=atol)


def weights(source: Any) -> list[Tensor]:
    net = getattr(source, "net", source)
    return [p.detach() for p in (net.parameters() if isinstance(net, nn.Module) else net)]


@torch.no_grad()
def disturb(net: nn.Module) -> None:
    """Push every weight a little, as if the net learned on."""
    for k, p in enumerate(net.parameters()):
        p.add_(0.2 * torch.randn(p.shape, generator=generator(0, k)))


def plain(x: Tensor) -> Array:
    return x.detach().double().numpy()


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def samples(seed: int, n: int, classes: Sequence[int], width: int = 6) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(n, width)).astype(np.float32))
    return x, torch.from_numpy(rng.choice(classes, size=n))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def distilling_loss(
    logits: Array, before: Array, y: Tensor, heads: list[list[int]], parts: tuple[float, float]
) -> float:
    """Cross-entropy and the distillation of each head by itself, T = 2, weighted by `parts`."""

    def log_softmax(z: Array) -> Array:
        return np.asarray(z - np.log(np.sum(np.exp(z))))

    losses = []
    for z, w, c in zip(logits, before, y.tolist(), strict=True):
        pairs = [(log_softmax(w[head] / 2), log_softmax(z[head] / 2)) for head in heads]
        kept = sum(-np.sum(np.exp(old) * new) for old, new in pairs)
        losses.append(-parts[0] * log_softmax(z)[c] + parts[1] * kept)
    return float(np.mean(losses))


def minibatches(
    n: int, draw: torch.Generator, *, epochs: int = 3, size: int = 8
) -> Iterator[Tensor]:
    """Indices of n samples, shuffled in every epoch."""
    for _ in range(epochs):
        yield from torch.randperm(n, generator=draw).split(size)


def batches_of(stream: Stream, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    for s in stream.sessions:
        x, y = s.x.tensor(), torch.from_numpy(s.y)
        for i in minibatches(len(y), torch.Generator().manual_seed(1), epochs=1, size=size):
            yield x[i], y[i]


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def check_online_steps(
    learner: Any,
    batches: Iterable[tuple[Tensor, Tensor]],
    gradients: Callable[..., None],
    lr: float = 0.05,
    **spec: Any,
) -> None:
    """Each batch moves a learner with `ONLINE` and a memory of all as a plain step moves a net.

    `gradients(net, (x, y), (old_x, old_y), draw)` adds those of a batch and of what came before;
    `draw(k)` chooses k of the old ones as the learner does.
    """
    seeds = Seeds.of(0)
    start(learner, StreamSpec((6,), 4, **spec))
    net = mlp_net(6, 8, 2, 4, seeds.init)
    sgd = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=0.01)
    old_x, old_y = torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64)
    for step, (x, y) in enumerate(batches):
        learner.observe(x, y)
        rng, n = np.random.default_rng([seeds.batches, step]), len(old_y)

        def draw(k: int, rng: Any = rng, n: int = n) -> Array:
            return rng.choice(n, min(k, n), replace=False, shuffle=False)

        sgd.zero_grad()
        gradients(net, (x, y), (old_x, old_y), draw)
        sgd.step()
        assert_same_weights(learner, net)
        old_x, old_y = torch.cat([old_x, x]), torch.cat([old_y, y])
