"""The bytes that a learner holds between sessions, by kind."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Footprint(dict[str, int]):
    """Bytes a learner holds between sessions, by kind ("parameters", "fisher", "samples", …)."""

    @property
    def total(self) -> int:
        """All kinds together, bytes."""
        return sum(self.values())


def tensor_bytes(*tensors: "torch.Tensor") -> int:
    """Bytes of tensors, each counted once."""
    return sum(t.numel() * t.element_size() for t in tensors)


def weigh(part: Any, kind: str) -> dict[str, int]:
    """Bytes of a learner's part, by kind; a part with a `footprint` names the kinds itself.

    What is empty or None has no kind yet.
    """
    import torch

    from .checkpoint_state import take_state

    if hasattr(part, "footprint"):
        return dict(part.footprint())
    if isinstance(part, torch.nn.Module) and kind == "parameters":
        buffers = _size(list(part.buffers()))  # statistics of BatchNorm
        sizes = {kind: _size(list(part.parameters()))}
        return {**sizes, "buffers": buffers} if buffers else sizes
    if part is None or (isinstance(part, list) and not part):
        return {}
    return {kind: _size(take_state(part))}


def _size(state: Any) -> int:
    """Bytes of all tensors and arrays in a state; settings of an optimiser are no tensors."""
    if isinstance(state, dict):
        return sum(map(_size, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(_size, state))
    import numpy as np
    import torch

    return int(state.nbytes) if isinstance(state, torch.Tensor | np.ndarray) else 0
