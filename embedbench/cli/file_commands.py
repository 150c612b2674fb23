"""The commands on embedding files: import, export, inspect, order, verify, diff, push."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.files.provenance import UserMetadata
from embedbench.storage.atomic_write import write_safely
from embedbench.text.table_export import pairs

from . import shared_options as shared
from .command_output import bar, note, show, show_tables
from .extract import STRATIFY, ColumnList, Out, Split, collect_metadata, describe_file

if TYPE_CHECKING:
    from embedbench.files.embedding_file import EmbeddingFile
    from embedbench.files.feature_redundancy import Redundancy
    from embedbench.files.inspect import Card


@shared.taking(stated=collect_metadata)
def import_command(
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="SRC...",
            help="npz, npy, mat, h5, csv, tsv, json, jsonl, parquet, safetensors, pt; a folder. "
            "Several files of one layout are domains, or the parts that they are called.",
        ),
    ],
    out: Out,
    features: Annotated[
        str | None,
        typer.Option(help="Key or column of the features; in a table their stem (f of f0, f1)."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Key or column of the labels; or a file of them: one a row in order, or lines of "
            "id and label, with a split or groups beside them."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Key or column of the groups; of ids: stem, parent, a regex. They become the "
            "column group, and --split 0.3 keeps each in one part."
        ),
    ] = None,
    split: Split = None,
    stratify: Annotated[bool, typer.Option("--stratify", help=f"{STRATIFY}.")] = False,
    columns: ColumnList = None,
    overwrite: shared.Overwrite = False,
    quiet: shared.Quiet = False,
    *,
    stated: UserMetadata,
) -> None:
    """Make an embedding file from features in another format."""
    with bar("import", quiet) as advance:
        from embedbench.files.import_features import import_file

        file = import_file(
            source,
            out,
            features=features,
            labels=labels,
            group=group,
            split=split,
            stratify=stratify,
            columns=columns,
            stated=stated,
            overwrite=overwrite,
            progress=advance.stage("rows"),
            notify=note,
        )
    show({}, describe_file(file), as_json=False)


def export(
    file: shared.File,
    out: Annotated[Path, typer.Option(help="The .npz, .safetensors or .parquet to write.")],
    overwrite: shared.Overwrite = False,
) -> None:
    """Write an embedding file as npz, safetensors or Parquet."""
    from embedbench.files.export_features import export_file

    export_file(file, out, overwrite=overwrite)
    show({}, str(out), as_json=False)


@shared.with_tables
def inspect(
    file: Annotated[str, typer.Argument(help="An embedding file, or its name.")],
    redundancy: Annotated[
        bool, typer.Option("--redundancy", help="Count the features that are not redundant.")
    ] = False,
    heatmap: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="Draw the redundancy of all pairs of features."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--map", help="Draw two dimensions of the embeddings, by class.")
    ] = None,
    page: Annotated[
        bool, typer.Option("--card", help="Print the page that push writes, Markdown.")
    ] = False,
    overwrite: shared.Overwrite = False,
    form: str = "text",
    quiet: shared.Quiet = False,
) -> None:
    """Show the contents of an embedding file, and how it was made."""
    from embedbench.files.embedding_file import EmbeddingFile
    from embedbench.files.inspect import card, card_text

    analysed = bool(redundancy or heatmap)
    opened = EmbeddingFile.open(shared.here(file))
    result = replace(card(opened), path=str(opened.path if page else file))
    if analysed:
        if heatmap is not None:
            shared.check_free(heatmap, overwrite)
        result = replace(result, redundancy=_redundancy(opened, heatmap, quiet))
    if picture is not None:
        _map(opened, picture, overwrite)
    data = result.to_json()
    show_tables(form, data, pairs(data), text=_page(opened, result) if page else card_text(result))


def _map(file: EmbeddingFile, path: Path, overwrite: bool) -> None:
    """Draw what a file looks like."""
    from embedbench.reports import figure_kinds, figure_style, picture_of_file

    figure_kinds.check_format(path)
    shared.check_free(path, overwrite)
    drawing = picture_of_file.draw_file(file, figure_kinds.WIDTHS["column"])
    figure_style.write(path, drawing)
    n = len(file.labels)
    most = picture_of_file.POINTS
    seed = picture_of_file.SEED
    note(f"wrote {path}" + (f": {most:,} of {n:,} samples, seed {seed}" if n > most else ""))


def _redundancy(file: EmbeddingFile, heatmap: Path | None, quiet: bool) -> Redundancy:
    """Count the features that are not redundant; draw all pairs of features where asked."""
    from embedbench.files import feature_redundancy

    with bar("inspect", quiet) as advance:
        advance.stage("features")
        result, codes = feature_redundancy.redundancy(file, progress=advance)
        if heatmap is not None:
            from embedbench.reports import figure_style, score_figures

            matrix = feature_redundancy.su_matrix(codes, lambda *n: advance(*n, "heat map"))
            names = ("feature", "feature")
            scale = "symmetric uncertainty (%)"
            figure = score_figures.draw_maps({"": matrix}, 5, axes_names=names, scale=scale)
            write_safely(heatmap, figure_style.render_figure(figure, "png"))
    return result


def _page(file: EmbeddingFile, card: Card) -> str:
    """The page that push writes."""
    from embedbench.sharing.dataset_card import card_page

    return card_page(card, sha256=file.sha256()).rstrip("\n")


def order(
    file: shared.File,
    kind: Annotated[str, typer.Option(help="See: embedbench list orders.")],
    out: Annotated[Path, typer.Option(help="The order file to write, JSON.")],
    seed: Annotated[
        int, typer.Option(help="Seed of the draw, the probe and the annealing.", min=0)
    ] = 0,
    sessions: Annotated[int, typer.Option(help="Sessions of a task-confusion order.")] = 10,
    base: Annotated[
        int, typer.Option(help="Classes of the first session; 0: all equal.", min=0)
    ] = 0,
    overwrite: shared.Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Write a class order for run --order. Confusion is measured on training data."""
    from embedbench.files.embedding_file import EmbeddingFile
    from embedbench.streams.class_order import order_notes
    from embedbench.streams.make_class_order import make_order, write_order
    from embedbench.streams.taught_classes import notes_on_classes, with_taught_classes

    opened = with_taught_classes(EmbeddingFile.open(file))
    shared.check_free(out, overwrite)
    result = make_order(opened, kind, seed=seed, sessions=sessions, base=base)
    write_order(result, out)
    show(result, "\n".join(result["order"]), as_json)
    for sentence in (*notes_on_classes(opened), *order_notes(kind, opened)):
        note(f"note: {sentence}")
    note(f"wrote {out}")


def verify(file: shared.File, as_json: shared.Json = False) -> None:
    """Check every checksum of an embedding file. If any fails, name the rows and exit 1."""
    from embedbench.files.embedding_file import verify as verify_file

    damage = verify_file(file)
    show({"file": str(file), "damage": damage}, "\n".join(damage or ["sound"]), as_json)
    if damage:
        raise typer.Exit(1)


@shared.with_tables
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", parser=shared.here)],
    b: Annotated[Path, typer.Argument(metavar="B", parser=shared.here)],
    form: str = "text",
) -> None:
    """Compare two embedding files: samples, bits, directions, neighbours, scores."""
    from embedbench.files import diff as compare

    result = compare.diff(a, b)
    data = result.to_json()
    show_tables(form, data, pairs(data), text=compare.diff_text(result))


def push(
    file: Annotated[Path, typer.Argument(help="An embedding file.")],
    url: Annotated[
        str, typer.Argument(help="hf://datasets/ORG/NAME, or a folder such as s3://bucket/folder.")
    ],
    licence: Annotated[
        str, typer.Option(help="Licence of the data, if the file states none; or 'unknown'.")
    ] = "",
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository on the hub private.")
    ] = False,
    overwrite: shared.Overwrite = False,
    as_json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Send an embedding file and a page about it to the Hugging Face hub, or to any URL."""
    from embedbench.sharing import push_file

    result = push_file.push(
        file,
        url,
        licence=licence,
        private=private,
        overwrite=overwrite,
        quiet=quiet,
        notify=note,
    )
    if result.unchanged:
        note(f"there already: {', '.join(result.unchanged)}")
    if result.sent:
        note(f"sent: {', '.join(result.sent)}")
    show(result.to_json(), result.url, as_json)
