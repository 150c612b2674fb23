"""The claims of Abdelsalam et al. (2021)."""

import itertools
from collections.abc import Iterator

from embedbench.papers.claim_table import LAST, ClaimTable
from embedbench.papers.claims import PaperClaims
from embedbench.papers.paper_folders import facts
from embedbench.papers.tables_of_results import PERFORMANCE, make_row
from embedbench.reports.contrasts import Contrast, Number, mean_of
from embedbench.reports.results import Results
from embedbench.scores.mean_intervals import Stat

FACTS = facts("abdelsalam2021")
OFFICIAL = FACTS["official"]
LABELS = {name: about["label"] for name, about in FACTS["learners"].items()} | {"joint": "joint"}
SCORES = {"table": [about["table"] for about in OFFICIAL.values()]}
ICARL = ("iCaRL-CNN", "iCaRL-norm")
INCREMENTAL = ("ER-infinite", "ER", "A-GEM", *ICARL, "LUCIR", "BiC", "finetune")
AFTER_10 = ", after 10"  # of the moment of Figure 6


def printed_tables() -> list[ClaimTable]:
    """Tables 5 to 7: means and standard deviations over the task configurations."""
    tables = []
    for about in OFFICIAL.values():
        rows = sorted(FACTS["printed"]["tables"][about["table"]], key=lambda row: row["task"])
        learners = dict.fromkeys(itertools.chain(*[row["pw_js"] for row in rows]))
        made = []
        for name in learners:
            curve: list[Stat | float] = []
            for row in rows:
                mean, sd = (row[what].get(name, float("nan")) for what in ("pw_js", "sd"))
                curve.append(Stat.printed(mean, about["configurations"], sd=sd))
            labels = {"table": about["table"], "learner": LABELS[name]}
            made.append(make_row(labels, {}, None, {PERFORMANCE: curve}))
        tables.append(ClaimTable(Results(tuple(made)), about["label"], about["label"]))
    return tables


CLAIMS = PaperClaims(
    "abdelsalam2021",
    theirs=[about["label"] for about in OFFICIAL.values()],
    printed=printed_tables,
    official={
        **{name: about["label"] for name, about in OFFICIAL.items()},
        **{about["table"]: about["label"] for about in OFFICIAL.values()},
    },
)


def in_the_end(t: ClaimTable, learner: str) -> Number:
    """pw-JS after the last session."""
    return t(PERFORMANCE, SCORES, learner=learner, at=LAST)


def measure(t: ClaimTable, column: str, learner: str) -> Number:
    """A number that the paper shows in a figure."""
    return t(column, table="Measures", learner=learner)


@CLAIMS.claim("I1", "Section 6.1; Table 5, Figures 3, 4")
def joint_is_above_all(t: ClaimTable) -> Iterator[Contrast]:
    """Joint and incremental joint training are above every incremental learner.

    pw-JS after the last session: each joint less each other learner > 0.
    """
    for joint in ("joint", "incremental joint"):
        for other in INCREMENTAL:
            yield (in_the_end(t, joint) - in_the_end(t, other)).above(0)


@CLAIMS.claim("I2", "Section 6.1; Figure 4", threshold="ours, after a look")
def keeping_all_is_not_enough(t: ClaimTable) -> Iterator[Contrast]:
    """Keeping every sample is not enough: ER-infinite stays below incremental joint.

    pw-JS after the last session: incremental joint less ER-infinite > .05.
    """
    yield (in_the_end(t, "incremental joint") - in_the_end(t, "ER-infinite")).above(0.05)


@CLAIMS.claim("I3", "Section 6.1; Figures 3, 4")
def icarl_is_better(t: ClaimTable) -> Iterator[Contrast]:
    """iCaRL-CNN and iCaRL-norm perform relatively better than the other methods.

    Mean pw-JS over the sessions after the first: each iCaRL less each of ER, LUCIR, A-GEM > 0.
    """
    means = {}
    for learner in (*ICARL, "ER", "LUCIR", "A-GEM"):
        later = t.curve(PERFORMANCE, **SCORES, learner=learner)[1:]
        means[learner] = mean_of(learner, later) if later else Number.missing(learner)
    for icarl in ICARL:
        for other in ("ER", "LUCIR", "A-GEM"):
            yield (means[icarl] - means[other]).above(0)


@CLAIMS.claim("I4", "Section 6.1; Figure 3")
def agem_is_below_er(t: ClaimTable) -> Iterator[Contrast]:
    """A-GEM performs poorly on IIRC-CIFAR, even when compared to vanilla ER.

    pw-JS after the last session: ER less A-GEM > 0.
    """
    yield (in_the_end(t, "ER") - in_the_end(t, "A-GEM")).above(0)


@CLAIMS.claim("I5", "Section 6.1; Figures 6c, A.15")
def icarl_gives_too_many_labels(t: ClaimTable) -> Iterator[Contrast]:
    """The iCaRL family usually predicts more labels, some of which are incorrect.

    After session 10, as Figure 6, each iCaRL: labels given for each true one > 1.
    """
    for learner in ICARL:
        yield measure(t, f"labels given for each true one{AFTER_10}", learner).above(1)


@CLAIMS.claim("I6", "Section 6.1; Figure 6b", threshold="ours")
def er_answers_the_newest(t: ClaimTable) -> Iterator[Contrast]:
    """ER's predictions always lie within the newly learned labels.

    After session 10, as Figure 6: share of the newest session's labels in all that ER gives > .5.
    """
    yield measure(t, f"newest labels in all given{AFTER_10}", "ER").above(0.5)


@CLAIMS.claim("I7", "Section 6.1; Figure 5", threshold="ours")
def lucir_stops_learning(t: ClaimTable) -> Iterator[Contrast]:
    """LUCIR retains the labels of previous tasks and is not able to learn those of new ones.

    Mean R_jj over the second half of the sessions: LUCIR less half of ER's < 0.
    """
    yield (measure(t, "R_jj, late", "LUCIR") - 0.5 * measure(t, "R_jj, late", "ER")).below(0)


@CLAIMS.claim("I8", "Section 6.1; Figure 5")
def regularised_learn_less(t: ClaimTable) -> Iterator[Contrast]:
    """The less a model is regularized, the higher it can perform on the current task.

    Mean R_jj over the second half of the sessions: finetune > ER > each iCaRL > LUCIR.
    """
    learners = ("finetune", "ER", *ICARL, "LUCIR")
    late = {learner: measure(t, "R_jj, late", learner) for learner in learners}
    yield (late["finetune"] - late["ER"]).above(0)
    for icarl in ICARL:
        yield (late["ER"] - late[icarl]).above(0)
        yield (late[icarl] - late["LUCIR"]).above(0)


@CLAIMS.claim("I9", "Appendix D.3; Figures A.12, A.13", threshold="ours, after a look")
def subclasses_are_less_precise(t: ClaimTable) -> Iterator[Contrast]:
    """Together the learners are less precise on subclasses under a superclass than on others.

    After the last session, mean over the learners but finetune, which gives no subclass without a
    superclass: precision of subclasses under a superclass less that of the others < 0.
    """
    learners = [*(name for name in INCREMENTAL if name != "finetune"), "incremental joint"]
    under, alone = (
        [measure(t, f"precision, subclasses {which}", learner) for learner in learners]
        for which in ("under superclasses", "without superclass")
    )
    yield (mean_of("under superclasses", under) - mean_of("without", alone)).below(0)


@CLAIMS.claim("I10", "Appendix E; Figures A.27, A.28", threshold="ours")
def buffers_help_er(t: ClaimTable) -> Iterator[Contrast]:
    """A larger buffer helps ER, but 100 exemplars a class stay far below joint training.

    pw-JS in the end: ER 20 less ER 5, ER 100 less ER 20 > 0; ER 100 less joint < -.1.
    """
    few, usual, many = (
        t("pw-JS in the end", table="Figures A.27, A.28", learner=f"ER {k}") for k in (5, 20, 100)
    )
    yield (usual - few).above(0)
    yield (many - usual).above(0)
    yield (many - in_the_end(t, "joint")).below(-0.1)


@CLAIMS.claim("I11", "Tables 1 to 3", threshold="printed", of_print=True)
def sizes_of_the_data(t: ClaimTable) -> Iterator[Contrast]:
    """The data sets have the classes and samples of Tables 1 to 3.

    21 numbers, counted from the published hierarchies, equal the printed ones.
    """
    taught = ("train", "in-task validation")
    twice = [f"{name}, with duplicates" for name in taught]
    held = ("post-task validation", "test")
    yield from t.digits(*taught, *twice, *held, table="1", data="IIRC-CIFAR")
    classes = ("superclasses", "subclasses under superclasses", "subclasses without superclass")
    yield from t.digits(*classes, "total", table="2")
    yield from t.digits("subclass size", "subclasses", "superclass size", table="3")
