"""Class orders made for a file: natural, random, published, by hierarchy, or annealed.

**Source**: Masana et al. (2020), §3; weights and annealer as in the notebook published with it.

**Departs**: the paper takes the confusion of a network on its own training data. Ours is that of a
linear probe on training samples that it was not fitted to, because a probe makes few errors on
samples that it was fitted to. The paper says that Eq. 1 is maximised, but its code minimises it; so
do we. The weights are the notebook's, for any n, without its small tie-break for max confusion.
2·10^5 steps instead of 2·10^6; moves of neighbouring blocks span at most 100 positions. The
schedule is soon greedy and can end in a local optimum.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Float32s, Floats, Ints
from embedbench.config.run_seeds import check_seed
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TRAIN
from embedbench.storage.atomic_write import write_safely
from embedbench.text.undecoded_text import as_text

from .class_order import SCHEMA, class_order
from .order_names import NAMED
from .taught_classes import with_taught_classes

CONFUSION = {  # orders by confusion, each with its weights W
    "max-confusion": "W_ij = |i - j|",
    "min-confusion": "W_ij = -|i - j|",
    "increasing-task-confusion": "W_ij = n - end of the session within one, n - 0.1 across",
    "equal-task-confusion": "W_ij = 0 within a session, n - 0.1 across",
    "decreasing-task-confusion": "W_ij = start of the session within one, n - 0.1 across",
}
KINDS = tuple(name for name in NAMED if name != "size")
STEPS = 200_000
START, COOLING = 100.0, 0.99  # temperature: below .005 after 1,000 steps, so greedy from then on


def make_order(
    file: EmbeddingFile,
    kind: str,
    *,
    seed: int = 0,
    sessions: int = 10,
    base: int = 0,
    steps: int = STEPS,
) -> dict[str, Any]:
    """An order of the classes that a file teaches, with everything needed to make it again.

    Parameters
    ----------
    seed : int
        Seed of the random order, of the probe's folds and of the annealing.
    sessions : int
        Number of sessions, for the task-confusion kinds.
    base : int
        Classes in the first session; 0: all sessions are equal.
    steps : int
        Steps of the annealing.

    Returns
    -------
    dict
        Plain JSON; `order` holds class names. The kinds of `CONFUSION` also have `score` (lower is
        better), `natural_score`, `objective`, `steps`, `confusion`, and the `matrix` in the file's
        order.
    """
    if kind not in KINDS:
        raise unknown("order", kind, KINDS)
    check_seed(seed, "--seed")
    file = with_taught_classes(file)
    n = file.samples.n_leaves
    sizes = session_sizes(n, sessions, base)
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": kind,
        "seed": seed,
        "sizes": sizes,
        "file": {"name": as_text(file.path.name), "digests": file.digests},
    }
    if kind in CONFUSION:
        matrix = confusion_matrix(file, seed)
        W = objective(kind, sizes)
        order = anneal(W, matrix, seed, steps)
        made |= {
            "score": order_score(W, matrix, order),
            "natural_score": order_score(W, matrix, np.arange(n)),
            "objective": f"minimise Σ_ij W_ij M_π(i)π(j); {CONFUSION[kind]}",
            "steps": steps,
            "confusion": "cross-fitted",
            "matrix": matrix.tolist(),
        }
    else:
        order = class_order(kind, file, seed)
    return {**made, "order": [file.classes[c] for c in order]}


def session_sizes(n: int, sessions: int, base: int = 0) -> list[int]:
    """Number of classes in each session: equal, or a base session and then equal ones.

    If n does not divide evenly, the first of the equal sessions have one class more.

    >>> session_sizes(88, 11), session_sizes(10, 3), session_sizes(100, 9, 60)
    ([8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8], [4, 3, 3], [60, 5, 5, 5, 5, 5, 5, 5, 5])
    """
    later = sessions - bool(base)
    if sessions < 1 or not 0 <= base <= n - later or (base and not later and base < n):
        rest = f" and {base} in the first" if base else ""
        raise UserError(f"{n} classes cannot make {sessions} sessions{rest}", "ask for fewer")
    equal = [len(part) for part in np.array_split(np.arange(n - base), later)] if later else []
    return [base, *equal] if base else equal


# --- orders by confusion ---


def objective(kind: str, sizes: Sequence[int]) -> Floats:
    """W, (n, n): the cost of confusion between positions i and j.

    With increasing task confusion, confusion costs least within late sessions, so the first session
    is the least confused. With decreasing task confusion it is the other way round. `sizes` are the
    numbers of classes in the sessions; max and min confusion do not depend on them.
    """
    n = sum(sizes)
    i = np.arange(n)
    if kind in ("max-confusion", "min-confusion"):
        distance: Floats = np.abs(i[:, None] - i).astype(np.float64)
        if kind == "min-confusion":
            distance *= -1
        return distance
    ends = np.cumsum(sizes)
    session = np.searchsorted(ends, i, side="right")
    inside = {
        "increasing-task-confusion": n - ends,
        "equal-task-confusion": np.zeros(len(sizes)),
        "decreasing-task-confusion": ends - sizes,
    }[kind]
    W: Floats = np.where(session[:, None] == session, inside[session].astype(np.float64), n - 0.1)
    return W


def order_score(W: Floats, matrix: Ints, order: Ints) -> float:
    """S(π) = Σ_ij W_ij M_π(i)π(j), the diagonal of M left out; lower is better."""
    reordered = matrix[np.ix_(order, order)].astype(np.float64)
    np.fill_diagonal(reordered, 0)
    return float((W * reordered).sum())


def anneal(W: Floats, matrix: Ints, seed: int, steps: int = STEPS) -> Ints:
    """The order with the lowest score in a simulated annealing that starts from the identity."""
    from . import simulated_annealing as _anneal

    both = (matrix + matrix.T).astype(np.float64)  # W is symmetric, so only the sum matters
    np.fill_diagonal(both, 0)
    draws = np.random.default_rng(seed).random((steps, 6))
    order: Ints = _anneal.anneal(W, both, START, COOLING, draws)[0]
    return order


def write_order(made: dict[str, Any], path: Path) -> None:
    """Write an order as JSON, one row of the matrix per line; `run --order` reads it."""
    rows = made.get("matrix")
    text = json.dumps({**made, **({"matrix": 0} if rows else {})}, indent=1, ensure_ascii=False)
    if rows:
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        text = text.replace('\n "matrix": 0', f'\n "matrix": [\n{lines}\n ]')
    write_safely(path, text + "\n")


# --- the confusion matrix of a linear probe ---


FOLDS = 5
ALPHAS = (1e1, 1e2, 1e3, 1e4, 1e5)  # ridge penalties


def confusion_matrix(file: EmbeddingFile, seed: int) -> Ints:
    """M, (C, C): number of training samples of class i that a linear probe takes for class j ≠ i.

    Only the file's training split is read; the diagonal is 0. The probe is ridge regression on the
    one-hot classes, with features standardised and clipped to ±5. Its penalty is chosen from
    `ALPHAS`: fitted to four fifths of every class, the probe must be best on the first fifth. Each
    fifth of the samples is classified by a probe fitted to the other four.
    """
    rows = np.flatnonzero(file.split == TRAIN)
    n = file.samples.n_leaves
    y = file.labels[rows]
    if len(np.unique(y)) < 2:
        raise UserError(f"{file.path.name} has training samples of fewer than two classes")
    x = file.read()[rows]
    mixed = np.random.default_rng(seed).permutation(len(y))
    mixed = mixed[np.argsort(y[mixed], kind="stable")]  # class by class, mixed within
    fifth = np.empty_like(mixed)
    fifth[mixed] = np.arange(len(y)) % FOLDS
    held = fifth == 0
    right = [(_probe(a, x[~held], y[~held], x[held]) == y[held]).mean() for a in ALPHAS]
    alpha = ALPHAS[int(np.argmax(right))]
    answer = np.empty_like(y)
    for fold in range(FOLDS):
        out = fifth == fold
        answer[out] = _probe(alpha, x[~out], y[~out], x[out])
    matrix = np.bincount(y * n + answer, minlength=n * n).reshape(n, n)
    np.fill_diagonal(matrix, 0)
    return matrix


def _probe(alpha: float, x: Float32s, y: Ints, asked: Float32s) -> Ints:
    """Classes that a linear probe, fitted to x and y, predicts for `asked`."""
    from sklearn.linear_model import RidgeClassifier

    mean = x.mean(axis=0)
    deviation = np.maximum(x.std(axis=0), 1e-6)

    def scaled(values: Float32s) -> Float32s:
        clipped: Float32s = np.clip((values - mean) / deviation, -5, 5)
        return clipped

    answer: Ints = RidgeClassifier(alpha=alpha).fit(scaled(x), y).predict(scaled(asked))
    return answer
