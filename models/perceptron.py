from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from embedbench.learning import UNSEEN, Learner, Seeds, StreamSpec, Tags

BLOCK = 256  # samples at once


@dataclass
class Perceptron(Learner):
    """A row of weights for each class, moved by the samples that are answered wrongly.

    The first sample of a class is its row. After a wrong answer, w_true += x and w_answered -= x.
    The answer is the class seen with the largest w_c·x.

    **Source**: Crammer and Singer (2003), perceptrons of several classes; Hayes and Kanan (2022),
    "Online continual learning for embedded devices", and their code (`Perceptron`), whose rules
    for a new class and for an error these are.

    **Departs**: rows are float64, theirs float32. Samples are processed in order, but by batches:
    the products of a batch with the rows and with itself are two matrix products, and a sample's
    error changes the scores of the later ones by its products with them. That equals sample by
    sample. A row whose class never had an error is a training sample, so the learner is tagged as
    one that stores samples.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "perceptron"))["final_accuracy"] > 0.05  # chance has 1/40
    True
    """

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True)
    scores_are = "other"
    state: ClassVar[dict[str, str]] = {"rows": "samples", "counts": "counts"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        size = (spec.n_classes, spec.input_shape[0])
        self.rows = torch.zeros(size, device=device, dtype=torch.float64)
        self.counts = torch.zeros(spec.n_classes, device=device, dtype=torch.int64)

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        for part, labels in zip(torch.split(x, BLOCK), torch.split(y, BLOCK), strict=True):
            self._learn_block(part.double(), labels)

    def _learn_block(self, x: torch.Tensor, y: torch.Tensor) -> None:
        scores = (x @ self.rows.T).cpu().numpy()  # (b, C), of the rows before the batch
        products = (x @ x.T).cpu().numpy()  # (b, b)
        steps = np.zeros_like(scores)  # what each sample adds to each row: 1, -1 or 0 times x
        unseen = np.where(self.counts.cpu().numpy() == 0, -np.inf, 0.0)
        for i, true in enumerate(y.tolist()):
            answer = int((scores[i] + unseen).argmax())
            if unseen[true] == 0 and answer == true:
                continue
            later = products[i, i + 1 :]
            steps[i, true] += 1
            scores[i + 1 :, true] += later
            if unseen[true] == 0:
                steps[i, answer] -= 1
                scores[i + 1 :, answer] -= later
            unseen[true] = 0
        self.rows.addmm_(torch.from_numpy(steps).to(x.device).T, x)  # (C, b) @ (b, D)
        self.counts += torch.bincount(y, minlength=len(self.counts))

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return (x @ self.rows.float().T).masked_fill(self.counts == 0, UNSEEN)
