"""The command pretrain: train a trunk on the base session of a stream."""

from pathlib import Path
from typing import Annotated, Any

import typer

from embedbench.errors import UserError
from embedbench.studies.study import Study, parse_settings

from . import shared_options as shared
from .command_output import bar, show


def pretrain(
    file: Annotated[Path, typer.Argument(help="A pixel file.", parser=shared.here)],
    protocol: Annotated[str, typer.Option(help="See: embedbench list protocols.")],
    trunk: Annotated[str, typer.Option(help="vit_fscil_patch3_36, resnet32, a timm model, …")],
    out: Annotated[Path, typer.Option(help="The .safetensors file to write.")],
    epochs: Annotated[int, typer.Option(help="Epochs over the base session.")] = 300,
    lr: Annotated[float, typer.Option(help="Highest learning rate of AdamW.")] = 5e-4,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of AdamW.")] = 0.05,
    batch_size: Annotated[int, typer.Option(help="Images per step.")] = 256,
    warmup: Annotated[int, typer.Option(help="Epochs until the highest learning rate.")] = 5,
    augment: Annotated[str, typer.Option(help="none, crop-flip or timm.")] = "timm",
    head: Annotated[
        str, typer.Option(help="linear, or cosine (x 12), as Tang et al. have it.")
    ] = "linear",
    deep_supervision: Annotated[
        str,
        typer.Option(help="Blocks, as in extract --layers, whose class tokens are classified too."),
    ] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="As in run: protocol.base=60.")
    ] = None,
    seed: Annotated[int, typer.Option(help="As in run.", min=0)] = 0,
    device: shared.Device = "auto",
    overwrite: shared.Overwrite = False,
    as_json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Train a trunk on a stream's base session and save its weights. Run it again to resume."""
    from embedbench.learning import pretraining
    from embedbench.networks.weights import file_sha256, save_weights

    if out.suffix != ".safetensors":
        raise UserError("--out", expected="a name that ends with .safetensors", got=str(out))
    shared.check_free(out, overwrite)
    names: Any = {"augment": augment, "head": head}  # texts, which `Pretraining` checks
    how = pretraining.Pretraining(
        trunk,
        epochs=epochs,
        lr=lr,
        weight_decay=weight_decay,
        batch_size=batch_size,
        warmup=warmup,
        seed=seed,
        deep_supervision=deep_supervision,
        **names,
    )
    opened, stream = _stream(file, protocol, settings or [], seed)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    out.parent.mkdir(parents=True, exist_ok=True)
    with bar("pretrain", quiet) as advance:
        state, metadata = pretraining.pretrain(
            how,
            stream,
            device=shared.chosen_device(device),
            checkpoint=checkpoint,
            samples=opened.samples,
            overwrite=overwrite,
            progress=advance.stage("epochs"),
        )
    save_weights(out, state, metadata)
    checkpoint.unlink(missing_ok=True)
    data = {"file": str(out), "sha256": file_sha256(out), **metadata}
    show(data, _text(data), as_json)


def _stream(file: Path, protocol: str, settings: list[str], seed: int) -> tuple[Any, Any]:
    """The file, which must hold images, and its stream as `run` builds it."""
    from embedbench.files.hdf5_layout import PIXELS
    from embedbench.runs.stream_cache import StreamCache
    from embedbench.studies.resolve import resolve

    streams = StreamCache()
    opened = streams.file(str(file))
    if opened.kind != PIXELS:
        raise UserError(
            f"{file} holds embeddings, and a trunk is trained on images",
            "make a pixel file with embedbench extract SOURCE --backbone none --size 36 --out FILE",
        )
    (spec,) = resolve(
        Study(
            files=((str(file),),),
            protocols=(protocol,),
            learners=("chance",),
            seeds=(seed,),
            set=parse_settings(settings),
        )
    )
    return opened, streams.stream(spec)


def _text(metadata: dict[str, Any]) -> str:
    accuracy = metadata["validation_accuracy"]
    right = "" if accuracy is None else f", {100 * accuracy:.1f} % of its validation samples right"
    settings = metadata["settings"]
    return (
        f"{metadata['file']}: {settings['trunk']} after {settings['epochs']} epochs on "
        f"{metadata['samples']} images of {metadata['classes']} classes{right}"
    )
