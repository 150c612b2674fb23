"""docs/claims.md: each claim of the papers with its answers, and how many of them hold."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from embedbench.errors import unknown
from embedbench.scores.number_text import format_signed
from embedbench.storage.atomic_write import write_safely
from embedbench.text.markdown import block, escape_markdown, table

from .claim_cells import PRINTED, collect_cells
from .claims import Claim, ClaimedPaper, load_claims
from .judge_claims import CANNOT, HOLDS, NOT, NOT_RUN, STATUSES, UNDECIDED, Answer, judge
from .paper_folders import names
from .result_files import read_results

GROUPS = ("printed numbers", "the papers' data", "other data")
ALL = "all"  # in the place of a paper's name
Judged = Sequence[tuple[Claim, Sequence[Answer]]]
INTRO = """\
# Claims: what five papers say, and whether it holds

Made by `embedbench reproduce all --claims --results docs/results/data --out docs` from \
[the committed results](results/data) and `embedbench/papers/claims.toml`; edit neither this page \
nor its data.

A claim is a sentence of a paper as a contrast with a threshold. Its answer on a file comes from \
the 95 % interval over seeds, paired by seed where both sides ran the same streams. **holds**: \
the interval is on the claim's side of the threshold; **does not hold**: on the other side; \
**undecided**: it includes the threshold, or there is one run. Of several contrasts each must \
hold, unless the test says that one is enough; the one with the least margin is printed, and in \
brackets how many hold. Intervals are not corrected for the number of claims: where nothing \
differs, one answer in twenty is wrong by chance. They cover seeds, not other test samples. \
*Effect that matters* is a difference that a reader would act on, in our judgement; it decides no \
answer. A command may name more seeds than were run: the answers say how many runs there were (of \
IIRC, configurations).

The files: `emoji` are drawings of 88 kinds through EfficientNet-Lite0, `spoken100` 100 spoken \
words (`spoken100h` with superclasses). `faces-a`, `faces-b`, `faces-deep` and `glyphs` are \
characters through a small transformer whose layers were trained to classify (aligned); \
`faces-plain` is the control without that. `noise-0` are characters through residual MLP blocks \
trained with input noise. [How each is made](fidelity.md#the-files), and how learning rates were \
chosen; [what the metrics mean](metrics.md).

*Commands on this page need: the files that they name, and minutes to hours; nothing of it runs in \
CI.*"""


def make_claims_page(
    directories: Sequence[Path], papers: Sequence[str]
) -> tuple[str, list[Answer]]:
    """The page of some papers, and its answers, from results in files and directories."""
    by_paper = {name: _judge_paper(directories, name) for name in papers}
    every = [pair for of_paper in by_paper.values() for pair in of_paper]
    parts = [
        INTRO,
        f"**In short**, answers to {len(every)} claims: {summarise(every)}.",
        _counts(by_paper),
        _caveats(every),
        *(part for name, judged in by_paper.items() for part in _paper(name, judged)),
    ]
    return "\n\n".join(parts) + "\n", [answer for _, answers in every for answer in answers]


def _judge_paper(directories: Sequence[Path], name: str) -> Judged:
    """The claims of a paper with their answers."""
    known, cells = load_claims(), collect_cells(read_results(directories, name))
    claims = (claim for claim in known.claims if claim.paper == name)
    return [(claim, judge(claim, known.papers[name], cells)) for claim in claims]


def write_claims(directories: Sequence[Path], papers: Sequence[str], out: Path) -> list[Answer]:
    """Write OUT/claims.md; return the answers."""
    text, answers = make_claims_page(directories, papers)
    out.mkdir(parents=True, exist_ok=True)
    write_safely(out / "claims.md", text)
    return answers


def find_papers(name: str) -> list[str]:
    """The name of the paper with this name or alias; every paper with claims for `ALL`."""
    full = {alias: of_folder[0] for of_folder in names().values() for alias in of_folder}
    papers = load_claims().papers
    if name != ALL and full.get(name) not in papers:
        raise unknown("paper with claims", name, [ALL, *(n for n in full if full[n] in papers)])
    return list(papers) if name == ALL else [full[name]]


def _group(answer: Answer) -> str:
    return GROUPS[0] if answer.file == PRINTED else GROUPS[1] if answer.of_paper else GROUPS[2]


def count(judged: Judged, *, strict: bool = False) -> Counter[tuple[str, str]]:
    """Number of answers by group of data and status; what is not here counts once a claim.

    `strict` leaves out thresholds that are ours, and data that our settings were fitted to.
    """
    result: Counter[tuple[str, str]] = Counter()
    for claim, answers in judged:
        if not (strict and claim.threshold == "ours"):
            some = [a for a in answers if not (strict and a.file in claim.fitted)]
            result.update((_group(a), a.status) for a in some if a.status != CANNOT)
            result.update({(_group(a), a.status) for a in some if a.status == CANNOT})
    return result


def summarise(judged: Judged) -> str:
    """The counts of all papers in one line."""
    number, strict = count(judged), count(judged, strict=True)
    parts = []
    for group in GROUPS:
        hold, fail, open_ = (number[group, status] for status in (HOLDS, NOT, UNDECIDED))
        none = number[group, NOT_RUN] + number[group, CANNOT]
        words = {"hold": hold, "do not": fail, "are undecided": open_, "have no result": none}
        parts.append(f"on {group} {', '.join(f'{n} {word}' for word, n in words.items() if n)}")
    hold, fail, open_ = (sum(strict[g, s] for g in GROUPS) for s in (HOLDS, NOT, UNDECIDED))
    parts.append(
        f"of all these, where neither threshold nor fit is ours, {hold} hold, {fail} do not, "
        f"{open_} are undecided"
    )
    return "; ".join(parts)


def _counts(by_paper: Mapping[str, Judged]) -> str:
    rows = []
    for name, judged in by_paper.items():
        number, strict = count(judged), count(judged, strict=True)
        for group in GROUPS:
            if any(number[group, s] for s in STATUSES):
                cells = [f"{number[group, s]} ({strict[group, s]})" for s in STATUSES]
                rows.append([name, group, *cells])
    return table(["paper", "on", *STATUSES], rows)


def _caveats(judged: Judged) -> str:
    """Which answers say less than they seem to."""
    late = ", ".join(claim.id for claim, _ in judged if claim.after_look)
    fitted = ", ".join(f"{c.id} on {' and '.join(c.fitted)}" for c, _ in judged if c.fitted)
    return "\n".join([
        "- Numbers count answers, a claim on one file; what is not here counts once a claim. In "
        "brackets: without thresholds that are ours, and without data that settings of ours were "
        "fitted to.",
        "- A threshold is *printed*, *derived* from what is printed or said, or *ours*. Those of "
        f"ours that were set with stored results in view: {late or 'none'}.",
        f"- Fitted, so that holding confirms nothing: {fitted or 'none'}.",
        f"- *{NOT_RUN}*: there is a command, and results of some contrast are missing. *{CANNOT}*: "
        "the data are not here, or no table has the numbers.",
    ])  # fmt: skip


def _paper(name: str, judged: Judged) -> list[str]:
    paper = load_claims().papers[name]
    heads = ["", "claim", "test", "answers", "effect that matters", "command"]
    rows = [_row(claim, paper, answers) for claim, answers in judged]
    lines = [f"# {key}\n{line}" for key, line in paper.commands.items()]
    commands = block("bash", "\n".join(lines).splitlines())
    return [f"## {name}", table(heads, rows), commands]


def _row(claim: Claim, paper: ClaimedPaper, answers: Sequence[Answer]) -> list[str]:
    unit = "" if claim.arithmetic else paper.unit
    absent = [escape_markdown(a.file) for a in answers if a.status == CANNOT]
    lines = [_answer(a, claim, unit) for a in answers if a.status != CANNOT]
    if absent:
        needs = f" ({escape_markdown(claim.needs)})" if claim.needs else ""
        lines.append(f"{', '.join(absent)}: {CANNOT}{needs}")
    threshold = claim.threshold + (", after a look" if claim.after_look else "")
    return [
        claim.id,
        f"{escape_markdown(claim.says)} *{escape_markdown(claim.place)}*",
        f"{escape_markdown(claim.test)} ({threshold})",
        "<br>".join(lines),
        f"{claim.matters:g}{unit and ' %'}",
        ", ".join(claim.command),
    ]


def _answer(answer: Answer, claim: Claim, unit: str) -> str:
    """One answer: file, status, contrasts that hold, and the one that decides."""
    fitted = ", fitted" if answer.file in claim.fitted else ""
    start = f"{escape_markdown(answer.file)}: **{answer.status}**{fitted}"
    if not answer.judged:
        return start
    of = f"{answer.holding} of {answer.judged + answer.missing}"
    more = f", {answer.missing} not run" if answer.missing else ""
    if answer.status == HOLDS and answer.half == 0:  # computed, and as it should be
        return f"{start} ({of}{more})"
    digits = 1 if unit else 3
    half = "" if math.isnan(answer.half) else f" ± {answer.half:.{digits}f}"
    effect = f"{format_signed(answer.effect, digits)}{half}"
    runs = f"{answer.runs} run{'s' if answer.runs > 1 else ''}"
    return f"{start} ({of}{more}): {effect} {escape_markdown(answer.what)}, {runs}"
