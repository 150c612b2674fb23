"""The runs of a pack: each is recomputed, and compared with its stream where that is here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from embedbench import cache
from embedbench.disk import open_regular
from embedbench.errors import UserError
from embedbench.scores import record
from embedbench.scores.checked import recomputed
from embedbench.scores.run_record import RunRecord
from embedbench.typed import ABSENT, Typed, plain

from .rebuilt import NotHereError, Rebuilder
from .unpack import Unpacked, unpacked


@dataclass(frozen=True)
class LeftOut(Typed):
    """A run that is not on the board, and why."""

    run: str
    reason: str


@dataclass(frozen=True)
class Submission(Typed):
    """One pack, and what became of its runs.

    Parameters
    ----------
    pack, sha256 : str
        Name and SHA-256 of the archive.
    by, date : str or None
        Who submitted it and when; None: not stated.
    runs, references : int
        Runs that were recomputed, and those among them that only serve as references.
    compared : int
        Runs whose ids and labels were compared with the rebuilt stream.
    not_compared : tuple of str
        Why others were not; each reason once.
    left_out : tuple of LeftOut
        Runs that failed.
    refused : str or None
        Why nothing of the pack could be read.
    """

    pack: str
    sha256: str
    by: str | None = None
    date: str | None = None
    runs: int = 0
    references: int = 0
    compared: int = 0
    not_compared: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    refused: str | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class CheckedRun:
    """A run of a pack whose every number was recomputed.

    Parameters
    ----------
    place : str
        Its directory in the pack.
    record : RunRecord
        The recomputed record. Ω is undefined in it if a reference run is missing or failed.
    compared : bool
        Whether ids and labels were compared with the rebuilt stream.
    """

    place: str
    record: RunRecord
    compared: bool


def verify(path: Path, rebuilder: Rebuilder) -> tuple[Submission, list[CheckedRun]]:
    """Check every run of a pack.

    A pack that cannot be read is a submission without runs.
    """
    try:
        open_regular(path).close()
        seen = Submission(path.name, cache.sha256(path))
    except OSError as e:
        raise UserError(f"cannot read {path} ({e.strerror}); give a pack") from e
    try:
        with unpacked(path) as pack:
            who = replace(seen, by=pack.info.by, date=pack.info.date)
            return _verified(pack, who, rebuilder)
    except UserError as e:
        return replace(seen, refused=str(e).replace(str(path), path.name)), []


def _verified(
    pack: Unpacked, seen: Submission, rebuilder: Rebuilder
) -> tuple[Submission, list[CheckedRun]]:
    left_out: dict[Path, str] = {}
    not_compared: dict[Path, str] = {}
    places = [place for place, _ in sorted(_records(pack, left_out), key=_by_stream)]
    for place in places:  # before any reference is used
        try:
            if reason := _fault(place, rebuilder):
                left_out[place] = reason
        except NotHereError as e:
            not_compared[place] = str(e)
        except UserError as e:
            left_out[place] = str(e)
        if place in left_out:
            shutil.rmtree(place)
    runs = []
    for place in sorted(place for place in places if place not in left_out):
        try:
            run = _recomputed(place, pack.runs)
        except UserError as e:
            left_out[place] = str(e)
            continue
        runs.append(CheckedRun(_name(place, pack), run, place not in not_compared))
    reasons = dict.fromkeys(not_compared[place] for place in sorted(not_compared))
    submission = replace(
        seen,
        runs=len(runs),
        references=sum(_is_reference(run.place) for run in runs),
        compared=sum(run.compared for run in runs),
        not_compared=tuple(reasons),
        left_out=tuple(
            LeftOut(_name(place, pack), _short(left_out[place], place, pack))
            for place in sorted(left_out)
        ),
    )
    return submission, [run for run in runs if not _is_reference(run.place)]


def _records(pack: Unpacked, left_out: dict[Path, str]) -> Iterator[tuple[Path, RunRecord]]:
    """Yield the runs whose records can be read."""
    for place in record.find(pack.runs, references=True):
        try:
            yield place, record.load(place)
        except UserError as e:
            left_out[place] = str(e)


def _by_stream(run: tuple[Path, RunRecord]) -> tuple[str, str, int, Path]:
    """Runs of one stream follow each other, so that it is rebuilt once."""
    place, made = run
    files = "".join(str(f.digests) for f in made.files)
    return f"{made.protocol} {made.protocol_params}", files, made.seeds.order, place


def _fault(place: Path, rebuilder: Rebuilder) -> str:
    """What in the predictions of a run is not that of its stream; empty if all is."""
    made = record.load(place)
    if made.predictions_sha256 is None:
        return "its record does not name the SHA-256 of its predictions"
    return rebuilder.fault(made, record.predictions_of(place, made))


def _recomputed(place: Path, root: Path) -> RunRecord:
    """The record of a run with every number computed from the predictions in the pack.

    Raises
    ------
    UserError
        A number in the record is another one.
    """
    kept = record.load(place)
    again, seen = recomputed(kept, place, root)
    if seen.differs:
        first, *others = seen.differs
        more = f", and {len(others)} more numbers" if others else ""
        raise UserError(
            f"{first.metric} is {plain(first.kept)} in its record and {plain(first.recomputed)} "
            f"from its predictions{more}"
        )
    if again.reference.source == "record":  # values that nothing here stands for
        reference = replace(kept.reference, ideal=None, chance=None)
        again, _ = recomputed(replace(kept, reference=reference), place, root)
    return replace(again, run=kept.run)


def _name(place: Path, pack: Unpacked) -> str:
    return place.relative_to(pack.runs).as_posix()


def _short(sentence: str, place: Path, pack: Unpacked) -> str:
    """A sentence about a run, without where it was unpacked and what its owner should do."""
    inside = sentence.partition("; ")[0]
    inside = inside.replace(f"{place}: ", "").replace(f"{place}/", "")
    return inside.replace(f"{pack.runs}/", "").replace(str(pack.runs), pack.pack.name)


def _is_reference(place: str) -> bool:
    return "references" in place.split("/")
