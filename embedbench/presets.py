"""Named sets of settings: what a paper did, stated beforehand."""

from __future__ import annotations

from typing import Any

from embedbench.errors import unknown

# Early stopping on test accuracy is what Kemker et al. (2018) name in their text. Patience 0: the
# first epoch that is no better ends the session, and the best epoch's weights stay. At least 20
# steps, which changes nothing on MNIST (about 21 steps an epoch) and lets sessions of forty samples
# learn at all.
_KEMKER_STOP = {
    "rule": "patience",
    "monitor": "accuracy",
    "patience": 0,
    "min_steps": 20,
    "min_delta": 0.0,
    "restore": True,
    "ties": "earlier",
    "epochs": 200,
}

# One budget of training for all: the same network, optimiser and number of epochs, so that what
# differs is what a learner does against forgetting. Strengths (λ) are to be tuned, see `--tune`.
_LEAGUE = {
    "batch_size": 64,
    "lr": 1e-3,
    "optimiser": "adam",
    "stop": {"rule": "epochs", "epochs": 20},
}
_LEAGUE_LEARNERS = (
    "mlp", "finetune", "joint", "ewc", "si", "mas", "lwf", "icarl", "bic", "lucir", "il2m",
)  # fmt: skip

PRESETS: dict[str, dict[str, Any]] = {
    "league": {
        "learners": {
            **dict.fromkeys(_LEAGUE_LEARNERS, _LEAGUE),
            "offline": {"mlp": _LEAGUE},
            "ewc": {**_LEAGUE, "lam": 100.0},
        },
    },
    "kemker": {
        "protocol": {"validation": "test"},
        "references": 5,
        "learners": {
            "mlp": {"stop": _KEMKER_STOP},
            "offline": {"mlp": {"stop": _KEMKER_STOP}},
            # No λ is printed, and a search needs validation data of its own. 15 is ours, after
            # public code of that time on permuted MNIST (as remembered, not checked).
            "ewc": {"stop": _KEMKER_STOP, "lam": 15.0},
            "fel": {"stop": _KEMKER_STOP},
        },
    },
}


def preset(name: str | None) -> dict[str, Any]:
    """The settings called `name`; the empty preset for None."""
    if name is None:
        return {}
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
