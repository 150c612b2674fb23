"""The plan of Kemker et al. (2018)."""

from dataclasses import replace

from embedbench.papers.plan import DataSet, Plan, PlannedWork, PreparedFile
from embedbench.papers.published import load_published
from embedbench.papers.sources import ASK, CUB200

DATA = ("mnist", "cub", "audioset")
# MNIST has 60,000, as other numbers of the paper imply; its Table 1 prints 50,000
TRAIN = {r["data"]: int(r["train"]) for r in load_published("kemker2018")["tables"]["1"]}
TRAIN["mnist"] = 60_000
SESSIONS = {"mnist": 6, "cub": 101, "audioset": 51}  # half of the classes, then one at a time
PERMUTED = 10  # sessions
MEAN = sum(TRAIN.values()) // len(DATA)
BOTH = TRAIN["cub"] + TRAIN["audioset"]
FIRST, LATER = 80_000, 20_000  # a GeppNet's steps in the first and in every other session
TOURNAMENTS = 300 * 2 * 50 * 16  # samples of a PathNet's session: at most so many contests
NET = "small network on embeddings, training"
SOM = "self-organising map on embeddings, one sample a step"
PATHNET = "PathNet on embeddings, batches of 16"


def _som(sessions: float) -> int:
    return round(FIRST + LATER * (sessions - 1))


MNIST = DataSet(
    name="MNIST",
    home="http://yann.lecun.com/exdb/mnist/",
    terms=ASK,
    layout="a folder mnist/ with the four IDX files as published, gzipped or not: "
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
    "t10k-labels-idx1-ubyte",
    classes=10,
    samples={"train": 60_000, "test": 10_000},
    digest="1a7dc8cfbc6bf2290ea85a0044ba38b549c648d7a20241bb2f43be99105b0679",
    made=(PreparedFile("mnist.h5", ("embedbench import mnist --out mnist.h5",), 784),),
)

CUB = replace(
    CUB200,
    made=(
        PreparedFile(
            "cub.h5",
            (
                "embedbench extract CUB_200_2011 --backbone resnet50.tv_in1k --size 224 "
                "--out cub.h5",
            ),
            2048,
        ),
    ),
)

AUDIOSET = DataSet(
    name="AudioSet's published frame embeddings (100 classes are chosen by import)",
    home="https://research.google.com/audioset/download.html",
    terms="CC-BY-4.0",
    layout="a folder audioset/ with audioset_v1_embeddings/ (its folders eval, bal_train and "
    "unbal_train of TFRecords), class_labels_indices.csv, ontology.json and qa_true_counts.csv. "
    "The samples below are the paper's, whose 100 classes are not published; ours are chosen by a "
    "rule, with at most 300 training and 43 to 62 test clips a class, so that the numbers differ "
    "a little",
    arrange=("mkdir -p audioset && tar xf features.tar.gz -C audioset",),
    classes=100,
    samples={"train": TRAIN["audioset"], "test": 5_523},
    made=(PreparedFile("audioset.h5", ("embedbench import audioset --out audioset.h5",), 1280),),
)

WORK = (
    PlannedWork(
        "ResNet-50 features of CUB-200", "ResNet-50, 224 px, forward", 11_788, 1, 1, False, False
    ),
    PlannedWork("MLP, EWC, FEL: permutation; 10 epochs is usual", NET, PERMUTED * MEAN, 10, 9),
    PlannedWork("MLP, EWC, FEL: incremental class; 10 epochs is usual", NET, MEAN, 10, 9),
    PlannedWork("MLP, EWC, FEL: multi-modal; 10 epochs is usual", NET, BOTH, 10, 6),
    PlannedWork("PathNet: permutation", PATHNET, PERMUTED * TOURNAMENTS, 1, 3),
    PlannedWork("PathNet: multi-modal", PATHNET, 2 * TOURNAMENTS, 1, 2),
    PlannedWork("GeppNet, +STM: permutation, on the CPU", SOM, _som(PERMUTED), 1, 6),
    PlannedWork(
        "GeppNet, +STM: incremental class, on the CPU",
        SOM,
        _som(sum(SESSIONS.values()) / len(DATA)),
        1,
        6,
    ),
    PlannedWork("GeppNet, +STM: multi-modal, on the CPU", SOM, _som(2), 1, 4),
    PlannedWork("Figure S1: EWC on permuted MNIST", NET, PERMUTED * TRAIN["mnist"], 5, 3),
    PlannedWork("Table S6: GeppNet, +STM on ten digits, on the CPU", SOM, _som(2), 1, 20),
    PlannedWork("Table S10: nets at the best capacity", NET, PERMUTED * MEAN, 10, 12),
    PlannedWork("Table S10: GeppNets at the best capacity, on the CPU", SOM, _som(101), 1, 8),
    PlannedWork("Table S10: the search for capacities", NET, MEAN, 10, 34, False, False),
    PlannedWork("references: the MLP on all data, five each", NET, MEAN, 200, 40, True, False),
)

PLAN = Plan(
    paper="kemker2018",
    data=(MNIST, CUB, AUDIOSET),
    work=WORK,
    commands=(
        "embedbench reproduce kemker2018 --data mnist=mnist.h5 --data cub=cub.h5 "
        "--data audioset=audioset.h5 --seeds {seeds} --jobs 8",
    ),
    back=("reproduce/kemker2018/kemker2018.json",),
    remarks=(
        "MNIST alone: give only --data mnist=mnist.h5 and --table 1 --table s1 --table s6 "
        "--table s7. With other tables and without CUB-200, 600 emoji stand in for it.",
        "The paper names ResNet-50 and ImageNet, and not whose weights. resnet50.tv_in1k are "
        "torchvision's first, which timm downloads; the file records their SHA-256.",
        "Few of these runs profit from a GPU: the networks are small, and the self-organising maps "
        "run on the CPU. --jobs 8 runs eight side by side; without a GPU, give --jobs the number "
        "of cores.",
        "A part first: --learner mlp,ewc --seeds 0 --table 2. Finished runs are kept.",
    ),
)
