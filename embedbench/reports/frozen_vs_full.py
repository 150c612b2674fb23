"""The frozen-to-full bridge: one stream, run on embeddings and on the images behind them.

`report --bridge` pairs the rows of a report by learner, and the runs of these rows by their four
seeds. All numbers of a row are over these pairs; the gap is images minus embeddings.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from embedbench.errors import UserError
from embedbench.files.hdf5_layout import PIXELS
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.metric_jackknife import CURVES
from embedbench.scores.run_record import FINAL, Digests, RunRecord
from embedbench.text.terminal_text import line, new_table

from .comparison_tables import section
from .headings_and_units import heading, is_cost, stat_text, value_text
from .result_rows import SCORE_NAMES, Group, Row, run_value

SCHEMA = "embedbench-bridge/1.0"
METRICS = ("omega_all", FINAL, "average_accuracy", "average_forgetting")
COSTS = {
    "bytes": "bytes.total",
    "learn_seconds": "seconds.learn",
    "learn_joules": "joules.learn",
}
SIDES = {False: "embeddings", True: "images"}
# Digests that two runs of one stream share, on embeddings or on images: how the stream is made,
# which samples are trained on in each session, and which are tested.
SHARED = {"recipe": "protocol or its parameters", "train": "training data", "eval": "test data"}
PERMUTED = (
    ". Columns of embeddings are not permuted as pixels are: on a permutation stream the embedding "
    "file must hold the pixels, extract --backbone pixels"
)
REMARKS = (
    "embeddings → images (gap: images less embeddings, mean over runs of equal seeds"
    " ± half-width of its 95 % interval) · RAA, RAF, gAcc: means over sessions",
    "Ω is a share of each side's own offline score · points/h: gap of the final score over hours "
    "of learning on images",
)
Sides = dict[str, Stat]  # frozen, full, gap


def check_one_stream(frozen: Digests, full: Digests, hint: str = "") -> None:
    """Refuse two runs, by the digests of their streams, unless they are of one stream."""
    differ = [what for key, what in SHARED.items() if getattr(frozen, key) != getattr(full, key)]
    if differ:
        raise UserError(
            f"these two runs are not of one stream: {', '.join(differ)} differ; run the same "
            "protocol, parameters and seed on an embedding file and a pixel file of one source and "
            f"split{hint}"
        )
    if frozen.features == full.features:
        raise UserError(
            "these two runs are on the same features; one must be on embeddings, one on images"
            + hint
        )


def bridge(rows: Sequence[Row]) -> dict[str, Any]:
    """Pair the learners of some rows; fractions, bytes, seconds, joules.

    The result has `schema`, `streams` and `alone`, the rows without a partner: `learner`, `title`
    of the table, `on` `embeddings` or `images`, and `why`. A stream has `title`, `score`, `ideal`
    (`frozen`, `full` → α_ideal), `devices` likewise, and `learners`: `learner`; `trunk`, the
    network on images; `n` pairs of runs with the same four seeds, and `unpaired` runs; `metrics`,
    of the curves `raa`, `raf` and `gacc` the means over the sessions; `bytes`, `learn_seconds` and
    `learn_joules` (null where one side has none); and `gap_per_hour`, the gap of the final score
    divided by the hours of learning on images. Each number has `frozen`, `full` and `gap`, full
    minus frozen, with a mean, `half_95`, `sd` and `values`, one a pair.
    """
    sides: dict[bool, list[Row]] = {on: [] for on in SIDES}
    for row in rows:  # early records do not say what they are on: embeddings
        if row.learns:
            sides[any(f.kind == PIXELS for f in row.group.first.files)].append(row)
    streams: dict[tuple[int, int], dict[str, Any]] = {}
    why: dict[int, str] = {}  # id of a row → the reason why it has no partner
    paired: set[int] = set()
    for frozen, full in itertools.product(*sides.values()):
        if frozen.learner != full.learner:
            continue
        try:
            entry = _pair_rows(frozen, full)
        except UserError as e:
            why[id(frozen)] = f"with {full.group.title}: {e}"
            why[id(full)] = f"with {frozen.group.title}: {e}"
            continue
        paired |= {id(frozen), id(full)}
        stream = _stream(frozen.group, full.group)
        key = id(frozen.group), id(full.group)
        streams.setdefault(key, stream)["learners"].append(entry)
    alone = [
        {
            "learner": row.label,
            "title": row.group.title,
            "on": SIDES[on],
            "why": why.get(id(row), f"no run of {row.learner} on {SIDES[not on]}"),
        }
        for on, there in sides.items()
        for row in there
        if id(row) not in paired
    ]
    if not streams:
        listed = [f"{a['learner']} ({a['title']}): {a['why']}" for a in alone]
        more = f" (rows without a partner: {len(listed)})" if listed[1:] else ""
        raise UserError(
            "expected runs of one learner on an embedding file and on the pixel file of the same "
            f"source, found no such pair: {listed[0] if listed else 'no learner learned'}{more}"
        )
    for learners in (stream["learners"] for stream in streams.values()):
        for name in (*METRICS, *CURVES):
            if all(math.isnan(entry["metrics"][name]["gap"].mean) for entry in learners):
                for entry in learners:  # none of the stream has it
                    del entry["metrics"][name]
    return {"schema": SCHEMA, "streams": list(streams.values()), "alone": alone}


def _stream(frozen: Group, full: Group) -> dict[str, Any]:
    both = {"frozen": frozen, "full": full}
    return {
        "title": f"{frozen.title} → {', '.join(full.file_names)}",
        "score": frozen.first.score,
        "ideal": {side: group.ideals for side, group in both.items()},
        "devices": {
            side: sorted({str(r.environment.get("device")) for r in group.records})
            for side, group in both.items()
        },
        "learners": [],
    }


def _pairs(frozen: Row, full: Row) -> list[tuple[RunRecord, RunRecord]]:
    """Pairs of runs with the same four seeds; each pair is checked."""
    presets = [row.group.first.reference.preset for row in (frozen, full)]
    if presets[0] != presets[1]:
        raise UserError(f"Ω of the two runs is normalised differently: {' and '.join(presets)}")
    partners = {r.seeds: r for r in full.used}
    pairs = [(r, partners[r.seeds]) for r in frozen.used if r.seeds in partners]
    for a, b in pairs:
        check_one_stream(a.digests, b.digests, PERMUTED * (a.protocol == "permutation"))
    if not pairs:
        raise UserError("these two share no seeds; run both with the same --seeds")
    return pairs


def _pair_rows(frozen: Row, full: Row) -> dict[str, Any]:
    """One learner: scores and costs of its paired runs, on embeddings and on images."""
    pairs = _pairs(frozen, full)

    def sides(name: str) -> Sides:
        values = [(run_value(a, name), run_value(b, name)) for a, b in pairs]
        a, b = (Stat.of(side) for side in zip(*values, strict=True))
        return {"frozen": a, "full": b, "gap": Stat.of(b - a for a, b in values)}

    metrics = {name: sides(name) for name in (*METRICS, *CURVES)}
    hours = sides("seconds.learn")["full"].mean / 3600
    return {
        "learner": " → ".join(dict.fromkeys([frozen.label, full.label])),
        "trunk": full.params.get("trunk"),
        "n": len(pairs),
        "unpaired": len(frozen.records) + len(full.records) - 2 * len(pairs),
        "metrics": metrics,
        **{key: sides(name) for key, name in COSTS.items()},
        "gap_per_hour": metrics[FINAL]["gap"].mean / hours if hours else math.nan,
    }


# --- as text ---


def bridge_parts(data: dict[str, Any]) -> list[Text | Table]:
    """All streams of a bridge, and the rows without a partner."""
    parts: list[Text | Table] = []
    for stream in data["streams"]:
        learners, costs = stream["learners"], dict(COSTS)
        if all(math.isnan(entry["learn_joules"]["gap"].mean) for entry in learners):
            del costs["learn_joules"]
        names = [*learners[0]["metrics"], *costs.values()]
        heads = ["learner", "trunk", "n", *map(heading, names), "points/h"]
        table = new_table(heads, names=2)
        for entry in learners:
            cells = [entry["learner"], entry["trunk"] or "–", str(entry["n"])]
            numbers = [*entry["metrics"].values(), *(entry[key] for key in costs)]
            cells += map(_sides_text, numbers, names)
            table.add_row(*map(line, [*cells, value_text(entry["gap_per_hour"], FINAL)]))
        facts = _facts(stream)
        facts += ["J: of the whole card, with all that ran there"] * ("learn_joules" in costs)
        parts += [*section(stream["title"], facts, table), line("")]
    alone = [
        f"no pair: {a['learner']} ({a['title']}, {a['on']}): {a['why']}" for a in data["alone"]
    ]
    return [*parts, *map(line, (*REMARKS, *([""] if alone else []), *alone))]


def _sides_text(sides: Sides, name: str) -> str:
    """A value on embeddings, on images, and of a score the gap with its interval."""
    text = f"{value_text(sides['frozen'].mean, name)} → {value_text(sides['full'].mean, name)}"
    return text if is_cost(name) else f"{text} ({stat_text(sides['gap'], name)})"


def _facts(stream: dict[str, Any]) -> list[str]:
    facts = [SCORE_NAMES.get(stream["score"], stream["score"])]
    if all(stream["ideal"].values()):
        ideals = (
            ", ".join(value_text(v, FINAL) for v in side) for side in stream["ideal"].values()
        )
        facts.append(f"offline (α_ideal): {' → '.join(ideals)} %")
    devices = dict.fromkeys(", ".join(names) for names in stream["devices"].values())
    return [*facts, " → ".join(devices)]
