"""Contrasts over the results table: numbers of runs or as printed, their differences, thresholds.

A `Number` is a mean with what is known of its error, and linear combinations keep it. Runs that
share their seeds on one stream are subtracted seed by seed; whatever else is taken for independent.
The first axes may count many simulated tables, which are then judged at once.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from embedbench.array_types import Bools, Floats
from embedbench.scores.learner_verdicts import LEAST, LEVEL, ROUNDING


class Error(NamedTuple):
    """A standard error from one source, with the sign of its number; NaN where it is unknown."""

    size: Floats  # (…)
    runs: int


@dataclass(frozen=True, eq=False)
class Number:
    """A number of a table, or a linear combination of some.

    Parameters
    ----------
    name : str
        For people.
    mean : array of float
        (…); NaN where there is no result.
    errors : mapping
        What is uncertain, by independent source; nothing of a number that is not drawn.
    runs : int
        Fewest runs behind it; 0 without a result.
    seeds, values
        The seeds of its runs and, (…, n), the value of each; none where only a mean is known.
    block : hashable
        Stream and order of its runs: numbers of one block are paired by seed.
    flags : frozenset of str
        Those of the runs behind it, as far as they are known.
    """

    name: str
    mean: Floats
    errors: Mapping[Hashable, Error] = field(default_factory=dict)
    runs: int = 0
    seeds: Sequence[Hashable] = ()
    values: Floats = field(default_factory=lambda: np.zeros(0))
    block: Hashable = None
    flags: frozenset[str] = frozenset()

    @classmethod
    def of_runs(
        cls, name: str, seeds: Sequence[Hashable], values: Floats, block: Hashable
    ) -> "Number":
        """A number of runs. Equal values are no error of 0 unless `LEAST` runs have them."""
        n = values.shape[-1]
        size = np.full(values.shape[:-1], np.nan)
        if n > 1:
            size = values.std(axis=-1, ddof=1) / math.sqrt(n)
            size = np.where(size < ROUNDING, 0.0 if n >= LEAST else np.nan, size)
        errors = {object(): Error(size, n)}
        return cls(name, values.mean(axis=-1), errors, n, tuple(seeds), values, block)

    @classmethod
    def printed(cls, name: str, mean: float, sd: float, runs: int, source: Hashable) -> "Number":
        """A printed mean of so many runs, and their sd; the numbers of one source move together."""
        size = np.array(sd / math.sqrt(runs))
        return cls(name, np.array(mean), {source: Error(size, runs)}, runs)

    @classmethod
    def missing(cls, name: str) -> "Number":
        """A number that was not measured."""
        return cls(name, np.array(math.nan))

    @property
    def exact(self) -> "Number":
        """The same where nothing is drawn, so that it has no error."""
        return replace(self, errors={}, seeds=(), values=np.zeros(0))

    def __sub__(self, other: "Number") -> "Number":
        return _combine(_difference(self.name, other.name), [(1.0, self), (-1.0, other)])

    def __rmul__(self, factor: float) -> "Number":
        return _combine(f"{factor:g} × {self.name}", [(factor, self)])

    def half(self, level: float) -> Floats:
        """(…) half-width of an interval with this error on either side; 0 if nothing is drawn.

        The squares of independent parts add up, each with its own quantile, as in
        `learner_verdicts`: that keeps the level.
        """
        from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

        squares = [(stdtrit(e.runs - 1, 1 - level) * e.size) ** 2 for e in self.errors.values()]
        return np.asarray(np.sqrt(sum(squares, np.zeros(self.mean.shape))))

    def above(self, threshold: float) -> "Contrast":
        """The contrast that says: more than the threshold."""
        return Contrast(self, threshold, 1)

    def below(self, threshold: float) -> "Contrast":
        """The contrast that says: less than the threshold."""
        return Contrast(self, threshold, -1)

    def within(self, distance: float, of: float = 0.0) -> list["Contrast"]:
        """The two contrasts that say: nearer to a number than this distance."""
        return [self.above(of - distance), self.below(of + distance)]


@dataclass(frozen=True, eq=False)
class Contrast:
    """A number, a threshold, and on which side of it the number is said to be: 1 above, -1 below.

    Whether that holds it does not say.
    """

    number: Number
    threshold: float
    direction: int

    @property
    def margin(self) -> Floats:
        """(…) how far the number is on the side that was said."""
        margin = self.direction * (self.number.mean - self.threshold)
        return np.where(np.abs(margin) < ROUNDING, 0.0, margin)


@dataclass(frozen=True, eq=False)
class OneTest:
    """Contrasts that are judged together, each or one of them, on one table or on many."""

    contrasts: Sequence[Contrast]
    any_one: bool = False

    @property
    def margins(self) -> Floats:
        """(contrasts, …) how far each number is on its side; NaN if it was not measured."""
        return np.array(np.broadcast_arrays(*(contrast.margin for contrast in self.contrasts)))

    @property
    def numbers(self) -> int:
        """k, how many numbers are compared: one that is to be within bounds is one."""
        return len({id(contrast.number) for contrast in self.contrasts})

    def halves(self, *, shared: bool) -> Floats:
        """(contrasts, …) half-widths at the level, or at its share of one of k numbers."""
        level = LEVEL / 2 / (self.numbers if shared else 1)
        halves = [contrast.number.half(level) for contrast in self.contrasts]
        return np.array(np.broadcast_arrays(*halves))

    @property
    def holding(self) -> Bools:
        """(contrasts, …) whether each is on its side, at the level at which it is asked."""
        return np.asarray(self.margins > self.halves(shared=self.any_one))

    @property
    def failing(self) -> Bools:
        """(contrasts, …) whether each is on the other side."""
        return np.asarray(self.margins <= -self.halves(shared=not self.any_one))

    @property
    def holds(self) -> Bools:
        """(…) whether what is said holds."""
        return np.asarray((np.any if self.any_one else np.all)(self.holding, axis=0))

    @property
    def fails(self) -> Bools:
        """(…) whether it does not hold."""
        return np.asarray((np.all if self.any_one else np.any)(self.failing, axis=0))


def mean_of(name: str, numbers: Sequence[Number]) -> Number:
    """The mean of some numbers."""
    return _combine(name, [(1 / len(numbers), number) for number in numbers])


def spread_of(name: str, numbers: Sequence[Number]) -> Number:
    """The standard deviation of some numbers, for each seed that all have; of means, of these."""
    seeds = _common_seeds(numbers)
    if seeds:
        each = np.stack([_values_at(number, seeds) for number in numbers])
        number = Number.of_runs(name, seeds, each.std(axis=0, ddof=1), "spread")
        return replace(number, flags=_flags_of(numbers))
    spread = np.stack([number.mean for number in numbers]).std(axis=0, ddof=1)
    runs = min(number.runs for number in numbers)
    errors: dict[Hashable, Error] = {object(): Error(np.full(spread.shape, np.nan), runs)}
    return Number(name, spread, errors, runs, flags=_flags_of(numbers))


def _combine(name: str, terms: Sequence[tuple[float, Number]]) -> Number:
    return replace(_combine_means(name, terms), flags=_flags_of([number for _, number in terms]))


def _flags_of(numbers: Sequence[Number]) -> frozenset[str]:
    return frozenset[str]().union(*[number.flags for number in numbers])


def _combine_means(name: str, terms: Sequence[tuple[float, Number]]) -> Number:
    numbers = [number for _, number in terms]
    seeds = _common_seeds(numbers)
    if seeds and len({number.block for number in numbers}) == 1:
        values = sum(factor * _values_at(number, seeds) for factor, number in terms)
        return Number.of_runs(name, seeds, np.asarray(values), numbers[0].block)
    mean = np.asarray(sum(factor * number.mean for factor, number in terms))
    errors: dict[Hashable, Error] = {}
    for factor, number in terms:
        for source, error in number.errors.items():
            before = errors[source].size if source in errors else 0.0
            errors[source] = Error(np.asarray(before + factor * error.size), error.runs)
    return Number(name, mean, errors, min(number.runs for number in numbers))


def _difference(a: str, b: str) -> str:
    """The name of a difference; what both names begin or end with is said once.

    >>> _difference("EWC, Ω_all", "MLP, Ω_all"), _difference("ER, at K", "ER, at K/4")
    ('EWC − MLP, Ω_all', 'ER, at K − at K/4')
    """
    first = a.split(", ")
    second = b.split(", ")
    before: list[str] = []
    while first[1:] and second[1:] and first[0] == second[0]:
        before.append(first.pop(0))
        second.pop(0)
    after: list[str] = []
    while first[1:] and second[1:] and first[-1] == second[-1]:
        after.insert(0, first.pop())
        second.pop()
    return ", ".join([*before, f"{', '.join(first)} − {', '.join(second)}", *after])


def _common_seeds(numbers: Sequence[Number]) -> list[Hashable]:
    return [s for s in numbers[0].seeds if all(s in number.seeds for number in numbers)]


def _values_at(number: Number, seeds: Sequence[Hashable]) -> Floats:
    return number.values[..., [number.seeds.index(seed) for seed in seeds]]
