"""The claims of Kemker et al. (2018)."""

from collections.abc import Iterator

from embedbench.papers.claim_table import ClaimTable
from embedbench.papers.claims import PaperClaims
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import read_misprints
from embedbench.papers.tables_of_results import make_row
from embedbench.reports.contrasts import Contrast
from embedbench.reports.results import Result, Results
from embedbench.scores.mean_intervals import Stat

FACTS = facts("kemker2018")
COLUMNS = {"omega_base": "Ω_base", "omega_new": "Ω_new", "omega_all": "Ω_all"}
GEPPNETS = ("GeppNet", "GeppNet+STM")
SECOND = {"CUB-200": "AudioSet", "AudioSet": "CUB-200"}  # the other one in the multi-modal rows
TWICE_CHANCE = {"CUB-200": 0.01, "AudioSet": 0.02, "emoji": 2 / 88, "spoken100": 0.02}
INCREMENTAL = {"table": "2", "protocol": "incremental-class"}
PERMUTATION = {"table": "2", "protocol": "permutation"}
MULTI_MODAL = {"table": "2", "protocol": "multi-modal"}


def printed_tables() -> list[ClaimTable]:
    """Tables 2, S6 and S7 by data set; no spread is printed, nor of how many runs they are."""
    misprints = read_misprints(FACTS, "2")
    rows: dict[str, list[Result]] = {}
    for row in FACTS["printed"]["tables"]["2"]:
        learner = FACTS["learners"][row["learner"]]["label"]
        file = FACTS["data_sets"][row["data"]]
        if row["protocol"] == "multi-modal":
            file = f"{file} / {SECOND[file]}"
        name = f"{row['protocol']}, {learner}, {file}"
        values = {}
        for key, column in COLUMNS.items():
            mean = misprints.get((name, column), {}).get("reads", row[key])
            values[column] = Stat.printed(mean, 1)
        labels = {"table": "2", "protocol": row["protocol"], "learner": learner}
        rows.setdefault(file, []).append(make_row(labels, values))
    rows["MNIST"] += _verifications()
    return [ClaimTable(Results(tuple(of_file)), file, file) for file, of_file in rows.items()]


def _verifications() -> list[Result]:
    """The rows of Tables S6 and S7, in percent of MNIST, with the labels of our tables."""
    printed, rows = FACTS["printed"]["tables"], []
    for row in printed["S6"]:
        learner = FACTS["learners"][row["learner"]]["label"]
        labels = {"table": "S6", "test": f"Inc-{row['class']}", "learner": learner}
        columns = FACTS["tables"]["S6"]["columns"]
        rows.append(make_row(labels, {column: Stat.printed(row[column], 1) for column in columns}))
    (share,) = FACTS["tables"]["S7"]["heads"]
    for row in printed["S7"]:
        labels = {"table": "S7", share: f"{row['share']:.2f}"}
        rows.append(make_row(labels, {"accuracy": Stat.printed(row["accuracy"], 1)}))
    return rows


CLAIMS = PaperClaims(
    "kemker2018",
    theirs=("MNIST", "CUB-200", "AudioSet", "CUB-200 / AudioSet", "AudioSet / CUB-200"),
    printed=printed_tables,
    trains=False,
    official={"Figure S1": "MNIST", "S6": "MNIST", "S7": "MNIST"},
    remark="As in the paper, test data could stop the training of MLP, EWC, FEL, PathNet and the "
    "offline reference (preset kemker; flag T), but for Figure S1.",
)


@CLAIMS.claim(
    "K2",
    "Supplement, Incremental Class Learning; Table 2",
    threshold="ours, after a look",
)
def mlp_and_ewc_fail(t: ClaimTable) -> Iterator[Contrast]:
    """MLP and EWC do not perform well on incremental class learning.

    Incremental class, MLP and EWC: Ω_base < .2 and Ω_all < .25.
    """
    for learner in ("MLP", "EWC"):
        yield t("Ω_base", INCREMENTAL, learner=learner).below(0.2)
        yield t("Ω_all", INCREMENTAL, learner=learner).below(0.25)


@CLAIMS.claim(
    "K5",
    "Supplement, Data Permutation; Table 2",
    threshold="ours, after a look",
    fitted=("MNIST",),
)
def geppnets_keep_the_base(t: ClaimTable) -> Iterator[Contrast]:
    """On permutations both GeppNets retain the original data and do not learn new data.

    Permutation, both GeppNets: Ω_base > .5, Ω_new < .25.
    """
    for learner in GEPPNETS:
        yield t("Ω_base", PERMUTATION, learner=learner).above(0.5)
        yield t("Ω_new", PERMUTATION, learner=learner).below(0.25)


@CLAIMS.claim("K6b", "Data Permutation Experiment; Table 2")
def pathnet_and_ewc(t: ClaimTable) -> Iterator[Contrast]:
    """On permutations PathNet is better than EWC on MNIST and AudioSet, and EWC on CUB-200.

    Permutation, Ω_all: PathNet less EWC > 0 on MNIST and AudioSet, < 0 on CUB-200, and on what
    stands in for them.
    """
    pathnet = t("Ω_all", PERMUTATION, learner="PathNet")
    difference = pathnet - t("Ω_all", PERMUTATION, learner="EWC")
    yield difference.below(0) if t.stands_for == "CUB-200" else difference.above(0)


@CLAIMS.claim("K7", "Multi-Modal Experiment; Table 2")
def ewc_learns_two_modalities(t: ClaimTable) -> Iterator[Contrast]:
    """Only EWC preserves the first modality and learns the second, in both orders.

    Multi-modal, Ω_all: EWC less each other learner > 0.
    """
    ewc = t("Ω_all", MULTI_MODAL, learner="EWC")
    for learner in ("MLP", "PathNet", *GEPPNETS, "FEL"):
        yield (ewc - t("Ω_all", MULTI_MODAL, learner=learner)).above(0)


@CLAIMS.claim("K8", "Table 2, multi-modal", threshold="ours, after a look")
def geppnets_miss_the_second(t: ClaimTable) -> Iterator[Contrast]:
    """Both GeppNets fail to learn the second modality.

    Multi-modal, both GeppNets: Ω_new < 2 × chance (.01 of 100 words, .0114 of 88 emoji).
    """
    second = t.file.rpartition(" / ")[2]
    for learner in GEPPNETS:
        omega = t("Ω_new", MULTI_MODAL, learner=learner)
        yield omega.below(TWICE_CHANCE.get(second, 0.01))


@CLAIMS.claim("K9", "Supplement, Data Permutation; Figure S2")
def fel_forgets_permutations(t: ClaimTable) -> Iterator[Contrast]:
    """FEL forgets permutations, and learns new ones worse than the MLP on all data sets.

    Permutation: MLP less FEL > 0 in Ω_base and in Ω_new.
    """
    for column in ("Ω_base", "Ω_new"):
        mlp = t(column, PERMUTATION, learner="MLP")
        yield (mlp - t(column, PERMUTATION, learner="FEL")).above(0)


@CLAIMS.claim("K11", "Table 2, model size", threshold="printed", of_print=True)
def model_sizes(t: ClaimTable) -> Iterator[Contrast]:
    """The models have the sizes of Table 2.

    18 sizes, computed by formula, equal the printed digits (two as corrected misprints).
    """
    yield from t.digits("MB as the paper counts", table="2 MB")


@CLAIMS.claim(
    "K12",
    "Supplement, feature redundancy; Table S9",
    threshold="printed",
    fitted=("MNIST",),
)
def redundant_features(t: ClaimTable) -> Iterator[Contrast]:
    """MNIST's features are redundant: 39 of 784 are not.

    The number of features kept has the printed digits.
    """
    yield from t.digits("features", table="S9")


@CLAIMS.claim("K14", "Supplement; Figure S1")
def past_validation_data_help(t: ClaimTable) -> Iterator[Contrast]:
    """Validation data of past sessions help EWC choose λ.

    Permuted MNIST, mean accuracy after 10 sessions: λ by all sessions' validation data less λ by
    the session's > 0.
    """
    past, own = "λ by all sessions' validation data", "λ by the session's validation data"
    figure = {"table": "Figure S1"}
    yield (t("after 10", {**figure, "λ": past}) - t("after 10", {**figure, "λ": own})).above(0)


@CLAIMS.claim("K15", "Conclusion; Tables 2, 3", threshold="ours, after a look")
def nobody_is_good_everywhere(t: ClaimTable) -> Iterator[Contrast]:
    """Catastrophic forgetting is not solved by any single method.

    Ω_all < .9 where the paper's means are low: MLP, EWC, FEL on incremental class, PathNet and
    GeppNets on permutation.
    """
    for learner in ("MLP", "EWC", "FEL"):
        yield t("Ω_all", INCREMENTAL, learner=learner).below(0.9)
    for learner in ("PathNet", *GEPPNETS):
        yield t("Ω_all", PERMUTATION, learner=learner).below(0.9)
