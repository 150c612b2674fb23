"""The page of all claims: what is on the paper's own table, and the answers of results."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedbench.reports.result_rows import FLAGS
from embedbench.scores.number_text import format_signed
from embedbench.text.markdown import block, escape_markdown, table

from .claims import Claim, PaperClaims, load_claims
from .data_kinds import OTHER, read_label
from .judge_claims import (
    HOLDS,
    KINDS,
    NONE,
    NOT,
    OF_PRINT,
    STATUSES,
    TOO_FEW,
    Answer,
    chance_of,
    find_kinds,
    judge,
    on_paper,
)
from .paper_table import DRAWN, Value, sort_flags
from .result_files import PaperResults, read_results
from .tables_of_results import tables_of_results

RUNS = (3, 5, 10)  # of ours, for which the page has the chance to say that a true claim holds
INTRO = """\
# Claims: what five papers say, and whether it holds

Made by `embedbench reproduce all --claims --results docs/results/data --out docs` from \
[the committed results](results/index.md) and the `claims.py` of each paper's folder; edit neither \
this page nor its data. [How claims are judged](judging.md) has the rules, what left the list, and \
how often an answer is wrong.

A claim is a sentence of a paper as contrasts with a threshold, and all its contrasts are one \
test. **holds**: each is on the claim's side; **does not hold**: one is on the other side, at \
its share of the level; **undecided**: neither; **cannot be decided**: if the paper's printed \
means and spreads were true, so many runs would say *holds* less than half the time (on other \
data this borrows the paper's spreads), or there is one run. An answer on other data, *holds* or \
*does not hold*, says nothing of whether the paper is right on its own data. A line has the \
contrast that decides, with the half-width that it was compared with, and in brackets how many \
hold. The column *in print* says how many of the contrasts that the paper prints are as the \
claim says, and, where it prints means and spreads, the chance that 3, 5 and 10 runs of ours \
would say *holds* if they are right. Half-widths cover seeds (of IIRC, configurations), not \
other test samples. [The files, and how each is made](fidelity.md#the-files), those of emoji \
with alpha dropped (`--alpha drop`); [what the metrics mean](metrics.md).

*Commands on this page need: the files that they name, and minutes to hours; nothing of it runs in \
CI.*"""


@dataclass(frozen=True, eq=False)
class JudgedPaper:
    """The claims of a paper, each with its answers, and the results that these are from."""

    paper: PaperClaims
    sources: Mapping[str, PaperResults]
    answers: Mapping[str, Sequence[Answer]]  # by the id of the claim

    @classmethod
    def of_results(cls, name: str, results: Sequence[Path]) -> "JudgedPaper":
        """A paper judged on results in files and directories."""
        paper, sources = load_claims(name), read_results(results, name)
        tables = [*tables_of_results(sources, paper.official), *paper.tables_of_print()]
        kinds = find_kinds(paper, sources)
        answers = {claim.id: judge(paper, claim, tables, kinds) for claim in paper.claims}
        return cls(paper, sources, answers)

    @property
    def every(self) -> list[Answer]:
        return [answer for answers in self.answers.values() for answer in answers]

    def count(self, *, strict: bool = False) -> Counter[tuple[str, str]]:
        """Number of answers by kind of data and status.

        `strict` leaves out thresholds that are ours, questions that were chosen after a look, and
        data that our settings were fitted to.
        """
        claims = {claim.id: claim for claim in self.paper.claims}
        result: Counter[tuple[str, str]] = Counter()
        for answer in self.every:
            claim = claims[answer.claim]
            ours = claim.threshold.startswith("ours") or claim.after_look
            if not (strict and (ours or answer.file in claim.fitted)):
                result[answer.kind, answer.status] += 1
        return result


def make_claims_page(results: Sequence[Path], papers: Sequence[str]) -> tuple[str, list[Answer]]:
    """The page of some papers, and its answers, from results in files and directories."""
    judged = [JudgedPaper.of_results(name, results) for name in papers]
    claims = [claim for one in judged for claim in one.paper.claims]
    late = ", ".join(claim.id for claim in claims if claim.threshold == "ours, after a look")
    asked = ", ".join(claim.id for claim in claims if claim.after_look)
    asked = f"Questions that were chosen with stored results in view: {asked}. " if asked else ""
    fitted = ", ".join(f"{c.id} on {' and '.join(c.fitted)}" for c in claims if c.fitted)
    parts = [
        INTRO,
        f"**In short**, answers (one a claim and file) to {len(claims)} claims: "
        f"{summarise(judged)}. {_count_claims(judged)}",
        table(["paper", "on", *STATUSES], [row for one in judged for row in _count_rows(one)]),
        "A threshold is *printed*, *derived* from what is printed or said, or *ours*. Those of "
        f"ours that were set with stored results in view: {late or 'none'}. {asked}Fitted, so that "
        f"holding confirms nothing: {fitted or 'none'}.",
        *_describe_flags(judged),
        *(part for one in judged for part in _paper(one)),
    ]
    answers = [answer for one in judged for answer in one.every if answer.status != NONE]
    return "\n\n".join(parts) + "\n", answers


def _describe_flags(judged: Sequence[JudgedPaper]) -> list[str]:
    """What the marks of runs mean, and which files of results do not say the flags of theirs."""
    parts = []
    raised = sort_flags(flag for one in judged for a in one.every for flag in a.flags)
    if raised:
        marks = "; ".join(": ".join(FLAGS.get(flag, (flag, "unknown"))) for flag in raised)
        parts.append(f"A mark behind an answer is of a flag that some of its runs have. {marks}.")
    of_runs, silent = list[str](), list[str]()
    for one in judged:
        for name, results in one.sources.items():
            values = _values_of_runs(results)
            if values:
                of_runs.append(name)
            if values and all(value.flags is None for value in values):
                silent.append(name)
    if silent:
        which = "all files here" if silent == of_runs else ", ".join(silent)
        parts.append(
            "Files of results of earlier versions do not say the flags of their runs, so that "
            f"their answers have no marks: {which}."
        )
    return [escape_markdown(" ".join(parts))] if parts else []


def _values_of_runs(results: PaperResults) -> list[Value]:
    """The values of a file that are of runs."""
    rows = [row for table in results.tables for row in table.rows]
    values = [value for row in rows for value in row.values.values()]
    return [value for value in values if value.ours is not None and value.made == DRAWN]


def summarise(judged: Sequence[JudgedPaper]) -> str:
    """The counts of all papers in one line."""
    number = sum((one.count() for one in judged), Counter[tuple[str, str]]())
    strict = sum((one.count(strict=True) for one in judged), Counter[tuple[str, str]]())
    of_kinds = [(kind, _words(number[kind, status] for status in STATUSES)) for kind in KINDS]
    texts = [f"on {kind} {words}" for kind, words in of_kinds if words]
    return "; ".join([*texts, *_without_ours(strict)])


def _without_ours(number: Counter[tuple[str, str]]) -> list[str]:
    """The answers whose threshold is not ours and whose data we fitted nothing to, by kind."""
    of_kinds = [(kind, _words(number[kind, status] for status in STATUSES)) for kind in KINDS]
    parts = ", and ".join(f"on {kind} {words}" for kind, words in of_kinds if words)
    return [f"leaving out thresholds of ours and fitted answers: {parts or 'none'}"]


def _count_claims(judged: Sequence[JudgedPaper]) -> str:
    """How many claims, where the counts before were of answers; and kinds without any answer."""
    every = [answer for one in judged for answer in one.every]
    elsewhere = [answer for answer in every if answer.kind == OTHER]
    holds = {answer.claim for answer in elsewhere if answer.status == HOLDS}
    fails = {answer.claim for answer in elsewhere if answer.status == NOT}
    text = (
        f"Counted as claims, {len(holds)} hold on at least one file of other data, and "
        f"{len(fails)} fail on at least one."
    )
    given = {answer.kind for answer in every if answer.status != NONE}
    absent = "; ".join(f"on {kind}" for kind in KINDS if kind not in given)
    return text + (f" There is no answer {absent}." if absent else "")


def _words(numbers: Iterable[int]) -> str:
    """Numbers of answers, in the order of `STATUSES`, in words."""
    one = ("holds", "does not", "is undecided", "cannot be decided")
    many = ("hold", "do not", "are undecided", "cannot be decided")
    pairs = zip(numbers, one, many, strict=True)
    return ", ".join(f"{n} {singular if n == 1 else plural}" for n, singular, plural in pairs if n)


def _count_rows(one: JudgedPaper) -> list[list[str]]:
    number = one.count()
    rows = [[one.paper.name, kind, *(str(number[kind, s]) for s in STATUSES)] for kind in KINDS]
    return [row for row in rows if any(cell != "0" for cell in row[2:])]


# --- one paper ---


def _paper(one: JudgedPaper) -> list[str]:
    heads = ["", "claim", "test", "in print", "answers"]
    rows = [_row(one.paper, claim, one.answers[claim.id]) for claim in one.paper.claims]
    commands = [line for name, of in one.sources.items() for line in (f"# {name}", of.command)]
    remarks = [escape_markdown(one.paper.remark)] if one.paper.remark else []
    parts = [*remarks, table(heads, rows), _no_result(one), block("bash", commands)]
    return [f"## {one.paper.name}", *parts]


def _no_result(one: JudgedPaper) -> str:
    """What has no result: the paper's data that are not here, and contrasts that were not run."""
    here = {answer.file for answer in one.every if answer.status != NONE}
    absent = ", ".join(file for file in one.paper.theirs if file not in here)
    lacking = ", ".join(f"{a.claim} on {a.file}" for a in one.every if a.status == NONE)
    parts = [f"any claim on {absent}"] * bool(absent) + [f"not run: {lacking}"] * bool(lacking)
    return f"*No result*: {escape_markdown('; '.join(parts) or 'none is missing')}."


def _row(paper: PaperClaims, claim: Claim, answers: Sequence[Answer]) -> list[str]:
    said = sorted(
        (answer for answer in answers if answer.status != NONE),
        key=lambda answer: KINDS.index(answer.kind),
    )
    return [
        claim.id,
        f"{escape_markdown(claim.says)} *{escape_markdown(claim.place)}*",
        f"{escape_markdown(claim.test)} ({_origin(claim)})",
        "" if claim.of_print else _in_print(paper, claim),
        "<br>".join(_answer_text(answer, paper, claim) for answer in said),
    ]


def _origin(claim: Claim) -> str:
    """Where the thresholds of a claim are from, and whether its question came after a look."""
    return f"{claim.threshold}; asked after a look" if claim.after_look else claim.threshold


def _in_print(paper: PaperClaims, claim: Claim) -> str:
    """Contrasts on the printed tables that agree, and the chance that runs of ours hold."""
    lines = []
    for printed in paper.printed():
        agreeing, known, every = on_paper(claim, printed)
        if known:
            of_all = f" (of {every})" if known < every else ""
            lines.append(f"{escape_markdown(printed.file)}: {agreeing} of {known}{of_all}")
    chances = [chance_of(paper, claim, "", runs) for runs in RUNS]
    if not math.isnan(chances[0]):
        numbers = " / ".join(f"{value:.2f}" for value in chances)
        lines.append(f"chance of *holds* with {' / '.join(map(str, RUNS))} runs: {numbers}")
    return "<br>".join(lines) or "no numbers"


def _answer_text(answer: Answer, paper: PaperClaims, claim: Claim) -> str:
    """One answer: file, status, contrasts that hold, and the one that decides."""
    runs = f"{answer.runs} run{'s' if answer.runs > 1 else ''}"
    status = f"{answer.status} with {runs}" if answer.status == TOO_FEW else answer.status
    said = answer.kind in (OF_PRINT, OTHER) or bool(read_label(answer.file)[1])
    kind = "" if said else f" ({answer.kind})"
    fitted = ", fitted" if answer.file in claim.fitted else ""
    of = f"{answer.holding} of {answer.judged + answer.missing}"
    marks = escape_markdown("".join(f" {FLAGS.get(flag, (flag,))[0]}" for flag in answer.flags))
    start = f"{escape_markdown(answer.file)}{kind}: **{status}**{marks}{fitted} ({of})"
    if answer.status == HOLDS and answer.half == 0:  # computed, and as it should be
        return start
    digits = 1 if paper.unit else 3
    half = "" if math.isnan(answer.half) else f" ± {answer.half:.{digits}f}"
    effect = f"{format_signed(answer.effect, digits)}{half}"
    return f"{start}: {effect} {escape_markdown(answer.what)}, {runs}"
