"""embedbench: learning without forgetting, measured on cached features.

A run is four steps: open an embedding file, build a stream, run a learner, score its predictions.
Names are resolved when first used, so that importing the package stays fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

from embedbench.version import __version__ as __version__

if TYPE_CHECKING:
    from embedbench.api import build_stream as build_stream
    from embedbench.api import make_learner as make_learner
    from embedbench.api import run as run
    from embedbench.api import score as score
    from embedbench.config.run_seeds import Seeds as Seeds
    from embedbench.errors import UserError as UserError
    from embedbench.files.embedding_file import EmbeddingFile as EmbeddingFile
    from embedbench.learning.learner import Learner as Learner
    from embedbench.learning.learner import Tags as Tags
    from embedbench.reports.load_results import load_runs as load_runs
    from embedbench.streams.protocol import Protocol as Protocol
    from embedbench.streams.stream import Session as Session
    from embedbench.streams.stream import Stream as Stream
    from embedbench.studies.run_all import run_all as run_all

_HOMES = {
    "build_stream": "api",
    "load_runs": "reports.load_results",
    "make_learner": "api",
    "run": "api",
    "run_all": "studies.run_all",
    "score": "api",
    "UserError": "errors",
    "EmbeddingFile": "files.embedding_file",
    "Learner": "learning.learner",
    "Tags": "learning.learner",
    "Seeds": "config.run_seeds",
    "Protocol": "streams.protocol",
    "Session": "streams.stream",
    "Stream": "streams.stream",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'embedbench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"embedbench.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """What a notebook completes: the names above, also before their first use."""
    return sorted([*_HOMES, "__version__"])
