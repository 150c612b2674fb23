"""The bytes that a learner holds between sessions, by kind."""

from typing import TYPE_CHECKING

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
