"""Tang et al. (2024) without data: the printed tables, and numbers computed from them.

A row's aAcc is the mean of its printed sessions. If Tables A6 and A7 print a method's accuracy on
the novel classes too, its gAcc can be computed: the base classes' accuracy follows from aAcc_i.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.papers.paper_folders import read_paper
from embedbench.papers.paper_table import EXACT, PaperTable, Value, read_misprint
from embedbench.scores.few_shot_scores import BASE, CORNER_CASES, aacc, gacc_area
from embedbench.scores.mean_intervals import Stat

Row = dict[str, Any]

FACTS = read_paper(Path(__file__).with_name("paper.toml"))
TITLES: dict[str, dict[str, Any]] = FACTS["titles"]
SAME: dict[str, str] = FACTS["same"]
CLASSES = [60] + [5] * 8  # classes per session of miniImageNet and CIFAR-100
RATIO = CLASSES[0] / CLASSES[1]
LOSSES = ("fr", "cos_nov", "cr", "ir")
HEADS = {
    "method": "method",
    "layer": "layer",
    "after": "after",
    "fr": "FR",
    "cos_nov": "L_cos + L_NovCE",
    "cr": "L_CR",
    "ir": "L_IR",
    "model": "model",
    "dim": "width",
    "heads": "heads",
    "layers": "layers",
    "params_m": "M parameters",
}
CELLS = {"sessions": 1, "novel": 2, "on": 1}  # lists of cells, and the number of the first cell
COLUMNS = {"mean": "mean", "aacc": "aAcc", "gacc": "gAcc"}


def printed_rows(number: str) -> list[Row]:
    """The printed rows of a table."""
    rows: list[Row] = FACTS["printed"]["tables"][number]
    return rows


def row_name(row: Row) -> str:
    """Method or layer, or the losses in use; for a corner case the session, or "mean"."""
    if "fr" in row:
        given = [n for n in LOSSES if row[n]]
        return "none" if not given else "all losses" if len(given) == len(LOSSES) else given[-1]
    return str(next(row[k] for k in ("after", "method", "layer", "model") if k in row))


def read_misprints(number: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What a `Value` says of the errors in a printed table, by row and cell."""
    wrong = (m for m in FACTS["printed"]["misprints"] if m["table"] == number)
    return {(m["row"], m["cell"]): read_misprint(m) for m in wrong}


# --- what follows ---


def matrix(sessions: Sequence[float], novel: Sequence[float], ratio: float = RATIO) -> Floats:
    """(T, T) accuracies that give the printed aAcc_i and novel accuracies, both in percent.

    A_i^1 = ((r + k) aAcc_i - k A_i^novel) / r, k = i - 1. Every novel session gets A_i^novel,
    because gAcc depends only on their sum.
    """
    k = np.arange(len(sessions))
    on_novel = np.array([0.0, *novel])
    R = np.tile(on_novel[:, None], len(k)) / 100
    R[:, 0] = ((ratio + k) * np.asarray(sessions) - k * on_novel) / ratio / 100
    R[np.triu_indices(len(k), 1)] = np.nan
    return R


def behind(number: str, row: Row) -> Floats | None:
    """Accuracies behind a row, if those on all and on novel classes are printed; else None."""
    about, name = TITLES[number], SAME.get(row_name(row), row_name(row))
    if "all" in about:  # a table of novel accuracies
        methods, ablation = about["all"]
        candidates = [*printed_rows(methods), printed_rows(ablation)[0]]
        same = (r for r in candidates if SAME.get(row_name(r), row_name(r)) == name)
        return None if (r := next(same, None)) is None else matrix(r["sessions"], row["novel"])
    novel = printed_rows(about["novel"]) if "novel" in about else []
    match = next((r["novel"] for r in novel if r["method"] == name), None)
    return None if match is None else matrix(row["sessions"], match)


def follows(number: str, row: Row) -> dict[str, float]:
    """A row's mean, aAcc and gAcc, computed from its other cells, in percent."""
    if "case" in TITLES[number]:
        R, after = CORNER_CASES[TITLES[number]["case"]](len(CLASSES), BASE), row["after"]
        curves = {"aacc": aacc(R, CLASSES), "gacc": gacc_area(R, RATIO)}
        return {
            n: 100 * float(v.mean() if after == "mean" else v[after - 1]) for n, v in curves.items()
        }
    result, accuracies = {}, behind(number, row)
    if accuracies is not None:
        result["aacc"] = 100 * float(aacc(accuracies, CLASSES).mean())
        result["gacc"] = 100 * float(gacc_area(accuracies, RATIO).mean())
    if "novel" in row:
        result["mean"] = float(np.mean(row["novel"]))
    if "sessions" in row:
        result["aacc"] = float(np.mean(row["sessions"]))
    return result


# --- the tables ---


def table(number: str) -> PaperTable:
    """A printed table, with means computed from its other cells beside the printed ones."""
    rows, wrong = printed_rows(number), read_misprints(number)
    keys = [k for k in HEADS if any(k in r for r in rows)]
    lists = [k for k in CELLS if k in rows[0]]
    first = 0 if number == "6" else CELLS[lists[0]] if lists else 0
    width = max((len(r[k]) for r in rows for k in lists if k in r), default=0)
    columns = [k for k in COLUMNS if any(k in r for r in rows)]
    heads = (*(HEADS[k] for k in keys), *(str(first + i) for i in range(width)))
    named = len(LOSSES) if "fr" in keys else 1
    shown = tuple(COLUMNS[k] for k in columns)
    result = PaperTable(number, TITLES[number]["title"], heads, shown, named=named, unit="%")
    for row in rows:
        cells = [c for k in lists for c in row.get(k, [])]
        cells += [None] * (width - len(cells))
        name, computed = row_name(row), follows(number, row)
        labels = [_text(row, k) for k in keys]
        labels += [
            _cell(c) + (" *" if (name, str(first + i)) in wrong else "")
            for i, c in enumerate(cells)
        ]
        values = {}
        for k in columns:
            stat = Stat.of([computed[k]]) if k in computed and k in row else None
            more = wrong.get((name, k), {})
            values[COLUMNS[k]] = Value(row.get(k), stat, 2, made=EXACT, **more)
        result.add(labels, values)
    of_cells = [(name, cell) for name, cell in wrong if cell.isdigit()]
    remarks = (f"* {name}, {cell}: {wrong[name, cell]['remark']}" for name, cell in of_cells)
    result.notes = (*_notes(number), *remarks)
    return result


def _cell(value: float | None) -> str:
    """A value with the printed decimals: usually one; a few cells have none or two."""
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:.1f}" if value == round(value, 1) else str(value)


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool):
        return "✓" if value else "–"
    if key == "after":
        return "mean" if value == "mean" else f"f_{value}"
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value is None else f"{value}{' †' if row.get('reported') else ''}"


def _notes(number: str) -> list[str]:
    about = TITLES[number]
    if "case" in about:
        return ["ours: exact; gAcc_i is the area on the grid α = a/12, the base session 0 at α = 0"]
    notes = ["ours, aAcc: the mean of the printed sessions"] if number != "A4" else []
    if "novel" in about or "all" in about:
        notes.append(
            "ours, gAcc: from the printed accuracies on all classes and, Tables A6 and A7, on "
            "novel ones"
        )
    return [*notes, *about.get("notes", ())]
