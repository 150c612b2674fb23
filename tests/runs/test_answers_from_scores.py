"""How sure a learner was: the tables of version 1.1, against their definition in loops."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from multilabel_streams import hierarchy_stream
from toy import class_stream

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.learner import Context, Learner, Tags
from embedbench.runs import answers_from_scores
from embedbench.runs.answers_from_scores import Candidates
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.label_set_predictions import pack
from embedbench.scores.predictions import Predictions
from embedbench.streams.stream import Session, Stream, StreamSpec
from embedbench.streams.view import View, rows_of, table_of

N_CLASSES = 7
CONFIDENCE = ("rank", "score", "logp", "true_logp", "squares")


@dataclass
class Scripted(Learner):
    """Returns the scores of a table by the number of the sample, its first column."""

    table: Any = None
    kind: str = "logits"

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.device, self.scores_are = device, self.kind  # type: ignore[assignment]

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {}

    def scores(self, x: torch.Tensor, *, session_id: Any = None) -> torch.Tensor:
        return torch.as_tensor(self.table)[x[:, 0].long().cpu()].to(x.device)


def numbered_stream(limits: Sequence[list[int] | None] = (None,) * 3) -> Stream:
    """Three sessions; the first column is the number of the row; candidates of each eval set."""
    stream = class_stream([[4, 1, 6], [0, 3], [2, 5]], n_test=9)
    values = table_of(stream.sessions[0].x).values
    values[:, 0] = np.arange(len(values))
    sets = []
    for eval_set, limit in zip(stream.eval_sets, limits, strict=True):
        mask = None if limit is None else np.isin(np.arange(N_CLASSES), limit)
        sets.append(replace(eval_set, candidates=mask))
    far = View(table_of(stream.sessions[0].x), np.arange(5, 200, 3), 6)
    return replace(stream, eval_sets=tuple(sets), far=far)


def random_scores(stream: Stream, seed: int, dtype: Any, kind: str) -> Any:
    rng = np.random.default_rng(seed)
    n = len(table_of(stream.sessions[0].x).values)
    scores = (rng.integers(-3, 4, (n, N_CLASSES)) * rng.choice([0.5, 40], (n, 1))).astype(dtype)
    if kind == "probabilities":
        scores = np.abs(scores)
    else:
        scores[rng.random(scores.shape) < 0.05] = -np.inf
    scores[rng.random(scores.shape) < 0.01] = np.nan
    return scores


def expected(scores: Any, y: int, candidates: Any, kind: str) -> dict[str, float]:
    nan = math.nan
    if np.isnan(scores).any():
        return {"answer": -1, "rank": 65535} | dict.fromkeys(CONFIDENCE[1:], nan)
    order = sorted(candidates, key=lambda c: (-scores[c], c))
    answer = order[0]
    values = {"answer": answer, "score": scores[answer], "rank": 65535, "true_logp": nan}
    logits = {c: float(scores[c]) for c in candidates}
    if kind == "probabilities":
        logits = {c: math.log(v) if v else -1e38 for c, v in logits.items()}
    logits = {c: max(v, -1e38) for c, v in logits.items()}
    top = max(logits.values())
    total = math.fsum(math.exp(v - top) for v in logits.values())
    logp = {c: v - top - math.log(total) for c, v in logits.items()}
    values["logp"] = logp[answer]
    values["squares"] = math.fsum(math.exp(v) ** 2 for v in logp.values())
    if y in candidates:
        values |= {"rank": order.index(y), "true_logp": logp[y]}
    return values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["logits", "log-likelihoods", "probabilities", "cosines"])
@pytest.mark.parametrize("limits", [[None] * 3, [None, [0, 3, 4], [2, 5]]], ids=["all", "some"])
def test_tables(kind: str, dtype: Any, limits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_from_scores, "EVAL_BATCH", 20)
    stream = numbered_stream(limits)
    table = random_scores(stream, 1, dtype, kind)
    p, _ = run_stream(stream, Scripted(table, kind), Seeds.of(0))
    assert isinstance(p, Predictions)
    p.check()
    has_logp = kind != "cosines"
    assert [getattr(p, name) is not None for name in CONFIDENCE] == [True] * 2 + [has_logp] * 3
    firsts = [e.x.batch(torch.arange(len(e.y)), "cpu")[:, 0] for e in stream.eval_sets]
    rows = np.concatenate(firsts).astype(int)
    for m, seen in enumerate(p.seen):
        classes = [*np.flatnonzero(seen)]
        for i, row in enumerate(rows):
            limit = limits[p.eval_set[i]]
            among = [c for c in classes if limit is None or c in limit] or classes
            right = expected(table[row], int(p.y[i]), among, kind)
            assert (p.answer[m, i], p.rank[m, i]) == (right["answer"], right["rank"])  # type: ignore[index]
            for name in CONFIDENCE[1:] if has_logp else ("score",):
                assert_close(getattr(p, name)[m, i], right[name])
        for i, row in enumerate(p.far_ids):  # type: ignore[arg-type]
            right = expected(table[row], -1, classes, kind)
            for name in ("score", "logp") if has_logp else ("score",):
                assert_close(getattr(p, f"far_{name}")[m, i], right[name])


def assert_close(value: Any, right: float) -> None:
    assert value.dtype == np.float32
    if right < -1e30:  # a score of -inf or a probability of 0
        assert value < -1e30
    else:  # rounded once
        assert value == pytest.approx(right, rel=2e-7, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize("gap", [20.0, 40.0, 60.0, 90.0])
def test_a_sure_answer_is_not_rounded_to_certainty(gap: float) -> None:
    """1 + e^-40 is 1 in float64; the order of such answers is the signal `softmax`."""
    scores = torch.tensor([[7.0, 7.0 - gap, 7.0 - gap], [3.0 - gap, 3.0, 3.0 - gap - 1]]).double()
    answer, zero = torch.tensor([0, 1], dtype=torch.int32), torch.zeros(2, dtype=torch.int64)
    among = Candidates(np.ones((1, 3), dtype=np.bool_), "cpu")
    values = among.confidence(scores, scores, answer, answer.long(), zero)
    expected = [-2 * math.exp(-gap), -math.exp(-gap) * (1 + math.exp(-1))]
    assert values["logp"].tolist() == pytest.approx(expected, rel=1e-5, abs=0)
    assert values["true_logp"].tolist() == values["logp"].tolist()


def test_more_classes_than_a_rank_holds() -> None:
    """Beyond 65,534 the place saturates, and never says that the class was not seen."""
    n, zero = 66_000, torch.zeros(1, dtype=torch.int64)
    scores, y = torch.arange(n).flip(0).float()[None], torch.tensor([n - 1])
    among = Candidates(np.ones((1, n), dtype=np.bool_), "cpu")
    values = among.confidence(scores, None, zero.int(), y, zero)
    assert values["rank"].tolist() == [65534]


class ScriptedSets(Scripted):
    tags: ClassVar[Tags] = Tags(multilabel=True)


def test_label_sets_are_the_seen_classes_above_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample with NaN among them gets no class, and is counted."""
    monkeypatch.setattr(answers_from_scores, "EVAL_BATCH", 20)
    stream, draw = hierarchy_stream(), np.random.default_rng(0)
    values = table_of(stream.sessions[0].x).values
    values[:, 0] = np.arange(len(values))
    scores = draw.integers(-2, 3, (len(values), 8)).astype(np.float32)
    scores[draw.random(scores.shape) < 0.05] = np.nan
    found: Any = run_stream(stream, ScriptedSets(scores), Seeds.of(0))[0]
    asked = scores[np.concatenate([rows_of(e.x) for e in stream.eval_sets])]
    for m, seen in enumerate(found.seen):
        broken = np.isnan(asked[:, seen]).any(axis=1)
        right = (asked > 0) & seen & ~broken[:, None]
        np.testing.assert_array_equal(found.answer[m], pack(right))
        assert found.undecided[m] == broken.sum() > 0


def test_scores_of_no_kind_or_of_another_shape_are_refused() -> None:
    stream = numbered_stream()
    table = random_scores(stream, 1, np.float32, "logits")
    with pytest.raises(UserError, match=r"scores_are 'logit'.*'logits'"):
        run_stream(stream, Scripted(table, "logit"), Seeds.of(0))
    with pytest.raises(UserError, match=r"Scripted\.scores .* \(63, 7\).* \(63, 6\)"):
        run_stream(stream, Scripted(table[:, 1:]), Seeds.of(0))
