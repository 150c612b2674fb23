"""Files of weights: loaded strictly, identified by their SHA-256, written with what made them."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.storage import load_torch_file, user_cache
from embedbench.storage.atomic_write import write_safely

if TYPE_CHECKING:
    import torch
    from torch import nn

HEAD = "embedbench.head.weight"  # the classifier (n, d) that lies with a pretrained trunk
# Keys of the weights in a training checkpoint, the best first.
_STATES = ("state_dict_ema", "model_ema", "state_dict", "model")
# Names of the function that converts checkpoints; timm's model files use different ones.
_FILTERS = ("checkpoint_filter_fn", "_filter_fn", "_filter_torchvision_pretrained")


def load_weights(model: nn.Module, path: Path, cfg: dict[str, Any], *, channels: int) -> str:
    """Load a file of weights into a model without its classifier, in float32; return its SHA-256.

    First timm renames parameters, resamples position embeddings, and adapts the first convolution
    to the number of channels. Then every parameter and buffer of the model must be in the file with
    the same shape. The file may also hold a classifier. `cfg` is timm's configuration of the model:
    `architecture`, and if they exist, the module names `classifier` and `first_conv`.
    """
    if not path.is_file():
        raise _missing(path)
    before = user_cache.identity(path)
    state = fit_state(_read(path), model, path, cfg, channels=channels)
    model.load_state_dict(state, strict=False)
    digest = file_sha256(path)
    user_cache.check_unchanged(path, before)
    return digest


def fit_state(
    state: dict[str, torch.Tensor],
    model: nn.Module,
    path: Path,
    cfg: dict[str, Any],
    *,
    channels: int,
) -> dict[str, torch.Tensor]:
    """What a file holds, as a model takes it; see `load_weights`."""
    module = sys.modules[type(model).__module__]
    if convert := next((getattr(module, f) for f in _FILTERS if hasattr(module, f)), None):
        takes_model = len(inspect.signature(convert).parameters) > 1  # some take the state alone
        with _refusing(path, cfg):
            state = convert(state, model) if takes_model else convert(state)
    _adapt(state, model, path, cfg, channels)
    _check(model, state, path, cfg)
    return state


@contextmanager
def _refusing(path: Path, cfg: dict[str, Any]) -> Iterator[None]:
    """Raise UserError for a foreign file, on which timm fails in many ways."""
    try:
        yield
    except Exception as error:
        raise UserError(
            f"{path} does not fit {cfg['architecture']} ({type(error).__name__}: {error})."
        ) from error


def _read(path: Path) -> dict[str, torch.Tensor]:
    import torch
    from safetensors.torch import load_file
    from timm.models import clean_state_dict

    remedy = "expected a .safetensors file, or a .pth that holds tensors only"
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            # not by timm, some versions of which load without `weights_only` where that fails
            state = load_torch_file.load(path, remedy)
            state = next((state[k] for k in _STATES if state.get(k) is not None), state)
        return {
            key: value.float() if value.is_floating_point() else value
            for key, value in clean_state_dict(state).items()
            if isinstance(value, torch.Tensor) and key != HEAD
        }
    except Exception as error:  # of the files, and of what a foreign state holds
        raise UserError(f"{path} cannot be read as weights", remedy) from error


def _adapt(
    state: dict[str, torch.Tensor], model: nn.Module, path: Path, cfg: dict[str, Any], channels: int
) -> None:
    """Adapt first convolutions to the number of channels of the model, as timm does."""
    from timm.models import adapt_input_conv

    wanted = model.state_dict()
    for name in _names(cfg.get("first_conv")):
        key = f"{name}.weight"
        if key not in state or key not in wanted or state[key].shape == wanted[key].shape:
            continue
        with _refusing(path, cfg):  # timm adapts convolutions of 3 channels only
            state[key] = adapt_input_conv(channels, state[key])


def _names(modules: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Names of modules in a timm configuration, which has one, several or none."""
    return (modules,) if isinstance(modules, str) else tuple(modules or ())


def _check(
    model: nn.Module, state: dict[str, torch.Tensor], path: Path, cfg: dict[str, Any]
) -> None:
    """Raise UserError unless the file holds exactly the model's parameters."""
    heads = _names(cfg.get("classifier"))
    wanted = model.state_dict()
    missing = [k for k in wanted if k not in state and not k.endswith("num_batches_tracked")]
    extra = [k for k in state if k not in wanted and not k.startswith(heads)]
    if extra:
        parts = _classifier_parts(cfg["architecture"])
        extra = [k for k in extra if k not in parts]
    shapes = [k for k in wanted if k in state and state[k].shape != wanted[k].shape]
    if faults := [*missing, *extra, *shapes]:
        raise UserError(
            f"{path} does not fit {cfg['architecture']}: {len(missing)} of its parameters are "
            f"missing, {len(extra)} unknown and {len(shapes)} of another shape (first: "
            f"{faults[0]})",
            "give the weights of this model, or choose the model of these",
        )


def _classifier_parts(architecture: str) -> set[str]:
    """Every name of timm's model with its classifier, which may have a norm and several layers.

    timm's configuration names the last layer alone: `head.linear` of LeViT, beside `head.bn`.
    """
    import torch

    from .paper_networks import timm

    if not timm.is_model(architecture):
        return set()
    build: Any = timm.create_model
    try:
        with torch.device("meta"):  # names alone: no memory, and no random numbers
            return {*build(architecture, pretrained=False).state_dict()}
    except Exception:  # models raise errors of any type
        return set()


def load_head(path: Path) -> tuple[torch.Tensor, HeadMetadata]:
    """The classifier (n, d) that lies with a pretrained trunk, and what is known of it."""
    from safetensors import safe_open

    file_sha256(path)  # refuses a file that is missing
    about = read_metadata(path).get("head")
    if about is None:
        raise UserError(
            f"{path} holds no classifier",
            "make one with embedbench pretrain --head cosine, or leave classifier.base out",
        )
    head = HeadMetadata.from_json(about, f"{path}: its metadata")
    try:
        with safe_open(path, "pt") as file:
            weight = file.get_tensor(HEAD)
        sound = weight.ndim == 2 and len(weight) == len(head.classes) and weight.isfinite().all()
    except Exception:  # safetensors raises errors of its own
        sound = False
    if not sound or head.kind != "cosine":
        raise UserError(
            f"{path} holds a classifier that does not fit its metadata", "pretrain it again"
        )
    return weight.float(), head


def save_weights(path: Path, state: dict[str, torch.Tensor], metadata: dict[str, Any]) -> None:
    """Write weights as safetensors, atomically; the same content gives the same bytes.

    `metadata` is what made them, as plain data. Its key `shown`, if there is one, holds the
    preprocessing of images, with the keys of timm's configurations.
    """
    from safetensors.torch import save

    tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    # one entry, because several have no fixed order
    entry = {METADATA: json.dumps(metadata, sort_keys=True)}
    # not save_file, which lets nobody but the owner read the file
    write_safely(path, save(tensors, metadata=entry))


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hex. The file is read again only if it has changed."""
    if not path.is_file():
        raise _missing(path)
    return user_cache.sha256(path)


def _missing(path: Path) -> UserError:
    return UserError(f"there is no file of weights {path}", "check its path")


# --- what made a file of weights, and how its images were prepared: kept in the file itself ---


METADATA = "embedbench"  # key of the metadata in files that we write


@dataclass(frozen=True)
class _Preprocessing(JsonRecord):
    """The preprocessing of images, with the keys of timm's configurations."""

    input_size: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop_pct: float
    crop_mode: str
    interpolation: str

    def check(self, name: str) -> None:
        if not (
            len(self.input_size) == 3
            and all(1 <= side <= 4096 for side in self.input_size[1:])
            and self.input_size[0] == len(self.mean) == len(self.std)
            and all(map(math.isfinite, self.mean))
            and all(0 < value < math.inf for value in self.std)
            and 0 < self.crop_pct <= 1
            and self.crop_mode in ("center", "squash", "border")
            and self.interpolation in ("nearest", "bilinear", "bicubic", "lanczos")
        ):
            raise UserError(f"{name} names a preprocessing of images that timm does not have.")


@dataclass(frozen=True)
class HeadMetadata(JsonRecord):
    """What is known of a classifier that lies with its trunk.

    Parameters
    ----------
    kind : str
        "cosine": logits are scale · cos(φ(x), θ_c).
    scale : float
        The factor of the cosines.
    classes : tuple of str
        Name of each row's class.
    samples : str
        Digest of the training samples, see `embedbench.learning.pretraining.taught_digest`.
    """

    kind: str
    scale: float
    classes: tuple[str, ...]
    samples: str


@dataclass(frozen=True)
class _Metadata(JsonRecord):
    """What is read of the metadata."""

    shown: _Preprocessing | None = None
    head: HeadMetadata | None = None


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata that `save_weights` put into a file; empty for any other file."""
    if path.suffix != ".safetensors" or not path.is_file():
        return {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(METADATA, "{}")
    except SafetensorError:  # `load_weights` reports the fault
        return {}
    name = f"{path}: its metadata"
    metadata: dict[str, Any] = parse_json(text, name)
    read = _Metadata.from_json(metadata, name)
    if read.shown is not None:
        read.shown.check(name)
        metadata["shown"] = read.shown.to_json()
    return metadata
