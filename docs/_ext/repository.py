"""The repository's Markdown as pages of the site: links that leave docs/, and what lies outside it.

The pages are also read as plain files, so their links are relative paths. A link to a file outside
docs/ becomes one to the public source. A page names its tables in comments, with paths from the
page: `<!-- report STUDY.toml: TITLE -->`, of a study file's `[[report]]`, and `<!-- table DATA.csv
-->`. The pages of results/ are made from results/data at every build.
"""

from __future__ import annotations

import csv
import os
import re
from functools import cache
from pathlib import Path
from tomllib import loads
from typing import Any

from docstrings import cell, escaped

from embedbench.papers.paper_folders import facts, names
from embedbench.papers.paper_table import rows_and_parts
from embedbench.papers.result_files import read_results
from embedbench.reports.toml_report import read_selections, select
from embedbench.text.markdown import code, escape_markdown, table
from embedbench.text.table_export import export_tables

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCE = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
# Files and folders outside docs/ that have a page: `{include}` in the page copies the file's text.
PAGES = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    # what the pages of reference/ are made from
    "models": "reference/learners.md",
    "protocols": "reference/protocols.md",
    "embedbench/scores/metrics.py": "reference/metrics.md",
    "embedbench/scores/run_record.py": "reference/json.md",
}
LINK = re.compile(r"""(?:(?<=\]\()|(?<=src="))(?!\w+:|\#)([^)\s#"]+)(?=[)#"])""")
FILE = re.compile(r"\[[\w./-]+\.md\](?=\((?!\w+:))")  # a file's name as the text of a link
COMMENT = re.compile(r"^<!-- (report|table) ([\w./-]+)(?:: (.+))? -->$", re.MULTILINE)
INCLUDE = re.compile(r"^```\{include\} (\S+)\n```$", re.MULTILINE)
ABOUT_RESULTS = (
    "Printed numbers beside ours, a section for each file of results. ± is the half-width of a "
    "95 % interval of our mean over seeds; of other data than the paper's no difference is formed. "
    "What the paper claims, and whether it holds, is on the page of claims."
)


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", lambda app: write_results(DOCS / "results"))
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}


def _read(app: Any, name: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(name))
    if path.suffix == ".md":
        source[0] = page(source[0], path)


def page(text: str, path: Path) -> str:
    """The text of a page with its includes, and with links that the site can follow."""

    def included(match: re.Match[str]) -> str:
        other = (path.parent / match[1]).resolve()
        return links(other.read_text(encoding="utf-8"), other, path.parent)

    return INCLUDE.sub(included, links(fill_tables(text, path.parent), path, path.parent))


def links(text: str, path: Path, folder: Path) -> str:
    """Rewrite the links of a file for a page in another folder.

    A link whose text is the name of a page gets that page's title as its text.
    """

    def target(match: re.Match[str]) -> str:
        to = Path(os.path.normpath(path.parent / match[1]))
        if not (to.is_relative_to(ROOT) and to.exists()):  # no link: Python in a block, say
            return match[1]
        name = str(to.relative_to(ROOT))
        to = DOCS / PAGES[name] if name in PAGES else to
        on_site = to.is_relative_to(DOCS) and to.suffix in (".md", ".svg", ".png")
        return os.path.relpath(to, folder) if on_site else f"{SOURCE}/{name}"

    return FILE.sub("[]", LINK.sub(target, text))


# --- tables of a page, and pages of results ---


def fill_tables(text: str, folder: Path) -> str:
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


def write_results(out: Path) -> None:
    """Write the page of every paper: the tables of its files of results."""
    for name, *_ in names().values():
        blocks = [f"# {facts(name)['citation']}", ABOUT_RESULTS]
        for source, results in read_results([DOCS / "results" / "data"], name).items():
            tables, notes = export_tables(rows_and_parts(results.tables)[1], "markdown")
            below = "\n".join(f"- {escape_markdown(sentence)}" for sentence in notes)
            head = f"## {escape_markdown(source)}\n\n{results.date}: {code(results.command)}"
            blocks += [head, tables, below]
        (out / f"{name}.md").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
