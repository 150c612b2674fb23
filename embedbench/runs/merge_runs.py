"""Merging directories of runs: what shards made apart gets into one directory."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.storage import atomic_write, leases, regular_files

from .run_dirs import fill_if_free, publish, tidy_if_free


@dataclass(frozen=True)
class MergeResult(JsonRecord):
    """The result of a merge.

    Parameters
    ----------
    copied : int
        Runs that are new there, references included.
    there : int
        Runs that were there already, or came from two directories.
    filled : int
        Runs whose metrics waited for a reference that is there now.
    left_out : tuple of str
        A sentence for each run that is damaged.
    answers_alone : int
        Runs of those there that lack how sure a learner was, which a later directory has.
    """

    copied: int
    there: int
    filled: int
    left_out: tuple[str, ...]
    answers_alone: int = 0

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        filled = f", reference values filled in: {self.filled}" if self.filled else ""
        numbers = f"runs copied: {self.copied}, there already: {self.there}{filled}"
        if not self.answers_alone:
            return numbers
        return (
            f"{numbers}\n{self.answers_alone} of those there are answers alone, and another "
            "directory has how sure their learners were: name that one first, with a new --out"
        )


def merge(roots: Sequence[Path], out: Path) -> MergeResult:
    """Copy the finished runs of several directories, with their references, into `out`.

    A run is copied if its predictions have the SHA-256 that its record names. Two runs in
    directories of one name are equal if their predictions are, or the answers of both where one
    has answers alone; the first is kept. `out` may hold runs already.
    """
    copied = 0
    there = 0
    answers_alone = 0
    left_out = list[str]()
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file", "--out takes a directory for the run records")
    each = {root: record_files.find(root, references=True) for root in roots}
    for root, finished in each.items():
        if not finished or finished == [root]:
            what = "is a single run" if finished else "has no finished run"
            raise UserError(f"{root} {what}", "give the --out of an earlier run")
    for root, finished in each.items():
        for run in finished if root != out else ():
            run_dir = out / run.relative_to(root)
            try:
                sha256 = verify_predictions(run)
            except UserError as e:
                left_out.append(str(e))
                continue
            tidy_if_free(run_dir, out)
            if not record_files.is_finished(run_dir) and _copy(run, run_dir, out, sha256):
                copied += 1
            elif verify_predictions(run_dir) == sha256:
                there += 1
            elif (kept_all := _same_answers(run_dir, run)) is not None:
                there += 1
                answers_alone += not kept_all
            else:
                raise UserError(
                    f"{run_dir} and {run} are runs of one place with different predictions",
                    "keep one of them (versions, threads or machines may have been others)",
                )
    runs = record_files.find(out, references=True) if out.is_dir() else []
    filled = sum(fill_if_free(run_dir, out) for run_dir in runs)
    return MergeResult(copied, there, filled, tuple(left_out), answers_alone)


def verify_predictions(run: Path) -> str:
    """The SHA-256 of a run's predictions, which is that of its record."""
    made = record_files.load(run)
    actual = record_files.predictions_sha256(run, made)
    if made.predictions_sha256 is None:
        raise UserError(
            f"{run} does not name the SHA-256 of its predictions",
            "embedbench score RUNS --update adds it",
        )
    return actual


def _same_answers(run_dir: Path, run: Path) -> bool | None:
    """Whether `run_dir` has all that is known of two runs, one of answers alone; None: they differ.

    A pack `--answers-only` leaves out how sure a learner was, so that its file is another one.
    """
    kept, other = record_files.read_predictions(run_dir), record_files.read_predictions(run)
    if type(kept) is not type(other):
        return None
    optional = kept.optional()
    more = [name for name in optional if getattr(kept, name) is not None]
    their_more = [name for name in optional if getattr(other, name) is not None]
    if more and their_more:
        return None
    for name in kept.tables().keys() - optional:
        if not np.array_equal(getattr(kept, name), getattr(other, name)):
            return None
    return not their_more


def _copy(run: Path, run_dir: Path, out: Path, sha256: str) -> bool:
    """Copy a run to `run_dir`; False if another process has put it there meanwhile."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    made = atomic_write.temporary_name(run_dir)
    with leases.alone(run_dir):  # who clears up beside it does not meet `made`
        made.mkdir()
        try:
            for name in (record_files.PREDICTIONS, record_files.RECORD):
                _copy_file(run / name, made / name)
            if verify_predictions(made) != sha256:
                raise UserError(f"{run} changed while it was copied", "run the command again")
            if publish(made, run_dir, out):
                return True
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return False


def _copy_file(source: Path, target: Path) -> None:
    with atomic_write.writing(target) as temporary:
        with regular_files.explain_errors(f"{source} cannot be read"):
            file = regular_files.open_regular(source)
        with file, open(temporary, "xb") as copy:
            shutil.copyfileobj(file, copy)
