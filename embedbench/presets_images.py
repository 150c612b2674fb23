"""Presets of the papers' own settings on images: a network that is trained from scratch.

Under "every" stand settings of every learner that has them, whether the paper had it or not; below
"learners" those of single ones, which lie over them.
"""

from __future__ import annotations

from typing import Any

# Abdelsalam et al. (2021, IIRC), Appendix A and their code. Epochs at most 140 and 100, twice as
# many in the first session, of the joint reference 200 and 90. On ImageNet, at 224 pixels, theirs
# are cut from larger images; here timm's augmentation stands for that.
_IIRC_STOP: dict[str, Any] = {
    "rule": "plateau",
    "monitor": "pw_js",
    "patience": 10,
    "min_delta": 1e-3,
    "min_steps": 0,
}
_LAST = {"restore": False}  # the last epoch's weights stay
_KEPT = {"weights": "kept"}  # their code goes on with the network it has
_RANDOM = {"memory": {"total": None, "per_class": 20, "select": "random"}}


def iirc(every: dict[str, Any], epochs: int, joint_epochs: int) -> dict[str, Any]:
    """IIRC's learners and the offline reference, by what a data set has of its own."""
    stop = {**_IIRC_STOP, "epochs": epochs, "first_epochs": 2 * epochs}
    base = {"batch_size": 128, "weight_decay": 1e-5, "optimiser": "sgd", **every, "stop": stop}
    last = {"stop": {**stop, **_LAST}}
    once = {**base, "stop": {**_IIRC_STOP, "epochs": joint_epochs}}
    return {
        "every": base,
        "learners": {
            **dict.fromkeys(("joint", "incremental-joint"), _KEPT),
            **dict.fromkeys(("er", "er-infinite"), _RANDOM),
            "agem": {**last, **_RANDOM},
            **dict.fromkeys(("icarl", "icarl-cnn", "icarl-norm", "bic"), last),
            "lucir": {**last, "eta": 1.0},
            "offline": {"mlp": once},
        },
    }


def with_rate(preset: dict[str, Any], learners: tuple[str, ...], lr: float) -> dict[str, Any]:
    """The preset with a learning rate of these learners' own."""
    own = {name: {**preset["learners"][name], "lr": lr} for name in learners}
    return {**preset, "learners": {**preset["learners"], **own}}


# Masana et al. (2020), and for what the paper leaves open their code: a third of the learning rate
# at the tenth epoch in a row without a gain, and on from the best one; a loss equal to the best is
# no gain; crops and flips. λ and temperatures are tuned there: --tune lwf.lam=1,2,5,10.
_ORDERINGS: dict[str, Any] = {
    "trunk": "resnet32",
    "images": {"augment": "crop-flip"},
    "batch_size": 128,
    "lr": 0.1,
    "weight_decay": 2e-4,
    "optimiser": "sgd",
    "stop": {
        "rule": "plateau",
        "monitor": "loss",
        "epochs": 200,
        "patience": 9,
        "min_delta": 0.0,
        "min_steps": 0,
        "ties": "earlier",
        "factor": 1 / 3,
        "lr_min": 1e-4,
        "rewind": True,
    },
}
_HERDED = {"memory": {"total": None, "per_class": 20, "select": "herding"}}

# Michel et al. (2023) print neither network nor optimiser: these are of their later code, whose
# residual network has 18 layers and no pooling before them. Every image is seen once, ten a step.
# Its crops, flips, changes of colour and of scale are crops and flips here.
_ONCE: dict[str, Any] = {
    "trunk": "resnet18_small_images",
    "images": {"augment": "crop-flip"},
    "batch_size": 10,
    "lr": 0.01,
    "weight_decay": 1e-4,
    "optimiser": "sgd",
    "optimiser_state": "kept",
    "stop": {"rule": "epochs", "epochs": 1},
}
_REPLAY = {"batch_size": 64, "memory": {"total": 2000, "select": "reservoir"}}

IMAGES: dict[str, dict[str, Any]] = {
    "iirc-cifar-images": {
        "protocol": {"hierarchy": "iirc-cifar"},
        **iirc({"trunk": "resnet32", "images": {"augment": "crop-flip"}, "lr": 1.0}, 140, 200),
    },
    "iirc-imagenet-images": {
        "protocol": {"hierarchy": "iirc-imagenet-lite"},
        **with_rate(
            iirc({"trunk": "resnet50", "images": {"augment": "timm"}, "lr": 0.1}, 100, 90),
            ("agem", "icarl", "icarl-cnn", "icarl-norm", "bic"),
            0.5,
        ),
    },
    "class-orderings-images": {
        "protocol": {"sessions": 10},
        "every": _ORDERINGS,
        "learners": {
            **dict.fromkeys(("lwf", "icarl", "bic", "lucir", "il2m"), _HERDED),
            "offline": {"mlp": _ORDERINGS},
        },
    },
    "online-images": {
        "protocol": {"sessions": 10, "order": "random", "observe_batch": 10},
        "every": _ONCE,
        "learners": {
            **dict.fromkeys(("er", "agem", "derpp"), _REPLAY),
            "gdumb": {
                "batch_size": 16,
                "lr": 0.05,
                "weight_decay": 1e-6,
                "stop": {"rule": "epochs", "epochs": 30},
                "memory": {"total": 2000, "select": "balanced"},
            },
            "offline": {"mlp": {**_ONCE, "batch_size": 64, "stop": {"rule": "patience"}}},
        },
    },
}
