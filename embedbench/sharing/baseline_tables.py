"""Tables of runs on one file, as Markdown; every number is recomputed from stored predictions."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.reports.result_rows import Row, split_tables
from embedbench.reports.result_tables import collect
from embedbench.reports.terminal_tables import table_parts
from embedbench.text.markdown import escape_markdown
from embedbench.text.table_export import export_tables


def rows_on_file(root: Path, file: EmbeddingFile, notify: Callable[[str], None]) -> list[Row]:
    """Return the rows of all runs under `root` that learned from this content.

    Raises
    ------
    UserError
        There is no such run.
    """
    content = file.digests["content"]
    rows = [
        row
        for row in collect(root, notify=notify)
        if any(used.digests.get("content") == content for used in row.group.first.files)
    ]
    if not rows:
        raise UserError(
            f"no run under {root} learned from {file.path}: their files have other content; make "
            f"some with `embedbench run {file.path} --learner ncm,slda,joint --out {root}`"
        )
    return rows


def baseline_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of the report for each stream."""
    for mine in split_tables(rows):
        group = mine[0].group
        settings = ", ".join(
            f"{name} {value}"
            for name, value in group.first.protocol_params.items()
            if value not in (None, "", 0, False)
        )
        words = f"{'; '.join(group.describe())}. Settings: {settings}."
        yield f"**{escape_markdown(group.first.protocol)}**: {escape_markdown(words)}"
        text, notes = export_tables(table_parts(mine), "markdown")
        yield text
    yield escape_markdown(notes[-1])
    yield "=n: all runs gave the same answers. Every number was recomputed from stored predictions."
