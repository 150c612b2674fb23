from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import above, at_least, check_size
from embedbench.errors import UserError
from embedbench.learning import Context, Footprint, Learner, Seeds, Session, Stop, StreamSpec, train
from embedbench.learning.network import predict
from embedbench.learning.optimisers import OptimiserName, fresh_optimiser


@dataclass
class FEL(Learner):
    """Fixed expansion layer: x → ReLU layer → fixed sparse layer, few winners → linear head.

    **Source**: Kemker et al. (2018), "Fixed Expansion Layer" and Table S5 (400 units, 2,000 in the
    expansion layer, 1,200 for CUB-200 and multi-modal; Adam 2e-2, batch 256), after Coop, Mishtal
    and Arel (2013).

    **Departs**: the paper does not give the rule by which units win, their number, the fan-in or
    the stopping rule; ours are choices. An expansion unit has `fan_in` inputs from the first layer,
    half of them with weight +1/√fan_in, half with -1/√fan_in. For each sample the `k_pos` largest
    and `k_neg` smallest sums win, and only winners pass the gradient. The biases, which the paper's
    sizes include, stay 0. In the 2012 paper of Coop and Arel units are binary, and those that win
    put out a constant: `fel-2012` is this reading (`value="sign"`); the default is not. In the
    version of 2013 feature-sign search finds the codes; it is not built. `lr_later` is *fitted*:
    the paper names no such rate, and it was chosen by scanning against the published row of
    incremental MNIST. How far each reading comes is in `docs/fidelity.md`.

    Parameters
    ----------
    units, fel_units : int
        Units of the first layer; F, those of the expansion layer.
    fan_in : int
        First-layer units that an expansion unit is connected to; 0 means half of them.
    k_pos, k_neg : int
        Winners with the largest and with the smallest sums.
    value : str
        Output of a winner: "raw", its sum; "saturate", the sample's largest or smallest sum;
        "sign", 1 or -1. The last two pass the gradient straight through.
    batch_size, lr, weight_decay, optimiser, optimiser_state, stop
        As in `NetLearner`.
    lr_later : float or None
        Learning rate of all sessions but the first, above 0; None: `lr`. *Fitted* to a
        published row.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "fel"))["average_forgetting"] > 0.05
    True
    """

    units: Annotated[int, at_least(1, 100_000)] = 400
    fel_units: Annotated[int, at_least(1, 100_000)] = 2000
    fan_in: int = 0
    k_pos: int = 25
    k_neg: int = 25
    value: Literal["raw", "saturate", "sign"] = "raw"
    batch_size: Annotated[int, at_least(1)] = 256
    lr: Annotated[float, above(0)] = 2e-2
    weight_decay: Annotated[float, at_least(0)] = 0.0
    optimiser: OptimiserName = "adam"
    optimiser_state: Literal["fresh", "kept"] = "fresh"
    stop: Stop = field(default_factory=Stop)
    lr_later: Annotated[float, above(0)] | None = later(None, earlier=None)

    scores_are = "logits"
    state: ClassVar[dict[str, str]] = {"net": "parameters", "optimiser_": "optimiser"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fan_in != 0 and not 2 <= self.fan_in <= self.units:
            raise UserError(
                "fel.fan_in",
                expected=f"2 to {self.units}, the units of the first layer, or 0 for half of them",
                got=self.fan_in,
            )
        if min(self.k_pos, self.k_neg) < 0 or not 1 <= self.k_pos + self.k_neg <= self.fel_units:
            raise UserError(
                "fel.k_pos and fel.k_neg",
                expected=f"at least 0 and add up to 1 to {self.fel_units}, the units of the "
                "expansion layer",
                got=(self.k_pos, self.k_neg),
            )

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.learned = seeds, device, 0
        check_size(self.name, self.units * (spec.input_shape[0] + self.fel_units))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.init)
            self.net = _ExpansionNet(self, spec.input_shape[0], spec.n_classes).to(device)
        self.optimiser_ = fresh_optimiser(self, self.net)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return train(self, session, ctx, lr=self.lr_later if self.learned else None)

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        held = super().footprint()
        held["fixed"] = held.pop("buffers")  # weights that are not trained
        return held


class _ExpansionNet(nn.Module):
    """The network; sizes come from `fel`, weights from the global random state."""

    expand: Tensor
    bias: Tensor

    def __init__(self, fel: FEL, n_inputs: int, n_classes: int) -> None:
        super().__init__()
        self.k_pos = fel.k_pos
        self.k_neg = fel.k_neg
        self.value = fel.value
        self.hidden = nn.Linear(n_inputs, fel.units)
        self.head = nn.Linear(fel.fel_units, n_classes)
        self.register_buffer("expand", expansion(fel.units, fel.fel_units, fel.fan_in))
        self.register_buffer("bias", torch.zeros(fel.fel_units))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of x (n, D), (n, C)."""
        h = torch.relu(self.hidden(x))
        sums = torch.addmm(self.bias, h, self.expand)  # (n, h) @ (h, F) -> (n, F)
        high = sums.topk(self.k_pos, 1)
        low = sums.topk(self.k_neg, 1, largest=False)
        won = torch.cat([high.values, low.values], 1)  # (n, k), each kind sorted from its extreme
        if self.value != "raw":
            top = torch.ones_like(high.values)
            bottom = -torch.ones_like(low.values)
            if self.value == "saturate":
                top = top * high.values[:, :1]
                bottom = -bottom * low.values[:, :1]
            won = won + (torch.cat([top, bottom], 1) - won).detach()
        winners = torch.cat([high.indices, low.indices], 1)
        out: Tensor = self.head(torch.zeros_like(sums).scatter(1, winners, won))
        return out


def expansion(units: int, fel_units: int, fan_in: int) -> Tensor:
    """The fixed weights, (units, F): `fan_in` values a column, half +1/√fan_in, half minus."""
    fan_in = fan_in or max(2, units // 2)
    rows = torch.rand(fel_units, units).argsort(1)[:, :fan_in]  # distinct units in each column
    weights = torch.full((fel_units, fan_in), fan_in**-0.5)
    weights[:, fan_in // 2 :] *= -1
    return torch.zeros(fel_units, units).scatter_(1, rows, weights).T.contiguous()
