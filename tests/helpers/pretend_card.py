"""A pretended card: tensors that say they are on "cuda:0" and hold their values on the CPU.

    with pretended_card():
        run_stream(stream, learner, Seeds.of(0), "cuda")

Every operation checks that its tensors are on one device, as a card's kernels do, and then computes
on the CPU. So it finds what was left on the other device: tensors, indices, masks, generators, and
`.numpy()` of what is on the card.

It shows nothing about bits, speed, memory, deterministic kernels or half precision (`autocast`
changes nothing on it). A seed gives the numbers that it gives on the CPU, which a real card does
not. It exists in one thread of one process: no tasks in parallel, no `torch.compile`, no nvJPEG. A
copy that is still under way when its source changes (`non_blocking`) is not seen.

How: to C++ these tensors are on PyTorch's "lazy" device, which nothing here uses otherwise. It
needs no driver, and its backward pass runs in the calling thread. What C++ makes "on the device of
its argument" is asked for on that device, and so becomes a tensor of the card.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from embedbench.learning import checkpoint_state

CARD = torch.device("cuda", 0)
STAND_IN = torch.device("lazy", 0)  # what C++ takes the card for
CPU = torch.device("cpu")
MEMORY = 80 * 2**30

aten = torch.ops.aten
# Operations that take tensors of both devices. Indices of a card's tensor may be on the CPU.
INDEXED = {
    *(aten.index.Tensor, aten.index_put_.default, aten.index_put.default),
    *(aten._index_put_impl_.default, aten._unsafe_index.Tensor, aten._unsafe_index_put.default),
}
COPIES = {aten.copy_.default, aten._foreach_copy_.default, aten.set_.source_Tensor}
# They take a number that is a tensor of the CPU, as all operations element by element do.
NUMBERS = {aten.fill_.Tensor, aten.masked_fill.Tensor, aten.masked_fill_.Tensor}
MADE_OF_DATA = {torch.tensor, torch.as_tensor, torch.asarray}
ITEMS = {torch.Tensor.__getitem__, torch.Tensor.__setitem__}
SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]


class OnCard(torch.Tensor):
    """A tensor of the card; `values` is a tensor of the CPU."""

    values: torch.Tensor

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> "OnCard":
        make: Any = torch.Tensor._make_wrapper_subclass  # type: ignore[attr-defined]
        memory = {"strides": values.stride(), "storage_offset": values.storage_offset()}
        made: OnCard = make(cls, values.size(), **memory, dtype=values.dtype, device=STAND_IN)
        made.values = values.detach()
        return made

    # what Python reads of the device
    device = property(lambda self: CARD)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.values.untyped_storage()

    def tolist(self) -> Any:
        return self.values.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnCard":
        copy = memo.setdefault(id(self), OnCard(self.values.clone()))
        copy.requires_grad_(self.requires_grad)
        if isinstance(self, nn.Parameter):
            copy._is_param = True
        return copy

    def record_stream(self, *_: Any) -> None:
        pass

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"OnCard({self.values})"

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return computed(operation, args, kwargs or {})


def computed(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operation, on the device on which it belongs."""
    tensors: list[torch.Tensor] = []
    bare = _bare(args, tensors)
    bare_options = {key: _bare(value, tensors) for key, value in kwargs.items()}
    on_card = _checked(operation, args, tensors)
    device = kwargs.get("device")
    to_card = on_card if device is None else device.type == STAND_IN.type
    if device is not None and to_card:
        bare_options["device"] = CPU
    draws = torch.Tag.nondeterministic_seeded in operation.tags and kwargs.get("generator") is None
    with _card_draws() if draws and to_card else nullcontext():
        result = operation(*bare, **bare_options)
    if not to_card or operation is aten._local_scalar_dense.default:
        return result
    return _wrapped(result, {id(t.values): t for t in tensors if isinstance(t, OnCard)})


def _bare(value: Any, tensors: list[torch.Tensor]) -> Any:
    """An argument with tensors of the CPU for those of the card; all go into a list."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return value.values if isinstance(value, OnCard) else value
    if isinstance(value, list | tuple):
        return type(value)([_bare(v, tensors) for v in value])
    return value


def _checked(operation: Any, args: tuple[Any, ...], tensors: list[torch.Tensor]) -> bool:
    """Whether an operation is the card's; refuses tensors of two devices."""
    left = [t for t in tensors if not isinstance(t, OnCard)]
    if len(left) == len(tensors):
        return False
    on_card = isinstance(tensors[0], OnCard)
    if not left or operation in COPIES:
        return on_card
    if operation in INDEXED and on_card:  # the values that are put must be the card's
        left = [t for t in args[2:3] if isinstance(t, torch.Tensor) and not isinstance(t, OnCard)]
    if operation in INDEXED | NUMBERS or torch.Tag.pointwise in operation.tags:
        left = [t for t in left if t.dim() > 0]
    if left or (operation in INDEXED and not on_card):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {operation} got some on cuda:0 "
            f"and some on cpu, of shapes {[tuple(t.shape) for t in left]}"
        )
    return True


def _wrapped(value: Any, known: dict[int, OnCard]) -> Any:
    """A result as tensors of the card; what was changed in place is the tensor that it was."""
    if isinstance(value, list | tuple):
        return type(value)([_wrapped(v, known) for v in value])
    if not isinstance(value, torch.Tensor):
        return value
    if id(value) not in known:
        return OnCard(value)
    same = known[id(value)]
    if same.size() != value.size():
        raise NotImplementedError("an operation that changes a tensor's shape in place")
    return same


class _Card:
    """The state of the card's global random numbers."""

    random = torch.Generator().get_state()


@contextmanager
def _card_draws() -> Iterator[None]:
    """Within this context the global random numbers are those of the card."""
    before = torch.get_rng_state()
    torch.set_rng_state(_Card.random)
    try:
        yield
    finally:
        _Card.random = torch.get_rng_state()
        torch.set_rng_state(before)


class _Operations(TorchDispatchMode):
    """Sees operations that take no tensor of the card, such as `zeros(device=…)`."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return computed(operation, args, kwargs or {})


class _Calls(TorchFunctionMode):
    """Names the stand-in to C++ where Python names the card; refuses the other's generators."""

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {key: _stand_in(v, key == "device") for key, v in (kwargs or {}).items()}
        args = tuple(_stand_in(v, call is torch.Tensor.to) for v in args)
        _check_generator(call, args, kwargs)
        if call is torch.Tensor.pin_memory:
            return args[0].clone()
        if call is torch.Tensor.new_tensor:
            like, *args = args
            call, kwargs = torch.tensor, {"dtype": like.dtype, "device": _of(like), **kwargs}
        if call in MADE_OF_DATA and kwargs.get("device") is not None:  # C++ copies it unseen
            device, grad = kwargs.pop("device"), kwargs.pop("requires_grad", False)
            made = call(*args, **kwargs).to(device)
            return made.requires_grad_() if grad else made
        if call in ITEMS and isinstance(args[0], OnCard):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            args = (args[0], tuple(map(_index, index)), *args[2:])
        if call == SET_DATA and isinstance(args[0], OnCard):
            args[0].values = args[1].values
        return call(*args, **kwargs)


def _index(index: Any) -> Any:
    """An index; C++ would make one out of a list on the stand-in, unseen."""
    if not isinstance(index, list):
        return index
    return torch.tensor(index, dtype=None if index else torch.int64).to(STAND_IN)


def _of(tensor: torch.Tensor) -> torch.device:
    return STAND_IN if isinstance(tensor, OnCard) else tensor.device


def _stand_in(value: Any, named: bool) -> Any:
    """The stand-in for the card; any other value as it is. `named`: a string names a device."""
    if not isinstance(value, (torch.device, str) if named else torch.device):
        return value
    device = torch.device(value)
    if device.type != "cuda":
        return value
    if device.index not in (None, 0):
        raise RuntimeError("CUDA error: invalid device ordinal")
    return STAND_IN


class _Generators(type(torch.Generator)):
    """Generators that were made before are generators, too."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class Generator(torch.Generator, metaclass=_Generators):
    """A generator that says whether it is the card's; C++ does not know."""

    of: torch.device

    def __new__(cls, device: Any = "cpu") -> "Generator":
        made = super().__new__(cls, "cpu")
        made.of = torch.device(device)
        return made

    device = property(lambda self: self.of)  # type: ignore[assignment]


def _check_generator(call: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    draws, device = kwargs.get("generator"), kwargs.get("device")
    if draws is None:
        return
    on_card = any(isinstance(a, OnCard) for a in args)
    wanted = "cuda" if on_card or (device and torch.device(device) == STAND_IN) else "cpu"
    given = getattr(draws, "of", CPU).type
    if given != wanted:
        raise RuntimeError(f"Expected a {wanted!r} device type for generator but found {given!r}")


def _apply(module: nn.Module, function: Any, recurse: bool = True) -> nn.Module:
    """`Module.to` and the like; a parameter that moves to the card stays the same object."""
    future = torch.__future__
    before = future.get_swap_module_params_on_conversion()
    future.set_swap_module_params_on_conversion(True)
    try:
        return _MODULE_APPLY(module, function, recurse)
    finally:
        future.set_swap_module_params_on_conversion(before)


def _without_grad(mode: bool) -> Any:
    """What `inference_mode` becomes, which shuts out tensors of Python: the same, but slower."""
    return torch.no_grad() if mode else torch.enable_grad()


def _node(writer: Any, value: Any, path: str) -> Any:
    """A checkpoint takes values by their exact type, which for a card's tensor is torch's."""
    if isinstance(value, OnCard) and not isinstance(value, nn.Parameter):
        return writer._named(value, path)
    return _STATES_NODE(writer, value, path)


class Stream:
    """A stream of the card, whose work is done at once."""

    def __init__(self, *_: Any) -> None:
        pass

    def wait_stream(self, *_: Any) -> None:
        pass


def _seed(seed: int) -> None:
    _Card.random = torch.Generator().manual_seed(seed).get_state()


_MODULE_APPLY, _STATES_NODE = nn.Module._apply, checkpoint_state._Writer.node
_DRIVER: dict[str, Any] = {  # of torch.cuda
    "is_available": lambda: True,
    "is_bf16_supported": lambda *_: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda _: None,
    "synchronize": lambda *_: None,
    "is_current_stream_capturing": lambda: False,
    "get_device_name": lambda *_: "a pretended card",
    "mem_get_info": lambda *_: (MEMORY, MEMORY),
    "max_memory_allocated": lambda *_: 0,
    "reset_peak_memory_stats": lambda *_: None,
    "get_rng_state": lambda *_: _Card.random.clone(),
    "set_rng_state": lambda state, device=None: setattr(_Card, "random", state.clone()),
    "manual_seed_all": _seed,
    "empty_cache": lambda: None,
    "Stream": Stream,
    "current_stream": Stream,
    "stream": nullcontext,
}
_CHANGES: list[tuple[Any, dict[str, Any]]] = [
    (torch.cuda, _DRIVER),
    (torch.accelerator, {"is_available": lambda: False}),
    (torch.backends.cudnn, {"version": lambda: None}),
    (torch, {"Generator": Generator}),
    (nn.Module, {"_apply": _apply}),
    (checkpoint_state._Writer, {"node": _node}),
    (torch._C, {"_InferenceMode": _without_grad}),
]


@contextmanager
def pretended_card() -> Iterator[None]:
    """Within this context "cuda" is the pretended card; afterwards all is as it was."""
    _seed(0)
    with ExitStack() as stack:
        for place, changes in _CHANGES:
            stack.enter_context(mock.patch.multiple(place, **changes))
        stack.enter_context(_Operations())
        stack.enter_context(_Calls())
        yield
