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

    Exit 1 if a pack is refused, a run is not ranked, or an entry has the flag `EQUAL`.
    """
    from embedbench.sharing.board import EQUAL, board
    from embedbench.sharing.board_pages import check_site, write_board

    for path in packs:
        if path.is_dir():
            raise UserError(f"{path} is a directory; --site takes packs: embedbench runs pack")
    check_site(site, overwrite)
    made = board(packs, data, note)
    pages = write_board(made, site, overwrite=overwrite)
    lines = [
        f"{s.pack}: refused"
        if s.refused
        else f"{s.pack}: runs ranked: {s.ranked}, not ranked: {len(s.unranked)}"
        for s in made.submissions
    ]
    show(made.to_json(), lambda _: "\n".join([*lines, f"wrote {pages[0]}"]), as_json)
    flags = {flag for stream in made.streams for entry in stream.entries for flag in entry.flags}
    if EQUAL in flags or any(s.refused or s.unranked for s in made.submissions):
        raise typer.Exit(1)
