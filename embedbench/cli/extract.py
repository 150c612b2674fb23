"""The command extract, and the options that it shares with import."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.files.provenance import UserMetadata
from embedbench.studies.study import split_names
from embedbench.system.cpu_threads import MOST_THREADS

from . import shared_options as shared
from .command_output import bar, note, show

if TYPE_CHECKING:
    from embedbench.files.embedding_file import EmbeddingFile


Out = Annotated[Path, typer.Option(help="The embedding file to write.")]
Split = Annotated[
    str | None, typer.Option(help="Test fraction (0.3) or a list file: sample_id,train|val|test.")
]
STRATIFY = "Keep each class's share in a split by test fraction"
ColumnList = Annotated[
    Path | None,
    typer.Option("--columns", help="A CSV file: sample_id and any of domain, group, time."),
]


def collect_metadata(
    licence: Annotated[str, typer.Option(help="Licence of the data.")] = "",
    citation: Annotated[str, typer.Option(help="How to cite the data.")] = "",
    url: Annotated[str, typer.Option(help="Where the data are from.")] = "",
    backbone_name: Annotated[str, typer.Option(help="Name of the backbone, for people.")] = "",
    weights_licence: Annotated[str, typer.Option(help="Licence of its weights.")] = "",
    pretrained_on: Annotated[
        str, typer.Option(help="Data sets that it was pretrained on: imagenet-1k,laion-2b.")
    ] = "",
) -> UserMetadata:
    """Collect what the options say of a file, for people."""
    return UserMetadata(
        licence=licence,
        citation=citation,
        url=url,
        backbone=backbone_name,
        weights_licence=weights_licence,
        pretrained_on=[*split_names(pretrained_on)],
    )


def samples(
    split: Split = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Samples of one group: stem, parent or a regex; kept as the column group, and in "
            "one part by --split 0.3."
        ),
    ] = None,
    stratify: Annotated[
        bool | None, typer.Option(help=f"{STRATIFY}; as it is below 50 samples a class.")
    ] = None,
    columns: ColumnList = None,
    domain_from: Annotated[
        str | None,
        typer.Option(help="Column domain: folder (SOURCE/DOMAIN/CLASS/file), or as --group."),
    ] = None,
    group_from: Annotated[
        str | None, typer.Option(help="Column group: stem, parent or a regex.")
    ] = None,
) -> dict[str, Any]:
    """The split of an extraction and its optional columns, as arguments of it."""
    return locals()


# --- extract ---


@dataclass(frozen=True, kw_only=True)
class BackboneOptions:
    """What goes through which network, and how."""

    backbone: Annotated[
        str | None,
        typer.Option(
            help="A timm model; hf:NAME, one of transformers; 'none': a pixel file of images, for "
            "learners with a --trunk; "
            "'pixels': the images as rows of values; 'log-mel' for sounds; or "
            "package.module:Class."
        ),
    ] = None
    weights: Annotated[
        Path | None, typer.Option(help=".safetensors or .pth file, or 'shipped'.")
    ] = None
    layers: Annotated[
        str,
        typer.Option(
            help="Intermediate embeddings: 7,8,9 or last4. last4 includes the last block; if the "
            "embedding is a class token, that block is the embedding again."
        ),
    ] = ""
    dtype: Annotated[
        str,
        typer.Option(help="float32, bfloat16 or float16; half precision is slow on many CPUs."),
    ] = "float32"
    size: Annotated[
        int | None, typer.Option(help="Input size in pixels; of sounds in seconds.")
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            help="Threads of an operation; they decide the last bits (default: 1 up to 15 cores).",
            min=1,
            max=MOST_THREADS,
        ),
    ] = None
    alpha: Annotated[
        str,
        typer.Option(
            help="Ground that transparent pixels of images are laid on: white, black, '#rrggbb'; "
            "or drop, which shows their hidden colours."
        ),
    ] = "white"
    orientation: Annotated[
        str, typer.Option(help="turn images as their EXIF says, or keep them as stored.")
    ] = "turn"
    normalise: Annotated[
        str,
        typer.Option(
            help="With --backbone pixels: none; channel, by mean and deviation of each channel of "
            "the training images; or these numbers, 0.5,0.4,0.3/0.2,0.2,0.1."
        ),
    ] = "none"
    flip: Annotated[
        bool,
        typer.Option(
            "--flip",
            help="With --backbone pixels or none: each training image also flipped, left to right.",
        ),
    ] = False
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out unreadable files.")] = (
        False
    )


@shared.taking(how=BackboneOptions, samples=samples, stated=collect_metadata)
def extract(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder, zip, texts.csv, 'demo', torch/NAME@ROOT, or "
            "'hfds/NAME?image=COLUMN&label=COLUMN&domain=COLUMN@REVISION'; "
            "what is not said is guessed, and a line says so."
        ),
    ],
    out: Out,
    how: BackboneOptions,
    device: shared.Device = "auto",
    engine: shared.EngineName = None,
    resources: shared.ResourcesOf = None,
    engine_set: shared.EngineSet = None,
    overwrite: shared.Overwrite = False,
    quiet: shared.Quiet = False,
    *,
    samples: dict[str, Any],
    stated: UserMetadata,
) -> None:
    """Write an embedding file of images, sounds or texts; with --backbone none, of the images."""
    from embedbench.files.write_file import check_target

    check_target(out, overwrite=overwrite)  # before anything slow is imported
    source, how, stated = _from_zoo(source, how, samples, stated)
    with bar("extract", quiet) as advance:
        who = None  # this process alone computes the blocks
        if engine or resources or engine_set:
            who = shared.chosen_engine(engine, resources, engine_set, how.threads or 1)
            device = shared.chosen_device(device, who)
        from embedbench.extract.pipeline import extract as run_extraction

        file = run_extraction(
            source,
            out,
            **vars(how) | {"layers": [part for part in how.layers.split(",") if part]},
            **samples,
            stated=stated,
            device=device,
            overwrite=overwrite,
            progress=advance.stage("files"),
            limit=advance.say_limit,
            notify=note,
            inform=(lambda _: None) if quiet else note,
            engine=who,
        )
    show({}, describe_file(file), as_json=False)


def _from_zoo(
    source: str, how: BackboneOptions, samples: dict[str, Any], stated: UserMetadata
) -> tuple[str, BackboneOptions, UserMetadata]:
    """What the names `zoo:…` of a source and a backbone mean; what was given stays."""
    from embedbench.zoo.zoo_entries import ZOO, describe_backbone, find_source

    if source.startswith(ZOO) and not os.path.lexists(source):  # what exists is a path
        source, options, data = find_source(source)
        samples.update({k: v for k, v in options.items() if samples[k] is None})
        stated = replace(stated, licence=stated.licence or data.licence, url=stated.url or data.url)
        said = "".join(f" --{k} {v}" for k, v in options.items())
        note(f"the zoo's source: {source}{said}; licence {data.licence}")
    if how.backbone and how.backbone.startswith(ZOO):
        backbone, shipped, stated = describe_backbone(how.backbone, stated)
        how = replace(how, backbone=backbone, weights=how.weights or shipped)
        note(f"the zoo's backbone: {backbone}")
    return source, how, stated


def describe_file(file: "EmbeddingFile") -> str:
    """One line that describes the written file."""
    n, *sample = file.shape
    if len(sample) == 1:
        return f"{file.path}: {n} samples of {sample[0]} features"
    return f"{file.path}: {n} images of {' x '.join(map(str, sample))}"
