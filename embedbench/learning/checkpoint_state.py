"""States of what a run consists of: taken, put back, and as bytes of safetensors and JSON.

In bytes a tensor or array is a tensor of safetensors; all else is JSON, in one more tensor. A
checksum is before them. Reading them runs no code.
"""

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from embedbench.errors import UserError

CHECKSUM = 32  # bytes before the safetensors
JSON = "json"  # name of the tensor that holds the JSON
DTYPES = {
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}
PLAIN = (
    "tensors, NumPy arrays, numbers, strings, bool, None, and lists, tuples and dicts (with str or "
    "int keys) of them"
)


class DamagedStateError(Exception):
    """Bytes that hold no state: they are damaged, or something else."""


def pack_state(state: dict[str, Any], mark: bytes = b"") -> bytes:
    """A state as bytes; `mark` enters the checksum, and `unpack_state` must be given the same.

    Types, dtypes and memory layouts are kept. A tensor in two places is written once, and is one
    object again. Tensors that share memory otherwise, as views do, become copies.
    """
    writer = _Writer()
    text = json.dumps(writer.node(state, "")).encode()
    data = save({**writer.tensors, JSON: torch.frombuffer(bytearray(text), dtype=torch.uint8)})
    return _checksum(data, mark) + data


def unpack_state(data: bytes, device: str, mark: bytes = b"") -> dict[str, Any]:
    """The state in bytes of `pack_state`; what lay on a GPU goes to `device`, the rest to memory.

    Raises
    ------
    DamagedStateError
        `pack_state` did not make these bytes with this mark.
    """
    content = data[CHECKSUM:]
    if data[:CHECKSUM] != _checksum(content, mark):
        raise DamagedStateError
    try:
        tensors = load(content)
        text = tensors.pop(JSON).numpy().tobytes()
        state: dict[str, Any] = _Reader(tensors, device).value(json.loads(text))
    except Exception as error:  # of safetensors, json and torch, which raise many kinds
        raise DamagedStateError from error
    if not isinstance(state, dict):
        raise DamagedStateError
    return state


def _checksum(data: bytes, mark: bytes) -> bytes:
    checksum = hashlib.sha256(mark)
    checksum.update(data)
    return checksum.digest()


class _Writer:
    """Turns values into JSON that names tensors; `tensors` has them by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._names: dict[int, str] = {}  # by the id of a tensor or array
        self._storages: set[int] = set()  # addresses; safetensors takes each storage once

    def node(self, value: Any, path: str) -> Any:
        """A value as JSON; `path` names it in errors."""
        kind = type(value)
        if kind in (int, str, bool, type(None)) or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": str(value)}
        if kind in (list, tuple):
            nodes = [self.node(v, f"{path}[{i}]") for i, v in enumerate(value)]
            return nodes if kind is list else {"tuple": nodes}
        if kind in (dict, OrderedDict):
            for key in value:
                if type(key) not in (str, int):
                    raise _refused(key, f"a key of {path}")
            at = f"{path}." if path else ""
            return {"dict": [[k, self.node(v, f"{at}{k}")] for k, v in value.items()]}
        if kind in (torch.Tensor, np.ndarray) or isinstance(value, np.generic):
            return self._named(value, path)
        raise _refused(value, path)

    def _named(self, value: Any, path: str) -> dict[str, Any]:
        """The name of a tensor, an array or a NumPy scalar, and what safetensors does not hold."""
        kind, tensor = "tensor", value
        if not isinstance(value, torch.Tensor):
            kind = "array" if isinstance(value, np.ndarray) else "scalar"
            try:
                tensor = torch.from_numpy(np.array(value))  # a copy that torch may write to
            except (TypeError, ValueError):
                raise _refused(value, path) from None
        if tensor.dtype not in DTYPES or tensor.layout != torch.strided or tensor.requires_grad:
            raise _refused(value, path)
        name = self._names.setdefault(id(value), str(len(self._names)))
        if name not in self.tensors:
            self.tensors[name] = self._alone(tensor)
        layout = tensor.stride() if _is_dense(tensor.shape, tensor.stride()) else None
        return {kind: {"name": name, "stride": layout, "moved": tensor.device.type != "cpu"}}

    def _alone(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as safetensors takes it: in memory, contiguous, in a storage of its own."""
        tensor = tensor.cpu().contiguous()
        if tensor.untyped_storage().data_ptr() in self._storages:
            tensor = tensor.clone()
        self._storages.add(tensor.untyped_storage().data_ptr())
        return tensor


def _refused(value: Any, path: str) -> UserError:
    kind = type(value).__name__
    if hasattr(value, "dtype"):
        kind += f" ({value.dtype})"
    if getattr(value, "requires_grad", False):
        kind += ", which requires a gradient"
    return UserError(
        f"a checkpoint can hold {PLAIN}, but {path!r} of the state is of type {kind}",
        "store it as one of these",
    )


class _Reader:
    """Turns JSON that names tensors into values; unexpected JSON raises errors of many kinds."""

    def __init__(self, tensors: dict[str, torch.Tensor], device: str) -> None:
        self.tensors, self.device = tensors, device
        self._made: dict[tuple[str, str], Any] = {}

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.value(n) for n in node]
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "float":
            return float(content)
        if kind in ("tuple", "dict"):
            items = self.value(_typed(content, list))
            return tuple(items) if kind == "tuple" else {_typed(k, str, int): v for k, v in items}
        key = kind, content["name"]
        if key not in self._made:
            self._made[key] = self._array(kind, **content)
        return self._made[key]

    def _array(self, kind: str, name: str, stride: list[int] | None, moved: bool) -> Any:
        tensor = self.tensors[name]
        if stride is None:
            tensor = tensor.clone()  # aligned as torch aligns memory
        elif _is_dense(tensor.shape, stride):
            tensor = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype).copy_(tensor)
        else:
            raise ValueError("a stride of another shape")
        if kind == "tensor":
            return tensor.to(self.device) if moved else tensor
        return {"array": tensor.numpy(), "scalar": tensor.numpy()[()]}[kind]


def _typed(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise TypeError(f"a {type(value).__name__}")
    return value


def _is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a tensor with these strides fills its memory."""
    if len(shape) != len(stride):
        return False
    last = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    return last + 1 == math.prod(shape)


def take_state(part: Any) -> Any:
    """The state of a random generator or of what has a `state_dict`; other values are their own."""
    if isinstance(part, torch.Generator):
        return part.get_state()
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    return part.state_dict() if hasattr(part, "state_dict") else part


def put_state(part: Any, state: Any) -> Any:
    """Give a part the state that `take_state` returned; return the part, or the value in its place.

    A state that does not fit raises whatever the part raises.
    """
    if isinstance(part, torch.Generator):
        part.set_state(state)
    elif isinstance(part, np.random.Generator):
        part.bit_generator.state = state
    elif hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
        if isinstance(part, torch.optim.Optimizer):
            _check_moments(part)
    else:
        return state
    return part


def _check_moments(optimiser: torch.optim.Optimizer) -> None:
    """Raise ValueError for moments that a fused step, which looks at no sizes, would overrun."""
    for group in optimiser.param_groups:
        if not (group.get("fused") or optimiser.defaults.get("fused")):
            continue
        for p in group["params"]:
            for name, value in optimiser.state.get(p, {}).items():
                if isinstance(value, torch.Tensor) and name != "step" and value.shape != p.shape:
                    raise ValueError(f"{name} is of shape {tuple(value.shape)}")


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
