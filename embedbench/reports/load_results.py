"""Finished runs as data: `load_runs` gives one row a run; answers are read on demand.

docs/results_as_data.md has examples.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.verified_records import Checker
from embedbench.text.printable_text import printable

from .loaded_run import Run
from .long_table import LongTable, matching, need_pandas

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Runs(Sequence[Run]):
    """Finished runs, sorted by their directories. A slice of them is `Runs` again."""

    _runs: tuple[Run, ...]

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: int | slice) -> "Run | Runs":
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        """Three lines: how many, of which learners, on which protocols."""
        parts = [sorted({getattr(r._brief, key) for r in self}) for key in ("learner", "protocol")]
        learners, protocols = (", ".join(names) or "none" for names in parts)
        return f"<{len(self)} runs\n learners: {learners}\n protocols: {protocols}>"

    def where(self, conditions: Mapping[str, Any] | None = None, /, **more: Any) -> "Runs":
        """The runs whose rows have these values.

        Parameters
        ----------
        conditions : mapping or None
            Name in the row → value, or a list of values; for names with dots.
        **more : object
            The same, for names without: `learner="ewc", seed=[0, 1]`.

        Raises
        ------
        UserError
            No run has such a name.
        """
        keep = matching(self.rows(), {**(conditions or {}), **more})
        kept = (run for run, kept in zip(self._runs, keep, strict=True) if kept)
        return Runs(tuple(kept))

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a run, see `Run.row`."""
        return [run.row() for run in self._runs]

    def to_pandas(self) -> "pandas.DataFrame":
        """One row a run; a value that a run does not have is missing.

        Raises
        ------
        UserError
            pandas is not installed.
        """
        return need_pandas().DataFrame.from_records(self.rows())

    def table(self, *names: str) -> LongTable:
        """All values as one long table, a row each.

        `names` are metrics, costs such as "bytes.total", curves such as "pooled", or "R", for which
        whole records are read; none: all metrics and costs.

        Raises
        ------
        UserError
            No run has a value of such a name.
        """
        return LongTable.of(self.rows(), names, lambda i: self[i].record)


def load_runs(
    *roots: str | Path,
    verify: bool = False,
    references: bool = False,
    notify: Callable[[str], None] = lambda sentence: warnings.warn(sentence, stacklevel=3),
) -> Runs:
    """Load finished runs: `load_runs("runs")`.

    Every record is read and the values of its row are checked, and nothing else: 10,000 runs take
    seconds. Predictions are compared with the SHA-256 in their record when they are read.
    Nothing that a record names is imported.

    Parameters
    ----------
    *roots : str or Path
        Directories of runs, or directories inside them.
    verify : bool
        Compute all metrics again from the predictions and compare, as `embedbench report` does.
        What is in doubt is left out.
    references : bool
        Whether to load the runs under `references`, too.
    notify : callable
        `notify(sentence)` gets one for each run that is left out; the default warns.

    Raises
    ------
    UserError
        There is no such directory, or it has no finished run.
    """
    runs: list[Run] = []
    for root in map(Path, roots):
        checker = Checker(root, notify)
        found = record_files.find(root, references=references)
        if not found:
            raise UserError(f"{root} has no finished run; give the --out of an earlier run")
        for place in found:
            try:
                whole = checker.record(place) if verify else None
                runs.append(Run.of(whole, place, root) if whole else Run.read(place, root))
            except UserError as e:
                notify(printable(f"left out: {e}"))
    if not roots:
        raise UserError("load_runs takes a directory of runs, such as load_runs('runs')")
    return Runs(tuple(runs))
