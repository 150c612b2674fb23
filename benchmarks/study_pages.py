"""The pages of docs/studies: their data out of finished runs, and the pages out of their data.

    python benchmarks/study_pages.py rows which-learner RUNS...
    python benchmarks/study_pages.py bytes RUNS FOLDER
    python benchmarks/study_pages.py page which-learner
    python benchmarks/study_pages.py hours docs/studies/full-grid.toml

`rows` writes one line a run into docs/studies/data; `bytes` runs one seed of each learner again, on
a file in FOLDER, and measures what it holds; `page` needs neither runs nor files of embeddings.
`hours` estimates a study file that was not run. `--out` names another directory than docs/studies.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from study_tables import backbone, figures, hours, measured, rows, which
from study_tables.compared import overall
from study_tables.parts import studied

from embedbench.errors import UserError
from embedbench.storage.atomic_write import write_safely
from embedbench.studies.study_file import read_study

STUDIES = ("which-learner", "backbone")
DOCS = Path(__file__).resolve().parents[1] / "docs" / "studies"
TEMPLATES = Path(__file__).parent / "study_tables"


def page(study: str, out: Path) -> None:
    """Write a page and its figures from the data under `out`."""
    read = rows.read(out / "data" / f"{study}.csv")
    if study == "backbone":
        values = backbone.values(read)
    else:
        kept = out / "data" / "bytes.csv"
        budget = read_study(DOCS / f"{study}.toml").budget_mb or math.inf
        values = which.values(read, measured.read(kept) if kept.is_file() else [], budget)
        values["full_grid"] = _full_grid(read)
        mine = studied(read)
        ranked = overall(mine)
        figures.ranks(ranked, out / f"{study}-ranks.svg")
        order = [e.learner for e in ranked.learners]
        figures.costs(mine, order, out / f"{study}-costs.svg")
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    write_safely(out / f"{study}.md", made.get_template(f"{study}.md.j2").render(values))


def _full_grid(read: list[rows.Row]) -> str:
    """What the page says of the full grid."""
    cells, trials, estimate = hours.estimate(DOCS / "full-grid.toml", studied(read))
    return (
        f": {cells:,} cells and {trials:,} trials, about {estimate:.0f} hours of one core for each "
        "memory; learners without runs count as the mean run"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=DOCS)
    tasks = parser.add_subparsers(dest="task", required=True)
    for task in ("rows", "page"):
        tasks.add_parser(task).add_argument("study", choices=STUDIES)
    tasks.choices["rows"].add_argument("runs", nargs="+", type=Path)
    tasks.add_parser("bytes").add_argument("runs", type=Path)
    tasks.choices["bytes"].add_argument("folder", type=Path)
    tasks.add_parser("hours").add_argument("config", type=Path)
    asked = parser.parse_args()
    data = asked.out / "data"
    if asked.task == "rows":
        rows.write(rows.of_runs(asked.runs), data / f"{asked.study}.csv")
    elif asked.task == "bytes":
        held = measured.measure(asked.runs, asked.folder, "incremental-class")
        measured.write(held, data / "bytes.csv")
    elif asked.task == "page":
        page(asked.study, asked.out)
    else:
        read = studied(rows.read(data / "which-learner.csv"))
        cells, trials, estimate = hours.estimate(asked.config, read)
        print(f"{cells:,} cells, {trials:,} trials of searches: {estimate:.1f} hours of one core")


if __name__ == "__main__":
    try:
        main()
    except UserError as e:
        sys.exit(str(e))
