"""Tools of the checks for learners: teach, ask for scores, compare, measure memory."""

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest import mock

import numpy as np
import torch

from embedbench.array_types import Array, Float32s, Floats
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.checkpoint_state import pack_state, unpack_state
from embedbench.learning.learner import Learner
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import SessionCosts
from embedbench.streams.stream import Stream
from embedbench.system.cpu_threads import limit_threads
from embedbench.system.gpu_determinism import repeatable

from .blob_streams import each_kind
from .check_building_blocks import CheckFailed, Checks, demand

SEEDS = Seeds.of(0)
# Hyperparameters of these names, nested ones too, get small values, so that checks are fast.
SMALL: dict[str, Any] = {
    "units": 32,
    "projections": 64,
    "features": 64,
    "batch_size": 16,
    "epochs": 3,
    "finetune_epochs": 3,
    "epoch_samples": 60,
    "side": 8,
    "iterations": 2_000,
    "som_iterations": 500,
    "hold": 100,
    "nudge_steps": 10,
    "retrain_steps": 10,
    "population": 8,
    "batches": 10,
    "cap": 40,
    "updates": 2,
}

TINY: dict[str, Any] = {"trunk": "resnet8", "epochs": 2}
FULL = {**TINY, "augment": "crop-flip", "frozen": 1}  # settings that reveal faults

# Attributes in which tables and views keep copies on a device; on the CPU they share memory.
COPIES = ("_tensors", "_indices")
_DEVICE: ContextVar[str] = ContextVar("device", default="cpu")

LearnerCheck = Callable[[type[Learner]], None]
LEARNER_CHECKS = Checks[type[Learner]]()


def learner_check(check: LearnerCheck) -> LearnerCheck:
    """Add a check to the suite. It runs on one thread, so that float32 sums have one order."""

    @functools.wraps(check)
    def on_one_thread(cls: type[Learner]) -> None:
        with limit_threads(1):
            check(cls)

    return LEARNER_CHECKS.add(on_one_thread)


def kinds_check(check: Callable[[Callable[[], Learner], Stream], None]) -> LearnerCheck:
    """Make a check of one stream a check on a stream of each kind that a learner takes.

    It gets what makes the learner: on images with settings that reveal faults.
    """

    @functools.wraps(check)
    def on_each_kind(cls: type[Learner]) -> None:
        for kind, stream in each_kind(cls.tags).items():
            settings = FULL if kind == "images" else {}
            try:
                check(functools.partial(small, cls, **settings), stream)
            except CheckFailed as failure:
                raise CheckFailed(f"on {kind}: {failure}") from None

    return learner_check(on_each_kind)


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Within this context the checks use this device, with repeatable arithmetic."""
    token = _DEVICE.set(name)
    try:
        with repeatable(name):
            yield
    finally:
        _DEVICE.reset(token)


def device() -> str:
    """The device that the checks use."""
    return _DEVICE.get()


def run(stream: Stream, learner: Learner, **more: Any) -> tuple[RunAnswers, list[SessionCosts]]:
    """`run_stream` on the device of the checks."""
    return run_stream(stream, learner, SEEDS, device(), **more)


def small(cls: type[Learner], **more: Any) -> Learner:
    """A new learner with default hyperparameters, except those in `SMALL` and `more`."""
    settings = _small_settings(cls, {**SMALL, **more})
    learner: Learner = make(cls, settings, name=cls.__name__)
    return learner


def _small_settings(cls: type, small: Mapping[str, Any]) -> dict[str, Any]:
    is_dataclass = dataclasses.is_dataclass(cls)
    demand(is_dataclass, f"{cls.__name__} must be a dataclass: write @dataclass over it")
    hints = typing.get_type_hints(cls)
    settings: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        if f.name in small:
            settings[f.name] = small[f.name]
        elif dataclasses.is_dataclass(hints[f.name]) and isinstance(hints[f.name], type):
            settings[f.name] = _small_settings(hints[f.name], small)
    return settings


def teach(learner: Learner, stream: Stream) -> RunAnswers:
    """Run the learner through the stream; its answers must not be NaN."""
    predictions, _ = run(stream, learner)
    missing = int(predictions.find_unanswered().sum())
    demand(not missing, f"expected an answer to every sample, got NaN scores for {missing}")
    return predictions


def going_on(learner: Learner, state: dict[str, Any] | None = None) -> AbstractContextManager[Any]:
    """Within this context `start` keeps what was learned, or loads `state` after starting."""
    start = learner.start

    def resume(*args: Any) -> None:
        if state is not None:
            start(*args)
            learner.load_state_dict(state)

    return mock.patch.object(learner, "start", resume)


def as_loaded(state: dict[str, Any]) -> dict[str, Any]:
    """A state as it comes back from a checkpoint."""
    try:
        return unpack_state(pack_state(state), device())
    except UserError as error:
        raise CheckFailed(str(error)) from error


def cut(stream: Stream, n: int) -> tuple[Stream, Stream]:
    """The first `n` sessions of a stream, and the others."""
    parts = stream.sessions[:n], stream.sessions[n:]
    first, rest = (dataclasses.replace(stream, sessions=s) for s in parts)
    return first, rest


def probe(stream: Stream) -> torch.Tensor:
    """All test samples of the stream, (n, D)."""
    return torch.cat([e.x.tensor() for e in stream.eval_sets])


def ask(
    learner: Learner, stream: Stream, x: torch.Tensor | None = None, cut: int = 10**6, turn: int = 0
) -> Floats:
    """Scores of `x` (by default the test samples), asked in batches of `cut`, (n, C).

    `turn` is added to the session ids, modulo their number, if the stream reveals them.
    """
    sizes = [len(e.x) for e in stream.eval_sets]
    ids = (torch.repeat_interleave(torch.tensor(sizes)) + turn) % len(sizes)
    x = probe(stream) if x is None else x
    ids = ids[: len(x)]
    out = []
    with torch.inference_mode():
        for batch, numbers in zip(torch.split(x, cut), torch.split(ids, cut), strict=True):
            session_id = numbers.to(device()) if stream.spec.reveals_session_id else None
            scores = torch.as_tensor(learner.scores(batch.to(device()), session_id=session_id))
            shape = (len(batch), stream.spec.n_classes)
            got = tuple(scores.shape)
            demand(got == shape, f"expected scores of shape {shape}, got {got}")
            out.append(scores.cpu())
    joined: Floats = torch.cat(out).double().numpy()
    return joined


def measure_difference(a: Floats, b: Floats) -> float:
    """The largest difference of two tables of scores, each row relative to its largest in `a`."""
    size = np.maximum(np.abs(a).max(axis=1, keepdims=True), 1e-30)
    return float((np.abs(b - a) / size).max())


def demand_right(answers: RunAnswers, where: str) -> None:
    """Raise `CheckFailed` unless 90 % of the last answers are right."""
    right = float(np.mean(answers.answer[-1] == answers.y))
    demand(right >= 0.9, f"expected at least 90 % right {where}, got {right:.0%}")


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal to the last bit; dicts, lists, tensors and arrays by content."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor | np.ndarray) and isinstance(b, torch.Tensor | np.ndarray):
        return as_array(a).tobytes() == as_array(b).tobytes() and a.shape == b.shape
    return bool(a == b)


def demand_same(what: str, first: Any, *others: Any) -> None:
    """Raise `CheckFailed` unless all values are equal to the last bit."""
    demand(all(same(first, o) for o in others), f"expected the same {what}, got others")


def as_array(value: torch.Tensor | Array) -> Array:
    """A tensor or array as an array; bfloat16, which NumPy lacks, becomes float32."""
    if isinstance(value, np.ndarray):
        return value
    value = value.detach().cpu()
    array: Array = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return array


def reachable(root: Any) -> Iterator[Any]:
    """Every tensor, array and number that can be reached from an object, each object once.

    It follows attributes, containers and closures: everything that the object holds in memory.
    """
    stack = [root]
    seen = set()
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor | np.ndarray | int | float):
            yield value
        elif isinstance(value, Mapping):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset) or hasattr(value, "popleft"):
            stack += [*value]
        elif callable(value) and getattr(value, "__closure__", None):
            stack += [cell.cell_contents for cell in value.__closure__]
        held = getattr(value, "__dict__", {})
        stack += [v for name, v in held.items() if name not in COPIES or device() == "cpu"]


def held_bytes(root: Any) -> int:
    """Bytes of everything reachable: shared memory counts once, a number 8 bytes."""
    storages: dict[int, int] = {}
    numbers = 0
    for value in reachable(root):
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            storages[value.ctypes.data] = value.nbytes
        else:
            numbers += 8
    return numbers + sum(storages.values())


def samples_held(root: Any, samples: Float32s) -> int:
    """Count the rows of reachable tables that equal a training sample, in any precision."""
    width = samples.shape[1]
    count = 0
    for value in reachable(root):
        if not isinstance(value, torch.Tensor | np.ndarray):
            continue
        table = as_array(value)
        if table.dtype.kind != "f" or table.size == 0 or table.size % width:
            continue
        known = {row.tobytes() for row in samples.astype(table.dtype)}
        count += sum(row.tobytes() in known for row in table.reshape(-1, width))
    return count


def state_bytes(state: Any) -> int:
    """Bytes of the tensors in a state dict, without those of optimisers."""
    if isinstance(state, Mapping):
        if {"state", "param_groups"} <= state.keys():
            return 0
        return sum(state_bytes(v) for v in state.values())
    if isinstance(state, list | tuple):
        return sum(state_bytes(v) for v in state)
    return int(state.nbytes) if isinstance(state, torch.Tensor | np.ndarray) else 0
