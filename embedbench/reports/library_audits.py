"""What other libraries would print for runs, computed as their answers are read for verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedbench.errors import UserError
from embedbench.scores import metrics_by_library, record_files
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import RunRecord

from .compare_learners import judge
from .result_rows import Row, split_tables

if TYPE_CHECKING:
    from .confusion_figure import Confusion

MOST_CLASSES = 200  # of a confusion matrix that can be looked at
Audit = list[dict[str, Any]]  # as `metrics_by_library.audit` returns it


@dataclass
class LibraryAudits:
    """The audits and confusion matrices of runs by their directories; no answers are kept.

    Verdicts, audits and matrices read them once; metrics of answers that a table asks for, such as
    those of few-shot runs, are computed before, in a reading of their own.
    """

    made: dict[Path, Audit | None] = field(default_factory=dict)
    confusions: dict[Path, "Confusion | None"] = field(default_factory=dict)  # at the end

    def judge_tables(self, rows: Sequence[Row]) -> None:
        """Make the verdicts of all tables, and the audits of their runs, in one reading.

        Whatever asks for these verdicts afterwards has them.
        """
        for mine in split_tables(rows):
            judge(mine, self.read)

    def read(self, place: Path, run: RunRecord) -> RunAnswers:
        """The answers of a run, of which the audit is kept."""
        from .confusion_figure import confusion_of  # with matplotlib, which a table does not need

        answers = record_files.read_predictions(place, run)
        if place not in self.made:
            fits = _can_audit(run) and metrics_by_library.can_audit(answers.SCORES)
            self.made[place] = metrics_by_library.audit(answers) if fits else None
            few = answers.seen.shape[1] <= MOST_CLASSES
            last = len(run.n_train) - 1
            self.confusions[place] = confusion_of(answers, run.score, last) if few else None
        return answers

    def confusion_of_run(self, place: Path, run: RunRecord) -> "Confusion | None":
        """The confusion matrix of a run at the end; None of label sets, and of many classes."""
        if place not in self.confusions:
            self.read(place, run)
        return self.confusions.get(place)

    def of_run(self, place: Path | None, run: RunRecord) -> Audit | None:
        """The audit of a run; None where its answers are not at hand, or have none."""
        if place is None or not _can_audit(run):
            return None
        if place not in self.made:
            try:
                self.read(place, run)
            except UserError:  # the rest of a page needs the record alone
                self.made[place] = None
        return self.made[place]


def _can_audit(run: RunRecord) -> bool:
    """Whether a run has an eval set a session, as the definitions take it."""
    shape = np.shape(run.R)
    return len(shape) == 2 and shape[0] == shape[1]
