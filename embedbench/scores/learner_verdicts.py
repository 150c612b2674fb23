"""Which learners are behind the best: one verdict and one interval for each row of a table.

A row is *behind* if for some other row the mean difference, paired by seed, exceeds its half-width.
With k - 1 other rows that it can be compared with, each is tested one-sided at α/k, so a row that
nobody is above is called behind in at most α of all tables with normal residuals (Bonferroni's
bound), whatever the variances and the dependence. That is a bound for each row, not for the table:
among many rows of equal worth some row is called behind more often. Bonferroni's bound would hold
at α/(k - 1), too; but with the skew of real seeds the best was then behind in up to 6.7 % of tables
(`benchmarks/RESULTS.md`).

The interval of a row's distance to the best of the others goes from the largest mean difference
less half-width to the largest mean difference plus half-width. Its lower end is too high with
probability (k - 1) α/k at most, its upper end too low with α/k: it is a 95 % interval, and the row
is behind exactly where it lies above 0.

The square of a half-width is t(n - 1)² s²/n + t(G* - 1)² v: the share of the n seeds, and that of
the test sample (`metric_jackknife`) with G groups that are in effect G*, which is less where their
sizes differ. Where one part is unknown, the other stands alone, and `parts` says so. What seeds and
samples do together is in both parts, which makes the interval wider than it need be. The page
docs/metrics.md has the whole rule in words.

**Source**: multiple comparisons with the best, Hsu (1981) and Edwards and Hsu (1983): all other
rows are compared with each row, and no leader has to be picked first. Their constants need equal
variances; as here, "behind" is where the interval of θ_i - max_j θ_j ends below 0. The half-width
of two independent variances is Banerjee's (1960): it keeps the level, because the distribution
function of χ²(1) is concave. G* is Kish's (1965) effective number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from embedbench.array_types import Bools, Floats, Ints
from embedbench.config.json_records import JsonRecord

LEVEL = 0.05  # α, the share of tables in which a row that nobody is above may be called behind
ROUNDING = 1e-12  # a mean difference below it is 0
LEAST = 3  # runs with equal answers that say that no seed changes them
LEAST_FREEDOM = 0.1  # degrees of freedom; with fewer a quantile is no number
SEEDS, SAMPLE = "seeds", "test sample"
Over = Literal["seeds and samples", "seeds"]  # what verdicts rest on


@dataclass(frozen=True)
class RowVerdict(JsonRecord):
    """The verdict of a table on one row; numbers are in the unit of the values.

    Parameters
    ----------
    mean, half : float
        Mean over the row's own seeds, and the half-width of its two-sided interval.
    rank : int or None
        Rank of the mean, 1 for the best; None where the mean is undefined.
    ranks : tuple of int or None
        The ranks that the verdicts allow, each end with error α for this row.
    behind : bool or None
        Whether some other row is above it; None where it can be compared with none.
    behind_by : float
        Largest mean difference to it of another row that it can be compared with; 0 if none is
        above.
    behind_by_least, behind_by_most : float
        The 95 % interval of the distance to the best of the others: the largest mean difference
        less half-width, above 0 exactly where `behind`, and the largest plus half-width.
    detectable : float
        Half-width of the difference to the best other row: a larger one would have been seen.
    detectable_any_seeds : float
        What the test sample leaves of it with any number of seeds; NaN where that is unknown.
    against : int or None
        The row that `behind_by_least` comes from.
    above : tuple of int
        The rows that are above it by more than the half-width.
    n, groups : int
        Seeds that both rows have, and groups of the test sample; 0 where that part is not in it.
    effective_groups : float
        What the groups count as, by their sizes; 0 where that part is not in it.
    parts : tuple of str
        What its half-width is made of: `seeds`, `test sample`, or both.
    """

    mean: float
    half: float
    rank: int | None
    ranks: tuple[int, ...] | None
    behind: bool | None
    behind_by: float
    behind_by_least: float
    behind_by_most: float
    detectable: float
    detectable_any_seeds: float
    against: int | None
    above: tuple[int, ...]
    n: int
    groups: int
    effective_groups: float
    parts: tuple[str, ...]

    def move(self, places: Sequence[int]) -> "RowVerdict":
        """The same in a longer table, where the rows are at these places."""
        against = None if self.against is None else places[self.against]
        return replace(self, against=against, above=tuple(places[j] for j in self.above))


class SampleShare(NamedTuple):
    """What other test samples would change in the differences of all pairs of rows."""

    variances: Floats  # (k, k), on the diagonal that of each row's mean
    groups: int  # of test samples, or single samples
    effective: float  # what they count as, by their sizes
    lasting: Floats | None = None  # (k, k) the variances with any number of seeds; NaN unknown


@dataclass(frozen=True)
class Differences:
    """Mean differences of all pairs of rows, (…, k, k); [i, j] is how much row j is above row i."""

    mean: Floats  # NaN where two rows share no seed
    n: Ints  # seeds that both have
    seed_variance: Floats  # squared standard errors of `mean`; NaN where unknown
    seed_freedom: Floats  # its degrees of freedom
    sample: SampleShare | None = None

    @property
    def sample_variance(self) -> Floats:
        """(…, k, k) the test sample's share; NaN where it is unknown."""
        return np.full(self.mean.shape, np.nan) if self.sample is None else self.sample.variances

    @property
    def sample_freedom(self) -> Floats:
        """The degrees of freedom of `sample_variance`."""
        effective = math.nan if self.sample is None else self.sample.effective
        return np.array(max(effective - 1, LEAST_FREEDOM))

    @property
    def decidable(self) -> Bools:
        """(…, k, k) whether a difference has a half-width, never on the diagonal."""
        known = ~(np.isnan(self.seed_variance) & np.isnan(self.sample_variance)) & (self.n > 0)
        return np.asarray(known & ~np.eye(self.n.shape[-1], dtype=np.bool_))

    def half_widths(self, level: Floats) -> Floats:
        """(…, k, k) half-widths at one-sided levels that broadcast to (…, k, k)."""
        seeds = _t(self.seed_freedom, level) ** 2 * self.seed_variance
        sample = _t(self.sample_freedom, level) ** 2 * self.sample_variance
        half = np.sqrt(np.nan_to_num(seeds) + np.nan_to_num(sample))
        return np.where(self.decidable, half, np.nan)

    def lasting_half_widths(self, level: Floats) -> Floats:
        """(…, k, k) what the test sample leaves of them with any number of seeds."""
        if self.sample is None or self.sample.lasting is None:
            return np.full(self.mean.shape, np.nan)
        return np.asarray(_t(self.sample_freedom, level) * np.sqrt(self.sample.lasting))

    def behind_by_least(self) -> Floats:
        """(…, k, k) mean less half-width, each row's tests sharing the level; NaN undecided."""
        return self.mean - self.half_widths(self.shared_level)

    @property
    def shared_level(self) -> Floats:
        """(…, k, 1) the one-sided level of each of a row's tests."""
        return np.asarray(LEVEL / (self.decidable.sum(axis=-1, keepdims=True) + 1))


def subtract_rows(
    values: Floats, sample: SampleShare | None = None, *, alike: Bools | None = None
) -> Differences:
    """The differences of all pairs of rows (…, k, n), paired by column; more is better.

    Scores are discrete, so that differences may be equal by chance, and their variance 0. That is
    the variance over seeds only where the answers are equal, too: of `alike`, see
    `compare_with_best`, with `LEAST` seeds. Elsewhere it is unknown.
    """
    apart = values[..., None, :, :] - values[..., :, None, :]
    both = ~np.isnan(apart)
    n = both.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(both, apart, 0).sum(axis=-1) / n
        rest = np.where(both, apart - mean[..., None], 0)
        seeds = (rest**2).sum(axis=-1) / (n * (n - 1))  # NaN of one
    mean[np.abs(mean) < ROUNDING] = 0
    proof = np.zeros_like(both[..., 0]) if alike is None else alike & (n >= LEAST)
    seeds = np.where((seeds < ROUNDING**2) & ~proof, np.nan, seeds)
    if sample is not None and sample.groups < 2:
        sample = None
    return Differences(mean, n, seeds, n - 1.0, sample)


def compare_with_best(
    values: Floats,
    sample: SampleShare | None = None,
    *,
    alike: Bools | None = None,
    lower: bool = False,
) -> list[RowVerdict]:
    """The verdict on each row of a table.

    Parameters
    ----------
    values : array of float
        (k, n): row, seed; NaN where there is no run. Where a table has several class orders, a
        column is an order instead, with the mean over its seeds.
    sample : SampleShare or None
        The test sample's share of each difference (`metric_jackknife.share_of_rows`); None if it is
        unknown, and for statements about this test sample alone.
    alike : array of bool or None
        (k, k) whether equal differences of two rows are proof that no seed changes them: the
        answers of each row are the same with every seed, or those of both rows are the same with
        each. On the diagonal, whether those of the row are the same. None: nowhere.
    lower : bool
        Whether less is better.
    """
    apart = subtract_rows(-values if lower else values, sample, alike=alike)
    means, halves = _row_means(values, apart, alike)
    return judge_differences(apart, means, halves, lower=lower)


def judge_differences(
    apart: Differences, means: Floats, halves: Floats, *, lower: bool = False
) -> list[RowVerdict]:
    """The verdict on each row, of the differences of all pairs, however they were made.

    `means` and `halves`, (k,), are the mean of each row, and the half-width of its interval; they
    decide the rank alone.
    """
    half = apart.half_widths(apart.shared_level)
    least = apart.mean - half
    most = apart.mean + half
    lasting = apart.lasting_half_widths(apart.shared_level)
    ranks = _ranks(-means if lower else means, least)
    result = []
    for i, (rank, allowed) in enumerate(ranks):
        decidable = apart.decidable[i]
        verdict = RowVerdict(
            mean=float(means[i]),
            half=float(halves[i]),
            rank=rank,
            ranks=allowed,
            behind=None,
            behind_by=_largest(np.delete(apart.mean[i], i)),
            behind_by_least=math.nan,
            behind_by_most=math.nan,
            detectable=math.nan,
            detectable_any_seeds=math.nan,
            against=None,
            above=tuple(np.flatnonzero(least[i] > 0).tolist()),
            n=0,
            groups=0,
            effective_groups=0.0,
            parts=(),
        )
        if decidable.any():
            nearest = int(np.argmax(np.where(decidable, least[i], -np.inf)))  # the bound is its
            best = int(np.argmax(np.where(decidable, apart.mean[i], -np.inf)))
            verdict = replace(
                verdict,
                behind=bool(least[i, nearest] > 0),
                # of rows that it can be compared with, so that the mean lies within its interval
                behind_by=_largest(apart.mean[i][decidable]),
                behind_by_least=float(least[i, nearest]),
                behind_by_most=float(np.nanmax(most[i])),
                detectable=float(half[i, best]),
                detectable_any_seeds=float(lasting[i, best]),
                against=nearest,
                n=int(apart.n[i, nearest]),
            )
            verdict = _with_parts(verdict, apart, i, nearest)
        result.append(verdict)
    return result


def _largest(differences: Floats) -> float:
    """The largest of some mean differences, or 0; NaN where none is known."""
    if np.isnan(differences).all():
        return math.nan
    return max(0.0, float(np.nanmax(differences)))


def _with_parts(verdict: RowVerdict, apart: Differences, i: int, j: int) -> RowVerdict:
    """The verdict with what the half-width of the difference of rows i and j is made of."""
    parts = []
    if not np.isnan(apart.seed_variance[i, j]):
        parts.append(SEEDS)
    sample = apart.sample
    if sample is not None and not np.isnan(sample.variances[i, j]):
        parts.append(SAMPLE)
        verdict = replace(verdict, groups=sample.groups, effective_groups=float(sample.effective))
    return replace(verdict, parts=tuple(parts))


def _t(df: Floats, level: Floats) -> Floats:
    """Upper quantile of Student's t, NaN without degrees of freedom; shapes broadcast."""
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    return np.asarray(-stdtrit(df, level))


def _row_means(values: Floats, apart: Differences, alike: Bools | None) -> tuple[Floats, Floats]:
    """(k,) mean of each row over its own seeds, and the half-width of its two-sided interval."""
    n = (~np.isnan(values)).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.nansum(values, axis=-1) / n
        seeds = np.nansum((values - means[:, None]) ** 2, axis=-1) / (n * (n - 1))  # NaN of one
    proof = np.zeros(len(n), dtype=np.bool_)
    if alike is not None:
        proof = np.diagonal(alike) & (n >= LEAST)
    seeds = np.where((seeds < ROUNDING**2) & ~proof, np.nan, seeds)
    sample = np.diagonal(apart.sample_variance)
    level = np.array(LEVEL / 2)
    of_seeds = _t(n - 1.0, level) ** 2 * seeds
    of_sample = _t(apart.sample_freedom, level) ** 2 * sample
    parts = [of_seeds, of_sample]
    unknown = np.isnan(means) | np.isnan(parts).all(axis=0)
    return means, np.where(unknown, np.nan, np.sqrt(np.nansum(parts, axis=0)))


def _ranks(means: Floats, bound: Floats) -> list[tuple[int | None, tuple[int, ...] | None]]:
    """The rank of each mean, and the ranks left by the rows that are surely above or below.

    Means that differ by rounding alone share a rank: three runs and five of one learner that no
    seed changes. The rank of the mean is always among those left: with missing seeds the order of
    the means may differ from that of the paired differences.
    """
    result: list[tuple[int | None, tuple[int, ...] | None]] = []
    scored = ~np.isnan(means)
    above = (bound > 0).sum(axis=1)
    below = (bound > 0).sum(axis=0)
    for i, mean in enumerate(means):
        if not scored[i]:
            result.append((None, None))
            continue
        rank = 1 + int((means > mean + ROUNDING).sum())
        first = 1 + int(above[i])
        last = int(scored.sum() - below[i])
        result.append((rank, (min(first, rank), max(last, rank))))
    return result
