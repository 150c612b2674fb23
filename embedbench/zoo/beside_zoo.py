"""`embedbench report --beside zoo`: published rows beside the tables of runs.

A verdict is given only where images, split, stream, checkpoint and method agree; elsewhere the line
says what does not.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote.fetch import origin
from embedbench.files.remote.names_here import find_here
from embedbench.files.remote.uri import Name
from embedbench.reports.result_rows import Row, split_tables
from embedbench.reports.table_metric import USUAL
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import format_signed
from embedbench.scores.run_record import FileInfo, RunRecord
from embedbench.system.callback_types import Notify
from embedbench.text.table_export import TITLE, make_table
from embedbench.text.terminal_text import line

from . import zoo_entries
from .zoo_entries import UNKNOWN, PublishedRow

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

LEAST_RUNS = 3  # of a row, for a prediction interval


def beside_parts(rows: Sequence[dict[str, str]]) -> "list[Text | Table]":
    """Published rows as a table below each table of runs, and where each is printed."""
    parts: list[Text | Table] = []
    places = list(dict.fromkeys(row["where"] for row in rows))
    tables: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        cells = {key: row[key] for key in ("published", "stream", "last", "avg", "ours", "verdict")}
        cells["read in"] = f"[{places.index(row['where']) + 1}]"
        tables.setdefault(row["table"], []).append(cells)
    for title, listed in tables.items():
        parts += [line(f"Published rows beside {title}", TITLE), make_table(listed)]
    parts += map(line, _describe_spreads(rows))
    parts += [line(f"[{number}] {where}") for number, where in enumerate(places, 1)]
    return parts


def _describe_spreads(rows: Sequence[dict[str, str]]) -> list[str]:
    """Say of which printed tables no difference can be called decided, as they have no spread."""
    places = dict.fromkeys(row["printed in"] for row in rows)
    without = [
        place
        for place in places
        if not any("±" in row["last"] for row in rows if row["printed in"] == place)
    ]
    if not without:
        return []
    return [f"no spread is printed: no difference can be called decided in {'; '.join(without)}"]


def rows_beside(rows: Sequence[Row], notify: Notify) -> list[dict[str, str]]:
    """The published rows for the data of each table of a report.

    Each has percent as printed, ours, and what may be said; `where` is its place in the paper, and
    the stored text that it was read from.
    `notify` is called with a sentence for each table that nothing can stand beside: its file is not
    found, its data are not in the zoo, or the zoo has no rows for them.
    """
    result: list[dict[str, str]] = []
    for mine in split_tables(rows):
        record = mine[0].group.first
        try:
            file = find_file(record, mine[0].place)
            name = match_data(file)
        except UserError as error:
            notify(f"{mine[0].group.title}: no published rows: {error}")
            continue
        published = [p for p in zoo_entries.read_zoo().published if p.data == name]
        if not published:
            notify(f"{mine[0].group.title}: the zoo has no published rows for {name}")
        result += [_beside(p, mine, find_reason(p, file, record)) for p in published]
    return result


def match_data(file: EmbeddingFile) -> str:
    """The zoo's name for the data of a file, by its class list."""
    digest = zoo_entries.class_list_digest(file.classes[: file.samples.n_leaves])
    for name, data in zoo_entries.read_zoo().data.items():
        if data.sha256 == digest:
            return name
    raise UserError(f"the class list of {file.path.name} is of no data set of the zoo")


def find_file(record: RunRecord, place: Path | None) -> EmbeddingFile:
    """The embedding file of a run, by the name, the address and the content in its record.

    It is looked for where it was fetched to, in the working directory, and beside the runs;
    `place` is the directory of those of its learner.
    """
    info = record.files[0]
    folders = [Path(), *(place.resolve().parents[:3] if place else ())]
    fetched = [] if info.url is None else [_fetched(info)]
    for path in [*fetched, *(folder / info.name for folder in folders)]:
        if path is not None and path.is_file():
            with suppress(UserError):  # another file of this name
                file = EmbeddingFile.open(path)
                if file.digests["content"] == info.digests.get("content"):
                    return file
    raise UserError(f"{info.name} is not here", "run the report where the file lies")


def _fetched(info: FileInfo) -> Path | None:
    """Where a file lies that a run fetched by its address; None if it is not there now."""
    name = info.url or ""
    if info.sha256 and not info.commit:
        name = str(Name(name, info.sha256))
    try:
        made = origin(name)
        return find_here(name) if made is None else Path(made.path)
    except (UserError, OSError):
        return None


def find_reason(row: PublishedRow, file: EmbeddingFile, record: RunRecord) -> str:
    """The first reason against a verdict on a published row and runs on a file; "" if none."""
    data = zoo_entries.read_zoo().data[row.data]
    if not zoo_entries.has_images(data, file):
        return "other images"
    official = file.provenance.get("split", {}).get("rule") == "official"
    if not official or zoo_entries.find_split(data, file) != row.split:
        return f"other split, theirs is {row.split}"
    if row.apart:
        return row.apart
    stream = zoo_entries.read_zoo().streams[row.stream]
    if record.protocol != stream.protocol or not _has(record.protocol_params, stream.set):
        return f"other stream, theirs is {row.stream}"
    if row.backbone == UNKNOWN:
        return "their checkpoint is not known"
    backbone = zoo_entries.read_zoo().get_backbone(row.backbone)
    return zoo_entries.backbone_misfit(backbone, file)


def _beside(row: PublishedRow, mine: Sequence[Row], reason: str) -> dict[str, str]:
    same = [r for r in mine if r.learner == row.learner and _has(r.params, row.settings)]
    stream = zoo_entries.read_zoo().streams[row.stream]
    ours = same[0].number(stream.metric or USUAL) if same else None  # as the published one
    if reason:
        verdict = f"{reason}: no verdict"
    elif ours is None or math.isnan(ours.mean):
        verdict = "no run of this method: no verdict"
    else:
        verdict = "; ".join(filter(None, [judge(row, ours), row.remark]))
    return {
        "table": mine[0].group.title,
        "published": f"{row.method}, {row.row}",
        "stream": row.stream,
        "last": f"{row.last} ± {row.sd}" if row.sd else row.last,
        "avg": f"{row.avg} ± {row.avg_sd}" if row.avg_sd else row.avg,
        "ours": f"{100 * ours.mean:.2f}" if ours is not None else "",
        "verdict": verdict,
        "printed in": f"{row.paper}, {row.table}",
        "where": f"{row.paper}; {row.table}; {row.column}; {row.source}",
    }


def judge(row: PublishedRow, ours: Stat) -> str:
    """Say how far ours lies from a printed final accuracy, and whether that is plausible.

    Plausible: within `Stat.prediction_half` of a mean of their runs, and half a unit of the last
    printed digit; only from `LEAST_RUNS` runs that differ.
    """
    away = 100 * ours.mean - float(row.last)
    said = f"{'+' if away > 0 else ''}{format_signed(away, 2)} points"
    if ours.n < LEAST_RUNS or ours.sd == 0 or not row.seeds.isdecimal():
        return said
    half = 100 * ours.prediction_half(int(row.seeds))
    digits = len(row.last.partition(".")[2])
    plausible = abs(away) <= half + 0.5 * 10**-digits
    return f"{said}, {'plausible' if plausible else 'not plausible'} as one of ours (± {half:.2f})"


def _has(params: dict[str, Any], settings: dict[str, str]) -> bool:
    return all(str(params.get(key)) == value for key, value in settings.items())
