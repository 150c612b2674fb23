"""The runs of a pack: each is recomputed, and ranked if all that it says agrees with its stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, short
from embedbench.reports.compare_learners import leave_out_groups
from embedbench.runs.run_spec import RunSpec, Spec
from embedbench.scores import label_set_predictions, metric_jackknife, record_files
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.scores.verified_records import recompute_record
from embedbench.storage import regular_files, user_cache, value_digest

from .pack import UnpackedPack, unpack
from .rebuild_stream import Rebuilder


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
    left_out : LeftOut or None
        Final accuracy without each group of the test sample; None for label sets.
    """

    place: str
    learner: Spec[Any]
    record: RunRecord
    answers: str
    left_out: metric_jackknife.LeftOut | None


def verify(path: Path, rebuilder: Rebuilder) -> tuple[Submission, list[CheckedRun]]:
    """Check every run of a pack. A pack that cannot be read is a submission without runs."""
    try:
        regular_files.open_regular(path).close()
        seen = Submission(path.name, user_cache.sha256(path))
    except OSError as e:
        raise UserError(f"cannot read {path} ({e.strerror}); give a pack") from e
    try:
        with unpack(path) as pack:
            who = replace(seen, by=pack.info.by, date=pack.info.date)
            return _Checks(pack, rebuilder).submission(who)
    except Exception as e:  # what is wrong with a pack costs that pack, never the board
        return replace(seen, refused=_words(e).replace(str(path), path.name)), []


@dataclass
class _Checks:
    """The checks of one pack; a reference run is checked once."""

    pack: UnpackedPack
    rebuilder: Rebuilder
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
                spec = self._with_references(self.rebuilder.with_learner(spec, made), made)
                self._check_place(spec, place, made)
                answers = value_digest.digest(predictions.answer.shape, predictions.answer)
                left_out = self._left_out(predictions, place, made)
                runs[place] = CheckedRun(self._name(place), spec.learner, made, answers, left_out)
            except Exception as e:  # likewise, what is wrong with a run
                reason = self._short(_words(e), place)
                unranked.append(UnrankedRun(self._name(place), made.learner, reason))
        unranked.sort(key=lambda one: one.run)
        return replace(who, ranked=len(runs), unranked=tuple(unranked)), [
            runs[place] for place in sorted(runs)
        ]

    def _records(self, unranked: list[UnrankedRun]) -> Iterator[tuple[Path, RunRecord]]:
        """Yield the runs whose records can be read."""
        for place in record_files.find(self.pack.runs):
            try:
                yield place, record_files.load(place)
            except UserError as e:
                reason = self._short(str(e), place)
                unranked.append(UnrankedRun(self._name(place), "", reason))

    def _left_out(
        self, predictions: label_set_predictions.AnyPredictions, place: Path, made: RunRecord
    ) -> metric_jackknife.LeftOut | None:
        if not isinstance(predictions, Predictions):
            return None
        names = self.rebuilder.groups(made)
        groups = None if names is None else names[predictions.ids]
        return leave_out_groups(predictions, made, place, FINAL, groups)

    def _recomputed(self, place: Path, kept: RunRecord) -> RunRecord:
        """The record of a run with every number computed from the predictions in the pack."""
        again, seen = recompute_record(kept, place, self.pack.runs)
        if seen.differs:
            raise UserError(seen.describe())
        return replace(again, run=kept.run)

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
        streams, root = self.rebuilder.streams, self.pack.runs
        if (right := streams.run_dir(spec, root)) != place:
            raise UserError(f"its place is {self._name(right)}, by its settings and seed")
        wanted = streams.reference(spec, root)
        named = made.reference.learner or wanted.learner  # earlier versions named no trunk
        kept = replace(made.reference, source=wanted.source, ideal=None, chance=None, learner=named)
        if wanted != kept:
            raise UserError("its references are not offline and chance runs of its stream")
        offline = [run for part in streams.offline_runs(spec) for run in part]
        for other in (spec.chance_run(), *offline):
            there = streams.run_dir(other, root)
            if there != place and (wrong := self._wrong(other, there)):
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
                self._recomputed(place, made)
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
