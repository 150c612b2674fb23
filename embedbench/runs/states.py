"""States of what a run consists of, as bytes and back."""

from __future__ import annotations

import io
from typing import Any, cast

import numpy as np
import torch


def packed(state: dict[str, Any]) -> bytes:
    """A state as bytes."""
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def unpacked(data: bytes, device: str) -> dict[str, Any]:
    """The state in bytes of `packed`; what lay on a GPU goes to `device`, the rest to memory."""

    def located(storage: Any, place: str) -> Any:
        here = device if place.startswith("cuda") else place
        return torch.serialization.default_restore_location(storage, here)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    # our own bytes; NumPy arrays in a state need the full unpickler
    return cast(dict[str, Any], torch.load(io.BytesIO(data), located, weights_only=False))


def state_of(part: Any) -> Any:
    """The state of a random generator, or of what has a `state_dict`."""
    if isinstance(part, torch.Generator):
        return part.get_state()
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    return part.state_dict()


def put_state(part: Any, state: Any) -> None:
    """Give a part the state that `state_of` returned."""
    if isinstance(part, torch.Generator):
        part.set_state(state)
    elif isinstance(part, np.random.Generator):
        part.bit_generator.state = state
    else:
        part.load_state_dict(state)


def random_states(device: str) -> list[torch.Tensor]:
    """The global random states of torch, which layers such as dropout draw from."""
    states = [torch.get_rng_state()]
    if device.startswith("cuda"):
        states.append(torch.cuda.get_rng_state(device))
    return states


def set_random_states(states: list[torch.Tensor], device: str) -> None:
    """Set the global random states of torch to those that `random_states` returned."""
    torch.set_rng_state(states[0])
    if device.startswith("cuda"):
        torch.cuda.set_rng_state(states[1], device)
