"""The pages of results/, made from results/data at every build: nothing of them is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repository import DOCS

from embedbench.papers.paper_folders import names, paper
from embedbench.papers.printed_beside_ours import write_page

FOLDER = DOCS / "results"


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", lambda app: write(FOLDER))
    return {"parallel_read_safe": True}


def write(out: Path) -> None:
    """Write the page of every paper."""
    for name, *_ in names().values():
        write_page(paper(name), [FOLDER / "data"], out)
