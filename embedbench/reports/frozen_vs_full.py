"""The frozen-to-full bridge: one stream, run on embeddings and on the images behind them.

`report --bridge` pairs the rows of a report by learner, and the runs of these rows by their four
seeds. All numbers of a row are over these pairs; the gap is images minus embeddings.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.table import Table
from rich.text import Text

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.files.hdf5_layout import PIXELS
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.metric_jackknife import CURVES
from embedbench.scores.run_record import FINAL, Digests, RunRecord
from embedbench.text.terminal_text import line, new_table

from .comparison_text import section
from .headings_and_units import heading, is_cost, stat_text, value_text
from .result_rows import SCORE_NAMES, Group, Row, run_value

SCHEMA = "embedbench-bridge/1.0"
METRICS = ("omega_all", FINAL, "average_accuracy", "average_forgetting")
SIDES = {False: "embeddings", True: "images"}

# Digests that two runs of one stream share, on embeddings or on images: how the stream is made,
# which samples are trained on in each session, and which are tested.
SHARED = {"recipe": "protocol or its parameters", "train": "training data", "eval": "test data"}
PERMUTED = (
    ". Columns of embeddings are not permuted as pixels are: on a permutation stream the embedding "
    "file must hold the pixels, extract --backbone pixels"
)


@dataclass(frozen=True)
class Sides(JsonRecord):
    """A number over pairs of runs.

    Parameters
    ----------
    frozen, full, gap : Stat
        On embeddings, on images, and full minus frozen; a value a pair.
    """

    frozen: Stat
    full: Stat
    gap: Stat

    @classmethod
    def of(cls, values: Sequence[tuple[float, float]]) -> "Sides":
        """From the two numbers (embeddings, images) of each pair."""
        frozen, full = zip(*values, strict=True)
        return cls(Stat.of(frozen), Stat.of(full), Stat.of(b - a for a, b in values))


@dataclass(frozen=True)
class BridgedLearner(JsonRecord):
    """One learner, on embeddings and on images.

    Parameters
    ----------
    learner : str
        Its label.
    trunk : str or None
        The network on images.
    n, unpaired : int
        Pairs of runs with the same four seeds, and runs without a partner.
    metrics : dict
        Name → both sides; of the curves `raa`, `raf` and `gacc` the means over the sessions.
    bytes, learn_seconds, learn_joules : Sides
        What it holds and spends; joules are null where one side has none.
    gap_per_hour : float
        Gap of the final score divided by the hours of learning on images.
    """

    learner: str
    trunk: str | None
    n: int
    unpaired: int
    metrics: dict[str, Sides]
    bytes: Sides
    learn_seconds: Sides
    learn_joules: Sides
    gap_per_hour: float


@dataclass(frozen=True)
class BridgedStream(JsonRecord):
    """One stream with its learners, on embeddings and on images.

    Parameters
    ----------
    title, score : str
        Of the stream, and its base score.
    ideal, devices : dict
        `frozen`, `full` → α_ideal, and the devices.
    learners : tuple of BridgedLearner
        One a row.
    """

    title: str
    score: str
    ideal: dict[str, tuple[float, ...]]
    devices: dict[str, tuple[str, ...]]
    learners: tuple[BridgedLearner, ...]

    @property
    def has_joules(self) -> bool:
        """Whether some learner has joules on both sides."""
        return any(not math.isnan(e.learn_joules.gap.mean) for e in self.learners)


@dataclass(frozen=True)
class Alone(JsonRecord):
    """A row without a partner.

    Parameters
    ----------
    learner, title : str
        Its label and its table.
    on, why : str
        `embeddings` or `images`, and the reason.
    """

    learner: str
    title: str
    on: str
    why: str


@dataclass(frozen=True)
class Bridge(JsonRecord):
    """Learners that ran on embeddings and on images, and rows without a partner.

    Parameters
    ----------
    schema : str
        `embedbench-bridge/1.0`.
    streams : tuple of BridgedStream
        With the learners that have a partner.
    alone : tuple of Alone
        Those that have none.
    """

    schema: str
    streams: tuple[BridgedStream, ...]
    alone: tuple[Alone, ...]


def check_one_stream(frozen: Digests, full: Digests) -> None:
    """Refuse two runs, by the digests of their streams, unless they are of one stream."""
    differ = [what for key, what in SHARED.items() if getattr(frozen, key) != getattr(full, key)]
    if differ:
        raise UserError(
            f"these two runs are not of one stream: {', '.join(differ)} differ; run the same "
            "protocol, parameters and seed on an embedding file and a pixel file of one source and "
            "split"
        )
    if frozen.features == full.features:
        raise UserError(
            "these two runs are on the same features; one must be on embeddings, one on images"
        )


def bridge(rows: Sequence[Row]) -> Bridge:
    """Pair the learners of some rows; fractions, bytes, seconds, joules.

    Raises
    ------
    UserError
        No two of them make a pair; the message says why.
    """
    rows = [row for row in rows if row.learns]
    sides: dict[bool, list[Row]] = {on: [] for on in SIDES}
    for row in rows:  # early records do not say what they are on: embeddings
        sides[any(f.kind == PIXELS for f in row.group.first.files)].append(row)
    tables: dict[tuple[int, int], tuple[Group, Group, list[BridgedLearner]]] = {}
    why: dict[int, str] = {}  # id of a row → the reason why it has no partner
    paired: set[int] = set()
    for frozen, full in itertools.product(*sides.values()):
        if frozen.learner != full.learner:
            continue
        try:
            entry = _entry(frozen, full)
        except UserError as e:
            why[id(frozen)] = f"with {full.group.title}: {e}"
            why[id(full)] = f"with {frozen.group.title}: {e}"
            continue
        paired |= {id(frozen), id(full)}
        key = id(frozen.group), id(full.group)
        tables.setdefault(key, (frozen.group, full.group, []))[2].append(entry)
    alone = tuple(
        Alone(
            learner=row.label,
            title=row.group.title,
            on=SIDES[on],
            why=why.get(id(row), f"no run of {row.learner} on {SIDES[not on]}"),
        )
        for on, there in sides.items()
        for row in there
        if id(row) not in paired
    )
    if not tables:
        listed = [f"{a.learner} ({a.title}): {a.why}" for a in alone]
        more = f" (rows without a partner: {len(listed)})" if listed[1:] else ""
        raise UserError(
            "expected runs of one learner on an embedding file and on the pixel file of the same "
            f"source, found no such pair: {listed[0] if listed else 'no learner learned'}{more}"
        )
    return Bridge(SCHEMA, tuple(_stream(*table) for table in tables.values()), alone)


def _stream(frozen: Group, full: Group, entries: Sequence[BridgedLearner]) -> BridgedStream:
    """The table of one stream; metrics that no learner has are left out."""
    known = {k for e in entries for k, both in e.metrics.items() if not math.isnan(both.gap.mean)}
    defined = [name for name in (*METRICS, *CURVES) if name in known]
    learners = (replace(e, metrics={name: e.metrics[name] for name in defined}) for e in entries)
    return BridgedStream(
        title=f"{frozen.title} → {', '.join(full.file_names)}",
        score=frozen.first.score,
        ideal={"frozen": tuple(frozen.ideals), "full": tuple(full.ideals)},
        devices={"frozen": _devices(frozen), "full": _devices(full)},
        learners=tuple(learners),
    )


def _devices(group: Group) -> tuple[str, ...]:
    return tuple(sorted({str(r.environment.get("device")) for r in group.records}))


def _pairs(frozen: Row, full: Row) -> list[tuple[RunRecord, RunRecord]]:
    """Pairs of runs with the same four seeds; each pair is checked."""
    presets = [row.group.first.reference.preset for row in (frozen, full)]
    if presets[0] != presets[1]:
        raise UserError(f"Ω of the two runs is normalised differently: {' and '.join(presets)}")
    partners = {r.seeds: r for r in full.used}
    pairs = [(r, partners[r.seeds]) for r in frozen.used if r.seeds in partners]
    for a, b in pairs:
        try:
            check_one_stream(a.digests, b.digests)
        except UserError as e:
            raise UserError(f"{e}{PERMUTED if a.protocol == 'permutation' else ''}") from None
    if not pairs:
        raise UserError("these two share no seeds; run both with the same --seeds")
    return pairs


def _entry(frozen: Row, full: Row) -> BridgedLearner:
    """One learner: scores and costs of its paired runs, on embeddings and on images."""
    pairs = _pairs(frozen, full)

    def sides(name: str) -> Sides:
        return Sides.of([(run_value(a, name), run_value(b, name)) for a, b in pairs])

    metrics = {name: sides(name) for name in (*METRICS, *CURVES)}
    seconds = sides("seconds.learn")
    hours = seconds.full.mean / 3600
    return BridgedLearner(
        learner=" → ".join(dict.fromkeys([frozen.label, full.label])),
        trunk=full.params.get("trunk"),
        n=len(pairs),
        unpaired=len(frozen.records) + len(full.records) - 2 * len(pairs),
        metrics=metrics,
        bytes=sides("bytes.total"),
        learn_seconds=seconds,
        learn_joules=sides("joules.learn"),
        gap_per_hour=metrics[FINAL].gap.mean / hours if hours else math.nan,
    )


# --- as text ---

BRIDGE_REMARKS = (
    "embeddings → images (gap: images less embeddings, mean over runs of equal seeds"
    " ± half-width of its 95 % interval) · RAA, RAF, gAcc: means over sessions",
    "Ω is a share of each side's own offline score · points/h: gap of the final score over hours "
    "of learning on images",
)


def bridge_parts(bridge: Bridge) -> list[Text | Table]:
    """All streams of a bridge, and the rows without a partner."""
    parts: list[Text | Table] = []
    for stream in bridge.streams:
        names = [*stream.learners[0].metrics, "bytes.total", "seconds.learn"]
        names += ["joules.learn"] if stream.has_joules else []
        heads = ["learner", "trunk", "n", *map(heading, names), "points/h"]
        table = new_table(heads, names=2)
        for entry in stream.learners:
            costs = (entry.bytes, entry.learn_seconds, entry.learn_joules)
            cells = [entry.learner, entry.trunk or "–", str(entry.n)]
            cells += map(_sides_text, (*entry.metrics.values(), *costs), names)
            table.add_row(*map(line, [*cells, value_text(entry.gap_per_hour, FINAL)]))
        parts += [*section(stream.title, _facts(stream), table), line("")]
    alone = [f"no pair: {a.learner} ({a.title}, {a.on}): {a.why}" for a in bridge.alone]
    return [*parts, *map(line, (*BRIDGE_REMARKS, *([""] if alone else []), *alone))]


def _sides_text(sides: Sides, name: str) -> str:
    """A value on embeddings, on images, and of a score the gap with its interval."""
    text = f"{value_text(sides.frozen.mean, name)} → {value_text(sides.full.mean, name)}"
    return text if is_cost(name) else f"{text} ({stat_text(sides.gap, name)})"


def _facts(stream: BridgedStream) -> list[str]:
    """How the two sides of one stream were measured, and on which devices."""
    facts = [SCORE_NAMES.get(stream.score, stream.score)]
    if all(stream.ideal.values()):
        sides = (", ".join(value_text(v, FINAL) for v in side) for side in stream.ideal.values())
        facts.append(f"offline (α_ideal): {' → '.join(sides)} %")
    facts.append(" → ".join(dict.fromkeys(", ".join(names) for names in stream.devices.values())))
    if stream.has_joules:
        facts.append("J: of the whole card, with all that ran there")
    return facts
