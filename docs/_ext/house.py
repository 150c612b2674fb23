"""The picture of the house: rooms on floors, from the list in tests/test_architecture.py."""

from __future__ import annotations

import ast
from html import escape
from pathlib import Path
from typing import Any

from repository import DOCS, ROOT

WIDTH, HIGH, GAP = 760, 46, 8
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.wall { fill: none; stroke: #8c959f; stroke-width: 1.5 }
"""


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", lambda app: write(DOCS / "reference" / "house.svg"))
    return {"parallel_read_safe": True}


def write(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(drawn(floors()), encoding="utf-8")


def floors() -> list[list[str]]:
    """Rooms of each floor, lowest first; the two entrances of the package are no room."""
    tree = ast.parse((ROOT / "tests" / "test_architecture.py").read_text(encoding="utf-8"))
    (listed,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FLOORS"
    )
    return [sorted(rooms) for rooms in ast.literal_eval(listed) if "__main__" not in rooms]


def drawn(rooms: list[list[str]]) -> str:
    """The house as SVG: a room imports from lower floors only."""
    top = 70
    body = [f'<path class="wall" d="M20 {top} L{WIDTH / 2} 12 L{WIDTH - 20} {top}"/>']
    for i, names in enumerate(reversed(rooms)):
        y = top + i * (HIGH + GAP)
        colour = COLOURS[i % len(COLOURS)]
        wide = (WIDTH - 64 - GAP * (len(names) - 1)) / len(names)
        for k, name in enumerate(names):
            x = 32 + k * (wide + GAP)
            body.append(
                f'<rect x="{x:.1f}" y="{y + 4}" width="{wide:.1f}" height="{HIGH}" rx="6" '
                f'fill="{colour}" fill-opacity=".18" stroke="{colour}"/>'
                f'<text x="{x + wide / 2:.1f}" y="{y + HIGH / 2 + 9}" text-anchor="middle">'
                f"{escape(name)}</text>"
            )
    bottom = top + len(rooms) * (HIGH + GAP) + 6
    body.append(f'<path class="wall" d="M20 {top} V{bottom} H{WIDTH - 20} V{top}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 8}" role="img" '
        f'aria-label="Rooms on floors; a room imports from lower floors only.">'
        f"<style>{STYLE}</style>{''.join(body)}</svg>\n"
    )
