"""What a notebook shows of runs: the table of `report` with its verdict, figures, data frames."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.config.typed_calls import check_arguments
from embedbench.scores.run_record import FINAL

from .compare_learners import studies
from .comparison_tables import rank_learners
from .data_frame import data_frame
from .figure_kinds import check_kind, draw_figure
from .load_results import Runs, load_runs
from .result_rows import Row, split_tables
from .results import Results
from .row_names import NO_NAMES, RowNames
from .table_metric import show_by
from .tables_from_runs import collect, csv_rows, to_json, with_chance
from .terminal_tables import table_text
from .verdict_sentence import verdict

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class NotebookView:
    """Runs of one directory, as `embedbench report` shows them.

    Parameters
    ----------
    directory : Path
        That of all runs.
    places : tuple of Path
        Those of the runs that are shown.
    rows : tuple of Row
        The rows of the tables, one a learner and stream.
    """

    directory: Path
    places: tuple[Path, ...]
    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        return table_text(self.rows)

    def _repr_html_(self) -> str:
        from .html_report import tables_html

        return tables_html(self.rows)

    @property
    def verdict(self) -> str:
        """A sentence for each table, on who leads, who is behind and who may be level."""
        return "\n".join(verdict(mine) for mine in split_tables(self.rows))

    @check_arguments
    def ranks(self, metric: str = FINAL) -> list[dict[str, Any]]:
        """One dictionary a learner, best first, with what `report --compare --csv` prints.

        Raises
        ------
        UserError
            There is no such metric, or one learner alone.
        """
        views = [rank_learners(study) for study in studies(self.rows, metric)]
        return [row for view in views for row in view.rows]

    @property
    def runs(self) -> Runs:
        """The runs one by one, with their records and answers.

        As `load_runs` gives them, but with the base score of the table at the top of each record.
        """
        scores = {row.place: row.group.score for row in self.rows}
        shown = Runs()
        for run in load_runs(self.directory):
            if run.place in self.places:
                score = scores.get(run.place.parent, run.record.score)
                shown.append(replace(run, record=show_by(run.record, score)))
        return shown

    def results(self) -> Results:
        """The runs as one table of results, which averages, pairs and compares them."""
        return self.runs.results()

    def to_pandas(self, *, means: bool = False) -> "pandas.DataFrame":
        """One row a run; with `means` one a learner and stream, as `report --csv` prints them.

        Metrics of both are of the base score that the table shows, in the column `score`.

        Raises
        ------
        UserError
            pandas is not installed.
        """
        return data_frame(csv_rows(to_json(self.rows))) if means else self.runs.to_pandas()

    def plot(
        self,
        kind: str = "curves",
        *,
        metric: str = FINAL,
        width: str = "column",
        fit_axis: bool = False,
        session: int | None = None,
    ) -> "Figure":
        """The figure that `report --figure KIND` writes; `figure.axes` and `savefig` are as usual.

        Raises
        ------
        UserError
            There is no such figure, or none of these runs.
        """
        from .figure_style import shown_figure

        check_kind(kind, width)
        how = {"width": width, "metric": metric, "fit": fit_axis, "session": session}
        return shown_figure(draw_figure(self.rows, kind, **how))  # type: ignore[arg-type]


def view_runs(
    directory: Path,
    run_dirs: Sequence[Path],
    metric: str | None = None,
    names: RowNames = NO_NAMES,
) -> NotebookView:
    """The view of some runs, and of the level of guessing on their streams."""
    places = tuple(with_chance(directory, run_dirs))
    rows = collect(directory, places, metrics=[metric] if metric else [], names=names)
    return NotebookView(directory, places, tuple(rows))
