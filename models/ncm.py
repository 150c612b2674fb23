from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import normalize

from embedbench.config.fields_added_later import later
from embedbench.learning import UNSEEN, Seeds, StreamSpec

from ._linear_models import ClassSums


@dataclass
class NCM(ClassSums):
    """Nearest class mean with running means; one pass, any batch size.

    **Source**: Mensink et al. (2013), nearest class mean classifier; online form as in
    Rebuffi et al. (2017) without exemplars. By the cosine, with means of samples as they are, it is
    SimpleCIL (`simplecil`): Zhou et al. (2023), "Revisiting class-incremental learning with
    pre-trained models: generalizability and adaptivity are all you need", and their code.

    **Departs**: SimpleCIL takes the features as the backbone gives them. Here they are scaled as
    the stream says, by default to mean 0, which moves the origin of every cosine; `protocol.scale`
    = "none" is theirs. The preset `pilot` has it: its answers are those of PILOT's code.

    Parameters
    ----------
    metric : str
        "euclidean": -‖x - μ_c‖²; "cosine": cos(x, μ_c).
    average : str
        What μ_c is the mean of, for the cosine: "unit", samples scaled to length 1; "plain",
        samples as they are.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> round(score(run(stream, "ncm"))["final_accuracy"], 3)
    0.165
    """

    metric: Literal["euclidean", "cosine"] = "euclidean"
    average: Literal["unit", "plain"] = later("unit", earlier="unit")

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.scores_are = "cosines" if self.metric == "cosine" else "distances"
        super().start(spec, seeds, device)

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        super().observe(self._input(x) if self.average == "unit" else x, y)

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        means = self.class_means().float()  # (C, D)
        if self.metric == "cosine":
            out = self._input(x) @ normalize(means).T
        else:
            out = 2 * x @ means.T - means.square().sum(1) - x.square().sum(1, keepdim=True)
        return out.masked_fill(self.counts == 0, UNSEEN)

    def _input(self, x: torch.Tensor) -> torch.Tensor:
        return normalize(x) if self.metric == "cosine" else x
