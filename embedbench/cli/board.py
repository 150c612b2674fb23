"""`embedbench report PACK… --site DIR`: the board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from embedbench.errors import UserError

from .options import note, show


def write_site(
    packs: Sequence[Path], site: Path, data: Sequence[Path], *, overwrite: bool, as_json: bool
) -> None:
    """Verify packs, write the pages of the board, and print what came of each pack.

    Exit 1 if a pack or a run is left out.
    """
    from embedbench.sharing.board import board
    from embedbench.sharing.board_pages import check_site, write_board

    for path in packs:
        if path.is_dir():
            raise UserError(f"{path} is a directory; --site takes packs: embedbench runs pack")
    check_site(site, overwrite)
    made = board(packs, data, note)
    pages = write_board(made, site, overwrite=overwrite)
    lines = [
        f"{s.pack}: runs recomputed: {s.runs}, compared with their stream: {s.compared}, left out: "
        f"{len(s.left_out)}"
        if s.refused is None
        else f"{s.pack}: refused"
        for s in made.submissions
    ]
    show(made.to_json(), lambda _: "\n".join([*lines, f"wrote {pages[0]}"]), as_json)
    if any(s.refused or s.left_out for s in made.submissions):
        raise typer.Exit(1)
