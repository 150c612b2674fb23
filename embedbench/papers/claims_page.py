"""The page of all claims: what is on the paper's own table, and the answers of results."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedbench.scores.number_text import format_signed
from embedbench.text.markdown import block, escape_markdown, table

from .claims import Claim, PaperClaims, load_claims
from .judge_claims import (
    HOLDS,
    KINDS,
    NONE,
    RUNS,
    STATUSES,
    TOO_FEW,
    Answer,
    chance_of,
    find_kinds,
    judge,
    on_paper,
)
from .result_files import read_results
from .tables_of_results import tables_of_results

INTRO = """\
# Claims: what five papers say, and whether it holds

Made by `embedbench reproduce all --claims --results docs/results/data --out docs` from \
[the committed results](results/index.md) and the `claims.py` of each paper's folder; edit neither \
this page nor its data. [How claims are judged](judging.md) has the rules, what left the list, and \
how often an answer is wrong.

A claim is a sentence of a paper as contrasts with a threshold, and all its contrasts are one \
test. **holds**: each is on the claim's side; **does not hold**: one is on the other side, at \
its share of the level; **undecided**: neither; **cannot be decided**: so few runs would miss a \
true claim more often than not, or there is one run. A line has the contrast that decides, with \
the half-width that it was compared with, and in brackets how many hold. The column *in print* \
says how many of the contrasts that the paper prints are as the claim says, and, where it prints \
spreads, the chance that 3, 5 and 10 runs of ours would say *holds* if they are right. \
Half-widths cover seeds (of IIRC, configurations), not other test samples. [The files, and how \
each is made](fidelity.md#the-files), those of emoji with alpha dropped (`--alpha drop`); [what \
the metrics mean](metrics.md).

*Commands on this page need: the files that they name, and minutes to hours; nothing of it runs in \
CI.*"""


@dataclass(frozen=True, eq=False)
class JudgedPaper:
    """The claims of a paper, each with its answers."""

    paper: PaperClaims
    answers: Mapping[str, Sequence[Answer]]  # by the id of the claim

    @classmethod
    def of_results(cls, name: str, results: Sequence[Path]) -> "JudgedPaper":
        """A paper judged on results in files and directories."""
        paper = load_claims(name)
        sources = read_results(results, name)
        tables = [*tables_of_results(sources, paper.official), *paper.tables_of_print()]
        kinds = find_kinds(paper, sources)
        return cls(paper, {claim.id: judge(paper, claim, tables, kinds) for claim in paper.claims})

    @property
    def each(self) -> list[Answer]:
        """All answers that say something."""
        every = [answer for answers in self.answers.values() for answer in answers]
        return [answer for answer in every if answer.status != NONE]


def make_claims_page(results: Sequence[Path], papers: Sequence[str]) -> tuple[str, list[Answer]]:
    """The page of some papers, and its answers, from results in files and directories."""
    judged = [JudgedPaper.of_results(name, results) for name in papers]
    number = sum(len(one.paper.claims) for one in judged)
    parts = [
        INTRO,
        f"**In short**, answers (one a claim and file) to {number} claims: {summarise(judged)}.",
        _counts(judged),
        _caveats(judged),
        *(part for one in judged for part in _paper(one)),
    ]
    return "\n\n".join(parts) + "\n", [answer for one in judged for answer in one.each]


def count(judged: Iterable[JudgedPaper], *, strict: bool = False) -> Counter[tuple[str, str]]:
    """Number of answers by kind of data and status.

    `strict` leaves out thresholds that are ours, and data that our settings were fitted to.
    """
    result: Counter[tuple[str, str]] = Counter()
    for one in judged:
        claims = {claim.id: claim for claim in one.paper.claims}
        for answer in one.each:
            claim = claims[answer.claim]
            ours = claim.threshold.startswith("ours") or answer.file in claim.fitted
            if not (strict and ours):
                result[answer.kind, answer.status] += 1
    return result


def summarise(judged: Sequence[JudgedPaper]) -> str:
    """The counts of all papers in one line."""
    number, strict = count(judged), count(judged, strict=True)
    texts = []
    for kind in KINDS:
        words = _words([number[kind, status] for status in STATUSES])
        if words:
            texts.append(f"on {kind} {words}")
    rest = _words([sum(strict[kind, status] for kind in KINDS) for status in STATUSES])
    texts.append(f"of all these, where neither threshold nor fit is ours, {rest or 'none'}")
    return "; ".join(texts)


def _words(numbers: Sequence[int]) -> str:
    """Numbers of answers, in the order of `STATUSES`, in words."""
    one = ("holds", "does not", "is undecided", "cannot be decided")
    many = ("hold", "do not", "are undecided", "cannot be decided")
    pairs = zip(numbers, one, many, strict=True)
    return ", ".join(f"{n} {singular if n == 1 else plural}" for n, singular, plural in pairs if n)


def _counts(judged: Sequence[JudgedPaper]) -> str:
    rows = []
    for one in judged:
        number = count([one])
        for kind in KINDS:
            cells = [number[kind, status] for status in STATUSES]
            if any(cells):
                rows.append([one.paper.name, kind, *map(str, cells)])
    return table(["paper", "on", *STATUSES], rows)


def _caveats(judged: Sequence[JudgedPaper]) -> str:
    """Which answers say less than they seem to."""
    claims = [claim for one in judged for claim in one.paper.claims]
    late = ", ".join(claim.id for claim in claims if claim.threshold == "ours, after a look")
    fitted = ", ".join(f"{c.id} on {' and '.join(c.fitted)}" for c in claims if c.fitted)
    not_built = "; ".join(f"{claim.id}: {claim.not_built}" for claim in claims if claim.not_built)
    lines = [
        "- A threshold is *printed*, *derived* from what is printed or said, or *ours*. Those of "
        f"ours that were set with stored results in view: {late or 'none'}.",
        f"- Fitted, so that holding confirms nothing: {fitted or 'none'}.",
        f"- Not judged: {escape_markdown(not_built) or 'none'}.",
    ]
    return "\n".join(lines)


# --- one paper ---


def _paper(one: JudgedPaper) -> list[str]:
    heads = ["", "claim", "test", "in print", "answers", "command"]
    rows = [_row(one.paper, claim, one.answers[claim.id]) for claim in one.paper.claims]
    commands = one.paper.commands.items()
    lines = [line for name, command in commands for line in (f"# {name}", command)]
    return [f"## {one.paper.name}", table(heads, rows), _no_result(one), block("bash", lines)]


def _no_result(one: JudgedPaper) -> str:
    """What has no result: the paper's data that are not here, and contrasts that were not run."""
    here = {answer.file for answer in one.each}
    absent = [file for file in one.paper.theirs if file not in here]
    lacking = [
        f"{answer.claim} on {answer.file} ({answer.judged} of {answer.judged + answer.missing})"
        for answers in one.answers.values()
        for answer in answers
        if answer.status == NONE
    ]
    parts = [f"no claim on {', '.join(absent)}, which are not here"] if absent else []
    parts += [f"some contrasts not run: {', '.join(lacking)}"] if lacking else []
    return f"*No result*: {escape_markdown('; '.join(parts) or 'none missing')}."


def _row(paper: PaperClaims, claim: Claim, answers: Sequence[Answer]) -> list[str]:
    said = [answer for answer in answers if answer.status != NONE]
    said.sort(key=lambda answer: KINDS.index(answer.kind))
    return [
        claim.id,
        f"{escape_markdown(claim.says)} *{escape_markdown(claim.place)}*",
        f"{escape_markdown(claim.test)} ({claim.threshold})",
        _in_print(paper, claim),
        "<br>".join(_answer_text(answer, paper, claim) for answer in said) or claim.not_built,
        ", ".join(claim.commands),
    ]


def _in_print(paper: PaperClaims, claim: Claim) -> str:
    """Contrasts on the printed tables that agree, and the chance that runs of ours hold."""
    if claim.of_print:
        return ""
    lines = []
    for printed in paper.printed():
        result = on_paper(claim, printed)
        if result.printed:
            of_all = f" (of {result.contrasts})" * (result.printed < result.contrasts)
            count_ = f"{result.agreeing} of {result.printed}{of_all}"
            lines.append(f"{escape_markdown(printed.file)}: {count_}")
    chances = [chance_of(paper, claim, "", runs) for runs in RUNS]
    if not math.isnan(chances[0]):
        lines.append(f"chance {' / '.join(f'{value:.2f}' for value in chances)}")
    return "<br>".join(lines) or "no numbers"


def _answer_text(answer: Answer, paper: PaperClaims, claim: Claim) -> str:
    """One answer: file, status, contrasts that hold, and the one that decides."""
    runs = f"{answer.runs} run{'s' * (answer.runs > 1)}"
    status = f"{answer.status} with {runs}" if answer.status == TOO_FEW else answer.status
    kind = f" ({answer.kind})" if answer.kind not in ("printed numbers", "other data") else ""
    fitted = ", fitted" if answer.file in claim.fitted else ""
    of = f"{answer.holding} of {answer.judged + answer.missing}"
    missing = f", {answer.missing} not run" if answer.missing else ""
    start = f"{escape_markdown(answer.file)}{kind}: **{status}**{fitted} ({of}{missing})"
    if answer.status == HOLDS and answer.half == 0:  # computed, and as it should be
        return start
    digits = 1 if paper.unit else 3
    half = "" if math.isnan(answer.half) else f" ± {answer.half:.{digits}f}"
    effect = f"{format_signed(answer.effect, digits)}{half}"
    return f"{start}: {effect} {escape_markdown(answer.what)}, {runs}"
