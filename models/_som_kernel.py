"""The steps of a self-organising map with a linear readout, one sample at a time, compiled."""

import numpy as np

from embedbench.array_types import Array
from embedbench.system.compiled_loops import compile_loops

SOM_ONLY, JOINT, GATED = 0, 1, 2  # kinds of step; see `steps`
# Below float32's resolution: a unit this far down a neighbourhood or a transfer changes nothing.
FADED = 16.0  # -log of a factor, e^-16 = 1e-7
LEAST_WIDTH = 1e-12  # least squared width of the transfer; reached only if all data are alike
# A block ends when a unit has kept only this share of its old position: coefficients are relative
# to the share and would overflow.
LEAST_LEFT = 1e-12

Arrays = tuple[Array, ...]
_fast = compile_loops("nnan", "nsz")


# Over 50 lines and left whole: cut in parts, the compiled loop is slower.
@_fast
def steps(
    draws: Arrays,
    what: int,
    side: int,
    transfer: tuple[float, float],
    rates: tuple[float, float],
    limits: tuple[float, float],
    products: Arrays,
    readout: Arrays,
    changed: Arrays,
) -> int:
    """Learn a block of draws in order; return how many draws were learned.

    A step needs only the inner products of samples and units. They are kept up to date for the S
    samples of the block, so a step costs about (U + C) operations and not U·D. The units themselves
    are updated at the end of the block: w ← left·(w + Σ_s moved_s x_s).

    `draws` are: `drawn` (n,), rows of the block's samples, which are ordered by their last draw;
    `over` (n,), how many samples are not drawn again after it; `labels` (S,) of the samples; `eps`
    and `sigma` (n,), the map's learning rate and width (units of the grid). `what` is SOM_ONLY:
    every step moves the map; JOINT: every step moves the readout, and with a confidence under
    θ the map, too; or GATED: a step moves both if the confidence is under θ or the answer is
    wrong, else nothing. `transfer` is the factor of κ and the sharpness p, `rates` are those of the
    mean distance (0: frozen) and of the readout; `limits` are θ and the least mean distance.

    `products` are: P (S, U), inner products of samples and units; G (S, S), of samples with each
    other; squared lengths `x2` (S,) of samples and `w2` (U,) of units. `readout` is V (U, C), `b`
    (C,), and `error` (1,) float64, the running mean of the distance between samples and nearest
    units. `changed` are the coefficients of the units' update, `moved` (S, U) from zeros and `left`
    (U,) from ones; and `novel` (n,), set to True for novel draws of JOINT and GATED. Of the others,
    P, `w2` and the readout change, too.
    """
    drawn, over, labels, eps, sigma = draws
    P, G, x2, w2 = products
    V, b, error = readout
    moved, left, novel = changed
    theta, least_error = limits
    n_units, n_classes = V.shape
    d2, z = np.empty(n_units, np.float32), np.empty(n_units, np.float32)
    active = np.empty(n_units, np.int64)
    o = np.empty(n_classes, np.float32)
    a, along = np.zeros(n_units, np.float32), np.empty(side)
    known = np.full(len(x2), -1)  # by sample: number of changes when it was last computed
    changes = 0
    for t in range(len(drawn)):
        i = drawn[t]
        if known[i] == changes:
            continue  # it was not novel, and nothing has changed
        best = _distances(P[i], x2[i], w2, d2)
        error[0] = max(error[0] + rates[0] * (np.sqrt(d2[best]) - error[0]), least_error)
        learns = what == SOM_ONLY
        if what != SOM_ONLY:
            n = _transfer(d2, d2[best], transfer[0] * error[0], transfer[1], z, active)
            sure, right = _read(z, active[:n], V, b, labels[i], o)
            learns = sure < theta or (what == GATED and not right)
            novel[t] = learns
            if learns or what == JOINT:
                _teach(z, active[:n], V, b, labels[i], o, rates[1])
            else:
                known[i] = changes
        if learns:
            changes += 1
            low, high = _neighbourhood(best, side, eps[t], sigma[t], along, a)
            least = _move(i, over[t], low, high, a, P, G, x2[i], w2, moved, left)
            if least < LEAST_LEFT:
                return t + 1
    return len(drawn)


@_fast
def _distances(p: Array, x2: float, w2: Array, d2: Array) -> int:
    """Squared distances of one sample to all units, into `d2` (U,); return the nearest unit."""
    for y in range(len(d2)):
        d2[y] = max(w2[y] - np.float32(2) * p[y] + x2, np.float32(0))
    bits = d2.view(np.int32)  # ordered like the numbers, as none is negative
    least = bits[0]
    for y in range(len(bits)):  # with floats the compiler would not vectorise this loop
        least = min(least, bits[y])
    y = 0
    while bits[y] != least:
        y += 1
    return y


@_fast
def _transfer(d2: Array, least: float, kappa: float, p: float, z: Array, active: Array) -> int:
    """Activities of the n active units into `z`, their indices into `active`; return n."""
    width = 2 * max(kappa * kappa, LEAST_WIDTH)
    peak, sharp = np.float32(np.exp(-least / width)), np.float32(p / width)
    n = 0
    for y in range(len(d2)):
        q = sharp * (d2[y] - least)
        if q < FADED:
            z[n], active[n] = peak * np.exp(-q), y
            n += 1
    return n


@_fast
def _read(z: Array, active: Array, V: Array, b: Array, label: int, o: Array) -> tuple[float, bool]:
    """Outputs into `o` (C,); return first minus second output, and whether the answer is right."""
    o[:] = b
    for k in range(len(active)):
        row = V[active[k]]
        for c in range(len(o)):
            o[c] += z[k] * row[c]
    first = 0
    for c in range(len(o)):
        if o[c] > o[first]:
            first = c
    second = np.float32(-np.inf)
    for c in range(len(o)):
        if c != first:
            second = max(second, o[c])
    return o[first] - second, first == label


@_fast
def _teach(z: Array, active: Array, V: Array, b: Array, label: int, o: Array, rate: float) -> None:
    """One step of linear regression on the one-hot label; `o` becomes the step of the bias.

    The step is never longer than the one that would answer the sample without error.
    """
    energy = np.float32(1)
    for k in range(len(active)):
        energy += z[k] * z[k]
    step = np.float32(2 * rate)
    if step * energy > 1:
        step = np.float32(1) / energy
    for c in range(len(o)):
        o[c] = -step * o[c]
    o[label] += step
    for c in range(len(o)):
        b[c] += o[c]
    for k in range(len(active)):
        row = V[active[k]]
        for c in range(len(o)):
            row[c] += z[k] * o[c]


@_fast
def _neighbourhood(
    best: int, side: int, eps: float, sigma: float, along: Array, a: Array
) -> tuple[int, int]:
    """Shares by which units move, into `a`; return the range [low, high) of these units.

    On the grid, a Gaussian of the distance is the product of one along rows and one along columns.
    """
    reach = min(side - 1, int(sigma * np.sqrt(2 * FADED)))
    for k in range(reach + 1):
        along[k] = np.exp(-k * k / (2 * sigma * sigma))
    row, column = best // side, best % side
    top, bottom = max(row - reach, 0), min(row + reach + 1, side)
    a[top * side : bottom * side] = 0
    for r in range(top, bottom):
        for c in range(max(column - reach, 0), min(column + reach + 1, side)):
            a[r * side + c] = eps * along[abs(r - row)] * along[abs(c - column)]
    return top * side, bottom * side


@_fast
def _move(
    i: int,
    first: int,
    low: int,
    high: int,
    a: Array,
    P: Array,
    G: Array,
    x2: float,
    w2: Array,
    moved: Array,
    left: Array,
) -> float:
    """w ← (1-a) w + a x_i for the units of [low, high), for the samples from `first` on.

    Returns the least share of its old position that a unit has kept.
    """
    share, mine, squares = a[low:high], P[i, low:high], w2[low:high]
    sums, rest = moved[i, low:high], left[low:high]
    for k in range(len(share)):  # from 0, so that the compiler vectorises it
        stay = np.float32(1) - share[k]
        squares[k] *= stay * stay
        squares[k] += share[k] * (np.float32(2) * stay * mine[k] + share[k] * x2)
        rest[k] *= stay
        sums[k] += share[k] / rest[k]
    for s in range(first, len(P)):
        row, g = P[s, low:high], G[i, s]
        for k in range(len(share)):
            row[k] += share[k] * (g - row[k])
    return float(rest.min())
