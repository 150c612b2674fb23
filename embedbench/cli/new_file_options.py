"""Options of the commands that make an embedding file, extract and import."""

from pathlib import Path
from typing import Annotated, Any

import typer

from embedbench.files.provenance import UserMetadata

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
    names = [name.strip() for name in pretrained_on.split(",")]
    return UserMetadata(
        licence=licence,
        citation=citation,
        url=url,
        backbone=backbone_name,
        weights_licence=weights_licence,
        pretrained_on=[name for name in names if name],
    )


def samples(
    split: Split = None,
    group: Annotated[
        str | None, typer.Option(help="Samples to keep in one split: stem, parent or a regex.")
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
    time_from: Annotated[
        str | None, typer.Option(help="Column time: a regex that finds a number.")
    ] = None,
) -> dict[str, Any]:
    """The split of an extraction and its optional columns, as arguments of it."""
    from embedbench.extract.source_columns import ColumnRules

    rules = ColumnRules(columns, domain_from, group_from, time_from)
    return {"split": split, "group": group, "stratify": stratify, "columns": rules}


def column_keys(
    domain_from: Annotated[str | None, typer.Option(help="Key or column for domain.")] = None,
    group_from: Annotated[str | None, typer.Option(help="Key or column for group.")] = None,
    time_from: Annotated[str | None, typer.Option(help="Key or column for time.")] = None,
) -> dict[str, str]:
    """The keys of a source whose arrays are optional columns, by column."""
    keys = {"domain": domain_from, "group": group_from, "time": time_from}
    return {name: key for name, key in keys.items() if key is not None}
