"""The frozen-to-full bridge in words: its table, facts and remarks."""

from __future__ import annotations

import math
from typing import Any

from rich.text import Text

from .rows import SCORE_NAMES
from .study_text import _number, _print, _table
from .text import amount, megabytes

HEADINGS = {
    "omega_all": "Ω_all",
    "final_accuracy": "final %",
    "average_accuracy": "AA %",
    "average_forgetting": "AF %",
    "raa": "RAA %",
    "raf": "RAF %",
    "gacc": "gAcc %",
}


def bridge_table(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of one table of `bridge`: a learner a line, both sides in a cell."""
    names = list(found["learners"][0]["metrics"])
    costs = {"bytes": "MB", "learn_seconds": "learn s"}
    if _has_joules(found):
        costs["learn_joules"] = "learn J"
    heads = ["learner", "trunk", "n", *(HEADINGS[name] for name in names), *costs.values()]
    lines = []
    for entry in found["learners"]:
        cells = [entry["learner"], entry["trunk"] or "–", str(entry["n"])]
        cells += [_both(entry["metrics"][name], name) for name in names]
        for name in costs:
            text = megabytes if name == "bytes" else amount
            cells.append(" → ".join(text(entry[name][s]["mean"]) for s in ("frozen", "full")))
        lines.append([*cells, _number(entry["gap_per_hour"], "")])
    return [*heads, "points/h"], lines


def _has_joules(found: dict[str, Any]) -> bool:
    """Whether both sides of a learner have them."""
    return any(not math.isnan(e["learn_joules"]["gap"]["mean"]) for e in found["learners"])


def _both(sides: dict[str, Any], metric: str) -> str:
    """A score on embeddings, on images, and the gap with its interval."""
    frozen, full, gap = (_number(sides[s]["mean"], metric) for s in ("frozen", "full", "gap"))
    half = sides["gap"]["half_95"]
    interval = "" if math.isnan(half) else f" ±{_number(half, metric)}"
    return f"{frozen} → {full} ({gap}{interval})"


def bridge_facts(found: dict[str, Any]) -> list[str]:
    """What the two sides of one table of `bridge` are measured by, and where they ran."""
    facts = [SCORE_NAMES.get(found["score"], found["score"])]
    sides = found["ideal"]["frozen"], found["ideal"]["full"]
    if all(sides):
        frozen, full = (", ".join(_number(v, "") for v in values) for values in sides)
        facts.append(f"α_ideal {frozen} → {full} %")
    devices = [", ".join(found["devices"][side]) for side in ("frozen", "full")]
    facts.append(" → ".join(dict.fromkeys(devices)))
    if _has_joules(found):
        facts.append("J: of the whole card, with all that ran there")
    return facts


BRIDGE_REMARKS = (
    "embeddings → images (gap: images less embeddings, mean over runs of equal seeds"
    " ± half-width of its 95 % interval) · RAA, RAF, gAcc: means over sessions",
    "Ω is a share of each side's own α_ideal · points/h: gap of the final score over hours of "
    "learning on images",
)


def bridge_text(found: dict[str, Any]) -> str:
    """What `bridge` found as text."""
    parts = []
    for stream in found["streams"]:
        heads, lines = bridge_table(stream)
        table = _table(heads)
        for line in lines:
            table.add_row(*map(Text, line))
        parts.append(_print(stream, bridge_facts(stream), table, []))
    parts.append("\n".join(BRIDGE_REMARKS))
    if found["alone"]:
        parts.append("\n".join(f"no pair: {line}" for line in bridge_alone(found)))
    return "\n\n".join(parts)


def bridge_alone(found: dict[str, Any]) -> list[str]:
    """One line for each row without a partner."""
    return [f"{a['learner']} ({a['title']}, {a['on']}): {a['why']}" for a in found["alone"]]
