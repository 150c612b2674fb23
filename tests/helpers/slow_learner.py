"""A network that may take its time; it learns what the MLP learns."""

import os
import time
from dataclasses import dataclass
from typing import Any

from embedbench.learning.learner import Context
from embedbench.models.mlp import MLP
from embedbench.streams.stream import Session

PAUSE = "EMBEDBENCH_TEST_PAUSE"  # in the environment: seconds that it sleeps after an epoch


@dataclass
class Slow(MLP):
    """The MLP, which sleeps after each epoch."""

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        save_epoch = ctx.checkpoint.save_epoch

        def slowly(epochs: int, parts: dict[str, Any]) -> None:
            time.sleep(float(os.environ.get(PAUSE, "0")))
            save_epoch(epochs, parts)

        ctx.checkpoint.save_epoch = slowly  # type: ignore[method-assign]
        try:
            return super().learn(session, ctx)
        finally:
            ctx.checkpoint.save_epoch = save_epoch  # type: ignore[method-assign]
