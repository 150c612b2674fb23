"""The plan of Masana et al. (2020)."""

from embedbench.papers.plan import Plan, PlannedWork
from embedbench.papers.sources import CIFAR100

NET = "ResNet-32, 32 px, training"
TRAIN = 45_000  # a tenth of the training images is for validation

PLAN = Plan(
    paper="masana2020",
    data=(CIFAR100,),
    work=(
        PlannedWork("eight orders, seven learners, ten sessions", NET, TRAIN, 200, 8 * 7),
        PlannedWork("all classes at once, for Figure 1", NET, TRAIN, 200, 1, False),
    ),
    commands=(
        "embedbench reproduce masana2020 --data cifar100=cifar100-32.h5 --seeds {seeds} "
        "--device cuda --jobs 1",
    ),
    back=("reproduce/class-orderings/class-orderings.json",),
    remarks=(
        "The name cifar100= says that the file is the paper's own data: its five orders by "
        "confusion are then the published ones, the coarse order that of CIFAR-100's superclasses, "
        "and the settings the preset class-orderings-images (ResNet-32, SGD, patience).",
        "The paper has ten runs a cell: --seeds 0-9. Its λ and temperatures were tuned; ours are "
        "the learners' defaults, and --set lwf.lam=2 changes one.",
        "200 epochs a session is the most; the learning rate usually ends training at 70 to 120. "
        "Exemplars, 20 for each class seen, come on top: at most 2,000 a session.",
        "On a large GPU --jobs 4 runs four cells side by side; it changes no answer. --learner "
        "lwf,icarl --table 1 makes a part.",
    ),
)
