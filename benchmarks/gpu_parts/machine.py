"""A description of the machine."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "torchvision", "timm", "h5py", "numpy", "scipy", "numba")


def describe(device: str) -> dict[str, Any]:
    """The card, the machine, the versions and the date."""
    facts: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "card": "cpu",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "commit": _commit(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    if device.startswith("cuda"):
        import torch

        facts["card"] = str(torch.cuda.get_device_name(device))
        facts["cuda"], facts["cudnn"] = torch.version.cuda, torch.backends.cudnn.version()
    return facts


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _commit() -> str:
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
