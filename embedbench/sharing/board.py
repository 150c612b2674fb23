"""The board: the runs of several packs, recomputed, grouped by stream and ranked.

*Recomputed, not re-run*: every number follows from the predictions in the packs, and their labels
are those of the stream where it could be rebuilt. That a learner gave these answers, what memory it
held and how long it took is what its submitter says.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from embedbench.arrays import digest
from embedbench.errors import UserError
from embedbench.reports.alike import stream_title
from embedbench.reports.bridge import value_of
from embedbench.reports.collect import variations
from embedbench.reports.comparison import Ranking, compare
from embedbench.reports.labels import labels
from embedbench.reports.rows import LEFT_OUT, Group
from embedbench.reports.study import Block, Study, order_name
from embedbench.scores.run_record import RunRecord
from embedbench.scores.stats import Stat
from embedbench.version import __version__

from .board_parts import SCHEMA, STATEMENT, Board, BoardStream, Entry
from .rebuilt import Rebuilder
from .verify import CheckedRun, LeftOut, Submission, verify

METRICS = ("final_accuracy", "omega_all", "raa", "gacc", "memory", "seconds")
LOWER = ("memory", "seconds")  # less is better


@dataclass(frozen=True)
class _Sent:
    """A checked run and the number of its pack."""

    pack: int
    run: CheckedRun

    @property
    def record(self) -> RunRecord:
        return self.run.record


def board(
    packs: Sequence[Path], data: Sequence[Path] = (), tell: Callable[[str], None] = lambda _: None
) -> Board:
    """Verify packs, and rank the learners of each stream.

    Parameters
    ----------
    packs : sequence of Path
        Archives that `pack` wrote.
    data : sequence of Path
        Embedding files, and order files, to rebuild the streams from.
    tell : callable
        `tell(sentence)` gets one for each pack and each run that is left out.

    Raises
    ------
    UserError
        Nothing is left, or a file cannot be read.
    """
    rebuilder = Rebuilder(data)
    submissions: list[Submission] = []
    sent: list[_Sent] = []
    for i, path in enumerate(packs):
        submission, runs = verify(path, rebuilder)
        submissions.append(submission)
        sent += [_Sent(i, run) for run in runs]
    streams: dict[str, list[_Sent]] = {}
    for one in sent:
        streams.setdefault(_stream_key(one.record), []).append(one)
    agreed = {key: _agreed(runs, submissions) for key, runs in streams.items()}
    made = [_stream(runs, submissions) for runs in agreed.values() if runs]
    for submission in submissions:
        if submission.refused:
            tell(f"left out: {submission.refused}")
        for left in submission.left_out:
            tell(f"left out: {submission.pack}: {left.run}: {left.reason}")
    if not made:
        raise UserError("no run of these packs is left for a board; the lines above say why")
    made.sort(key=lambda stream: (stream.title, stream.page))
    return Board(SCHEMA, STATEMENT, __version__, tuple(submissions), tuple(made))


def _stream_key(made: RunRecord) -> str:
    """What all runs on one page share; their seeds may differ, and with them the test data."""
    shape = [len(made.R), len(made.R[0]) if made.R else 0]
    parts = [made.protocol, made.digests.recipe, made.digests.features, made.score, shape]
    return json.dumps([*parts, made.reference.preset])


def _agreed(runs: list[_Sent], submissions: list[Submission]) -> list[_Sent]:
    """The runs whose data are those of the others with their order seed, each once in its pack.

    Those that were compared with the rebuilt stream decide, else the most.
    """
    kept: list[_Sent] = []
    votes: dict[int, Counter[tuple[str, str]]] = {}
    for one in runs:
        weight = len(runs) if one.run.compared else 1
        votes.setdefault(one.record.seeds.order, Counter())[_data(one.record)] += weight
    seen: set[tuple[int, str, str]] = set()
    for one in runs:
        made = one.record
        usual = votes[made.seeds.order].most_common(1)[0][0]
        key = (one.pack, _learner_key(made), str(made.seeds))
        if _data(made) != usual:
            reason = "its training or test data are not those of the other runs on this stream"
        elif key in seen:
            reason = "another run of this pack has the same learner, settings and seeds"
        else:
            seen.add(key)
            kept.append(one)
            continue
        old = submissions[one.pack]
        left = (*old.left_out, LeftOut(one.run.place, reason))
        submissions[one.pack] = replace(old, left_out=left, runs=old.runs - 1)
    return kept


def _data(made: RunRecord) -> tuple[str, str]:
    return made.digests.train, made.digests.eval


def _learner_key(made: RunRecord) -> str:
    return json.dumps([made.learner, made.learner_params], sort_keys=True)


def _stream(runs: list[_Sent], submissions: Sequence[Submission]) -> BoardStream:
    """The entries of one stream, ranked by every metric that they have."""
    first = runs[0].record
    by_entry: dict[tuple[int, str], list[_Sent]] = {}
    for one in runs:
        by_entry.setdefault((one.pack, _learner_key(one.record)), []).append(one)
    names = labels([[one.record for one in each] for each in by_entry.values()])
    who = [submissions[pack] for pack, _ in by_entry]
    entries, used = {}, {}
    for label, each, pack in zip(_unique(names, who), by_entry.values(), who, strict=True):
        entries[label], used[label] = _entry(label, each, pack)
    rankings = {name: _ranking(name, first, used) for name in METRICS}
    answers = {label: {made.predictions_sha256 for made in runs} for label, runs in used.items()}
    ranked = [_ranked(entry, rankings, answers) for entry in entries.values()]
    ranked.sort(key=_place)
    return BoardStream(
        page=f"stream-{digest(_stream_key(first))[:12]}.html",  # no text of a pack
        title=stream_title(first),
        protocol=first.protocol,
        protocol_params=first.protocol_params,
        files=first.files,
        recipe=first.digests.recipe,
        features=first.digests.features,
        evals=tuple(dict.fromkeys(one.record.digests.eval for one in runs)),
        sessions=len(first.n_train),
        classes=sum(map(len, first.classes)),
        notes=tuple(Group("", tuple(one.record for one in runs)).notes),
        entries=tuple(ranked),
        rankings={name: ranking for name, ranking in rankings.items() if ranking is not None},
    )


def _unique(names: Sequence[str], who: Sequence[Submission]) -> list[str]:
    """Labels that say whose an entry is where several packs have one of its name."""
    result: list[str] = []
    for name, pack in zip(names, who, strict=True):
        label = name if names.count(name) == 1 else f"{name} · {pack.by or pack.pack}"
        number = sum(other == label or other.startswith(f"{label} (") for other in result)
        result.append(f"{label} ({number + 1})" if number else label)
    return result


def _entry(label: str, runs: Sequence[_Sent], pack: Submission) -> tuple[Entry, list[RunRecord]]:
    """An entry without ranks, and the runs in its means."""
    records, _ = variations([one.record for one in runs])
    used = [made for made in records if not {*LEFT_OUT} & {*made.flags}]
    first = records[0]
    metrics = {name: Stat.of(_value(made, name) for made in used) for name in METRICS}
    entry = Entry(
        label=label,
        learner=first.learner,
        params=first.learner_params,
        learns=first.learns,
        pack=pack.sha256,
        by=pack.by,
        date=pack.date,
        n=len(used),
        left_out=len(records) - len(used),
        versions=tuple(sorted({str(made.environment.get("embedbench")) for made in records})),
        devices=tuple(sorted({_device(made) for made in records})),
        code=_code(first),
        command=first.command,
        flags=tuple(dict.fromkeys(flag for made in records for flag in made.flags)),
        compared=all(one.run.compared for one in runs),
        same_answers=(),
        metrics=metrics,
        ranks={},
        groups={},
    )
    return entry, used


def _value(made: RunRecord, name: str) -> float:
    """A metric of a run; the mean of a curve for RAA and gAcc; bytes or seconds."""
    if name == "memory":
        return made.footprint["total"]
    return made.seconds.learn if name == "seconds" else value_of(made, name)


def _device(made: RunRecord) -> str:
    return ", ".join(str(made.environment.get(key, "?")) for key in ("device", "machine"))


def _code(made: RunRecord) -> str | None:
    package = made.imported.tool if made.imported else (made.packages or {}).get("learner")
    if package is not None:
        return f"{made.learner} ({package.name} {package.version})"
    return made.learner if ":" in made.learner else None


def _ranking(name: str, first: RunRecord, used: dict[str, list[RunRecord]]) -> Ranking | None:
    """The ranking by one metric; None unless two entries that learn have it."""
    scores: dict[str, dict[Block, float]] = {}
    for label, records in used.items():
        for made in records:
            value = _value(made, name)
            if made.learns and not math.isnan(value):
                scores.setdefault(label, {})[order_name(made), str(made.seeds)] = value
    if len(scores) < 2:
        return None
    study = Study(stream_title(first), name, scores, lower=name in LOWER)
    order = sorted(scores, key=lambda label: -study.sign * study.mean(label))
    return compare(replace(study, scores={label: scores[label] for label in order}))


def _place(entry: Entry) -> tuple[bool, bool, float, str]:
    final = entry.metrics["final_accuracy"].mean
    return not entry.learns, math.isnan(final), -final, entry.label


def _ranked(
    entry: Entry,
    rankings: dict[str, Ranking | None],
    answers: dict[str, set[str | None]],
) -> Entry:
    """An entry with its ranks and groups, and the others with the same answers."""
    ranks, groups = {}, {}
    for name, ranking in rankings.items():
        for one in ranking.learners if ranking else ():
            if one.learner == entry.label:
                ranks[name], groups[name] = one.rank, one.groups
    mine = answers[entry.label]
    same = (other for other, theirs in answers.items() if other != entry.label and theirs == mine)
    return replace(entry, ranks=ranks, groups=groups, same_answers=tuple(same) if mine else ())
