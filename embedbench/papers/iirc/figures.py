"""The figures of Abdelsalam et al. (2021), made from our runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from embedbench.arrays import Ints
from embedbench.papers.published import PaperTable, Value
from embedbench.scores.label_set_predictions import LabelSets
from embedbench.scores.label_set_scores import confusion, introduction_order
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .runs import BUFFERS, LEARNERS, VARIANTS, IIRCRuns, curve, matrix, score

if TYPE_CHECKING:
    from embedbench.reports.curve_figures import Curve

Read = Callable[[RunRecord], Any]

AXES = ("true label", "label given")  # of a confusion matrix
CONFUSED_AFTER = (0, 1, 5, 10)  # sessions of Figures A.18 to A.22
FIRST, MIDDLE, LAST = 10, 10, 5  # a confusion matrix shows at most 25 classes
FOLLOWED = 4  # sessions of Figures A.16 and A.17


def performance(runs: IIRCRuns) -> list[PaperTable]:
    """Figures 3, 4 and A.8: pw-JS over all samples with a seen label, by session."""
    parts = {"pw-JS, all classes so far (R_j)": score("pw_js")}
    return _figures(runs, "Figures 3, 4, A.8", "average performance by session", parts)


def newest(runs: IIRCRuns) -> list[PaperTable]:
    """Figures 5 and A.9: pw-JS on each session right after it was learned."""
    parts = {"pw-JS, the session just learned (R_jj)": lambda r: np.diagonal(matrix(r))}
    title = "performance on each new session"
    return [_figure(runs, n, "Figures 5, A.9", title, parts, joint=False) for n in runs.data]


def superclasses(runs: IIRCRuns) -> list[PaperTable]:
    """Figures A.10 and A.11: pw-JS if only superclasses were labels."""
    parts = {"pw-JS, superclasses only": curve("superclass_pw_js")}
    return _figures(runs, "Figures A.10, A.11", "performance over the superclasses only", parts)


def subclasses(runs: IIRCRuns) -> list[PaperTable]:
    """Figures A.12 and A.13: precision among subclasses with and without a superclass."""
    parts = {
        "precision, subclasses under superclasses": curve("subclass_precision"),
        "precision, subclasses without superclass": curve("lone_subclass_precision"),
    }
    return _figures(runs, "Figures A.12, A.13", "precision among types of subclasses", parts)


def jaccard(runs: IIRCRuns) -> list[PaperTable]:
    """Figures A.14 and A.15: pw-JS and JS, and exact matches."""
    parts = {
        "pw-JS": score("pw_js"),
        "JS": score("js"),
        "exact match": score("exact_match"),
    }
    return _figures(runs, "Figures A.14, A.15", "pw-JS, JS and exact match by session", parts)


def depth(runs: IIRCRuns) -> list[PaperTable]:
    """pw-JS if only classes of one depth were labels; the paper's hierarchies have two depths."""
    tables = []
    for name in runs.data:
        records = (
            r for n in LEARNERS for of_configuration in runs.of(name, n) for r in of_configuration
        )
        first = next(records, None)
        curves = (first and first.curves) or {}
        keys = [k for k in curves if k.startswith("depth_")]
        parts = {f"pw-JS, depth {key.split('_')[1]}": curve(key) for key in keys}
        title = "performance by depth in the hierarchy, 0 the top"
        tables.append(_figure(runs, name, "Depths", title, parts))
    return tables


def labels(runs: IIRCRuns) -> list[PaperTable]:
    """Number of labels given to a sample and of its true labels, by session."""
    from embedbench.reports.curve_figures import Curve

    tables = []
    for name in runs.data:
        each = (runs.curve(name, n, curve("labels_true")) for n in LEARNERS)
        true = next((values for values in each if values is not None), None)
        extra = [] if true is None else [Curve(true.mean(axis=0, keepdims=True), None)]
        parts = {"labels given to a sample": curve("labels_predicted")}
        title = "number of labels given by session"
        table = _figure(runs, name, "Labels", title, parts, unit="labels", extra=extra)
        table.notes.append("dotted: labels of a sample that were seen, all of which it should get")
        tables.append(table)
    return tables


def _figures(runs: IIRCRuns, number: str, title: str, parts: dict[str, Read]) -> list[PaperTable]:
    return [_figure(runs, name, number, title, parts) for name in runs.data]


def _figure(
    runs: IIRCRuns,
    name: str,
    number: str,
    title: str,
    parts: dict[str, Read],
    *,
    unit: str = "%",
    extra: Sequence[Curve] = (),
    joint: bool = True,
) -> PaperTable:
    """A picture per part, a curve per learner, and the `extra` curves; `joint` has one session."""
    from embedbench.reports.curve_figures import Curve, curve_plot

    data, styles = runs.data[name], _styles()
    table = PaperTable(f"{number} · {name}", f"{number}: {title}, {data.label}", (), ())
    for what, read in parts.items():
        drawn = [
            Curve(values, styles[learner])
            for learner in LEARNERS
            if (values := runs.curve(name, learner, read)) is not None
        ]
        if drawn:
            caption = f"{data.label}: {what}"
            once = runs.curve(name, "joint", read) if joint else None
            ideal = float("nan") if once is None else float(once[:, -1].mean())
            picture = curve_plot([*extra, *drawn], ideal, 0, caption, unit=unit, deviations=True)
            table.figures.append((caption, picture))
    table.across = 3 if len(table.figures) == 3 else 2
    bands = f"{_BANDS}; dashed: joint, all classes at once" if joint else _BANDS
    table.notes += [_key({style: VARIANTS[n].label for n, style in _styles().items()}), bands]
    return table


_BANDS = (
    "means over task configurations, of each the mean over its seeds; bands: the standard "
    "deviation over configurations"
)


def _styles() -> dict[str, int]:
    """Learner → style, that of every report."""
    from embedbench.reports.learner_colours import assign_styles

    styles = assign_styles((learner, learner) for learner in LEARNERS)
    return {learner: styles[learner] for learner in LEARNERS}


def _key(names: Mapping[int, str]) -> str:
    from embedbench.reports.learner_colours import glyph

    return ", ".join(f"{glyph(style)} {name}" for style, name in names.items())


def sessions(runs: IIRCRuns) -> list[PaperTable]:
    """Figures A.16 and A.17: pw-JS on four middle sessions, from each of them to the end."""
    tables = []
    for name in runs.data:
        parts = {
            f"pw-JS on session {k} (R_j{k})": _column(k)
            for k in sessions_to_follow(runs.sessions(name))
        }
        title = f"performance on {len(parts)} sessions"
        table = _figure(runs, name, "Figures A.16, A.17", title, parts, joint=False)
        table.notes.append(
            "a fall is not forgetting alone: a class that comes later may apply to a session's "
            "samples too, and is then asked for"
        )
        tables.append(table)
    return tables


def _column(k: int) -> Read:
    return lambda r: matrix(r)[:, k]


def sessions_to_follow(n_sessions: int) -> list[int]:
    """Sessions to follow: four evenly spaced between the first and the last.

    >>> sessions_to_follow(22), sessions_to_follow(3), sessions_to_follow(0)
    ([4, 8, 13, 17], [1], [])
    """
    steps = np.linspace(0, n_sessions - 1, FOLLOWED + 2)[1:-1].round()
    return sorted({int(k) for k in steps if 0 < k < n_sessions - 1})


# --- confusion ---


def confusions(runs: IIRCRuns) -> list[PaperTable]:
    """Figures 6 and A.18 to A.26: labels given to the samples of each class."""
    tables = []
    for name, data in runs.data.items():
        numbers = "Figures 6, A.18–A.26"
        title = f"{numbers}: labels given to the samples of each class, {data.label}"
        table = PaperTable(f"{numbers} · {name}", title, (), (), across=2)
        truth = False
        for learner in LEARNERS:
            answers = runs.answers(name, learner)
            if answers is None:
                continue
            if not truth:
                table.figures += _confusions(*answers, f"{name}, true labels", truth=True)
                truth = True
            caption = f"{name}, {VARIANTS[learner].label}"
            table.figures += _confusions(*answers, caption, truth=False)
        table.notes.append(
            "share of the samples of a row's class that were given a column's label, from dark "
            "(0) to bright (1); a sample has a row for each of its labels. Classes by "
            f"introduction: the first {FIRST}, the last {LAST}, and up to {MIDDLE} evenly spaced "
            "between. One run: the first task configuration and seed"
        )
        tables.append(table)
    return tables


def _confusions(
    p: LabelSets, names: Sequence[str], caption: str, *, truth: bool
) -> list[tuple[str, str]]:
    """A picture after each of the paper's sessions, and one after the last session."""
    from embedbench.reports.matrix_figures import heat_map

    order = introduction_order(p)
    ends = {int(s): m for m, s in enumerate(p.session)}  # the last moment of each session
    pictures = []
    for session in sorted({*CONFUSED_AFTER, max(ends)} & set(ends)):
        chosen = chosen_classes(int(p.seen[ends[session]].sum()))
        shares = confusion(p, ends[session], truth=truth)[np.ix_(chosen, chosen)]
        title = f"{caption}, after session {session}"
        axes: Any = {"axes_names": AXES, "names": [names[c] for c in order[chosen]]}
        pictures.append((title, heat_map(shares, title, 1.4 + 0.12 * len(chosen), **axes)))
    return pictures


def chosen_classes(seen: int) -> Ints:
    """Positions, in order of introduction, of the classes that a confusion matrix shows.

    >>> chosen_classes(4)
    array([0, 1, 2, 3])
    >>> len(chosen_classes(60)), chosen_classes(60)[-6:]
    (25, array([54, 55, 56, 57, 58, 59]))
    """
    if seen <= FIRST + MIDDLE + LAST:
        return np.arange(seen)
    between = np.linspace(FIRST, seen - LAST - 1, MIDDLE).round().astype(np.int64)
    return np.concatenate([np.arange(FIRST), between, np.arange(seen - LAST, seen)])


# --- buffers ---


def buffers(runs: IIRCRuns) -> list[PaperTable]:
    """Figures A.27 and A.28: ER with more and fewer exemplars per class."""
    from embedbench.reports.curve_figures import Curve, curve_plot

    numbers, last = "Figures A.27, A.28", "pw-JS in the end"
    tables = []
    for name, data in runs.data.items():
        title = f"{numbers}: ER by exemplars a class, {data.label}"
        heads = (last, "mean over sessions")
        table = PaperTable(f"{numbers} · {name}", title, ("learner",), heads, across=2)
        drawn = []
        for style, variant in enumerate(BUFFERS):
            curves = runs.curve(name, variant, score("pw_js"))
            if curves is not None:
                drawn.append(Curve(curves, style))
                stats = (Stat.of(curves[:, -1]), Stat.of(curves.mean(axis=1)))
                values = {h: Value(None, s, 2) for h, s in zip(table.columns, stats, strict=True)}
                table.rows.append(((VARIANTS[variant].label,), values))
        if drawn:
            caption = f"{data.label}: pw-JS of ER by exemplars a class"
            picture = curve_plot(drawn, float("nan"), 0, caption, deviations=True)
            table.figures.append((caption, picture))
        table.notes += [_key({i: VARIANTS[n].label for i, n in enumerate(BUFFERS)}), _BANDS]
        tables.append(table)
    return tables
