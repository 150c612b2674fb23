"""A record beside what its predictions give: what differs, is new, is open, or is not checked."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from embedbench.config.json_records import JsonRecord, plain
from embedbench.errors import short

from . import against_chance, few_shot_scores, label_set_scores, single_label_scores
from .metrics import all_metrics
from .offline_references import MISSING
from .run_flags import FLAGS
from .run_record import BaseScore, RunRecord

RELATIVE = 1e-9
# the absolute one is for differences that should be 0
CLOSE: dict[str, Any] = {"rtol": RELATIVE, "atol": 1e-12, "equal_nan": True}
NARROWED = ("flags", "not-learned")  # records of earlier versions may have it without reason
ADDED = ("flags", "few-steps")  # records of earlier versions may lack it
_SCORES = {*single_label_scores.SCORES, *label_set_scores.SCORES}
_CURVES = {
    *(f.__name__ for f in (*against_chance.CURVES, *label_set_scores.CURVES)),
    *few_shot_scores.CURVES,
}

Key = tuple[str, ...]


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


@dataclass(frozen=True)
class RecordComparison:
    """A record beside what its predictions give; `RescoredRun` says what the fields are."""

    differs: tuple[Difference, ...]
    new: tuple[str, ...]
    open: tuple[str, ...]
    unchecked: tuple[str, ...]

    def describe(self) -> str:
        """The first value that differs, and how many more do; empty if none does."""
        if not self.differs:
            return ""
        first, *others = self.differs
        more = f", and {len(others)} more values" if others else ""
        return (
            f"{first.metric} is {short(plain(first.kept))} in record.json and "
            f"{short(plain(first.recomputed))} from predictions.h5{more}"
        )


def compare(kept: RunRecord, again: RunRecord) -> RecordComparison:
    """Compare every value that is a function of the predictions."""
    old, now = dict(_values(kept)), dict(_values(again))
    waited = kept.reference.source == MISSING
    differs: list[Difference] = []
    names: dict[str, list[str]] = {"new": [], "open": [], "unchecked": []}
    for key, value in now.items():
        if key not in old:
            names["open" if waited and key[0] == "reference" else "new"].append(".".join(key))
        elif waited and "metrics" in key and math.isnan(old[key]) and not math.isnan(value):
            names["open"].append(".".join(key))
        elif (key == NARROWED and not value and old[key]) or (
            key == ADDED and value and not old[key]
        ):
            names["new"].append(".".join(key))
        elif not _is_same(old[key], value):
            differs.append(_difference(".".join(key), old[key], value))
    for key in old.keys() - now.keys():
        if _is_computed_here(key):
            differs.append(Difference(".".join(key), old[key], None))
        else:
            names["unchecked"].append(".".join(key))
    return RecordComparison(tuple(differs), **{k: tuple(sorted(v)) for k, v in names.items()})


def take_unrecomputed(kept: RunRecord, again: RunRecord) -> RunRecord:
    """The recomputed record, with what is not computed here taken from the kept one."""
    by_score = dict(again.by_score)
    for name, old in kept.by_score.items():
        if name in by_score:
            by_score[name] = replace(by_score[name], **_joined(old, by_score[name]))
        elif name not in _SCORES:
            by_score[name] = old
    flags = (*again.flags, *(f for f in kept.flags if f not in FLAGS))
    return replace(again, **_joined(kept, again), by_score=by_score, flags=flags)


def _joined(old: RunRecord | BaseScore, now: RunRecord | BaseScore) -> dict[str, Any]:
    """Metrics and curves of `now`, and those of `old` that are not computed here."""
    result: dict[str, Any] = {}
    for part in ("metrics", "curves"):
        values, more = getattr(now, part) or {}, getattr(old, part) or {}
        kept = {k: v for k, v in more.items() if not _is_computed_here((part, k))}
        result[part] = {**values, **kept}
    return result


def _values(r: RunRecord) -> Iterator[tuple[Key, Any]]:
    """Every value of a record that is a function of its predictions."""
    yield ("score",), r.score
    if r.moments is not None:
        yield ("moments", "samples_seen"), r.moments.samples_seen
        yield ("moments", "pooled"), r.moments.pooled
    main = BaseScore(r.R, r.pooled, r.metrics, r.curves)
    every: dict[Key, BaseScore] = {(): main} | {("by_score", k): s for k, s in r.by_score.items()}
    for at, scored in every.items():
        yield (*at, "R"), scored.R
        yield (*at, "pooled"), scored.pooled
        for part in ("metrics", "curves"):
            for name, value in (getattr(scored, part) or {}).items():
                yield (*at, part, name), value
    for part in ("ideal", "chance"):
        for name, value in (getattr(r.reference, part) or {}).items():
            yield ("reference", part, name), value
    for flag in dict.fromkeys((*FLAGS, *r.flags)):
        yield ("flags", flag), flag in r.flags


def _is_computed_here(key: Key) -> bool:
    """Whether this version would have computed a value that only the record has."""
    *_, part, name = ("", *key)
    if key[0] == "by_score" and key[1] not in _SCORES:
        return False
    if part == "metrics":
        return name in all_metrics()
    if part == "curves":
        return name in _CURVES or name.startswith("depth_")
    if key[0] == "reference":
        return name in _SCORES
    return key[0] != "flags" or name in FLAGS


def _is_same(kept: Any, again: Any) -> bool:
    a, b = np.array(kept), np.array(again)
    if "f" not in (a.dtype.kind, b.dtype.kind):
        return bool(kept == again)
    return a.shape == b.shape and bool(np.isclose(a, b, **CLOSE).all())


def _difference(name: str, kept: Any, again: Any) -> Difference:
    """A difference; of arrays of one shape only the first value that differs."""
    a, b = np.array(kept), np.array(again)
    if a.ndim == 0 or a.shape != b.shape:
        return Difference(name, kept, again)
    at = tuple(np.argwhere(~np.isclose(a, b, **CLOSE))[0].tolist())
    where = "".join(f"[{i}]" for i in at)
    return Difference(f"{name}{where}", a[at].item(), b[at].item())
