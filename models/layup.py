import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.array_types import Ints
from embedbench.config.setting_ranges import at_least, check_size
from embedbench.learning import Context, Seeds, Session, StreamSpec, Tags

from ._layer_slices import layer_slices
from ._linear_models import RidgeLearner, ridge

LAMBDAS = [*(10.0 ** (k / 2) for k in range(-8, 7)), 1e-8]  # of equally good ones the first
FOLDS = 4

Moments = tuple[Tensor, Tensor]  # HᵀH (M, M) and HᵀY (M, C), float64


@dataclass
class LayUP(RidgeLearner):
    """Ridge regression on the embeddings of several layers, side by side.

    **Source**: Ahrens et al. (2024), "Read between the layers: leveraging multi-layer
    representations for rehearsal-free continual learning with pre-trained models" (TMLR; arXiv
    2312.08888), and their code: the class tokens of the last six blocks as one row, without a bias;
    λ anew in each session, of √10ᵏ from 10⁻⁴ to 10³ and 10⁻⁸, by the mean accuracy on four folds
    of the session's samples, stratified and not shuffled. The ridge of a fold is fitted to the
    other three and to all earlier sessions. Its first stage, adapters in the backbone, is not part
    of learning on frozen embeddings.

    **Departs**: the row is the final embedding, in the paper a block like the others, and the
    layers that the stream shows. They are scaled as the stream says; `protocol.scale` = "none" is
    theirs. Sums are in float64; if G + λI is still not positive definite, λ rises tenfold until it
    is. A session whose classes have one sample each chooses nothing; one whose largest class has
    fewer than four has fewer folds.

    Parameters
    ----------
    layers : str
        Names of the stream's layers, separated by commas, or "all".
    lam : float or None
        λ ≥ 0, or None to choose it, by up to sixty factorisations a session in place of one.

    Examples
    --------
    >>> from embedbench import make_learner
    >>> make_learner("layup", layers="block-9,block-10").tags.needs_layers
    True
    """

    layers: str = "all"
    lam: Annotated[float, at_least(0)] | None = None

    scores_are = "other"
    tags: ClassVar[Tags] = Tags(needs_layers=True)
    state: ClassVar[dict[str, str]] = {
        "gram": "moments",
        "targets": "moments",
        "weights": "classifier",
        "lam_": "transient",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.device, self.learned = device, 0
        slices = layer_slices(spec, self.layers).values()
        self.columns = torch.cat([torch.arange(*ends) for ends in slices]).to(device)
        size = len(self.columns)
        check_size(self.name, (2 + FOLDS) * size * size)
        self.gram, self.targets = self.no_moments(size, spec.n_classes)
        self.weights = torch.zeros(size, spec.n_classes, device=device)
        self.lam_ = 1.0 if self.lam is None else self.lam

    def features(self, x: Tensor) -> Tensor:
        return x[:, self.columns]

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log: dict[str, Any] = {}
        folds = [torch.from_numpy(rows).to(self.device) for rows in stratified_folds(session.y)]
        parts = [self.moments(session, fold) for fold in folds]
        if self.lam is None and len(folds) > 1:
            log["validation_accuracy"] = self._accuracies(session, folds, parts)
            self.lam_ = LAMBDAS[int(np.argmax(log["validation_accuracy"]))]
        for gram, targets in parts:
            self.gram += gram
            self.targets += targets
        if self.lam is not None:
            self.lam_ = self.lam
        weights, self.lam_ = ridge(self.gram, self.targets, self.lam_, LAMBDAS[-1])
        self.weights = weights.float()
        return log | {"lam": self.lam_}

    def _accuracies(
        self, session: Session, folds: list[Tensor], parts: list[Moments]
    ) -> list[float]:
        """For every λ the mean over the folds of the accuracy on the fold; `parts` are theirs."""
        right = np.zeros((len(folds), len(LAMBDAS)))
        for f, fold in enumerate(folds):
            gram = self.gram.clone()
            targets = self.targets.clone()
            for part in (*parts[:f], *parts[f + 1 :]):
                gram += part[0]
                targets += part[1]
            for k, lam in enumerate(LAMBDAS):
                w, _ = ridge(gram, targets, lam, LAMBDAS[-1])
                for h, y in self.feature_blocks(session, fold):
                    right[f, k] += int(((h @ w).argmax(1) == y).sum())
        means: list[float] = (right / [[len(fold)] for fold in folds]).mean(0).tolist()
        return means


def stratified_folds(y: Ints) -> list[Ints]:
    """Rows of up to four folds with equal shares of every class, in the samples' order."""
    from sklearn.model_selection import StratifiedKFold

    count = min(FOLDS, int(np.bincount(y).max()))
    if count < 2:
        return [np.arange(len(y))]
    with warnings.catch_warnings():  # of a class with fewer samples than folds
        warnings.simplefilter("ignore", UserWarning)
        folds = StratifiedKFold(count).split(y, y)
        return [np.asarray(rows) for _, rows in folds]
