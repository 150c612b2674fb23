"""What pages of the site take from the code, at every build.

A page names it in a comment, such as `<!-- list learners -->`. Every learner and protocol gets a
page of its own in docs/reference/, which is not committed. The command line is typer's own page:
sphinx-click does not know the commands of a typer that brings a click of its own.
"""

import re
from pathlib import Path
from typing import Any

import agreement
import typer
from typer.cli import get_docs_for_click

from embedbench.cli import list_entries
from embedbench.cli.app import app as commands
from embedbench.cli.rank import floor_parts
from embedbench.papers.paper_table import rows_and_parts
from embedbench.papers.result_files import read_results
from embedbench.reports.toml_report import show_file
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.sharing.floor import list_floor, read_floor
from embedbench.studies import presets
from embedbench.text.markdown import code, escape_markdown, table
from embedbench.text.table_export import export_tables

DOCS = Path(__file__).resolve().parents[1]
KINDS: Any = {"learners": by_name.learner_class, "protocols": by_name.protocol_class}
# A comment, and what `tools/fill_pages.py` has put below it for readers of the repository
COMMENT = re.compile(
    r"^<!-- (\w+) ([\w./-]+)(?:: (.+))? -->$(?:\n\n(?s:(?:(?!^<!--).)*)\n<!-- end -->$)?", re.M
)
PAGE = re.compile(r"\]\((?:learners|protocols)/([\w-]+)\.md\)")
FILE = re.compile(r"\[[\w./-]+\.md\](?=\((?!\w+:))")  # a file's name as the text of a link
# What is markup in a docstring: code, **Source**, a parameter with its type, an example.
MARKUP = re.compile(r"(`[^`]*`|\*\*\w+\*\*|^[*\w][\w, *]* : .*|^ *>>> (?s:.*?)(?:\n\n|\Z))", re.M)
MEANT = re.compile(r"[*<>\[\]$|]|(?<!\w)_|_(?!\w)")  # what means itself elsewhere
PARAMETERS = re.compile(r"^Parameters\n-+\n(?s:.*?)(?=^\w+\n-+$|\Z)", re.M)


def setup(app: Any) -> None:
    """Connect what follows to the build."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", escape_lines, priority=400)  # before napoleon


def write_pages(app: Any) -> None:
    """Write the page of every learner and protocol that is no alias."""
    for kind in KINDS:
        folder = DOCS / "reference" / kind
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.md"):
            old.unlink()
        for name in {row["name"] for row in list_ours(kind)} - {*by_name.ALIASES}:
            (folder / f"{name}.md").write_text(make_page(kind, name), encoding="utf-8")


def make_page(kind: str, name: str) -> str:
    """The page of a learner or a protocol: its docstring, where its code is, its settings."""
    cls, described = KINDS[kind](name), list_entries.describe(kind, name)
    path = cls.__module__.replace(".", "/")
    heading = described["set"] if described["settings"] else "It has none."
    text = (
        f"# {name}\n\n```{{eval-rst}}\n.. autoclass:: {cls.__module__}.{cls.__name__}\n"
        f"   :exclude-members: __init__, __new__\n```\n\n[The code](../../../{path}.py); "
        f"`embedbench check {name}` checks its contract.\n\n## Settings\n\n{heading}"
    )
    for row in described["settings"]:
        text += f"\n\n`{row['setting']}={row['default']}` ({row['values']})\n: "
        text += escape(row["meaning"])
    return text


def escape_lines(app: Any, what: str, name: str, thing: Any, options: Any, lines: Any) -> None:
    """Formulas mean themselves; the page of a learner or protocol lists its settings elsewhere."""
    text = "\n".join(lines)
    if name.startswith(("embedbench.models.", "embedbench.protocols.")):
        text = PARAMETERS.sub("", text)
    lines[:] = escape(text).split("\n")


def escape(text: str) -> str:
    """Prose of a docstring, as Markdown and as reStructuredText."""
    pieces = enumerate(MARKUP.split(text))
    return "".join(p if i % 2 else MEANT.sub(r"\\\g<0>", p) for i, p in pieces)


def fill(app: Any, name: str, source: list[str]) -> None:
    """Fill in what comments name; a link whose text is a file's name gets the page's title."""
    text = FILE.sub("[]", source[0])
    source[0] = COMMENT.sub(lambda m: MAKE[m[1]](*filter(None, m.groups()[1:])), text)


def fill_in_repository(text: str) -> str:
    """The text of a page with what its comments name below them, for who reads it in a clone.

    The options of all commands are long: `--help` prints them.
    """

    def filled(found: re.Match[str]) -> str:
        kind, name, title = found.groups()
        if kind not in COMMITTED:
            return found[0]
        comment = f"<!-- {kind} {name}{f': {title}' * bool(title)} -->"
        made = COMMITTED[kind](*filter(None, (name, title)))
        return f"{comment}\n\n{made.strip()}\n\n<!-- end -->"

    return COMMENT.sub(filled, text)


def list_with_code(kind: str) -> str:
    """As `list_names`, with links to the code: the page of each is not in the repository."""
    room = "models" if kind == "learners" else kind

    def to_code(found: re.Match[str]) -> str:
        return f"](../../{room}/{found[1].replace('-', '_')}.py)"

    return PAGE.sub(to_code, list_names(kind))


def list_names(kind: str) -> str:
    """Learners or protocols with a link to the page of each; presets; class orders."""
    if kind == "presets":
        return list_presets()
    if kind not in KINDS:
        return f"```text\n{list_entries.listed_text(list_entries.entries(kind))}\n```"
    rows = []
    for row in list_ours(kind):
        page = by_name.ALIASES.get(row["name"], (row["name"],))[0]
        link = f"[`{row['name']}`]({kind}/{page}.md)"
        rows.append((link, escape(row["summary"]), row.get("takes", "")))
    return table(("name", "what it is", "takes and needs" if kind == "learners" else ""), rows)


def list_ours(kind: str) -> list[dict[str, str]]:
    """The learners or protocols of this package, a row each."""
    ours = list_entries.OURS[kind]()
    if isinstance(ours, dict):
        return [{"name": name, "summary": summary} for name, summary in ours.items()]
    return ours


def list_presets() -> str:
    """Every preset with its source, what it has from there, and what it leaves."""
    rows = []
    for name in presets.preset_names():
        origin = presets.origin(name)
        rows.append((f"[`{name}`](#{name})", *map(escape_markdown, origin)))
    return table(
        ("preset", "source", "what it fixes, as there", "what it leaves, or has otherwise"), rows
    )


def show_commands(name: str, title: str) -> str:
    """Every command and its options, as typer has them."""
    group = typer.main.get_command(commands)
    context: Any = group.make_context(name, [], resilient_parsing=True)
    return get_docs_for_click(obj=group, ctx=context, name=name, title=title)


def report(file: str, title: str) -> str:
    """A table of a study file, as `embedbench report FILE` has it."""
    path = DOCS / "studies" / file
    made = show_file(path, lambda sentence: None)
    return export_tables({one.title: one.parts for one in made}[title], "markdown")[0]


def show_paper(paper: str) -> str:
    """The tables of a paper, a section for each file of results."""
    text = ""
    for source, results in read_results([DOCS / "results" / "data"], paper).items():
        tables, notes = export_tables(rows_and_parts(results.tables)[1], "markdown")
        text += f"## {escape_markdown(source)}\n\n{results.date}: {code(results.command)}\n\n"
        text += "\n".join([f"{tables}\n", *(f"- {escape_markdown(note)}" for note in notes), "\n"])
    return text


def show_floor(regime: str) -> str:
    """The table of `embedbench rank`: each learner of the floor on each set."""
    return export_tables(floor_parts(read_floor(print, regime))[:1], "markdown")[0]


def show_pairs(regime: str) -> str:
    """A row and a column a learner: on how many sets a verdict puts the row above the column."""
    rows = list_floor(read_floor(print, regime))
    names = [row["learner"] for row in rows]
    lines = [f"| above → | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
    for row in rows:
        counts = [str(row["above"][name]) if name in row["above"] else "" for name in names]
        lines.append(f"| {row['learner']} | {' | '.join(counts)} |")
    return "\n".join(lines)


MAKE: Any = {
    "list": list_names,
    "commands": show_commands,
    "report": report,
    "results": show_paper,
    "rank": show_floor,
    "pairs": show_pairs,
    "agreement": agreement.show_agreement,
    "printed": agreement.show_printed,
}
COMMITTED: Any = {
    "list": list_with_code,
    "report": report,
    "results": show_paper,
    "rank": show_floor,
    "pairs": show_pairs,
    "agreement": agreement.show_agreement,
    "printed": agreement.show_printed,
}  # what the repository has, too
