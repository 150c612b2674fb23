"""Pretraining: a trunk trained from scratch on the base session of a stream."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config import fields_added_later, setting_ranges
from embedbench.config.format_versions import check_version
from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.files.sample_metadata import Samples
from embedbench.networks.weights import HEAD
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.value_digest import digest
from embedbench.streams.stream import Session, Stream
from embedbench.system.callback_types import Progress
from embedbench.system.gpu_determinism import repeatable

from .checkpoint_state import DamagedStateError, pack_state, put_state, take_state, unpack_state
from .image_augmentation import AugmentName, Views
from .image_training import VIEWS, ImageTraining
from .loss import Objective
from .network import CosineNet, Net
from .stopping import Stop, validation_value
from .training_loop import Training
from .trunk import Trunk, check_trunk, image_trunk

AnyNet = Net | CosineNet
FORMAT = 1  # of a checkpoint; one without a number is of the first
SCALE = 12.0  # of the cosines, as in the code of Tang et al. (2024)
ONE = Stop(rule="epochs", epochs=1)
EVERY = 60.0  # seconds between two checkpoints, at least
BETAS = 0.9, 0.999


@dataclass(frozen=True)
class Pretraining:
    """Settings of pretraining a trunk: AdamW, a warm-up and one cosine to 0, cross-entropy.

    **Source**: Tang et al. (2024), Appendix 5: their ViTs on CIFAR-100 and mini-ImageNet, 300
    epochs, learning rate 5e-4, weight decay .05, timm's augmentation.

    **Departs**: the paper gives neither batch size nor warm-up: these are ours. The head is linear
    by default; the paper's is a cosine classifier, `head="cosine"`. There is no teacher; their
    scripts have one. Of timm's augmentation only the part in `augment` is used. Weight decay leaves
    out biases, norms and parameters that the model names (position embeddings), as timm does. The
    last epoch is kept. `deep_supervision` is ours: small ViTs that are trained without it have
    intermediate features that the head cannot classify, and those of the paper's can be.

    Parameters
    ----------
    trunk : str
        A network for images, see `NetLearner`.
    lr : float
        The highest learning rate.
    warmup : int
        Number of epochs in which the rate rises from 0, step by step.
    augment : str
        "none", "crop-flip" or "timm".
    seed : int
        Seed of the stream, the weights, the batches and the augmentation, as in `run`.
    head : str
        "linear", or "cosine": the authors' classifier, 12 cos(φ(x), θ_c), which is kept with the
        trunk for `classifier.base`.
    deep_supervision : str
        Blocks of a ViT, counted as by `extract --layers`, with commas between. The cross-entropy of
        each one's class token, after the final norm and through the head of the last block, is
        added to the loss. "": the last block alone.
    """

    trunk: str
    epochs: Annotated[int, setting_ranges.at_least(1)] = 300
    lr: Annotated[float, setting_ranges.above(0)] = 5e-4
    weight_decay: Annotated[float, setting_ranges.within("[0, 1)")] = 0.05
    batch_size: Annotated[int, setting_ranges.at_least(1)] = 256
    warmup: Annotated[int, setting_ranges.at_least(0)] = 5
    augment: AugmentName = "timm"
    seed: int = 0
    head: Literal["linear", "cosine"] = fields_added_later.later("linear", earlier="linear")
    deep_supervision: str = fields_added_later.later("", earlier="")

    def __post_init__(self) -> None:
        check_trunk("trunk", self.trunk)
        setting_ranges.check_settings(self, "pretrain")

    def rate(self, step: int, steps_an_epoch: int) -> float:
        """Learning rate of a step, counted from 0."""
        rising = self.warmup * steps_an_epoch
        total = self.epochs * steps_an_epoch
        if step < rising:
            return self.lr * (step + 1) / rising
        return self.lr * (1 + math.cos(math.pi * (step - rising) / (total - rising))) / 2


def pretrain(
    settings: Pretraining,
    stream: Stream,
    *,
    device: str,
    checkpoint: Path,
    samples: Samples | None = None,
    overwrite: bool = False,
    progress: Progress = lambda *_: None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Train a trunk on session 0 of a stream; return its weights and their metadata.

    A checkpoint is written after an epoch, at most once a minute. The same pretraining, started
    again, continues from it and ends with the same weights. The checkpoint of another pretraining
    is refused; `overwrite` deletes it. One call of the training loop trains one epoch. With the
    `samples` of the stream's one file a cosine head is returned beside the trunk's weights.
    """
    session = base_session(stream)
    seeds = Seeds.of(settings.seed)
    shape = stream.spec.input_shape
    n_classes = len(session.classes)
    net = new_net(settings.trunk, settings.head, shape, n_classes, seeds.init).to(device)
    objective = deep_objective(net, settings.deep_supervision)
    optimiser = _optimiser(net, settings)
    parts = {"net": net, "optimiser": optimiser}
    work = {
        "settings": fields_added_later.identity(settings),
        "digests": stream.digests,
        "torch": str(torch.__version__),
        "device": torch.device(device).type,
    }
    history = _take_up(checkpoint, work, parts, overwrite)
    steps_an_epoch = math.ceil(len(session.x) / settings.batch_size)
    saved = time.monotonic()
    with repeatable(device):
        for epoch in range(len(history) + 1, settings.epochs + 1):
            progress(epoch - 1, settings.epochs)
            set_rate = _schedule(settings, optimiser, (epoch - 1) * steps_an_epoch, steps_an_epoch)
            batches = generator(seeds.batches, epoch)
            views = Views(settings.augment, generator(seeds.batches, epoch, VIEWS))
            log = Training(
                net, optimiser, session, settings.batch_size, ONE, batches, device,
                views=views, objective=objective, regularise=set_rate,
            ).run()  # fmt: skip
            if log["stopped"] == "diverged":
                raise UserError(
                    f"training diverged in epoch {epoch}", f"lower --lr {settings.lr:g}"
                )
            accuracy = math.nan
            if len(session.val_x):
                accuracy = -validation_value(net, session, "accuracy", lambda x, y: x, device)
            history.append({"train_loss": log["train_loss"], "accuracy": accuracy})
            if time.monotonic() - saved >= EVERY:
                states = {name: take_state(part) for name, part in parts.items()}
                write_safely(
                    checkpoint,
                    pack_state({"format": FORMAT, "work": work, "history": history, **states}),
                )
                saved = time.monotonic()
    progress(settings.epochs, settings.epochs)
    head, about = kept_head(net, samples, stream.sessions[0]) if samples else ({}, {})
    metadata = _metadata(work, stream, session, history)
    return get_trunk(net).body.state_dict() | head, metadata | about


def base_session(stream: Stream) -> Session:
    """Session 0, with its classes renumbered from 0."""
    session = stream.sessions[0]
    if stream.spec.multilabel:
        raise UserError("pretrain learns one label a sample, and this stream has sets of them")
    if stream.validation == "test":
        raise UserError("pretrain does not use test data", "leave out protocol.validation=test")
    classes = np.unique(session.y)
    return replace(
        session,
        y=np.searchsorted(classes, session.y),
        val_y=np.searchsorted(classes, session.val_y),
        classes=classes,
        loss_classes=None,
    )


def _optimiser(net: AnyNet, settings: Pretraining) -> torch.optim.Optimizer:
    """AdamW, without decay of biases, norms and the parameters that the trunk names."""
    body = get_trunk(net).body
    named: Any = getattr(body, "no_weight_decay", set)
    spared = {id(p) for name, p in body.named_parameters() if name in named()}
    parts: tuple[list[Tensor], ...] = ([], [])
    for p in net.parameters():
        parts[p.ndim < 2 or id(p) in spared].append(p)
    groups = [
        {"params": part, "weight_decay": decay}
        for part, decay in zip(parts, (settings.weight_decay, 0.0), strict=True)
    ]
    return torch.optim.AdamW(groups, lr=settings.lr, betas=BETAS, fused=True)


def _schedule(
    settings: Pretraining, optimiser: torch.optim.Optimizer, step: int, steps_an_epoch: int
) -> Callable[[], None]:
    """A function that sets the learning rate before each step, starting at the `step`-th."""
    steps = iter(range(step, step + steps_an_epoch))

    def set_rate() -> None:
        rate = settings.rate(next(steps), steps_an_epoch)
        for group in optimiser.param_groups:
            group["lr"] = rate

    return set_rate


def _take_up(
    path: Path, work: dict[str, Any], parts: dict[str, Any], overwrite: bool
) -> list[dict[str, float]]:
    """Load the checkpoint, if there is one; return the values of the epochs before it."""
    if not path.is_file():
        return []
    try:
        held = unpack_state(path.read_bytes(), "cpu")
        if held.get("format", FORMAT) != FORMAT and not overwrite:
            check_version(str(path), held["format"], [str(FORMAT)], "delete it")
        others = ", ".join(name for name in work if held["work"][name] != work[name])
        what = f"the checkpoint of other work (another {others}); repeat that" if others else ""
    except (OSError, DamagedStateError, KeyError, TypeError):
        what = "damaged, or of an earlier version; delete it"
    if what and overwrite:
        return []
    if what:
        raise UserError(f"{path} is {what}, or drop it with --overwrite")
    try:
        for name, part in parts.items():
            put_state(part, held[name])
        names = ("train_loss", "accuracy")
        return [{name: float(epoch[name]) for name in names} for epoch in held["history"]]
    except Exception as error:  # whatever they make of a state that is not theirs
        raise UserError(f"{path} is damaged ({type(error).__name__})", "delete it") from error


def _metadata(
    work: dict[str, Any], stream: Stream, session: Session, history: list[dict[str, float]]
) -> dict[str, Any]:
    """Metadata of the weights: how they were made, and how images must be preprocessed; no date."""
    assert stream.spec.scaling is not None
    factor, offset = stream.spec.scaling
    std = [1 / (255 * f) for f in factor]
    accuracy = history[-1]["accuracy"]
    return {
        **work,
        "recipe": stream.recipe,
        "classes": len(session.classes),
        "samples": len(session.x),
        "train_loss": history[-1]["train_loss"],
        "validation_accuracy": None if math.isnan(accuracy) else accuracy,
        "shown": {
            "input_size": list(stream.spec.input_shape),
            "mean": [-o * s for o, s in zip(offset, std, strict=True)],
            "std": std,
            "crop_pct": 1.0,
            "crop_mode": "center",
            "interpolation": "bicubic",
        },
    }


# --- the nets: a trunk, its head, and the blocks that the head supervises ---


def new_net(trunk: str, head: str, shape: Sequence[int], n_classes: int, seed: int) -> AnyNet:
    """A net for images of `shape` (C, H, W) to pretrain; `head` is "linear" or "cosine"."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body, width = image_trunk(trunk, shape, ImageTraining())
        if head == "linear":
            return Net(body, nn.Linear(width, n_classes))
    net = CosineNet(body, width, n_classes, eta=SCALE, seed=seed)
    net.eta.requires_grad_(False)
    return net


def get_trunk(net: AnyNet) -> Trunk:
    trunk = net.trunk if isinstance(net, CosineNet) else net[0]
    assert isinstance(trunk, Trunk)
    return trunk


def head_logits(net: AnyNet, phi: Tensor) -> Tensor:
    """Logits of features φ (n, d) by the head, (n, C)."""
    if isinstance(net, CosineNet):
        return net.eta * net.cosines(phi)
    logits: Tensor = net.head(phi)
    return logits


def deep_objective(net: AnyNet, blocks: str) -> Objective | None:
    """The cross-entropy of the embedding, plus that of the class token of each of some blocks.

    All go through the trunk's final norm and the one head. `blocks` are named as in `extract
    --layers`, with commas between; None if they are "".
    """
    if not blocks:
        return None
    from embedbench.extract.timm_backbone import Layers, has_blocks

    body = get_trunk(net).body
    if not has_blocks(body):
        raise UserError(
            "--deep-supervision takes blocks of a vision transformer, and the trunk has none",
            "leave it out, or choose a trunk such as vit_fscil_tiny_patch8_32",
        )
    layers = Layers(body, blocks.split(","))

    def objective(x: Tensor, y: Tensor) -> Tensor:
        tables = layers.tables(body, x)
        return torch.stack(
            [nn.functional.cross_entropy(head_logits(net, phi), y) for phi in tables.values()]
        ).sum()

    return objective


def taught_digest(samples: Samples, session: Session) -> str:
    """Digest of what a session of one file teaches: ids of samples, each with its class's name."""
    rows = np.asarray(session.ids)
    names = np.asarray(samples.classes)[samples.labels[rows]]
    pairs = sorted(zip(samples.ids[rows].tolist(), names.tolist(), strict=True))
    return digest("taught", *itertools.chain(*pairs))


def kept_head(
    net: AnyNet, samples: Samples, session: Session
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The cosine classifier of a net as a tensor and metadata; both empty for a linear one.

    Its rows are in the order of the base session's classes; `samples` names them.
    """
    if not isinstance(net, CosineNet):
        return {}, {}
    first = np.unique(session.y, return_index=True)[1]  # a sample of each class
    labels = samples.labels[np.asarray(session.ids)[first]]
    about = {
        "kind": "cosine",
        "scale": float(net.eta),
        "classes": [samples.classes[c] for c in labels],
        "samples": taught_digest(samples, session),
    }
    return {HEAD: net.theta.detach()}, {"head": about}
