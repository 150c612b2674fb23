"""The results as a Markdown page that explains itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = f"| step | what was measured | figure | aim | verdict | note | s | call |\n{'|---' * 8}|"
VERDICTS = {True: "holds", False: "**missed**", None: "no aim"}


def markdown(data: Mapping[str, Any], names: Sequence[str], parts: Mapping[str, str]) -> str:
    """All results of a `State` as one page; `names` of all steps, titles by part, both in order."""
    where = "on a card" if data["device"] == "cuda" else f"on device {data['device']}"
    lines = [f"# embedbench {where}" + (" (toy size: no figure means anything)" * data["toy"]), ""]
    lines += [*_calls(data["calls"]), "", _summary(data, names), ""]
    for part, title in parts.items():
        mine = [name for name in names if name.partition("/")[0] == part]
        if mine:
            lines += [f"## {title}", "", HEAD]
            for name in mine:
                if name in data["steps"]:
                    lines += _rows(name, data["steps"][name])
            lines += [*_waiting(mine, data), ""]
    return "\n".join(lines)


def _calls(calls: Sequence[Mapping[str, Any]]) -> list[str]:
    heads = "call | date | card | CUDA, cuDNN | torch, timm | cores | commit | s"
    lines = [f"| {heads} |", "|---" * 8 + "|"]
    for i, call in enumerate(calls, 1):
        v, cuda = call["versions"], f"{call.get('cuda')}, {call.get('cudnn')}"
        which = (i, call["date"], call["card"], cuda, f"{v['torch']}, {v['timm']}", call["cores"])
        lines.append(_row(*which, call["commit"], f"{call['seconds']:.0f}"))
    return lines


def _summary(data: Mapping[str, Any], names: Sequence[str]) -> str:
    steps = [data["steps"][name] for name in names if name in data["steps"]]
    figures = [f for step in steps for f in step.get("figures", ())]
    holds, missed = (sum(f["holds"] is v for f in figures) for v in (True, False))
    broke = sum("error" in step for step in steps)
    text = (
        f"{len(steps)} of {len(names)} steps were run: {holds} aims hold, {missed} are missed, "
        f"{broke} steps broke."
    )
    waiting = len(names) - len(steps)
    return text + f" {waiting} steps are missing: the next call runs only those." * (waiting > 0)


def _waiting(names: Sequence[str], data: Mapping[str, Any]) -> list[str]:
    """The steps that were not run, grouped by the reason."""
    reasons: dict[str, list[str]] = {}
    for name in names:
        if name not in data["steps"]:
            reasons.setdefault(data["missing"].get(name, "not chosen by --parts"), []).append(name)
    return [_row(", ".join(m), "", "", "", "not run", why, "", "") for why, m in reasons.items()]


def _rows(name: str, step: Mapping[str, Any]) -> list[str]:
    end = (f"{step['seconds']:.1f}", step["call"])
    if "error" in step:
        return [_row(name, "", "", "", "**broke**", step["error"], *end)]
    return [
        _row(name, f["what"], f["figure"], f["aim"], VERDICTS[f["holds"]], f["note"], *end)
        for f in step["figures"]
    ]


def _row(*cells: object) -> str:
    return "| " + " | ".join(" ".join(str(c).replace("|", "\\|").split()) for c in cells) + " |"
