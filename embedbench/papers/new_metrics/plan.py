"""The plan of Michel et al. (2023)."""

from embedbench.papers.plan import Plan, PlannedWork
from embedbench.papers.sources import CIFAR100, TINY_IMAGENET

SMALL = "ResNet-18, 32 px, training in batches of 74"
LARGE = "ResNet-18, 64 px, training in batches of 74"
REPLAYED = 74 / 10  # images in a step, of which ten are new: 64 come from the memory
MEMORY, EPOCHS = 2000, 30  # GDumb trains anew before every evaluation
CIFAR, TINY = 45_000, 90_000  # a tenth of the training images is for validation

PLAN = Plan(
    paper="michel2023",
    data=(CIFAR100, TINY_IMAGENET),
    work=(
        PlannedWork("CIFAR-100, 10 sessions: ER", SMALL, CIFAR, REPLAYED),
        PlannedWork("CIFAR-100, 10 sessions: Finetune", SMALL, CIFAR, 1),
        PlannedWork("CIFAR-100, 10 sessions: GDumb", SMALL, 10 * MEMORY, EPOCHS),
        PlannedWork("Tiny ImageNet, 100 sessions: ER", LARGE, TINY, REPLAYED),
        PlannedWork("Tiny ImageNet, 100 sessions: Finetune", LARGE, TINY, 1),
        PlannedWork("Tiny ImageNet, 100 sessions: GDumb", LARGE, 100 * MEMORY, EPOCHS),
    ),
    commands=(
        "embedbench reproduce michel2023 --data cifar100-32.h5 --set protocol.sessions=10 "
        "--seeds {seeds} --device cuda --jobs 1 --out reproduce/new-metrics-cifar100",
        "embedbench reproduce michel2023 --data tiny-imagenet-64.h5 --set protocol.sessions=100 "
        "--seeds {seeds} --device cuda --jobs 1 --out reproduce/new-metrics-tiny",
    ),
    back=(
        "reproduce/new-metrics-cifar100/new-metrics.json",
        "reproduce/new-metrics-tiny/new-metrics.json",
    ),
    remarks=(
        "A pixel file is run with the preset online-images: a ResNet-18 without pooling before it, "
        "batches of 10, each image once, and a memory of 2,000 samples. The paper gives neither "
        "network nor optimiser; these are from its authors' later code.",
        "The paper's text has 10 and 100 sessions, its captions say K = 5: these commands follow "
        "the text. It prints curves and no numbers, so its sentences are what can be checked.",
        "Tables 1 and 2 and Figure 2 are exact and need no data.",
    ),
)
