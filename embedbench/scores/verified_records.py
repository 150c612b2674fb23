"""Runs whose every number is checked: recomputed from predictions whose SHA-256 is the record's.

`Checker` is for reports, `rescore` for `embedbench score`. What is recomputed depends on the bytes
of the record, of its predictions and of those of its references, and on the code of this room: a
`Checker` keeps its outcome under these in the user's cache directory, and never under the runs.
"""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.errors import UserError
from embedbench.storage import user_cache
from embedbench.version import __version__

from . import record_files
from .offline_references import MISSING
from .record_differences import Difference, RecordComparison, compare, take_unrecomputed
from .run_record import RunRecord
from .unrecorded_metrics import Outside, with_outside

KIND = "metrics"  # of what is kept in the cache


@dataclass
class Checker:
    """A reader of the records under a directory, which checks each first.

    Parameters
    ----------
    root : Path
        The directory of runs.
    notify : callable
        `notify(sentence)` gets one for every reference run that cannot be used.
    """

    root: Path
    notify: Callable[[str], None]
    _references: dict[tuple[Path, str], str] = field(default_factory=dict)

    def record(self, place: Path) -> RunRecord:
        """The record of a run, with what is new or was left open filled in.

        Raises
        ------
        UserError
            The record or the predictions cannot be used, or they do not agree.
        """
        data = record_files.read(place)
        kept = record_files.parse_record(data, place)
        root = self.root
        if not all(self._reference(root, run) for run in kept.reference.runs):
            root = home(kept, place, root)
        key = self.key(data, kept, place, root)
        outcome = user_cache.load(KIND, key)
        if not isinstance(outcome, dict):
            again, seen = recompute_record(kept, place, root)
            more = take_unrecomputed(kept, again).to_json() if seen.new or seen.open else None
            outcome = {"differs": seen.describe(), "record": more}
            user_cache.save(KIND, key, outcome)
        if differs := outcome.get("differs"):
            raise UserError(f"{place}: {differs}; embedbench score names them all")
        if (more := outcome.get("record")) is None:
            return kept
        return replace(RunRecord.from_json(more, str(place)), run=kept.run)

    def key(self, data: bytes, kept: RunRecord, place: Path, root: Path) -> str:
        """The values that the outcome of a check depends on."""
        parts = [
            scoring_version(),
            hashlib.sha256(data).hexdigest(),
            record_files.predictions_sha256(place, kept),
        ]
        return " ".join(parts + [self._reference(root, run) for run in kept.reference.runs])

    def _reference(self, root: Path, run: str) -> str:
        """The SHA-256 of a reference run's predictions; empty if it cannot be used."""
        if (root, run) not in self._references:
            place, value = root / run, ""
            if record_files.is_finished(place):
                try:
                    value = record_files.predictions_sha256(place, record_files.load(place))
                except UserError as e:
                    self.notify(f"reference run left out, Ω is that of the records: {e}")
            self._references[root, run] = value
        return self._references[root, run]


def remember(place: Path, root: Path) -> None:
    """Keep that this process has just made a record from its predictions.

    The next report then need not recompute it.
    """
    data = record_files.read(place)
    key = Checker(root, lambda _: None).key(
        data, record_files.parse_record(data, place), place, root
    )
    user_cache.save(KIND, key, {"record": None})


def home(kept: RunRecord, place: Path, root: Path) -> Path:
    """The directory that a record's references are relative to.

    That is `root`, or where `place` lies in the layout of docs/record.md.
    """
    if not record_files.are_finished(kept.reference, root):
        above = place.resolve().parents
        layout = above[min(2, len(above) - 1)]
        if record_files.are_finished(kept.reference, layout):
            return layout
    return root


@functools.cache
def scoring_version() -> str:
    """The code that scores: this version, and the text of every file of this room."""
    text = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return f"{__version__} {hashlib.sha256(text).hexdigest()}"


def recompute_record(
    kept: RunRecord, place: Path, root: Path
) -> tuple[RunRecord, RecordComparison]:
    """The recomputed record, and how it compares."""
    try:
        again = record_files.evaluate(kept, place, root)
        return again, compare(kept, again)
    except (ArithmeticError, LookupError, TypeError, ValueError) as e:
        raise UserError(
            f"{place}: record.json and predictions.h5 do not belong together ({e}); make "
            "that run again with --overwrite"
        ) from e


def fill_reference(place: Path, root: Path) -> bool:
    """Fill in what a record left open because its references were missing; True if it was written.

    Nothing is written unless those very references are finished now and all else agrees.
    """
    kept = record_files.load(place)
    if kept.reference.source != MISSING or not record_files.are_finished(kept.reference, root):
        return False
    again, seen = recompute_record(kept, place, root)
    if again.reference.source == MISSING or seen.differs:
        return False
    record_files.save(take_unrecomputed(kept, again), place)
    return True


@dataclass(frozen=True, kw_only=True)
class RescoredRun(JsonRecord):
    """One run, recomputed and compared; `score --json` adds `agrees`: nothing kept is in doubt.

    Parameters
    ----------
    run : str
        Its directory, relative to that of all runs.
    pinned : bool
        Whether the record names the SHA-256 of its predictions.
    fault : str or None
        Why it could not be recomputed.
    differs : tuple of Difference
        Values that do not agree.
    new : tuple of str
        Computed here, not in the record.
    open : tuple of str
        Left open, because reference runs were missing that are finished now.
    unchecked : tuple of str
        In the record, not computed here.
    waits_for : tuple of str
        Reference runs that are still missing.
    updated : bool
        Whether the record was written.
    outside : dict or None
        Metrics that records do not hold: name → value of the main score.
    """

    run: str
    pinned: bool = False
    fault: str | None = field(default=None, metadata=ABSENT)
    differs: tuple[Difference, ...] = ()
    new: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    updated: bool = False
    outside: dict[str, float] | None = field(default=None, metadata=ABSENT)

    @property
    def agrees(self) -> bool:
        """Whether nothing that was kept is in doubt."""
        return self.fault is None and (self.updated or not self.differs)


def rescore(
    place: Path,
    root: Path,
    *,
    update: bool = False,
    metrics: Outside | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> RescoredRun:
    """Recompute a run's metrics and compare them with its record.

    Parameters
    ----------
    update : bool
        Write what is recomputed, new or open, and the SHA-256 of the predictions. A record without
        one is written only if nothing differs: its predictions may have changed as well.
    metrics : mapping or None
        Metrics that records do not hold, by name; they are computed and never written.
    notify : callable
        `notify(sentence)` gets one for each of them that fails.
    """
    name = str(place if place == root else place.relative_to(root))
    try:
        kept = record_files.load(place)
        root = home(kept, place, root)
        pin = record_files.predictions_sha256(place, kept)
        again, seen = recompute_record(kept, place, root)
        whole = replace(take_unrecomputed(kept, again), predictions_sha256=pin)
        pinned = kept.predictions_sha256 is not None
        more = bool(seen.differs or seen.new or seen.open or not pinned)
        write = update and more and (pinned or not seen.differs)
        if write:
            record_files.save(whole, place)
        waits = kept.reference.runs if kept.reference.source == MISSING else []
        values = with_outside(whole, place, metrics or {}, notify).metrics
        return RescoredRun(
            run=name,
            pinned=pinned or write,
            **vars(seen),
            waits_for=tuple(run for run in waits if not record_files.is_finished(root / run)),
            updated=write,
            outside={key: values[key] for key in metrics if key in values} if metrics else None,
        )
    except UserError as e:
        return RescoredRun(run=name, fault=str(e))
