"""What work on a device has cost: seconds, and the joules of a GPU where it tells."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable
from types import TracebackType

import numpy as np
from numpy.typing import NDArray


class Meter:
    """Seconds and joules spent on a device; the difference of two readings is what lay between.

    Joules are read from the counter of the card, through NVML, if `pynvml` (of the package
    nvidia-ml-py) is installed: cards since NVIDIA's Volta have one, which moves every tenth of a
    second or so. It counts the whole card, with idling and whatever else runs there: runs whose
    joules are compared must have had the card to themselves. NaN where nothing tells, as on a CPU.
    """

    def __init__(self, device: str) -> None:
        self._joules = _counter(device)

    def read(self) -> NDArray[np.float64]:
        """Seconds and joules since some moment in the past, (2,)."""
        return np.array([time.perf_counter(), self._joules()])


class Account:
    """Adds up what the device spends inside of `with account:`, in seconds and joules."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.clear()

    def __enter__(self) -> None:
        self._began = self._meter.read()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.add(*(self._meter.read() - self._began).tolist())

    def add(self, seconds: float, joules: float) -> None:
        """Add what was spent elsewhere."""
        self.seconds += seconds
        self.joules += joules

    def clear(self) -> None:
        """Begin at zero."""
        self.seconds = self.joules = 0.0


class Clock:
    """What learning and evaluating have cost on a device, each on an account of its own."""

    def __init__(self, device: str) -> None:
        meter = Meter(device)
        self.learning, self.evaluating = Account(meter), Account(meter)

    def clear(self) -> None:
        """Begin both accounts at zero."""
        self.learning.clear()
        self.evaluating.clear()


def _counter(device: str) -> Callable[[], float]:
    """A function that reads the joules that the card has drawn since its driver was loaded."""
    if not device.startswith("cuda"):
        return _unknown
    try:
        import torch

        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        # not by number: NVML counts all cards, torch those that CUDA_VISIBLE_DEVICES leaves
        uuid = torch.cuda.get_device_properties(device).uuid
        card = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        nvml.nvmlDeviceGetTotalEnergyConsumption(card)  # older cards refuse
    except Exception:  # whatever a driver or a library has against it: the run goes on
        return _unknown

    def joules() -> float:
        try:
            return float(nvml.nvmlDeviceGetTotalEnergyConsumption(card)) / 1000  # from millijoules
        except Exception:  # the driver may fall silent in the middle of a run
            return math.nan

    return joules


def _unknown() -> float:
    return math.nan
