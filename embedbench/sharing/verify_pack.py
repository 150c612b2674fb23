"""The runs of a pack: each is recomputed, and ranked if all that it says agrees with its stream.

Streams are rebuilt from files that are given; nothing that a record names is opened or imported.
"""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Ints
from embedbench.config import fields_added_later, make_from_settings
from embedbench.config.json_records import ABSENT, JsonRecord, plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, short
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.reports.run_values import leave_out_groups
from embedbench.reports.table_metric import USUAL
from embedbench.runs import learner_and_protocol_names
from embedbench.runs.answers_from_scores import allowed_classes, moments, stream_truth
from embedbench.runs.run_spec import RunSpec, Spec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache, number_groups
from embedbench.runs.stream_metadata import record_stream, record_unknown
from embedbench.scores import metric_jackknife, record_files
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import RunRecord
from embedbench.scores.scores_of_guessing import without_draws
from embedbench.scores.verified_records import recompute_record
from embedbench.storage import regular_files, user_cache, value_digest
from embedbench.streams.stream import Stream
from embedbench.text.table_export import flatten
from embedbench.text.undecoded_text import as_text

from .pack import UnpackedPack, unpack

MOST = 10_000  # of a setting of a protocol that decides how much is built: sessions, width, …
UNBUILT = ("observe_batch", "evaluate_every")  # settings that decide nothing of the kind
DESCRIBED = ("validation", "n_train", "n_classes", "n_train_by_class", "n_candidates", "classes")


@dataclass(frozen=True)
class UnrankedRun(JsonRecord):
    """A run that is not ranked, and why. docs/board.md describes each field."""

    run: str
    learner: str
    reason: str


@dataclass(frozen=True)
class Submission(JsonRecord):
    """One pack, and what became of its runs. docs/board.md describes each field."""

    pack: str
    sha256: str
    by: str | None = None
    date: str | None = None
    ranked: int = 0
    repeated: int = 0
    chance: int = 0
    unranked: tuple[UnrankedRun, ...] = ()
    refused: str | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class CheckedRun:
    """A run of a pack that agrees in everything.

    Parameters
    ----------
    place : str
        Its directory in the pack.
    record : RunRecord
        The recomputed record; what the files say of the stream is in it.
    answers : str
        Digest of its answers.
    left_out : dict
        Base score → the final score without each group of the test sample; empty for label sets.
    """

    place: str
    learner: Spec[Any]
    record: RunRecord
    answers: str
    left_out: dict[str, metric_jackknife.LeftOut]


def verify(path: Path, rebuilder: "Rebuilder") -> tuple[Submission, list[CheckedRun]]:
    """Check every run of a pack. A pack that cannot be read is a submission without runs."""
    try:
        regular_files.open_regular(path).close()
        before = user_cache.identity(path)
        seen = Submission(as_text(path.name), user_cache.sha256(path))
    except OSError as e:
        raise UserError(f"cannot read {path} ({e.strerror})", "give a pack") from e
    try:
        with unpack(path) as pack:
            who = replace(seen, by=pack.info.by, date=pack.info.date)
            user_cache.check_unchanged(path, before)  # its SHA-256 is of what was unpacked
            return _Checks(pack, rebuilder).submission(who)
    except Exception as e:  # what is wrong with a pack costs that pack, never the board
        return replace(seen, refused=_words(e).replace(str(path), path.name)), []


@dataclass
class _Checks:
    """The checks of one pack; a reference run is checked once."""

    pack: UnpackedPack
    rebuilder: "Rebuilder"
    _references: dict[Path, str] = field(default_factory=dict)  # place → what is wrong, or ""

    def submission(self, who: Submission) -> tuple[Submission, list[CheckedRun]]:
        unranked: list[UnrankedRun] = []
        runs: dict[Path, CheckedRun] = {}
        for place, made in sorted(self._records(unranked), key=_by_stream):
            try:
                if made.predictions_sha256 is None:
                    raise UserError("its record does not name the SHA-256 of its predictions")
                predictions = record_files.read_predictions(place, made)
                spec, made = self.rebuilder.on_stream(made, predictions)
                made = self._recomputed(place, made)
                self.rebuilder.check_learner(spec, made)
                spec = self._with_references(spec, made)
                self._check_place(spec, place, made)
                answers = value_digest.digest(predictions.answer.shape, predictions.answer)
                left_out = self._left_out(predictions, made)
                made = without_draws(made, place)
                runs[place] = CheckedRun(self._name(place), spec.learner, made, answers, left_out)
            except Exception as e:  # likewise, what is wrong with a run
                reason = self._short(_words(e), place)
                unranked.append(UnrankedRun(self._name(place), made.learner, reason))
        unranked.sort(key=lambda one: one.run)
        return replace(who, unranked=tuple(unranked)), [runs[place] for place in sorted(runs)]

    def _records(self, unranked: list[UnrankedRun]) -> Iterator[tuple[Path, RunRecord]]:
        """Yield the runs whose records can be read."""
        for place in record_files.find(self.pack.runs):
            try:
                yield place, record_files.load(place)
            except UserError as e:
                reason = self._short(str(e), place)
                unranked.append(UnrankedRun(self._name(place), "", reason))

    def _left_out(
        self, predictions: RunAnswers, made: RunRecord
    ) -> dict[str, metric_jackknife.LeftOut]:
        """Base score that a board may show → the final one without each group."""
        if not predictions.rates_samples():
            return {}
        names = self.rebuilder.groups(made)
        groups = None if names is None else names[predictions.ids]
        result: dict[str, metric_jackknife.LeftOut] = {}
        for score in {USUAL, made.metric or USUAL} & made.by_score.keys():
            left = leave_out_groups(predictions, made, score, groups)
            if left is not None:
                result[score] = left
        return result

    def _recomputed(self, place: Path, kept: RunRecord) -> RunRecord:
        """The record of a run with every number computed from the predictions in the pack."""
        again, seen = recompute_record(kept, place, self.pack.runs)
        if seen.differs:
            raise UserError(seen.describe())
        return again

    def _with_references(self, spec: RunSpec, made: RunRecord) -> RunSpec:
        """The spec with the references that its record names, which are those of its stream."""
        runs = made.reference.offline_runs
        first = tuple(map(str, runs[0] if runs and isinstance(runs[0], tuple) else runs))
        spec = replace(
            spec, references=len(first), chance=self._learner("chance", made.reference.chance_run)
        )
        return replace(spec, offline=self._learner("offline", first[0])) if first else spec

    def _learner(self, name: str, run: str | None) -> Spec[Any]:
        """The learner of a reference run, which has this name."""
        made = self._reference(run)
        if made.learner != name:
            raise UserError(f"its reference {run} is of {short(made.learner)}, not of {name}")
        return self.rebuilder.learner(made)

    def _reference(self, run: str | None) -> RunRecord:
        place = self.pack.runs / (run or ".")
        if run is None or not record_files.is_finished(place):
            raise UserError(f"its reference {run or 'chance'} is not in the pack")
        return record_files.load(place)

    def _check_place(self, spec: RunSpec, place: Path, made: RunRecord) -> None:
        """Refuse a run in another place than its own, or with references of another stream."""
        task = make_task(spec, self.pack.runs, self.rebuilder.streams)
        if task.run_dir != place:
            raise UserError(f"its place is {self._name(task.run_dir)}, by its settings and seed")
        wanted = task.reference
        named = made.reference.learner or wanted.learner  # earlier versions named no trunk
        kept = replace(
            made.reference,
            source=wanted.source,
            ideal=None,
            chance=None,
            learner=named,
            chosen=None,
        )
        if wanted != kept:
            raise UserError("its references are not offline and chance runs of its stream")
        offline = itertools.chain(*task.streams.offline_runs(spec))
        for other in (spec.chance_run(), *offline):
            there = task.beside(other).run_dir
            if there == place:
                continue
            wrong = self._wrong(other, there)
            if wrong:
                raise UserError(f"of its reference {self._name(there)}, {wrong}")

    def _wrong(self, spec: RunSpec, place: Path) -> str:
        """The fault of a reference run; empty if there is none."""
        if place not in self._references:
            try:
                made = self._reference(self._name(place))
                if self.rebuilder.learner(made) != spec.learner:
                    raise UserError("its settings are not those of its place")
                order = made.seeds.order if spec.is_offline else spec.seeds.order
                if made.seeds != Seeds.of(spec.seed, order=order) or made.seed != spec.seed:
                    raise UserError(f"its seeds are not those that seed {spec.seed} draws")
                self.rebuilder.compare(spec, made, record_files.read_predictions(place, made))
                self._references[place] = ""
            except UserError as e:
                self._references[place] = self._short(str(e), place)
        return self._references[place]

    def _name(self, place: Path) -> str:
        return place.relative_to(self.pack.runs).as_posix()

    def _short(self, sentence: str, place: Path) -> str:
        """A sentence about a run, without where it was unpacked and what its owner should do."""
        inside = sentence.partition("; ")[0]
        inside = inside.replace(f"{place}: ", "").replace(f"{place}/", "")
        runs = self.pack.runs
        return inside.replace(f"{runs}/", "").replace(str(runs), self.pack.pack.name)


def _by_stream(run: tuple[Path, RunRecord]) -> tuple[str, str, int, Path]:
    """Runs of one stream follow each other, so that it is rebuilt once."""
    place, made = run
    files = "".join(str(f.digests) for f in made.files)
    return f"{made.protocol} {made.protocol_params}", files, made.seeds.order, place


def _words(error: Exception) -> str:
    """An error as a sentence."""
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__} ({error})"


# --- what a record should say, by the stream rebuilt from given files ---


class Rebuilder:
    """Rebuilds the streams of runs from files that are given, and what their records should say.

    Every method raises a `UserError`, in words, where a run does not agree.

    Parameters
    ----------
    data : sequence of Path
        Embedding files.
    """

    def __init__(self, data: Sequence[Path] = ()) -> None:
        self.streams = StreamCache()
        self._chance = Spec("chance", learner_and_protocol_names.learner_class("chance")())
        self._files = {_key(EmbeddingFile.open(path).digests): str(path) for path in data}

    def on_stream(self, made: RunRecord, predictions: RunAnswers) -> tuple[RunSpec, RunRecord]:
        """The run on the rebuilt stream, and its record with what the files say."""
        if made.seeds != Seeds.of(made.seed):
            raise UserError(f"its four seeds are not those that seed {made.seed} draws")
        paths = []
        for info in made.all_files:
            if (key := _key(info.digests)) not in self._files:
                raise UserError(f"{info.name} with its digests is not here (--data FILE gives it)")
            paths.append(self._files[key])
        n = len(made.files)
        spec = RunSpec(
            files=tuple(paths[:n]),
            unknown="".join(paths[n:]),
            protocol=Spec(made.protocol, self._protocol(made)),
            learner=self.learner(made),
            offline=self._chance,
            chance=self._chance,
            seed=made.seed,
            references=0,
            preset=made.reference.preset,
        )
        return spec, self.compare(spec, made, predictions)

    def compare(self, spec: RunSpec, made: RunRecord, predictions: RunAnswers) -> RunRecord:
        """Compare a run with its stream; returns its record with what the files here say."""
        try:
            task = make_task(spec, Path(), self.streams)
            rebuilt_stream = record_stream(task)
            unknown = record_unknown(task)
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as e:
            raise UserError(f"its stream cannot be rebuilt ({e})") from e
        names = ", ".join(file.name for file in rebuilt_stream.files)
        rebuilt = f"of the stream rebuilt from {names}"
        for name, value in vars(rebuilt_stream.digests).items():
            if getattr(made.digests, name) != value:
                raise UserError(f"its digest {name!r} is not that {rebuilt}")
        for name in DESCRIBED:
            if plain(getattr(rebuilt_stream, name)) != plain(getattr(made, name)):
                raise UserError(f"its {name!r} is not that {rebuilt}")
        name = _difference(task.stream, predictions)
        if name:
            raise UserError(f"its {name!r} is not that {rebuilt}")
        _check_answers(task.stream, predictions)
        if predictions.group is not None:
            ours = task.group_samples(predictions.ids)
            if ours is None or not np.array_equal(predictions.group, ours):
                raise UserError(f"its 'group' is not that {rebuilt}")
        return replace(
            made,
            protocol_params=rebuilt_stream.protocol_params,
            files=rebuilt_stream.files,
            unknown=unknown,
            order=rebuilt_stream.order,
            notes=rebuilt_stream.notes,
        )

    def groups(self, made: RunRecord) -> Ints | None:
        """(N,) number of the `group` of each row of a run's files; None where one has none."""
        paths = (self._files[_key(f.digests)] for f in made.files)
        return number_groups([self.streams.file(path) for path in paths])

    def check_learner(self, spec: RunSpec, made: RunRecord) -> None:
        """Refuse a record whose moments are not those of its stream and learner."""
        stream = self.streams.stream(spec)
        reveals = stream.spec.reveals_session_id
        tags = spec.learner.settings.tags
        if made.session_id_at_test != (reveals or tags.needs_session_id):
            raise UserError("its session_id_at_test is not that of its protocol and learner")
        when = [samples for _, samples in moments(stream, online=tags.online)]
        if made.moments is None or [*made.moments.samples_seen] != when:
            raise UserError("its evaluation moments are not those of its protocol and learner")

    def learner(self, made: RunRecord) -> Spec[Any]:
        """The learner of a run, with the settings that its record states."""
        name = made.learner
        if (
            name.replace("_", "-") not in learner_and_protocol_names.our_learners()
            or made.packages
            or made.imported
        ):
            raise UserError(f"its learner {short(name)} is code of others, which is not run")
        spec = Spec(
            name,
            _made(learner_and_protocol_names.learner_class(name), made.learner_params, "learner"),
        )
        if made.learns != spec.settings.tags.learns:
            raise UserError(f"its learns is {made.learns}, and that of {name} is not")
        return spec

    def _protocol(self, made: RunRecord) -> Any:
        """The protocol of a run, if it can be that of its stream; nothing is built."""
        if made.protocol not in learner_and_protocol_names.our_protocols():
            raise UserError(f"its protocol {short(made.protocol)} is code of others")
        if made.order is not None and made.order.digest is not None:
            raise UserError(f"its class order is that of a file, {short(made.order.name)}")
        for name, value in made.protocol_params.items():
            if isinstance(value, int) and value > MOST and name not in UNBUILT:
                raise UserError(f"its protocol has {name}={value}, and {MOST:,} is the most")
        cls = learner_and_protocol_names.protocol_class(made.protocol)
        protocol = _made(cls, made.protocol_params, "protocol")
        if value_digest.digest(protocol.recipe()) != made.digests.recipe:
            raise UserError("its digest 'recipe' is not that of its protocol and parameters")
        sessions = getattr(protocol, "sessions", 0)
        if sessions not in (0, len(made.n_train)):
            raise UserError(f"its protocol has {sessions} sessions, its record {len(made.n_train)}")
        return protocol


def _made(cls: type, settings: dict[str, Any], name: str) -> Any:
    """A learner or protocol with the settings of a record, which name no file."""
    wanted = fields_added_later.add_missing_fields(cls, settings)
    for key, value in flatten(wanted).items():
        if isinstance(value, str) and _may_be_file(key, value):
            raise UserError(f"its {name} reads a file, {key}={short(value)}")
    made = make_from_settings.make(cls, wanted, name=name)
    if plain(dataclasses.asdict(made)) != plain(wanted):
        raise UserError(f"its settings of the {name} are not as this version writes them")
    return made


def _may_be_file(key: str, value: str) -> bool:
    if key.endswith("weights"):
        return value not in ("", "shipped")
    return bool({"/", "\\", "\0"} & {*value}) or os.path.lexists(value)


def _key(digests: dict[str, str]) -> str:
    return json.dumps(digests, sort_keys=True)


def _difference(stream: Stream, predictions: RunAnswers) -> str:
    """The first part of some predictions that is not that of the stream; or empty."""
    truth = stream_truth(stream)
    if {*truth} - {*vars(predictions)}:
        return "y"
    for name, values in truth.items():
        if not np.array_equal(getattr(predictions, name), values):
            return name
    when = np.stack([predictions.session, predictions.samples_seen], axis=1)
    if not any(np.array_equal(when, moments(stream, online=online)) for online in (False, True)):
        return "moments"
    seen = np.zeros((len(stream.sessions), stream.spec.n_classes), dtype=np.bool_)
    for i, one in enumerate(stream.sessions):
        seen[i:, one.classes] = True
    return "" if np.array_equal(predictions.seen, seen[predictions.session]) else "seen"


def _check_answers(stream: Stream, predictions: RunAnswers) -> None:
    """Refuse answers that follow from no scores of a learner on this stream."""
    limits = [e.candidates for e in stream.eval_sets]
    wrong = predictions.find_contradiction(allowed_classes(s, limits) for s in predictions.seen)
    if wrong:
        raise UserError(wrong)
