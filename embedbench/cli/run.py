"""`embedbench run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError

from .options import Checkpoint, Device, Json, Overwrite, Quiet, chosen_device, note

if TYPE_CHECKING:
    from embedbench.runs.cell import Cell


def run(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Embedding files, in order.")
    ],
    protocol: Annotated[str, typer.Option(help="See: embedbench list protocols.")],
    learner: Annotated[str, typer.Option(help="One or more, with commas.")],
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory of the run records.")],
    seed: Annotated[int | None, typer.Option(help="One seed (default 0).", min=0)] = None,
    seeds: Annotated[str | None, typer.Option(help="Several: 0-4 or 0,2,5.")] = None,
    vary: Annotated[
        str | None,
        typer.Option(
            help="order,init,batches,memory: seeds to vary one at a time, see --by seeds."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="ewc.lam=100, protocol.base=50, …")
    ] = None,
    order: Annotated[str | None, typer.Option(help="natural, random, size or a file.")] = None,
    trunk: Annotated[str | None, typer.Option(help="mlp, linear; for images resnet32, …")] = None,
    weights: Annotated[str | None, typer.Option(help="Weights of the trunk: FILE, or hub.")] = None,
    augment: Annotated[
        str | None, typer.Option(help="Augmentation of images: crop-flip or timm.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Settings by name: kemker, league.")] = None,
    tune: Annotated[
        list[str] | None, typer.Option(help="Values to choose from: mlp.lr=0.1,0.01.")
    ] = None,
    tune_sessions: Annotated[
        int, typer.Option(help="Sessions whose validation data decide.", min=1)
    ] = 3,
    budget_mb: Annotated[
        float | None, typer.Option(help="Take as many exemplars as fit into this many MB.", min=0)
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes (default: the cores).", min=1)] = None,
    device: Device = "auto",
    checkpoint: Checkpoint = 60.0,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run learners through a stream and store their answers. Run it again to resume."""
    from embedbench.machine import cores
    from embedbench.reports.text import print_report
    from embedbench.runs import grid
    from embedbench.runs.budget import budget_items, over_budget
    from embedbench.runs.settings import (
        parse_seeds,
        parse_settings,
        plan,
        start_of_command,
        trunk_items,
    )
    from embedbench.runs.tune import chosen_items, search, with_log
    from embedbench.runs.work import Workshop

    from .progress import bar

    if seed is not None and seeds is not None:
        raise UserError("give --seed or --seeds, not both")
    items = [*(settings or []), *([f"protocol.order={order}"] if order else [])]
    learners = [name.strip() for name in learner.split(",") if name.strip()]
    items += trunk_items(learners, trunk=trunk, weights=weights, augment=augment)
    where = chosen_device(device)

    def planned(more: list[str]) -> list[Cell]:
        return plan(
            [str(f) for f in files],
            protocol,
            learners,
            [seed or 0] if seeds is None else parse_seeds(seeds),
            settings=parse_settings([*items, *more], learners, preset),
            device=where,
            command=start_of_command(files, protocol, out, preset),
            vary=[kind.strip() for kind in (vary or "").split(",") if kind.strip()],
            checkpoint=checkpoint,
        )

    workshop = Workshop()
    with bar("trials", quiet or not tune) as advance:
        logs = search(
            planned([]),
            tune or [],
            out,
            sessions=tune_sessions,
            jobs=jobs or cores(),
            progress=advance,
            workshop=workshop,
        )
    chosen = [item for log in logs for item in chosen_items(log)]
    chosen += budget_items(planned(chosen), budget_mb, workshop)
    cells = [with_log(cell, logs) for cell in planned(chosen)]
    wanted = jobs or min(len(cells), cores())
    with bar("cells", quiet) as advance:
        outcome = grid.run_grid(
            cells,
            out,
            jobs=wanted,
            overwrite=overwrite,
            progress=advance,
            tell=note,
            workshop=workshop,
        )
    for cell, reason in outcome.failed:
        print(f"failed: {cell.learner} seed {cell.seed}: {reason}", file=sys.stderr)
    for sentence in over_budget(outcome.places, budget_mb):
        note(sentence)
    if outcome.skipped:
        note(f"{outcome.skipped} finished cells were there and are kept")
    failed = [{"learner": c.learner.name, "seed": c.seed, "reason": r} for c, r in outcome.failed]
    print_report(out, as_json=as_json, places=outcome.places, extra={"failed": failed})
    if failed:
        raise typer.Exit(2 if outcome.bad_input else 1)
