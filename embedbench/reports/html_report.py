"""The HTML report: one file that loads nothing, opens offline, and can be printed.

It has the tables of the terminal, the figures of files, and what is behind each table, folded.
"""

import base64
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.scores import metrics_by_library
from embedbench.scores.number_text import format_signed
from embedbench.scores.run_record import FINAL
from embedbench.storage.atomic_write import write_safely
from embedbench.text.table_export import TITLE, flatten, make_table, table_cells

from .compare_learners import judge
from .confusion_figure import confusion
from .curve_figures import accuracy_curves
from .figure_kinds import WIDTHS
from .figure_style import render_figure
from .headings_and_units import heading
from .html_page import page
from .interval_bars import draw_bars, scale_numbers
from .learner_colours import styles_in
from .library_audits import Audit, LibraryAudits
from .result_rows import Row, split_tables
from .results import TableVerdicts
from .score_figures import matrix, trade_off
from .terminal_tables import (
    behind_text,
    cell_text,
    column_words,
    describe_columns,
    group_parts,
)
from .verdict_sentence import final_score

# Among all classes, and among those of the sample's own session: class- and task-incremental
ANSWERS = ("accuracy", "within_accuracy", "class_accuracy", "within_class_accuracy")
MOST_MAPS = 12  # learners with a confusion matrix
NO_BREAK = "\N{NO-BREAK SPACE}"
Block = dict[str, Any]  # a line or a table, as the template takes it


def write_html(
    rows: Sequence[Row],
    out: Path,
    name: str,
    *,
    parts: Sequence[Text | Table] = (),
    audits: LibraryAudits | None = None,
) -> None:
    """Write the report of all rows to `out`, replacing an earlier file; other tables come first."""
    write_safely(out, render(rows, name, parts, audits))


def page_heading(roots: Sequence[Path]) -> str:
    """Directories of runs with their parents: most are called `runs`."""
    return ", ".join("/".join(root.resolve().parts[1:][-2:]) for root in roots)


def render(
    rows: Sequence[Row],
    name: str,
    parts: Sequence[Text | Table] = (),
    audits: LibraryAudits | None = None,
) -> str:
    """The page as text; `name` is its heading, `audits` those made with its verdicts."""
    if audits is None:
        audits = LibraryAudits()
    audits.judge_tables(rows)
    styles = styles_in(rows)
    return page(
        "report.html.j2",
        name=name,
        blocks=list(map(_block, parts)),
        sections=[_section(mine, styles, audits) for mine in split_tables(rows)],
        footer="formulas: embedbench list metrics" if rows else "",
    )


def _block(part: Text | Table) -> Block:
    if isinstance(part, Text):
        return {"text": part.plain, "kind": "title" if part.style == TITLE else "hint"}
    heads, lines, right = table_cells(part)
    return {"heads": heads, "lines": lines, "right": right}


def tables_html(rows: Sequence[Row]) -> str:
    """The tables of the page with their verdicts alone, for a notebook, which has its own style."""
    sections = []
    for mine in split_tables(rows):
        title, facts, verdict, *parts = map(_block, group_parts(mine))
        texts = {"title": title["text"], "facts": facts["text"], "verdict": verdict["text"]}
        sections.append({**texts, "blocks": parts})
    return page("notebook.html.j2", sections=sections, footer=describe_columns(rows))


def _section(rows: list[Row], styles: dict[str, int], audits: LibraryAudits) -> Block:
    judged = judge(rows)
    title, facts, verdict, table, *parts = map(_block, group_parts(rows, judged=judged))
    _marks_first(table)
    # long heads may have two lines, but a unit stays with its name
    heads = [re.sub(" (?=%|s$)", NO_BREAK, head) for head in table["heads"]]
    table |= {"stacked": True, "heads": heads}
    used = [row for row in rows if row.used]
    learners = [row for row in used if row.learns and final_score(row) == final_score(row)]
    width = WIDTHS["column"]
    figures = accuracy_curves(rows, styles, width)
    costs = None
    if len(learners) > 1 and any("total" in row.footprint for row in learners):
        costs = _image(trade_off(learners, styles, WIDTHS["page"]), "Final score against cost")
    return {
        "title": title["text"],
        "facts": facts["text"],
        "verdict": verdict["text"],
        "ranking": _ranking(rows, judged, table.get("marks") or [()] * len(rows)),
        "table": table,
        "columns": [word.partition(": ") for word in column_words(rows)],
        "blocks": parts,
        "costs": costs,
        "confusion": _confusion(learners, audits),
        "figures": [_image(f, name) for name, f in figures.items()],
        "maps": _image(matrix(used, WIDTHS["page"]), "R[i, j]") if learners else None,
        "details": [
            (name, _block(make_table(plain(each)))) for name, each in _details(rows, used, audits)
        ],
    }


def _marks_first(table: Block) -> None:
    """Put the marks of flags behind the learners' names: a last column may lie outside a screen."""
    if table["heads"][-1] != "flags":
        return
    for name in ("heads", "right"):
        table[name] = table[name][:-1]
    table["marks"] = [line[-1].split() for line in table["lines"]]
    table["lines"] = [line[:-1] for line in table["lines"]]


def _ranking(
    rows: Sequence[Row], judged: TableVerdicts, marks_of: Sequence[Sequence[str]]
) -> Block | None:
    """The rows with their intervals drawn; None where there are none."""
    bars = draw_bars(judged.rows)
    if not any(bars):
        return None
    lines = []
    for row, verdict, bar, marks in zip(rows, judged.rows, bars, marks_of, strict=True):
        if bar:
            lines.append(
                {
                    "label": row.label,
                    "marks": marks,
                    "score": cell_text(row, FINAL),
                    "behind": behind_text(verdict),
                    "bar": bar,
                }
            )
    group = rows[0].group
    return {
        "lines": lines,
        "numbers": scale_numbers(judged.rows),
        "score": heading(FINAL, group.score).replace(" %", f"{NO_BREAK}%"),
        "single": "seeds" if judged.units == "orders" else judged.units,
    }


def _confusion(learners: Sequence[Row], audits: LibraryAudits) -> dict[str, str] | None:
    """Which class is taken for which; None where answers are not at hand, or agree on no order.

    Nor of more learners than can be looked at: all answers are read for it.
    """
    if not 0 < len(learners) <= MOST_MAPS:
        return None
    try:
        figure = confusion(learners, WIDTHS["page"], reader=audits.confusion_of_run)
    except UserError:  # a record is enough for a page
        return None
    return _image(figure, "Confusion matrices")


def _details(
    rows: Sequence[Row], used: Sequence[Row], audits: LibraryAudits
) -> Iterator[tuple[str, list[Block]]]:
    """The rows of what is behind a table, each with its heading."""
    if {*ANSWERS} <= {*rows[0].group.kind.SCORES}:
        yield (
            "Among all classes, and within the session, %",
            [{"learner": row.label} | {k: cell_text(row, k) for k in ANSWERS} for row in used],
        )
    by_library = _by_library(used, audits)
    if by_library:
        yield "The same answers by other libraries' definitions, %", by_library
    costs: list[Block] = []
    for row in rows:
        memory = {f"{k} MB": n / 1e6 for k, n in row.footprint.items()}
        seconds = {f"{k} s": stat.mean for k, stat in row.seconds.items()}
        costs.append({"learner": row.label, **memory, **seconds})
    yield "Memory by kind, and seconds", costs
    commands = []
    for row in rows:
        commands += [{"learner": row.label, "command": command} for command in row.commands]
    yield "Run it again", commands
    runs = []
    for row in rows:
        for run in row.records:
            names = {"learner": row.label, "seed": run.run, "flags": " ".join(run.flags)}
            runs.append(names | run.metrics)
    yield "Every run, as fractions", runs
    settings = []
    for row in rows:
        text = json.dumps(row.params, sort_keys=True)
        settings.append({"learner": row.label, "settings": text})
    yield "Settings", settings
    first = rows[0].group.first
    of_files = {file.name: file.digests for file in first.files}
    of_first = {"file": of_files, "stream": vars(first.digests), "environment": first.environment}
    origins = [{"of": name, "is": value} for name, value in flatten(of_first).items()]
    yield f"Digests and environment of run {first.run}", origins


def _by_library(rows: Sequence[Row], audits: LibraryAudits) -> list[Block]:
    """What other libraries would print for the runs of each learner: means, a row a definition.

    Empty where no run of a learner has an eval set a session, or its answers are not at hand.
    """
    by_learner = {row.label: _audits_of(row, audits) for row in rows if row.learns}
    by_learner = {label: each for label, each in by_learner.items() if each}
    if not by_learner:
        return []
    result: list[Block] = []
    for number, definition in enumerate(next(iter(by_learner.values()))[0]):
        line = {"what": f"{definition['group']}: {definition['name']}"}
        for label, each in by_learner.items():
            mean = float(np.mean([100 * audit[number]["value"] for audit in each]))
            line[label] = "–" if math.isnan(mean) else format_signed(mean, 1)
        sources = "; ".join(definition["sources"])
        result.append({**line, "printed by": sources, "formula": definition["formula"]})
    return result


def _audits_of(row: Row, audits: LibraryAudits) -> list[Audit]:
    """The audit of each run whose answers are at hand, and that has an eval set a session."""
    if not metrics_by_library.can_audit(row.group.kind.SCORES):
        return []
    each = [audits.of_run(row.place_of(run), run) for run in row.used]
    return [audit for audit in each if audit is not None]


def _image(figure: Figure, name: str) -> dict[str, str]:
    """A figure as the source of an image; one file cannot refer to another."""
    data = base64.b64encode(render_figure(figure, "svg")).decode()
    return {"name": name, "source": f"data:image/svg+xml;base64,{data}"}
