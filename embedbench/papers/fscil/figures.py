"""The figures of Tang et al. (2024), from printed numbers or from our runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from embedbench.arrays import Floats
from embedbench.papers.published import PaperTable, Value
from embedbench.scores.few_shot_scores import BASE, CORNER_CASES, class_ratio, gacc, gacc_area
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .printed import CLASSES, RATIO, behind, printed_rows, row_name
from .runs import LEARNERS, NO_LAYERS, SWEPT, FSCILRuns, accuracies, curve
from .weights import BETAS

STEPS = 12  # steps of α, as in the paper
POINTS = {"α = 0": 0, "α = 1/12": 1, "α = 1/2": 6, "α = 1": STEPS}
AXIS = f"{STEPS} α"
NOTE = "by α: means over the sessions, at α = 0 over those with novel classes"


def over_alpha(R: Floats, ratio: float) -> Floats:
    """(13,) mean of gAcc_i(α) over the sessions where it is defined, α = 0, 1/12, … 1."""
    mean: Floats = np.nanmean(gacc(R, ratio, np.arange(STEPS + 1) / STEPS), axis=1)
    return mean


# --- of printed numbers ---


def figure2() -> PaperTable:
    """Figures 2 and A1: the corner cases and methods on miniImageNet."""
    cases = {name: case(len(CLASSES), BASE) for name, case in CORNER_CASES.items()}
    cases |= _printed("A6", ("SAVC", "NC-FSCIL", "Vit-Baseline"))
    table = _figure("Figure 2", "corner cases and methods on miniImageNet", cases)
    table.notes.append("ALICE, which the figure has too, has no printed accuracy on novel classes")
    return table


def figure5() -> PaperTable:
    """Figure 5: gAcc of the methods on miniImageNet whose novel accuracy is printed."""
    return _figure("Figure 5", "methods on miniImageNet", _printed("A6"))


def figure_a3() -> PaperTable:
    """Figure A3: gAcc of the methods on CIFAR-100 whose novel accuracy is printed."""
    return _figure("Figure A3", "methods on CIFAR-100", _printed("A7"))


def _printed(number: str, names: Iterable[str] = ()) -> dict[str, Floats]:
    """Accuracies behind the rows of Table A6 or A7, by method; all methods, or those in `names`."""
    known = {row_name(r): behind(number, r) for r in printed_rows(number)}
    return {n: m for n in names or known if (m := known[n]) is not None}


def _figure(name: str, what: str, cases: Mapping[str, Floats]) -> PaperTable:
    """gAcc by α and by session for several score matrices."""
    from embedbench.reports.curve_figures import Curve, curve_plot
    from embedbench.reports.learner_colours import glyph

    columns = [*POINTS, "gAcc"]
    table = PaperTable(
        name, f"{name}: gAcc by α and by session, {what}, percent", ("method",), columns
    )
    by_alpha, by_session = [], []
    for style, (label, R) in enumerate(cases.items()):
        along, areas = over_alpha(R, RATIO), gacc_area(R, RATIO)
        numbers = [*(along[at] for at in POINTS.values()), areas.mean()]
        stats = [Stat.of([100 * v]) for v in numbers]
        values = {c: Value(None, s, 2) for c, s in zip(columns, stats, strict=True)}
        table.rows.append(((f"{glyph(style)} {label}",), values))
        by_alpha.append(Curve(along[None], style))
        by_session.append(Curve(areas[None], style))
    for drawn, caption, axis, first in (
        (by_alpha, "mean gAcc by α", AXIS, 0),
        (by_session, "gAcc by session", "after session i", 1),
    ):
        picture = curve_plot(drawn, float("nan"), first, f"{what}: {caption}", axis=axis)
        table.figures.append((caption, picture))
    table.notes.append(f"from the accuracies behind Tables 1, 3 and A1 to A7; {NOTE}")
    return table


# --- of runs ---


def curves(runs: FSCILRuns) -> list[PaperTable]:
    """Our version of Figures 2, 5, 6 and A3: accuracies by session and gAcc by α."""
    return [_curves(runs, name) for name in runs.data]


def _curves(runs: FSCILRuns, name: str) -> PaperTable:
    from embedbench.reports.learner_colours import assign_styles, glyph

    label, styles = runs.data[name].label, assign_styles((n, n) for n in LEARNERS)
    title = f"Figures 5, 6, A3: accuracies by session and gAcc by α, {label}"
    table = PaperTable(f"Curves · {name}", title, (), (), across=2)
    parts: dict[str, tuple[Callable[[RunRecord], Floats], str, int]] = {
        "aAcc by session": (curve("aacc"), "after session i", 1),
        "gAcc by session": (curve("gacc"), "after session i", 1),
        "accuracy on novel classes by session": (_after_base, "after session i", 2),
    }
    for caption, (read, axis, first) in parts.items():
        table.figures += _pictures(runs, name, styles, caption, read, axis, first)
    table.figures += by_alpha(runs, name, styles)
    run = [(n, v) for n, v in LEARNERS.items() if runs.of(name, n)]
    table.notes += [", ".join(f"{glyph(styles[n])} {v.label}" for n, v in run), NOTE]
    return table


def _after_base(record: RunRecord) -> Floats:
    """(T - 1,) accuracy on novel classes, from the first session with novel classes."""
    return np.array(curve("novel_accuracy")(record)[1:], dtype=np.float64)


def by_alpha(runs: FSCILRuns, name: str, styles: Mapping[str, int]) -> list[tuple[str, str]]:
    """Figures 5, 7, A3: mean gAcc by α, variant → style; empty without runs."""
    return _pictures(runs, name, styles, "mean gAcc by α", _along, AXIS, 0)


def _pictures(
    runs: FSCILRuns,
    name: str,
    styles: Mapping[str, int],
    caption: str,
    read: Callable[[RunRecord], Floats],
    axis: str,
    first: int,
) -> list[tuple[str, str]]:
    """A figure of one curve for each variant that was run; empty without runs."""
    from embedbench.reports.curve_figures import Curve, curve_plot

    drawn = [
        Curve(values, style)
        for n, style in styles.items()
        if (values := runs.curve(name, n, read)) is not None
    ]
    label = f"{runs.data[name].label}: {caption}"
    return [(caption, curve_plot(drawn, float("nan"), first, label, axis=axis))] if drawn else []


def _along(record: RunRecord) -> Floats:
    return over_alpha(accuracies(record), class_ratio(record.n_classes or ()))


def sweeps(runs: FSCILRuns) -> list[PaperTable]:
    """Our version of Figure A4: aAcc and gAcc of FR by the weight of each loss."""
    return [_sweeps(runs, name) for name in runs.data]


def _sweeps(runs: FSCILRuns, name: str) -> PaperTable:
    """One row per weight of each loss; the other weights are FR's defaults."""
    from embedbench.reports.learner_colours import glyph

    label = runs.data[name].label
    title = f"Figure A4: FR by the weights of its losses, {label}, percent"
    table = PaperTable(
        f"Figure A4 · {name}", title, ("weight", "value"), ("aAcc", "gAcc"), across=3
    )
    for beta in BETAS:
        for weight in SWEPT:
            numbers = measure(runs, name, f"fr-{beta}-{weight:g}", ("aacc", "gacc"))
            if numbers is not None:
                values = dict(zip(table.columns, numbers, strict=True))
                table.rows.append(((beta, f"{weight:g}"), values))
        table.figures += _swept(runs, name, beta)
    table.notes += [f"{glyph(0)} aAcc, {glyph(1)} gAcc"] if table.figures else []
    table.notes.append(
        "the paper prints no numbers: gAcc first rises and then falls with each weight, aAcc "
        "hardly moves with β_cos and falls with β_IR on miniImageNet"
    )
    table.notes += [] if runs.possible(name, "fr") else [NO_LAYERS]
    return table


def _swept(runs: FSCILRuns, name: str, beta: str) -> list[tuple[str, str]]:
    """aAcc and gAcc by one weight; none if a run of any seed is missing."""
    from embedbench.reports.curve_figures import Curve, curve_plot

    drawn = []
    for style, what in enumerate(("aacc", "gacc")):
        by_weight = [runs.numbers(name, f"fr-{beta}-{weight:g}", what) for weight in SWEPT]
        each = [f for f in by_weight if f is not None]
        if len(each) < len(SWEPT) or len({len(f) for f in each}) > 1:
            return []
        drawn.append(Curve(np.stack(each, axis=1), style))
    places = [f"{w:g}" for w in SWEPT]
    label = f"{runs.data[name].label}: aAcc and gAcc by {beta}"
    picture = curve_plot(drawn, float("nan"), 0, label, axis=beta, places=places)
    return [(f"by {beta}", picture)]


def measure(
    runs: FSCILRuns, name: str, variant: str, what: Sequence[str], decimals: int = 2
) -> list[Value] | None:
    """Numbers of `few_shot_scores.summary` in percent, over the seeds; None without runs."""
    numbers = [runs.numbers(name, variant, w) for w in what]
    values = [Value(None, Stat.of(100 * f), decimals) for f in numbers if f is not None]
    return values if len(values) == len(what) else None
