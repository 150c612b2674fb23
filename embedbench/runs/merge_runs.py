"""Merging directories of runs: what shards made apart gets into one directory."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """

    copied: int
    there: int
    filled: int
    left_out: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        filled = f", reference values filled in: {self.filled}" if self.filled else ""
        return f"runs copied: {self.copied}, there already: {self.there}{filled}"


def merge(roots: Sequence[Path], out: Path) -> MergeResult:
    """Copy the finished runs of several directories, with their references, into `out`.

    A run is copied if its predictions have the SHA-256 that its record names. Two runs in
    directories of one name are equal if their predictions are; the first is kept. Everything is
    compared before anything is written. `out` may hold runs already.
    """
    chosen: dict[Path, tuple[Path, str]] = {}  # directory in `out` → the run to copy, its SHA-256
    seen, left_out = 0, []
    kept = [out] if out.is_dir() else []
    if out.exists() and not kept:
        raise UserError(f"{out} is a file; --out takes a directory for the run records")
    for root in (*kept, *roots):
        finished = record_files.find(root, references=True)
        if root != out and not finished:
            raise UserError(f"{root} has no finished run; give the --out of an earlier run")
        for run in finished:
            relative = run.relative_to(root)
            if relative == Path():
                raise UserError(f"{root} is a single run; give the directory of all runs")
            try:
                sha256 = verify_predictions(run)
            except UserError as e:
                left_out.append(str(e))
                continue
            seen += 1
            first, other = chosen.setdefault(out / relative, (run, sha256))
            if other != sha256:
                raise _differ(first, run)
    todo = {run_dir: run for run_dir, (run, _) in chosen.items() if run != run_dir}
    for run_dir in chosen:
        tidy_if_free(run_dir, out)
    copied = sum(_copy(run, to, out, chosen[to][1]) for to, run in sorted(todo.items()))
    filled = sum(fill_if_free(run_dir, out) for run_dir in chosen)
    before = len(chosen) - len(todo)
    return MergeResult(copied, seen - before - copied, filled, tuple(left_out))


def _differ(first: Path, other: Path) -> UserError:
    return UserError(
        f"{first} and {other} are runs of one place with different predictions; nothing was "
        "copied: keep one of them (they may have been made by other versions, threads or machines)"
    )


def verify_predictions(run: Path) -> str:
    """The SHA-256 of a run's predictions, which is that of its record."""
    made = record_files.load(run)
    actual = record_files.predictions_sha256(run, made)
    if made.predictions_sha256 is None:
        raise UserError(
            f"{run} does not name the SHA-256 of its predictions; embedbench score RUNS --update "
            "adds it"
        )
    return actual


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
                raise UserError(f"{run} changed while it was copied; run the command again")
            if publish(made, run_dir, out):
                return True
        finally:
            shutil.rmtree(made, ignore_errors=True)
    if verify_predictions(run_dir) != sha256:
        raise _differ(run_dir, run)
    return False


def _copy_file(source: Path, target: Path) -> None:
    with atomic_write.writing(target) as temporary:
        try:
            file = regular_files.open_regular(source)
        except OSError as e:
            raise regular_files.unreadable(source, e) from e
        with file, open(temporary, "xb") as copy:
            shutil.copyfileobj(file, copy)
