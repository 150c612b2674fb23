"""The shared part of gradient learners with a memory of samples."""

from typing import ClassVar

from torch import Tensor

from embedbench.config.seeds import Seeds
from embedbench.streams.stream import StreamSpec

from .exemplar_budget import BY_SESSION, Memory, check_memory
from .exemplars import Exemplars
from .learner import Tags
from .net_learner import NetLearner
from .net_settings import eval_features


class ReplayLearner(NetLearner):
    """Base of learners with a network and exemplars. A method adds a field `memory`.

    Attributes
    ----------
    selects : tuple of str
        The kinds of memory that the method can use, as in `Memory.select`.
    exemplars : Exemplars
        The stored samples.
    """

    memory: Memory  # no field here: each method says where in its list of settings it comes
    selects: ClassVar[tuple[str, ...]] = BY_SESSION

    tags: ClassVar[Tags] = Tags(stores_samples=True, images=True)
    state: ClassVar[dict[str, str]] = {**NetLearner.state, "exemplars": "samples"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)
        self.steps = 0  # online steps; `learned` counts whole sessions

    def features(self, x: Tensor) -> Tensor:
        """φ(x), the input of the head, which herding compares, (n, d)."""
        return eval_features(self.net, x)
