"""Metrics of confidence of real runs, against scikit-learn on the scores themselves."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score, top_k_accuracy_score
from toy import Array, class_stream

from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Context, Learner
from embedbench.models.chance import Chance
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.predictions import Predictions
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS
from embedbench.streams.stream import Session, Stream, StreamSpec

GROUPS = [[4, 1, 6, 0, 8, 2], [3], [5, 7], [9, 10]]
CLASSES = np.arange(11)
SIGNALS = ("score", "softmax", "energy")


@dataclass
class Linear(Learner):
    """Scores that are random, and better for the classes that were learned."""

    scores_are = "logits"
    seed: int = 0

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.W = np.random.default_rng(self.seed).normal(size=(6, len(CLASSES))) / 2

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        x, y = session.x.numpy(), session.y
        for c in np.unique(y):
            self.W[:, c] = x[y == c].mean(axis=0) / 3
        return {}

    def scores(self, x: torch.Tensor, *, session_id: Any = None) -> torch.Tensor:
        return x.double() @ torch.from_numpy(self.W)


def run(stream: Stream, learner: Learner) -> Predictions:
    p, _ = run_stream(stream, learner, Seeds.of(0))
    assert isinstance(p, Predictions)
    p.check()
    return p


def scores_by_hand(stream: Stream, seed: int) -> list[Array]:
    """(n, C) The scores of all test samples after each session, in NumPy."""
    learner = Linear(seed)
    learner.start(stream.spec, Seeds.of(0), "cpu")
    test = np.concatenate([e.x.numpy() for e in stream.eval_sets]).astype(np.float64)
    result = []
    for session in stream.sessions:
        learner.learn(session, None)  # type: ignore[arg-type]
        result.append(test @ learner.W)
    return result


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_scikit_learn(seed: int) -> None:
    stream = class_stream(GROUPS, n_test=15, spread=1.0, seed=seed)
    p, every = run(stream, Linear(seed)), scores_by_hand(stream, seed)
    y = np.concatenate([e.y for e in stream.eval_sets])
    curves = {name: metric.curve(p) for name, metric in ANSWER_METRICS.items()}
    for t, scores in enumerate(every):
        classes = np.sort(np.concatenate(GROUPS[: t + 1]))
        seen, among = np.isin(y, classes), scores[:, classes]
        chances = np.exp(among) / np.exp(among).sum(axis=1, keepdims=True)
        # stored in single precision: relative errors of 6e-8, and a few of equal order
        close = {"rel": 1e-6, "abs": 1e-6}
        assert curves["nll"][t] == pytest.approx(  # type: ignore[index]
            log_loss(y[seen], chances[seen], labels=classes), **close
        )
        top = top_k_accuracy_score(y[seen], among[seen], k=5, labels=classes)
        assert curves["top5_accuracy"][t] == pytest.approx(top, abs=1e-12)  # type: ignore[index]
        one_hot = (classes == y[seen][:, None]).astype(float)
        brier = ((chances[seen] - one_hot) ** 2).sum(axis=1).mean()
        assert curves["brier_score"][t] == pytest.approx(brier, **close)  # type: ignore[index]
        signals = [among.max(axis=1), np.log(chances.max(axis=1)), np.log(np.exp(among).sum(1))]
        for signal, values in zip(SIGNALS, signals, strict=True):
            area = curves[f"unknown_auroc_by_{signal}"][t]  # type: ignore[index]
            if seen.all():
                assert math.isnan(area)
                continue
            expected = roc_auc_score(seen, values)
            # a pair that single precision makes equal counts half
            assert area == pytest.approx(expected, abs=2 / seen.sum() / (~seen).sum())
    assert 0.5 < ANSWER_METRICS["unknown_auroc_by_score"](p) < 1  # type: ignore[operator]


def test_chance_knows_nothing_of_unknown_classes() -> None:
    p = run(class_stream([[0, 1, 2], [3, 4, 5]], n_test=400), Chance())
    n = 1200
    error = math.sqrt((2 * n + 1) / (12 * n * n))  # of the share of pairs, if nothing differs
    assert ANSWER_METRICS["unknown_auroc_by_score"](p) == pytest.approx(0.5, abs=4 * error)
    assert ANSWER_METRICS["nll"](p) is None  # its scores are no probabilities
