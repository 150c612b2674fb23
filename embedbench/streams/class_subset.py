"""The setting `classes` of protocols: a stream of some of a file's classes."""

import csv
import io
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.make_from_settings import join_list
from embedbench.config.plain_numbers import plain_number
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile

from .class_order import class_order, listed_classes, order_notes
from .taught_classes import declared_classes, keep_classes

ALL = "all"
LACK = "outside protocol.classes"
LEAST, MOST = 2, 10**9


def read_classes(given: Any) -> int | str:
    """A value of `classes`, with one form for each choice; refuse what fits no file.

    >>> read_classes("20"), read_classes("dog, cat"), read_classes(["b", "a"]), read_classes("all")
    (20, 'cat,dog', 'a,b', 'all')
    """
    listed = isinstance(given, list | tuple)
    text = join_list(given, "protocol.classes") if listed else str(given)
    if text == ALL:
        return ALL
    count = None if listed or isinstance(given, bool) else plain_number(text.strip())
    if isinstance(count, int) and LEAST <= count <= MOST:
        return count
    names = class_names_in(text)
    if count is None and "" not in names and len({*names}) == len(names) >= LEAST:
        return join_list(sorted(names), "protocol.classes")  # their order decides nothing
    raise UserError(
        "protocol.classes",
        expected="all, a number of classes from 2 on, or two or more names with commas, each once",
        got=given,
    )


def class_names_in(classes: str) -> list[str]:
    """The names in a list with commas; one with a comma of its own stands in double quotes.

    >>> class_names_in('tench, "boxer, dog"')
    ['tench', 'boxer, dog']
    """
    rows = list(csv.reader(io.StringIO(classes), skipinitialspace=True))
    return [name.strip() for name in itertools.chain(*rows)]


def choose_classes(
    file: EmbeddingFile, classes: int | str, order: str = "natural"
) -> EmbeddingFile:
    """The file with the classes of a stream alone; the same rows and digests.

    Parameters
    ----------
    file : EmbeddingFile
        With the classes that its training samples teach.
    classes : int or str
        "all"; a number N, the first N in `order`; or names, as `read_classes` returns them.
    order : str
        Of the stream's classes. An order that the seed draws counts as that of the file, so that
        all seeds have the same classes.

    Raises
    ------
    UserError
        The file has fewer classes, or not all of these.
    """
    if classes == ALL:
        return file
    return keep_classes(file, _chosen(file, classes, order), LACK)


@dataclass(frozen=True)
class OrderedFile:
    """A file with the classes of a stream alone, their order, and what is to be said of it.

    Parameters
    ----------
    file : EmbeddingFile
        With the classes of the stream.
    order : array of int
        (C,) its classes in the order of the stream.
    notes : tuple of str
        Of `class_order.order_notes`.
    """

    file: EmbeddingFile
    order: Ints
    notes: tuple[str, ...]


def order_chosen(file: EmbeddingFile, classes: int | str, order: str, seed: int) -> OrderedFile:
    """The classes of a stream in their order; the arguments are those of `choose_classes`.

    The first N of an order stay in that order. Classes that are named are ordered as if the file
    had no others.
    """
    chosen = choose_classes(file, classes, order)
    if chosen is file or order == "random" or isinstance(classes, str):
        return OrderedFile(chosen, class_order(order, chosen, seed), order_notes(order, chosen))
    first = _chosen(file, classes, order)
    # the chosen file has the same classes, numbered anew from 0 on
    return OrderedFile(chosen, np.searchsorted(np.sort(first), first), order_notes(order, file))


def _chosen(file: EmbeddingFile, classes: int | str, order: str) -> Ints:
    """The chosen classes of the file, those of a number in their order."""
    n = file.samples.n_leaves
    if isinstance(classes, str):
        return _named(file, classes)
    if classes > n:
        raise UserError(
            "protocol.classes",
            expected=f"at most {n}, the classes of {file.path.name} with training samples",
            got=classes,
        )
    return class_order("natural" if order == "random" else order, file, 0)[:classes]


def _named(file: EmbeddingFile, classes: str) -> Ints:
    """The classes of the file that a list names."""
    declared, place = declared_classes(file)
    names = class_names_in(classes)
    listed = listed_classes("protocol.classes", names, declared, file.path.name)
    for name, number in zip(names, listed, strict=True):
        if number >= 0 and place[number] >= 0:
            continue
        if number >= 0:
            raise UserError(
                f"protocol.classes names {name!r}, which has no training samples in "
                f"{file.path.name}",
                "leave it out",
            )
        raise unknown(f"class of {file.path.name}", name, declared, at="protocol.classes")
    chosen: Ints = place[np.array(listed)]
    if len(np.unique(chosen)) < len(chosen):
        raise UserError("protocol.classes names a class twice", "name each once")
    return chosen
