"""The measurements so far, in one JSON file from which a later call resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from embedbench.storage.atomic_write import write_safely

SCHEMA = 2


class State:
    """`gpu.json`: calls, and the steps that have been done, that broke or that are missing.

    A file of another device or size than this call's is refused.
    """

    def __init__(self, out: Path, device: str, toy: bool) -> None:
        self.path = out / "gpu.json"
        kind = {"schema": SCHEMA, "device": device.partition(":")[0], "toy": toy}
        self.data: dict[str, Any] = {**kind, "calls": [], "steps": {}, "missing": {}}
        if self.path.exists():
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if any(stored.get(k) != v for k, v in kind.items()):
                raise SystemExit(
                    f"{self.path} was made with --device {stored.get('device')}"
                    f"{' --toy' if stored.get('toy') else ''}; give another --out, or remove it"
                )
            self.data = stored
        self.steps: dict[str, Any] = self.data["steps"]  # done or broken, by name
        self.missing: dict[str, str] = self.data["missing"]  # left out by this call: the reason

    def begin(self, call: dict[str, Any]) -> None:
        """Note that a call has begun."""
        self.data["calls"].append({**call, "seconds": 0.0})
        self.missing.clear()

    def done(self, name: str, answer: dict[str, Any]) -> None:
        """Keep the result of a step."""
        self.steps[name] = {**answer, "call": len(self.data["calls"])}

    def save(self, seconds: float) -> None:
        """Write the file."""
        self.data["calls"][-1]["seconds"] = round(seconds, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_safely(self.path, json.dumps(self.data, indent=1, ensure_ascii=False) + "\n")
