"""The pages of a board: an index, one a stream, one of unranked runs, and all numbers as JSON.

They load nothing and need no server. Whatever comes from a pack is escaped.
"""

import json
import math
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.reports.compare_learners import TableVerdicts, describe_verdicts
from embedbench.reports.comparison_tables import allowed_ranks
from embedbench.reports.headings_and_units import heading, value_text
from embedbench.reports.html_page import page
from embedbench.reports.terminal_tables import behind_text
from embedbench.scores.run_record import FINAL
from embedbench.storage.atomic_write import write_safely

from .board import COSTS, METRICS, Board, BoardStream, Entry, is_comparable

INDEX, UNRANKED, DATA = "index.html", "unranked.html", "board.json"
NOTHING = {"text": "–", "half": "", "sort": "", "rank": "–", "first": ""}
MEANINGS = {
    FINAL: "final accuracy",
    "omega_all": "mean accuracy after each session as a share of the offline score",
    "raa": "accuracy against guessing, mean over the sessions",
    "gacc": "generalised accuracy, mean over the sessions",
    "memory": "memory that the learner holds after the last session",
    "seconds": "time of learning on the submitter's machine",
}


def write_board(board: Board, site: Path, *, overwrite: bool = False) -> list[Path]:
    """Write the pages to a directory, and return their paths, the index first.

    Pages of streams that an earlier board had and this one has not are removed.
    """
    check_site(site, overwrite)
    try:
        site.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(f"cannot make the directory {site} ({e.strerror})") from e
    texts = {
        INDEX: _page("board", board, ranked=sum(one.ranked for one in board.submissions)),
        UNRANKED: _page("board_unranked", board),
        DATA: json.dumps(board.to_json(), indent=1) + "\n",
    }
    texts |= {stream.page: _stream_page(stream, board) for stream in board.streams}
    for old in site.glob("stream-*.html"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        write_safely(site / name, text)
    return [site / name for name in texts]


def check_site(site: Path, overwrite: bool) -> None:
    """Refuse a directory that holds something else than an earlier board."""
    if site.exists() and not site.is_dir():
        raise UserError(f"{site} is a file; --site takes a directory for the pages")
    there = {path.name for path in site.iterdir()} if site.is_dir() else set()
    if there and DATA not in there:
        raise UserError(f"{site} holds other files and no board; give --site a new directory")
    if there and not overwrite:
        raise UserError(f"{site} holds a board already; add --overwrite or name another directory")


def _page(template: str, board: Board, **values: Any) -> str:
    return page(
        f"{template}.html.j2",
        board=board,
        unranked=sum(len(one.unranked) for one in board.submissions),
        final_text=lambda value: value_text(value, FINAL),
        level_with_best=lambda learned: [
            e.label for e in learned[1:] if FINAL in e.verdicts and not e.verdicts[FINAL].behind
        ],
        cell=_cell,
        **values,
    )


def _stream_page(stream: BoardStream, board: Board) -> str:
    verdicts = [entry.verdicts.get(FINAL) for entry in stream.entries]
    judged = TableVerdicts(verdicts, stream.units.get(FINAL, "seeds"), stream.groups)
    return _page(
        "board_stream",
        board,
        stream=stream,
        columns=[
            (name, heading(COSTS.get(name, name)), MEANINGS[name])
            for name in METRICS
            if not all(math.isnan(entry.metrics[name].mean) for entry in stream.entries)
        ],
        is_comparable=is_comparable,
        nothing=NOTHING,
        behind_text=behind_text,
        bounds=describe_verdicts(judged),
        params=json.dumps(stream.to_json()["protocol_params"], indent=1, ensure_ascii=False),
    )


def _cell(entry: Entry, name: str) -> dict[str, Any]:
    """One number: its text, its interval, its rank, and what its column is sorted by."""
    stat, verdict, named = entry.metrics[name], entry.verdicts.get(name), COSTS.get(name, name)
    return {
        "text": value_text(stat.mean, named),
        "half": "" if math.isnan(stat.half) else value_text(stat.half, named),
        "sort": "" if math.isnan(stat.mean) else repr(stat.mean),
        "rank": "–" if verdict is None else allowed_ranks(verdict),
        "first": "" if verdict is None else verdict.rank,
    }
