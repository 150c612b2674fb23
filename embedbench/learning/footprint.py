"""What a learner holds between sessions: its state for checkpoints, and its bytes by kind."""

import copy
from typing import Any, ClassVar


class Footprint(dict[str, int]):
    """Bytes a learner holds between sessions, by kind ("parameters", "fisher", "samples", …)."""

    @property
    def total(self) -> int:
        """All kinds together, bytes."""
        return sum(self.values())


class Stateful:
    """A learner, or a part of one, whose state lies in the attributes that `state` names.

    Each has its kind in the footprint, or "transient" for what weighs nothing, such as a number.
    """

    state: ClassVar[dict[str, str]] = {}

    def footprint(self) -> Footprint:
        """Bytes held between sessions, by kind: those of the attributes in `state`."""
        held = Footprint()
        for name, kind in self.state.items():
            if kind != "transient":
                for part, size in _weigh(getattr(self, name), kind).items():
                    held[part] = held.get(part, 0) + size
        return held

    def state_dict(self) -> dict[str, Any]:
        """A copy of all learned state.

        It may hold tensors, NumPy arrays, numbers, strings, bool, None, and lists, tuples and
        dicts (with str or int keys) of them, and nothing else: a checkpoint is data. This method
        makes such values of attributes that are modules, optimisers, random generators (torch's
        and NumPy's), and of all that has a `state_dict`.
        """
        from .checkpoint_state import take_state

        return {name: copy.deepcopy(take_state(getattr(self, name))) for name in self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`; a learner has had its `start` with the same spec before."""
        from .checkpoint_state import put_state

        for name in self.state:
            setattr(self, name, put_state(getattr(self, name), copy.deepcopy(state[name])))


def tensor_bytes(*states: Any) -> int:
    """Bytes of tensors and arrays, also in dicts, lists and tuples; all else weighs nothing."""
    total = 0
    for state in states:
        if isinstance(state, dict):
            total += tensor_bytes(*state.values())
        elif isinstance(state, list | tuple):
            total += tensor_bytes(*state)
        else:
            total += int(getattr(state, "nbytes", 0))
    return total


def _weigh(part: Any, kind: str) -> dict[str, int]:
    """Bytes of a learner's part, by kind; a part with a `footprint` names the kinds itself.

    What is empty or None has no kind yet.
    """
    import torch

    from .checkpoint_state import take_state

    if hasattr(part, "footprint"):
        return dict(part.footprint())
    if isinstance(part, torch.nn.Module) and kind == "parameters":
        buffers = tensor_bytes(*part.buffers())  # statistics of BatchNorm
        sizes = {kind: tensor_bytes(*part.parameters())}
        return {**sizes, "buffers": buffers} if buffers else sizes
    if part is None or (isinstance(part, list) and not part):
        return {}
    return {kind: tensor_bytes(take_state(part))}
