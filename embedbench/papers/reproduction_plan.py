"""Plans for teams that have a paper's data and a GPU: `embedbench reproduce --plan`.

A plan is `[plan]` of a `paper.toml`: data sets, the files that are made of them, work, commands. It
is printed without network, without reading any file of the user, and without torch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from embedbench.text.terminal_text import line, new_table, render_text

from .paper_folders import facts
from .plan_data import plan_data, read_shared

UNKNOWN = "not computed here; compare what inspect prints with other teams"


def make_plan(name: str, seeds: str, count: int) -> dict[str, Any]:
    """Return a paper's plan for `count` seeds, as `seeds` names them, as plain JSON data.

    Hours are runs x samples x epochs / rate / 3600; bytes are samples x numbers x their width.
    """
    paper = facts(name)
    plan = paper["plan"]
    rates = read_shared()["rates"]
    data = []
    work = []
    steps = {}
    n_bytes = 0
    for given in plan_data(paper):
        each = {"samples_digest": UNKNOWN, **given}
        n = sum(each["samples"].values())
        commands = [*each.get("arrange", ())]
        each["files"] = [{**f, "bytes": n * f["values"] * f["width"]} for f in each["files"]]
        for file in each["files"]:
            checks = [f"embedbench {command} {file['path']}" for command in ("verify", "inspect")]
            commands += [*file["commands"], *checks]
            n_bytes += file["bytes"]
        steps[each["name"]] = commands
        data.append(each)
    steps["The runs and the tables"] = [c.replace("{seeds}", seeds) for c in plan["commands"]]
    for given in plan["work"]:
        runs = given["runs"] * (count if given.get("seeded", True) else 1)
        rate = rates[given["rate"]]
        hours = runs * given["samples"] * given["epochs"] / rate / 3600
        numbers = {"runs": runs, "samples_a_second": rate, "gpu_hours_estimated": hours}
        work.append({**given, **numbers})
    return {
        "paper": paper["name"],
        "seeds": seeds,
        "data": data,
        "steps": steps,
        "runs": sum(w["runs"] for w in work if w.get("counted", True)),
        "bytes": n_bytes,
        "estimate": work,
        "gpu_hours_estimated": sum(w["gpu_hours_estimated"] for w in work),
        "send_back": plan["back"],
        "remarks": plan["remarks"],
    }


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return a plan as text; commands are never folded, so that they can be copied."""
    table = new_table(("what", "runs", "samples", "epochs", "samples/s", "GPU hours"))
    for w in plan["estimate"]:
        counts = (f"{w[key]:,}" for key in ("runs", "samples", "epochs", "samples_a_second"))
        row = (f"{w['what']} ({w['rate']})", *counts, f"{w['gpu_hours_estimated']:,.1f}")
        table.add_row(*map(line, row))
    steps = []
    for number, (what, commands) in enumerate(plan["steps"].items(), 1):
        steps.append("\n    ".join([f"{number}. {what}", *commands]))
    parts = [
        f"Plan to reproduce {plan['paper']}, seeds {plan['seeds']}: {plan['runs']:,} runs",
        "WHAT TO FETCH AND TO EXPECT",
        *["\n".join(_data_lines(data)) for data in plan["data"]],
        "COMMANDS",
        *steps,
        f"COST\n{render_text([table])}",
        f"Disk: {_size(plan['bytes'])} for the files (samples x numbers x bytes), without the "
        f"published archives and the runs. GPU hours: {plan['gpu_hours_estimated']:,.1f} one after "
        "another, an estimate: runs x samples x epochs / rate. Rates of ResNet-32, of ResNet-50's "
        "forward pass and of small networks are an H100's; the others are assumed for such a card "
        "(for a core where it says CPU). The first run tells you yours.",
        "\n    ".join(["SEND BACK", *plan["send_back"]]),
        "\n- ".join(["REMARKS", *plan["remarks"]]),
    ]
    return "\n\n".join(parts)


def _data_lines(data: Mapping[str, Any]) -> Iterator[str]:
    counts = ", ".join(f"{count:,} {split}" for split, count in data["samples"].items())
    yield f"{data['name']}: {data['home']}"
    yield f"   terms: {data['terms']}"
    yield f"   layout: {data['layout']}"
    yield f"   expected samples: {counts}; classes: {data['classes']}"
    yield f"   expected samples digest: {data['samples_digest']}"
    for file in data["files"]:
        yield f"   file: {file['path']}, {_size(file['bytes'])}"


def _size(n: int) -> str:
    """Bytes as MB, a million each.

    >>> _size(219_520_000)
    '220 MB'
    """
    return f"{n / 1e6:,.0f} MB"
