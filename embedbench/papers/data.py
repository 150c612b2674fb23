"""The embedding files of a reproduction: those that were named, or the shipped emoji."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import resources
from pathlib import Path

from embedbench.errors import UserError
from embedbench.files.file import EmbeddingFile


def emoji(out: Path, notify: Callable[[str], None], why: str) -> Path:
    """The embeddings of the shipped emoji, extracted under `out` where they are not there yet.

    Parameters
    ----------
    why : str
        Why the emoji are taken: begins the message before the extraction.
    """
    from embedbench.extract.pipeline import extract

    made = out / "emoji.h5"
    if not made.is_file():
        notify(f"{why}, and are extracted")
        extract("demo", made, notify=notify)
    return made


def shipped_layers() -> Path:
    """The shipped embedding file with the layers of a ViT: 600 emoji of 40 classes."""
    return Path(str(resources.files("embedbench") / "assets" / "emoji-vit.h5"))


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
    result: dict[str, Path] = {}
    for path in map(Path, given):
        EmbeddingFile.open(path)  # says what is wrong with it
        if result.setdefault(path.stem, path) != path:
            raise UserError(
                f"{result[path.stem]} and {path} have one name, by which tables call them; "
                "rename a file"
            )
    return result


def named_files(
    given: Sequence[str],
    official: Collection[str],
    out: Path,
    notify: Callable[[str], None] = lambda _: None,
) -> dict[str, tuple[Path, str | None]]:
    """Embedding files of data sets of a paper, and files that stand in for them, by name.

    Parameters
    ----------
    given : sequence of str
        NAME=FILE for a data set of the paper, or FILE, which stands in (its name then is None).
        Without any, the shipped emoji stand in.
    official : collection of str
        Collection of str Collection of str Names of the paper's data sets.
    out : Path
        Directory for files made on the way.

    Raises
    ------
    UserError
        An unknown name, a file that is missing or none of ours, or a stand-in under the name of a
        data set of the paper.
    """
    result: dict[str, tuple[Path, str | None]] = {}
    stand_ins = []
    for item in given:
        name, equals, named = item.partition("=")
        if equals and name in official:
            EmbeddingFile.open(Path(named))  # says what is wrong with it
            result[name] = (Path(named), name)
        elif equals and not Path(item).exists():
            raise UserError(
                f"--data takes {', '.join(f'{n}=FILE' for n in official)} or FILE, a stand-in; "
                f"got {item!r}"
            )
        else:
            stand_ins.append(item)
    if stand_ins or not given:
        for name, path in find_files(stand_ins, out, notify).items():
            if name in official:
                raise UserError(
                    f"{path} stands in under the name of a data set of the paper; give "
                    f"--data {name}={path} if it is that one, or rename it"
                )
            result[name] = (path, None)
    return result
