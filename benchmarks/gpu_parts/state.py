"""What was measured so far, in one JSON file that a later call goes on from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

SCHEMA = 1


class State:
    """`gpu.json`: calls, steps that are done, and what they left for comparison.

    Parameters
    ----------
    out : Path
        Directory of `gpu.json`.
    device, toy : str, bool
        Of this call; a file of another kind of measurement is refused.
    """

    def __init__(self, out: Path, device: str, toy: bool) -> None:
        self.path = out / "gpu.json"
        kind = {"device": device.partition(":")[0], "toy": toy}
        self.data: dict[str, Any] = {
            "schema": SCHEMA,
            **kind,
            "calls": [],
            **{name: {} for name in ("steps", "cut", "missing", "kept")},
        }
        if self.path.exists():
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if found.get("schema") != SCHEMA or any(found.get(k) != v for k, v in kind.items()):
                raise SystemExit(
                    f"{self.path} was made with --device {found.get('device')}"
                    f"{' --toy' if found.get('toy') else ''}; give another --out, or remove it"
                )
            self.data = found

    def begin(self, call: dict[str, Any]) -> None:
        """Note that a call has begun."""
        self.data["calls"].append({**call, "seconds": 0.0})

    @property
    def steps(self) -> dict[str, Any]:
        """The steps that have been done or that broke, by name."""
        found: dict[str, Any] = self.data["steps"]
        return found

    def forget(self, names: set[str]) -> None:
        """Let steps be done again."""
        for name in names:
            self.steps.pop(name, None)

    def done(self, name: str, answer: dict[str, Any], card: str) -> None:
        """Keep what a step came to."""
        left = answer.pop("left", {})
        if left:
            self.data["kept"].setdefault(card, {}).update(left)
        self.steps[name] = {**answer, "call": len(self.data["calls"])}
        self.data["cut"].pop(name, None)

    def cut(self, name: str, seconds: float) -> None:
        """Note that a step was stopped because the time was up, after so many seconds."""
        self.data["cut"][name] = round(max(seconds, self.data["cut"].get(name, 0.0)), 1)

    def save(self, seconds: float) -> None:
        """Write the file, whole or not at all."""
        self.data["calls"][-1]["seconds"] = round(seconds, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        text = json.dumps(self.data, indent=1, ensure_ascii=False, allow_nan=True)
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, self.path)
