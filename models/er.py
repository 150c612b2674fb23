from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from embedbench.config.fields_added_later import later
from embedbench.errors import UserError
from embedbench.learning import Context, OnlineLearner, Session, Tags
from embedbench.learning.loss import batch_loss
from embedbench.learning.online_learner import ReplayWeight


@dataclass
class ER(OnlineLearner):
    """Experience replay: steps on each stream batch, and on samples from memory.

    If a stream gives whole sessions, each is learned together with the whole memory; or, with
    `replay_by` "step", each step takes a batch of the session and a draw.

    **Source**: Chaudhry et al. (2019, "On tiny episodic memories"), Algorithm 1, with reservoir
    sampling; memory batch, memory size and optimiser are from the code of Michel et al. (2023). The
    stream batch enters the memory after the step. Whole sessions, and label sets: Abdelsalam et al.
    (2021, IIRC), with a "random" memory of 20 samples per class; with all samples it is their
    "ER-infinite". A draw at each step of several epochs is the replay of Mammoth (Buzzega et al.
    2020), whose memory is filled as by `fill` "step", and of van de Ven et al. (2022), whose loss
    weights are `replay_weight` "sessions", with `memory.select` "random".

    **Departs**: the softmax includes all classes of the stream, also those not seen yet, unless
    `protocol.loss` is "seen" (for label sets the loss includes only the classes seen). `lr` is
    tuned for frozen embeddings and a small network. If the memory holds fewer samples than should
    be drawn, all of them are used. "reservoir" of 2,000 is our choice between the paper's 1,000 and
    5,000.

    Parameters
    ----------
    replay_by : str
        For whole sessions: "union", batches of the session and the memory together; "step", a batch
        of the session and a draw from memory at each step. Online it is always the latter.
    optimiser_state, stop : str, Stop
        For whole sessions; online the optimiser is always kept.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "er"))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    lr: float = 0.05

    replay_weight: ReplayWeight = later("samples", earlier="samples")
    replay_by: Literal["union", "step"] = later("union", earlier="union")

    tags: ClassVar[Tags] = Tags(
        online=True, stores_samples=True, multilabel=True, images=True, heads=True
    )
    joins: ClassVar[bool] = True

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        if self.replay_by == "step":
            return self.learn_and_store(session, ctx)
        self._refuse_settings_of_draws()
        both = self.exemplars.join(session)
        beside = self.exemplars.seen_with(torch.from_numpy(session.y))

        def by_heads(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return batch_loss(self.net(x), y, beside)

        log = self.train(both, ctx, objective=by_heads if self.exemplars.heads.exist else None)
        self.exemplars.update(session)
        return log

    def _refuse_settings_of_draws(self) -> None:
        """Refuse what says how to draw from memory, where the memory joins the session."""
        usual = {"fill": "session", "replay_weight": "samples", "memory_batch": 0}
        for name, value in usual.items():
            if getattr(self, name) != value:
                raise UserError(
                    f"er.{name}={getattr(self, name)} is of draws from memory at each step, and "
                    "er.replay_by=union joins the whole memory to the session",
                    "take --set er.replay_by=step",
                )
