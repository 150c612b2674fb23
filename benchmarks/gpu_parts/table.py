"""The results as a Markdown page that explains itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_parts.machine import OPTIONAL

HEAD = f"| step | what was measured | figure | aim | verdict | note | s | call |\n{'|---' * 8}|"
VERDICTS = {True: "holds", False: "**missed**", None: "no aim"}


def markdown(data: Mapping[str, Any], names: Sequence[str], parts: Mapping[str, str]) -> str:
    """All results as one page.

    Parameters
    ----------
    data : mapping
        Data of `State`.
    names : sequence of str
        Names of all steps, in order.
    parts : mapping
        Titles by part, in order.
    """
    where = "on a card" if data["device"] == "cuda" else f"on device {data['device']}"
    lines = [f"# embedbench {where}" + (" (toy size: no figure means anything)" * data["toy"]), ""]
    lines += [*_calls(data["calls"]), "", *_summary(data, names), ""]
    for part, title in parts.items():
        mine = [name for name in names if name.partition("/")[0] == part]
        if not mine:
            continue
        lines += [f"## {title}", "", HEAD]
        for name in mine:
            if name in data["steps"]:
                lines += _rows(name, data["steps"][name])
        lines += _waiting(mine, data)
        lines.append("")
    return "\n".join(lines)


def _calls(calls: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| call | date | card | CUDA, cuDNN | torch, timm | cores | commit | s | missing modules |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for i, call in enumerate(calls, 1):
        v = call["versions"]
        row = (
            i, call["date"], call["card"], f"{call.get('cuda')}, {call.get('cudnn')}",
            f"{v['torch']}, {v['timm']}", call["cores"], call["commit"], f"{call['seconds']:.0f}",
            ", ".join(call["without"]) or "none",
        )  # fmt: skip
        lines.append("| " + " | ".join(_cell(value) for value in row) + " |")
    lost = {name for call in calls for name in call["without"]}
    for name in sorted(lost):
        lines += ["", f"Without `{name}`: {OPTIONAL[name]}."]
    return lines


def _summary(data: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    steps = [data["steps"][name] for name in names if name in data["steps"]]
    figures = [f for step in steps for f in step.get("figures", ())]
    holds, missed = (sum(f["holds"] is v for f in figures) for v in (True, False))
    broke = sum("error" in step for step in steps)
    text = (
        f"{len(steps)} of {len(names)} steps were run: {holds} aims hold, {missed} are missed, "
        f"{broke} steps broke."
    )
    waiting = [name for name in names if name not in data["steps"]]
    if waiting:
        text += f" {len(waiting)} steps are missing: the next call runs only those."
    return [text]


def _waiting(names: Sequence[str], data: Mapping[str, Any]) -> list[str]:
    """The steps that were not run, grouped by the reason."""
    reasons: dict[str, list[str]] = {}
    for name in names:
        if name not in data["steps"]:
            reasons.setdefault(data["missing"].get(name, "not chosen by --parts"), []).append(name)
    return [
        _row(", ".join(mine), "", "", "", "not run", why, "", "") for why, mine in reasons.items()
    ]


def _rows(name: str, step: Mapping[str, Any]) -> list[str]:
    end = (f"{step['seconds']:.1f}", step["call"])
    if "error" in step:
        return [_row(name, "", "", "", "**broke**", step["error"], *end)]
    return [
        _row(name, f["what"], f["figure"], f["aim"], VERDICTS[f["holds"]], f["note"], *end)
        for f in step["figures"]
    ]


def _row(*cells: object) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").split())
