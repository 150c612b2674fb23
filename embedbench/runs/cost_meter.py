"""The cost of work on a device: seconds, and joules where the GPU reports them."""

import importlib
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from embedbench.array_types import Floats


class Meter:
    """A reader of seconds and joules of a device; a cost is the difference of two readings.

    Joules come from the card's counter through NVML, if `pynvml` (of the package nvidia-ml-py) is
    installed. NVIDIA cards have this counter since Volta; it moves about every tenth of a second.
    It counts the whole card, with idling and whatever else runs there: runs whose joules are
    compared must have had the card to themselves. NaN where there is no counter, as on a CPU.
    """

    def __init__(self, device: str) -> None:
        self._nvml: Any = None
        if device.startswith("cuda"):
            with suppress(Exception):  # any error of driver or library: no joules
                import torch

                nvml = importlib.import_module("pynvml")
                nvml.nvmlInit()
                # not by index: NVML numbers all cards, torch only those in CUDA_VISIBLE_DEVICES
                uuid = torch.cuda.get_device_properties(device).uuid
                self._card = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
                self._nvml = nvml

    def read(self) -> Floats:
        """Seconds and joules since a fixed moment in the past, (2,)."""
        joules = math.nan
        if self._nvml is not None:
            with suppress(Exception):  # older cards refuse; the driver may stop answering
                millijoules = self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._card)
                joules = float(millijoules) / 1000
        return np.array([time.perf_counter(), joules])

    @contextmanager
    def add_to(self, cost: Floats) -> Iterator[None]:
        """Add what is spent within this context to `cost`, (2,)."""
        began = self.read()
        yield
        cost += self.read() - began
