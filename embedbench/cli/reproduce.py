"""`embedbench reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Device, Json, Quiet, chosen_device, note, show


def reproduce(
    paper: Annotated[
        str, typer.Argument(help="class-orderings, fscil, iirc, kemker2018 or new-metrics.")
    ],
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="1, 2, fig3, s6, …; default: all.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            "--dataset",
            help="FILE; for kemker2018 mnist=FILE, cub-stand-in=FILE, …; for iirc cifar=FILE, …; "
            "for fscil cifar100=FILE, …",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory; default: reproduce/PAPER.")] = None,
    seeds: Annotated[str, typer.Option(help="0-4 or 0,2,5.")] = "0-2",
    learner: Annotated[str | None, typer.Option(help="Run these only, with commas.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="As in run.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes (default: the cores).", min=1)] = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a paper's experiments again, its tables beside ours."""
    from embedbench.machine import cores
    from embedbench.papers.catalogue import reproducer
    from embedbench.papers.page import save, table_text
    from embedbench.runs.settings import parse_seeds

    from .progress import bar

    run_again = reproducer(paper)
    place = out or Path("reproduce") / paper
    with bar("runs", quiet) as advance:
        found, failed = run_again(
            tables or [],
            data=data or [],
            out=place,
            seeds=parse_seeds(seeds),
            learners=learner.split(",") if learner else [],
            items=settings or [],
            jobs=jobs or cores(),
            device=chosen_device(device),
            progress=advance,
            notify=lambda sentence: None if quiet else note(sentence),
        )
    page = save(found, paper, place)
    show([t.to_json() for t in found], lambda _: "\n\n".join(map(table_text, found)), as_json)
    note(f"wrote {page} and {page.with_suffix('.json')}")
    for sentence in failed:
        note(f"failed: {sentence}")
    if failed:
        raise typer.Exit(1)
