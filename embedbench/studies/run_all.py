"""`run_all`: a file, learners and seeds to runs, a table and figures, without the command line."""

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.config.typed_calls import check_arguments
from embedbench.engines.device import find_device
from embedbench.engines.engine import Engine
from embedbench.engines.engine_tasks import Resources
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote.names_here import as_known
from embedbench.files.remote.uri import as_written
from embedbench.learning.learner import Learner
from embedbench.reports.notebook_view import NotebookView, view_runs
from embedbench.reports.row_names import RowNames
from embedbench.reports.tables_from_runs import say
from embedbench.runs.merge_runs import merge
from embedbench.runs.progress_line import RunsAtWork, show_progress
from embedbench.streams.protocol import Protocol
from embedbench.system.callback_types import Notify

from .resolve import pin_files
from .study_file import KEYS, study_of
from .study_runs import StudyRuns, describe_outcome

AS_ARGUMENTS = ("files", "protocols", "learners", "seeds", "set")  # keys with a name of their own
UNNAMED = "runs"  # the `--out` in the records of runs that have no directory yet


@dataclass(frozen=True, repr=False)
class StudyResults(NotebookView):
    """What `run_all` gives: the table with its verdict, figures, data frames, and the runs.

    Parameters
    ----------
    failed : tuple of str
        A sentence for each run that failed.
    """

    failed: tuple[str, ...] = ()

    @check_arguments
    def save(self, out: str | Path) -> Path:
        """Copy the runs, with their references, into a directory, which may hold runs already.

        They are those that `embedbench run --out` makes; `report`, `load_runs` and packs read them.

        Raises
        ------
        UserError
            `out` is a file, or has another run in the place of one of these.
        """
        out = Path(out)
        for sentence in merge([self.directory], out).left_out:
            say(f"left out: {sentence}")
        return out


@check_arguments
def run_all(
    file: str | Path | EmbeddingFile | Sequence[str | Path | EmbeddingFile],
    protocol: Any,
    learners: Any,
    seeds: int | str | Sequence[int] = 0,
    out: str | Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    jobs: int = 1,
    overwrite: bool = False,
    quiet: bool = False,
    notify: Notify = say,
    **options: Any,
) -> StudyResults:
    """Run learners on a stream with several seeds, as `embedbench run` does, and show the results.

    `run_all("photos.h5", "incremental-class", ["ncm", "mlp"], range(5))`. Runs that `out` has are
    kept, and an interrupted call goes on where it was.

    Parameters
    ----------
    file : str, Path or EmbeddingFile, or a sequence of them
        A path or a name; several are those of one stream, in order.
    protocol, learners : str or sequence of str
        Names, as `embedbench list` has them, or `package.module:Class`.
    seeds : int, str or sequence of int
        One seed, several, or a text such as "0-4".
    out : str, Path or None
        The directory of the runs; None keeps them until Python ends, or `save` copies them.
    settings : mapping or None
        What `--set` gives: `{"protocol.base": 50, "ewc.lam": 100}`.
    jobs : int
        Processes; they decide no answer. A script that asks for more than one begins its work below
        `if __name__ == "__main__":`.
    overwrite : bool
        Make finished runs again.
    quiet : bool
        No progress. Else a notebook has one line (which runs, how far, how long so far and still),
        a terminal a bar, and `notify` gets a line now and then elsewhere.
    notify : callable
        Takes a sentence on what is worth knowing; the default prints it to stderr.
    **options : object
        The other keys of a study file: `preset`, `metric`, `tune={"mlp.lr": [0.1, 0.01]}`,
        `names={"slda": "Streaming LDA"}`, `budget_mb`, `trunk`, `unknown`, `threads`, `device`, …

    Raises
    ------
    UserError
        A name or a setting is unknown, or every run failed.
    """
    given = [file] if isinstance(file, str | Path | EmbeddingFile) else list(file)
    if not given:
        raise UserError("run_all needs a file", "give its path or its name")
    _check_options(options)
    table = {
        "files": [[_file_name(one) for one in given]],
        "protocols": _names(protocol, "protocol", Protocol, "incremental-class", "protocol.base"),
        "learners": _names(learners, "learners", Learner, "ewc", "ewc.lam"),
        "seeds": seeds,
        "set": settings or {},
        **options,
    }
    study = pin_files(study_of(_as_toml(table), "run_all"), notify=notify)
    threads = study.threads or 1
    directory = Path(out).absolute() if out is not None else _directory_until_the_end()
    at_work = RunsAtWork()
    with show_progress("run", notify, quiet) as advance:
        outcome = StudyRuns(
            study=study,
            out=directory,
            written_as=UNNAMED if out is None else str(out),
            engine=Engine.parse(f"local:{jobs}", Resources.parse("", cpus=threads)),
            device=find_device(study.device or "auto"),
            overwrite=overwrite,
            trials=advance.coming_stage("trials"),
            progress=advance.coming_stage("runs", at_work),
            planned=at_work.plan,
            failing=lambda _: advance.fail(),  # `describe_outcome` names them
            notify=notify,
        ).make()
    sentences = describe_outcome(outcome)
    if not outcome.run_dirs:
        raise UserError("no run was made: " + "; ".join(sentences))
    for sentence in sentences:
        notify(sentence)
    row_names = RowNames(study.names)
    view = view_runs(directory, outcome.run_dirs, study.metric, row_names)
    for key in row_names.unused:
        notify(f"no row is called {key}")
    failed = tuple(f"{spec.learner} seed {spec.seed}: {why}" for spec, why in outcome.failed)
    return StudyResults(view.directory, view.places, view.rows, failed)


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that a study file does not have, or that are arguments of `run_all`."""
    known = [key.replace("-", "_") for key in KEYS if key not in AS_ARGUMENTS]
    for name in options:
        if name not in known:
            arguments = ["file", "protocol", "learners", "seeds", "settings"]
            raise unknown("argument of run_all", name, [*known, *arguments])


def _file_name(file: str | Path | EmbeddingFile) -> str:
    """A file as a command names it."""
    if isinstance(file, EmbeddingFile):
        file.check_unchanged()
        return as_known(file.path)
    return as_written(str(file))


def _names(given: Any, argument: str, kind: type, example: str, setting: str) -> list[str]:
    """Names in a list, or in one text with commas.

    A run is found again by its name and its settings, so that what is made already has none.
    """
    listed = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if listed and all(isinstance(name, str) for name in listed):
        return listed
    wrong = next((one for one in listed if not isinstance(one, str)), given)
    remedy = f"settings go beside it: settings={{{setting!r}: 100}}"
    if isinstance(wrong, kind):
        remedy += f"; code of yours has the name 'my_module:{type(wrong).__name__}'"
    raise UserError(
        f"{argument} of run_all", remedy, expected=f"a name, such as {example!r}", got=wrong
    )


def _as_toml(value: Any) -> Any:
    """A value of Python as a study file has it: a float is a text, None is "none"."""
    if isinstance(value, Mapping):
        return {str(key): _as_toml(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | range):
        return [_as_toml(one) for one in value]
    if value is None:
        return "none"
    if isinstance(value, bool | int | str):
        return value
    return str(value)  # of a float the shortest text that gives it again; a path, a device


def _directory_until_the_end() -> Path:
    """A directory for runs, which is removed when Python ends."""
    place = Path(tempfile.mkdtemp(prefix="embedbench-runs-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place
