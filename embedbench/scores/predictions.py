"""Predictions: what a learner answered, one class for every test sample at every moment.

They are the ground truth of a run: every score is a pure function of them.
docs/specification/predictions.md describes the layout of `predictions.h5`, so that it can be read
without this module.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Bools, Float32s, Floats, Ints

from . import against_chance
from .array_file import INT, MASK, demand, inside
from .confusion_matrix import confusion_of_classes
from .possible_confidence import check_least, check_logarithms, check_probabilities
from .run_answers import RunAnswers, SampleScores
from .score_matrix import ScoreMatrix

Answers = NDArray[np.int32]
Ranks = NDArray[np.uint16]
Singles = Float32s
SINGLE = "<f4"
UNRANKED = 65535  # the true class is no candidate yet, or a score was NaN
LAST_RANK = 65534  # this place or a later one


@dataclass(frozen=True, repr=False)
class Predictions(RunAnswers):
    """Answers of one run. M moments, n test samples, E eval sets, C classes.

    How sure the learner was is None in a file of version 1.0; `logp`, `true_logp` and `squares` are
    None, too, where a learner's scores give no probabilities.

    Parameters
    ----------
    ids, y, eval_set : array of int
        (n,) opaque sample id, true class, index of the eval set; eval sets are contiguous.
    set_classes : array of bool
        (E, C) classes of each eval set's session, the candidates of the within-session answer.
    session : array of int
        (M,) the session learned last, from 0.
    samples_seen : array of int
        (M,) training samples so far.
    seen : array of bool
        (M, C) classes seen so far, the candidates of the answer.
    answer : Answers
        (M, n) the answer over the classes seen so far; -1 where a score was NaN, or where another
        tool gave none.
    within : Answers
        (M, n) the answer over the classes of the sample's session; -1 where a score was NaN.
    rank : array of int or None
        (M, n) place of the true class among the candidates of the answer, from 0, at most
        `LAST_RANK`; `UNRANKED` where it is none of them or a score was NaN.
    score : array of float or None
        (M, n) score of the answer, as the learner gave it; NaN where a score was NaN.
    logp, true_logp : array of float or None
        (M, n) log-probability of the answer and of the true class over the candidates; NaN where
        there is no answer, or the true class is unranked.
    squares : array of float or None
        (M, n) the sum of the candidates' squared probabilities; NaN where there is no answer.
    group : array of int or None
        (n,) number of the sample's `group` in the embedding files; None where they have none.
    far_ids : array of int or None
        (k,) opaque sample id of each far sample, of a class that no session has; None without any.
    far_score, far_logp : array of float or None
        (M, k) as `score` and `logp`, of the answers to far samples.
    """

    ids: Annotated[Ints, INT, "n"]
    y: Annotated[Ints, INT, "n"]
    eval_set: Annotated[Ints, INT, "n"]
    set_classes: Annotated[Bools, MASK, "EC"]
    session: Annotated[Ints, INT, "M"]
    samples_seen: Annotated[Ints, INT, "M"]
    seen: Annotated[Bools, MASK, "MC"]
    answer: Annotated[Answers, "<i4", "Mn"]
    within: Annotated[Answers, "<i4", "Mn"]
    rank: Annotated[Ranks | None, "<u2", "Mn"] = None
    score: Annotated[Singles | None, SINGLE, "Mn"] = None
    logp: Annotated[Singles | None, SINGLE, "Mn"] = None
    true_logp: Annotated[Singles | None, SINGLE, "Mn"] = None
    squares: Annotated[Singles | None, SINGLE, "Mn"] = None
    group: Annotated[Ints | None, INT, "n"] = None
    far_ids: Annotated[Ints | None, INT, "k"] = None
    far_score: Annotated[Singles | None, SINGLE, "Mk"] = None
    far_logp: Annotated[Singles | None, SINGLE, "Mk"] = None

    FORMAT: ClassVar[str] = "embedbench-predictions"
    SCORES: ClassVar[tuple[str, ...]] = (
        *("class_accuracy", "accuracy", "within_class_accuracy", "within_accuracy"),
    )
    NAMES: ClassVar[Mapping[str, str]] = {
        "class_accuracy": "mean per-class accuracy",
        "within_accuracy": "accuracy within the session",
        "within_class_accuracy": "mean per-class accuracy within the session",
    }
    MEANINGS: ClassVar[Mapping[str, str]] = {
        "accuracy": "accuracy: of all test samples",
        "class_accuracy": "class accuracy: mean of the classes' recalls",
        "within_accuracy": (
            "within accuracy: of all test samples, among the classes of their session"
        ),
        "within_class_accuracy": (
            "within class accuracy: mean of the classes' recalls, among the classes of their "
            "session"
        ),
    }

    @property
    def lacks_within(self) -> bool:
        """Whether answers within the session were not given, as another tool may do.

        From scores both kinds of answers are made.
        """
        return bool((self.within < 0).all() and (self.answer >= 0).any())

    def check(self) -> None:
        """Refuse values that no run can have written."""
        super().check()
        (n_sets, n_classes), eval_set = self.set_classes.shape, self.eval_set
        demand(n_sets > 0, "it has no eval set")
        inside(self.y, 0, n_classes - 1, "y")
        inside(eval_set, 0, n_sets - 1, "eval_set")
        demand((eval_set[1:] >= eval_set[:-1]).all(), "eval_set must not decrease")
        for name in ("answer", "within"):
            inside(getattr(self, name), -1, n_classes - 1, name)
        answered = np.take_along_axis(self.seen, self.answer, axis=1) | (self.answer < 0)
        demand(answered.all(), "answer must be among the classes seen")
        within = self.set_classes[eval_set, self.within] | (self.within < 0)
        demand(within.all(), "within must be among the classes of the sample's session")
        far = ("far_ids", "far_score")
        for names in (("rank", "score"), ("logp", "true_logp", "squares"), far):
            there = {name for name in names if getattr(self, name) is not None}
            demand(len(there) in (0, len(names)), f"only all of {', '.join(names)} can be there")
        if self.rank is None:
            others = self.logp is None and self.group is None and self.far_ids is None
            demand(others, "logp, true_logp, squares, group and far_ids need rank and score")
            return
        if self.group is not None:
            demand((self.group >= 0).all(), "group must not be negative")
        due = self.far_ids is not None and self.logp is not None
        demand((self.far_logp is not None) == due, "far_logp must be there as logp and far_ids are")
        self._check_confidence(self.rank == UNRANKED, self.answer < 0)

    def _check_confidence(self, unranked: Bools, none: Bools) -> None:
        """Refuse what does not fit the (M, n) true classes without rank, and missing answers."""
        assert self.rank is not None
        is_right = np.array_equal(self.rank == 0, self.answer == self.y)
        demand(is_right, "rank must be 0 exactly where the answer is right")
        unseen = unranked[~self.seen[:, self.y] | none].all()
        demand(unseen, f"rank must be {UNRANKED} where the class was not seen or no answer is")
        ranked = self.rank != UNRANKED
        most = np.minimum(self.seen.sum(axis=1)[:, None] - 1, LAST_RANK)  # (M, 1)
        demand(
            (~ranked | (self.rank <= most)).all(), "rank must be below the number of classes seen"
        )
        far = None if self.far_score is None else np.isnan(self.far_score)
        due: dict[str, Any] = {"score": none, "logp": none, "true_logp": unranked, "squares": none}
        for name, where in {**due, "far_logp": far}.items():
            values = getattr(self, name)
            if values is not None:
                demand(np.array_equal(np.isnan(values), where), f"{name} is NaN elsewhere than due")
                if name.endswith("logp"):
                    check_logarithms(values, name)
        if self.far_logp is not None:
            check_least(self.seen, self.far_logp, "far_logp")
        if self.logp is not None and self.true_logp is not None and self.squares is not None:
            exact = self.rank < LAST_RANK
            check_probabilities(
                self.seen, self.rank, exact, self.logp, self.true_logp, self.squares
            )

    # --- scores ---

    @property
    def n_sets(self) -> int:
        """The number of eval sets."""
        return len(self.set_classes)

    def score_matrix(self, name: str = "", class_sizes: Sequence[int] | None = None) -> ScoreMatrix:
        """Compute one base score; without a name `class_accuracy`.

        `accuracy` is the share of right answers. `class_accuracy` is the mean of the per-class
        recalls (Kemker et al. 2018, "mean-per-class accuracy"). Both use the answer over the
        classes seen so far; `within_…` use the answer within the sample's own session
        (task-incremental). An eval set is scored as soon as all its classes were seen; for
        `within_…` it is scored at every moment, and NaN where another tool gave no such answers. So
        is the score of a set before its session, where another tool left answers out.
        `class_sizes` are (C,) training samples of each class in the whole stream, if they are
        known.
        """
        name = name or self.SCORES[0]
        answers = self.within if name.startswith("within_") else self.answer
        return self._average(name, np.equal(answers, self.y), class_sizes)

    def _average(
        self, name: str, right: Bools | Floats, class_sizes: Sequence[int] | None
    ) -> ScoreMatrix:
        """Average a base score over samples; `right` is (M, n), how often each answer is right."""
        within = name.startswith("within_")
        if within and self.lacks_within:
            like = self.score_matrix(name.removeprefix("within_"), class_sizes)
            scores = ("values", "pooled", "per_class")
            undefined = {field: np.full_like(getattr(like, field), np.nan) for field in scores}
            return replace(like, name=name, **undefined)
        by_class = name.endswith("class_accuracy")
        n_sets, n_classes = self.set_classes.shape
        sizes = np.bincount(self.eval_set, minlength=n_sets)
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        values = np.full((len(self.session), n_sets), np.nan)
        for e in range(n_sets):
            part = slice(bounds[e], bounds[e + 1])
            values[:, e] = _accuracy(right[:, part], self.y[part], by_class)
        if not within:
            unseen = self.set_classes[None, :, :] & ~self.seen[:, None, :]  # (M, E, C)
            values[unseen.any(axis=2)] = np.nan
        if self.lacks_within:
            values[self._left_out_before_learning()] = np.nan
        pooled = np.full(len(right), np.nan)
        recalls = np.full((len(right), n_classes), np.nan)
        for m, session in enumerate(self.session):
            known = slice(0, bounds[min(int(session) + 1, n_sets)])
            counts = np.bincount(self.y[known], minlength=n_classes)
            hits = np.bincount(self.y[known], right[m, known], minlength=n_classes)
            there = counts > 0
            shares = hits[there] / counts[there]
            if there.any():
                pooled[m] = shares.mean() if by_class else hits.sum() / counts.sum()
            recalls[m, there] = np.where(self.seen[m, there], shares, np.nan)
        in_set = self.set_classes.sum(axis=1)
        return ScoreMatrix.of(name, self, values, pooled, sizes, in_set, recalls, class_sizes)

    def _left_out_before_learning(self) -> Bools:
        """(M, E) where another tool left answers to the samples of a later session out."""
        sets = np.arange(self.n_sets)
        none = [(self.answer[:, self.eval_set == e] < 0).any(axis=1) for e in sets]
        later = sets > self.session[:, None]
        return np.asarray(np.stack(none, axis=1) & later, dtype=np.bool_)

    def curves(self, scores: ScoreMatrix, *, limited: bool) -> dict[str, Floats]:
        """The curves against chance; see `against_chance`."""
        restricted = limited or scores.name.startswith("within_")
        return against_chance.curves(scores, restricted=restricted)

    def rate_samples(self, score: str, moments: Ints) -> SampleScores:
        """Compute 1 where an answer is right; NaN where another tool gave no such answers."""
        within = score.startswith("within_")
        right = np.equal((self.within if within else self.answer)[moments], self.y)
        values = right.astype(np.float64)
        if within and self.lacks_within:
            values[:] = np.nan
        return SampleScores(values, self.y, self.eval_set, score.endswith("class_accuracy"))

    def confusion(self, score: str, moment: int, *, truth: bool = False) -> Floats:
        """(C, C) share of the test samples of each class that were given each, at a moment.

        Of the samples of all eval sets so far, so that the diagonal has the recalls of
        `score_matrix`; NaN for classes that were not seen or have no sample.
        """
        known = self.eval_set <= self.session[moment]
        y = self.y[known]
        answers = self.within if score.startswith("within_") else self.answer
        given = y if truth else answers[moment, known]
        return confusion_of_classes(y, given, self.seen[moment])

    @classmethod
    def guess(cls, seen: int | Ints, limits: Sequence[int | None]) -> Floats:
        """(…, E) expected accuracy of a uniform draw among the candidates of each eval set."""
        return against_chance.guessing(seen, limits)

    def guess_matrix(
        self,
        name: str,
        limits: Sequence[int | None] | None = None,
        class_sizes: Sequence[int] | None = None,
    ) -> ScoreMatrix:
        """A base score of uniform draws among the candidates, on average."""
        if name.startswith("within_"):  # among the classes of the sample's own session
            own = 1 / np.maximum(self.set_classes.sum(axis=1), 1)  # (E,)
            share = np.broadcast_to(own[self.eval_set], self.answer.shape)
        else:
            chances = self.guess(self.seen.sum(axis=1)[:, None], limits or [None] * self.n_sets)
            share = np.where(self.seen[:, self.y], chances[:, self.eval_set], 0.0)  # (M, n)
        return self._average(name, share, class_sizes)

    # --- the stream that was answered ---

    def find_unanswered(self) -> Bools:
        """(M, n) whether an answer is missing that was due.

        Another tool that gives answers alone owes none before learning: to a sample of a later
        session, or of a class that was not seen. A learner of ours owes all.
        """
        none = np.asarray(self.answer < 0, dtype=np.bool_)
        if not self.lacks_within:
            return none
        reached = self.eval_set <= self.session[:, None]
        return np.asarray(none & reached & self.seen[:, self.y], dtype=np.bool_)

    def with_groups(self, group: Ints | None) -> Self:
        """The same with the number of each sample's group, (n,)."""
        return replace(self, group=group)

    def find_contradiction(self, allowed: Iterable[Bools]) -> str:
        """Say why these answers follow from no scores of a learner, or nothing.

        Both answers to a sample are the best class by the same scores, once among the candidates
        and once within the session.
        """
        sets = self.eval_set
        ranks = [None] * len(self.seen) if self.rank is None else self.rank
        for candidates, answer, within, rank in zip(
            allowed, self.answer, self.within, ranks, strict=True
        ):
            none = answer < 0
            if not (candidates[sets, answer] | none).all():
                return "it has answers outside of the candidates of its stream"
            if rank is not None:
                unranked = ~candidates[sets, self.y] | none
                if not np.array_equal(rank == UNRANKED, unranked):
                    return "its ranks contradict the candidates of its stream"
            inside = self.set_classes[sets, answer] | none
            both = inside & (candidates[sets, within] | (within < 0))
            if not np.array_equal(answer[both], within[both]):
                return "its answers over all classes contradict those within the session"
        return ""


def _accuracy(right: Bools | Floats, y: Ints, by_class: bool) -> Floats:
    """(M, n) → (M,) share of right answers at each moment; by class, the mean over those in y."""
    if len(y) == 0:
        return np.full(len(right), np.nan)
    if not by_class:
        return np.asarray(right.mean(axis=1, dtype=np.float64))
    classes, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    hits = np.stack([np.bincount(inverse, row, minlength=len(classes)) for row in right])
    return np.asarray((hits / counts).mean(axis=1))  # (M, k) → (M,)
