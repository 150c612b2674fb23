"""The judge of claims on results made by hand: each status, conjunctions, print and power."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from embedbench.papers import judge_claims as judging
from embedbench.papers.claim_table import PRINTED, ClaimTable, OfRun
from embedbench.papers.claims import Claim, PaperClaims, load_claims, papers_with_claims
from embedbench.papers.judge_claims import (
    BACKBONE,
    HOLDS,
    NONE,
    NOT,
    OTHER,
    THEIRS,
    TOO_FEW,
    UNDECIDED,
    OnPaper,
)
from embedbench.papers.result_files import DataFile, PaperResults
from embedbench.papers.tables_of_results import make_row
from embedbench.reports.contrasts import Contrast, OneTest
from embedbench.reports.results import Results
from embedbench.scores.mean_intervals import Stat

HIGH, CLOSE, LOW = (0.90, 0.92, 0.94), (0.89, 0.90, 0.94), (0.10, 0.12, 0.13)
UNEVEN = (0.5, 0.9, 1.3)


def table(file: str = "emoji", /, **learners: Sequence[float]) -> ClaimTable:
    """One column, "Ω", of some learners with a value for each seed."""
    rows = [
        make_row({"table": "2", "learner": name}, {"Ω": value}, seed)
        for name, values in learners.items()
        for seed, value in enumerate(values)
    ]
    return ClaimTable(Results(tuple(rows)), file)


def printed_table(n: int, sd: float, **learners: float) -> ClaimTable:
    rows = [
        make_row({"table": "2", "learner": name}, {"Ω": Stat.printed(mean, n, sd=sd)}, None)
        for name, mean in learners.items()
    ]
    return ClaimTable(Results(tuple(rows)), "MNIST", "MNIST")


def a_above(*others: str) -> Callable[[ClaimTable], Iterator[Contrast]]:
    def contrasts(t: ClaimTable) -> Iterator[Contrast]:
        for other in others:
            yield (t("Ω", learner="a") - t("Ω", learner=other)).above(0)

    return contrasts


def judged(
    where: ClaimTable, *others: str, of: Sequence[ClaimTable] = (), **more: Any
) -> judging.Answer:
    """The answer to "a is above each of the others"."""
    paper = PaperClaims("p", ("MNIST",), printed=lambda: of)
    claim = Claim("C", "", "", "", a_above(*others), **more)
    (answer,) = judging.judge(paper, claim, [where], {})
    return answer


@pytest.mark.parametrize(
    ("b", "status"),
    [
        (LOW, HOLDS),
        ([x + 0.01 for x in HIGH], NOT),
        (UNEVEN, UNDECIDED),
        (HIGH, NOT),  # a tie
    ],
)
def test_one_contrast(b: Sequence[float], status: str) -> None:
    assert judged(table(a=HIGH, b=b), "b").status == status


def test_an_answer_has_the_flags_of_all_its_runs() -> None:
    """Those of both sides of each difference, in the order of reports."""
    flags = {"a": ("test-validation",), "b": ("test-validation", "few-steps"), "c": ("nan",)}
    rows = [
        make_row({"learner": name}, {"Ω": OfRun(value, flags[name])}, seed)
        for name, values in {"a": HIGH, "b": LOW, "c": LOW}.items()
        for seed, value in enumerate(values)
    ]
    answer = judged(ClaimTable(Results(tuple(rows)), "emoji"), "b")
    assert answer.flags == ("few-steps", "test-validation")


def test_one_seed_cannot_decide() -> None:
    assert judged(table(a=HIGH[:1], b=LOW[:1]), "b").status == TOO_FEW


def test_pairs_see_what_is_not_seen_apart() -> None:
    paired = table(a=(0.1, 0.5, 0.91), b=(0.0, 0.4, 0.8))
    apart = table(a=(0.1, 0.5, 0.91), c=(0.0, 0.4, 0.8))
    other_order = [make_row({"learner": "c", "order": "x"}, row.values, row.seed)
                   for row in apart.rows if row.learner == "c"]  # fmt: skip
    whole = ClaimTable(
        Results((*(r for r in apart.rows if r.learner == "a"), *other_order)), "emoji"
    )
    statuses = [judged(paired, "b").status, judged(whole, "c").status]
    assert statuses == [HOLDS, UNDECIDED]


def test_a_conjunction_needs_each() -> None:
    assert judged(table(a=HIGH, b=LOW, c=UNEVEN), "b", "c").status == UNDECIDED


def test_a_conjunction_fails_by_one_at_its_share_of_the_level() -> None:
    """0.05 ± 0.0248 at 2.5 % of three runs, ± 0.0358 at 1.25 %, ± 0.06 and more at 0.4 %."""
    above = table(a=(0.50, 0.50, 0.50), b=(0.54, 0.55, 0.56), c=LOW, d=LOW, e=LOW, f=LOW, g=LOW)
    statuses = [judged(above, "b", "c").status, judged(above, *"bcdefg").status]
    assert statuses == [NOT, UNDECIDED]


def test_the_half_width_is_the_one_that_was_compared_with() -> None:
    answer = judged(table(a=(0.50, 0.50, 0.50), b=(0.54, 0.55, 0.56), c=LOW), "b", "c")
    t = 6.205346816570  # t(0.9875, 2)
    assert answer.half == pytest.approx(t * 0.01 / math.sqrt(3))


def test_a_number_within_bounds_is_one_contrast_at_its_share_of_the_level() -> None:
    number = table(a=(0.54, 0.55, 0.56))("Ω", learner="a")
    assert OneTest(number.within(0.1)).numbers == 1


def test_one_that_is_enough_needs_its_share_of_the_level() -> None:
    """The mirror image of a conjunction."""
    above = table(a=(0.55, 0.56, 0.57), b=(0.51, 0.51, 0.51), c=HIGH, d=HIGH, e=HIGH, f=HIGH)
    statuses = [judged(above, *others, any_one=True).status for others in ("bc", "bcdef")]
    assert statuses == [HOLDS, UNDECIDED]


def test_one_that_is_enough_fails_if_all_fail() -> None:
    assert judged(table(a=LOW, b=HIGH, c=HIGH), "b", "c", any_one=True).status == NOT


def test_what_was_not_run_is_missing() -> None:
    answer = judged(table(a=HIGH, b=LOW), "b", "c")
    assert answer.status == NONE
    assert answer.judged == 1
    assert answer.missing == 1


def test_one_that_fails_is_enough_though_others_were_not_run() -> None:
    assert judged(table(a=LOW, b=HIGH), "b", "c").status == NOT


def test_the_contrast_of_the_least_margin_decides() -> None:
    assert judged(table(a=HIGH, b=LOW, c=(0.5, 0.51, 0.52)), "b", "c").what == "a − c, Ω"


def test_a_file_without_any_contrast_has_no_answer() -> None:
    paper = PaperClaims("p", ())
    claim = Claim("C", "", "", "", a_above("b"))
    assert judging.judge(paper, claim, [table(c=HIGH)], {}) == []


def test_a_claim_is_not_asked_of_its_controls() -> None:
    paper = PaperClaims("p", ())
    claim = Claim("C", "", "", "", a_above("b"), controls=("emoji",))
    assert judging.judge(paper, claim, [table(a=HIGH, b=LOW)], {}) == []


def test_a_number_that_is_not_drawn_needs_no_second_run() -> None:
    def exact(t: ClaimTable) -> Iterator[Contrast]:
        yield t("Ω", learner="a").exact.above(0)

    paper = PaperClaims("p", (), printed=lambda: [printed_table(10, 0.1, b=0.5)])
    (answer,) = judging.judge(paper, Claim("C", "", "", "", exact), [table(a=HIGH[:1])], {})
    assert answer.status == HOLDS


def test_a_claim_about_print_is_judged_on_print_alone() -> None:
    of_print = table(PRINTED, a=HIGH, b=LOW)
    paper = PaperClaims("p", ())
    claim = Claim("C", "", "", "", a_above("b"), of_print=True)
    answers = judging.judge(paper, claim, [of_print, table(a=HIGH, b=LOW)], {})
    assert [answer.file for answer in answers] == [PRINTED]


# --- the paper's own table, and power ---


@pytest.mark.parametrize(
    ("means", "result", "passes"),
    [
        ({"a": 0.9, "b": 0.5, "c": 0.6}, OnPaper(2, 2, 2), True),
        ({"a": 0.9, "b": 0.5, "c": 0.95}, OnPaper(1, 2, 2), False),
        ({"a": 0.9, "b": 0.5}, OnPaper(1, 1, 2), True),
        ({"a": 0.9, "b": 0.9}, OnPaper(0, 1, 2), False),
        ({"a": 0.9}, OnPaper(0, 0, 2), None),
    ],
)
def test_on_the_papers_own_table(means: Any, result: OnPaper, passes: bool | None) -> None:
    given = judging.on_paper(
        Claim("C", "", "", "", a_above("b", "c")), printed_table(10, 0.1, **means)
    )
    assert given == result
    assert given.passes == passes


def chance(sd: float, runs: int, **means: float) -> float:
    claim = Claim("C", "", "", "", a_above(*[name for name in means if name != "a"]))
    return judging.chance(claim, printed_table(10, sd, **means), runs)


def test_the_chance_of_a_true_claim_by_hand() -> None:
    """Paired differences of two independent runs: sd √2; the power of a t-test, noncentral t."""
    from scipy.stats import nct, t

    runs, gap = 5, 1.5
    exact = nct.sf(t.ppf(0.975, runs - 1), runs - 1, gap / math.sqrt(2) * math.sqrt(runs))
    assert chance(1.0, runs, a=gap, b=0.0) == pytest.approx(exact, abs=0.03)


def test_the_chance_falls_with_the_number_of_contrasts() -> None:
    one, three = chance(1.0, 5, a=1.5, b=0.0), chance(1.0, 5, a=1.5, b=0.0, c=0.0, d=0.0)
    assert three < one


def test_one_run_has_no_chance() -> None:
    assert chance(0.1, 1, a=1.0, b=0.0) == 0


def test_without_a_printed_spread_the_chance_is_unknown() -> None:
    assert math.isnan(chance(math.nan, 3, a=1.0, b=0.0))


def test_what_too_few_runs_would_miss_is_not_decided() -> None:
    """Even where the answer would be "does not hold": such a test could only refuse."""
    of = [printed_table(10, 1.0, a=0.5, b=0.0)]
    answer = judged(table(a=LOW, b=HIGH), "b", of=of)
    assert answer.status == TOO_FEW
    assert answer.chance < 0.5


def test_what_enough_runs_would_see_is_decided() -> None:
    answer = judged(table(a=HIGH, b=LOW), "b", of=[printed_table(10, 0.01, a=0.5, b=0.0)])
    assert answer.status == HOLDS
    assert answer.chance > 0.99


def test_many_tables_are_judged_as_each_alone() -> None:
    rng = np.random.default_rng(0)
    from embedbench.reports.contrasts import Number

    values = rng.normal(1.0, 1.0, (50, 2, 4))
    many = OneTest([Number.of_runs("", range(4), values[:, k], "").above(0) for k in range(2)])
    alone = [
        OneTest([Number.of_runs("", range(4), one[k], "").above(0) for k in range(2)])
        for one in values
    ]
    assert many.holds.tolist() == [bool(test.holds) for test in alone]


# --- kinds of data ---


def kinds(*files: DataFile, trains: bool) -> dict[str, str]:
    paper = PaperClaims("masana2020", ("CIFAR-100",), trains=trains)
    results = PaperResults("masana2020", "", "", {}, (0,), files, (), ())
    return judging.find_kinds(paper, {"a": results})


CIFAR = {"samples": "2473e71d333dd933407a4fcb33f987d5d0db757a4af6cdcdff150667f91110fe"}


@pytest.mark.parametrize(
    ("pixels", "trains", "kind"),
    [(True, True, THEIRS), (None, True, BACKBONE), (None, False, THEIRS)],
)
def test_data_by_their_official_name(pixels: bool | None, trains: bool, kind: str) -> None:
    file = DataFile("images.h5", CIFAR, pixels)
    assert kinds(file, trains=trains)["CIFAR-100"] == kind


def test_data_by_the_digest_of_their_samples() -> None:
    assert kinds(DataFile("mine.h5", CIFAR), trains=True)["mine"] == BACKBONE


def test_other_data_have_no_entry() -> None:
    assert kinds(DataFile("mine.h5", {"samples": "0"}), trains=True).get("mine", OTHER) == OTHER


# --- the claims of the papers ---


@pytest.mark.parametrize("name", papers_with_claims())
def test_no_claim_fails_on_its_own_table(name: str) -> None:
    paper = load_claims(name)
    failing = [
        f"{claim.id} on {table.file}"
        for claim in paper.claims
        for table in paper.printed()
        if judging.on_paper(claim, table).passes is False
    ]
    assert failing == []


PERMUTATION = {"table": "2", "protocol": "permutation"}
INCREMENTAL = {"table": "2", "protocol": "incremental-class"}
LEARNERS = ("MLP", "EWC", "PathNet", "GeppNet", "GeppNet+STM", "FEL")


def geppnet_wins(t: ClaimTable) -> Iterator[Contrast]:
    stm = t("Ω_all", INCREMENTAL, learner="GeppNet+STM")
    yield (t("Ω_all", INCREMENTAL, learner="GeppNet") - stm).above(0)


def pathnet_and_ewc_lead(t: ClaimTable) -> Iterator[Contrast]:
    for leader in ("PathNet", "EWC"):
        for other in ("MLP", "GeppNet", "GeppNet+STM", "FEL"):
            gap = t("Ω_all", PERMUTATION, learner=leader) - t("Ω_all", PERMUTATION, learner=other)
            yield gap.above(0)


def icarl_above_lwf(t: ClaimTable) -> Iterator[Contrast]:
    for order in t.labels("order"):
        gap = [t("after the last", learner=name, order=order) for name in ("iCaRL", "LwF")]
        yield (gap[0] - gap[1]).above(0)


@pytest.mark.parametrize(
    ("name", "contrasts", "fails_on"),
    [
        ("kemker2018", geppnet_wins, ["CUB-200"]),  # K3
        ("kemker2018", pathnet_and_ewc_lead, ["AudioSet"]),  # K6a
        ("masana2020", icarl_above_lwf, ["CIFAR-100"]),  # O5
    ],
)
def test_what_left_the_list_fails_on_its_own_table(
    name: str, contrasts: Any, fails_on: list[str]
) -> None:
    claim = Claim("C", "", "", "", contrasts)
    tables = load_claims(name).printed()
    assert [t.file for t in tables if judging.on_paper(claim, t).passes is False] == fails_on


def test_k1_fails_on_its_own_table() -> None:
    """EWC on permutations: .762 on CUB-200, .746 on MNIST."""
    by_file = {table.file: table for table in load_claims("kemker2018").printed()}
    cub, mnist = (by_file[f]("Ω_all", PERMUTATION, learner="EWC") for f in ("CUB-200", "MNIST"))
    assert (cub - mnist).below(0).margin == pytest.approx(-0.016)


@pytest.mark.parametrize(
    ("id_", "runs", "most"),
    [("O2", 3, 0.003), ("O2", 10, 0.08), ("O4", 10, 0.08), ("O6", 10, 0.08)],
)
def test_what_masana_cannot_decide(id_: str, runs: int, most: float) -> None:
    paper = load_claims("masana2020")
    (claim,) = (claim for claim in paper.claims if claim.id == id_)
    assert judging.chance(claim, paper.printed()[0], runs) <= most
