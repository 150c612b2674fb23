"""The cost of work on a device: seconds, and joules where the GPU reports them."""

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.json_records import JsonRecord


@dataclass
class SessionLog(JsonRecord):
    """The cost of one session, and the learner's log of it.

    Parameters
    ----------
    learn_seconds, evaluate_seconds : float
        Time spent.
    footprint : dict
        Bytes that the learner holds, by kind.
    log : dict
        What `learn` returned.
    learn_joules, evaluate_joules : float
        Energy used; NaN where the device does not report it.
    """

    learn_seconds: float
    evaluate_seconds: float
    footprint: dict[str, int]
    log: dict[str, Any]
    learn_joules: float = math.nan
    evaluate_joules: float = math.nan


class Meter:
    """A reader of seconds and joules of a device; a cost is the difference of two readings.

    Joules come from the card's counter through NVML, if `pynvml` (of the package nvidia-ml-py) is
    installed. NVIDIA cards have this counter since Volta; it moves about every tenth of a second.
    It counts the whole card, with idling and whatever else runs there: runs whose joules are
    compared must have had the card to themselves. NaN where there is no counter, as on a CPU.
    """

    def __init__(self, device: str) -> None:
        self._joules = _counter(device)

    def read(self) -> Floats:
        """Seconds and joules since a fixed moment in the past, (2,)."""
        return np.array([time.perf_counter(), self._joules()])


class Account:
    """The sum of what the device spends inside of `with account:`, in seconds and joules."""

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
        """Add a cost that was measured elsewhere."""
        self.seconds += seconds
        self.joules += joules

    def clear(self) -> None:
        """Set both sums to zero."""
        self.seconds = self.joules = 0.0


class Clock:
    """The costs of learning and of evaluating on a device, in two accounts."""

    def __init__(self, device: str) -> None:
        meter = Meter(device)
        self.learning, self.evaluating = Account(meter), Account(meter)

    def clear(self) -> None:
        """Set both accounts to zero."""
        self.learning.clear()
        self.evaluating.clear()


def _counter(device: str) -> Callable[[], float]:
    """A function that reads the joules that the card has used since its driver was loaded."""
    if not device.startswith("cuda"):
        return _unknown
    try:
        import torch

        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        # not by index: NVML numbers all cards, torch only those in CUDA_VISIBLE_DEVICES
        uuid = torch.cuda.get_device_properties(device).uuid
        card = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        nvml.nvmlDeviceGetTotalEnergyConsumption(card)  # older cards refuse
    except Exception:  # any error of driver or library: the run continues without joules
        return _unknown

    def joules() -> float:
        try:
            return float(nvml.nvmlDeviceGetTotalEnergyConsumption(card)) / 1000  # from millijoules
        except Exception:  # the driver may stop answering during a run
            return math.nan

    return joules


def _unknown() -> float:
    return math.nan
