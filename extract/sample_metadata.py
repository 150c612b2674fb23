"""What a file holds beside the rows of its backbone: split, optional columns, what people say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.files.user_metadata import UserMetadata

from .path_columns import ColumnRules, Columns
from .source import Source
from .source_split import choose_split


@dataclass(frozen=True)
class Beside:
    """What a file holds beside the rows of the backbone.

    Parameters
    ----------
    split : array of int
        (N,) TRAIN, VAL or TEST, of all samples of the source.
    rule : dict
        How the split was made.
    columns : dict
        (N,) values by name.
    stated : UserMetadata
        What the user says of the file.
    """

    split: NDArray[np.uint8]
    rule: dict[str, Any]
    columns: Columns
    stated: UserMetadata


def choose_beside(
    source: Source,
    split: str | None,
    group: str | None,
    stratify: bool | None,
    columns: ColumnRules,
    stated: UserMetadata,
) -> tuple[Source, Beside]:
    """Return what is beside the rows, and the source, whose classes may be others then.

    Parameters
    ----------
    source, split, group, stratify : Source, str or None, str or None, bool or None
        See `choose_split`.
    columns : ColumnRules
        Where the optional columns come from.
    stated : UserMetadata
        What the user says of the file.
    """
    source, values = columns.applied(source)
    rows, rule = choose_split(source, split, group, stratify=stratify)
    return source, Beside(rows, rule, values, stated)
