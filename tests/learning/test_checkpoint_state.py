"""States as bytes: what they hold comes back exactly, and nothing else goes in or comes out."""

import io
import json
import math
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pickled import Hostile
from safetensors.torch import load, save
from torch import nn

from embedbench.errors import UserError
from embedbench.learning.checkpoint_state import (
    DTYPES,
    DamagedStateError,
    _checksum,
    pack_state,
    put_state,
    take_state,
    unpack_state,
)
from embedbench.learning.optimisers import OPTIMISERS


def back(state: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    return unpack_state(pack_state(state), device)


def assert_same(a: Any, b: Any) -> None:
    """Equal to the last bit, with types, dtypes and memory layouts."""
    assert type(a) is type(b) or {type(a), type(b)} == {dict, OrderedDict}
    if isinstance(b, dict):
        assert list(a) == list(b)
        assert [type(k) for k in a] == [type(k) for k in b]
        for k in b:
            assert_same(a[k], b[k])
    elif isinstance(b, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(b, torch.Tensor):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert bits(a) == bits(b)
        assert a.stride() == b.stride() or not a.numel()
    elif isinstance(b, np.ndarray | np.generic):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
        if isinstance(b, np.ndarray):
            assert a.strides == b.strides or not a.size
            assert a.flags.writeable
    else:
        assert repr(a) == repr(b)  # NaN is itself, and -0.0 is not 0.0


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def random_state(draw: np.random.Generator, depth: int = 0) -> Any:
    """A random value of any kind that a state may hold."""
    kind = int(draw.integers(4 if depth > 3 else 8))
    if kind < 2:
        shape = tuple(draw.integers(0, 4, draw.integers(0, 5)).tolist())
        dtype = sorted(DTYPES, key=str)[draw.integers(len(DTYPES))]
        size = math.prod(shape) * dtype.itemsize
        content = draw.integers(0, 2 if dtype == torch.bool else 256, size, dtype=np.uint8)
        tensor = torch.zeros(shape, dtype=dtype)
        if size:
            tensor = torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape)
        tensor = tensor.permute(draw.permutation(len(shape)).tolist())
        return tensor if kind == 0 or dtype == torch.bfloat16 else tensor.numpy().copy(order="K")
    if kind < 4:
        values = [None, True, 2**127 - 1, -(10**40), "", "é\ud800\0\n", math.nan, -math.inf, -0.0]
        values += [0.1, 1e308, np.float32(0.1), np.int64(-3), np.bool_(1)]
        return values[draw.integers(len(values))]
    parts = [random_state(draw, depth + 1) for _ in range(draw.integers(4))]
    if kind == 4:
        return parts
    if kind == 5:
        return tuple(parts)
    keys: list[Any] = [0, -7, "0", "a.b"]
    return (dict if kind == 6 else OrderedDict)(zip(keys, parts, strict=False))


@pytest.mark.parametrize("seed", range(5))
def test_everything_comes_back(seed: int) -> None:
    draw = np.random.default_rng(seed)
    state = {str(i): random_state(draw) for i in range(20)}
    assert_same(back(state), state)


def test_parts_of_tensors_come_back_as_values() -> None:
    """What fills its memory keeps its layout, and what does not comes back in rows."""
    whole = torch.arange(24.0).reshape(4, 6)
    parts = [whole[1:3, ::2], whole[:, :0], whole[0, 0].expand(3, 2)]
    arrays = [p.numpy() for p in parts] + [np.arange(5)[::-1]]
    for value, part in zip(back({"a": parts + arrays})["a"], parts + arrays, strict=True):
        assert type(value) is type(part)
        np.testing.assert_array_equal(value, part)
    images = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    one = torch.rand(64, 1, 3, 3).to(memory_format=torch.channels_last)
    assert_same(back({"a": [images, one, whole.T]}), {"a": [images, one, whole.T]})


def test_one_tensor_in_two_places_stays_one_and_shared_memory_is_copied() -> None:
    whole, array = torch.rand(1000), np.zeros(3)
    state = back({"a": whole, "b": [whole, whole[:10]], "c": array, "d": array})
    assert state["a"] is state["b"][0]
    assert state["c"] is state["d"]
    state["a"][0] = 7
    assert state["b"][1][0] == whole[0]
    assert len(pack_state({"a": whole, "b": whole})) < 1.5 * len(pack_state({"a": whole}))


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_generators_go_on(kind: str) -> None:
    ours, torchs = np.random.Generator(getattr(np.random, kind)(3)), torch.Generator()
    theirs, other = np.random.Generator(getattr(np.random, kind)()), torch.Generator()
    ours.random(7), ours.integers(9, dtype=np.int32), torch.rand(5, generator=torchs.manual_seed(3))
    state = back({"ours": take_state(ours), "torch": take_state(torchs)})
    put_state(theirs, state["ours"])
    put_state(other, state["torch"])
    assert ours.random(9).tolist() == theirs.random(9).tolist()
    assert torch.equal(torch.rand(9, generator=torchs), torch.rand(9, generator=other))


def trained(name: str, inputs: int = 3) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(inputs, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    net.to(memory_format=torch.channels_last)
    optimiser = OPTIMISERS[name](net.parameters(), lr=0.1)
    step(net, optimiser)
    return net, optimiser


def step(net: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    inputs = next(net.parameters()).shape[1]
    net(torch.linspace(0, 1, 2 * inputs * 16).reshape(2, inputs, 4, 4)).square().sum().backward()
    optimiser.step()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_go_on(name: str) -> None:
    for inputs in (1, 3):  # with one channel the layout of a weight has two names
        net, optimiser = trained(name, inputs)
        state = back({"net": take_state(net), "optimiser": take_state(optimiser)})
        other, theirs = trained(name, inputs)
        step(other, theirs)
        put_state(other, state["net"])
        put_state(theirs, state["optimiser"])
        step(net, optimiser)
        step(other, theirs)
        assert_same(take_state(other), take_state(net))
        assert_same(take_state(theirs), take_state(optimiser))


@pytest.mark.parametrize("name", sorted(set(OPTIMISERS) - {"plain-sgd"}))  # which has none
@pytest.mark.parametrize("shape", [(), (0,), (4, 3, 3, 4)])
def test_moments_that_a_step_would_overrun_are_refused(name: str, shape: tuple[int, ...]) -> None:
    """Fused steps of torch write beyond moments that are too small."""
    _, optimiser = trained(name)
    moment = "momentum_buffer" if name == "sgd" else "exp_avg"
    state = back({"o": take_state(optimiser)})["o"]
    state["state"][0][moment] = torch.zeros(shape)
    for group in state["param_groups"]:
        group["fused"] = None if name == "nadam" else True
    with pytest.raises(ValueError, match=f"{moment} is of shape"):
        put_state(trained(name)[1], state)


def test_what_lay_on_a_card_goes_to_the_device() -> None:
    state = {"here": torch.zeros(2), "there": torch.zeros(2, device="meta")}
    with pytest.raises(NotImplementedError):  # a stand-in that has no values
        pack_state(state)
    content = load(pack_state({"here": torch.zeros(2), "there": torch.ones(2)})[32:])
    text = json.loads(content.pop("json").numpy().tobytes())
    text["dict"][1][1]["tensor"]["moved"] = True
    moved = unpack_state(sealed(content, text), "meta")
    assert [moved[name].device.type for name in ("here", "there")] == ["cpu", "meta"]


class Odd(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({1, 2}, r"'net\.a\[1\]' .* set"),
        (Odd(), "Odd"),
        (1j, "complex"),
        (nn.Parameter(torch.zeros(1)), r"Parameter \(torch.float32\), .* gradient"),
        (torch.zeros(1, requires_grad=True), r"Tensor \(torch.float32\), .* gradient"),
        (torch.zeros(1, dtype=torch.complex64), r"Tensor \(torch.complex64\)"),
        (torch.eye(2).to_sparse(), r"Tensor \(torch.float32\)"),
        (np.array([None]), r"ndarray \(object\)"),
        (np.zeros(1, ">f4"), r"ndarray \(>f4\)"),
        (np.ma.masked_array([1]), r"MaskedArray \(int64\)"),
        ({(1, 2): 3}, r"key of net\.a\[1\]' .* tuple"),
        ({True: 3}, r"key of net\.a\[1\]' .* bool"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_anything_else_is_refused_by_its_name(value: Any, kind: str) -> None:
    with pytest.raises(UserError, match=f"{kind};"):
        pack_state({"net": {"a": [1, value]}})


def sealed(tensors: dict[str, torch.Tensor], text: Any) -> bytes:
    """Bytes as `pack_state` would make them, of any tensors and any JSON."""
    line = text if isinstance(text, bytes) else json.dumps(text).encode()
    return with_checksum(
        save({**tensors, "json": torch.frombuffer(bytearray(line), dtype=torch.uint8)})
    )


def with_checksum(content: bytes) -> bytes:
    return _checksum(content, b"") + content


@pytest.mark.parametrize(
    ("write", "read"),
    [(pickle.dump, pickle.load), (torch.save, partial(torch.load, weights_only=False))],
)
def test_a_pickle_is_not_run(
    write: Callable[[Any, Any], None], read: Callable[[Any], Any], tmp_path: Path
) -> None:
    hostile, file = Hostile(tmp_path / "ran"), io.BytesIO()
    write({"logs": hostile}, file)
    file.seek(0)
    read(file)
    assert hostile.path.exists()  # the test would see it
    hostile.path.unlink()
    data = file.getvalue()
    # safetensors whose header is longer than allowed, than the file, or all brackets
    lines = [struct.pack("<Q", n) + b"[" * 10**5 for n in (2**63, 10**8, 10**5)]
    for content in (data, *map(with_checksum, [data, *lines]), sealed({}, data)):
        with pytest.raises(DamagedStateError):
            unpack_state(content, "cpu")
    assert not hostile.path.exists()


A = {"a": torch.zeros(2, 3)}
FINE = {"name": "a", "stride": None, "moved": False}


@pytest.mark.parametrize(
    "text",
    [
        "a",
        b"\xff",
        b"[" * 100_000,
        b'{"dict":' * 50_000,
        {"dict": [[True, 1]]},
        {"dict": "ab"},
        {"dict": [], "tuple": []},
        {"float": [1]},
        {"function": "os.system"},
        {"dict": [["a", {"tensor": {**FINE, "name": "b"}}]]},
        {"dict": [["a", {"tensor": {**FINE, "more": 1}}]]},
        {"dict": [["a", {"model": FINE}]]},
        *(
            {"dict": [["a", {"tensor": {**FINE, "stride": stride}}]]}
            for stride in ([3], [0, 0], [10**18, 1], [-3, -1], [3.0, 1.0], ["3", "1"], "31", [5, 0])
        ),
    ],
    ids=lambda text: str(text)[:20],
)
def test_json_that_we_do_not_write_is_damage(text: Any) -> None:
    assert "a" in unpack_state(sealed(A, {"dict": [["a", {"tensor": FINE}]]}), "cpu")
    with pytest.raises(DamagedStateError):
        unpack_state(sealed(A, text), "cpu")


def test_flipped_and_cut_bytes_are_damage() -> None:
    data = pack_state({"a": torch.arange(5), "b": [1, "x"]}, b"run 1")
    assert unpack_state(data, "cpu", b"run 1")["b"] == [1, "x"]
    with pytest.raises(DamagedStateError):
        unpack_state(data, "cpu", b"run 2")
    for place in range(len(data)):
        flipped = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        for damaged in (flipped, data[:place]):
            with pytest.raises(DamagedStateError):
                unpack_state(damaged, "cpu", b"run 1")
