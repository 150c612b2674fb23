"""The contract of learners and their toolkit. A name is imported when first used, torch with it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exemplars import Exemplars as Exemplars
    from .footprint import Footprint as Footprint
    from .footprint import tensor_bytes as tensor_bytes
    from .learner import Context as Context
    from .learner import Learner as Learner
    from .learner import Tags as Tags
    from .net_learner import NetLearner as NetLearner
    from .net_settings import augmented_views as augmented_views
    from .net_settings import eval_features as eval_features
    from .optimisers import trainable_parameters as trainable_parameters
    from .prototypes import UNSEEN as UNSEEN
    from .quadratic_penalty import pull as pull
    from .stored_views import Store as Store
    from .training_loop import train as train

_HOMES = {
    "Context": "learner",
    "Exemplars": "exemplars",
    "Footprint": "footprint",
    "Learner": "learner",
    "NetLearner": "net_learner",
    "Store": "sample_store",
    "Tags": "learner",
    "UNSEEN": "prototypes",
    "augmented_views": "net_settings",
    "eval_features": "net_settings",
    "pull": "quadratic_penalty",
    "tensor_bytes": "footprint",
    "train": "training_loop",
    "trainable_parameters": "optimisers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
