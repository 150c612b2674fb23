"""The board: the runs of several packs, recomputed, grouped by stream and ranked.

*Recomputed, not re-run*: every number follows from the predictions in the packs, and all that the
records say of stream, seeds, learner and references agrees with the stream rebuilt from a given
file. That a learner gave these answers, what memory it held and how long it took is what its
submitter says. A board is written as `board.json`, and the pages are made from it.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.files.remote import names_here, uri
from embedbench.reports import comparison_tables, headings_and_units, result_rows
from embedbench.reports.compare_learners import ComparisonStudy, describe_verdicts
from embedbench.reports.html_page import page
from embedbench.reports.measurement_words import count_text, describe_measurements
from embedbench.reports.results import (
    Result,
    Results,
    TableVerdicts,
)
from embedbench.reports.run_rows import labels
from embedbench.reports.table_metric import choose_score, show_by
from embedbench.reports.terminal_tables import behind_text
from embedbench.reports.verdict_sentence import verdict as verdict_sentence
from embedbench.scores import learner_verdicts
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import FINAL, FileInfo, RunRecord
from embedbench.scores.scores_of_guessing import GUESSES
from embedbench.storage import atomic_write, regular_files, value_digest
from embedbench.version import __version__

from .verify_pack import CheckedRun, Rebuilder, Submission, verify

COSTS = {"memory": "bytes.total", "seconds": "seconds.learn"}  # less is better
METRICS = (FINAL, "omega_all", "raa", "gacc", *COSTS)


@dataclass
class BoardRun:
    """A run that agrees in everything.

    Parameters
    ----------
    pack : Submission
        The first that has it.
    also_by : list of str
        Who sent the same run later: settings, seeds and answers are equal.
    """

    pack: Submission
    run: CheckedRun
    also_by: list[str] = field(default_factory=list)


def board(
    packs: Sequence[Path], data: Sequence[Path] = (), notify: Callable[[str], None] = lambda _: None
) -> Board:
    """Verify packs, and rank the learners of each stream.

    A run that an earlier pack has, with the same answers, is named there and not ranked again.

    Parameters
    ----------
    data : sequence of Path
        Embedding files to rebuild the streams from.
    notify : callable
        `notify(sentence)` gets one for each pack that is refused, and each run that is not ranked.
    """
    rebuilder = Rebuilder(data)
    submissions: list[Submission] = []
    sent: dict[Any, BoardRun] = {}
    for path in packs:
        submission = _add_pack(*verify(path, rebuilder), sent)
        submissions.append(submission)
        if submission.refused:
            notify(f"refused: {submission.refused}")
        for one in submission.unranked:
            notify(f"not ranked: {submission.pack}: {one.run}: {one.reason}")
    streams: dict[str, list[BoardRun]] = {}
    for run in sent.values():
        streams.setdefault(_stream_key(run.run.record), []).append(run)
    made = [_stream(runs) for runs in streams.values()]
    made.sort(key=lambda stream: (stream.title, stream.page))
    return Board(SCHEMA, STATEMENT, __version__, tuple(submissions), tuple(made))


def _add_pack(
    submission: Submission, runs: list[CheckedRun], sent: dict[Any, BoardRun]
) -> Submission:
    """Add the runs of a pack to those `sent` so far, and count how many are new.

    A run that an earlier pack has is a repetition with the same outcome: it is named beside the
    first one, and is no further measurement. Runs of `chance`, which are the same in every honest
    pack, are counted apart: they have no rank.
    """
    new: list[CheckedRun] = []
    repeated = 0
    chance = sum(not run.record.learns for run in runs)
    for run in runs:
        earlier = sent.get(_identity(run))
        if earlier is None:
            new.append(run)
        elif run.record.learns:
            repeated += 1
            earlier.also_by.append(submission.by or submission.pack)
    ranked = sum(run.record.learns for run in new)
    submission = replace(submission, ranked=ranked, repeated=repeated, chance=chance)
    sent |= {_identity(run): BoardRun(submission, run) for run in new}
    return submission


def _identity(run: CheckedRun) -> Any:
    """What two runs share of which one repeats the other."""
    made = run.record
    return _stream_key(made), made.learner, run.learner.identity, made.seeds, run.answers


def _stream_key(made: RunRecord) -> str:
    """What all runs on one page share; their seeds may differ, and with them the test data."""
    digests = made.digests
    return json.dumps([made.protocol, digests.recipe, digests.features, made.reference.preset])


def _stream(sent: list[BoardRun]) -> BoardStream:
    """The entries of one stream, ranked by the final score."""
    score = choose_score([one.run.record for one in sent])
    shown = [replace(one, run=_show_by(one.run, score)) for one in sent]
    mine = _by_label(shown)
    used = {label: _results(label, [one.run for one in each]) for label, each in mine.items()}
    learn = [label for label, each in mine.items() if each[0].run.record.learns]
    ranked = itertools.chain(*[used[label] for label in learn])
    scored = [run for run in ranked if not math.isnan(run.value(FINAL))]
    records = [one.run.record for one in shown]
    first = records[0]
    title = result_rows.stream_title(first)
    study = ComparisonStudy(title, FINAL, Results(tuple(scored)), score=score).best_first()
    verdicts = {}
    if len(study.learners) > 1:  # one alone is behind nobody
        verdicts = dict(zip(study.learners, study.verdicts, strict=True))
    entries = [
        _entry(label, each, used[label], verdicts.get(label)) for label, each in mine.items()
    ]
    entries.sort(key=_place)
    return BoardStream(
        page=f"stream-{value_digest.digest(_stream_key(first))[:12]}.html",  # no text of a pack
        title=title,
        score=score,
        protocol=first.protocol,
        protocol_params=first.protocol_params,
        files=first.files,
        recipe=first.digests.recipe,
        features=first.digests.features,
        evals=tuple(dict.fromkeys(record.digests.eval for record in records)),
        sessions=len(first.n_train),
        classes=result_rows.introduced_classes(first),
        notes=tuple(result_rows.Group("", tuple(records)).notes),
        entries=tuple(entries),
        units=study.units,
        groups=study.groups,
        measurements=tuple(describe_measurements({k: used[k] for k in learn if used[k].rows})),
        sentence=_sentence({entry.label: mine[entry.label] for entry in entries}, study),
    )


def _show_by(run: CheckedRun, score: str) -> CheckedRun:
    """The run with its record by a base score."""
    return replace(run, record=show_by(run.record, score))


def _by_label(runs: Sequence[BoardRun]) -> dict[str, list[BoardRun]]:
    """The runs of each entry: of one pack, learner and setting."""
    by_entry: dict[Any, list[BoardRun]] = {}
    for one in runs:
        learner = one.run.learner
        by_entry.setdefault((one.pack, f"{learner} {learner.identity}"), []).append(one)
    names = labels([[one.run.record for one in each] for each in by_entry.values()])
    who = [each[0].pack for each in by_entry.values()]
    return dict(zip(_unique(names, who), by_entry.values(), strict=True))


def _sentence(entries: Mapping[str, Sequence[BoardRun]], study: ComparisonStudy) -> str:
    """The verdict on the entries, best first, in one sentence: what `report` prints."""
    records = {label: [one.run.record for one in each] for label, each in entries.items()}
    group = result_rows.Group("", tuple(itertools.chain(*records.values())))
    rows = []
    for label, mine in records.items():
        used = tuple(record for record in mine if not _is_left_out(record))
        left_out = tuple(record for record in mine if _is_left_out(record))
        rows.append(result_rows.Row(group, label, used, left_out))
    places = [list(entries).index(name) for name in study.learners]
    verdicts: list[learner_verdicts.RowVerdict | None] = [None] * len(rows)
    for place, verdict in zip(places, study.verdicts, strict=True):
        verdicts[place] = verdict.move(places)
    judged = study.judged._replace(rows=verdicts)
    return verdict_sentence(rows, judged)


def _unique(names: Sequence[str], who: Sequence[Submission]) -> list[str]:
    """Labels that say whose an entry is where several packs have one of its name."""
    result: list[str] = []
    for name, pack in zip(names, who, strict=True):
        label = name if names.count(name) == 1 else f"{name} · {pack.by or pack.pack}"
        number = sum(other == label or other.startswith(f"{label} (") for other in result)
        result.append(f"{label} ({number + 1})" if number else label)
    return result


def _is_left_out(made: RunRecord) -> bool:
    return not {*result_rows.LEFT_OUT}.isdisjoint(made.flags)


def _results(label: str, runs: Sequence[CheckedRun]) -> Results:
    """The runs of an entry that are in its means."""
    used = [run for run in runs if not _is_left_out(run.record)]
    rows = []
    for run in used:
        without = run.left_out.get(run.record.score)
        rows.append(Result.of_run(run.record, learner=label, without=without))
    if runs[0].record.learner == GUESSES:  # no seed changes what guessing scores on average
        rows = [replace(row, answers=GUESSES) for row in rows]
    return Results(tuple(rows))


def _entry(
    label: str, sent: Sequence[BoardRun], used: Results, verdict: learner_verdicts.RowVerdict | None
) -> Entry:
    """An entry with its verdict."""
    pack = sent[0].pack
    records = [one.run.record for one in sent]
    first = records[0]
    again = Counter(itertools.chain(*[one.also_by for one in sent]))
    flags = dict.fromkeys(itertools.chain(*[record.flags for record in records]))
    devices = {_device(record) for record in records}
    versions = {str(record.environment.get("embedbench")) for record in records}
    return Entry(
        label=label,
        learner=first.learner,
        params=first.learner_params,
        learns=first.learns,
        pack=pack.sha256,
        by=pack.by,
        date=pack.date,
        also_by=dict(again),
        n=len(used),
        measurements=len(used.measurements(FINAL)),
        left_out=len(records) - len(used),
        versions=tuple(sorted(versions)),
        devices=tuple(sorted(devices)),
        command=_command(records),
        flags=tuple(flags),
        metrics={name: used.stat(COSTS.get(name, name)) for name in METRICS},
        verdict=None if verdict is None or verdict.behind is None else verdict,
    )


def _device(record: RunRecord) -> str:
    """The kind of device and of machine that a run was made on."""
    made_on = record.environment
    return f"{made_on.get('device', '?')}, {made_on.get('machine', '?')}"


def _command(records: Sequence[RunRecord]) -> str:
    """The command that makes all runs of an entry: that of the first, with the seeds of all."""
    first = records[0]
    seeds = ",".join(str(seed) for seed in sorted({made.seed for made in records}))
    if seeds == str(first.seed):
        return first.command
    return re.sub(rf"(?<= )--seed {first.seed}(?= |$)", f"--seeds {seeds}", first.command)


def _place(entry: Entry) -> tuple[bool, bool, float, str]:
    final = entry.metrics["final_accuracy"].mean
    return not entry.learns, math.isnan(final), -final, entry.label


# --- what a board holds ---


SCHEMA = "embedbench-board/6.0"
STATEMENT = "recomputed, not re-run"


@dataclass(frozen=True)
class Entry(JsonRecord):
    """One learner with one setting, from one pack, on one stream.

    docs/board.md describes each field.
    """

    label: str
    learner: str
    params: dict[str, Any]
    learns: bool
    pack: str
    by: str | None
    date: str | None
    also_by: dict[str, int]
    n: int
    measurements: int
    left_out: int
    versions: tuple[str, ...]
    devices: tuple[str, ...]
    command: str
    flags: tuple[str, ...]
    metrics: dict[str, Stat]
    verdict: learner_verdicts.RowVerdict | None


@dataclass(frozen=True)
class BoardStream(JsonRecord):
    """One stream with its entries, the best by its base score first.

    docs/board.md describes each field.
    """

    page: str
    title: str
    score: str
    protocol: str
    protocol_params: dict[str, Any]
    files: tuple[FileInfo, ...]
    recipe: str
    features: str
    evals: tuple[str, ...]
    sessions: int
    classes: int
    notes: tuple[str, ...]
    entries: tuple[Entry, ...]
    units: str
    groups: str
    measurements: tuple[str, ...]
    sentence: str = ""


@dataclass(frozen=True)
class Board(JsonRecord):
    """All streams, and all packs with what of them is not ranked."""

    schema: str
    statement: str
    version: str
    submissions: tuple[Submission, ...]
    streams: tuple[BoardStream, ...]


# --- the pages of a board ---


INDEX, DATA = "index.html", "board.json"


def write_board(board: Board, site: Path, *, overwrite: bool = False) -> list[Path]:
    """Write the pages to a directory, and return their paths, the index first.

    Pages of streams that an earlier board had and this one has not are removed.
    """
    check_site(site, overwrite)
    with regular_files.explain_errors(f"cannot make the directory {site}"):
        site.mkdir(parents=True, exist_ok=True)
    texts = {
        INDEX: _index_page(board),
        DATA: json.dumps(board.to_json(), indent=1) + "\n",
    }
    texts |= {stream.page: _stream_page(stream, board) for stream in board.streams}
    for old in site.glob("stream-*.html"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        atomic_write.write_safely(site / name, text)
    return [site / name for name in texts]


def check_site(site: Path, overwrite: bool) -> None:
    """Refuse a directory that holds something else than an earlier board."""
    there = [path.name for path in site.iterdir()] if site.is_dir() else []
    if (site.exists() and not site.is_dir()) or (there and not (overwrite and DATA in there)):
        raise UserError(
            f"{site} is there already",
            "give --site a new directory, or add --overwrite where it holds a board",
        )


def _index_page(board: Board) -> str:
    return page(
        "board.html.j2",
        board=board,
        ranked=sum(one.ranked for one in board.submissions),
        chance=sum(one.chance for one in board.submissions),
        unranked=sum(len(one.unranked) for one in board.submissions),
        level_with_best=_level_with_best,
        cell=_cell,
        metric_name=headings_and_units.metric_name,
    )


def _level_with_best(entries: Sequence[Entry]) -> list[str]:
    """The entries that no verdict says are behind; the best comes first and is none of them."""
    return [one.label for one in entries[1:] if one.verdict and not one.verdict.behind]


def _stream_page(stream: BoardStream, board: Board) -> str:
    verdicts = [entry.verdict for entry in stream.entries]
    judged = TableVerdicts(verdicts, stream.units, stream.groups)
    columns = []  # metric and heading of those that some entry has
    for name in METRICS:
        if not all(math.isnan(entry.metrics[name].mean) for entry in stream.entries):
            title = headings_and_units.heading(COSTS.get(name, name), stream.score)
            columns.append((name, title))
    return page(
        "board_stream.html.j2",
        board=board,
        cell=_cell,
        metric_name=headings_and_units.metric_name,
        stream=stream,
        final=FINAL,
        behind=headings_and_units.heading("behind"),
        whereabouts=_whereabouts,
        columns=columns,
        ranks=comparison_tables.allowed_ranks,
        behind_text=behind_text,
        count_text=count_text,
        bounds=[*describe_verdicts(judged), *stream.measurements],
        params=json.dumps(stream.to_json()["protocol_params"], indent=1, ensure_ascii=False),
    )


def _whereabouts(file: FileInfo) -> str:
    """Where a file can be had: with embedbench, by the digest of its content, or at a URL."""
    for name, known in names_here.known_files().items():
        if known.content == file.digests.get("content"):
            return f"ships with embedbench as {uri.KNOWN}{name}"
    return f"can be had at {file.url}" if file.url else "not stated where it can be had"


def _cell(entry: Entry, name: str, notes: Sequence[str] = ()) -> dict[str, str]:
    """One number: its text, its interval, and what its column is sorted by.

    Ω compares by one reference alone, and is not shown where they differ.
    """
    stat = entry.metrics[name]
    named = COSTS.get(name, name)
    if math.isnan(stat.mean) or (name == "omega_all" and result_rows.OTHER_REFERENCES in notes):
        return {"text": "–", "half": "", "sort": ""}
    return {
        "text": headings_and_units.value_text(stat.mean, named),
        "half": "" if math.isnan(stat.half) else headings_and_units.value_text(stat.half, named),
        "sort": repr(stat.mean),
    }
