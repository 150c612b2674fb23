"""The commands on embedding files: extract, import, export, inspect, order, verify, diff."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.machine import MOST_THREADS

from .options import (
    Device,
    EngineName,
    EngineSet,
    Json,
    Overwrite,
    Quiet,
    ResourcesOf,
    check_free,
    chosen_device,
    chosen_engine,
    note,
    show,
)

if TYPE_CHECKING:
    from embedbench.files.file import EmbeddingFile

Source = Annotated[str, typer.Argument(help="Folder, zip, data set name, or 'demo'.")]
File = Annotated[Path, typer.Argument(help="An embedding file.")]
Out = Annotated[Path, typer.Option(help="The embedding file to write.")]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="A timm model; 'none': a pixel file of images, for learners with a --trunk; "
        "'pixels': the images as rows of values; 'log-mel' for sounds."
    ),
]
Weights = Annotated[Path | None, typer.Option(help=".safetensors or .pth file, or 'shipped'.")]
Layers = Annotated[
    str,
    typer.Option(
        help="Intermediate embeddings: 7,8,9 or last4. last4 includes the last block; if the "
        "embedding is a class token, that block is the embedding again."
    ),
]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
Size = Annotated[int | None, typer.Option(help="Input size in pixels; of sounds in seconds.")]
Group = Annotated[
    str | None, typer.Option(help="Samples to keep in one split: stem, parent or a regex.")
]
Decoder = Annotated[
    str, typer.Option(help="pil; or torchvision for JPEG and PNG, with nvJPEG on a card.")
]
OperationThreads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        help="Threads of one operation, which decide the last bits (default: 1; more from 16 cores on).",
        min=1,
        max=MOST_THREADS,
    ),
]
MixedDevices = Annotated[
    bool,
    typer.Option("--allow-mixed-devices", help="Let workers have different models of GPU or CPU."),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out unreadable files.")]
Split = Annotated[
    str | None, typer.Option(help="Test fraction (0.3) or a list file: sample_id,train|val|test.")
]


def extract(
    source: Source,
    out: Out,
    backbone: Backbone = None,
    weights: Weights = None,
    layers: Layers = "",
    dtype: Dtype = "float32",
    size: Size = None,
    split: Split = None,
    group: Group = None,
    device: Device = "auto",
    decoder: Decoder = "pil",
    threads: OperationThreads = None,
    engine: EngineName = None,
    resources: ResourcesOf = None,
    engine_set: EngineSet = None,
    allow_mixed_devices: MixedDevices = False,
    skip_bad: SkipBad = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write an embedding file: embeddings of images, images, or log-mel frames of sounds."""
    from embedbench.files.target import check_target

    target = check_target(out, overwrite=overwrite)  # before anything slow is imported
    who = None
    if engine or resources or engine_set:
        who = chosen_engine(engine, resources, engine_set, jobs=None, threads=threads or 1)
        device = device if who.is_local else chosen_device(device, who)
    from embedbench.extract.pipeline import extract as run_extraction

    from .progress import bar

    with bar("files", quiet) as advance:
        file = run_extraction(
            source,
            target,
            backbone=backbone,
            weights=weights,
            layers=[part for part in layers.split(",") if part],
            dtype=dtype,
            size=size,
            split=split,
            group=group,
            device=device,
            decoder=decoder,
            skip_bad=skip_bad,
            progress=advance,
            notify=note,
            threads=threads,
            engine=who,
            any_device=allow_mixed_devices,
        )
    show(file, _written, as_json=False)


def import_command(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="npz, npy, IDX or AudioSet.")],
    out: Out,
    labels: Annotated[Path | None, typer.Option(help="Labels of a features .npy file.")] = None,
    group: Annotated[str | None, typer.Option(help="Key of the npz that groups samples.")] = None,
    split: Split = None,
    classes: Annotated[int | None, typer.Option(help="Number of AudioSet classes (100).")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Make an embedding file from features in another format."""
    from embedbench.files.exchange import import_file
    from embedbench.files.formats.audioset import selection_text

    from .progress import bar

    with bar("files", quiet) as advance:
        file = import_file(
            source,
            out,
            labels=labels,
            group=group,
            split=split,
            classes=classes,
            overwrite=overwrite,
            progress=advance,
        )
    if "selection" in file.provenance:
        note(selection_text(file.provenance["selection"]))
    show(file, _written, as_json=False)


def _written(file: EmbeddingFile) -> str:
    """One line that describes the written file."""
    n, *sample = file.shape
    if len(sample) == 1:
        return f"{file.path}: {n} samples of {sample[0]} features"
    return f"{file.path}: {n} images of {' x '.join(map(str, sample))}"


def export(
    file: File,
    out: Annotated[Path, typer.Option(help="The npz to write.")],
    overwrite: Overwrite = False,
) -> None:
    """Write an embedding file as npz."""
    from embedbench.files.exchange import export_file

    export_file(file, out, overwrite=overwrite)
    show(out, str, as_json=False)


def inspect(
    file: File,
    redundancy: Annotated[
        bool, typer.Option("--redundancy", help="Count the features that are not redundant.")
    ] = False,
    discretise: Annotated[
        str | None, typer.Option(help="Intervals for --redundancy: mdlp (default) or frequency.")
    ] = None,
    heatmap: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="Draw the redundancy of all pairs of features."),
    ] = None,
    alignment: Annotated[
        bool,
        typer.Option(
            "--alignment", help="Measure how well layers fit the final embedding's means."
        ),
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the contents of an embedding file, and how it was made."""
    from embedbench.files.file import EmbeddingFile
    from embedbench.files.inspect import Redundancy, card, card_text

    opened = EmbeddingFile.open(file)
    result = card(opened)
    if redundancy or discretise or heatmap:
        from embedbench.files.redundancy import redundancy as analyse
        from embedbench.files.redundancy import su_matrix

        from .progress import bar

        if heatmap is not None:
            check_free(heatmap, overwrite)
        with bar("features", quiet) as advance:
            figures, codes = analyse(opened, discretise or "mdlp", progress=advance)
            result = replace(result, redundancy=Redundancy.from_json(figures))
            if heatmap is not None:
                from embedbench.reports.plots import save_map

                matrix = su_matrix(codes, lambda *n: advance(*n, "heat map"))
                save_map(matrix, heatmap, "feature", "symmetric uncertainty")
    if alignment:
        from embedbench.streams.alignment import file_alignment

        result = replace(result, alignment=file_alignment(opened))
    show(result.to_json(), lambda _: card_text(result), as_json)


def order(
    file: File,
    kind: Annotated[str, typer.Option(help="natural, random, icarl1993, coarse, max-confusion, …")],
    out: Annotated[Path, typer.Option(help="The order file to write, JSON.")],
    seed: Annotated[
        int, typer.Option(help="Seed of the draw, the probe and the annealing.", min=0)
    ] = 0,
    sessions: Annotated[int, typer.Option(help="Sessions of a task-confusion order.")] = 10,
    base: Annotated[
        int, typer.Option(help="Classes of the first session; 0: all equal.", min=0)
    ] = 0,
    confusion: Annotated[
        str, typer.Option(help="Errors of a probe: cross-fitted, or train as in the paper.")
    ] = "cross-fitted",
    restarts: Annotated[
        int, typer.Option(help="Annealings of an order by confusion; the best is kept.")
    ] = 1,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a class order for run --order. Confusion is measured on training data."""
    from embedbench.files.file import EmbeddingFile
    from embedbench.streams.orders import make_order, order_text, write_order

    opened = EmbeddingFile.open(file)
    check_free(out, overwrite)
    result = make_order(
        opened,
        kind,
        seed=seed,
        sessions=sessions,
        base=base,
        confusion=confusion,
        restarts=restarts,
    )
    write_order(result, out)
    show(result, order_text, as_json)
    note(f"wrote {out}")


def verify(file: File, as_json: Json = False) -> None:
    """Check every checksum of an embedding file. If any fails, name the rows and exit 1."""
    from embedbench.files.verify import verify as verify_file

    damage = verify_file(file)
    show({"file": str(file), "damage": damage}, lambda _: "\n".join(damage or ["sound"]), as_json)
    if damage:
        raise typer.Exit(1)


def diff(
    a: Annotated[Path, typer.Argument(metavar="A")],
    b: Annotated[Path, typer.Argument(metavar="B")],
    as_json: Json = False,
) -> None:
    """Compare two embedding files: samples, bits, directions, neighbours, scores."""
    from embedbench.files.diff import diff as diff_files
    from embedbench.files.diff import diff_text

    result = diff_files(a, b)
    show(result.to_json(), lambda _: diff_text(result), as_json)
