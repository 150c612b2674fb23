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
from embedbench.scores.run_record import FINAL
from embedbench.text.terminal_text import line, new_table

from .comparison_tables import section
from .headings_and_units import heading, is_cost, stat_text, value_text
from .measurement_words import count_text
from .result_rows import Row
from .results import Pairs, Result

SCHEMA = "embedbench-bridge/1.0"
METRICS = ("omega_all", FINAL, "average_accuracy", "average_forgetting", *CURVES)
COSTS = ("bytes.total", "seconds.learn")
SIDES = {False: "embeddings", True: "images"}
NO_PAIR = (
    "no pair, which takes one learner on an embedding file (for permutation: of --backbone pixels) "
    "and on a pixel file of one source and split, with the same protocol, parameters and seeds"
)
REMARKS = (
    "embeddings → images (gap: images less embeddings, mean over runs of equal seeds"
    " ± half-width of its 95 % interval) · RAA, RAF: after the last session"
    " · gAcc: mean over sessions",
    "Ω is a share of each side's own offline score",
)
Sides = dict[str, Stat]  # frozen, full, gap


def bridge(rows: Sequence[Row]) -> dict[str, Any]:
    """Pair the learners of some rows; fractions, bytes, seconds.

    The result has `schema`, `streams` and `alone`, the rows without a partner. A stream has
    `title`, `score` (the base score of all values) and `learners`: `learner`; `trunk`, the network
    on images; `n` pairs of runs with the same four seeds, and how many `measurements` they are; and
    `values` by the names of `run_value`, without those that no pair of the stream has: `frozen`,
    `full` and `gap`, full minus frozen, each with a mean, `half_95`, `sd` and `values`, one a
    measurement.
    """
    sides: dict[bool, list[Row]] = {on: [] for on in SIDES}
    for row in rows:  # early records do not say what they are on: embeddings
        if row.learns:
            sides[any(f.kind == PIXELS for f in row.group.first.files)].append(row)
    streams: dict[str, list[dict[str, Any]]] = {}
    scores: dict[str, str] = {}
    paired: set[int] = set()
    for frozen, full in itertools.product(*sides.values()):
        if frozen.group.score != full.group.score:
            continue  # of a table each
        pairs = frozen.results.pair(full.results, by=_key)
        if pairs.rows:
            paired |= {id(frozen), id(full)}
            title = f"{frozen.group.title} → {', '.join(full.group.file_names)}"
            scores[title] = frozen.group.score
            streams.setdefault(title, []).append(_pair_rows(frozen, full, pairs))
    alone = []
    for on, there in sides.items():
        for row in there:
            if id(row) not in paired:
                alone.append(f"{row.label} ({row.group.title}, {SIDES[on]})")
    if not streams:
        raise UserError(f"{NO_PAIR}; got {', '.join(alone) or 'no learner that learns'}")
    for learners in streams.values():
        for name in (*METRICS, *COSTS):
            if all(math.isnan(entry["values"][name]["gap"].mean) for entry in learners):
                for entry in learners:
                    del entry["values"][name]
    each = [
        {"title": title, "score": scores[title], "learners": learners}
        for title, learners in streams.items()
    ]
    return {"schema": SCHEMA, "streams": each, "alone": alone}


def _key(result: Result) -> tuple[Any, ...]:
    """What two runs of a pair have in common: also how Ω is normalised."""
    run = result.record
    if run is None:
        return ()
    digests = run.digests.recipe, run.digests.train, run.digests.eval
    return run.learner, *digests, run.seeds, run.reference.preset


def _pair_rows(frozen: Row, full: Row, pairs: Pairs) -> dict[str, Any]:
    """One learner: scores and costs of its paired runs, on embeddings and on images."""
    _, _, gap = pairs.stats(FINAL)
    return {
        "learner": " → ".join(dict.fromkeys([frozen.label, full.label])),
        "trunk": full.params.get("trunk"),
        "n": len(pairs.rows),
        "measurements": gap.n,
        "values": {
            name: dict(zip(("frozen", "full", "gap"), pairs.stats(name), strict=True))
            for name in (*METRICS, *COSTS)
        },
    }


def bridge_parts(data: dict[str, Any]) -> list[Text | Table]:
    """All streams of a bridge as text, and the rows without a partner."""
    parts: list[Text | Table] = []
    for stream in data["streams"]:
        names = list(stream["learners"][0]["values"])
        titles = [heading(name, stream["score"]) for name in names]
        table = new_table(["learner", "trunk", "n", *titles], names=2)
        for entry in stream["learners"]:
            cells = [
                entry["learner"],
                entry["trunk"] or "–",
                count_text(entry["measurements"], entry["n"]),
            ]
            cells += [_sides_text(sides, name) for name, sides in entry["values"].items()]
            table.add_row(*map(line, cells))
        parts += [*section(stream["title"], [], table), line("")]
    alone = ["", f"{NO_PAIR}: {', '.join(data['alone'])}"] if data["alone"] else []
    return [*parts, *map(line, (*REMARKS, *alone))]


def _sides_text(sides: Sides, name: str) -> str:
    """A value on embeddings, on images, and of a score the gap with its interval."""
    text = f"{value_text(sides['frozen'].mean, name)} → {value_text(sides['full'].mean, name)}"
    return text if is_cost(name) else f"{text} ({stat_text(sides['gap'], name)})"
