"""The commands on run records: score and report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from embedbench.errors import UserError, unknown

from .options import Json, Overwrite, note, show

Runs = Annotated[Path, typer.Argument(metavar="RUNS")]
BY = ("order", "seeds")


def score(
    runs: Runs,
    audit: Annotated[
        bool, typer.Option("--audit", help="Of one run: what other libraries would print.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Recompute every metric from the stored predictions."""
    from embedbench.scores import record

    if audit:
        _audit(runs, as_json)
        return
    found = [
        {"run": str(place.relative_to(runs)), "changed": record.rescore(place, runs)}
        for place in record.find(runs)
    ]
    changed = [f["run"] for f in found if f["changed"]]
    text = "\n".join(
        [f"{len(found)} runs: {len(found) - len(changed)} identical, {len(changed)} changed"]
        + [f"changed: {name}" for name in changed]
    )
    show(found, lambda _: text, as_json)


def _audit(runs: Path, as_json: bool) -> None:
    """Print every definition of accuracy and forgetting for one run."""
    from embedbench.scores import audit, record
    from embedbench.scores.predictions import Predictions

    places = record.find(runs)
    if len(places) != 1:
        raise UserError(
            f"--audit takes the directory of one run, {runs} holds {len(places)}; "
            "name one, such as RUNS/STREAM/LEARNER/seed-0"
        )
    found = audit.audit(Predictions.load(places[0] / "predictions.h5"))
    show(record.to_json(found), lambda _: audit.audit_text(found), as_json)


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUNS...", help="One directory; of --bridge also more.")
    ],
    html: Annotated[Path | None, typer.Option(help="Also write one HTML file.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Paired differences, ties and ranks instead.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(help="order: spread over class orders, and rankings. seeds: over each seed."),
    ] = None,
    bridge: Annotated[
        bool, typer.Option("--bridge", help="Learners on embeddings beside them on images instead.")
    ] = False,
    metric: Annotated[str, typer.Option(help="Of --compare and --by.")] = "final_accuracy",
    plot: Annotated[
        Path | None, typer.Option(metavar="SVG", help="Of --compare: average ranks and ties.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Tables over all runs, means with 95 % intervals over seeds."""
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


def _bridge(runs: list[Path], as_json: bool) -> dict[str, Any]:
    """Print the learners that ran on embeddings and on images; return what is printed."""
    from embedbench.reports.bridge import bridge
    from embedbench.reports.bridge_text import bridge_text
    from embedbench.scores.record import to_json

    found = bridge(runs)
    show(to_json(found), lambda _: bridge_text(found), as_json)
    return found


def _studies(runs: Path, metric: str, by: str | None, *, plot: Path | None, as_json: bool) -> None:
    """Print what the learners under `runs` differ in, or each one's spread over orders or seeds."""
    from embedbench.reports import study as made
    from embedbench.reports import study_text
    from embedbench.reports.by_seeds import by_seeds
    from embedbench.scores.record import to_json

    if plot:
        here = made.studies(runs, metric)
        if len(here) > 1:
            titles = "; ".join(study.title for study in here)
            raise UserError(f"--plot draws one study, {runs} has {len(here)}: {titles}")
    found: list[dict[str, Any]]
    if by == "seeds":
        found, text = by_seeds(runs, metric), study_text.by_seeds_text
    elif by == "order":
        found, text = list(map(made.by_order, made.studies(runs, metric))), study_text.by_order_text
    else:
        found, text = (
            list(map(made.compare, made.studies(runs, metric))),
            study_text.comparison_text,
        )
    shown = to_json({"schema": made.SCHEMA, "studies": found})
    show(shown, lambda _: "\n\n".join(map(text, found)), as_json)
    if plot:
        study_text.save_rank_plot(found[0], plot)
        note(f"wrote {plot}")
