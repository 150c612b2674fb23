"""Tables that a page names in a comment: of a study file's `[[report]]`, or a CSV file as it is.

`<!-- report STUDY.toml: TITLE -->` and `<!-- table DATA.csv -->`, with paths from the page.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

from docstrings import cell, escaped, table

from embedbench.reports.toml_report import read_selections, select
from embedbench.text.table_export import export_tables

COMMENT = re.compile(r"^<!-- (report|table) ([\w./-]+)(?:: (.+))? -->$", re.MULTILINE)


def fill(text: str, folder: Path) -> str:
    """A page with its tables."""

    def found(match: re.Match[str]) -> str:
        path = folder / match[2]
        return from_csv(path) if match[1] == "table" else reports(path)[match[3]]

    return COMMENT.sub(found, text)


def from_csv(path: Path) -> str:
    """A CSV file as a table."""
    with path.open(encoding="utf-8", newline="") as lines:
        head, *rows = csv.reader(lines)
    return table(head, [[cell(escaped(value)) for value in row] for row in rows])


@cache
def reports(path: Path) -> dict[str, str]:
    """The tables of a study file in Markdown, by title; as `embedbench report FILE` has them."""
    made = select(read_selections(path), path.parent, lambda sentence: None)
    return {one.title: export_tables(one.parts, "markdown")[0] for one in made}
