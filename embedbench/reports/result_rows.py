"""Rows of a report: the runs of one learner on one stream, with means and intervals over seeds."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import mode
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.fields_added_later import EARLIER
from embedbench.config.run_seeds import format_seeds
from embedbench.files.hdf5_layout import PIXELS
from embedbench.scores import record_files
from embedbench.scores.collapsed_runs import find_collapsed
from embedbench.scores.label_set_predictions import kind_of
from embedbench.scores.learner_verdicts import ROUNDING, Over
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.metric_jackknife import CURVES
from embedbench.scores.offline_references import References
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import FINAL, BaseScore, RunRecord
from embedbench.scores.scores_of_guessing import GUESSES
from embedbench.scores.unrecorded_metrics import Outside

from .headings_and_units import SCORE_NAMES
from .measurement_words import count_text
from .results import Result, Results
from .row_names import NO_NAMES, RowNames, plain_name
from .run_values import count_orders
from .table_metric import BASE_SCORES, PER_CLASS, USUAL

GACC = ("gacc", "gacc_exact")
LEFT_OUT = ("nan", "diverged")  # runs with these flags are left out of all means

OTHER_REFERENCES = "Ω of these rows are shares of different offline references; not comparable"

# flag → mark in a table, meaning
FLAGS = {
    "nan": (
        "N",
        "answers are missing (a score was NaN, or an import has -1); left out of every mean",
    ),
    "diverged": ("D", "the training loss was not finite; left out of every mean"),
    "not-learned": (
        "L",
        "mean per-class accuracy of new sessions under 2 × chance, also at the end: a high Ω_all "
        "misleads",
    ),
    "chance-level": ("C", "the final mean per-class accuracy is under 1.5 × chance"),
    "few-steps": ("F", "fewer than 10 optimiser steps in a session; in parentheses the fewest"),
    "over-budget": ("M", "held more than --budget-mb after a session"),
    "tuned": ("V", "--tune chose among so many settings, on validation data"),
    "grid-edge": ("G", "the best value tried lies at its grid's edge: one beyond may be better"),
    "collapsed": (
        "K",
        "a run has under half of what the row's median has above chance: a steady row beside such "
        "a one is called behind too often",
    ),
    "test-validation": ("T", "test data could stop training"),
    "session-id": ("S", "the learner knew which session every test sample is from"),
    "imported": ("I", "another tool gave the answers; what it cost is not known"),
    "not-pinned": (
        "P",
        "the record names no SHA-256 of its predictions; embedbench score RUNS --update adds it",
    ),
    "threads": ("B", "another number of threads than most runs of the row: other last bits"),
    "reference": (
        "R",
        "another offline reference than most runs of the row, by its settings or the number of its "
        "seeds: this row's Ω is a mean of shares of different references",
    ),
}

SEEN = ("loss", "embedding")  # settings of our protocols: what the loss or the learner sees
LOSSES = {
    "all": "loss over all classes of the stream",
    "seen": "loss over the classes seen",
    "session": "loss over the session's classes, a head a session",
}
VALIDATION = {
    "train": "validation from training data",
    "test": "validation from TEST data",
    "none": "no validation data",
}


def stream_title(run: RunRecord) -> str:
    """Protocol and file names; and what the loss or the learner sees, if that is not the usual."""
    usual = {name: value for name, value in earlier_settings(run).items() if name in SEEN}
    given = {name: run.protocol_params.get(name, value) for name, value in usual.items()}
    other = [f"{name}={value}" for name, value in given.items() if value != usual[name]]
    files = ", ".join(f.name for f in run.files)
    return " · ".join([plain_name(run.protocol), files, *other])


def earlier_settings(run: RunRecord) -> dict[str, Any]:
    """What settings of its protocol were before there was a choice, which early records lack."""
    return EARLIER["protocol"].get(run.protocol, {})


@dataclass(frozen=True)
class Group:
    """The properties that all rows of one table share."""

    place: str  # directory of the stream, relative to the root
    records: tuple[RunRecord, ...]  # all runs of the table, without variations
    varied: int = 0  # variations: runs that repeat another with single seeds set differently
    further: tuple[str, ...] = ()  # metrics with a column beside those that every table has
    outside: Outside = field(default_factory=dict)  # those among them that records do not hold
    apart: str = ""  # settings of the protocol that differ between tables of one title
    over: Over = "seeds and samples"  # what the verdicts rest on, see `learner_verdicts`
    guess: "Guess | None" = None  # what guessing scores, if answers could be read
    names: RowNames = NO_NAMES  # that rows have in the place of their learners'
    # verdicts of `judge` on its rows, by their ids, each with the rows
    judged: dict[tuple[int, ...], Any] = field(default_factory=dict, init=False, compare=False)

    @property
    def score(self) -> str:
        """The one base score of the table."""
        return self.first.score

    @cached_property
    def beside(self) -> list[str]:
        """Other base scores with a column: where classes differ in size, the mean over classes.

        That is so where it is another number than the score per sample.
        """
        name = PER_CLASS.get(self.score, "")
        asked = [metric for metric in self.further if metric in BASE_SCORES]
        for record in self.records:
            per_class = record.by_score.get(name)
            if per_class is None:
                continue
            if abs(per_class.metrics[FINAL] - record.metrics[FINAL]) > ROUNDING:
                return list(dict.fromkeys([name, *asked]))
        return list(dict.fromkeys(asked))

    @property
    def curves(self) -> list[str]:
        """The curves of which its rows have a number: those of few-shot streams, and what is asked.

        The area of gAcc is that of the paper's grid where it is defined, else the integral.
        """
        usual = GACC if self.is_few_shot else ()
        return [name for name in CURVES if name in (*usual, *self.further)]

    @property
    def is_few_shot(self) -> bool:
        """Whether its stream is a few-shot one, whose tables have base and novel classes apart."""
        return self.first.protocol == record_files.FEW_SHOT

    @property
    def first(self) -> RunRecord:
        return self.records[0]

    @property
    def title(self) -> str:
        return " · ".join(filter(None, [stream_title(self.first), self.apart]))

    @property
    def file_names(self) -> list[str]:
        """Names of the embedding files of the runs."""
        return [f.name for f in self.first.files]

    @property
    def sessions(self) -> int:
        return len(self.first.n_train)

    @property
    def so_far(self) -> bool:
        """Whether α_ideal was measured after every session."""
        return bool(self.first.reference.so_far)

    @property
    def notes(self) -> list[str]:
        """Notes of the runs and on the table; each once."""
        return list(dict.fromkeys(self._notes()))

    def _notes(self) -> Iterator[str]:
        for r in self.records:
            yield from r.notes
        if self.varied:
            yield (
                "runs that repeat others with single seeds set otherwise, in no mean: "
                f"{self.varied}"
            )
        waiting = [r for r in self.records if r.reference.source == "missing"]
        if waiting:
            makes = "embedbench run --learner chance"
            if any(r.imported is None for r in waiting):
                makes = "the same embedbench run"
            yield f"reference runs are missing, so Ω is open; {makes} makes them"
        if self._differ_in_reference():
            yield OTHER_REFERENCES
        stated = sorted({r.metric or USUAL for r in self.records if r.learns})
        if len(stated) > 1:
            yield f"runs were made to be shown by {' and by '.join(stated)}; --metric chooses"
        for origin in dict.fromkeys(m.origin for m in self.outside.values()):
            names = [name for name, m in self.outside.items() if m.origin == origin]
            yield f"metrics of {origin}, which no record holds: {', '.join(names)}"

    def _differ_in_reference(self) -> bool:
        """Whether Ω of some runs are shares of other references than those of the rest."""
        whole = [r for r in self.records if r.ideals]
        runs = {r.reference.offline_runs for r in whole}
        values = {(r.reference.offline_runs, _ideal_text(r)) for r in whole}
        settings = {_reference(r) for r in whole}
        return len(values) > len(runs) or len(settings) > 1

    @cached_property
    def ideals(self) -> list[float]:
        """α_ideal, or one per session; empty where it was not measured.

        If α_ideal depends on the class order, it is the mean over the orders of the table.
        """
        different = dict.fromkeys(r.ideals for r in self.records if r.ideals)
        return [float(np.mean(values)) for values in zip(*different, strict=True)]

    @property
    def offline(self) -> float:
        """α_ideal; NaN where it was not measured, or where each session has its own."""
        return self.ideals[0] if len(self.ideals) == 1 else math.nan

    @property
    def chance(self) -> float:
        """The final score of guessing, one number in every table, figure and sentence.

        That is the expected score of a uniform draw among the classes seen, or among the candidates
        of an eval set where those are fewer: `scores_of_guessing`. The row of the learner `chance`
        has it, too, in place of its draws. Where no formula holds, as of label sets, the level is
        the mean of the runs of `chance`; NaN without any.
        """
        guess = self.guessed
        return math.nan if guess is None else float(guess.pooled[-1])

    @property
    def largest_class(self) -> float:
        """The score of answering with the largest class always; NaN where it is not known."""
        return math.nan if self.guessed is None else self.guessed.largest

    @cached_property
    def guessed(self) -> "Guess | None":
        """What guessing scores after each session; None where it is not known."""
        drawn = [r for r in self.records if r.learner == GUESSES]
        return self.guess or self._guess_from_record() or Guess.mean(drawn)

    def _guess_from_record(self) -> "Guess | None":
        """The same where no answers can be read; early records say only what there was at last."""
        run = self.first
        sizes = run.n_classes if any(run.n_classes or ()) else None
        seen = np.cumsum(sizes or [introduced_classes(run)])
        limits = run.n_candidates or [None]
        R = self.kind.guess(seen[:, None], limits) if seen[-1] else None
        if R is None or self.score.startswith("within_"):
            return None
        sizes = sizes if len(seen) == len(limits) else None
        return Guess(np.average(R, axis=1, weights=sizes), R)

    @property
    def kind(self) -> type[RunAnswers]:
        """The kind of answers that the runs have."""
        return kind_of(self.score)

    @property
    def omega_references(self) -> list[str]:
        """The learners behind α_ideal: one, if all Ω compare."""
        names = [_reference_name(r.reference) for r in self.records if r.ideals]
        # records of earlier versions name no trunk, which a reference on images usually has
        on_images = any(f.kind == PIXELS for f in self.first.files)
        return [n for n in dict.fromkeys(names) if not (on_images and n == "mlp")]

    def describe(self) -> list[str]:
        """The stream in a few short phrases."""
        classes = introduced_classes(self.first)
        first = _range([n for r in self.records for n in r.n_train[:1]])
        later = _range([n for r in self.records for n in r.n_train[1:]])
        train = f"{first} training samples"
        if later:
            train += " a session" if first == later else f" at first, then {later} a session"
        sessions = "1 session" if self.sessions == 1 else f"{self.sessions} sessions"
        phrases = [f"{classes} classes", sessions, train]
        orders = count_orders(self.records)
        if orders > 1:
            phrases.append(f"{orders} class orders, by the seed")
        phrases.append(VALIDATION.get(self.first.validation, VALIDATION["train"]))
        if "loss" in earlier_settings(self.first):  # elsewhere the name means another thing
            loss = self.first.protocol_params.get("loss")
            if loss in LOSSES:
                phrases.append(f"{LOSSES[loss]} (protocol.loss={loss})")
        if self.first.scale:
            phrases.append(f"scale {self.first.scale}")
        if self.score in PHRASES:
            phrases.append(PHRASES[self.score])
        if self.ideals:
            values = ", ".join(f"{100 * v:.1f} %" for v in self.ideals)
            data = "all data at once" if len(self.ideals) == 1 else "all data of a session at once"
            if self.omega_references:
                data = f"{_one_of(self.omega_references)} on {data}"
            phrases.append(f"offline (α_ideal): {data}, {values}")
        return phrases


def _one_of(references: Sequence[str]) -> str:
    """What reference runs are, which may be of another learner in each run."""
    if len(references) == 1:
        return references[0]
    names = [name.removeprefix("best (").removesuffix(")") for name in references]
    return f"best (of each run: {', '.join(names[:-1])} or {names[-1]})"


@dataclass(frozen=True, eq=False)
class Guess:
    """What guessing scores: (T,) on all sessions so far, and (T, E) on each eval set.

    Early records have one column of `R`, whatever E is.
    """

    pooled: Floats
    R: Floats
    largest: float = math.nan  # share of the largest class among the test samples

    @classmethod
    def mean(cls, scores: Sequence[BaseScore]) -> "Guess | None":
        """The mean of some scores of guessing; None of none."""
        if not scores:
            return None
        pooled = np.array([score.pooled for score in scores], dtype=np.float64)
        R = np.array([score.R for score in scores], dtype=np.float64)
        return cls(pooled.mean(axis=0), R.mean(axis=0))


def find_run(place: Path, run: RunRecord) -> Path | None:
    """The directory of a run in that of its learner; None if it is not there."""
    places = [place / name for name in (f"seed-{run.run}", run.run)]
    return next((place for place in places if record_files.is_finished(place)), None)


def introduced_classes(run: RunRecord) -> int:
    """The number of classes that the sessions of a stream introduce: answers are among them.

    Records of earlier versions may not have it. Then it is that of the classes with training
    samples, or of all names.
    """
    if run.n_classes and any(run.n_classes):
        return sum(run.n_classes)
    by_class = run.n_train_by_class
    return sum(n > 0 for n in by_class) if by_class else sum(map(len, run.classes))


PHRASES = {
    "accuracy": "accuracy per sample",
    "within_accuracy": "accuracy per sample, within the session",
    **{name: SCORE_NAMES[name] for name in ("class_accuracy", "within_class_accuracy")},
    **{name: f"scores are {SCORE_NAMES[name]}" for name in ("pw_js", "js", "exact_match")},
}


def _range(values: Sequence[int]) -> str:
    if not values:
        return ""
    low = min(values)
    high = max(values)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


@dataclass(frozen=True)
class Row:
    """One learner with one setting on one stream: means over its runs."""

    group: Group
    label: str  # the learner's name, or that of `names`, and settings that tell it from namesakes
    used: tuple[RunRecord, ...]  # runs that the means include
    left_out: tuple[RunRecord, ...]  # runs flagged `nan` or `diverged`
    place: Path | None = None  # directory of its runs; None: their answers are not there
    variations: tuple[RunRecord, ...] = ()  # repeat a run with single seeds set otherwise

    def place_of(self, run: RunRecord) -> Path | None:
        """The directory of one of its runs."""
        return None if self.place is None else find_run(self.place, run)

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """All runs, `used` first."""
        return self.used + self.left_out

    @property
    def learner(self) -> str:
        return self.records[0].learner

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.records[0].learner_params)

    @property
    def learns(self) -> bool:
        return self.records[0].learns

    @property
    def guesses(self) -> bool:
        """Whether it is the learner `chance`, whose scores are those of guessing on average."""
        return self.learner == GUESSES and self.group.kind.guess(1, [None]) is not None

    @property
    def n(self) -> str:
        """Number of measurements; "2 of 3" if runs were left out, "=3" if all answers are equal.

        The average of guessing was not measured: "–".
        """
        if self.guesses:
            return "–"
        counted = count_text(len(self.results.measurements(FINAL)), len(self.used))
        return f"{counted} of {len(self.records)}" if self.left_out else counted

    @cached_property
    def results(self) -> Results:
        """The runs used, as rows of a table of results."""
        outside = self.group.outside
        lower = frozenset(name for name in outside if outside[name].lower_is_better)
        names: dict[str, Any] = {"learner": self.label, "lower": lower}
        results = [Result.of_run(r, self.place_of(r), **names) for r in self.used]
        if self.guesses:  # no seed changes the average
            results = [replace(result, answers=GUESSES) for result in results]
        return Results(tuple(results))

    @property
    def variation_results(self) -> list[Result]:
        """Its variations, which are in no mean."""
        return [Result.of_run(r, self.place_of(r), learner=self.label) for r in self.variations]

    @cached_property
    def metrics(self) -> dict[str, Stat]:
        """Every metric, and the curves that were asked for, over the runs used."""
        names = [*self.records[0].metrics, *self.group.curves]
        return {k: self.number(k) for k in names}

    def is_open(self, metric: str) -> bool:
        """Whether a metric is undefined only because reference runs are not finished."""
        return (
            metric.startswith("omega_")
            and math.isnan(self.metrics[metric].mean)
            and any(r.reference.source == "missing" and r.reference.offline_runs for r in self.used)
        )

    @cached_property
    def flags(self) -> dict[str, list[str]]:
        """Flag → the runs that have it: those of records, and what only a report knows."""
        flags: dict[str, list[str]] = {}
        for record in self.records:
            for name in _flags_of(record):
                flags.setdefault(name, []).append(record.run)
        collapsed = find_collapsed([r.metrics[FINAL] for r in self.used], self.group.chance)
        if collapsed:
            flags["collapsed"] = [self.used[i].run for i in collapsed]
        alike = {"threads": _threads, "reference": _reference}  # in what runs should not differ
        for name, read in alike.items():
            usual = mode(map(read, self.records))
            others = [record.run for record in self.records if read(record) != usual]
            if others:
                flags[name] = others
        return flags

    def number(self, name: str) -> Stat:
        """A value of `run_value` over the runs used.

        What guessing scores differs between streams at most by rounding, which is no interval.
        """
        stat = self.results.stat(name)
        if self.guesses and stat.sd < ROUNDING:
            return Stat.of(stat.values[:1])
        return stat

    @property
    def footprint(self) -> dict[str, int]:
        """Bytes after the last session by kind, mean over the runs that say."""
        kinds = dict.fromkeys(k for r in self.used for k, v in r.footprint.items() if v == v)
        return {k: round(np.nanmean([r.footprint.get(k, 0) for r in self.used])) for k in kinds}

    @property
    def seconds(self) -> dict[str, Stat]:
        """Seconds of learning and of evaluation, over the runs used."""
        return {kind: self.number(f"seconds.{kind}") for kind in ("learn", "evaluate")}

    @property
    def commands(self) -> list[str]:
        """Commands that make the row's runs, each once."""
        return list(dict.fromkeys(r.command for r in self.records if r.command))


def _reference_name(reference: References) -> str:
    """The learner behind α_ideal; of one that validation chose, too."""
    name = reference.learner or "mlp"
    return f"{name} ({reference.chosen})" if reference.chosen else name


def _reference(record: RunRecord) -> Any:
    """What decides α_ideal, without the stream: the runs of a row may have different orders."""
    offline = record.reference.runs[: None if record.reference.chance_run is None else -1]
    return tuple(dict.fromkeys(re.sub(r"-[0-9a-f]{8}(?=/seed-)", "", run) for run in offline))


def _ideal_text(record: RunRecord) -> str:
    """α_ideal of the record's own base score, to be compared."""
    assert record.reference.ideal is not None
    return str(record.reference.ideal[record.score])


def _threads(record: RunRecord) -> Any:
    return record.environment.get("threads")


def _flags_of(record: RunRecord) -> list[str]:
    """The flags of a record, and those that only a report gives it."""
    flags = [*record.flags]
    if record.predictions_sha256 is None:
        flags.append("not-pinned")
    if record.tuning is not None:
        flags.append("tuned")
        if record.tuning.get("edge"):
            flags.append("grid-edge")
    return flags


def split_tables(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each table, in order."""
    tables: dict[int, list[Row]] = {}
    for row in rows:
        tables.setdefault(id(row.group), []).append(row)
    return list(tables.values())


# --- what is said of settings that a search chose (`run --tune`) ---


def searches(runs: Sequence[RunRecord]) -> str:
    """The search that chose the settings of some runs, in words; "" if none was tuned."""
    return "; ".join(dict.fromkeys(_search(run.tuning) for run in runs if run.tuning is not None))


def _search(log: dict[str, Any]) -> str:
    """One search in a few words; `log` comes from a record of anybody."""
    count = candidates(log)
    seeds = log.get("seeds", [log.get("seed")])
    words = "best" if count else "chosen"
    is_kept = "default" in log and log.get("chosen") == log["default"]
    if is_kept:
        words = "default kept"
    if count:
        words += f" of {count}"
    if isinstance(seeds, list) and seeds and all(isinstance(seed, int) for seed in seeds):
        words += " on seed " if len(seeds) == 1 else " on seeds "
        words += format_seeds(sorted(seeds))
    if log.get("edge"):
        words += ", the best other at the grid's edge" if is_kept else ", at the grid's edge"
    return words


def candidates(log: dict[str, Any] | None) -> int | None:
    """The number of settings that a search tried; None if that is not known."""
    if log is None:
        return None
    tried = log.get("tried")
    return len(tried) if isinstance(tried, list | tuple) else None
