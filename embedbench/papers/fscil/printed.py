"""Tang et al. (2024) without data: the printed tables, and numbers computed from them.

A row's aAcc is the mean of its printed sessions. If Tables A6 and A7 print a method's accuracy on
the novel classes too, its gAcc can be computed: the base classes' accuracy follows from aAcc_i.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from embedbench.arrays import Floats
from embedbench.papers.published import EXACT, PaperTable, Value, load_published
from embedbench.scores.few_shot_scores import BASE, CORNER_CASES, aacc, gacc_area
from embedbench.scores.mean_intervals import Stat

Row = dict[str, Any]

CLASSES = [60] + [5] * 8  # classes per session of miniImageNet and CIFAR-100
RATIO = CLASSES[0] / CLASSES[1]
TITLES = {
    "1": "FSCIL methods on miniImageNet, percent",
    "2": "FSCIL methods on CUB-200, percent",
    "3": "FSCIL methods on CIFAR-100, percent",
    "4": "losses added to the baseline, CIFAR-100, percent",
    "5": "losses added to the baseline, miniImageNet, percent",
    "6": "each layer, raw and rectified, and their ensemble, miniImageNet, percent",
    "A1": "the corner case Lazy, percent",
    "A2": "the corner case Greedy, percent",
    "A3": "the corner case Greedy-NF, percent",
    "A4": "backbones",
    "A5": "more FSCIL methods on CIFAR-100, percent",
    "A6": "accuracy on the novel classes, miniImageNet, percent",
    "A7": "accuracy on the novel classes, CIFAR-100, percent",
    "A8": "losses added to the baseline, CUB-200, percent",
}
CASES = dict(zip(("A1", "A2", "A3"), CORNER_CASES, strict=True))
# For tables of novel accuracies: where the same methods' accuracies of all classes are, and those
# of the baseline; the reverse; and methods with several names.
ALL = {"A6": ("1", "5"), "A7": ("A5", "4")}
NOVEL = {"1": "A6", "5": "A6", "6": "A6", "3": "A7", "4": "A7", "A5": "A7"}
SAME = {
    "Self-promoted": "Self-Prompted",
    "SubNet": "SubNetwork",
    "YourSelf (Ours)": "+YourSelf (Ours)",
    "Ours": "+YourSelf (Ours)",
    "Ensemble": "+YourSelf (Ours)",
    "none": "Vit-Baseline",
}
# By data set: the printed tables of methods, of the baseline, and of novel accuracies.
PRINTED = {
    "mini-imagenet": ("1", "5", "A6"),
    "cub200": ("2", "A8", None),
    "cifar100": ("A5", "4", "A7"),
}
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
HALF = 0.05  # cells have one decimal
FIRST_OF_6 = 0  # Table 6 counts its sessions from 0


def printed_rows(number: str) -> list[Row]:
    """The printed rows of a table."""
    rows: list[Row] = load_published("fscil")["tables"][number]
    return rows


def row_name(row: Row) -> str:
    """Method or layer, or the losses in use; for a corner case the session, or "mean"."""
    if "after" in row:
        return str(row["after"] or "mean")
    if "fr" in row:
        given = [n for n in LOSSES if row[n]]
        return "none" if not given else "all losses" if len(given) == len(LOSSES) else given[-1]
    return str(row.get("method") or row.get("layer") or row.get("model"))


def misprints(number: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The misprints of a table, by row and cell: what a `Value` says of them."""
    return {
        (m["row"], m["cell"]): {
            "remark": f"{m['reads']:g} seems right: {m['why']}",
            "reads": m["reads"],
        }
        for m in load_published("fscil")["misprints"]
        if m["table"] == number
    }


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
    if number in ALL:
        all_classes = _all_classes(number, row_name(row))
        return None if all_classes is None else matrix(all_classes["sessions"], row["novel"])
    if number not in NOVEL:
        return None
    name = SAME.get(row_name(row), row_name(row))
    novel = next((r["novel"] for r in printed_rows(NOVEL[number]) if r["method"] == name), None)
    return None if novel is None else matrix(row["sessions"], novel)


def _all_classes(number: str, name: str) -> Row | None:
    """The row with the accuracies on all classes, for a method of Table A6 or A7."""
    methods, ablation = ALL[number]
    candidates = [*printed_rows(methods), printed_rows(ablation)[0]]
    return next((r for r in candidates if SAME.get(row_name(r), row_name(r)) == name), None)


def follows(number: str, row: Row) -> dict[str, float]:
    """A row's mean, aAcc and gAcc, computed from its other cells, in percent."""
    if number in CASES:
        made = CORNER_CASES[CASES[number]](len(CLASSES), BASE)
        curves = {"aacc": aacc(made, CLASSES), "gacc": gacc_area(made, RATIO)}
        after = row["after"]
        return {n: 100 * float(v[after - 1] if after else v.mean()) for n, v in curves.items()}
    result = {}
    accuracies = behind(number, row)
    if "novel" in row:
        result["mean"] = float(np.mean(row["novel"]))
    if "sessions" in row:
        result["aacc"] = float(np.mean(row["sessions"]))
    elif accuracies is not None:
        result["aacc"] = 100 * float(aacc(accuracies, CLASSES).mean())
    if accuracies is not None:
        result["gacc"] = 100 * float(gacc_area(accuracies, RATIO).mean())
    return result


@cache
def rounding(key: str) -> float:
    """The largest error of a computed number if every printed cell is off by `HALF`."""
    if key != "gacc":
        return HALF  # a mean
    n = len(CLASSES)
    cells = np.eye(2 * n - 1)
    each = [gacc_area(matrix(c[:n].tolist(), c[n:].tolist()), RATIO).mean() for c in cells]
    return HALF * 100 * float(np.abs(each).sum())


# --- the tables ---


def table(number: str) -> PaperTable:
    """A printed table, with means computed from its other cells beside the printed ones."""
    rows = printed_rows(number)
    keys = [k for k in HEADS if any(k in r for r in rows)]
    lists = [k for k in CELLS if k in rows[0]]
    first = FIRST_OF_6 if number == "6" else CELLS[lists[0]] if lists else 0
    width = max((len(r[k]) for r in rows for k in lists if k in r), default=0)
    columns = [k for k in COLUMNS if k in rows[0]]
    heads = [HEADS[k] for k in keys] + [str(first + i) for i in range(width)]
    named = len(LOSSES) if "fr" in keys else 1
    result = PaperTable(number, TITLES[number], heads, [COLUMNS[k] for k in columns], named=named)
    result.unit = "%"
    wrong = misprints(number)
    for row in rows:
        cells = [c for k in lists for c in row.get(k, [])]
        cells += [None] * (width - len(cells))
        name, computed = row_name(row), follows(number, row)
        labels = [_text(row, k) for k in keys]
        labels += [
            _cell(c) + (" *" if (name, str(first + i)) in wrong else "")
            for i, c in enumerate(cells)
        ]
        values = {
            COLUMNS[k]: Value(
                row[k],
                Stat.of([computed[k]]) if k in computed and row[k] is not None else None,
                2,
                made=EXACT,
                rounding=0.0 if number in CASES else rounding(k),
                **wrong.get((name, k), {}),
            )
            for k in columns
        }
        result.rows.append((tuple(labels), values))
    result.notes += _notes(number)
    result.notes += [
        f"* {name}, {cell}: {why['remark']}"
        for (name, cell), why in wrong.items()
        if cell.isdigit()
    ]
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
        return "mean" if value is None else f"f_{value}"
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value is None else f"{value}{' †' if row.get('reported') else ''}"


def _notes(number: str) -> list[str]:
    if number in CASES:
        return ["ours: exact; gAcc_i is the area on the grid α = a/12, the base session 0 at α = 0"]
    notes = []
    if number != "A4":
        notes.append("ours, aAcc: the mean of the printed sessions")
    if number in (*NOVEL, *NOVEL.values()):
        notes.append(
            "ours, gAcc: from the printed accuracies on all classes and, Tables A6 and A7, on "
            "novel ones"
        )
    if number in ("1", "2", "A5"):
        notes.append("† of other papers; the rest was run again by the authors")
    if number == "5":
        notes.append("which losses the rows have is read from section 5.3; the ticks are unclear")
    if number == "6":
        notes.append("sessions are counted from 0 here, as printed")
    return notes
