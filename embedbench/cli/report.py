"""The commands on run records: score and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError, unknown

from .options import Json, Overwrite, note, show

if TYPE_CHECKING:
    from embedbench.reports.bridge import Bridge

Runs = Annotated[Path, typer.Argument(metavar="RUNS")]
BY = ("order", "seeds")


def score(
    runs: Runs,
    audit: Annotated[
        bool, typer.Option("--audit", help="For one run: what other libraries would print.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Recompute every metric from the stored predictions."""
    from embedbench.scores import record

    if audit:
        _audit(runs, as_json)
        return
    result = {
        str(place.relative_to(runs)): record.rescore(place, runs) for place in record.find(runs)
    }
    changed = [name for name, differs in result.items() if differs]
    text = "\n".join(
        [f"{len(result)} runs: {len(result) - len(changed)} identical, {len(changed)} changed"]
        + [f"changed: {name}" for name in changed]
    )
    entries = [{"run": name, "changed": differs} for name, differs in result.items()]
    show(entries, lambda _: text, as_json)


def _audit(runs: Path, as_json: bool) -> None:
    """Print every definition of accuracy and forgetting for one run."""
    from embedbench.reports.audit_text import audit_text
    from embedbench.scores import record
    from embedbench.scores.audit import audit
    from embedbench.scores.predictions import Predictions
    from embedbench.typed import plain

    places = record.find(runs)
    if len(places) != 1:
        raise UserError(
            f"--audit takes the directory of one run, {runs} holds {len(places)}; "
            "name one, such as RUNS/STREAM/LEARNER/seed-0"
        )
    definitions = audit(Predictions.load(places[0] / "predictions.h5"))
    show(plain(definitions), lambda _: audit_text(definitions), as_json)


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUNS...", help="One directory; several with --bridge.")
    ],
    html: Annotated[Path | None, typer.Option(help="Also write one HTML file.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Print paired differences, ties and ranks instead.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            help="order: spread over class orders, and rankings. seeds: spread over each seed."
        ),
    ] = None,
    bridge: Annotated[
        bool,
        typer.Option("--bridge", help="Compare learners on embeddings with the same on images."),
    ] = False,
    metric: Annotated[str, typer.Option(help="Metric of --compare and --by.")] = "final_accuracy",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="SVG", help="With --compare: draw average ranks and ties."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Print tables over all runs: means with 95 % intervals over seeds."""
    for path in (html, plot):
        if path is not None and path.exists() and not overwrite:
            raise UserError(f"{path} is there already; name another file or add --overwrite")
    if plot and not compare:
        raise UserError("--plot draws what --compare finds; add --compare")
    if len(runs) > 1 and not bridge:
        raise UserError(f"expected one directory of runs, got {len(runs)}; more go with --bridge")
    _check_by(by, bridge, compare)
    pairs = None
    if bridge:
        pairs = _bridge(runs, as_json)
    elif compare or by:
        _studies(runs[0], metric, None if compare else by, plot=plot, as_json=as_json)
    else:
        from embedbench.reports.text import print_report

        print_report(runs[0], as_json=as_json)
    if html is not None:
        from embedbench.reports.html import write_html

        write_html(runs[0], html, *runs[1:], bridge=pairs)
        note(f"wrote {html}")


def _check_by(by: str | None, bridge: bool, compare: bool) -> None:
    if by not in (None, *BY):
        raise unknown("--by", str(by), BY)
    if bridge and (compare or by):
        raise UserError("--bridge makes a table of its own; leave --compare and --by out")


def _bridge(runs: list[Path], as_json: bool) -> Bridge:
    """Print the learners that ran on embeddings and on images; return the printed result."""
    from embedbench.reports.bridge import bridge
    from embedbench.reports.bridge_text import bridge_text

    result = bridge(runs)
    show(result.to_json(), lambda _: bridge_text(result), as_json)
    return result


def _studies(runs: Path, metric: str, by: str | None, *, plot: Path | None, as_json: bool) -> None:
    """Print how the learners under `runs` differ, or the spread of each over orders or seeds."""
    from embedbench.reports import study_text
    from embedbench.reports.by_seeds import by_seeds
    from embedbench.reports.comparison import Comparison, by_order, compare
    from embedbench.reports.study import studies

    if by == "seeds":
        spreads = by_seeds(runs, metric)
        comparison, texts = Comparison.of(spreads), map(study_text.by_seeds_text, spreads)
    elif by == "order":
        orders = [by_order(study) for study in studies(runs, metric)]
        comparison, texts = Comparison.of(orders), map(study_text.by_order_text, orders)
    else:
        every = studies(runs, metric)
        if plot and len(every) > 1:
            titles = "; ".join(study.title for study in every)
            raise UserError(f"--plot draws one study, {runs} has {len(every)}: {titles}")
        rankings = [compare(study) for study in every]
        comparison, texts = Comparison.of(rankings), map(study_text.comparison_text, rankings)
    show(comparison.to_json(), lambda _: "\n\n".join(texts), as_json)
    if plot:
        study_text.save_rank_plot(rankings[0], plot)
        note(f"wrote {plot}")
