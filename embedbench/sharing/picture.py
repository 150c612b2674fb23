"""A small picture of a file for its page: points by class, or some of its images."""

from __future__ import annotations

from embedbench.files.file import EmbeddingFile

WIDTH, DPI = 4.5, 160  # inches, and dots to the inch: 720 of them


def picture(file: EmbeddingFile) -> bytes:
    """Return a PNG of a file, the one that `inspect --map` draws.

    Raises
    ------
    DamagedFileError
        Blocks do not match their checksums.
    """
    from embedbench.reports.file_map import draw_file
    from embedbench.reports.sheet import render_figure

    return render_figure(lambda: draw_file(file, WIDTH), "png", dpi=DPI)
