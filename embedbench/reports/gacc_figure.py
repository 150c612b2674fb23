"""gAcc by α, the weight of the base session: the central figure of Tang et al. (2024)."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.array_types import Floats
from embedbench.errors import UserError
from embedbench.scores.few_shot_scores import class_ratio, gacc, gacc_area
from embedbench.scores.number_text import format_signed
from embedbench.scores.run_record import FINAL
from embedbench.scores.score_matrix import mean_of_known
from embedbench.scores.scores_of_guessing import GUESSES

from .curve_figures import CUT, Curve, begin_at_zero, draw_curve, spread_words, stack_matrices
from .figure_style import STYLE, title_lines
from .headings_and_units import heading, metric_name
from .result_rows import Group, Row

STEPS = 12  # of α where the ratio of base to novel classes is no integer: that of the paper
AXIS = "α, the weight of the base session\n0: novel classes alone · 1: aAcc"


@rc_context(STYLE)
def gacc_by_alpha(
    rows: Sequence[Row], styles: Mapping[str, int], width: float, *, fit: bool = False
) -> Figure:
    """The gAcc(α) of each learner, mean over sessions and runs, with the area under it in its name.

    So α = 0 has the novel accuracy of the tables, 1/r tAcc and 1 aAcc; r is the ratio of base to
    novel classes. The y axis begins at 0; `fit`: it fits what is drawn.

    **Source**: Tang et al. (2024), Eq. 4, Figures 2, 5, 7 and A3. **Departs**: at α = 0 the mean is
    over the sessions with novel classes, where theirs is undefined for the base session.

    Raises
    ------
    UserError
        The stream has no base session followed by sessions of equally many classes.
    """
    group = rows[0].group
    ratio = find_ratio(group)
    alphas = np.linspace(0, 1, (int(ratio) if ratio.is_integer() else STEPS) + 1)
    curves = []
    for row in rows:
        if row.used and row.learner != GUESSES:
            matrices = stack_matrices(row)
            style = styles.get(row.label)
            curves.append(_curve(matrices, ratio, alphas, row.label, style))
    if group.guessed is not None:
        T = group.sessions
        matrices = np.broadcast_to(group.guessed.R, (1, T, T))  # of early records (T, 1)
        curves.append(_curve(matrices, ratio, alphas, "chance", None))
    if all(np.isnan(curve.values).all() for curve in curves):
        raise UserError("gAcc is undefined in every run", "--figure matrix draws R[i, j]")
    figure = Figure((width, 2.4 if width < 4 else 2.8), layout="constrained")
    axes = figure.add_subplot()
    for curve in curves:
        draw_curve(axes, curve, turns=False)
    begin_at_zero(axes, [0.0], fit=fit)
    axes.grid(axis="y")
    axes.set_xlabel(AXIS)
    name = f"gAcc(α) (%), of {metric_name(FINAL, group.score)}{spread_words(curves)}"
    axes.set_title(title_lines(name + CUT * fit, width), loc="left")
    return figure


def find_ratio(group: Group) -> float:
    """The classes of the base session, as a multiple of those of each later one."""
    first = group.first
    sizes = first.n_classes or ()
    shape = np.shape(first.R)
    square = len(shape) == 2 and shape == (len(sizes), len(sizes))
    if group.kind.OWN_SETS or not square or len(sizes) < 2 or 0 in sizes:
        raise UserError(
            f"--figure gacc is of streams whose sessions each bring classes; {group.place} is none",
            "--figure curves draws it",
        )
    ratio = class_ratio(sizes)
    if np.isnan(ratio):
        raise UserError(
            "--figure gacc",
            expected="later sessions with equally many classes",
            got=list(sizes),
        )
    return ratio


def over_alpha(R: Floats, ratio: float, alphas: Floats) -> Floats:
    """(A,) gAcc_i(α) of (T, T) accuracies, mean over the sessions i where it is defined.

    >>> R = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> over_alpha(R, 4, np.array([0, 0.25, 1])).round(3)  # (.8 + .6) / 2, tAcc, aAcc
    array([0.7  , 0.7  , 0.647])
    """
    values = gacc(R, ratio, alphas)  # (A, T); NaN at α = 0 after the base session
    return mean_of_known(values, axis=1)


def _curve(matrices: Floats, ratio: float, alphas: Floats, name: str, style: int | None) -> Curve:
    """The curve of (n, T, T) accuracies, with the area under it in its name."""
    exact = not ratio.is_integer()
    areas = [gacc_area(R, ratio, exact=exact).mean() for R in matrices]
    area = format_signed(100 * float(np.mean(areas)), 1)
    values = 100 * np.array([over_alpha(R, ratio, alphas) for R in matrices])
    area_name = heading("gacc_exact" if exact else "gacc").removesuffix(" %")  # as in the table
    return Curve(values, alphas, style, f"{name}, {area_name} {area}")
