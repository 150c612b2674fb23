"""The claims of Tang et al. (2024)."""

import itertools
from collections.abc import Iterator
from typing import Any

from embedbench.papers.claim_table import ClaimTable
from embedbench.papers.claims import PaperClaims
from embedbench.papers.paper_folders import facts
from embedbench.papers.tables_of_results import make_row
from embedbench.reports.contrasts import Contrast, Number
from embedbench.reports.results import Result, Results
from embedbench.scores.mean_intervals import Stat

PRINTED = facts("tang2024")["printed"]["tables"]
MINI, CUB, CIFAR = "miniImageNet", "CUB-200", "CIFAR-100"
METHODS = {MINI: "1", CUB: "2", CIFAR: "3"}  # the printed table of methods
LOSSES = {MINI: "5", CUB: "A8", CIFAR: "4"}  # and that of losses
COLUMNS = {"aacc": "aAcc", "gacc": "gAcc"}
MISALIGNED = ("faces-plain",)  # layers that FR cannot use
BASELINE = "prototype, the baseline"
STEPS = ("L_cos + L_NovCE", "L_cos + L_NovCE + L_CR", "all losses, mean of softmaxes")
WEIGHTS = ("the paper's weights", "the code's weights")


def fr(step: str, weights: str = WEIGHTS[0]) -> str:
    """What the table of losses calls FR with some losses."""
    return f"FR, {step}; {weights}"


def runs_table(data: str) -> str:
    """The table of methods with runs; of other data that of miniImageNet."""
    return f"{METHODS.get(data, METHODS[MINI])}, runs"


def printed_tables() -> list[ClaimTable]:
    """Tables 1 to 6 and A8; the paper prints no spread."""
    tables = []
    for data, number in METHODS.items():
        rows = []
        for row in PRINTED[number]:
            rows.append(_row({"table": runs_table(data), "method": row["method"]}, row))
        learners = (BASELINE, *(fr(step) for step in STEPS))
        for learner, row in zip(learners, PRINTED[LOSSES[data]], strict=True):
            rows.append(_row({"table": "Losses", "learner": learner}, row))
        if data == MINI:
            rows.append(_row({"table": "Layers", "features": "final, raw"}, PRINTED["5"][0]))
        for row in PRINTED["6"] if data == MINI else ():
            layer, _, kind = row["layer"].partition("-")
            kind = {"Raw": ", raw", "Recti": ", rectified", "": ""}[kind]
            rows.append(_row({"table": "Layers", "features": f"{layer.lower()}{kind}"}, row))
        tables.append(ClaimTable(Results(tuple(rows)), data, data))
    return tables


def _row(labels: dict[str, str], row: dict[str, Any]) -> Result:
    values = {column: Stat.printed(row[key], 1) for key, column in COLUMNS.items() if key in row}
    return make_row(labels, values)


CLAIMS = PaperClaims(
    "tang2024",
    theirs=(MINI, CUB, CIFAR),
    printed=printed_tables,
    unit="%",
    official={
        "mini-imagenet": MINI,
        "cub200": CUB,
        "cifar100": CIFAR,
        **{runs_table(data): data for data in METHODS},
    },
)


def gacc(t: ClaimTable, learner: str) -> Number:
    """gAcc in the table of losses."""
    return t("gAcc", table="Losses", learner=learner)


@CLAIMS.claim("T1", "Section 3.3; Tables A1 to A3", threshold="printed", of_print=True)
def corner_cases(t: ClaimTable) -> Iterator[Contrast]:
    """Lazy is near the state of the art by aAcc (65.5) and far below it by gAcc (49.9).

    Six means of the corner cases Lazy, Greedy and Greedy-NF, computed exactly, equal the printed
    digits.
    """
    yield from t.digits("aAcc", "gAcc", table=["A1", "A2", "A3"], after="mean")


@CLAIMS.claim("T2", "Section 5.2; Table 1, Figure 5", of_print=True)
def two_rankings(t: ClaimTable) -> Iterator[Contrast]:
    """aAcc and gAcc rank methods differently: CLOM is above C-FSCIL by aAcc, below it by gAcc.

    Printed numbers of Table 1: CLOM less C-FSCIL > 0 in aAcc, < 0 in gAcc.
    """
    gap = {
        column: t(column, table=runs_table(MINI), method="CLOM")
        - t(column, table=runs_table(MINI), method="C-FSCIL")
        for column in COLUMNS.values()
    }
    yield gap["aAcc"].exact.above(0)
    yield gap["gAcc"].exact.below(0)


@CLAIMS.claim("T3", "Section 4.2; Figure 3")
def layers_before_the_last(t: ClaimTable) -> Iterator[Contrast]:
    """Intermediate features are worse than the final ones on base classes, better on novel ones.

    After the last session, each layer less the final embedding: base < 0, novel > 0.
    """
    for features in t.labels("features", table="Layers"):
        if features.endswith(", raw") and features != "final, raw":
            base, novel = (
                t(column, table="Layers", features=features)
                - t(column, table="Layers", features="final, raw")
                for column in ("base, last", "novel, last")
            )
            yield base.below(0)
            yield novel.above(0)


@CLAIMS.claim("T4", "Section 5.3; Tables 4, 5, A8", threshold="ours", controls=MISALIGNED)
def fr_raises_gacc(t: ClaimTable) -> Iterator[Contrast]:
    """FR raises gAcc over its ViT baseline (by 4.33, 6.11 and 3.13) at equal aAcc.

    Files with aligned layers, FR less prototype, the paper's weights and the code's: gAcc > 0, aAcc
    within ±1.
    """
    for weights in WEIGHTS:
        learner = fr(STEPS[-1], weights)
        yield (gacc(t, learner) - gacc(t, BASELINE)).above(0)
        aacc = t("aAcc", table="Losses", learner=learner)
        yield from (aacc - t("aAcc", table="Losses", learner=BASELINE)).within(1)


@CLAIMS.claim("T5", "Section 5.3; Tables 4, 5, A8", controls=MISALIGNED)
def each_loss_adds(t: ClaimTable) -> Iterator[Contrast]:
    """Each loss adds gAcc: L_cos + L_NovCE 1.3 to 3.3, L_CR .4 to 1.1, L_IR .8 to 1.8.

    Files with aligned layers, gAcc under the paper's weights: each row of losses less the row above
    > 0.
    """
    learners = (BASELINE, *(fr(step) for step in STEPS))
    for before, after in itertools.pairwise(learners):
        yield (gacc(t, after) - gacc(t, before)).above(0)


@CLAIMS.claim("T6", "Section 5.3; Table 6", controls=MISALIGNED)
def fr_helps_every_layer(t: ClaimTable) -> Iterator[Contrast]:
    """FR helps every layer (by 2.2 to 3.5), and the ensemble is above each.

    Files with aligned layers, gAcc: rectified less raw > 0, ensemble less rectified > 0, each
    layer.
    """
    ensemble = t("gAcc", table="Layers", features="ensemble")
    for features in t.labels("features", table="Layers"):
        layer, _, kind = features.partition(", ")
        if kind == "rectified":
            rectified = t("gAcc", table="Layers", features=features)
            yield (rectified - t("gAcc", table="Layers", features=f"{layer}, raw")).above(0)
            yield (ensemble - rectified).above(0)


@CLAIMS.claim("T7", "Section 5.2; Tables 1 to 3", controls=MISALIGNED)
def fr_is_best(t: ClaimTable) -> Iterator[Contrast]:
    """FR is the best by gAcc; on miniImageNet and CIFAR-100 NC-FSCIL is next.

    Files with aligned layers, gAcc: FR less each of NC-FSCIL, ALICE, C-FSCIL > 0; on these two data
    sets NC-FSCIL less each of ALICE, C-FSCIL > 0.
    """
    table = runs_table(t.stands_for)
    others = ["NC-FSCIL", "ALICE", "C-FSCIL"]
    if t.stands_for == CUB:  # of which the paper has no C-FSCIL
        others.remove("C-FSCIL")
    known = {name: t("gAcc", table=table, method=name) for name in others}
    ours = t("gAcc", table=table, method=["YourSelf (Ours)", "Ours"])
    for name in others:
        yield (ours - known[name]).above(0)
    if t.stands_for in (MINI, CIFAR):
        for name in others[1:]:
            yield (known["NC-FSCIL"] - known[name]).above(0)


@CLAIMS.claim("T8", "Supplement; Figure A4", threshold="ours")
def weights_have_an_optimum(t: ClaimTable) -> Iterator[Contrast]:
    """gAcc rises and then falls with each weight of the losses.

    Each of β_cos, β_CR, β_IR: gAcc at .25 less gAcc at 0 > 0, less gAcc at 1 > 0.
    """
    for weight in ("β_cos", "β_CR", "β_IR"):
        low, middle, high = (
            t("gAcc", table="Figure A4", weight=weight, value=value) for value in ("0", "0.25", "1")
        )
        yield (middle - low).above(0)
        yield (middle - high).above(0)
