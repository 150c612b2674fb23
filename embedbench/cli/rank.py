"""The command rank: where a learner stands among those whose answers ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.config.json_records import plain
from embedbench.config.run_seeds import parse_seeds
from embedbench.errors import UserError
from embedbench.studies.study import parse_settings
from embedbench.text.table_export import flatten
from embedbench.text.terminal_text import line, new_table

from . import shared_options as shared
from .command_output import note, show_tables
from .run import make_runs

if TYPE_CHECKING:
    from embedbench.runs.grid_scheduler import Outcome
    from embedbench.sharing.floor import Place, Standing
    from embedbench.studies.study import Study

    from .command_output import Part


@shared.with_tables
def rank(
    learner: Annotated[
        str | None,
        typer.Argument(
            metavar="LEARNER|RUNS",
            help="A name, or package.module:Class; or a directory of runs. None: the floor alone.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory of the run records.")] = Path(
        "floor-runs"
    ),
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Settings of the learner: ewc.lam=10, …")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Fewer than the floor's: 0-2.", show_default="0-4")
    ] = None,
    regime: Annotated[
        str, typer.Option(help="pilot: whole sessions; online: each sample once, ten at a time.")
    ] = "pilot",
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SET=FILE", help="A set that does not ship, made by the commands of floor.md."
        ),
    ] = None,
    jobs: shared.Jobs = None,
    form: str = "text",
    quiet: shared.Quiet = False,
) -> None:
    """Run a learner on the sets that ship; print where it stands among those whose answers ship.

    Nobody else's learner is run. Run it again to resume.
    """
    from embedbench.runs.learner_and_protocol_names import learner_names
    from embedbench.sharing import floor

    if learner is None:
        sets = floor.read_floor(note, regime)
        listed = floor.list_floor(sets)
        found = plain({"schema": floor.SCHEMA, "floor": listed})
        show_tables(form, found, [flatten(row) for row in listed], floor_parts(sets))
        return
    if Path(learner).is_dir():
        if learner in learner_names():
            note(f"{learner}: the runs of the directory here, not the learner of that name")
        failed, standings = False, floor.stand(Path(learner), note, regime=regime)
    else:
        chosen = tuple(parse_seeds(seeds)) if seeds else ()
        files = _read_data(data or ())
        study = floor.floor_study(learner, chosen, parse_settings(settings or ()), regime, files)
        outcome = _make(study, out, jobs, quiet)
        failed = bool(outcome.failed)
        standings = floor.stand(out, note, outcome.run_dirs, regime)
    found = floor.to_json(standings)
    rows = [one for entry in found["learners"] for one in entry["sets"]]
    show_tables(form, found, [_flat(row) for row in rows], _parts(standings))
    if failed:
        raise typer.Exit(1)


def _read_data(items: Sequence[str]) -> dict[str, str]:
    """The files of `--data`, by the names of their sets."""
    files = {}
    for item in items:
        name, equals, file = item.partition("=")
        if not (name and equals and file):
            raise UserError("--data", expected="SET=FILE, such as cub50=cub50.h5", got=item)
        files[name] = file
    return files


def _make(study: Study, out: Path, jobs: int | None, quiet: bool) -> Outcome:
    """Make the runs of one learner on the floor's sets."""
    study = shared.fixed_study(study, quiet)
    engine = shared.chosen_engine(None, None, None, study.threads or 1, jobs)
    outcome = make_runs("rank", study, out, engine, quiet=quiet)
    if outcome.failed and not outcome.run_dirs:
        raise typer.Exit(2 if outcome.bad_input else 1)
    return outcome


def floor_parts(sets: Mapping[str, Mapping[str, Place]]) -> list[Part]:
    """The floor as one table: a learner a row, a set a column."""
    from embedbench.reports.headings_and_units import value_text
    from embedbench.scores.run_record import FINAL
    from embedbench.sharing import floor

    table = new_table(["learner", *(n.removesuffix(".h5") for n in sets), "rank", "learn s", "MB"])
    for row in floor.list_floor(sets):
        cells = []
        for name in sets:
            text = value_text(row["accuracy"].get(name), FINAL)
            cells.append(f"≈{text}" if name in row["level"] else text)
        costs = (
            value_text(row["seconds"], "seconds.learn"),
            value_text(row["bytes"], "bytes.total"),
        )
        table.add_row(row["learner"], *cells, f"{row['mean_rank']:.1f}", *costs)
    legend = FLOOR_LEGEND.format(fewer=fewer_seeds(sets))
    return [table, line(""), line(legend, "dim")]


def fewer_seeds(sets: Mapping[str, Mapping[str, Place]]) -> str:
    """For the legend, which means are over fewer seeds: a run of the others ended without numbers.

    >>> fewer_seeds({})
    ''
    """
    found = []
    for name, places in sets.items():
        most = max(len(place.row.used) for place in places.values())
        for label, place in places.items():
            if len(place.row.used) < most:
                found.append(f"{label} on {name.removesuffix('.h5')}: {len(place.row.used)}")
    return f" ({', '.join(found)})" if found else ""


def _flat(row: dict[str, object]) -> dict[str, object]:
    """A row for CSV: without what is a table of its own."""
    return {name: value for name, value in row.items() if name != "against"}


def _parts(of: dict[str, list[Standing]]) -> list[Part]:
    """The sentence, and two tables, of each learner."""
    from embedbench.reports.headings_and_units import heading, stat_text, value_text
    from embedbench.reports.terminal_tables import behind_text
    from embedbench.scores.run_record import FINAL
    from embedbench.sharing import floor

    parts: list[Part] = []
    for label, standings in of.items():
        parts.append(line(floor.sentence(label, standings), "bold"))
        heads = ["set", "n", "accuracy %", "rank", heading("behind"), "best of the floor"]
        table = new_table([*heads, "learn s (floor)", "MB (floor)"])
        for one in standings:
            ranks = one.verdict.ranks or (0, 0)
            table.add_row(
                f"{one.name}{'*' if one.other_bits else ''}",
                one.row.n,
                stat_text(one.row.metrics[FINAL], FINAL),
                f"{one.verdict.rank} ({ranks[0]}–{ranks[-1]}) of {len(one.floor) + 1}",
                behind_text(one.verdict),
                f"{one.best.label} {value_text(one.best.metrics[FINAL].mean, FINAL)}",
                *(_cost(one, name) for name in ("seconds.learn", "bytes.total")),
            )
        counts = new_table(["against", floor.ABOVE, floor.OPEN, floor.BEHIND])
        for name, count in floor.count_against(standings).items():
            counts.add_row(name, *map(str, count.values()))
        parts += [table, line(""), counts, line("")]
    parts.append(line(LEGEND, "dim"))
    return parts


def _cost(one: Standing, name: str) -> str:
    from embedbench.reports.headings_and_units import value_text

    mine, usual = one.cost(name)
    return f"{value_text(mine, name)} ({value_text(usual, name)})"


FLOOR_LEGEND = (
    "final accuracy in %, five seeds{fewer} · ≈: the best, or no verdict says that it is behind · "
    "rank: mean over the sets · learn s, MB: medians over the sets, one thread · docs/floor.md"
)
LEGEND = (
    "rank: of the mean, and in brackets the ranks that the verdicts allow · behind by: mean paired "
    "difference to the best, and the 95 % interval of the distance to whichever is the best, over "
    "seeds and test samples: above 0 it is behind · above, behind: on how many sets a verdict says "
    "so · (floor): the median of its learners · closed forms: ncm, slda, fecam, ranpac, acil, "
    "randumb · *: features of other bits than the floor's · docs/floor.md"
)
