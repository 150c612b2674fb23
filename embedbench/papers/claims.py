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
from importlib import resources

import numpy as np

from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.errors import UserError

from .paper_table import EXACT, PaperTable, Value
from .result_files import Results

Names = str | tuple[str, ...]
Labels = tuple[tuple[str, str], ...]
Runs = dict[int | str, float]  # a value for each seed, or for each run of one source
PRINTED = "printed"  # the file of what is checked on printed numbers
LAST = "last"  # as a label: the largest number


@dataclass(frozen=True)
class OtherSide(JsonRecord):
    """What is different in B; `claims.toml` says what the fields mean."""

    table: str = ""
    column: Names = ""
    where: dict[str, Names] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True)
class ClaimPart(JsonRecord):
    """Contrasts of a claim; `claims.toml` says what the fields mean."""

    table: str
    column: Names
    where: dict[str, Names] = field(default_factory=dict)
    since: str = ""
    pool: str = ""
    by: str = "mean"
    minus: OtherSide | None = field(default=None, metadata=ABSENT)
    times: float = 1.0
    above: float | None = field(default=None, metadata=ABSENT)
    below: float | None = field(default=None, metadata=ABSENT)
    within: float | None = field(default=None, metadata=ABSENT)
    around: float = 0.0
    printed: bool = False
    paired: bool = True
    exact: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim(JsonRecord):
    """One claim of a paper; `claims.toml` says what the fields mean."""

    id: str
    paper: str
    says: str
    place: str
    test: str
    threshold: str
    theirs: tuple[str, ...]
    elsewhere: tuple[str, ...]
    ours: tuple[str, ...]
    matters: float
    command: tuple[str, ...]
    after_look: bool = False
    arithmetic: bool = False
    one: bool = False
    needs: str = ""
    fitted: tuple[str, ...] = ()
    parts: tuple[ClaimPart, ...] = ()


@dataclass(frozen=True)
class ClaimedPaper(JsonRecord):
    """What the claims of a paper share; `claims.toml` says what the fields mean."""

    theirs: tuple[str, ...]
    elsewhere: tuple[str, ...]
    ours: tuple[str, ...]
    matters: float
    command: tuple[str, ...]
    unit: str
    commands: dict[str, str]


@dataclass(frozen=True)
class ClaimFile(JsonRecord):
    """The content of `claims.toml`."""

    papers: dict[str, ClaimedPaper]
    claims: tuple[Claim, ...]


@cache
def load_claims() -> ClaimFile:
    """Return the claims that ship with the package; what a claim does not say is its paper's."""
    path = resources.files("embedbench") / "papers" / "claims.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    claims = [data["papers"][claim["paper"]] | claim for claim in data["claims"]]
    return ClaimFile.from_json({**data, "claims": claims}, "claims.toml")


# --- cells ---


@dataclass(frozen=True)
class Cell:
    """Our values in one cell of a table; the name of the data is not among the labels."""

    file: str
    table: str
    labels: Labels
    column: str
    runs: Runs = field(compare=False)
    value: Value = field(compare=False)


def collect_cells(sources: Mapping[str, Results]) -> list[Cell]:
    """The cells of all tables; runs of one cell in several sources are joined by seed."""
    cells: dict[Cell, Cell] = {}
    for name, results in sources.items():
        for cell in _cells(name, results):
            cells[cell] = _join(cells[cell], cell, name) if cell in cells else cell
    return list(cells.values())


def _join(a: Cell, b: Cell, source: str) -> Cell:
    """The runs of both if they have seeds; else those of the one that has more."""
    if not all(isinstance(key, int) for key in (*a.runs, *b.runs)):
        return max(a, b, key=lambda cell: len(cell.runs))
    both = a.runs.keys() & b.runs.keys()
    if any(not math.isclose(a.runs[k], b.runs[k], rel_tol=1e-9, abs_tol=1e-9) for k in both):
        raise UserError(
            f"expected one value of each seed in a cell, got another one in {source}: table "
            f"{a.table}, {a.file}, {a.column}; judge these results apart"
        )
    return replace(a, runs=a.runs | b.runs)


def _cells(source: str, results: Results) -> Iterator[Cell]:
    for table, row in ((of, row) for of in results.tables for row in of.rows):
        named = table.heads if table.named is None else table.heads[: table.named]
        heads = dict(zip(named, row.labels, strict=False))
        file = _file(table, heads, results)
        base = table.name.partition(" · ")[0]
        all_labels = tuple(heads.items())
        labels = tuple(pair for pair in all_labels if pair[0] != "data")
        for column, value in row.values.items():
            if value.ours is not None:
                runs = _runs(source, results.seeds, value.ours.values)
                yield Cell(file, base, labels, column, runs, value)
            if value.made == EXACT and (printed := value.corrected) is not None:
                yield Cell(PRINTED, base, all_labels, column, {PRINTED: printed}, value)


def _file(table: PaperTable, heads: Mapping[str, str], results: Results) -> str:
    """The name of the data: "emoji" of "emoji for CUB-200", of "Losses · emoji", of emoji.h5."""
    if " · " in table.name:
        return table.name.partition(" · ")[2]
    if "data" in heads:
        return " / ".join(part.partition(" for ")[0] for part in heads["data"].split(" / "))
    stems = [file.name.rpartition(".")[0] for file in results.files]
    return stems[0] if len(stems) == 1 else PRINTED


def _runs(source: str, seeds: Sequence[int], values: Sequence[float]) -> Runs:
    """Values by seed; by their place in the source if there is not one for each seed."""
    if len(values) == len(seeds):
        return dict(zip(seeds, values, strict=True))
    return {f"{source}, {i} of {len(values)}": v for i, v in enumerate(values)}


def choose_cells(cells: Sequence[Cell], file: str, part: ClaimPart) -> list[Cell]:
    """The cells of one side of a contrast on a file, after `since` and `pool`.

    `part` has one column, and one name for each label.
    """
    here = [cell for cell in cells if _fits(cell, file, part)]
    chosen = [cell for cell in here if cell.column == part.column]
    for head in (head for head, want in part.where.items() if want == LAST):
        last = max((int(dict(cell.labels)[head]) for cell in chosen), default=0)
        chosen = [cell for cell in chosen if int(dict(cell.labels)[head]) == last]
    if part.since:
        start = {cell.labels: cell.runs for cell in here if cell.column == part.since}
        chosen = [
            replace(cell, runs={k: v - first[k] for k, v in cell.runs.items() if k in first})
            for cell in chosen
            if (first := start.get(cell.labels)) is not None
        ]
    if not part.pool:
        return chosen
    groups: dict[Labels, list[Cell]] = {}
    for cell in chosen:
        groups.setdefault(tuple(p for p in cell.labels if p[0] != part.pool), []).append(cell)
    return [
        replace(group[0], labels=labels, runs=_pool(group, part.by))
        for labels, group in groups.items()
    ]


def _fits(cell: Cell, file: str, part: ClaimPart) -> bool:
    """Whether a cell is on the file, in a row of the part."""
    labels = dict(cell.labels)
    return (cell.file.lower(), cell.table) == (file.lower(), part.table) and all(
        head in labels
        and (want == LAST or any(fnmatchcase(labels[head], p) for p in str(want).split("|")))
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
