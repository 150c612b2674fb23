"""The steps of a self-organising map with a linear readout, one sample at a time, compiled."""

from typing import NamedTuple

import numpy as np

from embedbench.array_types import Array
from embedbench.system.compiled_loops import compile_loops

SOM_ONLY, JOINT, GATED = 0, 1, 2  # kinds of step; see `Rule`
# Below float32's resolution: a unit this far down a neighbourhood or a transfer changes nothing.
FADED = 16.0  # -log of a factor, e^-16 = 1e-7
LEAST_WIDTH = 1e-12  # least squared width of the transfer; reached only if all data are alike
# A block ends when a unit has kept only this share of its old position: coefficients are relative
# to the share and would overflow.
LEAST_LEFT = 1e-12

# The code that numba keeps names these classes. Who renames one removes the *.nbi in __pycache__,
# or loading what was compiled before fails.


class Draws(NamedTuple):
    """A block of n draws of S samples, which are ordered by their last draw."""

    drawn: Array  # (n,) rows of the block's samples
    over: Array  # (n,) how many samples are not drawn again after it
    labels: Array  # (S,) of the samples
    eps: Array  # (n,) the map's learning rate
    sigma: Array  # (n,) and its width, in units of the grid


class Rule(NamedTuple):
    """What every step of a block does.

    SOM_ONLY: it moves the map; JOINT: it moves the readout, and with a confidence under θ the map,
    too; GATED: it moves both if the confidence is under θ or the answer is wrong, else nothing.
    """

    what: int
    side: int  # of the grid
    kappa: float  # factor of the transfer's width
    sharpness: float  # p, its exponent
    ema: float  # rate of the mean distance; 0: frozen
    lr: float  # of the readout
    theta: float  # θ
    least_error: float  # the least mean distance


class Products(NamedTuple):
    """Inner products of S samples and U units, kept up to date."""

    P: Array  # (S, U) of samples and units
    G: Array  # (S, S) of samples with each other
    x2: Array  # (S,) squared lengths of samples
    w2: Array  # (U,) and of units


class Readout(NamedTuple):
    """The linear readout, and the distance that its input is measured by."""

    V: Array  # (U, C)
    b: Array  # (C,)
    error: Array  # (1,) float64, running mean of the distance between samples and nearest units


class Updates(NamedTuple):
    """What a block leaves: w ← left·(w + Σ_s moved_s x_s), and which draws were novel."""

    moved: Array  # (S, U), from zeros
    left: Array  # (U,), from ones
    novel: Array  # (n,) set to True for novel draws of JOINT and GATED


_fast = compile_loops("nnan", "nsz")


# Over 50 lines and left whole: cut in parts, the compiled loop is slower.
@_fast
def steps(draws: Draws, rule: Rule, products: Products, readout: Readout, updates: Updates) -> int:
    """Learn a block of draws in order; return how many draws were learned.

    A step needs only the inner products of samples and units. They are kept up to date for the S
    samples of the block, so a step costs about (U + C) operations and not U·D. The units themselves
    are updated at the end of the block, by what is in `updates`. P, `w2` and the readout change,
    too.
    """
    P = products.P
    x2 = products.x2
    w2 = products.w2
    V = readout.V
    b = readout.b
    error = readout.error
    labels = draws.labels
    n_units, n_classes = V.shape
    d2 = np.empty(n_units, np.float32)
    z = np.empty(n_units, np.float32)
    active = np.empty(n_units, np.int64)
    o = np.empty(n_classes, np.float32)
    a = np.zeros(n_units, np.float32)
    along = np.empty(rule.side)
    known = np.full(len(x2), -1)  # by sample: number of changes when it was last computed
    changes = 0
    for t in range(len(draws.drawn)):
        i = draws.drawn[t]
        if known[i] == changes:
            continue  # it was not novel, and nothing has changed
        best = _distances(P[i], x2[i], w2, d2)
        mean = error[0] + rule.ema * (np.sqrt(d2[best]) - error[0])
        error[0] = max(mean, rule.least_error)
        learns = rule.what == SOM_ONLY
        if rule.what != SOM_ONLY:
            n = _transfer(d2, d2[best], rule.kappa * error[0], rule.sharpness, z, active)
            sure, right = _read(z, active[:n], V, b, labels[i], o)
            learns = sure < rule.theta or (rule.what == GATED and not right)
            updates.novel[t] = learns
            if learns or rule.what == JOINT:
                _teach(z, active[:n], V, b, labels[i], o, rule.lr)
            else:
                known[i] = changes
        if learns:
            changes += 1
            low, high = _neighbourhood(best, rule.side, draws.eps[t], draws.sigma[t], along, a)
            least = _move(i, draws.over[t], low, high, a, products, updates)
            if least < LEAST_LEFT:
                return t + 1
    return len(draws.drawn)


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
    i: int, first: int, low: int, high: int, a: Array, products: Products, updates: Updates
) -> float:
    """w ← (1-a) w + a x_i for the units of [low, high), for the samples from `first` on.

    Returns the least share of its old position that a unit has kept.
    """
    P = products.P
    G = products.G
    x2 = products.x2[i]
    share = a[low:high]
    mine = P[i, low:high]
    squares = products.w2[low:high]
    sums = updates.moved[i, low:high]
    rest = updates.left[low:high]
    for k in range(len(share)):  # from 0, so that the compiler vectorises it
        stay = np.float32(1) - share[k]
        squares[k] *= stay * stay
        squares[k] += share[k] * (np.float32(2) * stay * mine[k] + share[k] * x2)
        rest[k] *= stay
        sums[k] += share[k] / rest[k]
    for s in range(first, len(P)):
        row = P[s, low:high]
        g = G[i, s]
        for k in range(len(share)):
            row[k] += share[k] * (g - row[k])
    return float(rest.min())
