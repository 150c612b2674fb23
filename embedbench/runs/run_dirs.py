"""The directory of a run: its name, how it gets there by one rename, and what lies beside it.

======================  ===============================================================
`seed-0`                the finished run
`.seed-0.lease`         the process that works on it, see `embedbench.storage.leases`
`.seed-0.partial`       its checkpoint; written only by who holds the lease
`.seed-0.WRITER.tmp`    a run while it is written
`.seed-0.WRITER.old`    the run that `--overwrite` replaces, in the moment in which it does
======================  ===============================================================
`tuning/` of the directory of runs has a search's log, NAME.json, and beside it `.NAME.json.lease`
and, until it is finished, the scores of its trials: `.NAME.json.scores`.
"""

import contextlib
import errno
import glob
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.array_file import WrongError
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import UnscoredRun
from embedbench.scores.verified_records import fill_reference
from embedbench.storage import atomic_write, leases, user_cache, value_digest

from .run_spec import RunSpec, Spec

TUNING = "tuning"  # the folder of searches in a directory of runs
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # a directory that is not empty has the name


def run_dir_name(spec: RunSpec, contents: Sequence[str]) -> Path:
    """The directory of a run on files of these contents, relative to RUNS; equal runs share it."""
    stream = value_digest.digest(spec.protocol.settings.recipe(), *contents)
    seed = "-".join([f"seed-{spec.seed}", *(f"{k}{v}" for k, v in spec.fixed)])
    return Path(f"{_folder(spec.protocol)}-{stream[:8]}", _learner_dir(spec), seed)


def reference_dir_name(spec: RunSpec, key: str) -> Path:
    """The directory of a run of the offline learner, relative to RUNS; `key` is what it learns."""
    return Path("references", f"{_learner_dir(spec)}-{key[:8]}", f"seed-{spec.seed}")


def _learner_dir(spec: RunSpec) -> str:
    return f"{_folder(spec.learner)}-{value_digest.digest(spec.learner.identity)[:8]}"


def _folder(spec: Spec[Any]) -> str:
    """The name of a learner or protocol in a path."""
    return spec.name.replace(":", ".").replace("/", ".")


def checkpoint_path(run_dir: Path) -> Path:
    """The directory of a run's checkpoint, beside its own."""
    return run_dir.with_name(f".{run_dir.name}.partial")


def trials_path(log: Path) -> Path:
    """The scores of a search's finished trials, beside its log."""
    return log.with_name(f".{log.name}.scores")


def run_at(run_dir: Path) -> str | None:
    """Fingerprint of the finished run in a directory, or None.

    It is that of the predictions, because a record may gain metrics later; the same on every
    machine.
    """
    try:
        is_finished = record_files.is_finished(run_dir)
        return user_cache.state(run_dir / record_files.PREDICTIONS) if is_finished else None
    except FileNotFoundError:  # put aside in this moment
        return None


def publish(made: Path, run_dir: Path, root: Path, replaces: str | None = None) -> bool:
    """Rename a complete run to `run_dir`; a finished one that is there already is kept instead.

    `made` lies beside `run_dir` and is gone afterwards. The directories from `root`, that of all
    runs, are synced. The run of which `run_at` says `replaces` makes way. Returns whether it is the
    run in `run_dir` now.
    """
    atomic_write.sync_path(made)
    old: Path | None = None
    while True:
        try:
            made.rename(run_dir)
            break
        except OSError as error:
            if error.errno not in TAKEN:
                raise
        if not record_files.is_finished(run_dir):
            _discard(run_dir, root)
        elif replaces is not None and run_at(run_dir) == replaces:
            old = atomic_write.temporary_name(run_dir).with_suffix(".old")
            run_dir.rename(old)
        else:
            shutil.rmtree(made, ignore_errors=True)
            return False
    for directory in run_dir.parents:
        atomic_write.sync_path(directory)
        if directory == root:
            break
    if old is not None:
        atomic_write.remove(old)
    return True


def save_run(
    predictions: RunAnswers,
    unscored: UnscoredRun,
    run_dir: Path,
    root: Path,
    replaces: str | None = None,
) -> bool:
    """Score predictions and publish them as a run; a finished one there is kept, see `publish`.

    They are scored as they are held, which is how they are stored: nothing is read back.
    """
    try:
        stored = predictions.as_stored()
    except WrongError as error:
        raise UserError(
            f"the answers of {run_dir} are none that a run can give ({error})",
            "correct the protocol or the learner that they come from",
        ) from error
    record_files.check_lengths(unscored, stored, run_dir)
    made = atomic_write.temporary_name(run_dir)
    made.mkdir(parents=True)
    try:
        sha256 = stored.save(made / record_files.PREDICTIONS)
        kept = None if getattr(stored, "rank", None) is None else "full"
        run = replace(unscored, predictions_sha256=sha256, answers=kept)
        record_files.save(record_files.score_answers(run, stored, root, run_dir), made)
        return publish(made, run_dir, root, replaces)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def tidy(run_dir: Path, root: Path) -> None:
    """Clear up what processes that have ended left beside a run; its lease must be held.

    A run that was being replaced comes back if nothing has replaced it.
    """
    for old in run_dir.parent.glob(f".{glob.escape(run_dir.name)}.*.old"):
        with contextlib.suppress(FileNotFoundError):  # its process puts it back itself
            publish(old, run_dir, root)
    leases.sweep(run_dir)
    if record_files.is_finished(run_dir):
        atomic_write.remove(checkpoint_path(run_dir))


def tidy_if_free(run_dir: Path, root: Path) -> None:
    """`tidy`, unless a living process is at the run or nothing can be written there."""
    with contextlib.suppress(OSError, UserError):
        beside = run_dir.parent.glob(f".*{glob.escape(run_dir.name)}.*")
        lease = leases.take(leases.lease_path(run_dir)) if next(beside, None) else None
        if lease is not None:
            with lease:
                tidy(run_dir, root)


def fill_if_free(run_dir: Path, root: Path) -> bool:
    """Fill in the reference of a finished run, unless another process is at it."""
    with contextlib.suppress(UserError):  # damaged, which is said where it is read
        lease = leases.take(leases.lease_path(run_dir))
        if lease is not None:
            with lease:
                return fill_reference(run_dir, root)
    return False


def _discard(run_dir: Path, root: Path) -> None:
    """Remove what is no finished run from `run_dir`, but not one that got there in this moment."""
    aside = atomic_write.temporary_name(run_dir)
    try:
        run_dir.rename(aside)
    except FileNotFoundError:
        return
    if record_files.is_finished(aside):
        publish(aside, run_dir, root)
    else:
        atomic_write.remove(aside)
