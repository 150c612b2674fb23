"""Optimisers by name, among them NAdam in two passes over memory a step."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

BETA1, BETA2, DECAY, EPS = 0.9, 0.999, 0.004, 1e-8


class NAdam(torch.optim.Optimizer):
    """The updates of `torch.optim.NAdam`, up to rounding, in two passes over memory, not nine.

    It is worth the code because it is the inner loop: an iteration of a 2048-400-400-100 MLP takes
    19.2 ms, with PyTorch's foreach NAdam 25.1 ms (batch 64, one thread; 1.3 times as long). The
    price: it depends on private functions of torch, `torch.optim.adam.adam` and `torch._foreach_*`,
    which a new version may change. Once PyTorch has a fused NAdam, this class can go.

    A step is θ ← θ - lr (c_g g + c_m m) / (√v̂ + ε) with m = β₁ m' + (1 - β₁) g, where m' is the m
    of the previous step. Both m and the numerator are mixtures of m' and g. So PyTorch's fused Adam
    gets b, the share of m' in the numerator, in place of β₁, and a rate that cancels its bias
    correction. It leaves n = b m' + (1 - b) g, and m follows as g + β₁/b (n - g). Weight decay is
    the factor of θ in the gradient.

    **Source**: Dozat (2016), "Incorporating Nesterov momentum into Adam", with its schedule μ_t =
    β₁ (1 - 0.96^(0.004 t) / 2).
    """

    def __init__(
        self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0
    ) -> None:
        # with "fused" a loaded state moves its step counts to the parameters' device
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "fused": True})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # closures are not used
        """Take one step of the parameters that have a gradient."""
        for group in self.param_groups:
            alike = defaultdict(list)  # by number of steps taken: one pass for each group
            for p in group["params"]:
                if p.grad is not None:
                    alike[self._of(p)["taken"]].append(p)
            for taken, params in alike.items():
                self._pass(params, taken + 1, group["lr"], group["weight_decay"])

    def _of(self, p: nn.Parameter) -> dict[str, Any]:
        """The optimiser's state of a parameter."""
        state: dict[str, Any] = self.state[p]
        if not state:
            state |= {"taken": 0, "product": 1.0, "step": torch.zeros((), device=p.device)}
            state |= {name: torch.zeros_like(p) for name in ("exp_avg", "exp_avg_sq")}
        return state

    def _pass(self, params: list[nn.Parameter], t: int, lr: float, decay: float) -> None:
        """The `t`-th step of these parameters."""
        states = [self.state[p] for p in params]
        mu = BETA1 * (1 - 0.5 * 0.96 ** (t * DECAY))
        following = BETA1 * (1 - 0.5 * 0.96 ** ((t + 1) * DECAY))
        product = states[0]["product"] * mu
        c_g = (1 - mu) / (1 - product)
        c_m = following / (1 - product * following)
        b = BETA1 * c_m / (c_g + c_m)
        for state in states:
            state |= {"taken": t, "product": product}
        grads: list[Tensor] = [p.grad for p in params if p.grad is not None]
        if decay:  # the fused pass does not return the decayed gradient
            torch._foreach_add_(grads, [*params], alpha=decay)
        m = [s["exp_avg"] for s in states]
        v = [s["exp_avg_sq"] for s in states]
        steps = [s["step"] for s in states]
        rate = lr * (c_g + c_m) * (1 - b**t)
        adam(
            [*params], grads, m, v, [], steps, foreach=False, fused=True, amsgrad=False,
            beta1=b, beta2=BETA2, lr=rate, weight_decay=0.0, eps=EPS, maximize=False,
        )  # fmt: skip
        torch._foreach_lerp_(m, grads, 1 - BETA1 / b)


OptimiserName = Literal["nadam", "adam", "sgd", "plain-sgd"]
OPTIMISERS: dict[OptimiserName, Callable[..., torch.optim.Optimizer]] = {
    "nadam": NAdam,
    "adam": lambda params, **kw: torch.optim.Adam(params, fused=True, **kw),
    "sgd": lambda params, **kw: torch.optim.SGD(params, momentum=0.9, fused=True, **kw),
    "plain-sgd": lambda params, **kw: torch.optim.SGD(params, fused=True, **kw),
}


def make_optimiser(
    name: OptimiserName, net: nn.Module, *, lr: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """An optimiser by name: "nadam", "adam", "sgd" (momentum 0.9), "plain-sgd"."""
    return OPTIMISERS[name](trainable_parameters(net), lr=lr, weight_decay=weight_decay)


def trainable_parameters(net: nn.Module) -> list[nn.Parameter]:
    """The parameters of a net that are trained, in the order of the net."""
    return [p for p in net.parameters() if p.requires_grad]


def fresh_optimiser(learner: Any, net: nn.Module) -> torch.optim.Optimizer:
    """A fresh optimiser for a net, with a learner's settings."""
    return make_optimiser(learner.optimiser, net, lr=learner.lr, weight_decay=learner.weight_decay)
