"""The measurements so far, in one JSON file from which a later call resumes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

SCHEMA = 1


class State:
    """`gpu.json`: calls, finished steps, and values that steps stored for comparison.

    A file of another device or size than this call's is refused.
    """

    def __init__(self, out: Path, device: str, toy: bool) -> None:
        self.path = out / "gpu.json"
        kind = {"schema": SCHEMA, "device": device.partition(":")[0], "toy": toy}
        names = ("steps", "cut", "missing", "kept")
        self.data: dict[str, Any] = {**kind, "calls": [], **{name: {} for name in names}}
        if self.path.exists():
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if any(stored.get(k) != v for k, v in kind.items()):
                raise SystemExit(
                    f"{self.path} was made with --device {stored.get('device')}"
                    f"{' --toy' if stored.get('toy') else ''}; give another --out, or remove it"
                )
            self.data = stored

    def begin(self, call: dict[str, Any]) -> None:
        """Note that a call has begun."""
        self.data["calls"].append({**call, "seconds": 0.0})

    @property
    def steps(self) -> dict[str, Any]:
        """The steps that have been done or that broke, by name."""
        steps: dict[str, Any] = self.data["steps"]
        return steps

    def done(self, name: str, answer: dict[str, Any], card: str) -> None:
        """Keep the result of a step."""
        if left := answer.pop("left", {}):
            self.data["kept"].setdefault(card, {}).update(left)
        self.steps[name] = {**answer, "call": len(self.data["calls"])}
        self.data["cut"].pop(name, None)

    def cut(self, name: str, seconds: float) -> None:
        """Note that a step was stopped after these seconds, because the time was up."""
        self.data["cut"][name] = round(max(seconds, self.data["cut"].get(name, 0.0)), 1)

    def save(self, seconds: float) -> None:
        """Write the file atomically."""
        self.data["calls"][-1]["seconds"] = round(seconds, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        text = json.dumps(self.data, indent=1, ensure_ascii=False, allow_nan=True)
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, self.path)
