"""The kinds of answers: which one a file holds, and which one a record is of."""

from pathlib import Path

import h5py

from .array_file import readable, text_attribute
from .label_set_predictions import LabelSets
from .predictions import Predictions
from .run_answers import RunAnswers

KINDS: tuple[type[RunAnswers], ...] = (Predictions, LabelSets)


def kind_of(score: str) -> type[RunAnswers]:
    """The kind of answers that has a base score, such as the main score of a record."""
    return next((kind for kind in KINDS if score in kind.SCORES), Predictions)


def check_version(path: Path) -> None:
    """Refuse a `predictions.h5` of a version that cannot be read; its tables are not looked at."""
    with readable(path) as f:
        _kind_in(f).checked_version(f)


def load_any(path: Path) -> RunAnswers:
    """Read a `predictions.h5` with answers of any kind."""
    with readable(path) as f:
        return _kind_in(f).read(f)


def _kind_in(f: h5py.File) -> type[RunAnswers]:
    """The kind of an open file; what is none of ours is refused as one label a sample is."""
    name = text_attribute(f, "format")
    return next((kind for kind in KINDS if name == kind.FORMAT), Predictions)
