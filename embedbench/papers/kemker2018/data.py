"""The data sets of Kemker et al. (2018): searched, checked against Table 1, or replaced."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_list import TEST, TRAIN
from embedbench.papers.data import emoji
from embedbench.papers.published import load_published

NAMES = {"mnist": "MNIST", "cub": "CUB-200", "audioset": "AudioSet"}
STAND_IN = "-stand-in"


@dataclass(frozen=True)
class Size:
    """The numbers of a data set that decide the sizes of the paper's models."""

    features: int
    classes: int
    train: int


@dataclass(frozen=True)
class Data:
    """One of the paper's data sets, or a file that replaces it.

    Parameters
    ----------
    name : str
        "mnist", "cub" or "audioset".
    file : Path
        Embedding file.
    stands_in : bool
        Whether other data replace it; they are never averaged under the paper's name.
    """

    name: str
    file: Path
    stands_in: bool = False

    @property
    def label(self) -> str:
        return f"{self.file.stem} for {NAMES[self.name]}" if self.stands_in else NAMES[self.name]

    @cached_property
    def counts(self) -> dict[str, list[int]]:
        """The numbers of Table 1: single numbers as a list of one, ranges as [least, most]."""
        file = EmbeddingFile.open(self.file)
        per_class = {
            split: np.bincount(
                file.labels[file.samples.split == code], minlength=file.samples.n_leaves
            )
            for split, code in (("train", TRAIN), ("test", TEST))
        }
        return {
            "classes": [file.samples.n_leaves],
            "features": [file.shape[1]],
            "train": [int(per_class["train"].sum())],
            "test": [int(per_class["test"].sum())],
            **{
                f"{split}_per_class": [int(n.min()), int(n.max())] for split, n in per_class.items()
            },
        }

    @cached_property
    def size(self) -> Size:
        """Number of features, classes and training samples."""
        counts = self.counts
        return Size(counts["features"][0], counts["classes"][0], counts["train"][0])


def paper_size(name: str) -> Size:
    """The sizes in Table 1; MNIST has 60,000 training samples, as its other numbers imply."""
    row = next(r for r in load_published("kemker2018")["tables"]["1"] if r["data"] == name)
    train = 60_000 if name == "mnist" else int(row["train"])
    return Size(int(row["features"]), int(row["classes"]), train)


def find_data(
    given: Sequence[str],
    out: Path,
    notify: Callable[[str], None] = lambda _: None,
    *,
    names: Sequence[str] = tuple(NAMES),
) -> dict[str, Data]:
    """The available data sets of the paper, by name.

    Data sets that are not in `given` are searched: NAME.h5 in the working directory; for MNIST also
    its four IDX files, there or in ./mnist, which are imported. For CUB-200 the shipped emoji are
    extracted as a stand-in.

    Parameters
    ----------
    given : sequence of str
        "mnist=mnist.h5", "cub-stand-in=birds.h5", …
    out : Path
        Directory for the files that are made.
    names : sequence of str
        The data sets that are needed.

    Raises
    ------
    UserError
        A name or file is unknown, or a file does not match the data set of its name.
    """
    result = {}
    for item in given:
        key, equals, path = item.partition("=")
        name = key.removesuffix(STAND_IN)
        if not equals or not path:
            raise UserError(f"--data takes NAME=FILE, such as mnist=mnist.h5; got {item!r}")
        if name not in NAMES:
            raise unknown("data set", key, [*NAMES, *(n + STAND_IN for n in NAMES)])
        result[name] = _checked(Data(name, Path(path), key.endswith(STAND_IN)))
    for name in names:
        if name not in result and Path(f"{name}.h5").is_file():
            result[name] = _checked(Data(name, Path(f"{name}.h5")))
    if "mnist" in names and "mnist" not in result:
        made = _import_mnist(out, notify)
        result |= {"mnist": _checked(Data("mnist", made))} if made else {}
    if "cub" in names and "cub" not in result:
        why = "no file of CUB-200: the shipped emoji stand in for it"
        result["cub"] = Data("cub", emoji(out, notify, why), stands_in=True)
    return {name: result[name] for name in NAMES if name in result}


def _checked(data: Data) -> Data:
    """Refuse a file that has the name of a data set of the paper but is different data."""
    got, want = data.size, paper_size(data.name)  # opening also raises an error for a bad file
    if not data.stands_in and (got.features, got.classes) != (want.features, want.classes):
        raise UserError(
            f"{data.file} has {got.features} features and {got.classes} classes, and "
            f"{NAMES[data.name]} has {want.features} and {want.classes}; if it shall stand in for "
            f"it, give --data {data.name}{STAND_IN}={data.file}"
        )
    return data


def _import_mnist(out: Path, notify: Callable[[str], None]) -> Path | None:
    from embedbench.files.formats.idx import is_idx
    from embedbench.files.import_export import import_file

    made = out / "mnist.h5"
    source = next((p for p in (Path(), Path("mnist")) if p.is_dir() and is_idx(p)), None)
    if not made.is_file() and source is not None:
        notify(f"importing MNIST from {source.resolve().name}")
        import_file(source, made)
    return made if made.is_file() else None
