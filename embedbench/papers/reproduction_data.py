"""The embedding files of a reproduction: the user's files, or the shipped emoji."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TypeVar

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.system.callback_types import Notify


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

    @property
    def stands_in(self) -> bool:
        return self.official is None

    @property
    def holds_images(self) -> bool:
        """Whether the file holds images and not embeddings."""
        return self.opened.kind == PIXELS


DataT = TypeVar("DataT", bound=PaperData)


def emoji(out: Path, notify: Notify, why: str) -> Path:
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
    given: Sequence[str],
    out: Path,
    notify: Notify = lambda _: None,
    *,
    official: Collection[str] = (),
    kind: Callable[..., DataT],
) -> dict[str, DataT]:
    """Embedding files of a paper's data sets, and of other data that replaces them, by name.

    Parameters
    ----------
    given : sequence of str
        NAME=FILE for a data set of the paper; FILE for a stand-in, which goes by its stem. Without
        any, the shipped emoji are the stand-in.
    official : collection of str
        Names of the paper's data sets.
    kind : callable
        Makes the result from a file and the data set's name, None for a stand-in.

    Raises
    ------
    UserError
        A name is unknown, a file is missing or is no embedding file, or two files have one name.
    """
    if not given:
        given = [str(emoji(out, notify, "no --data: the shipped emoji are taken"))]
    result: dict[str, DataT] = {}
    for item in given:
        name, equals, named = item.partition("=")
        if equals and name in official:
            data = kind(Path(named), name)
        elif equals and official and not Path(item).exists():
            raise UserError(
                f"--data takes {', '.join(f'{n}=FILE' for n in official)} or FILE, a stand-in; "
                f"got {item!r}"
            )
        elif (name := Path(item).stem) in official:
            raise UserError(
                f"{item} stands in under the name of a data set of the paper; give "
                f"--data {name}={item} if it is that one, or rename it"
            )
        else:
            data = kind(Path(item))
        EmbeddingFile.open(data.file)  # raises an error for a bad file
        if result.setdefault(name, data).file != data.file:
            raise UserError(
                f"{result[name].file} and {data.file} have one name, by which tables call them; "
                "rename a file"
            )
    return result
