"""Records of runs on images."""

from typing import Any

from report_records import make


def shown(learner: str = "er", seed: int = 0, final: float = 0.6, **more: Any) -> dict[str, Any]:
    """A record on images; learning took half an hour."""
    digests = {"features": "9" * 64} | more.pop("digests", {})
    sides: dict[str, Any] = {
        "files": [{"name": "toy-32.h5", "kind": "pixels", "digests": {}}],
        "learner_params": {"trunk": "resnet8"},
        "seconds": {"learn": 1800.0, "evaluate": 1.0},
        "footprint": {"parameters": 5_000_000, "total": 5_000_000},
    }
    return make(learner, seed, final, digests=digests, **(sides | more))
