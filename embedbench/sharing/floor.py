"""The floor: learners whose answers ship, on sets that ship, and where another one stands there.

A part of it is a study, `assets/floor.toml`, and a pack of the answers of its runs alone,
`assets/floor.zip.gz`. `floor` has the sets that ship, `floor-images` those that a reader makes from
a copy of the images, `floor-online` the sets that ship with each sample once. Nothing of it is run
again: a new learner runs by itself, with the seeds and settings of the study, and its answers are
judged beside those stored (`scores.learner_verdicts`), which pairs them by seed and by test sample.
docs/floor.md has the whole in words.
"""

import gzip
import math
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from embedbench.config.json_records import plain
from embedbench.config.run_seeds import format_seeds
from embedbench.errors import UserError, unknown
from embedbench.files.remote.names_here import ASSETS
from embedbench.reports.compare_learners import judge
from embedbench.reports.result_rows import Row, split_tables
from embedbench.reports.tables_from_runs import collect
from embedbench.scores import record_files
from embedbench.scores.learner_verdicts import RowVerdict
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.storage import atomic_write
from embedbench.studies.resolve import override
from embedbench.studies.study import Settings, Study
from embedbench.studies.study_file import read_study

from .pack import unpack

SCHEMA = "embedbench-rank/1.0"
FOLDER = ASSETS  # of the parts
REGIMES = {"pilot": ("floor", "floor-images"), "online": ("floor-online",)}  # of the sets that ship
BY_COMMAND = "floor-images"  # the part of the sets that do not
# no gradient step, no stored sample
CLOSED_FORMS = ("ncm", "slda", "fecam", "ranpac", "acil", "randumb")
ABOVE, OPEN, BEHIND = "above", "not decided", "behind"


def parts_of(regime: str) -> tuple[str, ...]:
    """The parts of a regime, first that of the sets that ship."""
    if regime not in REGIMES:
        raise unknown("regime", regime, REGIMES)
    return REGIMES[regime]


def part_study(part: str) -> Study:
    """The study of a part of the floor."""
    return read_study(FOLDER / f"{part}.toml")


def floor_study(
    learner: str,
    seeds: Sequence[int] = (),
    settings: Settings | None = None,
    regime: str = "pilot",
    data: Mapping[str, str] = MappingProxyType({}),
) -> Study:
    """The study of the floor with one learner in place of its own.

    Parameters
    ----------
    seeds : sequence of int
        Some of the floor's; none: all of them.
    settings : mapping or None
        What `--set` says, over the study's.
    regime : str
        One of `REGIMES`.
    data : mapping
        Names of sets that do not ship, `cub50`, and the files of the reader, who has them.
    """
    others = [str(key) for key in settings or {} if key.head in ("protocol", "seeds")]
    if others:  # before any run: none of it would be on a stream of the floor
        raise UserError(
            f"--set {others[0]} would change the floor's streams",
            "give settings of the learner alone; one that stops by validation data, of which the "
            "floor has none, takes LEARNER.stop.rule=epochs",
        )
    parts = parts_of(regime)
    if data and BY_COMMAND not in parts:
        raise UserError(
            f"--data is for the sets of the regime pilot, and not of {regime}", "leave one out"
        )
    study = _with_data(part_study(parts[0]), data)
    if strange := [seed for seed in seeds if seed not in study.seeds]:
        raise UserError(
            "seeds of the floor",
            expected=f"some of {format_seeds(study.seeds)}",
            got=format_seeds(strange),
        )
    given = Study(learners=(learner,), seeds=tuple(seeds), set=settings or {})
    return override(study, given)


def _with_data(study: Study, data: Mapping[str, str]) -> Study:
    """The study on files of the reader as well, with what is set for these sets."""
    if not data:
        return study
    by_command = part_study(BY_COMMAND)
    known = {Path(name).stem: name for (name,) in by_command.files}
    files, set_of = list(study.files), dict(study.set_of)
    for name, file in data.items():
        if name not in known:
            raise unknown("set", name, known)
        files.append((file,))
        if known[name] in by_command.set_of:
            set_of[file] = by_command.set_of[known[name]]
    return replace(study, files=tuple(files), set_of=set_of)


@dataclass(frozen=True)
class Standing:
    """Where one learner stands on one set, beside the learners of the floor.

    Parameters
    ----------
    row : Row
        The learner on this set.
    verdict : RowVerdict
        The verdict on it.
    floor : dict of str to (Row, str)
        The floor's learners, best first: the row of each, and whether the new one is `above` it,
        `behind` it, or that is `not decided`.
    other_bits : bool
        Whether its features are not those of the floor's learners to the last bit, though the
        samples, their labels and the recipe of the features are.
    """

    row: Row
    verdict: RowVerdict
    floor: dict[str, tuple[Row, str]]
    other_bits: bool = False

    @property
    def name(self) -> str:
        """The set."""
        return _set_name(self.row)

    @property
    def mean(self) -> float:
        """Its final accuracy, in [0, 1]."""
        return self.row.metrics[FINAL].mean

    @property
    def best(self) -> Row:
        """The floor's learner with the highest mean."""
        return next(iter(self.floor.values()))[0]

    def cost(self, name: str) -> tuple[float, float]:
        """A cost (`bytes.total`, `seconds.learn`) of the learner, and the floor's median."""
        theirs = [row.results.stat(name).mean for row, _ in self.floor.values()]
        return self.row.results.stat(name).mean, statistics.median(theirs)

    def against(self, names: Sequence[str]) -> str:
        """`above` where it is above all of these, `behind` where one is above it, or neither."""
        said = [self.floor[name][1] for name in names if name in self.floor]
        if BEHIND in said:
            return BEHIND
        return ABOVE if said and set(said) == {ABOVE} else OPEN

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; fractions, seconds and bytes."""
        seconds, usual_seconds = self.cost("seconds.learn")
        held, usual_held = self.cost("bytes.total")
        return {
            "set": self.name,
            "learner": self.row.label,
            "runs": len(self.row.used),
            "accuracy": self.mean,
            "rank": self.verdict.rank,
            "ranks": self.verdict.ranks,
            "of": len(self.floor) + 1,
            "behind_by": self.verdict.behind_by,
            "behind_by_least": self.verdict.behind_by_least,
            "behind_by_most": self.verdict.behind_by_most,
            "best": self.best.label,
            "best_accuracy": self.best.metrics[FINAL].mean,
            "closed_forms": self.against(CLOSED_FORMS),
            "other_bits": self.other_bits,
            "seconds": seconds,
            "seconds_of_the_floor": usual_seconds,
            "bytes": held,
            "bytes_of_the_floor": usual_held,
            "against": {name: said for name, (_, said) in self.floor.items()},
        }


def stand(
    runs: Path,
    notify: Callable[[str], None],
    made: Iterable[Path] | None = None,
    regime: str = "pilot",
) -> dict[str, list[Standing]]:
    """Where the learners of a directory of runs stand on each set of the floor, by their label.

    Each is placed among the floor's learners alone, and not beside the others of the directory.
    Runs on other streams than the floor's are named and left out. A stream is one of the floor's
    where its samples, labels, sessions and the recipe of its features are; a sentence names those
    whose features have other bits, as those of another machine may have.

    Parameters
    ----------
    runs : Path
        The directory.
    made : iterable of Path or None
        These runs of it alone; None: all.
    regime : str
        One of `REGIMES`.

    Raises
    ------
    UserError
        No run is on a stream of the floor.
    """
    found = record_files.find(runs) if made is None else made
    mine = {place: run for place in found if (run := record_files.load(place)).learns}
    with _floor_runs(parts_of(regime)) as packed:
        streams = _streams(packed)
        new, again, other_bits = set[Path](), set[Path](), set[Path]()
        elsewhere = set[Path]()
        for place, run in mine.items():
            host = streams.get(_samples_of(run))
            if host is None:
                elsewhere.add(place.parent.parent)
                continue
            stream, known = host
            learner = stream / place.parent.name
            if learner.exists() and learner not in new:  # a learner of the floor, made again
                again.add(learner)
                shutil.rmtree(learner)
            new.add(learner)
            if _adopt(place, run, known, learner / place.name):
                other_bits.add(learner)
        for stream in sorted(elsewhere):
            notify(f"left out: {stream} is no stream of the floor's regime {regime}")
        if not new:
            raise UserError(
                f"no run under {runs} is on a stream of the floor's regime {regime}",
                "make some with embedbench rank LEARNER",
            )
        guests = new - again
        result: dict[str, list[Standing]] = {}
        for table in split_tables(collect(packed, notify=notify)):
            for row in table:
                if row.place not in new:
                    continue
                hosts = [one for one in table if one is row or one.place not in guests]
                standing = _standing(row, hosts, row.place in other_bits)
                if standing is None:
                    notify(f"left out: no run of {row.label} on {_set_name(row)} without NaN")
                else:
                    result.setdefault(row.label, []).append(standing)
    for name in dict.fromkeys(
        one.name for standings in result.values() for one in standings if one.other_bits
    ):
        notify(
            f"{name}: samples, labels and recipe are the floor's, and the features have other bits "
            "(another machine or version made them); a part of a small difference may be theirs"
        )
    return result


def _streams(packed: Path) -> dict[tuple[str, ...], tuple[Path, RunRecord]]:
    """The floor's streams: the directory of each, and the record of one of its runs."""
    found = dict[Path, Path]()
    for place in record_files.find(packed):
        found.setdefault(place.parent.parent, place)
    records = {stream: record_files.load(place) for stream, place in found.items()}
    return {_samples_of(run): (stream, run) for stream, run in records.items()}


def _samples_of(run: RunRecord) -> tuple[str, ...]:
    """What decides the sessions of a run, and the recipe of its features: no bits of these."""
    names = ("samples", "recipe")
    return (
        run.digests.recipe,
        *(file.digests.get(name, file.digests["content"]) for file in run.files for name in names),
    )


def _adopt(place: Path, run: RunRecord, host: RunRecord, target: Path) -> bool:
    """Copy a run beside those of a stream of the floor; return whether its features differ.

    Then the copy is called one on the floor's features, or no table would take both.
    """
    shutil.copytree(place, target)
    if run.digests.features == host.digests.features:
        return False
    digests = replace(run.digests, features=host.digests.features)
    record_files.save(replace(run, digests=digests, files=host.files), target)
    return True


def _standing(row: Row, table: Sequence[Row], other_bits: bool) -> Standing | None:
    """Where a row of a table stands among the others; None where it has no number."""
    judged = judge(table)
    mine = next(i for i, one in enumerate(table) if one is row)
    verdict = judged.rows[mine]
    if verdict is None:
        return None
    floor = dict[str, tuple[Row, str]]()
    for i, (other, theirs) in enumerate(zip(table, judged.rows, strict=True)):
        if theirs is None or i == mine:
            continue
        said = OPEN
        if i in verdict.above:
            said = BEHIND
        elif mine in theirs.above:
            said = ABOVE
        floor[other.label] = (other, said)
    return Standing(row, verdict, floor, other_bits)


def _set_name(row: Row) -> str:
    return " ".join(row.group.file_names)


@dataclass(frozen=True)
class Place:
    """One learner of the floor on one set; `above` are those that a verdict says are above it."""

    row: Row
    verdict: RowVerdict
    above: frozenset[str] = frozenset()

    @property
    def mean(self) -> float:
        """Its final accuracy, in [0, 1]."""
        return self.row.metrics[FINAL].mean

    def cost(self, name: str) -> float:
        """The mean of a cost, `bytes.total` or `seconds.learn`."""
        return self.row.results.stat(name).mean


def read_floor(
    notify: Callable[[str], None], regime: str = "pilot", parts: Sequence[str] = ()
) -> dict[str, dict[str, Place]]:
    """The learners of a regime of the floor, or of some of its parts: set → label → place."""
    sets: dict[str, dict[str, Place]] = {}
    with _floor_runs(parts or parts_of(regime)) as runs:
        for table in split_tables(collect(runs, notify=notify)):
            judged = judge(table)
            places = {}
            for row, verdict in zip(table, judged.rows, strict=True):
                if verdict is not None:
                    above = frozenset(table[i].label for i in verdict.above)
                    places[row.label] = Place(row, verdict, above)
            sets[_set_name(table[0])] = places
    return sets


def list_floor(sets: Mapping[str, Mapping[str, Place]]) -> list[dict[str, Any]]:
    """One row for each learner of the floor: on how many sets, its mean rank, costs, accuracies.

    `level` are the sets on which no verdict says that it is behind; `above` says of each other
    learner on how many sets a verdict says that this one is above it.
    """
    rows = []
    for label in dict.fromkeys(label for places in sets.values() for label in places):
        mine = {name: places[label] for name, places in sets.items() if label in places}
        ranks = [place.verdict.rank for place in mine.values() if place.verdict.rank is not None]
        rows.append(
            {
                "learner": label,
                "mean_rank": statistics.mean(ranks) if ranks else math.inf,
                "accuracy": {name: place.mean for name, place in mine.items()},
                "level": [name for name, place in mine.items() if not place.verdict.behind],
                "above": count_below(label, sets),
                "seconds": statistics.median(p.cost("seconds.learn") for p in mine.values()),
                "bytes": statistics.median(p.cost("bytes.total") for p in mine.values()),
            }
        )
    return sorted(rows, key=lambda row: row["mean_rank"])


def count_below(label: str, sets: Mapping[str, Mapping[str, Place]]) -> dict[str, int]:
    """For each other learner, on how many sets a verdict says that this one is above it."""
    counts: dict[str, int] = {}
    for places in sets.values():
        for other, place in places.items():
            if other != label:
                counts[other] = counts.get(other, 0) + (label in place.above)
    return counts


@contextmanager
def _floor_runs(parts: Sequence[str]) -> Iterator[Path]:
    """The runs of some parts in a directory of their own, which may be changed."""
    with tempfile.TemporaryDirectory(prefix="embedbench-floor-") as made:
        folder = Path(made).resolve()
        for part in parts:
            packed = folder / f"{part}.zip"
            answers = gzip.decompress((FOLDER / f"{part}.zip.gz").read_bytes())
            atomic_write.write_safely(packed, answers, sync=False)
            with unpack(packed) as pack:
                shutil.copytree(pack.runs, folder / "runs", dirs_exist_ok=True)
        yield folder / "runs"


def sentence(label: str, standings: Sequence[Standing]) -> str:
    """What a reader may quote: on how many sets it is above every closed form.

    >>> sentence("mine", [])
    'mine: on no set of the floor'
    """
    if not standings:
        return f"{label}: on no set of the floor"
    said = [one.against(CLOSED_FORMS) for one in standings]
    count = {word: said.count(word) for word in (ABOVE, OPEN, BEHIND)}
    ranks = [one.verdict.rank for one in standings if one.verdict.rank is not None]
    most = max(len(one.floor) for one in standings) + 1
    mean = f"; mean rank {statistics.mean(ranks):.1f} of {most}" if ranks else ""
    return (
        f"{label}: above every closed form on {count[ABOVE]} of {len(said)} sets, "
        f"not decided on {count[OPEN]}, behind one on {count[BEHIND]}{mean}{_of_seeds(standings)}"
    )


def _of_seeds(standings: Sequence[Standing]) -> str:
    """A phrase where the learner has fewer seeds than the floor; else nothing."""
    mine = min(len(one.row.used) for one in standings)
    theirs = min(len(row.used) for one in standings for row, _ in one.floor.values())
    if mine >= theirs:
        return ""
    return f"; with {mine} of the floor's {theirs} seeds, so that little can be decided"


def count_against(standings: Sequence[Standing]) -> dict[str, dict[str, int]]:
    """For each learner of the floor, on how many sets the new one is above it, or behind."""
    names = dict.fromkeys(name for one in standings for name in one.floor)
    result = {}
    for name in names:
        said = [one.floor[name][1] for one in standings if name in one.floor]
        result[name] = {word: said.count(word) for word in (ABOVE, OPEN, BEHIND)}
    return result


def to_json(of: Mapping[str, Sequence[Standing]]) -> dict[str, Any]:
    """All standings as JSON data."""
    learners = [
        {
            "learner": label,
            "sentence": sentence(label, standings),
            "sets": [one.to_json() for one in standings],
            "against": count_against(standings),
        }
        for label, standings in of.items()
    ]
    data: dict[str, Any] = plain({"schema": SCHEMA, "learners": learners})
    return data
