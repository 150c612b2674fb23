"""The claims of Masana et al. (2020)."""

from collections.abc import Iterator

from embedbench.papers.claim_table import ClaimTable
from embedbench.papers.claims import PaperClaims
from embedbench.papers.paper_folders import facts
from embedbench.papers.tables_of_results import make_row
from embedbench.reports.contrasts import Contrast, Number, spread_of
from embedbench.reports.results import Result, Results
from embedbench.scores.mean_intervals import Stat

FACTS = facts("masana2020")
DATA = "CIFAR-100"
RUNS = 10  # of each printed mean
COLUMNS = {2: "after 2", 5: "after 5", 10: "after the last"}
WITH_EXEMPLARS = ("LwF", "iCaRL", "BiC", "LUCIR", "IL2M")
WITHOUT = ("FT", "LwF, no exemplars")
ORDERS = ("Random", "iCaRL seed", "maxConf", "minConf", "decTaskConf", "eqTaskConf", "incTaskConf")
# Of each learner the order that ends best in Table 1, and the one that ends worst; of those without
# exemplars, of which Figure 4 has curves, two that the text names.
EXTREMES = {
    "FT": ("minConf", "maxConf"),
    "LwF, no exemplars": ("minConf", "maxConf"),
    "LwF": ("maxConf", "Random"),
    "iCaRL": ("maxConf", "decTaskConf"),
    "BiC": ("minConf", "decTaskConf"),
    "LUCIR": ("eqTaskConf", "Random"),
    "IL2M": ("maxConf", "minConf"),
}


def printed_tables() -> list[ClaimTable]:
    """Table 1: means and standard deviations of ten runs."""
    values: dict[tuple[str, str], dict[str, Stat]] = {}
    for row in FACTS["printed"]["tables"]["1"]:
        learner = FACTS["learners"][row["learner"]]["label"]
        for kind, mean in row["accuracy"].items():
            stat = Stat.printed(mean, RUNS, sd=row["sd"][kind])
            values.setdefault((learner, FACTS["orders"][kind]), {})[COLUMNS[row["task"]]] = stat
    rows: list[Result] = []
    for (learner, order), columns in values.items():
        rows.append(make_row({"table": "1", "learner": learner, "order": order}, columns))
    return [ClaimTable(Results(tuple(rows)), DATA, DATA)]


CLAIMS = PaperClaims(
    "masana2020",
    theirs=(DATA,),
    printed=printed_tables,
    unit="%",
    official={"1": DATA, "cifar100": DATA},
)


def in_the_end(t: ClaimTable, learner: str, order: str) -> Number:
    """The accuracy after the last session."""
    return t("after the last", table="1", learner=learner, order=order)


@CLAIMS.claim("O1", "Section 5; Table 1, Figure 4", any_one=True)
def orders_matter(t: ClaimTable) -> Iterator[Contrast]:
    """For a single method the spread between the most extreme orderings can be significant.

    After the last session, one of seven learners is enough: the best order in print less the
    worst > 0 (without exemplars minConf less maxConf).
    """
    for learner, (best, worst) in EXTREMES.items():
        yield (in_the_end(t, learner, best) - in_the_end(t, learner, worst)).above(0)


@CLAIMS.claim("O2", "Section 4; Table 1")
def first_sessions_by_confusion(t: ClaimTable) -> Iterator[Contrast]:
    """After two sessions decTaskConf has the lowest performance and incTaskConf the best.

    After 2 sessions, each of five learners: incTaskConf less each other order > 0, decTaskConf less
    each other < 0; coarse only where the data have superclasses.
    """
    coarse = ["coarse"] if "coarse" in t.labels("order", table="1") else []
    for learner in WITH_EXEMPLARS:
        after = {
            order: t("after 2", table="1", learner=learner, order=order)
            for order in (*ORDERS, *coarse)
        }
        easiest, hardest = after.pop("incTaskConf"), after.pop("decTaskConf")
        for other in after.values():
            yield (easiest - other).above(0)
            yield (hardest - other).below(0)
        yield (easiest - hardest).above(0)


@CLAIMS.claim("O3", "Section 4; Figure 4")
def random_ends_well_without_exemplars(t: ClaimTable) -> Iterator[Contrast]:
    """Without exemplars Random, iCaRL seed and minConf provide a better performance in the end.

    After the last session, FT and LwF without exemplars: each of the three less maxConf and less
    incTaskConf > 0.
    """
    for learner in WITHOUT:
        for good in ("Random", "iCaRL seed", "minConf"):
            for bad in ("maxConf", "incTaskConf"):
                yield (in_the_end(t, learner, good) - in_the_end(t, learner, bad)).above(0)


@CLAIMS.claim("O4", "Abstract, Section 4; Table 1")
def rankings_change(t: ClaimTable) -> Iterator[Contrast]:
    """The ranking of methods changes with the order: iCaRL, LwF, LUCIR on Random and decTaskConf.

    After the last session, iCaRL less each of LwF, LUCIR: > 0 on Random, < 0 on decTaskConf.
    """
    for other in ("LwF", "LUCIR"):
        on_random = in_the_end(t, "iCaRL", "Random") - in_the_end(t, other, "Random")
        on_hard = in_the_end(t, "iCaRL", "decTaskConf") - in_the_end(t, other, "decTaskConf")
        yield on_random.above(0)
        yield on_hard.below(0)


@CLAIMS.claim("O6", "Section 4; Table 1")
def bic_and_il2m_are_robust(t: ClaimTable) -> Iterator[Contrast]:
    """BiC and IL2M are the most robust to the order, and LwF is the least.

    After the last session, standard deviation over the orders: BiC and IL2M less each of LwF,
    iCaRL, LUCIR < 0; LwF less each of iCaRL, LUCIR > 0.
    """
    spread = {}
    for learner in WITH_EXEMPLARS:
        orders = t.labels("order", table="1", learner=learner)
        each = [in_the_end(t, learner, order) for order in orders]
        measured = [number for number in each if number.runs]
        few = len(measured) < 2
        spread[learner] = Number.missing(learner) if few else spread_of(learner, measured)
    for robust in ("BiC", "IL2M"):
        for other in ("LwF", "iCaRL", "LUCIR"):
            yield (spread[robust] - spread[other]).below(0)
    for other in ("iCaRL", "LUCIR"):
        yield (spread["LwF"] - spread[other]).above(0)
