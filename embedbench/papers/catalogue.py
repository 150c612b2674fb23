"""The papers that can be reproduced."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from embedbench.errors import unknown

from .published import PaperTable

# The papers that can be reproduced, and the module whose `reproduce` does it.
PAPERS = {
    "class-orderings": "embedbench.papers.class_orderings.paper",
    "fscil": "embedbench.papers.fscil.paper",
    "iirc": "embedbench.papers.iirc.paper",
    "kemker2018": "embedbench.papers.kemker2018.paper",
    "new-metrics": "embedbench.papers.new_metrics.paper",
}
Reproduce = Callable[..., tuple[list[PaperTable], list[str]]]


def reproducer(paper: str) -> Reproduce:
    """What runs a paper's experiments: `reproduce` of its module."""
    if paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    found: Reproduce = importlib.import_module(PAPERS[paper]).reproduce
    return found
