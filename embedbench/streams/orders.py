"""Class orders: natural, random, published, by hierarchy, or annealed on a confusion matrix.

**Source**: Masana et al. (2020), §3; weights and annealer as in the notebook published with it.

**Departs**: the paper's confusion matrix is a network's on its own training data; ours is that of a
linear probe on training samples which it was not fitted to, since a probe makes few errors on the
ones it was (`confusion="train"` is the paper's way). Score: the paper's Eq. 1 is said to be
maximised, its code minimises; so do we. Weights are those of the notebook for any n, without the
small tie-break of max confusion. 2·10^5 steps instead of 2·10^6, with moves of neighbouring blocks
that reach over 100 positions at most.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Floats, Ints
from embedbench.disk import write_safely
from embedbench.errors import UserError, unknown
from embedbench.files.file import EmbeddingFile

from .confusion import confusion_matrix

SCHEMA = "embedbench-order/1.0"
CONFUSION = (
    "max-confusion",
    "min-confusion",
    "increasing-task-confusion",
    "equal-task-confusion",
    "decreasing-task-confusion",
)
PUBLISHED = tuple(f"cifar100-{kind}" for kind in CONFUSION)
KINDS = ("natural", "random", "icarl1993", "icarl_87", "coarse", *CONFUSION, *PUBLISHED)
STEPS = 200_000
START, COOLING = 100.0, 0.99  # temperature; under .005 after a thousand steps, so greedy from there


def make_order(
    file: EmbeddingFile,
    kind: str,
    *,
    seed: int = 0,
    sessions: int = 10,
    base: int = 0,
    confusion: str = "cross-fitted",
    steps: int = STEPS,
) -> dict[str, Any]:
    """An order of the file's leaf classes, with all that it takes to make it again.

    Parameters
    ----------
    seed : int
        Of the random order, the folds of the probe and the annealing.
    sessions : int
        Sessions that the task-confusion kinds are made for.
    base : int
        Classes of the first of them; 0: all sessions equal.
    confusion : str
        "cross-fitted" or "train", see `confusion_matrix`.

    Returns
    -------
    Plain JSON; `order` holds class names. The kinds of `CONFUSION` have `score` (lower is better)
    and `natural_score`, `objective`, and the `confusion` matrix in the order of the file.
    """
    if kind not in KINDS:
        raise unknown("order", kind, KINDS)
    n = file.samples.n_leaves
    sizes = session_sizes(n, sessions, base)
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": kind,
        "seed": seed,
        "sizes": sizes,
        "file": {"name": file.path.name, "digests": file.digests},
    }
    if kind in CONFUSION:
        matrix = confusion_matrix(file, confusion, seed)
        W = objective(kind, sizes)
        found = anneal(W, matrix, seed, steps)
        made |= {
            "score": order_score(W, matrix, found),
            "natural_score": order_score(W, matrix, np.arange(n)),
            "objective": f"minimise Σ_ij W_ij M_π(i)π(j); {_OBJECTIVES[kind]}",
            "steps": steps,
            "confusion": confusion,
            "matrix": matrix.tolist(),
        }
    else:
        found = _fixed(file, kind, seed)
    return {**made, "order": [file.classes[c] for c in found]}


def session_sizes(n: int, sessions: int, base: int = 0) -> list[int]:
    """Classes of each session: equal ones (the first are one larger where n is not a multiple of
    their number), or a base and then equal ones.

    >>> session_sizes(88, 11), session_sizes(10, 3), session_sizes(100, 9, 60)
    ([8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8], [4, 3, 3], [60, 5, 5, 5, 5, 5, 5, 5, 5])
    """
    later = sessions - bool(base)
    if sessions < 1 or not 0 <= base <= n - later or (base and not later and base < n):
        rest = f" and {base} in the first" if base else ""
        raise UserError(f"{n} classes cannot make {sessions} sessions{rest}; ask for fewer")
    if n < sessions:
        raise UserError(f"{n} classes cannot make {sessions} sessions; ask for fewer")
    equal = [len(part) for part in np.array_split(np.arange(n - base), later)] if later else []
    return [base, *equal] if base else equal


# --- orders that need no data ---


def _fixed(file: EmbeddingFile, kind: str, seed: int) -> Ints:
    n = file.samples.n_leaves
    if kind == "natural":
        return np.arange(n)
    if kind == "random":
        return np.random.default_rng(seed).permutation(n)
    if kind == "coarse":
        return _coarse(file)
    labels = _cifar100_labels(file)
    if kind == "icarl1993":
        # iCaRL's np.random.seed(1993); np.random.shuffle(order)
        numbers = np.random.RandomState(1993).permutation(n)
        return numbers if labels is None else labels[numbers]
    if labels is None and (kind in PUBLISHED or n != 100):
        raise UserError(
            f"order {kind!r} is of CIFAR-100's classes; {file.path.name} has {n} others"
        )
    numbers = np.array(_published()[kind], dtype=np.int64)
    return numbers if labels is None else labels[numbers]


def _published() -> dict[str, list[Any]]:
    asset = resources.files("embedbench") / "assets" / "cifar100_orders.json"
    found: dict[str, list[Any]] = json.loads(asset.read_text(encoding="utf-8"))
    return found


def _cifar100_labels(file: EmbeddingFile) -> Ints | None:
    """(100,) the file's class of each of CIFAR-100's label numbers; None for other data."""
    own = [name.lower().replace(" ", "_") for name in file.classes[: file.samples.n_leaves]]
    names = _published()["classes"]
    if sorted(own) != sorted(names):
        return None
    return np.array([own.index(name) for name in names])


def _coarse(file: EmbeddingFile) -> Ints:
    """Classes by their groups, from the root down; groups by name, classes as in the file."""
    n = file.samples.n_leaves
    if (file.parents[:n] < 0).all():
        raise UserError(
            f"{file.path.name} has no class hierarchy to order by; make the file from nested "
            "folders, or take another --kind"
        )

    def groups(leaf: int) -> list[str]:
        above, names = int(file.parents[leaf]), []
        while above >= 0:
            names.append(file.classes[above])
            above = int(file.parents[above])
        return names[::-1]

    return np.array(sorted(range(n), key=groups))  # stable: equal groups stay as they are


# --- orders by confusion ---

_OBJECTIVES = {
    "max-confusion": "W_ij = |i - j|",
    "min-confusion": "W_ij = -|i - j|",
    "increasing-task-confusion": "W_ij = n - end of the session within one, n - 0.1 across",
    "equal-task-confusion": "W_ij = 0 within a session, n - 0.1 across",
    "decreasing-task-confusion": "W_ij = start of the session within one, n - 0.1 across",
}


def objective(kind: str, sizes: Sequence[int]) -> Floats:
    """W, (n, n): what confusion between positions i and j costs.

    Confusion within a late session is free with increasing task confusion, within an early one with
    decreasing: the first session is the least or the most confused.

    Parameters
    ----------
    sizes : sequence of int
        Classes of each session; max and min confusion know no sessions.
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


def order_score(W: Floats, matrix: NDArray[np.int64], order: Ints) -> float:
    """S(π) = Σ_ij W_ij M_π(i)π(j), the diagonal of M left out; lower is better."""
    reordered = matrix[np.ix_(order, order)].astype(np.float64)
    np.fill_diagonal(reordered, 0)
    return float((W * reordered).sum())


def anneal(W: Floats, matrix: NDArray[np.int64], seed: int, steps: int = STEPS) -> Ints:
    """The order with the lowest score that simulated annealing from the identity finds, (n,)."""
    from . import anneal as _anneal

    if len(W) < 2:
        return np.arange(len(W))
    both = (matrix + matrix.T).astype(np.float64)  # W is symmetric, so only the sum matters
    np.fill_diagonal(both, 0)
    draws = np.random.default_rng(seed).random((steps, 6))
    best: Ints = _anneal.anneal(W, both, START, COOLING, draws)[0]
    return best


def write_order(found: dict[str, Any], path: Path) -> None:
    """Write an order as JSON, the matrix a row a line; `run --order` reads it."""
    rows = found.get("matrix")
    text = json.dumps({**found, **({"matrix": 0} if rows else {})}, indent=1, ensure_ascii=False)
    if rows:
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        text = text.replace('\n "matrix": 0', f'\n "matrix": [\n{lines}\n ]')
    write_safely(path, text + "\n")


def order_text(found: dict[str, Any]) -> str:
    """Return an order as text: a class a line, and what was achieved."""
    head = [f"# {found['kind']}, seed {found['seed']}"]
    if "score" in found:
        errors = sum(map(sum, found["matrix"]))
        head += [
            f"# {found['objective']}",
            f"# score {found['score']:g}, of the natural order {found['natural_score']:g}; "
            f"{errors} errors in M",
        ]
    return "\n".join([*head, *found["order"]])
