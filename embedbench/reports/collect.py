"""Reports: finished runs are averaged into rows, rows stand in tables; what may not be is refused.

The runs that lie in one learner's directory are one row, and the rows that lie in one stream's
directory are one table. The digests of the streams say whether that is allowed. Runs that repeat
another one but for single seeds are no independent runs, and stay out of the means.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.scores import record as records_module
from embedbench.scores.record import Record
from embedbench.seeds import Seeds

from .rows import LEFT_OUT, Group, Row, groups, stat_json

SCHEMA = "embedbench-report/1.0"


def collect(root: Path, places: Sequence[Path] | None = None) -> list[Row]:
    """Rows of all finished runs under `root`, table by table; the chance learner comes last.

    Parameters
    ----------
    root : directory of run records, or a part of it
    places : directories of the cells to report instead of all under `root`

    Raises
    ------
    UserError
        There is no finished run, or runs that lie together may not be averaged or compared.
    """
    cells = records_module.find(root) if places is None else list(places)
    if not cells and places is None:
        raise UserError(
            f"expected finished runs (record.json) under {root}, found none; "
            f"make some with embedbench run … --out {root}"
        )
    tables: dict[Path, dict[Path, list[Record]]] = {}
    for cell in cells:
        place = cell.resolve()
        record = {**records_module.load(cell), "run": place.name.removeprefix("seed-")}
        # a reference learner is a table of its own: what lies beside it is of another stream
        together = place.parent if place.parents[1].name == "references" else place.parents[1]
        tables.setdefault(together, {}).setdefault(place.parent, []).append(record)
    rows = []
    for place, learners in tables.items():
        rows += _table(_name(place, root.resolve()), list(learners.values()))
    return rows


def _name(place: Path, root: Path) -> str:
    return str(place.relative_to(root)) if place.is_relative_to(root) else place.name


def _table(place: str, learners: list[list[Record]]) -> list[Row]:
    """The rows of one stream's directory, best final accuracy first, chance last."""
    for runs in learners:
        check_average(runs, place)
    check_pair([r for runs in learners for r in runs], place)
    split = [variations(runs) for runs in learners]
    alone = tuple(r for own, _ in split for r in own)
    group = Group(place, alone, sum(len(varied) for _, varied in split))
    rows = []
    for (runs, varied), label in zip(split, labels(learners), strict=True):
        parts: tuple[list[Record], list[Record]] = ([], [])
        for r in runs:
            parts[any(f in LEFT_OUT for f in r["flags"])].append(r)
        rows.append(Row(group, label, tuple(parts[0]), tuple(parts[1]), tuple(varied)))
    return sorted(rows, key=_rank)


def variations(runs: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """One learner's runs: those that stand for themselves, and those that vary one of them.

    Of the runs of one `seed` those stand for themselves that have the fewest of their four seeds
    set apart from it. The others share seeds with these, so a mean over both would count them as
    independent of each other, which they are not.
    """
    apart = []
    for r in runs:
        drawn = dataclasses.asdict(Seeds.of(r["seed"]))
        apart.append(sum(value != r["seeds"][kind] for kind, value in drawn.items()))
    least: dict[int, int] = {}
    for r, n in zip(runs, apart, strict=True):
        least[r["seed"]] = min(n, least.get(r["seed"], n))
    parts: tuple[list[Record], list[Record]] = ([], [])
    for r, n in zip(runs, apart, strict=True):
        parts[n > least[r["seed"]]].append(r)
    return parts


def _rank(row: Row) -> tuple[bool, bool, float]:
    final = row.metrics["final_accuracy"].mean
    return not row.learns, final != final, -final


def labels(learners: list[list[Record]]) -> list[str]:
    """The learner's name for each list of runs; namesakes are told apart by the settings in which
    they differ."""
    settings = [_flat(runs[0]["learner_params"]) for runs in learners]
    names = [str(runs[0]["learner"]) for runs in learners]
    found = []
    for name, own in zip(names, settings, strict=True):
        same = [s for n, s in zip(names, settings, strict=True) if n == name]
        keys = [k for k in own if any(s.get(k) != own[k] for s in same)]
        found.append(" ".join([name, *(f"{k}={_value(own[k])}" for k in keys)]))
    return found


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(params: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under dotted names."""
    flat: dict[str, Any] = {}
    for key, value in params.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def check_average(records: Sequence[Record], place: str = "") -> None:
    """Refuse to average runs of different streams, learners or scores, or one run twice.

    Seeds may differ, and with them `train` and `eval`; `recipe` and `features` must agree.
    """
    doing = f"cannot average the runs of {records[0]['learner']!r}{_at(place)}"
    remedy = "keep the runs of each in a directory of its own (another --out)"
    for key in ("learner", "learner_params", "protocol"):
        _check_same(records, key, [json.dumps(r[key], sort_keys=True) for r in records], doing)
    for key in ("recipe", "features"):
        _check_same(records, f"{key} digest", [r["digests"][key] for r in records], doing)
    presets = [r["reference"]["preset"] for r in records]
    _check_same(records, "preset of Ω", presets, doing)
    seen: dict[str, Record] = {}
    for r in records:
        key = json.dumps(r["seeds"], sort_keys=True)
        if key in seen:
            raise UserError(
                f"{doing}: expected every run once, got {_who(seen[key])} and {_who(r)} with the "
                f"same four seeds; {remedy}"
            )
        seen[key] = r


def check_pair(records: Sequence[Record], place: str = "") -> None:
    """Refuse to set learners side by side that did not have the same data.

    Runs with the same order seed must agree in `train`, `eval` and `features`. Runs with different
    ones are compared by their means, so they must agree in `recipe` and `features`.
    """
    doing = f"cannot set these runs side by side{_at(place)}"
    by_order: dict[int, list[Record]] = {}
    for r in records:
        by_order.setdefault(r["seeds"]["order"], []).append(r)
    for same in by_order.values():
        for key in ("train", "eval", "features"):
            _check_same(same, f"{key} digest", [r["digests"][key] for r in same], doing)
    firsts = [same[0] for same in by_order.values()]
    for key in ("recipe", "features"):
        _check_same(firsts, f"{key} digest", [r["digests"][key] for r in firsts], doing)


def _check_same(records: Sequence[Record], what: str, values: list[str], doing: str) -> None:
    for r, value in zip(records, values, strict=True):
        if value != values[0]:
            raise UserError(
                f"{doing}: expected one {what}, got {_short(values[0])} ({_who(records[0])}) and "
                f"{_short(value)} ({_who(r)}); keep the runs of each in a directory of its own "
                "(another --out)"
            )


def _who(record: Record) -> str:
    return f"{record['learner']} seed {record.get('run', record['seed'])}"


def _at(place: str) -> str:
    return f" in {place}" if place else ""


def _short(value: str) -> str:
    """A digest as its first twelve digits, anything else up to 80 characters."""
    if len(value) == 64 and value.isalnum():
        return value[:12]
    return value if len(value) <= 80 else value[:79] + "…"


def to_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Tables and their rows as plain JSON data; fractions, seconds, bytes; NaN is null."""
    tables = [
        {
            "place": group.place,
            "protocol": group.first["protocol"],
            "protocol_params": group.first["protocol_params"],
            "files": [f["name"] for f in group.first["files"]],
            "sessions": group.sessions,
            "score": group.first["score"],
            "validation": group.first["validation"],
            "digests": {k: group.first["digests"][k] for k in ("recipe", "features")},
            "ideal": group.ideals[0] if len(group.ideals) == 1 else group.ideals or None,
            "notes": group.notes,
            "rows": [_row_json(r) for r in rows if r.group is group],
        }
        for group in groups(rows)
    ]
    plain: dict[str, Any] = records_module.to_json({"schema": SCHEMA, "tables": tables})
    return plain


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "learner": row.learner,
        "params": row.params,
        "label": row.label,
        "n": len(row.used),
        "runs": [r["run"] for r in row.used],
        "left_out": [r["run"] for r in row.left_out],
        "metrics": {k: stat_json(s) for k, s in row.metrics.items()},
        "seconds": {k: stat_json(s) for k, s in row.seconds.items()},
        "footprint": row.footprint,
        "flags": row.flags,
        "commands": row.commands,
    }
