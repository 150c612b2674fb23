"""The plan of Tang et al. (2024)."""

from dataclasses import replace

from embedbench.papers.plan import Plan, PlannedWork, PreparedFile
from embedbench.papers.sources import CIFAR100, CUB200, MINI_IMAGENET

TRAINING = "ViT of 12 blocks and 145 tokens, training"
FORWARD = "ViT of 12 blocks and 145 tokens, forward"
NET = "small network on embeddings, training"
DRAWS = 600  # draws a class and epoch of FR
BASE = 27_000  # 60 classes of 500 images, a tenth of which is for validation


def _seen(base: int, way: int, sessions: int) -> int:
    """Classes seen, summed over the sessions."""
    return sum(base + way * later for later in range(sessions))


def _trained(
    name: str, source: str, pixels: int, trunk: str, blocks: str
) -> tuple[PreparedFile, ...]:
    """A pixel file, and the embeddings of a ViT that is trained on its base session."""
    images, weights = f"{name}-{pixels}.h5", f"{name}-base.safetensors"
    return (
        PreparedFile(
            images,
            (f"embedbench extract {source} --backbone none --size {pixels} --out {images}",),
            pixels * pixels * 3,
            1,
        ),
        PreparedFile(
            f"{name}-vit.h5",
            (
                f"embedbench pretrain {images} --protocol fscil --set protocol.lists={name} "
                f"--trunk {trunk} --head cosine --device cuda --out {weights}",
                f"embedbench extract {source} --backbone {trunk} --weights {weights} "
                f"--layers {blocks} --out {name}-vit.h5",
            ),
            4 * 256,
        ),
    )


CIFAR = replace(
    CIFAR100,
    made=_trained(
        "cifar100", "torch/cifar100", 36, "vit_fscil_patch3_36", "block-7,block-8,block-9"
    ),
)
MINI = replace(
    MINI_IMAGENET,
    made=_trained(
        "mini-imagenet", "mini-imagenet", 96, "vit_fscil_patch8_96", "block-8,block-9,block-10"
    ),
)
CUB = replace(
    CUB200,
    made=(
        PreparedFile(
            "cub200-vit.h5",
            (
                "embedbench extract CUB_200_2011 --backbone deit_small_patch16_224.fb_in1k "
                "--layers block-8,block-9,block-10 --out cub200-vit.h5",
            ),
            4 * 384,
        ),
    ),
)

PLAN = Plan(
    paper="tang2024",
    data=(CIFAR, MINI, CUB),
    work=(
        PlannedWork("two ViTs on their base sessions", TRAINING, BASE, 300, 2, False, False),
        PlannedWork("embeddings of CIFAR-100, miniImageNet", FORWARD, 60_000, 1, 2, False, False),
        PlannedWork(
            "embeddings of CUB-200", "ViT-S/16, 224 px, forward", 11_788, 1, 1, False, False
        ),
        PlannedWork("FR: CIFAR-100, miniImageNet", NET, DRAWS * _seen(60, 5, 9), 100, 2),
        PlannedWork("FR: CUB-200", NET, DRAWS * _seen(100, 10, 11), 100, 1),
        PlannedWork(
            "nine other learners, three data sets; 100 epochs is much", NET, BASE, 100, 9 * 3
        ),
    ),
    commands=(
        "embedbench reproduce tang2024 --data cifar100=cifar100-vit.h5 "
        "--data mini-imagenet=mini-imagenet-vit.h5 --data cub200=cub200-vit.h5 --seeds {seeds} "
        "--device cuda --jobs 1",
    ),
    back=("reproduce/fscil/fscil.json",),
    remarks=(
        "The published session lists ship with the package. They name "
        "30,200 training images of CIFAR-100, 30,200 of miniImageNet and 3,500 of CUB-200, and a "
        "file that lacks one of them, or has it in another class, is refused with its name.",
        "The paper trains its ViTs with a teacher; pretrain has none. Its ViT for CUB-200 began "
        "with ImageNet weights that are not published: a DeiT-S stands in, so the rows of CUB-200 "
        "are the paper's data through another backbone.",
        "The tables losses, layers, figa4 and tsne are dozens of runs of FR more, and are made "
        "only when they are asked for: --table losses.",
    ),
)
