"""The plan of Abdelsalam et al. (2021)."""

from embedbench.papers.plan import Plan, PlannedWork
from embedbench.papers.sources import CIFAR100, IMAGENET

SMALL, LARGE = "ResNet-32, 32 px, training", "ResNet-50, 224 px, training"
# Training samples of all sessions, those that come again counted again; and without them. Table 1.
CIFAR, CIFAR_ONCE = 46_160, 40_000
FULL = 1_215_123
LITE = 333 / 1083  # share of the classes
SESSIONS = {"cifar": 22, "lite": 10, "full": 35}


def _growing(once: int, sessions: int) -> int:
    """Samples when every session has those of all before it."""
    return once * (sessions + 1) // 2


PLAN = Plan(
    paper="abdelsalam2021",
    data=(CIFAR100, IMAGENET),
    work=(
        PlannedWork("CIFAR: 13 variants, 10 class orders", SMALL, CIFAR, 140, 13 * 10),
        PlannedWork(
            "CIFAR: ER-infinite and incremental joint",
            SMALL,
            _growing(CIFAR_ONCE, SESSIONS["cifar"]),
            140,
            2 * 10,
        ),
        PlannedWork(
            "ImageNet-lite: 13 variants, 5 orders", LARGE, round(FULL * LITE), 100, 13 * 5, False
        ),
        PlannedWork(
            "ImageNet-lite: ER-infinite and incremental joint",
            LARGE,
            _growing(round(FULL * LITE), SESSIONS["lite"]),
            100,
            2 * 5,
            False,
        ),
    ),
    commands=(
        "embedbench reproduce abdelsalam2021 --data cifar=cifar100-32.h5 --seeds {seeds} "
        "--device cuda --jobs 1 --out reproduce/iirc-cifar",
        "embedbench reproduce abdelsalam2021 --data imagenet-lite=imagenet-224.h5 --seeds 0 "
        "--device cuda --jobs 1 --out reproduce/iirc-imagenet",
    ),
    back=("reproduce/iirc-cifar/iirc.json", "reproduce/iirc-imagenet/iirc.json"),
    remarks=(
        "A pixel file is run with the paper's networks and settings: ResNet-32 on CIFAR-100, "
        "ResNet-50 on ImageNet (the presets iirc-cifar-images and iirc-imagenet-images).",
        "The class orders are the published ones, ten and five; --set protocol.configuration=0-2 "
        "takes some. The paper's intervals are over the orders, one run each: --seeds 0.",
        "The first CIFAR session has twice the epochs. 140 and 100 epochs are the most.",
        "ImageNet is mapped from the disk, not held in memory: put the file on a local disk. "
        "A part first: --learner er,icarl-norm,lucir --table 6 --set protocol.configuration=0.",
        "ImageNet-full (35 sessions, Table 7) is the same file as --data imagenet-full=FILE and "
        "some three times the hours of ImageNet-lite for learners that keep few samples; for "
        "ER-infinite and incremental joint ten times.",
    ),
)
