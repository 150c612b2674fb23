"""The rows of a paper's table by their labels."""

from embedbench.papers.paper_table import PaperTable, TableRow, Value


def by_labels(table: PaperTable) -> dict[tuple[str, ...], dict[str, Value]]:
    """Values by column, by labels; every row has labels of its own."""
    rows = {row.labels: row.values for row in table.rows}
    assert len(rows) == len(table.rows)
    return rows


def rows_of(*rows: tuple[tuple[str, ...], dict[str, Value]]) -> tuple[TableRow, ...]:
    return tuple(TableRow(*row) for row in rows)
