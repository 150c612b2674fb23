"""How much rows change with the batch size, from call to call and from card to card."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_parts.machine import card_name
from gpu_parts.step import Bench, Figure

KEPT = 16, 64  # rows and columns that are stored for comparison with another card

Rows = Callable[[int], NDArray[np.float32]]


def bits(name: str, rows: Rows, usual: int, sizes: Sequence[int], bench: Bench) -> list[Figure]:
    """Compare the rows of a model, and return lines of the table.

    Parameters
    ----------
    rows : Rows
        Function from a batch size to the rows, (n, D).
    usual : int
        The batch size of `extract`.
    sizes : sequence of int
        Other batch sizes.
    """
    whole = rows(usual)
    lines = [_line(f"{name}: a second time", whole, rows(usual), "same bits")]
    lines += [
        _line(f"{name}: batches of {size} in place of {usual}", whole, rows(size)) for size in sizes
    ]
    few = np.ascontiguousarray(whole[: KEPT[0], : KEPT[1]])
    key, here = f"rows/{name}", card_name(bench.device)
    bench.left[key] = base64.b64encode(few.tobytes()).decode()
    for card, kept in bench.kept.items():
        if card != here and key in kept:
            values = np.frombuffer(base64.b64decode(kept[key]), np.float32)
            other = values.reshape(-1, few.shape[1])
            lines.append(_line(f"{name}: {here} in place of {card}", few, other))
    return lines


def _line(what: str, a: NDArray[np.float32], b: NDArray[np.float32], aim: str = "") -> Figure:
    same = a.tobytes() == b.tobytes()
    off = float(np.abs(a - b).max() / np.abs(a).max())
    figure = "same bits" if same else f"{off:.1e} of the largest value apart"
    return Figure(what, figure, aim, same if aim else None, values={"same": same, "off": off})
