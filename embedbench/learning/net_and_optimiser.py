"""The network of gradient learners, their optimiser, and their shared settings."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from embedbench.config.run_seeds import Seeds
from embedbench.config.setting_ranges import check_size
from embedbench.errors import UserError
from embedbench.networks.weights import file_sha256
from embedbench.streams.stream import StreamSpec

from .image_augmentation import Views
from .trunk import FLAT, PLAINLY, ImageTraining, check_trunk, image_trunk, weights_file

PART = 1024  # images per forward pass without gradients
VIEWS = 1  # number of the random stream for image augmentation
PLAIN = Views("none", torch.Generator())


class Net(nn.Sequential):
    """A trunk, and as the last module a linear head for all classes."""

    def features(self, x: Tensor) -> Tensor:
        """φ(x), the input of the head, (n, d)."""
        phi: Tensor = self[:-1](x)
        return phi

    @property
    def head(self) -> nn.Linear:
        """The layer from φ (n, d) to logits (n, C)."""
        head = self[-1]
        assert isinstance(head, nn.Linear)
        return head


def new_net(
    learner: Any, spec: StreamSpec, seeds: Seeds, device: str
) -> tuple[Net, torch.optim.Optimizer]:
    """A learner's net at the start of a stream, and its optimiser, from the shared settings."""
    net = trunk_and_head(learner, spec, seeds.init).to(device)
    return net, fresh_optimiser(learner, net)


def trunk_and_head(learner: Any, spec: StreamSpec, seed: int) -> Net:
    """A net with a learner's `trunk` and, if that is "mlp", its `units` and `layers`."""
    if learner.trunk in FLAT:
        layers = learner.layers if learner.trunk == "mlp" else 0
        net = mlp_net(math.prod(spec.input_shape), learner.units, layers, spec.n_classes, seed)
        return net if len(spec.input_shape) == 1 else Net(nn.Flatten(), *net)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk, width = image_trunk(learner.trunk, spec.input_shape, image_training(learner))
        return Net(trunk, nn.Linear(width, spec.n_classes))


@torch.inference_mode()
def predict(net: nn.Module, x: Tensor) -> Tensor:
    """Logits of x (n, D) or (n, C, H, W) in evaluation mode, (n, C)."""
    net.eval()
    return in_parts(net, x)


@torch.no_grad()
def eval_features(net: Any, x: Tensor) -> Tensor:
    """φ(x) of a net that has `features`, in evaluation mode, (n, d)."""
    net.eval()
    return in_parts(net.features, x)


def in_parts(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f(x), one row per sample; images go in parts, because many activations fill the memory."""
    if x.ndim == 2:
        return f(x)
    return torch.cat([f(part) for part in torch.split(x, PART)])


def mlp_net(n_inputs: int, units: int, layers: int, n_outputs: int, seed: int) -> Net:
    """An MLP: `layers` hidden layers of `units` ReLUs, a linear head, PyTorch's initialisation."""
    widths = [n_inputs, *[units] * layers, n_outputs]
    check_size("the network", sum(a * b for a, b in pairwise(widths)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts: list[nn.Module] = []
        for a, b in pairwise(widths[:-1]):
            parts += [nn.Linear(a, b), nn.ReLU()]
        return Net(*parts, nn.Linear(widths[-2], widths[-1]))


def augmented_views(learner: Any, counter: int, draw: np.random.Generator | None = None) -> Views:
    """The augmentation of a learner's images in the `counter`-th session or online step.

    If `draw` is given, it draws a number that gives each training within a session different views;
    it is used only if the augmentation is random.
    """
    images = image_training(learner)
    if images.augment == "none":
        return PLAIN
    more = [] if draw is None else [int(draw.integers(2**32))]
    return Views(images.augment, generator(learner.seeds.batches, counter, VIEWS, *more))


def generator(seed: int, *counters: int) -> torch.Generator:
    """A random generator from `seed` and `counters`; a resumed run gets the same one."""
    state = np.random.SeedSequence([seed, *counters]).generate_state(1, dtype=np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def image_training(learner: Any) -> ImageTraining:
    """How a learner's trunk is trained; the defaults if it has no such setting."""
    images = getattr(learner, "images", PLAINLY)
    assert isinstance(images, ImageTraining)
    return images


def settle_trunk(learner: Any) -> None:
    """Refuse an unknown trunk, or image settings that do not fit; fill in its weights' digest."""
    name, images = learner.name, image_training(learner)
    check_trunk(f"{name}.trunk", learner.trunk)
    if images == PLAINLY:
        return
    if learner.trunk in FLAT:
        raise UserError(
            f"{name}.images is for trunks of images, and {name}.trunk is {learner.trunk!r}; leave "
            "it out, or choose one with --trunk resnet32"
        )
    if not images.weights:
        return
    digest = file_sha256(weights_file(learner.trunk, images.weights))
    if images.sha256 not in ("", digest):
        raise UserError(
            f"{images.weights} has the SHA-256 {digest[:12]}…, and {name}.images.sha256 says "
            f"{images.sha256[:12]}…; give the original file, or leave sha256 out"
        )
    learner.images = replace(images, sha256=digest)


# --- optimisers by name; Nadam in two passes over memory a step ---


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
        mu, following = (BETA1 * (1 - 0.5 * 0.96 ** (k * DECAY)) for k in (t, t + 1))
        product = states[0]["product"] * mu
        c_g, c_m = (1 - mu) / (1 - product), following / (1 - product * following)
        b = BETA1 * c_m / (c_g + c_m)
        for state in states:
            state |= {"taken": t, "product": product}
        grads: list[Tensor] = [p.grad for p in params if p.grad is not None]
        if decay:  # the fused pass does not return the decayed gradient
            torch._foreach_add_(grads, [*params], alpha=decay)
        m, v, steps = ([s[name] for s in states] for name in ("exp_avg", "exp_avg_sq", "step"))
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
    name: OptimiserName, net: nn.Module, *, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimiser by name: "nadam", "adam", "sgd" (momentum 0.9), "plain-sgd"."""
    return OPTIMISERS[name](trainable_parameters(net), lr=lr, weight_decay=weight_decay)


def trainable_parameters(net: nn.Module) -> list[nn.Parameter]:
    """The parameters of a net that are trained, in the order of the net."""
    return [p for p in net.parameters() if p.requires_grad]


def fresh_optimiser(learner: Any, net: nn.Module) -> torch.optim.Optimizer:
    """A fresh optimiser for a net, with a learner's settings."""
    return make_optimiser(learner.optimiser, net, lr=learner.lr, weight_decay=learner.weight_decay)


# --- a network whose logits are cosines, times a number η that is learned with them ---


class CosineNet(nn.Module):
    """Logits η cos(φ(x), θ_c): a trunk whose last layer is linear, and one η for all classes.

    The trunk has `units` and `layers` as in `mlp`, and with 0 layers φ is x; or it is one for
    images, with features (n, n_inputs). η begins at `eta`.

    **Source**: Hou et al. (2019, LUCIR), Eq. 4. As in their code, θ_c is uniform in ±1/√d, and φ
    has no ReLU after its last layer. Abdelsalam et al. (2021, IIRC), Eq. 3.
    """

    def __init__(
        self,
        n_inputs: int,
        units: int,
        layers: int,
        n_classes: int,
        *,
        eta: float,
        seed: int,
        trunk: nn.Module | None = None,
    ) -> None:
        super().__init__()
        width = units if layers else n_inputs
        self.trunk = nn.Flatten() if trunk is None else trunk  # flattens images
        if layers:
            self.trunk = mlp_net(n_inputs, units, layers - 1, width, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.theta = nn.Parameter(torch.empty(n_classes, width).uniform_(-1, 1) / width**0.5)
        self.eta = nn.Parameter(torch.tensor(eta))

    def features(self, x: Tensor) -> Tensor:
        """φ(x), (n, d)."""
        phi: Tensor = self.trunk(x.flatten(1) if isinstance(self.trunk, Net) else x)
        return phi

    def cosines(self, phi: Tensor) -> Tensor:
        """cos(φ, θ_c), (n, C)."""
        return (
            nn.functional.normalize(phi) @ nn.functional.normalize(self.theta).T
        )  # (n, d) @ (d, C)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of x (n, D), (n, C)."""
        return self.eta * self.cosines(self.features(x))


@torch.inference_mode()
def predict_cosines(net: CosineNet, x: Tensor) -> Tensor:
    """Cosines of x in evaluation mode, (n, C): above 0 where the sigmoid is above one half."""
    net.eval()
    return in_parts(lambda part: net.cosines(net.features(part)), x)


def cosine_net(learner: Any, spec: StreamSpec, seed: int, *, eta: float) -> CosineNet:
    """A net with a cosine head, with a learner's `trunk`, `units` and `layers`."""
    if learner.trunk in FLAT:
        layers = learner.layers if learner.trunk == "mlp" else 0
        n_inputs = math.prod(spec.input_shape)
        return CosineNet(n_inputs, learner.units, layers, spec.n_classes, eta=eta, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk, width = image_trunk(
            learner.trunk, spec.input_shape, image_training(learner), relu=False
        )
    return CosineNet(width, 0, 0, spec.n_classes, eta=eta, seed=seed, trunk=trunk)
