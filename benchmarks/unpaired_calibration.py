"""How often the best row of a printed table is called behind: means and spreads of normal runs.

All rows have the same true mean, so that every row is a best one. Rows differ in sd and in runs;
printed tables are rounded. Rates are the largest of all rows of a table, in percent, over 20,000
tables each; Welch's rule stands beside ours. `python benchmarks/unpaired_calibration.py`, a minute.
"""

import numpy as np

from embedbench.array_types import Floats, Ints
from embedbench.scores.learner_verdicts import LEVEL
from embedbench.scores.unpaired_differences import quantile, subtract_means

TABLES = 20_000


def draw_tables(
    rng: np.random.Generator, sds: Floats, n: Ints, tables: int = TABLES, digits: int | None = None
) -> tuple[Floats, Floats, Floats]:
    """(R, k) means and sds of tables, and (k,) half a unit of the last digit."""
    means, spreads = np.empty((tables, len(sds))), np.empty((tables, len(sds)))
    for i, (sd, runs) in enumerate(zip(sds, n, strict=True)):
        x = sd * rng.standard_normal((tables, runs))
        means[:, i], spreads[:, i] = x.mean(axis=1), x.std(axis=1, ddof=1)
    if digits is None:
        return means, spreads, np.zeros(len(sds))
    half = np.full(len(sds), 0.5 * 10.0**-digits)
    # the worst place for a mean is where two roundings meet
    return np.round(means + half, digits), np.round(spreads, digits), half


def called_behind(means: Floats, spreads: Floats, n: Ints, rounding: Floats) -> Floats:
    """(k,) the share of tables in which each row is behind some other."""
    apart = subtract_means(means, spreads**2 / n, np.broadcast_to(n, means.shape), rounding)
    return np.asarray((apart.behind_by_least() > 0).any(axis=-1).mean(axis=0))


def called_behind_by_welch(means: Floats, spreads: Floats, n: Ints, share: int) -> Floats:
    """The same by Welch's test, each at LEVEL / share."""
    v = spreads**2 / n
    total = v[:, :, None] + v[:, None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        df = total**2 / ((v**2 / (n - 1))[:, :, None] + (v**2 / (n - 1))[:, None, :])
        half = quantile(np.nan_to_num(df, nan=1.0), np.array(LEVEL / share)) * np.sqrt(total)
    apart = means[:, None, :] - means[:, :, None]
    return np.asarray((apart > half + 1e-12).any(axis=-1).mean(axis=0))


def main() -> None:
    """Print a line for each kind of table."""
    rng = np.random.default_rng(0)
    kinds = {
        "equal sd": lambda k: np.ones(k),
        "one has 5 times the sd": lambda k: np.array([5.0] + [1.0] * (k - 1)),
        "the others have 5 times the sd": lambda k: np.array([1.0] + [5.0] * (k - 1)),
        "sd from .2 to 5": lambda k: np.geomspace(0.2, 5, k),
    }
    print("k   n        sd                               ours  Welch α/k  Welch α/(k-1)")
    for k in (2, 3, 4, 5, 7, 10):
        runs = {str(n): np.full(k, n) for n in (3, 5, 10)}
        runs |= {
            "10, 3 …": np.array([10] + [3] * (k - 1)),
            "3, 10 …": np.array([3] + [10] * (k - 1)),
        }
        runs["2, 10 …"] = np.array([2] + [10] * (k - 1))
        for words, n in runs.items():
            for kind, sds in kinds.items():
                means, spreads, rounding = draw_tables(rng, sds(k), n)
                rates = [called_behind(means, spreads, n, rounding)]
                rates += [called_behind_by_welch(means, spreads, n, share) for share in (k, k - 1)]
                texts = "  ".join(f"{100 * rate.max():8.1f}" for rate in rates)
                print(f"{k:<3} {words:<8} {kind:<30} {texts}")
    for sd in (0.005, 0.02, 0.05, 0.1, 0.2, 0.4):
        for k, runs_each in ((2, 3), (5, 5), (10, 10)):
            n = np.full(k, runs_each)
            means, spreads, rounding = draw_tables(rng, np.full(k, sd), n, digits=1)
            rates = [called_behind(means, spreads, n, rounding)]
            rates += [called_behind_by_welch(means, spreads, n, share) for share in (k, k - 1)]
            texts = "  ".join(f"{100 * rate.max():8.1f}" for rate in rates)
            print(f"{k:<3} {runs_each:<8} {f'sd {sd}, printed to .1':<30} {texts}")


if __name__ == "__main__":
    main()
