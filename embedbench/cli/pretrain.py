"""The command that trains a trunk on the base session of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from embedbench.errors import UserError, unknown

from .options import Device, Json, Overwrite, Quiet, chosen_device, show


def pretrain(
    file: Annotated[Path, typer.Argument(help="A pixel file.")],
    protocol: Annotated[str, typer.Option(help="See: embedbench list protocols.")],
    trunk: Annotated[str, typer.Option(help="vit_fscil_patch3_36, resnet32, a timm model, …")],
    out: Annotated[Path, typer.Option(help="The .safetensors file to write.")],
    epochs: Annotated[int, typer.Option(help="Epochs over the base session.")] = 300,
    lr: Annotated[float, typer.Option(help="Highest learning rate of AdamW.")] = 5e-4,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of AdamW.")] = 0.05,
    batch_size: Annotated[int, typer.Option(help="Images per step.")] = 256,
    warmup: Annotated[int, typer.Option(help="Epochs until the highest learning rate.")] = 5,
    augment: Annotated[str, typer.Option(help="none, crop-flip or timm.")] = "timm",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="As in run: protocol.base=60.")
    ] = None,
    seed: Annotated[int, typer.Option(help="As in run.", min=0)] = 0,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a trunk on a stream's base session and save its weights. Run it again to resume."""
    from embedbench.learning.pretrain import Pretraining
    from embedbench.learning.pretrain import pretrain as train_trunk
    from embedbench.networks.weights import save_weights, sha256_of
    from embedbench.runs.settings import parse_settings
    from embedbench.seeds import Seeds

    from .progress import bar

    if out.suffix != ".safetensors":
        raise UserError(f"--out must end with .safetensors, got {out}")
    if out.exists() and not overwrite:
        raise UserError(f"{out} is there already; name another file or add --overwrite")
    given = parse_settings(settings or [], [], None)
    for name in (*given.common, *given.learners):
        raise unknown("setting", name, ["protocol.…", "seeds.order"])
    how = Pretraining(
        trunk, epochs, lr, weight_decay, batch_size, warmup, augment=augment, seed=seed
    )
    order = given.seeds.get("order", Seeds.of(seed).order)
    stream = _stream(file, protocol, given.protocol, order)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    out.parent.mkdir(parents=True, exist_ok=True)
    with bar("epochs", quiet) as advance:
        state, metadata = train_trunk(
            how,
            stream,
            device=chosen_device(device),
            checkpoint=checkpoint,
            overwrite=overwrite,
            progress=advance,
        )
    save_weights(out, state, metadata)
    checkpoint.unlink(missing_ok=True)
    show({"file": str(out), "sha256": sha256_of(out), **metadata}, _text, as_json)


def _stream(file: Path, protocol: str, params: dict[str, Any], order: int) -> Any:
    """The stream as `run` builds it; the file must hold images."""
    from embedbench.fields import make
    from embedbench.files.file import EmbeddingFile
    from embedbench.files.layout import PIXELS
    from embedbench.runs.registry import protocol_class

    opened = EmbeddingFile.open(file)
    if opened.kind != PIXELS:
        raise UserError(
            f"{file} holds embeddings, and a trunk is trained on images; make a pixel file with "
            "embedbench extract SOURCE --backbone none --size 36 --out FILE"
        )
    made = make(protocol_class(protocol), params, name="protocol")
    return made.build([opened], seed=order)


def _text(metadata: dict[str, Any]) -> str:
    accuracy = metadata["validation_accuracy"]
    right = "" if accuracy is None else f", {100 * accuracy:.1f} % of its validation samples right"
    settings = metadata["settings"]
    return (
        f"{metadata['file']}: {settings['trunk']} after {settings['epochs']} epochs on "
        f"{metadata['samples']} images of {metadata['classes']} classes{right}"
    )
