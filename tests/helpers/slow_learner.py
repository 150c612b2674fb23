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
        save_training = ctx.checkpoint.save_training

        def slowly(*told: Any) -> None:
            time.sleep(float(os.environ.get(PAUSE, "0")))
            save_training(*told)

        ctx.checkpoint.save_training = slowly  # type: ignore[method-assign]
        try:
            return super().learn(session, ctx)
        finally:
            ctx.checkpoint.save_training = save_training  # type: ignore[method-assign]
