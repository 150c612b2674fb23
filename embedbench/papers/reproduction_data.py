"""The embedding files of a reproduction: the user's files, or the shipped emoji."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile


@dataclass(frozen=True)
class PaperData:
    """One of a paper's data sets, or a file that replaces one.

    Parameters
    ----------
    official : str or None
        Name of the data set; None for a stand-in.
    """

    file: Path
    official: str | None = None

    @cached_property
    def opened(self) -> EmbeddingFile:
        """The file; its metadata are read once."""
        return EmbeddingFile.open(self.file)


def emoji(out: Path, notify: Callable[[str], None], why: str) -> Path:
    """The embeddings of the shipped emoji; extracted under `out` unless they are there already.

    Parameters
    ----------
    why : str
        Reason for using the emoji; the first words of the message before the extraction.
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
    """Embedding files by their names in tables (their stems); without any, the shipped emoji.

    Raises
    ------
    UserError
        A file is missing or is no embedding file, or two files have the same name.
    """
    if not given:
        return {"emoji": emoji(out, notify, "no --data: the shipped emoji are taken")}
    result: dict[str, Path] = {}
    for path in map(Path, given):
        EmbeddingFile.open(path)  # raises an error for a bad file
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
    """Embedding files of a paper's data sets, and of other data that replaces them, by name.

    Parameters
    ----------
    given : sequence of str
        NAME=FILE for a data set of the paper; FILE for a stand-in (its second entry is None).
        Without any, the shipped emoji are the stand-in.

    Raises
    ------
    UserError
        A name is unknown, a file is missing or is no embedding file, or a stand-in has the name of
        a data set of the paper.
    """
    result: dict[str, tuple[Path, str | None]] = {}
    stand_ins = []
    for item in given:
        name, equals, named = item.partition("=")
        if equals and name in official:
            EmbeddingFile.open(Path(named))  # raises an error for a bad file
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
