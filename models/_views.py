"""Samples put together from several places, read as a `View` is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embedbench.stream import View


@dataclass(frozen=True)
class Joined(View):
    """A view followed by rows of its own, `extra` (m, *shape) float32; the view is not copied."""

    extra: Tensor = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.rows) + len(self.extra)

    def numpy(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Copy the view and the rows out, (n + m, *shape) float32."""
        return self.batch(None).numpy()

    def batch(self, index: Tensor | None, device: str = "cpu") -> Tensor:
        """The samples `index` (int64, on `device`; None: all), (b, *shape) float32."""
        extra, n = self.extra.to(device), len(self.rows)
        if index is None:
            return torch.cat([super().batch(None, device), extra])
        own = index < n
        x = torch.empty(len(index), *self.shape, device=device)
        x[own] = super().batch(index[own], device)
        x[~own] = extra[index[~own] - n]
        return x


@dataclass(frozen=True)
class Part:
    """The samples `index` (k,) of a view."""

    view: View
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def batch(self, index: Tensor, device: str) -> Tensor:
        """The samples `index` of the part, (b, *shape) float32."""
        return self.view.batch(self.index[index], device)


@dataclass(frozen=True)
class Rows:
    """Samples that a learner holds, x (n, *shape)."""

    x: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, index: Tensor, device: str) -> Tensor:
        """The samples `index`, (b, *shape) float32."""
        return self.x[index].to(device)
