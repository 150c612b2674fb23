"""Options of the commands that make an embedding file, extract and import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from embedbench.files.stated import Stated

Out = Annotated[Path, typer.Option(help="The embedding file to write.")]
Split = Annotated[
    str | None, typer.Option(help="Test fraction (0.3) or a list file: sample_id,train|val|test.")
]
Stratify = Annotated[
    bool, typer.Option("--stratify", help="Keep each class's share in a split by test fraction.")
]
ColumnList = Annotated[
    Path | None,
    typer.Option("--columns", help="A CSV file: sample_id and any of domain, group, time."),
]
Licence = Annotated[str, typer.Option(help="Licence of the data.")]
Citation = Annotated[str, typer.Option(help="How to cite the data.")]
Url = Annotated[str, typer.Option(help="Where the data are from.")]
BackboneName = Annotated[str, typer.Option(help="Name of the backbone, for people.")]
WeightsLicence = Annotated[str, typer.Option(help="Licence of the backbone's weights.")]
PretrainedOn = Annotated[
    str, typer.Option(help="Data sets that the backbone was pretrained on: imagenet-1k,laion-2b.")
]


def stated(
    licence: str,
    citation: str,
    url: str,
    backbone_name: str,
    weights_licence: str,
    pretrained_on: str,
) -> Stated:
    """What the options say of a file, for people."""
    names = [name.strip() for name in pretrained_on.split(",")]
    return Stated(
        licence=licence,
        citation=citation,
        url=url,
        backbone=backbone_name,
        weights_licence=weights_licence,
        pretrained_on=[name for name in names if name],
    )
