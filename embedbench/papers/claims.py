"""The claims of the papers, read from `claims.toml`, and the cells of results that they are about.

A claim names a table of `reproduce` and the labels of its rows. Here the tables of many files of
results become cells, and the cells of one side of a contrast are chosen.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError

from .paper_table import EXACT, Value
from .result_files import Results

Names = str | Sequence[str]
Runs = dict[int | str, float]  # a value for each seed, or for each run of one source
PRINTED = "printed"  # the file of what is checked on printed numbers
LAST = "last"  # as a label: the largest number


@dataclass(frozen=True)
class ClaimPart:
    """Contrasts of a claim; `claims.toml` says what the fields mean."""

    table: str
    column: Names
    where: Mapping[str, Names] = field(default_factory=dict)
    since: str = ""
    pool: str = ""
    by: str = "mean"
    minus: Mapping[str, Any] | None = None
    times: float = 1.0
    above: float | None = None
    below: float | None = None
    within: float = 0.0
    around: float = 0.0
    printed: bool = False
    paired: bool = True
    exact: bool = False
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Claim:
    """One claim of a paper; `claims.toml` says what the fields mean."""

    id: str
    paper: str
    says: str
    place: str
    test: str
    threshold: str
    theirs: Sequence[str]
    ours: Sequence[str]
    known: frozenset[str]  # the files that the claim or its paper lists, in lower case
    command: Sequence[str]
    unit: str
    after_look: bool = False
    arithmetic: bool = False
    one: bool = False
    needs: str = ""
    fitted: Sequence[str] = ()
    parts: Sequence[ClaimPart] = ()


FILES = ("theirs", "ours")


@cache
def _load() -> tuple[dict[str, Any], list[Claim]]:
    """The papers with what their claims share, and the claims."""
    data = tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf-8"))
    claims = []
    for given in data["claims"]:
        shared = {k: v for k, v in data["papers"][given["paper"]].items() if k != "commands"}
        lists = (of[key] for of in (shared, given) for key in FILES if key in of)
        known = frozenset(file.lower() for files in lists for file in files)
        parts = [ClaimPart(**part) for part in given.get("parts", ())]
        claims.append(Claim(**{**shared, **given, "known": known, "parts": parts}))
    return data["papers"], claims


def load_claims(paper: str) -> list[Claim]:
    """Return the claims of a paper that ship with the package."""
    return [claim for claim in _load()[1] if claim.paper == paper]


def load_commands() -> dict[str, dict[str, str]]:
    """Return the commands behind the claims by name, by paper; every paper with claims has some."""
    return {name: shared["commands"] for name, shared in _load()[0].items()}


# --- cells ---


@dataclass(frozen=True)
class Cell:
    """Our values in one cell of a table; the name of the data is not among the labels."""

    file: str
    table: str
    labels: dict[str, str]
    column: str
    runs: Runs
    value: Value


def collect_cells(sources: Mapping[str, Results]) -> list[Cell]:
    """The cells of all tables; runs of one cell in several sources are joined by seed."""
    cells: dict[Any, Cell] = {}
    for name, results in sources.items():
        for cell in _cells(name, results):
            key = (cell.file, cell.table, tuple(cell.labels.items()), cell.column)
            cells[key] = _join(cells[key], cell, name) if key in cells else cell
    return list(cells.values())


def _join(a: Cell, b: Cell, source: str) -> Cell:
    """The runs of both if they have seeds; else those of the one that has more."""
    if not all(isinstance(key, int) for key in (*a.runs, *b.runs)):
        return max(a, b, key=lambda cell: len(cell.runs))
    both = a.runs.keys() & b.runs.keys()
    if any(not math.isclose(a.runs[k], b.runs[k], abs_tol=1e-9) for k in both):
        raise UserError(
            f"expected one value of each seed in a cell, got another one in {source}: table "
            f"{a.table}, {a.file}, {a.column}",
            "judge these results apart",
        )
    return replace(a, runs=a.runs | b.runs)


def _cells(source: str, results: Results) -> Iterator[Cell]:
    stems = [file.name.rpartition(".")[0] for file in results.files]
    for table, row in ((of, row) for of in results.tables for row in of.rows):
        all_labels = dict(zip(table.heads[: table.named], row.labels, strict=False))
        labels = {head: text for head, text in all_labels.items() if head != "data"}
        base, _, file = table.name.partition(" · ")
        if not file and "data" in all_labels:  # "emoji" of "emoji for CUB-200"
            both = all_labels["data"].split(" / ")
            file = " / ".join(part.partition(" for ")[0] for part in both)
        file = file or (stems[0] if len(stems) == 1 else PRINTED)
        for column, value in row.values.items():
            if value.ours is not None:
                values = value.ours.values
                places = [f"{source}, {i} of {len(values)}" for i in range(len(values))]
                keys = results.seeds if len(values) == len(results.seeds) else places
                runs: Runs = dict(zip(keys, values, strict=True))
                yield Cell(file, base, labels, column, runs, value)
            if value.made == EXACT and (printed := value.corrected) is not None:
                yield Cell(PRINTED, base, all_labels, column, {PRINTED: printed}, value)


def choose_cells(cells: Sequence[Cell], file: str, part: ClaimPart) -> list[Cell]:
    """The cells of one side of a contrast on a file, after `since` and `pool`.

    `part` has one column, and one name for each label.
    """
    here = [cell for cell in cells if _fits(cell, file, part)]
    chosen = [cell for cell in here if cell.column == part.column]
    for head in (head for head, want in part.where.items() if want == LAST):
        last = max((int(cell.labels[head]) for cell in chosen), default=0)
        chosen = [cell for cell in chosen if int(cell.labels[head]) == last]
    if part.since:
        start = {(*cell.labels.items(),): cell.runs for cell in here if cell.column == part.since}
        chosen = [
            replace(cell, runs={k: v - first[k] for k, v in cell.runs.items() if k in first})
            for cell in chosen
            if (first := start.get((*cell.labels.items(),))) is not None
        ]
    if not part.pool:
        return chosen
    groups: dict[Any, list[Cell]] = {}
    for cell in chosen:
        labels = {head: text for head, text in cell.labels.items() if head != part.pool}
        groups.setdefault((*labels.items(),), []).append(replace(cell, labels=labels))
    return [replace(group[0], runs=_pool(group, part.by)) for group in groups.values()]


def _fits(cell: Cell, file: str, part: ClaimPart) -> bool:
    """Whether a cell is on the file, in a row of the part."""
    return (cell.file.lower(), cell.table) == (file.lower(), part.table) and all(
        head in cell.labels
        and (want == LAST or any(fnmatchcase(cell.labels[head], p) for p in str(want).split("|")))
        for head, want in part.where.items()
    )


def _pool(cells: Sequence[Cell], by: str) -> Runs:
    """Mean or sd over cells for each run; a cell that lacks a run of the fullest is left out."""
    keys = max((cell.runs.keys() for cell in cells), key=len)
    full = [cell.runs for cell in cells if cell.runs.keys() >= keys]
    if by == "sd" and len(full) < 2:
        return {}
    pool = np.mean if by == "mean" else partial(np.std, ddof=1)
    return {k: float(pool([runs[k] for runs in full])) for k in keys}
