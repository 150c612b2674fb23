"""The choice between learners of all data, by their accuracy on validation samples."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from embedbench.learning import Context, Learner, Session, StreamSpec
from embedbench.learning.learner import learn_session, learns_sessions

from .mlp import MLP
from .ranpac import RanPAC
from .slda import SLDA

MODELS: dict[str, type[Learner]] = {"mlp": MLP, "slda": SLDA, "ranpac": RanPAC}
WIDEST = 4096  # features; for more, the (D, D) covariance of SLDA takes longer than the MLP
BATCH = 1024  # samples that a learner of batches gets at once


@dataclass(frozen=True)
class Best:
    """The learner that validation chose: its name, itself, ready to answer, and the log."""

    name: str
    model: Learner
    log: dict[str, Any]


def can_choose(spec: StreamSpec, session: Session, ctx: Context) -> bool:
    """Whether there are several learners for a stream, and validation samples to choose by.

    Test samples in the place of validation samples choose nothing.
    """
    plain = not spec.multilabel and len(spec.input_shape) == 1
    return plain and ctx.validation == "train" and len(session.val_y) > 0


def best_by_validation(
    start: Callable[[str], Learner], session: Session, ctx: Context, device: str
) -> Best:
    """Teach every learner of `MODELS` a session; return the best by validation accuracy.

    Of equal ones it is the first. `start` makes a started learner by its name. The log is that of
    the best, with its name, `learner`, and the accuracies by name, `validation_accuracy`.
    """
    accuracies: dict[str, float] = {}
    best: Best | None = None
    for name in MODELS:
        if name == "slda" and session.x.shape[0] > WIDEST:
            continue
        model = start(name)
        log = teach(model, session, ctx, device)
        model.prepare()
        # scores of a diverged network are NaN, and the largest of them says nothing
        diverged = log.get("stopped") == "diverged"
        accuracy = 0.0 if diverged else ctx.validate(partial(_scores, model))
        if best is None or accuracy > max(accuracies.values()):
            best = Best(name, model, log)
        accuracies[name] = accuracy
    assert best is not None
    more = {"learner": best.name, "validation_accuracy": accuracies}
    return Best(best.name, best.model, {**best.log, **more})


def _scores(model: Learner, x: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model.scores(x))


def teach(model: Learner, session: Session, ctx: Context, device: str) -> dict[str, Any]:
    """Let a learner learn a session, whole or in batches in the order of its rows; its log."""
    if learns_sessions(model):
        return learn_session(model, session, ctx)
    labels = torch.from_numpy(session.y).to(device)
    for rows in torch.split(torch.arange(len(labels), device=device), BATCH):
        model.observe(session.x.batch(rows, device), labels[rows])
    return {"epochs": 1}
