"""The runner's online side: batches, evaluation moments, and what a record has of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from toy import class_stream

from embedbench.learning.learner import Footprint, Learner, Tags
from embedbench.runs.runner import run_stream
from embedbench.scores.accuracy import score_matrix
from embedbench.scores.metrics import Reference, compute
from embedbench.seeds import Seeds
from embedbench.streams.stream import StreamSpec


@dataclass
class Counter(Learner):
    """Remembers the sizes of its batches; answers the label it saw last."""

    tags: ClassVar[Tags] = Tags(online=True, learns=False)

    sizes: list[int] = field(default_factory=list, init=False)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.sizes, self.prepared, self.last, self.classes = [], [0], 0, spec.n_classes

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.sizes.append(len(x))
        self.last = int(y[-1])

    def prepare(self) -> None:
        self.prepared.append(len(self.sizes))

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.full((len(x),), self.last), self.classes).float()

    def footprint(self) -> Footprint:
        return Footprint()


# 40, 20 and 20 training samples; evaluated after the batch that reaches a multiple of `every`
@pytest.mark.parametrize(
    ("batch", "every", "moments"),
    [
        (10, 0, [40, 60, 80]),
        (10, 20, [20, 40, 60, 80]),
        (10, 15, [20, 30, 40, 50, 60, 80]),  # 75 is reached with 80
        (12, 40, [40, 60, 80]),
        (7, 30, [35, 40, 60, 80]),  # a session's last batch is short: 40 = 5·7 + 5
        (100, 1, [40, 60, 80]),
    ],
)
def test_an_online_learner_is_evaluated_at_sample_counts(
    batch: int, every: int, moments: list[int]
) -> None:
    stream = class_stream([[0, 1], [2], [3]], n_train=20)
    learner = Counter()
    found, logs = run_stream(
        replace(stream, observe_batch=batch, evaluate_every=every), learner, Seeds.of(0)
    )
    assert found.samples_seen.tolist() == moments
    assert found.session.tolist() == [0 if n <= 40 else 1 if n <= 60 else 2 for n in moments]
    per_session = [-(-n // batch) for n in (40, 20, 20)]
    assert [s.log["steps"] for s in logs] == per_session
    assert len(learner.sizes) == sum(per_session)
    assert sum(learner.sizes) == 80
    assert len(learner.prepared) - 1 == len(moments)


def test_moments_change_no_answer_and_no_metric_of_the_ends() -> None:
    """Evaluating in between is invisible to what is scored at the ends of sessions."""
    stream = class_stream([[0, 1], [2], [3]], n_train=20)
    ends, _ = run_stream(stream, Counter(), Seeds.of(3))
    often, _ = run_stream(replace(stream, evaluate_every=10), Counter(), Seeds.of(3))
    a, b = score_matrix(ends), score_matrix(often)
    np.testing.assert_array_equal(a.R, b.R)
    assert b.values.shape[0] == 8
    known = Reference(ideal=0.5)
    assert compute(a, known)["omega_all"] == compute(b, known)["omega_all"]
