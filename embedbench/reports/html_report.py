"""The HTML report: one file that loads nothing, opens offline, and can be printed."""

import html
import inspect
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from embedbench.scores.learner_verdicts import RowVerdict
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.metrics import all_metrics
from embedbench.scores.number_text import amount, format_signed, megabytes
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.storage.atomic_write import write_safely
from embedbench.text.printable_text import printable
from embedbench.text.table_export import TITLE, table_cells

from .compare_learners import describe_verdicts, judge
from .curve_figures import accuracy_curves, by_samples, stack_matrices
from .figure_kinds import WIDTHS
from .figure_style import names_in, render_figure
from .headings_and_units import heading, stat_text, value_text
from .html_page import page
from .learner_colours import BLANK, COLOURS, INK, LINE, SHEET, SOFT, glyph, hue, styles_in
from .result_rows import FLAGS, Group, Row, has_labels, run_value, split_tables
from .score_figures import colour_scale, draw_maps, row_costs, trade_off, with_final_score
from .terminal_tables import (
    BEHIND,
    LABELS,
    behind_text,
    choose_columns,
    describe_weak_reference,
    effort,
    flags_of_rows,
)
from .verdict_sentence import verdict

_VARIABLES = {INK: "--ink", SOFT: "--soft", LINE: "--line", BLANK: "--blank", SHEET: "--card"}
_VARIABLES |= {c: f"--c{i}" for i, c in enumerate(COLOURS)}
ANSWERS = ("accuracy", "class_accuracy", "within_accuracy", "within_class_accuracy")
_DRAWING = re.compile(r"<svg.*?</svg>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_STYLE = re.compile(r' style="([^"]*)"')


def write_html(
    rows: Sequence[Row], out: Path, name: str, *, parts: Sequence[Text | Table] = ()
) -> None:
    """Write the report of all rows to `out`, replacing an earlier file; other tables come first."""
    write_safely(out, render(rows, name, parts))


def page_heading(roots: Sequence[Path]) -> str:
    """Directories of runs with their parents: most are called `runs`."""
    return ", ".join("/".join(root.resolve().parts[1:][-2:]) for root in roots)


def render(rows: Sequence[Row], name: str, parts: Sequence[Text | Table] = ()) -> str:
    """The page as text; `name` is its heading."""
    styles = styles_in(rows)
    outside = {n: m.function for row in rows for n, m in row.group.outside.items()}
    text = page(
        "report.html.j2",
        name=name,
        tables=list(_tables(parts)),
        scale=colour_scale(),
        sections=[_section(mine, styles, i) for i, mine in enumerate(split_tables(rows))],
        runs=sum(len(r.records) for r in rows),
        left_out=sum(len(r.left_out) for r in rows),
        n_learners=len({r.learner for r in rows if r.learns}),
        metrics=[_formula(n, f) for n, f in (all_metrics() | outside).items()],
    )
    return share_styles(text)


def _tables(parts: Sequence[Text | Table]) -> Iterator[dict[str, object]]:
    """Lines and tables for the template; the lines around a table are its title and hints."""
    for part in parts:
        if isinstance(part, Text):
            yield {"title" if part.style == TITLE else "hint": part.plain}
        else:
            heads, lines, _ = table_cells(part)
            yield {"heads": heads, "lines": lines}


def _section(rows: list[Row], styles: dict[str, int], i: int) -> dict[str, object]:
    group, judged, efforts = rows[0].group, judge(rows), effort(rows)
    entries = [_entry(r, styles, v) for r, v in zip(rows, judged.rows, strict=True)]
    for k, entry in enumerate(entries):
        entry["efforts"] = [texts[k] for texts in efforts.values()]
    environments = (", ".join(f"{k} {v}" for k, v in r.environment.items()) for r in group.records)
    labels = has_labels(group.first)
    both = [r.number(name).values for name in ANSWERS for r in rows if r.used]
    return {
        "id": f"stream-{i}",
        "protocol": group.first.protocol,
        "files": group.title.removeprefix(f"{group.first.protocol} · "),
        "place": group.place,
        "verdict": verdict(rows, judged),
        "bounds": [*describe_verdicts(judged), *describe_weak_reference(rows, judged)],
        "efforts": list(efforts),
        "facts": group.describe(),
        "notes": group.notes,
        "rows": entries,
        "ranking": _with_levels(group, rows, entries),
        "columns": [(name, heading(name)) for name in choose_columns(group)],
        "several": any(len(r.used) > 1 for r in rows),
        "legend": _legend(rows),
        "equal": any(row.are_equal for row in rows),
        **_figures(rows, styles),
        "label_heads": list(map(heading, LABELS)) if labels else [],
        "same_answers": both[: len(both) // 2] == both[len(both) // 2 :],
        "unscored": any(np.isnan(stack_matrices(r)).any() for r in rows),
        "metric_names": list(rows[0].metrics),
        "digests": _digests(group),
        "environments": list(dict.fromkeys(environments)),
    }


def _figures(rows: Sequence[Row], styles: dict[str, int]) -> dict[str, object]:
    """The figures of one table, and the levels that these have beside the learners."""
    learners, width = with_final_score(rows), WIDTHS["column"]
    costs = row_costs(learners) if len(learners) > 1 else {}
    trade_offs = {name: trade_off(learners, styles, 1.3 * width, only=name) for name in costs}
    curves = accuracy_curves(rows, styles, width) | by_samples(rows, styles, width)
    names = {name for f in (*trade_offs.values(), *curves.values()) for name in names_in(f)}
    return {
        "levels": {name.partition(" (")[0] for name in names} & {"offline", "chance"},
        "trade_off": [(n, svg(f, f"final score against {n}")) for n, f in trade_offs.items()],
        "figures": [(title, svg(f, f"{title}: accuracy")) for title, f in curves.items()],
    }


def _entry(row: Row, styles: dict[str, int], verdict: RowVerdict | None) -> dict[str, object]:
    style = styles.get(row.label)
    footprint = {k: v for k, v in row.footprint.items() if k != "total"}
    cells = {name: _cell(row, name) for name in choose_columns(row.group) if name != BEHIND}
    return {
        "label": row.label,
        "learner": row.learner,
        "settings": row.label[len(row.learner) :].strip(),
        "hue": None if style is None else hue(style),
        "glyph": "" if style is None else glyph(style),
        "n": row.n,
        "equal": row.are_equal,
        "cells": cells | {BEHIND: TableCell(behind_text(verdict))},
        "memory": megabytes(row.footprint.get("total")),
        "kinds": [(k.replace("_", " "), megabytes(v)) for k, v in footprint.items()],
        "learn": amount(row.seconds["learn"].mean),
        "evaluate": amount(row.seconds["evaluate"].mean),
        "flags": [(f, f"{len(r)}/{len(row.records)}") for f, r in row.flags.items()],
        "commands": row.commands,
        "named": all(f"--learner {row.learner} " in f"{c} " for c in row.commands),
        "params": row.params,
        "used": bool(row.used),
        "costly": bool(with_final_score([row])),
        "answers": _answers(row) if row.used else [],
        "map": _map(row) if row.used and row.learns else "",
        "sessions": _session_table(row) if row.used else {},
        "runs": [_run(row, record) for record in row.records],
    }


def _with_levels(
    group: Group, rows: Sequence[Row], entries: Sequence[dict[str, object]]
) -> list[dict[str, object]]:
    """The rows of the main table, with the offline reference and chance among them.

    A level that the table has runs of gets no second row.
    """
    ideal, guess = group.offline, group.chance
    learners = {row.learner for row in rows}
    ranking = list(entries)
    if not (math.isnan(ideal) or "offline" in learners):
        below = (i for i, row in enumerate(rows) if not row.metrics[FINAL].mean >= ideal)
        ranking.insert(next(below, len(rows)), _level("offline", "(all data at once)", ideal))
    if not math.isnan(guess) and all(row.learns for row in rows):
        ranking.append(_level("chance", "(guessing)", guess))
    return ranking


def _level(name: str, words: str, value: float) -> dict[str, object]:
    cells = {FINAL: TableCell(value_text(value, FINAL))}
    empty = dict.fromkeys(("glyph", "n", "equal", "efforts", "memory", "learn"), "")
    return {**empty, "learner": name, "settings": words, "cells": cells, "flags": []}


@dataclass(frozen=True)
class TableCell:
    """A number as text: mean with its interval, and the value of each run."""

    mean: str
    half: str = ""
    each: str = ""


def _cell(row: Row, name: str, stat: Stat | None = None) -> TableCell:
    """A metric or number of a row; "open" where it waits for reference runs."""
    if stat is None and name in row.metrics and row.is_open(name):
        return TableCell("open")
    stat = stat or row.number(name)
    text, _, half = stat_text(row.exact(stat), name).partition(" ±")
    runs = zip(row.used, stat.values, strict=True)
    each = (f"seed {run.run}: {value_text(value, name)}" for run, value in runs)
    return TableCell(text, half, "" if text == "–" else ", ".join(each))


def _answers(row: Row) -> list[TableCell]:
    """Of label sets, or of answers among all classes and within the session, and their gaps."""
    if has_labels(row.records[0]):
        return [_cell(row, name) for name in LABELS]
    cells = []
    for name in ANSWERS[:2]:
        both = row.number(name), row.number(f"within_{name}")
        gap = Stat.of(np.subtract(both[1].values, both[0].values))
        cells += [_cell(row, FINAL, stat) for stat in (*both, gap)]
    return cells


def _legend(rows: Sequence[Row]) -> list[tuple[str, str]]:
    each = {f: (FLAGS[f][1] if f in FLAGS else "", who) for f, who in flags_of_rows(rows).items()}
    named = ("few-steps", "tuned")
    return [(f, f"{what} [{who}]" if f in named else what) for f, (what, who) in each.items()]


def _map(row: Row) -> str:
    """A heat map of R, mean over the runs."""
    return svg(draw_maps({"": stack_matrices(row).mean(axis=0)}, 2.6), f"R of {row.label}")


def _session_table(row: Row) -> dict[str, object]:
    """Costs and the learner's log for every session; numbers are means over the runs."""
    logs = [[s.log for s in r.sessions] for r in row.used]
    plain = (str, int, float, bool)
    every = (item for run in logs for log in run for item in log.items())
    names = dict.fromkeys(name for name, value in every if isinstance(value, plain))
    lines = []
    for i in range(len(logs[0])):
        at = [r.sessions[i] for r in row.used]
        size = np.mean([sum(s.footprint.values()) for s in at])
        cells = [str(i), _summary([r.n_train[i] for r in row.used])]
        cells += [amount(float(np.mean([s.learn_seconds for s in at])))]
        cells += [amount(float(np.mean([s.evaluate_seconds for s in at])))]
        cells += [megabytes(float(size)), *(_summary([s.log.get(k) for s in at]) for k in names)]
        lines.append(cells)
    heads = ["session", "samples", "learn s", "evaluate s", "MB"]
    return {"heads": heads + [n.replace("_", " ") for n in names], "lines": lines}


def _summary(values: Sequence[Any]) -> str:
    """The values of several runs: range of integers, mean of numbers, or joined words."""
    present = [v for v in values if v is not None]
    kinds = {type(v) for v in present}
    if not present:
        return "–"
    if kinds == {int}:
        low, high = min(present), max(present)
        return f"{low:,}" if low == high else f"{low:,}–{high:,}"
    if kinds <= {int, float}:
        return f"{np.mean(present):.3g}"
    return ", ".join(sorted({str(v) for v in present}))


def _run(row: Row, record: RunRecord) -> dict[str, object]:
    values = (run_value(record, name) for name in row.metrics)
    among = [f for f in ("outlier", "threads", "reference") if record.run in row.flags.get(f, [])]
    return {
        "seed": record.run,
        "numbers": ["–" if math.isnan(value) else format_signed(value, 4) for value in values],
        "flags": [*record.flags, *among],
        "used": any(r is record for r in row.used),
    }


def _digests(group: Group) -> list[tuple[str, str]]:
    digests = [(f"{f.name} {k}", v) for f in group.first.files for k, v in f.digests.items()]
    stream = group.first.digests
    digests += [("stream recipe", stream.recipe), ("stream features", stream.features)]
    for key in ("train", "eval"):
        by_seed = {getattr(r.digests, key): r.run for r in reversed(group.records)}
        several = len(by_seed) > 1
        digests += [(f"stream {key}{f', seed {s}' * several}", d) for d, s in by_seed.items()]
    return digests


def _formula(name: str, metric: Any) -> dict[str, object]:
    """The docstring of a metric as a summary and paragraphs of HTML."""
    from markupsafe import Markup, escape

    summary, _, rest = (inspect.getdoc(metric) or name).partition("\n")
    paragraphs = []
    for block in filter(None, rest.strip().split("\n\n")):
        text = str(escape(" ".join(block.split())))
        text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
        paragraphs.append(Markup(re.sub(r"`(.+?)`", r"<code>\1</code>", text)))
    return {"name": name, "summary": summary, "paragraphs": paragraphs}


# --- figures as inline SVG: colours are CSS variables of the page ---


def svg(figure: Figure, label: str) -> str:
    """A figure as an SVG element with colours and font of the page.

    `label` describes it for screen readers.
    """
    text = printable(render_figure(figure, "svg", page=True).decode(), lines=True)
    _, head, body = re.split(r"(<svg[^>]*>)", text, maxsplit=1)
    body = re.sub(r"<(metadata|style).*?</\1>", "", body, flags=re.DOTALL)
    for fixed, variable in _VARIABLES.items():
        body = body.replace(fixed, f"var({variable})")
    body = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", body)  # matplotlib before 3.11
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body.replace("xlink:href", "href"))
    body = slim(body, f"f{zlib.crc32((label + body).encode()):08x}")
    box, name = re.findall('viewBox="[^"]*"', head)[0], html.escape(printable(label))
    return f'<svg role="img" aria-label="{name}" {box}>{body.strip()}'


def slim(drawing: str, prefix: str) -> str:
    """SVG without what no reader sees: with four digits, no unused ids, bare groups, line breaks.

    Ids that are used begin with the prefix: the figures of one page need different ones.
    """
    uses = re.findall(r'(?:href="|url\()#([^")]*)', drawing)
    ids = {name: f"{prefix}-{i}" for i, name in enumerate(dict.fromkeys(uses))}

    def tag(match: re.Match[str]) -> str:
        text = match[0]
        if "data:" not in text:
            text = re.sub(r"\s+", " ", text)
            text = re.sub(r"\d+\.\d{2,}", lambda m: f"{float(m[0]):.4g}", text)
        text = re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)
        text = re.sub(r' id="([^"]*)"', lambda m: f' id="{ids[m[1]]}"' if m[1] in ids else "", text)
        text = re.sub(r'(href="|url\()#([^")]*)', lambda m: f"{m[1]}#{ids[m[2]]}", text)
        text = re.sub('(?<= d=")[^"]*', lambda m: re.sub(" ?([A-Za-z]) ?", r"\1", m[0]), text)
        return _STYLE.sub(lambda m: re.sub("([:;]) ", r"\1", m[0]), text)

    is_bare: list[bool] = []

    def group(match: re.Match[str]) -> str:
        if match[0].endswith("/>"):
            return ""
        if match[0] == "</g>":
            return "" if is_bare.pop() else match[0]
        is_bare.append(match[0] == "<g>")
        return "" if is_bare[-1] else match[0]

    return re.sub(r"</?g\b[^>]*>", group, re.sub(r">\s+<", "><", _TAG.sub(tag, drawing)))


def share_styles(page: str) -> str:
    """A page whose SVG elements have classes in the place of styles.

    The rules of the classes are added at the end of its first `style` element.
    """
    names: dict[str, str] = {}

    def name(style: re.Match[str]) -> str:
        return f' class="{names.setdefault(style[1], f"s{len(names)}")}"'

    def drawing(match: re.Match[str]) -> str:
        return _TAG.sub(lambda tag: _STYLE.sub(name, tag[0]), match[0])

    page = _DRAWING.sub(drawing, page)
    rules = "\n".join(f".{name} {{{style}}}" for style, name in names.items())
    return page.replace("</style>", f"{rules}\n</style>", 1)
