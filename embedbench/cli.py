"""The command line. Data goes to stdout, progress and remarks to stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench import cli_files, cli_pretrain, cli_report
from embedbench.allocator import keep_freed_memory
from embedbench.cli_shared import (
    Checkpoint,
    Device,
    Json,
    Overwrite,
    Quiet,
    chosen_device,
    note,
    show,
)
from embedbench.errors import UserError

if TYPE_CHECKING:
    from embedbench.cell import Cell

app = typer.Typer(
    name="embedbench",
    help="A feature-embedding continual-learning testbed: extract once, then ask any learner what "
    "it keeps, what it still learns, and what it costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # an error is a sentence, not a box
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (
    cli_files.extract,
    cli_files.import_command,
    cli_files.export,
    cli_files.inspect,
    cli_files.order,
    cli_files.verify,
    cli_files.diff,
    cli_pretrain.pretrain,
    cli_report.score,
    cli_report.report,
):
    app.command(command.__name__.removesuffix("_command"))(command)


@app.command()
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
    trunk: Annotated[str | None, typer.Option(help="mlp, linear; of images resnet32, …")] = None,
    weights: Annotated[str | None, typer.Option(help="Of the trunk: FILE, or hub.")] = None,
    augment: Annotated[str | None, typer.Option(help="Of images: crop-flip or timm.")] = None,
    preset: Annotated[str | None, typer.Option(help="Settings by name: kemker, league.")] = None,
    tune: Annotated[
        list[str] | None, typer.Option(help="Values to choose from: mlp.lr=0.1,0.01.")
    ] = None,
    tune_sessions: Annotated[
        int, typer.Option(help="Sessions whose validation data chooses.", min=1)
    ] = 3,
    budget_mb: Annotated[
        float | None, typer.Option(help="As many exemplars as fit: bytes held, in MB.", min=0)
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes (default: the cores).", min=1)] = None,
    device: Device = "auto",
    checkpoint: Checkpoint = 60.0,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Teach learners a stream and keep what they answered. Run again, it goes on."""
    from embedbench import grid
    from embedbench.budget import budget_items, over_budget
    from embedbench.cores import cores
    from embedbench.progress import bar
    from embedbench.settings import (
        parse_seeds,
        parse_settings,
        plan,
        start_of_command,
        trunk_items,
    )
    from embedbench.tune import chosen_items, search, with_log

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

    with bar("trials", quiet or not tune) as advance:
        logs = search(
            planned([]),
            tune or [],
            out,
            sessions=tune_sessions,
            jobs=jobs or cores(),
            progress=advance,
        )
    chosen = [item for log in logs for item in chosen_items(log)]
    chosen += budget_items(planned(chosen), budget_mb)
    cells = [with_log(cell, logs) for cell in planned(chosen)]
    wanted = jobs or min(len(cells), cores())
    with bar("cells", quiet) as advance:
        outcome = grid.run_grid(
            cells, out, jobs=wanted, overwrite=overwrite, progress=advance, tell=note
        )
    for cell, reason in outcome.failed:
        print(f"failed: {cell.learner} seed {cell.seed}: {reason}", file=sys.stderr)
    for sentence in over_budget(outcome.places, budget_mb):
        note(sentence)
    if outcome.skipped:
        note(f"{outcome.skipped} finished cells were there and are kept")
    failed = [{"learner": c.learner, "seed": c.seed, "reason": r} for c, r in outcome.failed]
    _report(out, as_json, places=outcome.places, extra={"failed": failed})
    if failed:
        raise typer.Exit(2 if outcome.bad_input else 1)


@app.command("list")
def list_command(
    kind: Annotated[
        str | None, typer.Argument(help="learners, protocols, metrics or backbones.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List what can be named on the command line."""
    from embedbench.listing import KINDS, entries

    kinds = [kind] if kind else [k for k in KINDS if k != "backbones"]
    found = {k: entries(k) for k in kinds}

    def text(_: Any) -> str:
        lines = []
        for k, rows in found.items():
            width = max(len(r["name"]) for r in rows)
            lines += [f"{k}:"] if len(found) > 1 else []
            lines += [f"{r['name']:<{width}}  {r['summary']}" for r in rows]
        return "\n".join(lines)

    show(found[kind] if kind else found, text, as_json)


@app.command()
def check(
    name: Annotated[
        str, typer.Argument(help="Learner, protocol, 'metrics', or package.mod:Class.")
    ],
    device: Annotated[str, typer.Option(help="Where a learner learns: cpu, cuda, …")] = "cpu",
    as_json: Json = False,
) -> None:
    """Hold a learner, a protocol or the metrics to the contract. Exit 1 if a check fails."""
    from embedbench.check import check as run_checks
    from embedbench.check import check_text

    results = run_checks(name, chosen_device(device))
    show([r.to_json() for r in results], lambda _: check_text(results), as_json)
    if not all(r.passed for r in results):
        raise typer.Exit(1)


@app.command()
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
    from embedbench.cores import cores
    from embedbench.progress import bar
    from embedbench.reproduce import reproducer, save, table_text
    from embedbench.settings import parse_seeds

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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the file, runs and report.")] = Path(
        "runs/demo"
    ),
    quiet: Quiet = False,
) -> None:
    """Shipped images to embeddings, streams, learners, report. Takes under three minutes."""
    from embedbench.demo import run_demo

    run_demo(out, quiet=quiet)


def _report(runs: Path, as_json: bool, **what: Any) -> None:
    from embedbench.report import print_report

    print_report(runs, as_json=as_json, **what)


def _dashes(words: list[str]) -> list[str]:
    """Options with `-` for `_`: `--skip_bad` is `--skip-bad`."""
    fixed = []
    for word in words:
        name, equals, value = word.partition("=")
        fixed.append(name.replace("_", "-") + equals + value if word.startswith("--") else word)
    return fixed


def main() -> None:
    """Entry point: user errors end with one sentence and exit code 2."""
    keep_freed_memory()
    try:
        app(_dashes(sys.argv[1:]))
    except UserError as e:
        print(f"embedbench: {e}", file=sys.stderr)
        sys.exit(2)
    except OSError as e:
        what = f"{e.filename}: " if e.filename else ""
        print(f"embedbench: {what}{e.strerror or e}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as e:
        if e.code == 130:  # typer's answer to Ctrl-C
            note("embedbench: interrupted; what is finished is kept, run again to go on")
        raise
