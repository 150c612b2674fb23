"""What a paper says, judged: on its own table first, then on results of `reproduce`.

All contrasts of a claim are one test with the level of the tables' intervals, 2.5 % on each side:

- it *holds* if each contrast is on its side of the threshold by more than the half-width at that
  level: a test of "all" needs no correction (Berger, 1982);
- it *does not hold* if one of k contrasts is on the other side, or is the threshold itself (a tie),
  by the half-width at 2.5 %/k (Bonferroni); of a claim that one contrast is enough for, the two
  sides change places;
- it *cannot be decided with n runs* if n runs of ours would say that it holds with a chance below
  one half though the paper were right, or if n is 1: such a test could only refuse;
- it is *undecided* otherwise, and has *no result* where contrasts were not run.

That chance comes from simulated tables: runs are drawn around the printed means with the printed
spreads, normal and independent but for the numbers of one row, and judged as ours are. The test
sample's share is not in the intervals: files of results have no answers. docs/claims.md has all
answers, docs/judging.md the rates of wrong ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from embedbench.config.json_records import JsonRecord
from embedbench.reports.contrasts import OneTest

from .claim_table import PRINTED, ClaimTable, Draws
from .claims import Claim, PaperClaims
from .data_kinds import BACKBONE, DATA_KINDS, OTHER, THEIRS, read_label
from .paper_folders import facts
from .paper_table import sort_flags
from .plan_data import plan_data
from .result_files import PaperResults

HOLDS, NOT, UNDECIDED = "holds", "does not hold", "undecided"
TOO_FEW, NONE = "cannot be decided", "no result"
STATUSES = (HOLDS, NOT, UNDECIDED, TOO_FEW)
OF_PRINT = "printed numbers"
KINDS = (OF_PRINT, *DATA_KINDS)
ENOUGH = 0.5  # chance to say that a true claim holds
TABLES = 2000  # simulated; the chance is known to .01


# --- on the paper's own table ---


class OnPaper(NamedTuple):
    """A claim on a printed table: contrasts that are as it says, that are printed, and all."""

    agreeing: int
    printed: int
    contrasts: int

    @property
    def passes(self) -> bool | None:
        """Whether the printed numbers agree; None if none is printed."""
        return None if not self.printed else self.agreeing == self.printed


def on_paper(claim: Claim, printed: ClaimTable) -> OnPaper:
    """A claim on one of its paper's printed tables."""
    margins = [float(contrast.margin) for contrast in claim.contrasts(printed)]
    known = [margin for margin in margins if not math.isnan(margin)]
    agreeing = sum(margin > 0 for margin in known)
    if claim.any_one and agreeing:
        agreeing = len(known)
    return OnPaper(agreeing, len(known), len(margins))


def chance(claim: Claim, printed: ClaimTable, runs: int) -> float:
    """The chance that so many runs of ours say *holds* if the paper is right; NaN if unknown.

    Contrasts that are not printed, or without a spread, are left out: then it is an upper bound.
    """
    drawn = [*claim.contrasts(replace(printed, draws=Draws(TABLES, runs)))]
    chosen = [contrast for contrast in drawn if not np.isnan(contrast.margin).any()]
    if not chosen or (claim.any_one and len(chosen) < len(drawn)):
        return math.nan
    if runs < 2:
        return 0.0
    return float(OneTest(chosen, claim.any_one).holds.mean())


@cache
def chance_of(paper: PaperClaims, claim: Claim, stands_for: str, runs: int) -> float:
    """The chance by the printed table of these data, or else by the first that has spreads."""
    for table in sorted(paper.printed(), key=lambda table: table.file != stands_for):
        value = chance(claim, table, runs)
        if not math.isnan(value):
            return value
    return math.nan


# --- on results ---


@dataclass(frozen=True)
class Answer(JsonRecord):
    """The answer to a claim on one file.

    Parameters
    ----------
    claim, file, kind, status : str
        Its id; the name of the data; one of `KINDS`; one of `STATUSES`, or `NONE`.
    what : str
        The contrast that decides: of those of this status the one with the least margin.
    effect, half : float
        Its estimate, and the half-width at the level that it was compared with.
    runs : int
        The fewest runs of a contrast.
    chance : float
        That so many runs say *holds* if the paper is right; NaN where no spread is printed.
    holding, judged, missing : int
        Contrasts that hold, that were measured, and that were not.
    flags : tuple of str
        Those of the runs behind its contrasts, in the order of reports, as far as results say them.
    """

    claim: str
    file: str
    kind: str
    status: str
    what: str = ""
    effect: float = math.nan
    half: float = math.nan
    runs: int = 0
    chance: float = math.nan
    holding: int = 0
    judged: int = 0
    missing: int = 0
    flags: tuple[str, ...] = ()


def judge(
    paper: PaperClaims, claim: Claim, tables: Sequence[ClaimTable], kinds: Mapping[str, str]
) -> list[Answer]:
    """The answers to a claim: on printed numbers, or on each file that has any of its contrasts.

    `kinds` has the kind of data of each file; other data where it has none.
    """
    answers = []
    for table in tables:
        if claim.of_print == (table.file == PRINTED) and table.file not in claim.controls:
            test = OneTest([*claim.contrasts(table)], claim.any_one)
            if any(contrast.number.runs for contrast in test.contrasts):
                answers.append(_answer(paper, claim, table, test, kinds))
    return answers


def _answer(
    paper: PaperClaims, claim: Claim, table: ClaimTable, test: OneTest, kinds: Mapping[str, str]
) -> Answer:
    known = ~np.isnan(test.margins)
    numbers = [contrast.number for contrast in test.contrasts]
    runs = min(number.runs for number, measured in zip(numbers, known, strict=True) if measured)
    status = _status(test, missing=not known.all())
    likely = math.nan if claim.of_print else chance_of(paper, claim, table.stands_for, runs)
    if status != NONE and (likely < ENOUGH or (runs == 1 and status == UNDECIDED)):
        status = TOO_FEW
    one = _deciding(claim, test, status)
    shared = claim.any_one == (test.margins[one] > 0)  # the level of the side on which it is
    return Answer(
        claim=claim.id,
        file=table.file,
        kind=OF_PRINT if claim.of_print else _kind_of(table.file, kinds),
        status=status,
        what=numbers[one].name,
        effect=float(numbers[one].mean),
        half=float(test.halves(shared=bool(shared))[one]),
        runs=runs,
        chance=likely,
        holding=int(test.holding.sum()),
        judged=int(known.sum()),
        missing=int((~known).sum()),
        flags=sort_flags(flag for number in numbers for flag in number.flags),
    )


def _kind_of(file: str, kinds: Mapping[str, str]) -> str:
    """The kind of the data of a table; of two modalities that further from the paper's."""
    if file in kinds:
        return kinds[file]
    each = [read_label(part)[1] or kinds.get(part, OTHER) for part in file.split(" / ")]
    return max(each, key=DATA_KINDS.index)


def _deciding(claim: Claim, test: OneTest, status: str) -> int:
    """The place of the contrast that decides: of those of this status that of the least margin."""
    known = ~np.isnan(test.margins)
    if status == HOLDS:
        deciding = test.holding
    elif status == NOT:
        deciding = test.failing
    else:
        deciding = known & ~test.holding
    if not deciding.any():
        deciding = known
    margins = test.margins
    if claim.any_one and status != NOT:  # one is enough: the best one
        margins = -margins
    return int(np.argmin(np.where(deciding, margins, np.inf)))


def _status(test: OneTest, *, missing: bool) -> str:
    if test.holds:
        return HOLDS
    if test.fails:
        return NOT
    return NONE if missing else UNDECIDED


def find_kinds(paper: PaperClaims, sources: Mapping[str, PaperResults]) -> dict[str, str]:
    """The kind of data of each file, by its name in tables; of other data there is nothing.

    Tables name data of the paper by their official name, which is that of its own data alone, or by
    a label that says that they are a part or through another backbone. Older results have no kinds:
    there a paper that trains its network on images has another backbone where no file holds images.
    Of data without a name the digest of the samples says whether they are the paper's.
    """
    files = [file for results in sources.values() for file in results.files]
    older = [file for file in files if file.kind is None]
    own = not paper.trains or not older or any(file.pixels for file in older)
    kinds = dict.fromkeys(paper.theirs, THEIRS if own else BACKBONE)
    known = {data.get("samples_digest") for data in plan_data(facts(paper.name))} - {None}
    for file in files:
        if file.kind in (None, OTHER) and file.digests.get("samples") in known:
            name = file.name.rpartition(".")[0]
            kinds.setdefault(name, THEIRS if paper.trains and file.pixels else BACKBONE)
    return kinds
