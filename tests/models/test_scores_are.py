"""Every learner says what its scores are, and its scores are that."""

from typing import Any

import numpy as np
import pytest
import torch

from embedbench.checks.blob_streams import blobs
from embedbench.checks.learner_check_tools import SEEDS, small
from embedbench.learning.learner import Learner
from embedbench.runs.learner_and_protocol_names import ALIASES, learner_class, learner_names
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.predictions import Predictions

NAMES = [name for name in learner_names() if name not in ALIASES]
# settings with which scores are something else
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("ncm", {"metric": "cosine"}),
    ("fr", {"ensemble": "cosine"}),
    ("randumb", {"ensemble": 2}),
    ("naive-bayes", {"likelihood": "published"}),
    ("il2m", {"rectified": "logits"}),
    ("icarl", {"answer": "logits"}),
    ("icarl", {"answer": "logits", "head": "cosine"}),
]
KINDS = {
    "other": "acil chance geppnet geppnet-stm layup naive-bayes:published one-vs-rest "
    "perceptron ranpac",
    "cosines": "alice c-fscil fr:cosine icarl icarl:logits,cosine nc-fscil ncm:cosine prototype "
    "teen",
    "distances": "fecam ncm",
    "votes": "knn",
    "log-likelihoods": "fearnet naive-bayes randumb slda",
    "probabilities": "fr il2m randumb:2",
}
KIND = {case: kind for kind, cases in KINDS.items() for case in cases.split()}


def ran(name: str, settings: dict[str, Any]) -> tuple[Learner, Any, Predictions]:
    """A learner after a stream of blobs, its scores on all test samples, and its answers."""
    learner = small(learner_class(name), **settings)
    stream = blobs(learner.tags)
    p, _ = run_stream(stream, learner, SEEDS)
    assert isinstance(p, Predictions)
    p.check()
    scores = []
    for number, part in enumerate(stream.eval_sets):
        index = torch.arange(len(part.y))
        given = torch.full((len(index),), number) if learner.tags.needs_session_id else None
        scores.append(torch.as_tensor(learner.scores(part.x.batch(index, "cpu"), session_id=given)))
    return learner, torch.cat(scores).double().numpy(), p


def log_softmax(x: Any) -> Any:
    """(n, C) worked out here."""
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_scores_are_what_the_learner_says(name: str, settings: dict[str, Any]) -> None:
    learner, scores, p = ran(name, settings)
    more = ",".join(map(str, settings.values()))
    case = f"{name}:{more}" if settings else name
    kind = learner.scores_are
    assert kind == KIND.get(case, "logits"), f"name {case} under {kind!r} in KINDS of this file"
    said = [c for c in type(learner).__mro__ if c is not Learner and "scores_are" in vars(c)]
    assert said or "scores_are" in vars(learner)
    seen = scores[scores > -1e29]  # the others are of classes that were not seen
    if kind == "probabilities":
        assert seen.min() >= 0
    elif kind == "cosines":
        assert -2 <= seen.min() <= seen.max() <= 1 + 1e-5  # -2: a class without exemplars
    elif kind == "distances":
        assert seen.max() <= 1e-4  # -d²; the float32 of ‖x‖² - 2 x·μ + ‖μ‖² ends there
    if kind not in ("logits", "log-likelihoods", "probabilities"):
        assert p.logp is None
        return
    assert p.logp is not None
    assert p.true_logp is not None
    with np.errstate(divide="ignore"):
        logits = np.log(scores) if kind == "probabilities" else scores
    mine = log_softmax(np.maximum(logits, -1e38)[:, p.seen[-1]])
    order = np.flatnonzero(p.seen[-1]).tolist()
    at = [order.index(c) for c in p.answer[-1]]
    # float32 of scores that may lie in thousands, cut into other batches
    np.testing.assert_allclose(p.logp[-1], mine[np.arange(len(mine)), at], atol=2e-3)
    if np.mean(p.answer[-1] == p.y) > 0.9:  # what is learned is known better than by chance
        assert p.true_logp[-1].mean() > -np.log(p.seen[-1].sum())
