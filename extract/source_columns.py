"""The optional columns of a source: from the paths of its samples, or from a list."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from embedbench.arrays import Array, Floats, Strings
from embedbench.errors import UserError, short
from embedbench.files.format_digests import COLUMNS
from embedbench.files.optional_columns import read_list
from embedbench.files.train_test_split import groups

from .open_source import SPLIT_FOLDERS, hierarchy
from .source import Source

FOLDER = "folder"

Columns = dict[str, Array]  # (N,) values by name


@dataclass(frozen=True)
class ColumnRules:
    """The sources of the optional columns of a file; None: there is none.

    Parameters
    ----------
    listed : str or PathLike or None
        A CSV file, see `embedbench.files.optional_columns.read_list`.
    domain, group, time : str or None
        The rule that takes the value out of a sample's path: as for `groups`, or `folder` for the
        domain, see `by_domain`.
    """

    listed: str | os.PathLike[str] | None = None
    domain: str | None = None
    group: str | None = None
    time: str | None = None

    def applied(self, source: Source) -> tuple[Source, Columns]:
        """Return the columns of a source, and the source, whose classes may be others then."""
        columns = {} if self.listed is None else read_list(Path(self.listed), source.ids)
        for name in COLUMNS:
            rule = getattr(self, name)
            if rule is None:
                continue
            if name in columns:
                raise UserError(
                    f"column {name!r} is in {self.listed}, and --{name}-from makes it too; drop "
                    "one of them."
                )
            if name == "domain" and rule == FOLDER:
                source, columns[name] = by_domain(source)
            else:
                values = groups(source.ids, rule, f"--{name}-from")
                columns[name] = _numbers(source, values) if name == "time" else np.array(values)
        return source, columns


NO_COLUMNS = ColumnRules()


def by_domain(source: Source) -> tuple[Source, Strings]:
    """Return a source whose first folders are domains and no classes, and the domains (N,).

    Below a folder of a split (`train/`, …) it is the next one. `art/cat/1.png` is of the domain
    `art` and of the class `cat`, as `photo/cat/7.png` is.
    """
    parts = [id_.split("/") for id_ in source.ids]
    if source.split is not None and all(first in SPLIT_FOLDERS for first, *_ in parts):
        parts = [rest for _, *rest in parts]
    for id_, part in zip(source.ids, parts, strict=True):
        if len(part) < 3:
            raise UserError(
                f"--domain-from folder takes DOMAIN/CLASS/FILE, and sample {short(id_)} of "
                f"{source.name} lies in no class folder below a domain; give a pattern instead."
            )
    labels, classes, parents, _ = hierarchy(["/".join(rest) for _, *rest in parts], source.name)
    changed = replace(source, labels=labels, classes=classes, parents=parents)
    return changed, np.array([domain for domain, *_ in parts])


def _numbers(source: Source, values: list[str]) -> Floats:
    numbers = []
    for id_, value in zip(source.ids, values, strict=True):
        try:
            numbers.append(float(value))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            raise UserError(
                f"--time-from takes {short(value)} out of sample {short(id_)}, which is no finite "
                "number; put parentheses around the digits."
            )
    return np.array(numbers)
