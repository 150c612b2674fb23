"""The directory of a run: it gets there by one rename, and what lies beside it meanwhile.

======================  ===============================================================
`seed-0`                the finished run
`.seed-0.lease`         the process that works on it, see `embedbench.storage.leases`
`.seed-0.partial`       its checkpoint; written only by who holds the lease
`.seed-0.WRITER.tmp`    a run while it is written
`.seed-0.WRITER.old`    the run that `--overwrite` replaces, until the new one is finished
======================  ===============================================================
"""

from __future__ import annotations

import contextlib
import errno
import glob
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import AnyPredictions
from embedbench.scores.run_record import UnscoredRun
from embedbench.scores.verified_records import remember
from embedbench.storage import cache, leases
from embedbench.storage.atomic_write import remove, sync_path, temporary_name

TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # a directory that is not empty has the name


def checkpoint_path(place: Path) -> Path:
    """The directory of a run's checkpoint, beside its own."""
    return place.with_name(f".{place.name}.partial")


def run_at(place: Path) -> str | None:
    """What tells the finished run in a place from another one there; None if there is none.

    Of its predictions, because a record may gain metrics later; the same on every machine.
    """
    try:
        return cache.state(place / "predictions.h5") if record_files.is_finished(place) else None
    except FileNotFoundError:  # put aside in this moment
        return None


def publish(made: Path, place: Path, root: Path) -> bool:
    """Rename a complete run to its place; a finished one that is there already is kept instead.

    Parameters
    ----------
    made : Path
        Directory of the run, beside its place; it is gone afterwards.
    place : Path
        Where the run belongs.
    root : Path
        The directory of all runs. Directories from there to the place are synced.

    Returns
    -------
    bool
        Whether it is the run at the place now.
    """
    sync_path(made)
    while True:
        try:
            made.rename(place)
            break
        except OSError as error:
            if error.errno not in TAKEN:
                raise
        if record_files.is_finished(place):
            shutil.rmtree(made, ignore_errors=True)
            return False
        _discard(place, root)
    for directory in place.parents:
        sync_path(directory)
        if directory == root:
            break
    return True


def set_aside(place: Path) -> Path:
    """Give a finished run, which is to be replaced, another name; returns the name."""
    aside = temporary_name(place).with_suffix(".old")
    place.rename(aside)
    return aside


def save_run(predictions: AnyPredictions, unscored: UnscoredRun, place: Path, root: Path) -> bool:
    """Score predictions and publish them as a run; a finished one there is kept, see `publish`."""
    made = temporary_name(place)
    made.mkdir(parents=True)
    try:
        predictions.save(made / record_files.PREDICTIONS)
        sha256 = cache.sha256(made / record_files.PREDICTIONS)
        run = replace(unscored, predictions_sha256=sha256)
        record_files.save(record_files.evaluate(run, made, root, place), made)
        if is_ours := publish(made, place, root):
            remember(place, root)
        return is_ours
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


@contextlib.contextmanager
def replacing(place: Path, root: Path) -> Iterator[None]:
    """Put a finished run aside while another is published; it comes back if that fails."""
    old = None if run_at(place) is None else set_aside(place)
    try:
        yield
    except BaseException:
        if old is not None and old.exists():
            publish(old, place, root)
        raise
    if old is not None:
        remove(old)


def tidy(place: Path, root: Path) -> None:
    """Clear up what processes that have ended left beside a place; its lease must be held.

    A run that was put aside to be replaced comes back if nothing has replaced it.
    """
    for old in place.parent.glob(f".{glob.escape(place.name)}.*.old"):
        with contextlib.suppress(FileNotFoundError):  # its process puts it back itself
            publish(old, place, root)
    leases.sweep(place)
    if record_files.is_finished(place):
        remove(checkpoint_path(place))


def tidy_if_free(place: Path, root: Path) -> None:
    """`tidy`, unless a living process is at the place or nothing can be written there."""
    with contextlib.suppress(OSError, UserError):
        beside = place.parent.glob(f".*{glob.escape(place.name)}.*")
        lease = leases.take(leases.lease_path(place)) if next(beside, None) else None
        if lease is not None:
            with lease:
                tidy(place, root)


def fill_if_free(place: Path, root: Path) -> bool:
    """Fill in the reference of a finished run, unless another process is at it."""
    with contextlib.suppress(UserError):  # damaged, which is said where it is read
        lease = leases.take(leases.lease_path(place))
        if lease is not None:
            with lease:
                return record_files.fill_reference(place, root)
    return False


def _discard(place: Path, root: Path) -> None:
    """Remove what is no finished run from a place, but not one that got there in this moment."""
    aside = temporary_name(place)
    try:
        place.rename(aside)
    except FileNotFoundError:
        return
    if record_files.is_finished(aside):
        publish(aside, place, root)
    else:
        remove(aside)
