"""Which figures there are: `report RUNS --figure KIND --out fig.pdf`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from embedbench.errors import UserError, unknown

from .learner_colours import styles_in
from .result_rows import Row, split_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (
    "curves",
    "orders",
    "gacc",
    "matrix",
    "confusion",
    "trade-off",
    "ranks",
)  # docs/runs.md says what each shows
CURVES = ("curves", "orders")  # by session
WITH_CHANCE = ("curves", "gacc")  # which draw guessing, also alone
OVER_ORDERS = (*CURVES, "ranks")  # those that draw streams which differ in the class order
WIDTHS = {"column": 3.25, "page": 6.75}  # inches: of a column, and of a page with two
FORMATS = (".pdf", ".svg", ".png")
MAP_CLASSES = 12  # of an embedding file, with a colour and a mark each


class FigureStyle(TypedDict, total=False):
    """What `draw_figure` takes beside rows and kind."""

    width: str
    metric: str
    fit: bool
    session: int | None


def check_kind(kind: str, width: str) -> None:
    """Refuse a figure, or a width, that there is not."""
    if kind not in KINDS:
        raise unknown("figure", kind, KINDS)
    if width not in WIDTHS:
        raise unknown("--width", width, WIDTHS)


def check_figure(kind: str, path: Path | None, width: str) -> None:
    """Refuse a figure that there is not, or that no file is named for."""
    check_kind(kind, width)
    if path is None:
        raise UserError(f"--figure {kind} needs a file to write", f"add --out {kind}.pdf")
    check_format(path)


def check_format(path: Path) -> None:
    """Refuse a file name that does not end with a format of figures."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: a figure is written as .pdf, .svg or .png", "name such a file")


def save_figure(rows: Sequence[Row], kind: str, path: Path, **how: Unpack[FigureStyle]) -> None:
    """Draw the runs of one stream, see `draw_figure`, and write the figure."""
    from .figure_style import write

    write(path, draw_figure(rows, kind, **how))


def draw_figure(
    rows: Sequence[Row],
    kind: str,
    *,
    width: str = "column",
    metric: str = "final_accuracy",
    fit: bool = False,
    session: int | None = None,
) -> "Figure":
    """Draw the runs of one stream; all but gAcc and matrices show `metric`.

    Curves and ranks are also of one stream in several class orders.

    `fit`: axes of curves and trade-offs fit what is drawn, where they would begin at 0. `session`
    is that of `confusion`, None the last.
    """
    from . import confusion_figure, curve_figures, gacc_figure, order_figures, score_figures

    streams = [mine[0].group for mine in split_tables(rows)]
    if len(streams) > 1 and kind not in OVER_ORDERS:
        places = ", ".join(group.place for group in streams)
        raise UserError(
            f"--figure {kind} draws one stream, and there are {len(streams)}",
            f"give the directory of one instead: {places}",
        )
    rows = [row for row in rows if row.used]
    if not rows:
        raise UserError("no run is left to draw: all are flagged nan or diverged")
    if kind not in WITH_CHANCE and not any(row.learns for row in rows):
        raise UserError(f"no learner is left to draw: --figure {kind} draws none of guessing")
    if kind in (*CURVES, "gacc") and streams[0].sessions < 2:
        raise UserError(f"--figure {kind} needs two sessions", "--figure trade-off draws one")
    styles = styles_in(rows)
    inches = WIDTHS[width]

    def curves() -> "Figure":
        if len(streams) > 1:
            return order_figures.mean_curves(rows, inches, metric, fit=fit)
        return curve_figures.draw_one(rows, styles, inches, metric, fit=fit)

    draw: dict[str, Callable[[], Figure]] = {
        "curves": curves,
        "orders": lambda: order_figures.order_curves(rows, inches, metric, fit=fit),
        "gacc": lambda: gacc_figure.gacc_by_alpha(rows, styles, inches, fit=fit),
        "matrix": lambda: score_figures.matrix(rows, inches),
        "confusion": lambda: confusion_figure.confusion(rows, inches, session),
        "trade-off": lambda: score_figures.trade_off(rows, styles, inches, metric, fit=fit),
        "ranks": lambda: score_figures.ranks(rows, inches, metric),
    }
    return draw[kind]()
