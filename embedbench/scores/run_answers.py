"""What a run answered, of any kind: all that scores, flags, records and reports ask of it.

A kind is one class: its tables in `predictions.h5`, and what follows from them.
`label_set_predictions.py` lists the kinds; nothing else asks of which one some answers are.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, Self

from embedbench.array_types import Array, Bools, Floats, Ints

from .array_file import ArrayFile
from .score_matrix import ScoreMatrix


class SampleScores(NamedTuple):
    """A base score as a mean over test samples, each in one eval set."""

    values: Floats  # (M, n) of the answer to each sample at each moment
    labels: Ints  # (n,) class of each sample
    sets: Ints  # (n,) its eval set
    by_class: bool  # whether the mean is over classes, of the means over their samples


class RunAnswers(ArrayFile, ABC):
    """Answers of one run; a kind of them is a frozen dataclass of its tables.

    What is not abstract holds for a kind that has nothing of the sort.
    """

    # names of the base scores, the main one first; no other kind has one of the same name
    SCORES: ClassVar[tuple[str, ...]]
    # base score → what a sentence or an axis calls it, where that is not its name
    NAMES: ClassVar[Mapping[str, str]] = {}
    # base score → what its heading in a table means, where its name does not say it
    MEANINGS: ClassVar[Mapping[str, str]] = {}
    DETAILS: ClassVar[tuple[str, ...]] = ()  # scores and curves that reports show besides
    # whether eval sets are others than the stream has: the samples with a class of a session
    OWN_SETS: ClassVar[bool] = False

    y: Array  # (n, …) the true labels
    answer: Array  # (M, n, …) the answers
    group: Ints | None = None  # (n,) number of the `group` of each sample

    # --- scores ---

    @property
    @abstractmethod
    def n_sets(self) -> int:
        """The number of eval sets, columns of a score matrix."""

    @abstractmethod
    def score_matrix(self, name: str = "", class_sizes: Sequence[int] | None = None) -> ScoreMatrix:
        """Compute a base score; without a name the main one.

        `class_sizes` are (C,) training samples of each class in the whole stream, if they are
        known.
        """

    def score_matrices(self, class_sizes: Sequence[int] | None = None) -> dict[str, ScoreMatrix]:
        """Every base score of the run, by name; the main score comes first."""
        return {name: self.score_matrix(name, class_sizes) for name in self.SCORES}

    def curves(self, scores: ScoreMatrix, *, limited: bool) -> dict[str, Floats]:
        """Values after each session that a record has of a base score, (T,) each, by name.

        `limited` says whether answers are chosen among less than the classes seen.
        """
        return {}

    def rate_samples(self, score: str, moments: Ints) -> SampleScores | None:
        """A base score of each sample at some moments; None where it is no mean over samples.

        Every sample counts: a mean over those that were answered is none of these.
        """
        return None

    @classmethod
    def rates_samples(cls) -> bool:
        """Whether any base score can be computed without some of the samples."""
        return cls.rate_samples is not RunAnswers.rate_samples

    def confusion(self, score: str, moment: int, *, truth: bool = False) -> Floats | None:
        """(C, C) share of the test samples of each class that were given each, at a moment.

        Of the answers that a base score is of; see `confusion_matrix`. `truth`: of the true labels,
        which is what a learner gets that is always right. None for a kind without classes.
        """
        return None

    # --- flags and chance ---

    @abstractmethod
    def find_unanswered(self) -> Bools:
        """(M, …) whether an answer is missing, since a score was NaN."""

    @classmethod
    def guess(cls, seen: int | Ints, limits: Sequence[int | None]) -> Floats | None:
        """(…, E) expected main score of a guess on each eval set; None where no formula has it.

        `seen` are (…, 1) classes seen so far, `limits` (E,) candidates; None: all classes seen.
        """
        return None

    def guess_matrix(
        self,
        name: str,
        limits: Sequence[int | None] | None = None,
        class_sizes: Sequence[int] | None = None,
    ) -> ScoreMatrix | None:
        """A base score of guesses on the same stream, on average; None where no formula has it.

        `limits` are (E,) candidates; None: all classes seen. The answers are not used.
        """
        return None

    # --- the stream that was answered ---

    def with_groups(self, group: Ints | None) -> Self:
        """The answers with the (n,) number of each sample's `group`, if this kind stores it."""
        return self

    def find_contradiction(self, allowed: Iterable[Bools]) -> str:
        """Why no scores of a learner give these answers, in words; or empty.

        `allowed` are (E, C) candidates at each moment, see `allowed_classes`.
        """
        return ""
