"""How embeddings are scaled: factors from the base rows, and the arithmetic of a row.

Both are the same for a table in memory and for a mapped one, bit for bit: statistics are summed row
by row, as NumPy does along the first axis, and every other step concerns one value or one row.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from embedbench.array_types import Float32s, Floats, Ints

BLOCK = 1024  # rows whose statistics are taken at a time
Rows = Callable[[Ints], Float32s]


@dataclass(frozen=True)
class Scale:
    """The scaling of one embedding.

    Parameters
    ----------
    name : str
        "none", "l2", "rms" (rows of length 1, or √D), or "standard".
    mean, deviation : array or None
        (D,) float32 of each column, for "standard".
    """

    name: str
    mean: Float32s | None = None
    deviation: Float32s | None = None

    def apply(self, x: Float32s) -> None:
        """Scale rows (n, D) in place."""
        if self.name in ("l2", "rms"):
            x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.float32(1e-12))
            if self.name == "rms":
                x *= np.float32(np.sqrt(x.shape[1]))
        elif self.mean is not None and self.deviation is not None:
            x -= self.mean
            x /= self.deviation
            np.clip(x, -5, 5, out=x)


def fit_scaling(name: str, rows: Rows, base_rows: Ints) -> Scale:
    """The scaling `name` of an embedding; "standard" takes statistics of the base rows (n,).

    `rows` returns some rows of the embedding, (n, D) float32.
    """
    if name != "standard":
        return Scale(name)
    mean, deviation = statistics(rows, base_rows)
    return Scale(name, mean.astype(np.float32), np.maximum(deviation, 1e-6).astype(np.float32))


def statistics(rows: Rows, base_rows: Ints) -> tuple[Floats, Floats]:
    """Mean and deviation of each column over the base rows, (D,) each, block by block."""

    def mean_of(f: Callable[[Float32s], Floats]) -> Floats:
        total = np.zeros(0)
        for first in range(0, len(base_rows), size):
            x = f(rows(base_rows[first : first + size]))
            # goes on with the sum so far, so that the order of the additions is that of one sum
            total = np.add.reduce(x if first == 0 else np.concatenate([total[None], x]), axis=0)
        return np.asarray(total / len(base_rows))

    width = rows(base_rows[:1]).shape[1]
    size = BLOCK if width > 1 else max(1, len(base_rows))  # one column is summed in another order
    mean = mean_of(lambda x: x.astype(np.float64))
    return mean, np.sqrt(mean_of(lambda x: np.square(x - mean)))
