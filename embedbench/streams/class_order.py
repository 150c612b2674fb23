"""The order of the classes in a stream: natural, drawn, or from an order file."""

import itertools
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.format_versions import check_schema
from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.provenance import list_some
from embedbench.files.sample_metadata import TRAIN, VAL
from embedbench.storage.regular_files import read_text

from .order_names import BY_CONFUSION, NAMED, ORDERS, PUBLISHED
from .taught_classes import declared_classes

SCHEMA = "embedbench-order/1.0"  # of the files that `make_class_order` makes
NUMBERED = ("icarl1993", "icarl_87")  # orders of class numbers, whatever the classes are


def class_order(order: str, file: EmbeddingFile, seed: int) -> Ints:
    """Resolve an order to class indices, (C,).

    Parameters
    ----------
    order : str
        "natural"; "number" (by the numbers that are the classes' names); "random" (seeded); "size"
        (by decreasing number of training and validation samples, ties as in the file); "icarl1993"
        (see `icarl1993`); another one of `ORDERS`; or the path of an order file. An order file is a
        JSON list of classes, a JSON object with such a list at "order", or a text file with one
        class per line. It must hold every leaf class once; those that the stream leaves out may be
        missing. A class is given by its name. Where all names are numbers, a number is the class of
        that number. Where none is, a number is a position in the file. Where some are, a number is
        refused.
    file, seed : EmbeddingFile, int
        The file that holds the classes, and the seed of "random".
    """
    n = file.samples.n_leaves
    if order == "natural":
        return np.arange(n)
    if order == "number":
        return by_number(file, order)
    if order == "random":
        return np.random.default_rng(seed).permutation(n)
    if order == "size":
        learned = np.isin(file.split, (TRAIN, VAL))
        return np.argsort(-np.bincount(file.labels[learned], minlength=n), kind="stable")
    if order == "icarl1993":
        return icarl1993(file)
    if order == "coarse":
        return by_group(file)
    if order in ORDERS:
        return published_order(file, order)
    return _read_classes(Path(order), _order_file(order).order, file)


def icarl1993(file: EmbeddingFile) -> Ints:
    """iCaRL's `np.random.seed(1993); np.random.shuffle(order)`, over the data set's own numbers.

    These are CIFAR-100's where the classes have its names, the names themselves where all are
    numbers, and positions in the file elsewhere.
    """
    numbers = np.random.RandomState(1993).permutation(file.samples.n_leaves)
    return official_classes(file, "icarl1993")[numbers]


def published_order(file: EmbeddingFile, order: str) -> Ints:
    """An order of CIFAR-100's classes that others have published."""
    classes = official_classes(file, order)
    if len(classes) != 100 or (order in PUBLISHED and cifar100_labels(file) is None):
        raise UserError(
            f"order {order!r} is of CIFAR-100's classes; {file.path.name} has {len(classes)} others"
        )
    return classes[np.array(published_orders()[order], dtype=np.int64)]


def by_group(file: EmbeddingFile) -> Ints:
    """Classes sorted by the names of their groups, from the root down; ties as in the file."""
    n = file.samples.n_leaves
    if (file.parents[:n] < 0).all():
        labels = cifar100_labels(file)
        if labels is not None:  # its superclasses are known, 20 of five classes
            grouped: Ints = labels[np.array(published_orders()["coarse"])]
            return grouped
        raise UserError(
            f"{file.path.name} has no class hierarchy to order by",
            "make the file from nested folders, or take another order",
        )

    numbers = numbers_of(file.classes[n:])
    keys = file.classes[n:] if numbers is None else numbers

    def groups(c: int) -> list[Any]:
        """The names of the groups above a class, from the root down; numbers where all are."""
        above: list[Any] = []
        while (c := int(file.parents[c])) >= 0:
            above.insert(0, keys[c - n])
        return above

    return np.array(sorted(range(n), key=groups))


def official_classes(file: EmbeddingFile, order: str) -> Ints:
    """(C,) the file's class of each number of the data set, see `icarl1993`; `order` needs them."""
    labels = cifar100_labels(file)
    if labels is not None:
        return labels
    if numbers_of(_leaves(file)) is not None:
        return by_number(file, order)
    return np.arange(file.samples.n_leaves)


def by_number(file: EmbeddingFile, order: str) -> Ints:
    """(C,) the classes sorted by the numbers that are their names; `order` needs them."""
    names = _leaves(file)
    numbers = numbers_of(names)
    if numbers is None:
        other = next(name for name in names if number_of(name) is None)
        raise UserError(
            f"order {order!r} takes classes that are all named by numbers, and {file.path.name} "
            f"has {other!r}",
            "take another order",
        )
    classes = sorted(range(len(names)), key=lambda c: numbers[c])
    for a, b in itertools.pairwise(classes):
        if numbers[a] == numbers[b]:
            raise UserError(
                f"order {order!r} is by number, and the classes {names[a]!r} and {names[b]!r} of "
                f"{file.path.name} have the same one",
                "take another order, or a file of names (--order FILE)",
            )
    return np.array(classes)


def order_notes(order: str, file: EmbeddingFile) -> tuple[str, ...]:
    """Sentences on what the numbers of an order are taken for, where a reader may doubt it."""
    names = _leaves(file)
    numbers = numbers_of(names)
    name = file.path.name
    if order == "natural":
        if numbers is None or list(numbers) == sorted(numbers):
            return ()
        return (
            f"the classes of {name} are numbers in the order of text: {list_some(names, 4)}; order "
            '"number" sorts them',
        )
    if order in NUMBERED:
        return _notes_on_numbers(order, file)
    if order in NAMED:
        return ()
    declared, _ = declared_classes(file)
    by_position = any(number_of(name) is not None for name in _order_file(order).order)
    if not by_position or any(number_of(name) is not None for name in declared):
        return ()
    return (f"numbers in {Path(order).name} are positions in {name}: {_positions(declared)}",)


def was_by_position(order: str, file: EmbeddingFile) -> bool:
    """Whether numbers that are read as names would be other classes as positions in the file.

    Earlier versions took them for positions.
    """
    names = _leaves(file)
    numbers = numbers_of(names)
    if numbers is None or (order in ORDERS and order != "icarl1993"):
        return False
    if order == "icarl1993":
        return list(by_number(file, order)) != list(range(len(names)))
    for item in _order_file(order).order:
        number = number_of(item)
        if number is not None and (isinstance(item, int) or item not in names):
            is_position = number.denominator == 1 and 0 <= number < len(names)
            if not is_position or numbers[int(number)] != number:
                return True
    return False


def _notes_on_numbers(order: str, file: EmbeddingFile) -> tuple[str, ...]:
    """Which numbers a published order of class numbers is over."""
    names = _leaves(file)
    if cifar100_labels(file) is not None:
        return ()
    numbers = numbers_of(names)
    if numbers is None:
        return (
            f"order {order} is of class numbers, which {file.path.name} does not state: they are "
            f"positions in the file, {_positions(names)}",
        )
    if sorted(numbers) == list(range(len(names))):
        return ()
    ranked = [names[c] for c in by_number(file, order)]
    return (
        f"order {order} is of class numbers from 0 on: they are the ranks of the numbers in "
        f"{file.path.name}, {_positions(ranked)}",
    )


def _positions(names: Sequence[str]) -> str:
    few = [f"{k} is {name!r}" for k, name in enumerate(names[:2])]
    return ", ".join([*few, "…"])


def _leaves(file: EmbeddingFile) -> Sequence[str]:
    return file.classes[: file.samples.n_leaves]


# --- names that are numbers ---


def number_of(name: str | int) -> Fraction | None:
    """The number that a name is, in decimal digits; None of other names.

    >>> number_of("07"), number_of("-1.50"), number_of("x7"), number_of("1e3")
    (Fraction(7, 1), Fraction(-3, 2), None, None)
    """
    text = str(name).strip()
    return Fraction(text) if re.fullmatch(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?", text) else None


def numbers_of(names: Sequence[str]) -> list[Fraction] | None:
    """The numbers that names are, (n,); None unless all are."""
    numbers = [number for name in names if (number := number_of(name)) is not None]
    return numbers if len(numbers) == len(names) else None


# --- CIFAR-100 ---


def published_orders() -> dict[str, list[Any]]:
    """The orders of CIFAR-100 that ship, by name, and its classes."""
    asset = resources.files("embedbench") / "assets" / "cifar100_orders.json"
    published: dict[str, list[Any]] = json.loads(asset.read_text(encoding="utf-8"))
    return published


def cifar100_labels(file: EmbeddingFile) -> Ints | None:
    """(100,) the file's class for each label of CIFAR-100; None for other data."""
    leaves = [re.sub("[ -]", "_", name.strip().lower()) for name in _leaves(file)]
    names = published_orders()["classes"]
    if sorted(leaves) != sorted(names):
        return None
    return np.array([leaves.index(name) for name in names])


# --- order files ---


@dataclass(frozen=True)
class _OrderFile(JsonRecord):
    """An order file; `embedbench.streams.make_class_order.make_order` has more keys."""

    order: tuple[str | int, ...]
    kind: str = ""


def order_text(order: str) -> str:
    """The text of an order file; refuses what is neither a file nor one of `ORDERS`."""
    path = Path(order)
    if os.path.lexists(path):
        return read_text(path)
    if order in BY_CONFUSION:
        raise UserError(
            f"order {order!r} is annealed on the file's own training samples",
            f"embedbench order FILE --kind {order} --out order.json writes it; then --order "
            "order.json",
        )
    raise unknown("order", order, NAMED, more="Or give a file.")


def _order_file(order: str) -> _OrderFile:
    """The content of an order file."""
    path = Path(order)
    text = order_text(order)
    try:
        loaded = parse_json(text, order)
    except UserError:
        return _OrderFile(tuple(line.strip() for line in text.splitlines() if line.strip()))
    if not isinstance(loaded, list | dict):
        raise UserError(f"{path} must hold a JSON list of classes, or one class a line")
    schema = loaded.get("schema") if isinstance(loaded, dict) else None
    if isinstance(schema, str) and schema.startswith("embedbench-order/"):  # not of another tool
        check_schema(order, schema, SCHEMA, "embedbench order writes one")
    return _OrderFile.from_json({"order": loaded} if isinstance(loaded, list) else loaded, order)


def _read_classes(path: Path, items: Sequence[str | int], file: EmbeddingFile) -> Ints:
    """(C,) the classes of the stream in the order of a file's entries.

    An entry may be of a class that the file declares and the stream leaves out.
    """
    names, place = declared_classes(file)
    listed = listed_classes(str(path), items, names, file.path.name)
    known = np.array([c for c in listed if c >= 0], dtype=np.int64)
    order = place[known]
    order = order[order >= 0]
    n = file.samples.n_leaves
    is_whole = len(known) == len(listed) == len(np.unique(known)) and len(order) == n
    if not is_whole:
        # without its text: a study of another person may name any file of this machine
        by_name = "; their names are numbers, so no entry is a position"
        raise UserError(
            f"{path} must hold each of the {n} classes once; it holds {len(np.unique(order))} of "
            f"them in {len(items)} entries{by_name if numbers_of(names) else ''}"
        )
    return order


def listed_classes(
    where: str, items: Sequence[str | int], names: Sequence[str], source: str
) -> list[int]:
    """The class that each entry of an order file names, -1 for none; see `class_order`."""
    index = {name: c for c, name in enumerate(names)}
    numbers = [number_of(name) for name in names]
    of_number: dict[Fraction, list[int]] = {}
    for c, number in enumerate(numbers):
        if number is not None:
            of_number.setdefault(number, []).append(c)
    listed = []
    for item in items:
        number = number_of(item)
        if isinstance(item, str) and item in index:
            listed.append(index[item])
        elif number is None:
            listed.append(-1)
        elif not of_number:
            is_position = number.denominator == 1 and 0 <= number < len(names)
            listed.append(int(number) if is_position else -1)
        elif None in numbers or len(of_number.get(number, ())) > 1:
            raise UserError(
                f"{where} has numbers that may be names of classes of {source} or not: some of "
                "its classes are named by numbers, and not all, or two by the same one",
                "write the classes' names, as text",
            )
        else:
            listed.append(of_number.get(number, [-1])[0])
    return listed
