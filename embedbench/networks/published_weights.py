"""Published weights of networks: those of the hub, fetched once, and those that are shipped."""

from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from embedbench.errors import UserError

SHIPPED = "tf_efficientnet_lite0"  # the network whose weights are in the package
# Of its weights: their file, and their licence as timm would name it; see assets/NOTICE.md.
SHA256 = "8e654630357a0c7769ee1aef746b2ca013b14d47e6ef4752704dee80172cd03c"
LICENCE = "apache-2.0"
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")  # of a model of transformers


def hub_weights(name: str, cfg: dict[str, Any]) -> tuple[Path, str]:
    """Return the file of the weights that timm publishes for a model, and their id.

    The file is fetched into the hub's own cache unless it is there already.
    """
    hub = cfg.get("hf_hub_id")
    if not hub:
        url = cfg.get("url") or "its authors"
        raise UserError(
            f"timm's hub has no weights for {name!r}",
            f"get them from {url}, and pass --weights FILE",
        )
    try:
        return _from_hub(str(hub), cfg.get("hf_hub_filename"))
    except Exception as error:  # without a network, many kinds of errors occur
        raise UserError(
            f"the weights of {name!r} are not on this machine and could not be fetched "
            f"({type(error).__name__})",
            f"download them from https://huggingface.co/{hub} (if only users whom the hub knows "
            "may, set HF_TOKEN) and pass --weights FILE, or take --weights shipped with "
            f"{SHIPPED}, or the backbones 'pixels' and 'none', which need none",
        ) from error


def model_folder(name: str) -> tuple[Path, str]:
    """Return the folder of a model of transformers, and its id: `name@commit`.

    `name` is a folder, or a name on the hub, with `@REVISION` where one is asked for. Of the hub's
    files only configurations, vocabularies and safetensors are fetched, into its own cache: no
    code, and no pickle.
    """
    from huggingface_hub import snapshot_download

    if Path(name).is_dir():
        return Path(name), Path(name).resolve().name
    hub, _, revision = name.partition("@")
    options: dict[str, Any] = {"revision": revision or None, "etag_timeout": 10}
    options |= {"allow_patterns": MODEL_FILES, "ignore_patterns": "*/*"}
    try:
        folder = Path(snapshot_download(hub, **options))
    except Exception as error:  # without a network, many kinds of errors occur
        raise UserError(
            f"there is no folder {name!r}, and the model of that name is neither on this machine "
            f"nor could it be fetched ({type(error).__name__})",
            "where there is a network, download it with huggingface_hub.snapshot_download, and "
            "give its folder",
        ) from error
    return folder, f"{hub}@{folder.name}"


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
        with suppress(EntryNotFoundError):
            # a short request first: without a network the download retries for half a minute
            get_hf_file_metadata(hf_hub_url(hub, name), timeout=10)
            return Path(hf_hub_download(hub, name)), hub
    raise FileNotFoundError(f"{hub} has no file {' or '.join(names)}")


def shipped_weights(name: str) -> Path:
    """The shipped weights; refused for any network but theirs."""
    if name.partition(".")[0] != SHIPPED:
        raise UserError(
            f"the package ships the weights of {SHIPPED} alone, not of {name}",
            "choose that one, or give a file with --weights FILE",
        )
    return Path(str(resources.files("embedbench") / "assets" / f"{SHIPPED}.fp16.safetensors"))
