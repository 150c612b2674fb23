"""The map and its readout written plainly, in float64, a sample at a time: the oracle."""

import numpy as np
import pytest
from toy import Array

from embedbench.models._som import MapNetwork, Som


class PlainSom:
    """What `embedbench.models._som.MapNetwork` must do; all units move, however far they are."""

    def __init__(self, som: Som, n_inputs: int, n_classes: int) -> None:
        self.som = som
        self.W = np.zeros((som.side**2, n_inputs))
        self.V = np.zeros((som.side**2, n_classes))
        self.b = np.zeros(n_classes)
        self.error = self.least_error = 0.0

    def learn_base(self, x: Array, y: Array, seed: int, rng: np.random.Generator) -> list[bool]:
        som, x = self.som, x.astype(np.float64)
        n, begin = len(x), np.random.default_rng(seed)
        self.W = x[begin.choice(n, len(self.W), replace=n < len(self.W))].copy()
        some = x[begin.choice(n, min(n, 1000), replace=False)]
        self.error = float(np.mean([np.sqrt(self.distances(row).min()) for row in some]))
        spread = np.sqrt(np.mean([((row - some.mean(0)) ** 2).sum() for row in some]))
        self.least_error = 0.2 * float(spread)
        novel = []
        for t, i in enumerate(rng.integers(n, size=som.iterations)):
            eps, sigma = self.rates(t)
            phase = "som" if t < som.som_iterations else "joint"
            found = self.step(x[i], y[i], eps, sigma, phase)
            if phase == "joint":
                novel.append(found)
        return novel

    def learn(self, x: Array, y: Array, drawn: Array) -> list[bool]:
        eps, sigma = self.som.eps_later, self.som.sigma_end
        return [self.step(x[i].astype(np.float64), y[i], eps, sigma, "gated") for i in drawn]

    def rates(self, t: int) -> tuple[float, float]:
        som = self.som
        sigma = som.side / 3 if som.sigma is None else som.sigma
        if t < som.hold:
            return som.eps, sigma
        if t >= som.som_iterations:
            return som.eps_end, som.sigma_end
        gone = (t - som.hold) / (som.som_iterations - som.hold)
        return som.eps * (som.eps_end / som.eps) ** gone, sigma * (som.sigma_end / sigma) ** gone

    def distances(self, x: Array) -> Array:
        return ((self.W - x) ** 2).sum(1)

    def respond(self, x: Array) -> tuple[Array, Array]:
        """Outputs (C,) and activities (U,)."""
        d2 = self.distances(x)
        width = 2 * (self.som.kappa * self.error) ** 2
        z = np.exp(-d2.min() / width) * np.exp(-self.som.sharpness * (d2 - d2.min()) / width)
        return self.V.T @ z + self.b, z

    def is_novel(self, o: Array, label: int, *, wrong_too: bool) -> bool:
        ranked = np.sort(o)[::-1]
        unsure = len(o) > 1 and ranked[0] - ranked[1] < self.som.theta
        return bool(unsure or (wrong_too and np.argmax(o) != label))

    def step(self, x: Array, label: int, eps: float, sigma: float, phase: str) -> bool:
        """Learn one sample; was it novel?"""
        best = int(np.argmin(self.distances(x)))
        if phase != "gated":
            self.error += self.som.ema * (np.sqrt(self.distances(x)[best]) - self.error)
            self.error = max(self.error, self.least_error)
        novel = True
        if phase != "som":
            o, z = self.respond(x)
            novel = self.is_novel(o, label, wrong_too=phase == "gated")
            if novel or phase == "joint":
                target = np.zeros(len(o))
                target[label] = 1
                step = min(2 * self.som.lr, 1 / (1 + z @ z))
                self.V += step * np.outer(z, target - o)
                self.b += step * (target - o)
        if novel:
            rows, columns = np.divmod(np.arange(len(self.W)), self.som.side)
            apart = (rows - rows[best]) ** 2 + (columns - columns[best]) ** 2
            h = np.exp(-apart / (2 * sigma**2))
            self.W += eps * h[:, None] * (x - self.W)
        return novel


def assert_close(fast: MapNetwork, plain: PlainSom, rtol: float = 2e-5) -> None:
    """Float32 keeps 6e-8 a step; its errors fade at the rate at which the map forgets, but they
    add up in the readout. Some hundred steps lie between 1e-7 and 1e-6; a wrong step costs 1e-2.
    """
    for name in ("W", "V", "b"):
        found, expected = getattr(fast, name).numpy(), getattr(plain, name)
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, atol=rtol * scale, rtol=0, err_msg=name)
    assert fast.error == pytest.approx(plain.error, rel=rtol)
