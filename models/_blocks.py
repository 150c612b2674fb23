"""Samples in blocks of one size, however the stream is cut: large products, and the same bits."""

from collections.abc import Iterator
from typing import Any

import torch

BLOCK = 256  # samples at once


class Blocks:
    """Collects batches x (b, D), y (b,) into blocks of `BLOCK` samples.

    A product with ten rows takes as long as one with fifty, because it reads the whole matrix that
    it adds to. What is left waits for the next batch, or for `rest`, which `prepare` calls: between
    evaluations at most `BLOCK` - 1 samples wait, after one none.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, x: torch.Tensor, y: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Add a batch; the blocks that are now complete."""
        self.waiting.append((x, y))
        if sum(len(part) for _, part in self.waiting) < BLOCK:
            return
        x, y = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        whole = len(y) - len(y) % BLOCK
        self.waiting = [(x[whole:].clone(), y[whole:].clone())] if whole < len(y) else []
        yield from zip(torch.split(x[:whole], BLOCK), torch.split(y[:whole], BLOCK), strict=True)

    def rest(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The samples that wait, as one block."""
        if self.waiting:
            x, y = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
            self.waiting = []
            yield x, y

    def state_dict(self) -> dict[str, Any]:
        """The samples that wait."""
        return {"waiting": [tuple(part.clone() for part in batch) for batch in self.waiting]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.waiting = [(x, y) for x, y in state["waiting"]]
