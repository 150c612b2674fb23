"""What a file is to a paper: its own data, a part of them, through another backbone, or other data.

Only runs on a paper's own data, whole and through its backbone, are compared with what it prints.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.files.sample_metadata import TEST

from .plan_data import plan_data

THEIRS, BACKBONE = "the paper's data", "the paper's data, another backbone"
PART, PART_BACKBONE = "a part of the paper's data", "a part of the paper's data, another backbone"
OTHER = "other data"
DATA_KINDS = (THEIRS, BACKBONE, PART, PART_BACKBONE, OTHER)  # the nearest to the paper first

_PART_OF, _ELSE = "a part of ", ", another backbone"
_LABEL = re.compile(rf"({_PART_OF})?(.+?)({_ELSE})? \((.+)\)")
UNKNOWN = ("", "unknown")  # the backbone of features that were imported


@dataclass(frozen=True)
class PaperSet:
    """A data set as a paper has it: an entry of `[[plan.data]]` of its `paper.toml`.

    Parameters
    ----------
    shared : str
        Its name in `shared.toml`, if several papers have it.
    classes, needed : int
        Number of classes, and of those that the paper teaches.
    train, test : int
        Number of training and of test samples; 0 where the paper's choice is not published.
    backbones : tuple of str or None
        Names of the paper's own backbone, without what follows a dot; none: it cannot be had. None:
        the paper trains its network on the images.
    width : int
        Number of features; 0: any.
    """

    shared: str
    classes: int
    needed: int
    train: int
    test: int
    backbones: tuple[str, ...] | None
    width: int

    def kind(self, file: EmbeddingFile) -> str:
        """One of `DATA_KINDS`, but not `OTHER`; more than the data set has is an error."""
        n, n_test = file.samples.n_leaves, int(np.count_nonzero(file.split == TEST))
        n_train = len(file.split) - n_test
        exact = n == self.classes and self.train > 0
        if n > self.classes or (exact and len(file.split) > self.train + self.test):
            raise UserError(
                f"{file.path} has {n} classes and {len(file.split):,} samples, more than the "
                f"paper's {self.classes} and {self.train + self.test:,}"
            )
        fewer = exact and (n_train < self.train or n_test < self.test)
        if fewer or not self.has_all_classes(file):
            return PART if self._is_through_own(file) else PART_BACKBONE
        return THEIRS if self._is_through_own(file) else BACKBONE

    def has_all_classes(self, file: EmbeddingFile) -> bool:
        """Whether published orders, lists and hierarchies can be of this file."""
        return file.samples.n_leaves >= self.needed

    def _is_through_own(self, file: EmbeddingFile) -> bool:
        """Whether the features are the paper's; those that say nothing of it by their width."""
        if self.backbones is None:
            return file.kind == PIXELS
        if file.kind == PIXELS or self.width not in (0, file.shape[1]):
            return False
        name = (file.provenance.get("backbone") or {}).get("name") or ""
        unsaid = name in UNKNOWN and self.width > 0
        return unsaid or name.partition(".")[0] in self.backbones


def paper_sets(facts: Mapping[str, Any]) -> dict[str, PaperSet]:
    """A paper's data sets, by the names that `--data` has for them."""
    result = {}
    for given in plan_data(facts):
        features = given.get("features", {})
        backbones = features.get("backbones")
        samples = given["samples"] if given.get("published_choice", True) else {}
        for name in given["names"]:
            result[name] = PaperSet(
                given.get("shared", ""),
                given["classes"],
                given.get("needed", given["classes"]),
                samples.get("train", 0),
                samples.get("test", 0),
                None if backbones is None else tuple(backbones),
                features.get("width", 0),
            )
    return result


# --- labels, which say the kind ---


def label_data(paper: str, kind: str, file: Path) -> str:
    """What tables call data of a paper that are given as such.

    >>> label_data("CUB-200", PART_BACKBONE, Path("birds50.h5"))
    'a part of CUB-200, another backbone (birds50)'
    >>> label_data("CUB-200", THEIRS, Path("birds.h5"))
    'CUB-200'
    """
    part = _PART_OF if kind in (PART, PART_BACKBONE) else ""
    other = _ELSE if kind in (BACKBONE, PART_BACKBONE) else ""
    return f"{part}{paper}{other} ({file.stem})" if part or other else paper


def read_label(label: str) -> tuple[str, str]:
    """The paper's name of the data of a label, and their kind; "" if the label says neither.

    >>> read_label("a part of CUB-200, another backbone (birds50)")
    ('CUB-200', "a part of the paper's data, another backbone")
    >>> read_label("MNIST")
    ('', '')
    """
    found = _LABEL.fullmatch(label)
    if not found or not (found[1] or found[3]):
        return "", ""
    kinds = {(False, True): BACKBONE, (True, False): PART, (True, True): PART_BACKBONE}
    return found[2], kinds[bool(found[1]), bool(found[3])]
