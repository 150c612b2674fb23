"""The embedding files of a reproduction: those that were named, or the shipped emoji."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from embedbench.errors import UserError
from embedbench.file import EmbeddingFile


def emoji(out: Path, notify: Callable[[str], None], why: str) -> Path:
    """The embeddings of the shipped emoji, extracted under `out` where they are not there yet.

    Parameters
    ----------
    why : told before the extraction
    """
    from embedbench.extract import extract

    made = out / "emoji.h5"
    if not made.is_file():
        notify(f"{why}, and are extracted")
        extract("demo", made, notify=notify)
    return made


def find_files(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, Path]:
    """Embedding files by what tables call them, their stem; without any, the shipped emoji's.

    Raises
    ------
    UserError
        A file is missing or no embedding file, or two have one name.
    """
    if not given:
        return {"emoji": emoji(out, notify, "no --data: the shipped emoji are taken")}
    found: dict[str, Path] = {}
    for path in map(Path, given):
        EmbeddingFile.open(path)  # says what is wrong with it
        if found.setdefault(path.stem, path) != path:
            raise UserError(
                f"{found[path.stem]} and {path} have one name, by which tables call them; "
                "rename a file"
            )
    return found
