"""A small net, trained on a few samples: the same at every call."""

from typing import Any

import torch
from toy import blobs, session

from embedbench.config.run_seeds import generator
from embedbench.learning.network import mlp_net
from embedbench.learning.optimisers import make_optimiser
from embedbench.learning.stopping import Stop
from embedbench.learning.training_loop import Training
from embedbench.streams.stream import Session

Log = dict[str, Any]
Weights = dict[str, torch.Tensor]


def four_samples() -> Session:
    """Four samples of two classes, two more for validation."""
    labels = [0, 1, 0, 1, 0, 1]
    return session(blobs(labels, 3, seed=0), labels, n_val=2)


def small_net(lr: float = 0.05) -> tuple[Any, torch.optim.Optimizer]:
    """A net for four_samples, and its optimiser."""
    net = mlp_net(3, 8, 1, 3, seed=0)
    return net, make_optimiser("sgd", net, lr=lr, weight_decay=0.0)


def training(
    net: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    data: Session,
    batch_size: int,
    stop: Stop,
    **more: Any,
) -> Training:
    """A training that draws the same batches at every call."""
    return Training(net, optimiser, data, batch_size, stop, generator(0, 0), "cpu", **more)


def train(data: Session, stop: Stop, *, batch_size: int = 4) -> tuple[Log, torch.nn.Module]:
    """Train a small net; return the log, and the net."""
    net, optimiser = small_net()
    return training(net, optimiser, data, batch_size, stop).run(), net


def equal(a: Weights, b: Weights) -> bool:
    """Whether two states of a net are the same."""
    return all(torch.equal(a[k], b[k]) for k in a)
