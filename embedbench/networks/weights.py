"""Weights of networks: located, loaded strictly, and identified by their SHA-256."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.disk import writing
from embedbench.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import nn

SHIPPED = "tf_efficientnet_lite0"  # the network whose weights are in the package
METADATA = "embedbench"  # key of the metadata in files that we write
# Names of the function that converts checkpoints; timm's model files use different ones.
_FILTERS = ("checkpoint_filter_fn", "_filter_fn", "_filter_torchvision_pretrained")


def hub_weights(name: str, cfg: dict[str, Any]) -> tuple[Path, str]:
    """Return the file of the weights that timm publishes for a model, and their id.

    The file is fetched into the hub's own cache unless it is there already.

    Raises
    ------
    UserError
        There are none, or neither the cache nor the network provides them.
    """
    hub, url = cfg.get("hf_hub_id"), cfg.get("url")
    if not hub and not url:
        raise UserError(f"timm publishes no weights for {name!r}; give some with --weights FILE.")
    try:
        if hub:
            return _from_hub(str(hub), cfg.get("hf_hub_filename"))
        from timm.models._hub import download_cached_file

        return Path(download_cached_file(str(url), check_hash=False, progress=False)), str(url)
    except Exception as error:  # without a network, many kinds of errors occur
        where = f"https://huggingface.co/{hub}" if hub else url
        raise UserError(_unavailable(name, str(where), error)) from error


def _from_hub(hub: str, filename: str | None) -> tuple[Path, str]:
    from huggingface_hub import (
        get_hf_file_metadata,
        hf_hub_download,
        hf_hub_url,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import EntryNotFoundError

    names = [filename] if filename else ["model.safetensors", "pytorch_model.bin"]
    for name in names:
        cached = try_to_load_from_cache(hub, name)
        if isinstance(cached, str):
            return Path(cached), hub
    for name in names:
        try:
            # a short request first: without a network the download retries for half a minute
            get_hf_file_metadata(hf_hub_url(hub, name), timeout=10)
            return Path(hf_hub_download(hub, name)), hub
        except EntryNotFoundError:
            continue
    raise FileNotFoundError(f"{hub} has no file {' or '.join(names)}")


def _unavailable(name: str, where: str, error: Exception) -> str:
    """Why the weights of a model cannot be had, and what to do."""
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(error, RepositoryNotFoundError):  # the hub also answers this to unknown users
        return (
            f"the hub gives the weights of {name!r} only to users whom it knows: ask for access at "
            f"{where}, and set HF_TOKEN to a token of yours; or download them and pass "
            "--weights FILE."
        )
    return (
        f"the weights of {name!r} are not on this machine and could not be fetched "
        f"({type(error).__name__}); download them from {where} and pass --weights FILE, or do "
        f"without the network: the package ships those of {SHIPPED} (--weights shipped)."
    )


def load_weights(model: nn.Module, path: Path, cfg: dict[str, Any], *, channels: int = 3) -> str:
    """Load a file of weights into a model without its classifier, in float32.

    First timm renames parameters, resamples position embeddings, and adapts the first convolution
    to the number of channels. Then every parameter and buffer of the model must be in the file with
    the same shape. The file may also hold a classifier.

    Parameters
    ----------
    model : Module
        A model of timm, or another module.
    cfg : dict
        timm's configuration of the model: `architecture`, and if they exist, the module names
        `classifier` and `first_conv`.
    channels : int
        Channels of the images that the model takes.

    Returns
    -------
    str
        The SHA-256 of the file.

    Raises
    ------
    UserError
        The file cannot be read, or does not fit the model.
    """
    if not path.is_file():
        raise _missing(path)
    load_jax: Any = getattr(model, "load_pretrained", None)  # some ViTs read such files
    if path.suffix == ".npz" and load_jax is not None:
        load_jax(str(path))
        return sha256_of(path)
    state = _read(path)
    for name in _FILTERS:
        convert = getattr(sys.modules[type(model).__module__], name, None)
        if convert is not None:
            try:
                state = convert(state, model)
            except Exception as error:  # timm's renaming fails in many ways on a foreign file
                raise UserError(
                    f"{path} does not fit {cfg['architecture']} ({type(error).__name__}: {error})."
                ) from error
            break
    _adapt(state, model, path, cfg, channels)
    _check(model, state, path, cfg)
    model.load_state_dict(state, strict=False)
    return sha256_of(path)


def _read(path: Path) -> dict[str, torch.Tensor]:
    import torch
    from timm.models import load_state_dict

    try:
        state = load_state_dict(str(path), device="cpu", weights_only=True)
        return {
            key: value.float() if value.is_floating_point() else value
            for key, value in state.items()
            if isinstance(value, torch.Tensor)
        }
    except Exception as error:  # pickle, zip and safetensors raise errors of their own
        raise UserError(
            f"{path} cannot be read as weights; expected a .safetensors "
            "file, or a .pth that holds tensors only."
        ) from error


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
        try:
            state[key] = adapt_input_conv(channels, state[key])
        except (NotImplementedError, AssertionError) as error:
            raise UserError(
                f"{path} does not fit {cfg['architecture']} for images of {channels} channels: its "
                f"first convolution has shape {tuple(state[key].shape)}, and timm adapts those of "
                "3 channels only; give other weights."
            ) from error


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
    shapes = [k for k in wanted if k in state and state[k].shape != wanted[k].shape]
    faults = [
        f"{len(keys)} {what} (first: {keys[0]})"
        for keys, what in (
            (missing, "missing"),
            (extra, "unknown"),
            (shapes, "of another shape"),
        )
        if keys
    ]
    if faults:
        raise UserError(
            f"{path} does not fit {cfg['architecture']}: of its parameters {', '.join(faults)}; "
            "give the weights of this model, or choose the model that they belong to."
        )


def save_weights(path: Path, state: dict[str, torch.Tensor], metadata: dict[str, Any]) -> None:
    """Write weights as safetensors, atomically; the same content gives the same bytes.

    Parameters
    ----------
    metadata : dict
        What made the weights, as plain data. Its key `shown`, if there is one, holds the
        preprocessing of images, with the keys of timm's configurations.
    """
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    # one entry, because several have no fixed order
    entry = {METADATA: json.dumps(metadata, sort_keys=True)}
    with writing(path) as temporary:
        save_file(tensors, temporary, metadata=entry)


def metadata_of(path: Path) -> dict[str, Any]:
    """The metadata that `save_weights` put into a file; empty for any other file."""
    if path.suffix != ".safetensors" or not path.is_file():
        return {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata: dict[str, Any] = json.loads((file.metadata() or {}).get(METADATA, "{}"))
    except SafetensorError:  # `load_weights` reports the fault
        return {}
    return metadata


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, hex. The file is read again only if it has changed.

    Raises
    ------
    UserError
        There is no such file.
    """
    if not path.is_file():
        raise _missing(path)
    status = path.stat()
    return _sha256(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=8)
def _sha256(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(path: Path) -> UserError:
    return UserError(f"there is no file of weights {path}; check --weights.")
