"""Weights of timm models: found, loaded strictly, and named by their SHA-256."""

from __future__ import annotations

import hashlib
import sys
import urllib.error
import urllib.request
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import nn

from embedbench.errors import UserError

DEMO_BACKBONE = "tf_efficientnet_lite0"
DEMO_WEIGHTS = "tf_efficientnet_lite0.fp16.safetensors"

# The name under which timm's model files keep their checkpoint filter differs between families.
_FILTERS = ("checkpoint_filter_fn", "_filter_fn", "_filter_torchvision_pretrained")


def demo_weights() -> Path:
    """Return the weights that the package ships."""
    return Path(str(files("embedbench") / "assets" / DEMO_WEIGHTS))


def hub_weights(name: str, cfg: dict[str, Any]) -> tuple[Path, str]:
    """Return the file of the weights that timm publishes for a model, and their id.

    The file is fetched into the hub's own cache where it is not yet there.

    Raises
    ------
    UserError
        There are none, or they can be had neither from the cache nor from the network.
    """
    hub, url = cfg.get("hf_hub_id"), cfg.get("url")
    if not hub and not url:
        raise UserError(f"timm publishes no weights for {name!r}; give some with --weights FILE.")
    try:
        if hub:
            return _from_hub(str(hub), cfg.get("hf_hub_filename"))
        from timm.models._hub import download_cached_file

        return Path(download_cached_file(str(url), check_hash=False, progress=False)), str(url)
    except Exception as error:  # offline shows in a dozen ways, none of them ours
        where = f"https://huggingface.co/{hub} (model.safetensors)" if hub else url
        raise UserError(
            f"the weights of {name!r} are not on this machine and could not be fetched "
            f"({type(error).__name__}); download them from {where} and pass --weights FILE."
        ) from error


def _from_hub(hub: str, filename: str | None) -> tuple[Path, str]:
    from huggingface_hub import hf_hub_download, hf_hub_url, try_to_load_from_cache

    names = [filename] if filename else ["model.safetensors", "pytorch_model.bin"]
    for name in names:
        cached = try_to_load_from_cache(hub, name)
        if isinstance(cached, str):
            return Path(cached), hub
    for name in names:
        # one short question first: offline, the hub's client tries for half a minute
        question = urllib.request.Request(hf_hub_url(hub, name), method="HEAD")
        try:
            urllib.request.urlopen(question, timeout=10).close()
        except urllib.error.HTTPError as error:
            if error.code == 404 and name != names[-1]:
                continue
            raise
        return Path(hf_hub_download(hub, name)), hub
    raise FileNotFoundError(hub)


def load_weights(model: nn.Module, path: Path, cfg: dict[str, Any]) -> str:
    """Load a file of weights into a model without its classifier, in float32.

    Every parameter and buffer of the model must be in the file with its shape, after timm's own
    renaming and resampling of position embeddings; the file may hold a classifier besides.

    Returns
    -------
    The SHA-256 of the file.

    Raises
    ------
    UserError
        The file cannot be read, or does not fit the model.
    """
    if not path.is_file():
        raise UserError(f"there is no file of weights {path}; check --weights.")
    load_jax: Any = getattr(model, "load_pretrained", None)  # some ViTs read such files
    if path.suffix == ".npz" and load_jax is not None:
        load_jax(str(path))
        return _sha256(path)
    state = _read(path)
    for name in _FILTERS:
        convert = getattr(sys.modules[type(model).__module__], name, None)
        if convert is not None:
            try:
                state = convert(state, model)
            except Exception as error:  # a foreign file in somebody's renaming code
                raise UserError(
                    f"{path} does not fit {cfg['architecture']} ({type(error).__name__}: {error})."
                ) from error
            break
    _check(model, state, path, cfg)
    model.load_state_dict(state, strict=False)
    return _sha256(path)


def _read(path: Path) -> dict[str, torch.Tensor]:
    from timm.models import load_state_dict

    try:
        state = load_state_dict(str(path), device="cpu", weights_only=True)
        return {
            key: value.float() if value.is_floating_point() else value
            for key, value in state.items()
            if isinstance(value, torch.Tensor)
        }
    except Exception as error:  # pickle, zip, safetensors: each has its own
        raise UserError(
            f"{path} cannot be read as weights; expected a .safetensors "
            "file, or a .pth that holds tensors only."
        ) from error


def _check(
    model: nn.Module, state: dict[str, torch.Tensor], path: Path, cfg: dict[str, Any]
) -> None:
    """Raise UserError unless the file holds the model's parameters, all of them and no others."""
    head = cfg.get("classifier") or ()
    heads = (head,) if isinstance(head, str) else tuple(head)
    wanted = model.state_dict()
    missing = [k for k in wanted if k not in state and not k.endswith("num_batches_tracked")]
    extra = [k for k in state if k not in wanted and not k.startswith(heads)]
    shapes = [k for k in wanted if k in state and state[k].shape != wanted[k].shape]
    told = [
        f"{len(keys)} {what} (first: {keys[0]})"
        for keys, what in (
            (missing, "missing"),
            (extra, "unknown"),
            (shapes, "of another shape"),
        )
        if keys
    ]
    if told:
        raise UserError(
            f"{path} does not fit {cfg['architecture']}: of its parameters {', '.join(told)}; "
            "give the weights of this model, or the --backbone that they belong to."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
