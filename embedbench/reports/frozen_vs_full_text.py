"""The frozen-to-full bridge as text: its table, facts and remarks."""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.table import Table
from rich.text import Text

from embedbench.scores.mean_intervals import amount, megabytes
from embedbench.text.terminal import line, new_table

from .comparison_text import score_text, section
from .frozen_vs_full import Bridge, BridgedStream, Sides
from .result_rows import SCORE_NAMES

HEADINGS = {
    "omega_all": "Ω_all",
    "final_accuracy": "final %",
    "average_accuracy": "AA %",
    "average_forgetting": "AF %",
    "raa": "RAA %",
    "raf": "RAF %",
    "gacc": "gAcc %",
}


def bridge_table(stream: BridgedStream) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of one stream: one line per learner, both sides in one cell."""
    names = list(stream.learners[0].metrics)
    costs = ["MB", "learn s", *(["learn J"] if stream.has_joules else [])]
    heads = ["learner", "trunk", "n", *(HEADINGS[name] for name in names), *costs]
    lines = []
    for entry in stream.learners:
        cells = [entry.learner, entry.trunk or "–", str(entry.n)]
        cells += [_both(entry.metrics[name], name) for name in names]
        cells += [_costs(entry.bytes, megabytes), _costs(entry.learn_seconds, amount)]
        cells += [_costs(entry.learn_joules, amount)] if stream.has_joules else []
        lines.append([*cells, score_text(entry.gap_per_hour, "")])
    return [*heads, "points/h"], lines


def _costs(sides: Sides, text: Callable[[float], str]) -> str:
    return f"{text(sides.frozen.mean)} → {text(sides.full.mean)}"


def _both(sides: Sides, metric: str) -> str:
    """A score on embeddings, on images, and the gap with its interval."""
    frozen, full, gap = (score_text(s.mean, metric) for s in (sides.frozen, sides.full, sides.gap))
    half = sides.gap.half
    interval = "" if math.isnan(half) else f" ±{score_text(half, metric)}"
    return f"{frozen} → {full} ({gap}{interval})"


def bridge_facts(stream: BridgedStream) -> list[str]:
    """How the two sides of one stream were measured, and on which devices."""
    facts = [SCORE_NAMES.get(stream.score, stream.score)]
    sides = stream.ideal.frozen, stream.ideal.full
    if all(sides):
        frozen, full = (", ".join(score_text(v, "") for v in values) for values in sides)
        facts.append(f"α_ideal {frozen} → {full} %")
    devices = [", ".join(names) for names in (stream.devices.frozen, stream.devices.full)]
    facts.append(" → ".join(dict.fromkeys(devices)))
    if stream.has_joules:
        facts.append("J: of the whole card, with all that ran there")
    return facts


BRIDGE_REMARKS = (
    "embeddings → images (gap: images less embeddings, mean over runs of equal seeds"
    " ± half-width of its 95 % interval) · RAA, RAF, gAcc: means over sessions",
    "Ω is a share of each side's own α_ideal · points/h: gap of the final score over hours of "
    "learning on images",
)


def bridge_parts(bridge: Bridge) -> list[Text | Table]:
    """All streams of a bridge, and the rows without a partner."""
    parts: list[Text | Table] = []
    for stream in bridge.streams:
        heads, lines = bridge_table(stream)
        table = new_table(heads, names=2)
        for cells in lines:
            table.add_row(*map(line, cells))
        parts += [*section(stream.title, bridge_facts(stream), table), line("")]
    alone = [f"no pair: {row}" for row in bridge_alone(bridge)]
    return [*parts, *map(line, (*BRIDGE_REMARKS, *([""] if alone else []), *alone))]


def bridge_alone(bridge: Bridge) -> list[str]:
    """One line for each row without a partner."""
    return [f"{a.learner} ({a.title}, {a.on}): {a.why}" for a in bridge.alone]
