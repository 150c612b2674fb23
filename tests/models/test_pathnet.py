"""PathNet: gradients against autograd, the whole algorithm written plainly, freezing, sizes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from teaching import start, teach
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from toy import blobs, class_stream, context, session

from embedbench.config.run_seeds import Seeds, generator
from embedbench.models import pathnet
from embedbench.models.pathnet import PathNet, gather_layers, train_paths, with_ones
from embedbench.streams.stream import Session, Stream, StreamSpec

SMALL: dict[str, Any] = {"modules": 4, "active": 2, "units": 5, "population": 4, "lr": 0.02}
SMALL |= {"batches": 3, "batch_size": 4, "cap": 7, "patience": 3}


def permuted(n_sessions: int, n_val: int = 4, spread: float = 1.0) -> Stream:
    """Three blobs in every session, seen through another permutation of six columns."""
    one = class_stream([[0, 1, 2]], n_train=10, n_val=n_val, spread=spread).revealed()
    first, test = one.sessions[0], one.eval_sets[0]
    sessions, sets = [first], [test]
    for t in range(1, n_sessions):
        columns = np.random.default_rng(t).permutation(6)
        x, val_x, test_x = (replace(v, columns=columns) for v in (first.x, first.val_x, test.x))
        sessions.append(replace(first, x=x, val_x=val_x, classes=first.classes[:0], session_id=t))
        sets.append(replace(test, x=test_x))
    return replace(one, sessions=tuple(sessions), eval_sets=tuple(sets))


def taught(stream: Stream, **settings: Any) -> tuple[PathNet, list[dict[str, Any]]]:
    return teach(PathNet(**{**SMALL, **settings}), stream)


def plain_scores(x: Tensor, modules: Sequence[Any], head: Tensor, path: Tensor) -> Tensor:
    """Logits by the definition, a module at a time."""
    h = x
    for layer, row in zip(modules, path.tolist(), strict=True):
        taken = [w for w, used in zip(layer, row, strict=True) if used]
        h = sum((torch.relu(h @ w[:, :-1].T + w[:, -1]) for w in taken), torch.zeros(()))
    return h @ head[:, :-1].T + head[:, -1]


@pytest.mark.parametrize("frozen_share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("n_paths", [1, 3])
def test_gradients_are_those_of_each_path(n_paths: int, n_layers: int, frozen_share: float) -> None:
    for seed in (2, 3):
        draw = torch.Generator().manual_seed(seed)
        widths = [6, *[5] * (n_layers - 1)]
        modules = [
            [nn.Parameter(torch.randn(5, f + 1, generator=draw).double()) for _ in range(4)]
            for f in widths
        ]
        head = nn.Parameter(torch.randn(3, 6, generator=draw).double())
        x, y = torch.randn(7, 6, generator=draw).double(), torch.randint(3, (7,), generator=draw)
        paths = torch.rand(n_paths, n_layers, 4, generator=draw) < 0.6
        paths[:, :, 0] = True
        frozen = torch.rand(n_layers, 4, generator=draw) < frozen_share
        mask = torch.tensor([0.0, -math.inf, 0.0]).double() if seed == 3 else None
        y = y.where(y != 1, 0) if seed == 3 else y
        every = [head, *(p for layer in modules for p in layer)]
        logits = torch.stack([plain_scores(x, modules, head, path) for path in paths])
        masked = logits if mask is None else logits + mask
        loss = sum((cross_entropy(m, y) for m in masked), torch.zeros(()))
        expected = torch.autograd.grad(loss, every, allow_unused=True)
        got = train_paths(gather_layers(modules, frozen, paths), head, with_ones(x), y, mask)
        torch.testing.assert_close(got, masked)
        trained = [True, *(paths.any(0) & ~frozen).flatten().tolist()]
        for p, g, taught in zip(every, expected, trained, strict=True):
            assert (p.grad is not None) == taught
            if taught:
                torch.testing.assert_close(p.grad, g)


class Plain:
    """PathNet a module at a time: an optimiser each, gradients by autograd."""

    def __init__(self, own: PathNet, width: int, n_classes: int) -> None:
        self.own, self.n_classes = own, n_classes
        self.widths = [width, *[own.units] * (own.layers - 1)]
        self.modules: list[list[Tensor]] = [[torch.zeros(0)] * own.modules for _ in self.widths]
        self.answers: list[tuple[list[set[int]], Tensor]] = []
        self.scored = 0

    def frozen(self) -> list[set[int]]:
        return [{i for path, _ in self.answers for i in path[k]} for k in range(self.own.layers)]

    def scores(self, x: Tensor, path: list[set[int]], head: Tensor) -> Tensor:
        rows = torch.tensor([[i in p for i in range(self.own.modules)] for p in path])
        return plain_scores(x, self.modules, head, rows)

    def learn(self, s: Session, seeds: Seeds) -> None:
        own, t = self.own, len(self.answers)
        init, draw = generator(seeds.init, t), generator(seeds.batches, t)

        def uniform(*shape: int) -> Tensor:
            return (2 * torch.rand(*shape, generator=init) - 1) / math.sqrt(shape[-1] - 1)

        for k, f in enumerate(self.widths):
            fresh = uniform(own.modules, own.units, f + 1)
            for i in set(range(own.modules)) - self.frozen()[k]:
                self.modules[k][i] = fresh[i].requires_grad_()
        head = uniform(self.n_classes, own.units + 1).requires_grad_()
        genes = torch.randint(own.modules, (own.population, own.layers, own.active), generator=init)
        chosen = torch.randperm(len(s.val_x), generator=draw)[: own.val_samples]
        val_x, val_y = s.val_x.tensor()[chosen], torch.tensor(s.val_y)[chosen]
        adams = {
            w: torch.optim.Adam([w], lr=own.lr)
            for w in [head, *(w for layer in self.modules for w in layer)]
        }
        best, waited = (-1.0, -1.0), 0
        for _ in range(own.cap):
            a, b = torch.randperm(own.population, generator=draw)[:2].tolist()
            paths = [[set(layer) for layer in genes[g].tolist()] for g in (a, b)]
            if own.contestants == "batched":
                fitness = self.train(s, paths, head, adams, draw)
            else:
                fitness = [self.train(s, [p], head, adams, draw)[0] for p in paths]
            (winner, loser), won = ((b, a), 1) if fitness[1] > fitness[0] else ((a, b), 0)
            moved = torch.rand(own.layers, own.active, generator=draw)
            by = torch.randint(-2, 3, (own.layers, own.active), generator=draw)
            for k in range(own.layers):
                for i in range(own.active):
                    gene = int(genes[winner, k, i])
                    if moved[k, i] < 1 / (own.layers * own.active):
                        gene = (gene + int(by[k, i])) % own.modules
                    genes[loser, k, i] = gene
            right = self.scores(val_x, paths[won], head).argmax(1) == val_y
            value = (float(right.float().mean()), fitness[won])
            self.scored += 1
            waited += 1
            if value > best:
                best, waited = value, 0
                weights = {(k, i): self.modules[k][i].detach().clone()
                           for k, p in enumerate(paths[won]) for i in p}  # fmt: skip
                answer = (paths[won], head.detach().clone())
            if best == (1.0, 1.0) or waited > own.patience:
                break
        for (k, i), w in weights.items():
            self.modules[k][i] = w
        self.answers.append(answer)

    def train(self, s: Session, paths: Any, head: Tensor, adams: Any, draw: Any) -> list[float]:
        own, n = self.own, len(s.x)
        order: list[int] = []
        while len(order) < own.batches * own.batch_size:
            order += torch.randperm(n, generator=draw).tolist()
        x, y = s.x.tensor(), torch.tensor(s.y)
        right = [0] * len(paths)
        for e in range(own.batches):
            index = order[e * own.batch_size : (e + 1) * own.batch_size]
            loss = torch.zeros(())
            for k, path in enumerate(paths):
                logits = self.scores(x[index], path, head)
                loss = loss + cross_entropy(logits, y[index])
                right[k] += int((logits.argmax(1) == y[index]).sum())
            frozen = self.frozen()
            trained = [self.modules[k][i] for k in range(own.layers) for i in range(own.modules)
                       if i not in frozen[k] and any(i in p[k] for p in paths)]  # fmt: skip
            found = torch.autograd.grad(loss, [head, *trained])
            for w, g in zip([head, *trained], found, strict=True):
                w.grad = g
                adams[w].step()
        return [r / (own.batches * own.batch_size) for r in right]


@pytest.mark.parametrize("contestants", ["batched", "sequential"])
@pytest.mark.parametrize(("layers", "val_samples"), [(1, 5), (2, 99)])
def test_the_algorithm_is_the_plain_one(layers: int, val_samples: int, contestants: str) -> None:
    stream = permuted(4)
    learner, logs = taught(stream, layers=layers, contestants=contestants, val_samples=val_samples)
    plain = Plain(learner, 6, 3)
    for s in stream.sessions:
        plain.learn(s, Seeds.of(0))
    assert sum(log["tournaments"] for log in logs) == plain.scored
    found = zip(learner.paths, learner.heads, plain.answers, strict=True)
    for path, head, (expected, weights) in found:
        assert [set(row.nonzero()[:, 0].tolist()) for row in path] == expected
        # Adam's steps do not shrink with the gradient, so rounding in it may grow some hundredfold
        torch.testing.assert_close(head, weights, rtol=1e-3, atol=1e-4)
    for bank, layer, frozen in zip(learner.banks, plain.modules, plain.frozen(), strict=True):
        for i in frozen:
            torch.testing.assert_close(bank[i], layer[i], rtol=1e-3, atol=1e-4)
    assert logs[0]["frozen"] != logs[-1]["frozen"] == [*map(len, plain.frozen())]


def test_a_session_is_answered_by_its_own_path_and_head() -> None:
    stream = permuted(2)
    numbered = (replace(s, session_id=n) for s, n in zip(stream.sessions, (7, 3), strict=True))
    learner, _ = taught(replace(stream, sessions=tuple(numbered)))
    x = stream.eval_sets[0].x.tensor()[:6]
    found = learner.scores(x, session_id=torch.tensor([3, 7, 7, 3, 0, 99]))
    expected = [
        plain_scores(x, [list(b) for b in learner.banks], head, path)
        for path, head in zip(learner.paths, learner.heads, strict=True)
    ]
    latest = 1  # answers for sessions that were never learned
    for i, k in enumerate([1, 0, 0, 1, latest, latest]):
        torch.testing.assert_close(found[i], expected[k][i])
    assert not torch.allclose(expected[0], expected[1])


def test_classes_outside_the_loss_keep_their_head() -> None:
    labels = np.array([0, 2] * 20)
    allowed = np.array([True, False, True])
    data = session(blobs(labels, 6, 0), labels, n_val=8, loss_classes=allowed)
    learner = start(PathNet(**SMALL), StreamSpec((6,), 3, reveals_session_id=True))
    log = learner.learn(replace(data, session_id=0), context())
    draw = generator(Seeds.of(0).init, 0)
    for f in (6, 5):
        torch.rand(4, 5, f + 1, generator=draw)
    head = (2 * torch.rand(3, 6, generator=draw) - 1) / math.sqrt(5)
    assert ((learner.heads[0] - head).abs() > 1e-6).any(1).tolist() == allowed.tolist()
    assert log["best"] > 0 < log["train_loss"] < math.inf


def scripted(
    values: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> tuple[dict[str, Any], PathNet, list[dict[str, Any]]]:
    """Learn one session with these (validation, training) accuracies; what stood after each."""
    left, stood = iter(values), []
    train = pathnet._Tournaments._train

    def trained(self: Any, paths: Tensor) -> tuple[Tensor, Tensor]:
        train(self, paths)
        self.script = next(left)
        return torch.tensor([0.0, self.script[1]]), torch.ones(2)

    def validated(self: Any, path: Tensor, instead: float) -> float:
        weights = [[w.clone() for w in layer] for layer in self._weights(path)]
        stood.append({"path": path.clone(), "weights": weights, "head": self.head.data.clone()})
        return float(self.script[0])

    monkeypatch.setattr(pathnet._Tournaments, "_train", trained)
    monkeypatch.setattr(pathnet._Tournaments, "_validate", validated)
    learner, (log,) = taught(permuted(1), **settings)
    return log, learner, stood


@pytest.mark.parametrize(
    ("values", "settings", "expected"),
    [
        # two tournaments without a new best are borne, not three
        ([(0.5, 0.5), (0.7, 0.5), (0.6, 0.9), (0.7, 0.5), (0.6, 0.9)], {"patience": 2},
         (5, 2, "patience")),
        # equal on validation data: the higher training accuracy is a new best
        ([(0.7, 0.5), (0.7, 0.6), (0.7, 0.6), (0.7, 0.55)], {"patience": 1}, (4, 2, "patience")),
        ([(0.5, 0.5), (0.6, 0.5), (0.7, 0.5)], {"cap": 3}, (3, 3, "cap")),
        ([(0.5, 0.5), (1.0, 0.9), (1.0, 1.0)], {}, (3, 3, "perfect")),
        ([(0.5, 0.5), (0.4, 0.5)], {"patience": 0}, (2, 1, "patience")),
    ],
)  # fmt: skip
def test_how_a_session_ends(values: Any, settings: Any, expected: Any, monkeypatch: Any) -> None:
    log, learner, stood = scripted(values, monkeypatch, **settings)
    assert (log["tournaments"], log["kept_tournament"], log["stopped"]) == expected
    assert log["steps"] == 3 * log["tournaments"]
    assert log["epochs"] == math.ceil(log["steps"] * 4 / 30)  # batches of 4 from 30 samples
    assert log["best"] == values[expected[1] - 1][0]
    kept = stood[expected[1] - 1]
    assert torch.equal(learner.paths[0], kept["path"])
    assert torch.equal(learner.heads[0], kept["head"])
    for bank, row, weights in zip(learner.banks, kept["path"], kept["weights"], strict=True):
        assert torch.equal(bank[row], torch.stack(weights))
    assert not torch.equal(stood[0]["head"], stood[-1]["head"])  # restoring is not idle


def test_without_validation_data_training_accuracy_decides() -> None:
    _, (log,) = taught(permuted(1, n_val=0))
    assert log["monitor"] == "train_accuracy"
    assert 0 < log["best"] <= 1


def test_a_loss_that_is_not_finite_ends_the_session_and_leaves_finite_scores() -> None:
    stream = permuted(1)
    learner, (log,) = taught(stream, lr=1e15)
    assert log["stopped"] == "diverged"
    assert log["kept_tournament"] == 0
    assert log["best"] == -1
    x = stream.eval_sets[0].x.tensor()
    assert learner.scores(x, session_id=torch.zeros(len(x), dtype=torch.long)).isfinite().all()


@pytest.mark.parametrize(
    ("inputs", "classes", "megabytes"), [(784, 10, 2.80), (2048, 200, 7.46), (1280, 100, 4.68)]
)
def test_sizes(inputs: int, classes: int, megabytes: float) -> None:
    """Table 2, at ten sessions; and the formula behind it, after each."""
    spec = StreamSpec((inputs,), classes, reveals_session_id=True)
    learner = start(PathNet(population=2, batches=1, cap=1), spec)
    data = session(np.zeros((2, inputs)), [0, 1])
    for t in range(10):
        learner.learn(replace(data, session_id=t), context())
        count = 10 * (80 * inputs + 80) + 10 * (80 * 80 + 80) + (t + 1) * (80 * classes + classes)
        assert learner.footprint()["parameters"] == 4 * count
    assert abs(learner.footprint()["parameters"] / 1e6 - megabytes) <= 0.005
    assert learner.footprint()["paths"] == 10 * (2 * 10 + 8)  # a byte a module, and the session id
