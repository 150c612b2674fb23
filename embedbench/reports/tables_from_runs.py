"""Reports: finished runs are averaged into rows, and rows are collected into tables.

The runs in one learner's directory become one row, and the rows in one stream's directory become
one table. The digests of the streams decide whether this is allowed; if it is not, the table is
refused. Some runs repeat another run with single seeds set differently. They are not independent of
it and are left out of the means.

Every number is recomputed from the predictions before it is used. A run that cannot be trusted is
named on stderr and left out.
"""

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.config.json_records import plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, short
from embedbench.scores import unrecorded_metrics
from embedbench.scores.learner_verdicts import Over, RowVerdict
from embedbench.scores.metric_jackknife import CURVES
from embedbench.scores.old_and_new_classes import FEW_SHOT
from embedbench.scores.record_files import FEW_SHOT as FEW_SHOT_PROTOCOL
from embedbench.scores.record_files import find, load
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.scores.score_matrix import mean_or_nan
from embedbench.scores.scores_of_guessing import guess_scores, largest_share, without_draws
from embedbench.scores.verified_records import Checker
from embedbench.text.printable_text import printable
from embedbench.text.table_export import flatten

from .compare_learners import judge
from .load_results import align_records
from .result_rows import (
    LEFT_OUT,
    Group,
    Guess,
    Row,
    candidates,
    find_run,
    split_tables,
    stream_title,
)
from .results import variations
from .row_names import NO_NAMES, RowNames
from .run_rows import differences, labels
from .table_metric import BASE_SCORES, USUAL, choose_score, show_by, split_names
from .verdict_sentence import verdict

SCHEMA = "embedbench-report/1.0"
FWT = "fwt"


def say(sentence: str) -> None:
    """Print a remark to stderr."""
    print(printable(sentence), file=sys.stderr)


def with_chance(root: Path, places: Sequence[Path]) -> list[Path]:
    """These runs, and those of `chance` under `root` on the same streams."""
    streams = {place.parent.parent for place in places}
    result = dict.fromkeys(places)
    for found in find(root):
        if found.parent.name.startswith("chance-") and found.parent.parent in streams:
            result[found] = None
    return list(result)


def collect(
    root: Path,
    places: Sequence[Path] | None = None,
    notify: Callable[[str], None] = say,
    metrics: Sequence[str] = (),
    over: Over = "seeds and samples",
    failed: Callable[[str], None] = lambda _: None,
    names: RowNames = NO_NAMES,
) -> list[Row]:
    """Rows of all finished runs under `root`, table by table; the chance learner comes last.

    Parameters
    ----------
    root : Path
        The directory of runs, or a directory inside it.
    places : sequence of Path, or None
        Directories of the runs to report; None reports all under `root`.
    notify : callable
        Called with a sentence for each run that is left out.
    metrics : sequence of str
        The base score of the tables (the first one that is named, see `table_metric`), and
        metrics, plug-ins' too, that get columns beside the usual ones.
    failed : callable
        Called with the name of a metric each time that it fails; its value is NaN there.
    over : str
        Sources of chance that verdicts take into account: "seeds and samples", other seeds and
        other test samples; "seeds", other seeds alone.
    names : RowNames
        Those that rows have in the place of their learners'.

    Raises
    ------
    UserError
        There is no run that can be reported, or no table whose runs may be averaged and compared.
    """
    cells = find(root) if places is None else list(places)
    if not cells and places is None:
        raise UserError(
            f"expected finished runs (record.json) under {root}, found none",
            f"make some with embedbench run … --out {root}",
        )
    notify = cache(notify)  # each sentence once
    score, metrics = split_names(metrics)
    functions = [name for name in metrics if name not in (*CURVES, *BASE_SCORES)]
    checker = Checker(root, notify)
    outside = unrecorded_metrics.outside_metrics(functions, notify)
    few_shot = {name: unrecorded_metrics.OutsideMetric.load(name) for name in FEW_SHOT}
    read: dict[Path, RunRecord] = {}
    for cell in cells:
        try:
            made = checker.record(cell)
            usual = few_shot if made.protocol == FEW_SHOT_PROTOCOL else {}
            made = unrecorded_metrics.with_outside(made, cell, {**usual, **outside}, notify, failed)
            read[cell] = _on_average(made, cell)
        except UserError as e:
            notify(f"left out: {e}")
    tables: dict[Path, dict[Path, list[RunRecord]]] = {}
    for cell, run in zip(read, align_records(list(read.values())), strict=True):
        place = cell.resolve().parent
        # each reference learner gets a table; its neighbours learned other streams
        together = place if place.parent.name == "references" else place.parent
        tables.setdefault(together, {}).setdefault(place, []).append(run)
    runs = [run for learners in tables.values() for made in learners.values() for run in made]
    for name in unrecorded_metrics.ANSWER_METRICS.keys() & set(metrics):
        if runs and not any(name in run.metrics for run in runs):
            raise UserError(
                f"{name} needs to know how sure answers were, and no run under {root} stores it",
                "run stores it, but for label sets and learners whose scores give no "
                "probabilities; far_… need --unknown OTHER.h5",
            )
    if cells and not tables:
        raise UserError(
            f"none of the {len(cells)} runs under {root} can be reported", "the lines above say why"
        )
    rows = []
    refused = []
    for place, learners in tables.items():
        try:
            rows += _table(place, root.resolve(), learners, score, metrics, outside, over, names)
        except UserError as e:
            refused.append(e)
    if refused and not rows:
        raise refused[0]
    for error in refused:
        notify(f"left out, a whole table: {error}")
    return _apart(rows, [] if places is None else _neighbours(root, tables))


def _neighbours(root: Path, tables: Iterable[Path]) -> list[RunRecord]:
    """A run of each other stream under `root`, which titles tell ours from."""
    taken, found = {*tables}, []
    for run in find(root):
        stream = run.resolve().parent.parent
        if stream in taken:
            continue
        taken.add(stream)
        try:
            found.append(load(run))
        except UserError:  # it is not in this table, and `report` says what is wrong with it
            continue
    return found


def _on_average(run: RunRecord, place: Path) -> RunRecord:
    """A run; that of `chance` with what guessing scores on average, if its answers can be read."""
    try:
        return without_draws(run, place)
    except UserError:  # a record is enough for a table
        return run


def _apart(rows: Sequence[Row], neighbours: Sequence[RunRecord]) -> list[Row]:
    """The same rows; tables of one title have in it what differs between their protocols.

    `neighbours` are runs of tables that are not shown.
    """
    tables = [mine[0].group for mine in split_tables(rows)]
    titled = [(g.title, _settings(g.first)) for g in tables]
    titled += [(stream_title(run), _settings(run)) for run in neighbours]
    named = {}
    for group, words in zip(tables, differences(titled, absent=False), strict=False):
        named[id(group)] = replace(group, apart=", ".join(words))
    return [replace(row, group=named[id(row.group)]) for row in rows]


def _settings(run: RunRecord) -> dict[str, Any]:
    unknown = "none" if run.unknown is None else run.unknown.name
    return flatten(run.protocol_params) | {"unknown": unknown, "code": run.protocol}


def _table(
    directory: Path,
    root: Path,
    made: Mapping[Path, list[RunRecord]],
    score: str | None,
    metrics: Sequence[str],
    outside: unrecorded_metrics.Outside,
    over: Over,
    names: RowNames,
) -> list[Row]:
    """The rows of one stream's directory: best final score first, chance last."""
    score = choose_score(list(itertools.chain(*made.values())), score)
    made = {at: [show_by(r, score) for r in runs] for at, runs in made.items()}
    guess = _guess(made, score)
    made = {at: [_against_guessing(r, guess) for r in runs] for at, runs in made.items()}
    learners = list(made.values())
    place = directory.name
    if directory.is_relative_to(root):
        place = str(directory.relative_to(root))
    for runs in learners:
        check_average(runs, place)
    check_comparable(list(itertools.chain(*learners)), place)
    split = [variations(runs) for runs in learners]
    group = Group(
        place,
        records=tuple(itertools.chain(*[independent for independent, _ in split])),
        varied=sum(len(varied) for _, varied in split),
        further=tuple(dict.fromkeys([*metrics, *outside])),
        outside=outside,
        over=over,
        guess=guess,
        names=names,
    )
    of_rows = labels(learners, short=True, names=names)
    rows = []
    for (independent, varied), label, at in zip(split, of_rows, made, strict=True):
        left_out = tuple(r for r in independent if _is_left_out(r))
        used = tuple(r for r in independent if not _is_left_out(r))
        others = tuple(r for r in varied if not _is_left_out(r))
        rows.append(Row(group, label, used, left_out, at, others))

    def rank(row: Row) -> tuple[bool, bool, float]:
        final = row.metrics[FINAL].mean
        return not row.learns, final != final, -final

    return sorted(rows, key=rank)


def _against_guessing(run: RunRecord, guess: Guess | None) -> RunRecord:
    """A run whose FWT is against what guessing scores on average; its record has it by draws.

    As it is in the record where no formula has what guessing scores, or FWT is not defined.
    """
    if guess is None or math.isnan(run.metrics.get(FWT, math.nan)):
        return run
    R = np.array(run.R, dtype=np.float64)
    if R.shape != guess.R.shape:
        return run
    gains = np.diagonal(R - guess.R, offset=1)
    is_tested = [not np.isnan(column).all() for column in R.T[1 : len(gains) + 1]]
    return replace(run, metrics=run.metrics | {FWT: mean_or_nan(gains[is_tested])})


def _guess(made: Mapping[Path, list[RunRecord]], score: str) -> Guess | None:
    """What guessing scores on the stream of a table; None where no answers can be read.

    Where test samples of different sessions have different numbers of candidates, it is the mean
    over the class orders.
    """
    streams: dict[str, tuple[Path, RunRecord]] = {}
    for place, runs in made.items():
        for run in runs:
            streams.setdefault(run.digests.eval, (place, run))
    scores = []
    largest = math.nan
    for place, run in streams.values():
        cell = find_run(place, run)
        if cell is None:
            continue
        try:
            guess = guess_scores(run, cell).get(score)
            if score == USUAL and math.isnan(largest):
                largest = largest_share(run, cell)
        except UserError:  # a record is enough for a table
            continue
        if guess is not None:
            scores.append(guess)
        if not score.startswith("within_") and len({*(run.n_candidates or ())}) < 2:
            break  # in all orders the same
    mean = Guess.mean(scores)
    return None if mean is None else replace(mean, largest=largest)


def to_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Tables and their rows as plain JSON data: fractions, seconds, bytes; NaN is null.

    One object: `schema` (`embedbench-report/1.0`) and `tables`, one a stream, with `place`,
    `title`, `protocol`, `protocol_params`, `files`, `sessions`, `score` (the base score that all
    its numbers are of), `chance` (the final score of guessing, by that score), `validation`,
    `digests`, `ideal` (α_ideal, or a list, one a session), `verdict`, `notes` and `rows`.

    A row has `learner`, `params`, `label`, `n` (runs that the means include),
    `measurements` (how many they are: runs that share a seed, or gave equal answers, bit for bit,
    are one), `over` (what they vary: `seeds`, or such as `init seeds`), `runs` and `left_out`
    (their names), `passes` (times that a training sample was seen, mean), `steps` (of the optimiser
    in a run, mean; null for learners that take none), `verdict` (on the final score, with the keys
    of a ranking below; null for `chance`), `candidates` (settings that a search chose from, or
    null), `flags` (flag → names of the runs), `footprint` and `commands`. Under `metrics` and
    `seconds` each name has `mean`, `half_95` (half-width of the 95 % t-interval), `sd` and `values`
    (one a measurement, in the order of `runs`).
    """
    tables = [_table_json(mine) for mine in split_tables(rows)]
    result: dict[str, Any] = plain({"schema": SCHEMA, "tables": tables})
    return result


def _table_json(rows: list[Row]) -> dict[str, Any]:
    group = rows[0].group
    judged = judge(rows)
    digests = group.first.digests
    return {
        "place": group.place,
        "title": group.title,
        "protocol": group.first.protocol,
        "protocol_params": group.first.protocol_params,
        "files": group.file_names,
        "sessions": group.sessions,
        "score": group.score,
        "chance": group.chance,
        "validation": group.first.validation,
        "digests": {"recipe": digests.recipe, "features": digests.features},
        "ideal": group.ideals[0] if len(group.ideals) == 1 else group.ideals or None,
        "verdict": verdict(rows, judged),
        "notes": group.notes,
        "rows": [_row_json(r, v) for r, v in zip(rows, judged.rows, strict=True)],
    }


def _row_json(row: Row, verdict: RowVerdict | None) -> dict[str, Any]:
    further = [*row.group.beside, *row.group.kind.DETAILS]
    return {
        "learner": row.learner,
        "params": row.params,
        "label": row.label,
        "n": len(row.used),
        "measurements": len(row.results.measurements(FINAL)),
        "over": row.results.varied,
        "runs": [r.run for r in row.used],
        "left_out": [r.run for r in row.left_out],
        "candidates": candidates(row.records[0].tuning),
        "metrics": row.metrics | {name: row.number(name) for name in further},
        "verdict": verdict,
        "steps": row.number("steps").mean,
        "passes": row.number("passes").mean,
        "seconds": row.seconds,
        "footprint": row.footprint,
        "flags": row.flags,
        "commands": row.commands,
    }


def csv_rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of `to_json`, one line a row, with the names of `load_runs`.

    The half-width of the 95 % interval of NAME is `NAME.half_95`; metrics are fractions, sizes
    bytes, times seconds.
    """
    lines = []
    for table in data["tables"]:
        stream = {
            "protocol": table["protocol"],
            "files": " ".join(table["files"]),
            "score": table["score"],
            "stream": table["title"],
        }
        lines += [stream | _csv_row(row) for row in table["rows"]]
    return lines


def _is_left_out(run: RunRecord) -> bool:
    """Whether a flag keeps a run out of all means."""
    return not {*LEFT_OUT}.isdisjoint(run.flags)


def _csv_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of a table as a line of CSV."""
    line = {
        "learner": row["label"],
        "n": row["n"],
        "measurements": row["measurements"],
        "over": row["over"],
    }
    seconds = {f"seconds.{kind}": stat for kind, stat in row["seconds"].items()}
    for name, stat in (row["metrics"] | seconds).items():
        line[name] = stat["mean"]
        line[f"{name}.half_95"] = stat["half_95"]
    verdict = row["verdict"] or {}  # None where the row is not compared
    for name in ("behind", "behind_by", "behind_by_least", "behind_by_most", "detectable"):
        line[name] = verdict.get(name)
    line["passes"] = row["passes"]
    line["steps"] = row["steps"]
    line["bytes.total"] = row["footprint"].get("total")
    line["flags"] = " ".join(row["flags"])
    return line


# --- which runs may be averaged, and which may be set side by side ---


def check_average(records: Sequence[RunRecord], place: str = "") -> None:
    """Refuse to average runs of different streams, learners or scores, or the same run twice.

    Seeds may differ, and with them `train` and `eval`; `recipe` and `features` must agree.
    """
    doing = f"cannot average the runs of {records[0].learner!r} in {place}"
    remedy = "keep the runs of each in a directory of its own (another --out)"
    for key in ("learner", "learner_params", "protocol"):
        values = [json.dumps(getattr(r, key), sort_keys=True) for r in records]
        _check_same(records, key, values, doing)
    for key in ("recipe", "features"):
        _check_same(records, f"{key} digest", [getattr(r.digests, key) for r in records], doing)
    shapes = [f"{len(r.R)} x {len(r.R[0]) if r.R else 0}" for r in records]
    _check_same(records, "shape of R", shapes, doing)
    _check_same(records, "preset of Ω", [r.reference.preset for r in records], doing)
    seen: dict[Seeds, RunRecord] = {}
    for r in records:
        if r.seeds in seen:
            raise UserError(
                f"{doing}: expected every run once, got {_who(seen[r.seeds])} and {_who(r)} with "
                "the same four seeds",
                remedy,
            )
        seen[r.seeds] = r


def check_comparable(records: Sequence[RunRecord], place: str = "") -> None:
    """Refuse to compare learners that did not have the same data.

    Runs with the same order seed must agree in `train`, `eval` and `features`. Runs with different
    order seeds are compared by their means, so they must agree in `recipe` and `features`.
    """
    doing = f"cannot set these runs side by side in {place}"
    by_order: dict[int, list[RunRecord]] = {}
    for r in records:
        by_order.setdefault(r.seeds.order, []).append(r)
    for same in by_order.values():
        for key in ("train", "eval", "features"):
            _check_same(same, f"{key} digest", [getattr(r.digests, key) for r in same], doing)
    firsts = [same[0] for same in by_order.values()]
    for key in ("recipe", "features"):
        _check_same(firsts, f"{key} digest", [getattr(r.digests, key) for r in firsts], doing)


def _check_same(records: Sequence[RunRecord], what: str, values: list[str], doing: str) -> None:
    for r, value in zip(records, values, strict=True):
        if value != values[0]:
            raise UserError(
                f"{doing}: expected one {what}, got {_short(values[0])} ({_who(records[0])}) and "
                f"{_short(value)} ({_who(r)})",
                "keep the runs of each in a directory of its own (another --out)",
            )


def _who(record: RunRecord) -> str:
    return f"{record.learner} seed {record.run or record.seed}"


def _short(value: str) -> str:
    """A digest as its first twelve digits; any other text as Python writes it, cut."""
    return value[:12] if len(value) == 64 and value.isalnum() else short(value)
