"""Runs whose every number is checked: recomputed from predictions whose SHA-256 is the record's.

`Checker` is for reports, `rescore` for `embedbench score`. What is recomputed depends on the bytes
of the record, of its predictions and of those of its references, and on the code of this room: a
`Checker` keeps under these, in the user's cache directory, that a record agrees.
"""

import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.config.json_records import ABSENT, JsonRecord, plain
from embedbench.errors import UserError, short
from embedbench.storage import user_cache
from embedbench.version import __version__

from . import record_files
from .offline_references import MISSING
from .run_flags import FLAGS
from .run_record import RunRecord

KIND, AGREES = "metrics", "agrees"  # what is kept in the cache, of what agrees
RELATIVE = 1e-9
# the absolute one is for differences that should be 0
CLOSE: dict[str, Any] = {"rtol": RELATIVE, "atol": 1e-12, "equal_nan": True}
# flags that records of earlier versions may have without reason, and may lack
CHANGED_FLAGS = {(("flags", "not-learned"), False), (("flags", "few-steps"), True)}
BEFORE_LEARNING = (("flags", "nan"), False)  # the same of imported answers: -1 before learning

Key = tuple[str, ...]


@dataclass
class Checker:
    """A reader of the records under a directory, which checks each first.

    It fills in what is new or was left open, and leaves out what this version does not compute.
    """

    root: Path  # of runs
    notify: Callable[[str], None]  # gets a sentence for every reference run that cannot be used
    _references: dict[tuple[Path, str], str] = field(default_factory=dict)

    def record(self, place: Path) -> RunRecord:
        """The record of a run."""
        data = record_files.read(place)
        kept = record_files.parse_record(data, place)
        root = home(kept, place, self.root)
        pins = [self._reference(root, run) for run in kept.reference.runs]
        sha256 = record_files.predictions_sha256(place, kept)
        key = outcome_key(data, sha256, *pins)
        if user_cache.load(KIND, key) == AGREES:
            return kept
        again, seen = recompute_record(replace(kept, predictions_sha256=sha256), place, root)
        again = replace(again, predictions_sha256=kept.predictions_sha256)
        if seen.differs:
            raise UserError(f"{place}: {seen.describe()}", "embedbench score names them all")
        if seen.new or seen.unchecked:
            return again
        user_cache.save(KIND, key, AGREES)
        return kept

    def _reference(self, root: Path, run: str) -> str:
        """The SHA-256 of a reference run's predictions; empty if it cannot be used."""
        if (root, run) not in self._references:
            place = root / run
            value = ""
            if record_files.is_finished(place):
                try:
                    value = record_files.predictions_sha256(place, record_files.load(place))
                except UserError as e:
                    self.notify(f"reference run left out, Ω is that of the records: {e}")
            self._references[root, run] = value
        return self._references[root, run]


def outcome_key(record: bytes, *predictions: str) -> str:
    """The key of a check: the code, the record, and predictions of the run and its references."""
    return " ".join([scoring_version(), hashlib.sha256(record).hexdigest(), *predictions])


def home(kept: RunRecord, place: Path, root: Path) -> Path:
    """The directory that a record's references are relative to.

    That is `root`, or where `place` lies in the layout of docs/specification/record.md.
    """
    if not record_files.are_finished(kept.reference, root):
        layout = (place / "../../..").resolve()
        if record_files.are_finished(kept.reference, layout):
            return layout
    return root


@functools.cache
def scoring_version() -> str:
    """The code that scores: this version, and the text of every file of this room."""
    text = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return f"{__version__} {hashlib.sha256(text).hexdigest()}"


def recompute_record(kept: RunRecord, place: Path, root: Path) -> "tuple[RunRecord, RescoredRun]":
    """The recomputed record, and how it compares."""
    try:
        again = record_files.evaluate(kept, place, root)
        seen = compare(kept, again)
        if seen.differs and kept.protocol == record_files.FEW_SHOT:
            answers = record_files.read_predictions(place, kept)
            seen = compare(kept, again, record_files.earlier_curves(answers, kept.n_train_by_class))
        return again, seen
    except (ArithmeticError, LookupError, TypeError, ValueError) as e:
        raise UserError(
            f"{place}: record.json and predictions.h5 do not belong together ({e})",
            "make that run again with --overwrite",
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
    record_files.save(again, place)
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
        Computed here, and not in the record, or left open there: reference runs were missing.
    unchecked : tuple of str
        In the record, not computed here.
    updated : bool
        Whether the record was written.
    """

    run: str
    pinned: bool = False
    fault: str | None = field(default=None, metadata=ABSENT)
    differs: tuple["Difference", ...] = ()
    new: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    updated: bool = False

    @property
    def agrees(self) -> bool:
        """Whether nothing that was kept is in doubt."""
        return self.fault is None and (self.updated or not self.differs)

    def describe(self) -> str:
        """The first value that differs, and how many more do."""
        first, *others = self.differs
        more = f", and {len(others)} more values" if others else ""
        return (
            f"{first.metric} is {short(plain(first.kept))} in record.json and "
            f"{short(plain(first.recomputed))} from predictions.h5{more}"
        )


def rescore(place: Path, root: Path, *, update: bool = False) -> RescoredRun:
    """Recompute a run's metrics and compare them with its record.

    `update` writes what is recomputed, nothing else, and the SHA-256 of the predictions. A record
    without one is written only if nothing differs: its predictions may have changed as well.
    """
    name = str(place if place == root else place.relative_to(root))
    try:
        kept = record_files.load(place)
        root = home(kept, place, root)
        pin = record_files.predictions_sha256(place, kept)
        again, seen = recompute_record(replace(kept, predictions_sha256=pin), place, root)
        pinned = kept.predictions_sha256 is not None
        write = update and (bool(seen.differs or seen.new) if pinned else not seen.differs)
        if write:
            record_files.save(replace(again, predictions_sha256=pin), place)
        return replace(seen, run=name, pinned=pinned or write, updated=write)
    except UserError as e:
        return RescoredRun(run=name, fault=str(e))


# --- a record beside what its predictions give ---


@dataclass(frozen=True)
class Difference(JsonRecord):
    """One value of a record.

    Parameters
    ----------
    metric : str
        Its path.
    kept, recomputed : any JSON
        As it is kept and as it is recomputed.
    """

    metric: str
    kept: Any
    recomputed: Any


def compare(
    kept: RunRecord, again: RunRecord, earlier: Mapping[Key, Any] | None = None
) -> RescoredRun:
    """Compare every value that is a function of the predictions.

    `earlier` are values that records of earlier versions have: what is kept may be one of them.
    """
    old = dict(_values(kept))
    now = dict(_values(again))
    waited = kept.reference.source == MISSING
    waiting = {k for k, v in old.items() if waited and "metrics" in k and math.isnan(v)}
    if earlier is None:
        earlier = {}
    answers_alone = kept.imported is not None and kept.imported.gave == "answers"
    may_change = CHANGED_FLAGS | ({BEFORE_LEARNING} if answers_alone else set())
    differs: list[Difference] = []
    new: list[str] = []
    for key, value in now.items():
        name = ".".join(key)
        changed = key in old and (key, value) in may_change and old[key] != value
        if key in old and key in earlier and _difference(name, old[key], value) is not None:
            changed = _difference(name, old[key], earlier[key]) is None
        if key not in old or changed or (key in waiting and not math.isnan(value)):
            new.append(name)
            continue
        found = _difference(name, old[key], value)
        if found is not None:
            differs.append(found)
    return RescoredRun(
        run=kept.run,
        differs=tuple(differs),
        new=tuple(sorted(new)),
        unchecked=tuple(sorted(".".join(key) for key in old.keys() - now.keys())),
    )


def _values(r: RunRecord) -> Iterator[tuple[Key, Any]]:
    """Every value of a record that is a function of its predictions."""
    yield ("score",), r.score
    if r.moments is not None:
        yield ("moments", "samples_seen"), r.moments.samples_seen
        yield ("moments", "pooled"), r.moments.pooled
    for at, scored in r.scored.items():
        yield (*at, "R"), scored.R
        yield (*at, "pooled"), scored.pooled
        for part in ("metrics", "curves"):
            for name, value in (getattr(scored, part) or {}).items():
                yield (*at, part, name), value
    for part in ("ideal", "chance"):
        for name, value in (getattr(r.reference, part) or {}).items():
            yield ("reference", part, name), value
    if r.reference.chosen is not None:
        yield ("reference", "chosen"), r.reference.chosen
    for flag in dict.fromkeys((*FLAGS, *r.flags)):
        yield ("flags", flag), flag in r.flags


def _difference(name: str, kept: Any, again: Any) -> Difference | None:
    """How two values differ, if they do; of arrays of one shape only the first value that does."""
    a = np.array(kept)
    b = np.array(again)
    if "f" not in (a.dtype.kind, b.dtype.kind):
        same = kept == again
    else:
        same = a.shape == b.shape and np.isclose(a, b, **CLOSE).all()
    if same:
        return None
    if a.ndim == 0 or a.shape != b.shape:
        return Difference(name, kept, again)
    at = tuple(np.argwhere(~np.isclose(a, b, **CLOSE))[0].tolist())
    where = "".join(f"[{i}]" for i in at)
    return Difference(f"{name}{where}", a[at].item(), b[at].item())
