"""What the papers say, judged: `claims.toml` has the claims, results of `reproduce` the numbers.

A claim is a contrast stated beforehand: A, or A less B, against a threshold. Its 95 % interval is
that of the tables (`subtract_rows`), paired by seed where both sides ran the same streams, and not
corrected for the number of claims. On each file a claim

- *holds* if the interval is on the claim's side of the threshold, for each of its contrasts;
- *does not hold* if one interval is on the other side, or is the threshold itself (a tie);
- is *undecided* if an interval includes the threshold, or has no width: a single run;
- was *not run*, or *cannot be tested here* for want of the data or of a table.

The test sample's share is not in the intervals: files of results have no answers.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from embedbench.config.json_records import JsonRecord
from embedbench.scores.learner_verdicts import LEVEL, subtract_rows

from .claim_cells import PRINTED, Cell, Runs, choose_cells
from .claims import Claim, ClaimedPaper, ClaimPart, Names, OtherSide
from .paper_table import EXACT

HOLDS, NOT, UNDECIDED = "holds", "does not hold", "undecided"
NOT_RUN, CANNOT = "not run", "cannot be tested here"
STATUSES = (HOLDS, NOT, UNDECIDED, NOT_RUN, CANNOT)


class Outcome(NamedTuple):
    """One contrast on one file: HOLDS, NOT or UNDECIDED.

    `half` is the half-width of the effect's 95 % interval, `runs` the fewest runs of a side, and
    `margin` how far the effect is on the claim's side of the threshold.
    """

    what: str
    status: str
    effect: float
    half: float
    runs: int
    margin: float


@dataclass(frozen=True)
class Answer(JsonRecord):
    """The answer to a claim on one file.

    Parameters
    ----------
    claim, file : str
        Its id; the name of the data, or `PRINTED`.
    of_paper : bool
        Whether these are the paper's data or its printed numbers.
    status : str
        One of `STATUSES`.
    what : str
        The contrast that decides: of those with this status the one with the least margin.
    effect, half : float
        Its estimate and the half-width of its 95 % interval.
    runs : int
        The fewest runs of its sides; 0 without results.
    holding, judged, missing : int
        Contrasts that hold, that have results, and that have none.
    """

    claim: str
    file: str
    of_paper: bool
    status: str
    what: str = ""
    effect: float = math.nan
    half: float = math.nan
    runs: int = 0
    holding: int = 0
    judged: int = 0
    missing: int = 0


def judge(claim: Claim, paper: ClaimedPaper, cells: Sequence[Cell]) -> list[Answer]:
    """The answers to a claim: on printed numbers, or on each file of the paper's and other data.

    Files that neither the claim nor its paper lists are judged too where they have every contrast.
    """
    if claim.arithmetic:
        return [_answer(claim, cells, PRINTED, of_paper=True)]
    lists = (paper.theirs, paper.elsewhere, paper.ours, claim.theirs, claim.elsewhere, claim.ours)
    known = {file.lower() for files in lists for file in files}
    brought = sorted({cell.file for cell in cells if cell.file.lower() not in known} - {PRINTED})
    others = [_answer(claim, cells, file) for file in brought]
    return [
        *(_answer(claim, cells, file, of_paper=True) for file in claim.theirs),
        *(_answer(claim, cells, file, of_paper=True, here=False) for file in claim.elsewhere),
        *(_answer(claim, cells, file) for file in claim.ours),
        *(answer for answer in others if answer.judged and not answer.missing),
    ]


def _answer(
    claim: Claim, cells: Sequence[Cell], file: str, *, of_paper: bool = False, here: bool = True
) -> Answer:
    parts = [p for p in claim.parts if not p.files or file in p.files]
    judged = [judge_part(cells, part, file) for part in parts]
    outcomes = [outcome for of_part, _ in judged for outcome in of_part]
    missing = sum(n for _, n in judged)
    numbers = [o for o in outcomes if not math.isnan(o.effect)]  # others: nothing to measure
    absent = NOT_RUN if here and not claim.needs and len(numbers) == len(outcomes) else CANNOT
    outcomes, missing = numbers, missing + len(outcomes) - len(numbers)
    if not outcomes:
        return Answer(claim.id, file, of_paper, absent)
    status = combine([o.status for o in outcomes], missing, absent, one=claim.one)
    deciding = [o for o in outcomes if o.status == status] or outcomes
    best_first = claim.one and status == HOLDS
    chosen = (max if best_first else min)(deciding, key=lambda o: o.margin)
    what, _, effect, half, runs, _ = chosen
    holding = sum(o.status == HOLDS for o in outcomes)
    counts = (holding, len(outcomes), missing)
    return Answer(claim.id, file, of_paper, status, what, effect, half, runs, *counts)


def combine(statuses: Sequence[str], missing: int, absent: str, *, one: bool = False) -> str:
    """The status of a claim from those of its contrasts: each must hold, or one is enough."""
    decisive, other = (HOLDS, NOT) if one else (NOT, HOLDS)
    if decisive in statuses:
        return decisive
    if missing:
        return absent
    return UNDECIDED if UNDECIDED in statuses else other


def judge_part(cells: Sequence[Cell], part: ClaimPart, file: str) -> tuple[list[Outcome], int]:
    """The outcomes of a part on a file, and how many of its contrasts have no results."""
    outcomes: list[Outcome] = []
    missing = 0
    for single in _each(part):
        side = choose_cells(cells, file, single)
        if part.minus is None:
            missing += not side
            outcomes += [_equal(a) if part.printed else _contrast(part, a, None) for a in side]
            continue
        others = [choose_cells(cells, part.minus.file or file, b) for b in _other_sides(single)]
        missing += len(others) * (not side)
        for a, chosen in itertools.product(side, others):
            same = [b for b in chosen if _agree(a, b, part)]
            missing += not same
            outcomes += [_contrast(part, a, b) for b in same]
    return outcomes, missing


def _each(part: ClaimPart) -> Iterator[ClaimPart]:
    """The part for every choice of one name from each list."""
    lists = [(v,) if isinstance(v, str) else v for v in (*part.where.values(), part.column)]
    for *texts, column in itertools.product(*lists):
        yield replace(part, where=dict(zip(part.where, texts, strict=True)), column=column)


def _other_sides(a: ClaimPart) -> Iterator[ClaimPart]:
    """Each choice of B; what `minus` does not name is that of A."""
    minus = a.minus or OtherSide()
    where = minus.where if minus.table else a.where | minus.where
    return _each(
        replace(a, table=minus.table or a.table, column=minus.column or a.column, where=where)
    )


def _agree(a: Cell, b: Cell, part: ClaimPart) -> bool:
    """Whether two cells agree in the labels that `minus` leaves as they are, and at stars."""
    free = part.minus.where if part.minus else {}
    other = dict(b.labels)
    for head, text in a.labels:
        if head not in free:
            same = other.get(head, text) == text
        else:
            at_star = _star(text, part.where.get(head)), _star(other.get(head), free[head])
            same = None in at_star or at_star[0] == at_star[1]
        if not same:
            return False
    return True


def _star(text: str | None, pattern: Names | None) -> str | None:
    """What the one `*` of a pattern stands for; None if it has none."""
    if text is None or not isinstance(pattern, str) or pattern.count("*") != 1:
        return None
    match = re.fullmatch(re.escape(pattern).replace(r"\*", "(.*)"), text)
    return match and match[1]


def _contrast(part: ClaimPart, a: Cell, b: Cell | None) -> Outcome:
    effect, half, runs = estimate(
        a.runs, b.runs if b else None, times=part.times, paired=part.paired
    )
    half = 0.0 if part.exact else half
    status, margin = decide(part, effect, half)
    factor = "" if part.times == 1 else f"{part.times:g} × "
    sides = [_name(a, part), *([factor + _name(b, part)] if b else [])]
    columns = [a.column, *([b.column] if b and b.column != a.column else [])]
    since = f"since {part.since}" if part.since else ""
    names = [" − ".join(filter(None, sides)), " − ".join(columns), since]
    return Outcome(", ".join(filter(None, names)), status, effect, half, runs, margin)


def _name(cell: Cell, part: ClaimPart) -> str:
    """The labels of a cell that the part does not fix for both sides, and the file if it varies."""
    varied = set(part.minus.where) if part.minus else set()
    varied |= {head for head, want in part.where.items() if not isinstance(want, str)}
    labels = [t for head, t in cell.labels if t and (head in varied or head not in part.where)]
    return " ".join([*labels, *([cell.file] if part.minus and part.minus.file else [])])


def estimate(
    a: Runs, b: Runs | None = None, *, times: float = 1.0, paired: bool = True
) -> tuple[float, float, int]:
    """Mean of a - times · b, the half-width of its 95 % interval, and the runs of a side.

    By seed if `paired` and both have seeds in common; otherwise the half-widths of both sides add
    up as squares, as the parts of an interval do in `subtract_rows`.
    """
    if b is None:
        return _interval(list(a.values()), [0.0] * len(a))
    if paired and (both := [k for k in a if k in b]):
        return _interval([a[k] for k in both], [times * b[k] for k in both])
    (mean, half, n), (other, width, runs) = estimate(a), estimate(b)
    return mean - times * other, math.hypot(half, times * width), min(n, runs)


def _interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, int]:
    if not a:
        return math.nan, math.nan, 0
    apart = subtract_rows(np.array([b, a], dtype=np.float64))
    half = apart.half_widths(np.array(LEVEL / 2))
    return float(apart.mean[0, 1]), float(half[0, 1]), int(apart.n[0, 1])


def decide(part: ClaimPart, effect: float, half: float) -> tuple[str, float]:
    """The status of an interval against the part's threshold, and the margin of its middle."""
    if part.above is not None:
        margin = effect - part.above
    elif part.below is not None:
        margin = part.below - effect
    else:
        margin = (part.within or 0.0) - abs(effect - part.around)
    return HOLDS if margin > half else NOT if margin <= -half else UNDECIDED, margin


def _equal(cell: Cell) -> Outcome:
    """Whether a number computed without runs has the printed digits, as far as they go."""
    value, printed = cell.value, cell.value.corrected
    what = " ".join([*(text for _, text in cell.labels if text), cell.column])
    if value.ours is None or printed is None or value.made != EXACT:
        return Outcome(what, UNDECIDED, math.nan, math.nan, 0, math.nan)
    gap = value.ours.mean - printed
    margin = 0.5 * 10**-value.decimals + 1e-9 - abs(gap)
    return Outcome(what, HOLDS if margin >= 0 else NOT, gap, 0.0, 1, margin)
