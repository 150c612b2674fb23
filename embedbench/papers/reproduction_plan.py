"""Plans for teams that have a paper's data and a GPU: `embedbench reproduce --plan`.

A plan is `[plan]` of a `paper.toml`: data sets, the files that are made of them, work, commands. It
is printed without network, without reading any file of the user, and without torch.
"""

import math
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedbench.text.terminal_text import line, new_table, render_text

from .paper_folders import facts

UNKNOWN = "not computed here; compare what inspect prints with other teams"
WIDTH = 100


def make_plan(name: str, seeds: str, count: int) -> dict[str, Any]:
    """Return a paper's plan for `count` seeds, as `seeds` names them, as plain JSON data.

    Hours are runs x samples x epochs / rate / 3600; bytes are samples x numbers x their width.
    """
    paper = facts(name)
    given = paper["plan"]
    shared = tomllib.loads((Path(__file__).parent / "shared.toml").read_text(encoding="utf-8"))
    data = [{**shared["data"].get(d.get("shared"), {}), **d} for d in given["data"]]
    work = [_work(w, shared["rates"][w["rate"]], count) for w in given["work"]]
    counted = [w.get("counted", True) for w in given["work"]]
    files = [_data(d) for d in data]
    steps = [(d["name"], [*d.get("arrange", ()), *_make(d["files"])]) for d in data]
    commands = [command.replace("{seeds}", seeds) for command in given["commands"]]
    steps.append(("The runs and the tables", commands))
    return {
        "paper": paper["name"],
        "seeds": seeds,
        "data": files,
        "steps": [
            {"step": f"{n}. {what}", "commands": do} for n, (what, do) in enumerate(steps, 1)
        ],
        "runs": sum(w["runs"] for w, some in zip(work, counted, strict=True) if some),
        "bytes": sum(file["bytes"] for d in files for file in d["files"]),
        "estimate": work,
        "gpu_hours_estimated": sum(w["gpu_hours_estimated"] for w in work),
        "send_back": given["back"],
        "remarks": given["remarks"],
    }


def _work(work: Mapping[str, Any], rate: int, count: int) -> dict[str, Any]:
    """Runs of one kind, or a preparation, with the estimate of its hours."""
    runs = work["runs"] * (count if work.get("seeded", True) else 1)
    return {
        "what": work["what"],
        "runs": runs,
        "samples": work["samples"],
        "epochs": work["epochs"],
        "samples_a_second_assumed": rate,
        "network": work["rate"],
        "gpu_hours_estimated": runs * work["samples"] * work["epochs"] / rate / 3600,
    }


def _data(data: Mapping[str, Any]) -> dict[str, Any]:
    """A data set with the sizes of its files."""
    n = sum(data["samples"].values())
    return {
        **{key: data[key] for key in ("name", "home", "terms", "layout", "classes", "samples")},
        "arrange": data.get("arrange", []),
        "samples_digest": data.get("digest"),
        "files": [
            {"path": f["path"], "bytes": n * f["values"] * f["width"]} for f in data["files"]
        ],
    }


def _make(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The commands that make a data set's files, and check each."""
    for file in files:
        yield from file["commands"]
        yield from (f"embedbench {command} {file['path']}" for command in ("verify", "inspect"))


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return a plan as text; commands are never folded, so that they can be copied."""
    parts = [f"Plan to reproduce {plan['paper']}, seeds {plan['seeds']}: {plan['runs']:,} runs", ""]
    parts += ["WHAT TO FETCH AND TO EXPECT", *_data_text(plan["data"]), "COMMANDS"]
    for step in plan["steps"]:
        parts += [step["step"], *(f"    {command}" for command in step["commands"]), ""]
    parts += ["COST", *_cost_text(plan), ""]
    parts += ["SEND BACK", *(f"    {path}" for path in plan["send_back"]), ""]
    parts += ["REMARKS", *(text for r in plan["remarks"] for text in _fold(f"- {r}"))]
    return "\n".join(parts)


def _data_text(data: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for n, each in enumerate(data, 1):
        counts = ", ".join(f"{count:,} {split}" for split, count in each["samples"].items())
        yield f"{n}. {each['name']}: {each['home']}"
        yield from _fold(f"   terms: {each['terms']}")
        yield from _fold(f"   layout: {each['layout']}")
        yield f"   expected samples: {counts}; classes: {each['classes']}"
        yield f"   expected samples digest: {each['samples_digest'] or UNKNOWN}"
        for file in each["files"]:
            yield f"   file: {file['path']}, {_size(file['bytes'])}"
        yield ""


def _cost_text(plan: Mapping[str, Any]) -> list[str]:
    table = new_table(("what", "runs", "samples", "epochs", "samples/s assumed", "GPU hours"))
    for w in plan["estimate"]:
        row = (f"{w['runs']:,}", f"{w['samples']:,}", f"{w['epochs']:g}")
        rate, hours = f"{w['samples_a_second_assumed']:,}", _hours(w["gpu_hours_estimated"])
        table.add_row(*map(line, (f"{w['what']} ({w['network']})", *row, rate, hours)))
    explained = (
        f"Disk: {_size(plan['bytes'])} for the files (samples x numbers x bytes), without the "
        f"published archives and the runs. GPU hours: {_hours(plan['gpu_hours_estimated'])} one "
        "after another, an estimate: runs x samples x epochs / rate. The rates are assumed for "
        "one data-centre GPU (of a core where it says CPU), not measured: the first run tells you "
        "yours."
    )
    return [*render_text([table]).split("\n"), *_fold(explained)]


def _fold(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.1 else "< 0.1"


def _size(n: int) -> str:
    """Bytes as MB or GB, powers of ten.

    >>> _size(219_520_000), _size(200_382_000_000)
    ('220 MB', '200.4 GB')
    """
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{math.ceil(n / 1e6)} MB"
