"""The contract of learners and their toolkit. A name is imported when first used, torch with it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedbench.config.run_seeds import Seeds as Seeds
    from embedbench.config.run_seeds import generator as generator
    from embedbench.streams.stream import Session as Session
    from embedbench.streams.stream import StreamSpec as StreamSpec

    from .exemplars import Exemplars as Exemplars
    from .exemplars import Memory as Memory
    from .footprint import Footprint as Footprint
    from .image_augmentation import Views as Views
    from .image_training import augmented_views as augmented_views
    from .learner import Context as Context
    from .learner import Learner as Learner
    from .learner import Tags as Tags
    from .loss import among as among
    from .loss import batch_loss as batch_loss
    from .loss import loss_classes as loss_classes
    from .loss import pull as pull
    from .net_learner import NetLearner as NetLearner
    from .net_learner import ReplayLearner as ReplayLearner
    from .network import predict as predict
    from .online_learner import OnlineLearner as OnlineLearner
    from .optimisers import OptimiserName as OptimiserName
    from .optimisers import trainable_parameters as trainable_parameters
    from .prototypes import UNSEEN as UNSEEN
    from .sample_containers import Store as Store
    from .stopping import Stop as Stop
    from .training_loop import train as train

_HOMES = {  # a test holds both lists together
    name: home
    for home, names in {
        "embedbench.config.run_seeds": "Seeds generator",
        "embedbench.streams.stream": "Session StreamSpec",
        ".exemplars": "Exemplars Memory",
        ".footprint": "Footprint",
        ".learner": "Context Learner Tags",
        ".loss": "among batch_loss loss_classes pull",
        ".net_learner": "NetLearner ReplayLearner",
        ".network": "predict",
        ".optimisers": "OptimiserName trainable_parameters",
        ".image_augmentation": "Views",
        ".image_training": "augmented_views",
        ".online_learner": "OnlineLearner",
        ".prototypes": "UNSEEN",
        ".stopping": "Stop",
        ".sample_containers": "Store",
        ".training_loop": "train",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    """The names above, also before their first use."""
    return sorted(_HOMES)
