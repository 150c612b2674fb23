"""What the papers say, judged: `claims.toml` has the claims, results of `reproduce` the numbers.

A claim is a contrast stated beforehand: A, or A less B, against a threshold. Its 95 % interval is
that of the tables (`subtract_rows`), paired by seed where both sides ran the same streams, and not
corrected for the number of claims. On each file a claim

- *holds* if the interval is on the claim's side of the threshold, for each of its contrasts;
- *does not hold* if one interval is on the other side, or is the threshold itself (a tie);
- is *undecided* if an interval includes the threshold, or has no width: a single run;
- has *no result* for want of the data, of a run or of a table.

The test sample's share is not in the intervals: files of results have no answers. The page of all
answers is docs/claims.md.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from embedbench.config.json_records import JsonRecord
from embedbench.scores.learner_verdicts import LEVEL, subtract_rows
from embedbench.scores.number_text import format_signed
from embedbench.text.markdown import block, escape_markdown, table

from .claims import (
    PRINTED,
    Cell,
    Claim,
    ClaimPart,
    Names,
    Runs,
    choose_cells,
    collect_cells,
    load_claims,
    load_commands,
)
from .paper_table import EXACT
from .result_files import read_results

HOLDS, NOT, UNDECIDED = "holds", "does not hold", "undecided"
NONE = "no result"
STATUSES = (HOLDS, NOT, UNDECIDED, NONE)
GROUPS = ("printed numbers", "the papers' data", "other data")


@dataclass(frozen=True)
class Outcome(JsonRecord):
    """One contrast on one file: HOLDS, NOT or UNDECIDED.

    `half` is the half-width of the effect's 95 % interval, `runs` the fewest runs of a side, and
    `margin` how far the effect is on the claim's side of the threshold.
    """

    what: str = ""
    status: str = ""
    effect: float = math.nan
    half: float = math.nan
    runs: int = 0
    margin: float = math.nan


@dataclass(frozen=True)
class Answer(JsonRecord):
    """The answer to a claim on one file.

    Parameters
    ----------
    claim, file : str
        Its id; the name of the data, or `PRINTED`.
    group, status : str
        One of `GROUPS`, of `STATUSES`.
    decides : Outcome
        Of those with this status the one with the least margin.
    holding, judged, missing : int
        Contrasts that hold, that have results, and that have none.
    """

    claim: str
    file: str
    group: str
    status: str
    decides: Outcome
    holding: int
    judged: int
    missing: int


def judge(claim: Claim, cells: Sequence[Cell]) -> list[Answer]:
    """The answers to a claim: on printed numbers, or on each file of the paper's and other data.

    Files that neither the claim nor its paper lists are judged too where they have every contrast.
    """
    printed, of_papers, other = GROUPS
    if claim.arithmetic:
        return [_answer(claim, cells, PRINTED, printed)]
    brought = sorted({cell.file for cell in cells if cell.file.lower() not in claim.known})
    others = [_answer(claim, cells, file, other) for file in brought if file != PRINTED]
    return [
        *(_answer(claim, cells, file, of_papers) for file in claim.theirs),
        *(_answer(claim, cells, file, other) for file in claim.ours),
        *(answer for answer in others if answer.judged and not answer.missing),
    ]


def _answer(claim: Claim, cells: Sequence[Cell], file: str, group: str) -> Answer:
    parts = [p for p in claim.parts if not p.files or file in p.files]
    judged = [judge_part(cells, part, file) for part in parts]
    outcomes = [outcome for of_part, _ in judged for outcome in of_part]
    numbers = [o for o in outcomes if not math.isnan(o.effect)]  # others: nothing to measure
    missing = sum(n for _, n in judged) + len(outcomes) - len(numbers)
    status, decides = NONE, Outcome()
    if numbers:
        status = combine([o.status for o in numbers], missing, one=claim.one)
        deciding = [o for o in numbers if o.status == status] or numbers
        best_first = claim.one and status == HOLDS
        decides = (max if best_first else min)(deciding, key=lambda o: o.margin)
    holding = sum(o.status == HOLDS for o in numbers)
    return Answer(claim.id, file, group, status, decides, holding, len(numbers), missing)


def combine(statuses: Sequence[str], missing: int, *, one: bool = False) -> str:
    """The status of a claim from those of its contrasts: each must hold, or one is enough."""
    decisive, other = (HOLDS, NOT) if one else (NOT, HOLDS)
    if decisive in statuses:
        return decisive
    if missing:
        return NONE
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
        given = {key: part.minus[key] for key in ("table", "column") if key in part.minus}
        where = {} if "table" in given else single.where  # what `minus` does not name is A's
        free = part.minus.get("where", {})
        others = [
            choose_cells(cells, part.minus.get("file", file), b)
            for b in _each(replace(single, **given, where={**where, **free}))
        ]
        missing += len(others) * (not side)
        for a, chosen in itertools.product(side, others):
            same = [b for b in chosen if _agree(a, b, part.where, free)]
            missing += not same
            outcomes += [_contrast(part, a, b) for b in same]
    return outcomes, missing


def _each(part: ClaimPart) -> Iterator[ClaimPart]:
    """The part for every choice of one name from each list."""
    lists = [(v,) if isinstance(v, str) else v for v in (*part.where.values(), part.column)]
    for *texts, column in itertools.product(*lists):
        yield replace(part, where=dict(zip(part.where, texts, strict=True)), column=column)


def _agree(a: Cell, b: Cell, where: Mapping[str, Names], free: Mapping[str, Names]) -> bool:
    """Whether two cells agree in the labels that are not free, and in what stars stand for."""
    for head, text in a.labels.items():
        other = b.labels.get(head, text)
        stars = head in free and (_star(text, where.get(head)), _star(other, free[head]))
        one, two = stars or (text, other)
        if None not in (one, two) and one != two:
            return False
    return True


def _star(text: str, pattern: Names | None) -> str | None:
    """What the one `*` of a pattern stands for; None if it has none."""
    if not isinstance(pattern, str) or pattern.count("*") != 1:
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
    minus = part.minus or {}
    fixed = {head for head, want in part.where.items() if isinstance(want, str)}
    fixed -= minus.get("where", {}).keys()
    labels = [text for head, text in cell.labels.items() if text and head not in fixed]
    return " ".join([*labels, *([cell.file] if "file" in minus else [])])


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
    # results keep no answers, so that equal differences are taken for what no seed changes
    apart = subtract_rows(np.array([b, a], dtype=np.float64), alike=np.ones((2, 2), dtype=np.bool_))
    half = apart.half_widths(np.array(LEVEL / 2))
    return float(apart.mean[0, 1]), float(half[0, 1]), int(apart.n[0, 1])


def decide(part: ClaimPart, effect: float, half: float) -> tuple[str, float]:
    """The status of an interval against the part's threshold, and the margin of its middle."""
    if part.above is not None:
        margin = effect - part.above
    elif part.below is not None:
        margin = part.below - effect
    else:
        margin = part.within - abs(effect - part.around)
    return HOLDS if margin > half else NOT if margin <= -half else UNDECIDED, margin


def _equal(cell: Cell) -> Outcome:
    """Whether a number computed without runs has the printed digits, as far as they go."""
    value, printed = cell.value, cell.value.corrected
    what = " ".join([*filter(None, cell.labels.values()), cell.column])
    if value.ours is None or printed is None or value.made != EXACT:
        return Outcome(what, UNDECIDED)
    gap = value.ours.mean - printed
    margin = 0.5 * 10**-value.decimals + 1e-9 - abs(gap)
    return Outcome(what, HOLDS if margin >= 0 else NOT, gap, 0.0, 1, margin)


# --- the page ---

Judged = Sequence[tuple[Claim, Sequence[Answer]]]
INTRO = """\
# Claims: what five papers say, and whether it holds

Made by `embedbench reproduce all --claims --results docs/results/data --out docs` from \
[the committed results](results/index.md) and `embedbench/papers/claims.toml`; edit neither this \
page nor its data.

A claim is a sentence of a paper as a contrast with a threshold. Its answer on a file comes from \
the 95 % interval over seeds, paired by seed where both sides ran the same streams. **holds**: \
the interval is on the claim's side of the threshold; **does not hold**: on the other side; \
**undecided**: it includes the threshold, or there is one run. Of several contrasts each must \
hold, unless the test says that one is enough; the one with the least margin is printed, and in \
brackets how many hold. Intervals are not corrected for the number of claims: where nothing \
differs, one answer in twenty is wrong by chance. They cover seeds, not other test samples. \
A command may name more seeds than were run: the answers say how many runs there were (of \
IIRC, configurations). [The files, and how each is made](fidelity.md#the-files), those of emoji \
with alpha dropped (`--alpha drop`); [what the metrics mean](metrics.md).

*Commands on this page need: the files that they name, and minutes to hours; nothing of it runs in \
CI.*"""


def make_claims_page(
    directories: Sequence[Path], papers: Sequence[str]
) -> tuple[str, list[Answer]]:
    """The page of some papers, and its answers, from results in files and directories."""
    by_paper: dict[str, Judged] = {}
    for name in papers:
        cells = collect_cells(read_results(directories, name))
        by_paper[name] = [(claim, judge(claim, cells)) for claim in load_claims(name)]
    every = [pair for of_paper in by_paper.values() for pair in of_paper]
    parts = [
        INTRO,
        f"**In short**, answers (one a claim and file) to {len(every)} claims: {summarise(every)}.",
        _counts(by_paper),
        _caveats(every),
        *(part for name, judged in by_paper.items() for part in _paper(name, judged)),
    ]
    return "\n\n".join(parts) + "\n", [answer for _, answers in every for answer in answers]


def count(judged: Judged, *, strict: bool = False) -> Counter[tuple[str, str]]:
    """Number of answers by group of data and status.

    `strict` leaves out thresholds that are ours, and data that our settings were fitted to.
    """
    result: Counter[tuple[str, str]] = Counter()
    for claim, answers in judged:
        if not (strict and claim.threshold == "ours"):
            some = [a for a in answers if not (strict and a.file in claim.fitted)]
            result.update((a.group, a.status) for a in some)
    return result


def summarise(judged: Judged) -> str:
    """The counts of all papers in one line."""
    number, strict = count(judged), count(judged, strict=True)
    parts = []
    for group in GROUPS:
        hold, fail, open_, none = (number[group, status] for status in STATUSES)
        words = {
            ("holds", "hold"): hold,
            ("does not", "do not"): fail,
            ("is undecided", "are undecided"): open_,
            ("has no result", "have no result"): none,
        }
        texts = [f"{n} {word[n > 1]}" for word, n in words.items() if n]
        parts.append(f"on {group} {', '.join(texts)}")
    hold, fail, open_ = (sum(strict[g, s] for g in GROUPS) for s in STATUSES[:3])
    parts.append(
        f"of all these, where neither threshold nor fit is ours, {hold} hold, {fail} do not, "
        f"{open_} are undecided"
    )
    return "; ".join(parts)


def _counts(by_paper: Mapping[str, Judged]) -> str:
    rows = []
    for name, judged in by_paper.items():
        number = count(judged)
        for group in GROUPS:
            if any(cells := [number[group, s] for s in STATUSES]):
                rows.append([name, group, *map(str, cells)])
    return table(["paper", "on", *STATUSES], rows)


def _caveats(judged: Judged) -> str:
    """Which answers say less than they seem to."""
    late = ", ".join(claim.id for claim, _ in judged if claim.after_look)
    fitted = ", ".join(f"{c.id} on {' and '.join(c.fitted)}" for c, _ in judged if c.fitted)
    return "\n".join([
        "- A threshold is *printed*, *derived* from what is printed or said, or *ours*. Those of "
        f"ours that were set with stored results in view: {late or 'none'}.",
        f"- Fitted, so that holding confirms nothing: {fitted or 'none'}.",
        f"- *{NONE}*: the data are not here, a contrast was not run, or no table has the numbers.",
    ])  # fmt: skip


def _paper(name: str, judged: Judged) -> list[str]:
    heads = ["", "claim", "test", "answers", "command"]
    rows = [_row(claim, answers) for claim, answers in judged]
    lines = [
        line for key, command in load_commands()[name].items() for line in (f"# {key}", command)
    ]
    return [f"## {name}", table(heads, rows), block("bash", lines)]


def _row(claim: Claim, answers: Sequence[Answer]) -> list[str]:
    unit = "" if claim.arithmetic else claim.unit
    absent = [escape_markdown(a.file) for a in answers if not a.judged]
    lines = [_answer_text(a, claim, unit) for a in answers if a.judged]
    if absent:
        needs = f" ({escape_markdown(claim.needs)})" if claim.needs else ""
        lines.append(f"{', '.join(absent)}: {NONE}{needs}")
    threshold = claim.threshold + (", after a look" if claim.after_look else "")
    return [
        claim.id,
        f"{escape_markdown(claim.says)} *{escape_markdown(claim.place)}*",
        f"{escape_markdown(claim.test)} ({threshold})",
        "<br>".join(lines),
        ", ".join(claim.command),
    ]


def _answer_text(answer: Answer, claim: Claim, unit: str) -> str:
    """One answer: file, status, contrasts that hold, and the one that decides."""
    fitted = ", fitted" if answer.file in claim.fitted else ""
    start = f"{escape_markdown(answer.file)}: **{answer.status}**{fitted}"
    of = f"{answer.holding} of {answer.judged + answer.missing}"
    more = f", {answer.missing} not run" if answer.missing else ""
    one = answer.decides
    if answer.status == HOLDS and one.half == 0:  # computed, and as it should be
        return f"{start} ({of}{more})"
    digits = 1 if unit else 3
    half = "" if math.isnan(one.half) else f" ± {one.half:.{digits}f}"
    effect = f"{format_signed(one.effect, digits)}{half}"
    runs = f"{one.runs} run{'s' if one.runs > 1 else ''}"
    return f"{start} ({of}{more}): {effect} {escape_markdown(one.what)}, {runs}"
