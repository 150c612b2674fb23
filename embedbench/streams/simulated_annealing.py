"""Simulated annealing of a class order, compiled."""

import numpy as np

from embedbench.array_types import Array
from embedbench.system.compiled_loops import compile_loops

WINDOW = 100  # positions that one move of a block may touch, so that it costs O(100 n) at most
LEAST = 1e-6  # a move that changes S by less is not made

_fast = compile_loops()


@_fast
def anneal(W: Array, B: Array, start: float, cooling: float, draws: Array) -> tuple[Array, float]:
    """Lower S = Σ_{i<j} W_ij B_ij by reordering; return the best order and its S minus the first S.

    W (n, n) are weights of the positions, B (n, n) confusions of the classes with zeros on the
    diagonal, both symmetric. B is reordered in place, so that every sum runs along rows; the
    difference of S is summed up move by move. `draws` (steps, 6) are uniform in [0, 1).

    Half of the moves swap two positions, half exchange two neighbouring blocks (a block is cut out
    and put back elsewhere). A move that changes S by Δ is made with probability min(1, exp(-Δ /
    T)), T = start · cooling^step.
    """
    n = len(W)
    order = np.arange(n)
    best = np.arange(n)
    held = np.empty(n)
    score, lowest, temperature = 0.0, 0.0, start
    window = min(n, WINDOW)
    for u in draws:
        if u[0] < 0.5:
            p = int(u[1] * n)
            q = int(u[2] * (n - 1))
            q += q >= p
            places = np.array([p, q])
            moved = np.array([q, p])
            change = _swap_change(W, B, p, q)
        else:
            first = int(u[4] * (n - window + 1))
            cuts = np.sort((u[1:4] * (window + 1)).astype(np.int64)) + first
            places = np.arange(cuts[0], cuts[2])
            moved = np.concatenate((places[cuts[1] - cuts[0] :], places[: cuts[1] - cuts[0]]))
            change = _block_change(W, B, cuts[0], moved)
        chance = np.exp(-change / temperature) if temperature > 0 else 0.0
        if change < -LEAST or (change > LEAST and u[5] < chance):
            score += change
            order[places] = order[moved]
            _apply(B, places, moved, held)
            if score < lowest:
                lowest = score
                best[:] = order
        temperature *= cooling
    return best, lowest


@_fast
def _apply(B: Array, places: Array, moved: Array, held: Array) -> None:
    """Reorder rows and columns of B; `held` has space for n numbers."""
    B[places] = B[moved]
    m = len(places)
    for row in B:
        for i in range(m):
            held[i] = row[moved[i]]
        for i in range(m):
            row[places[i]] = held[i]


@_fast
def _swap_change(W: Array, B: Array, p: int, q: int) -> float:
    """Change of S if positions p and q swap their classes, O(n)."""
    total: float = 0.0
    for k in range(len(W)):
        total += (W[p, k] - W[q, k]) * (B[q, k] - B[p, k])
    # the sum includes k = p and k = q, whose classes swap too; W_pq B_pq does not change
    total -= (W[p, p] + W[q, q] - 2 * W[p, q]) * B[p, q]
    return total


@_fast
def _block_change(W: Array, B: Array, p: int, moved: Array) -> float:
    """Change of S if position p + i takes the class of position moved[i], O(n · len(moved))."""
    q = p + len(moved)
    total = 0.0
    for i in range(len(moved)):
        new = B[moved[i]]
        old = B[p + i]
        weights = W[p + i]
        for k in range(p):
            total += weights[k] * (new[k] - old[k])
        for k in range(q, len(W)):
            total += weights[k] * (new[k] - old[k])
        for j in range(i):
            total += weights[p + j] * (new[moved[j]] - old[p + j])
    return total
