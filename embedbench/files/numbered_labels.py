"""Labels of other people's data as numbers of classes, and what their list of names is."""

from collections.abc import Mapping

import numpy as np

from embedbench.array_types import Array, Ints
from embedbench.errors import UserError, unknown

from .known_names import one_spelling


def number_labels(given: Array, names: Array | None) -> tuple[Ints, tuple[str, ...]]:
    """Return labels (N,) as indices, and the class names (C,).

    Without `names` the label values are the names, in their order. With names, texts are looked up
    among them, and numbers are positions; only where they cannot be positions and `names` are
    numbers, too, they are looked up.
    """
    if given.ndim != 1 or given.dtype.kind not in "iuU":
        raise UserError(
            f"labels must be one integer or text per sample, not {given.dtype} of shape "
            f"{given.shape}",
            "convert them first",
        )
    if names is None:
        if given.dtype.kind == "i" and (given < 0).any():
            raise UserError(f"label {given.min()} is negative", "leave unlabelled samples out")
        values, labels = np.unique(given, return_inverse=True)
        return labels.astype(np.int64), tuple(str(value) for value in values)
    classes = tuple(str(name) for name in names)
    if given.dtype.kind != "U" and not _are_values(given, names):
        return given.astype(np.int64), classes
    index = {name: number for number, name in enumerate(classes)}
    return _look_up(given.astype(np.str_), index), classes


def flat_column(values: Array) -> Array:
    """Return one value a row, (N,), of a column (N, 1) or a row (1, N); others stay as they are."""
    if values.ndim == 2 and 1 in values.shape and values.size > 1:
        return values.ravel()
    return values


def whole_numbers(labels: Array) -> tuple[Array, str]:
    """Return labels (N,), and what to say where they are real numbers or do not begin with 0.

    Real numbers become integers if all are whole.
    """
    said = ""
    if labels.dtype.kind == "f" and len(labels) and _are_whole(labels):
        labels = labels.astype(np.int64)
        said = f"labels such as {float(labels[0])} are whole numbers, and are read as these. "
    if labels.dtype.kind in "iu" and len(labels):
        low = int(labels.min())
        high = int(labels.max())
        if low > 0:
            first = "" if low > 1 else f", and {high} the number {len(np.unique(labels)) - 1}"
            said += (
                f"labels run from {low} to {high}, and classes are numbered from 0: class "
                f"{str(low)!r} has the number 0{first}."
            )
    return labels, said.strip()


def _are_whole(labels: Array) -> bool:
    """Whether real numbers are whole ones that float64 counts one by one."""
    if not np.isfinite(labels).all():
        return False
    return bool((labels == np.trunc(labels)).all() and np.abs(labels).max() < 2**53)


def count_from_zero(key: str, labels: Array, names: Array) -> tuple[Array, str]:
    """Return labels (N,) that are positions in `names` from 0, where they are counted from 1.

    They are where 0 is none of them and the last name is the largest; and what to say of it.
    """
    if may_count_from(labels, names) != (1,):
        return labels, ""
    said = f"labels are counted from 1 in {key}: label 1 is class {str(names[0])!r}, number 0."
    return labels.astype(np.int64) - 1, said


def may_count_from(labels: Array, names: Array) -> tuple[int, ...]:
    """What labels (N,) that are positions in names (C,) may be counted from: 0, 1 or both.

    It is both where neither 0 nor C is among them; and nothing where they are no positions.
    """
    numbers = labels
    if labels.dtype.kind == "f" and np.isfinite(labels).all():
        numbers = labels.astype(np.int64)
    if numbers.dtype.kind not in "iu" or not len(numbers) or names.dtype.kind != "U":
        return ()
    if (numbers != labels).any() or numbers.min() < 0 or numbers.max() > len(names):
        return ()
    if numbers.min() == 0:
        return (0,)
    return (1,) if numbers.max() == len(names) else (0, 1)


def describe_unsure(key: str, labels: Array, names: Array) -> str:
    """Return what to say of labels that may be counted from 0 or 1, and are from 0."""
    low = int(labels.min())
    return (
        f"labels run from {low} to {int(labels.max())}, and {key} has {len(names)} names: they are "
        f"counted from 0, so that label {low} is class {str(names[low])!r}."
    )


def check_counts(labels: Mapping[str, Array]) -> None:
    """Refuse whole numbers of several parts that are counted from 1 in one, from 0 in another.

    They are where the values in one are those in the other and one more.
    """
    several = {name: np.unique(values) for name, values in labels.items()}
    first, *others = several
    for name in others:
        ours = several[first]
        theirs = several[name]
        if ours.dtype.kind not in "iu" or theirs.dtype.kind not in "iu" or len(ours) < 2:
            continue
        moved = {int(ours[0]), int(theirs[0])} == {0, 1}
        if moved and np.array_equal(ours - ours[0], theirs - theirs[0]):
            ranges = [f"{values[0]} to {values[-1]}" for values in (ours, theirs)]
            raise UserError(
                f"labels of {first} run from {ranges[0]}, and those of {name} from {ranges[1]}: "
                "one may be counted from 1, and one from 0",
                "count both from 0, or give labels as texts",
            )


def _look_up(given: Array, index: Mapping[str, int]) -> Ints:
    """Return the numbers of texts (N,)."""
    names, places = np.unique(given, return_inverse=True)
    for name in names.tolist():
        if name not in index:
            raise unknown("label", name, index)
    return np.array([index[name] for name in names.tolist()], np.int64)[places]


def _are_values(given: Array, names: Array) -> bool:
    """Whether numbers can only be values among `names`, and no positions in them."""
    if names.dtype.kind not in "iu" or _are_positions(given, names):
        return False
    return bool(np.isin(given, names).all())


def _are_positions(given: Array, names: Array) -> bool:
    return bool(len(given) and given.min() >= 0 and given.max() < len(names))


def why_not_names(key: str, names: Array, labels: Array, width: int, where: str) -> str:
    """Return why an array is not the list of class names; empty if it is.

    Parameters
    ----------
    key : str
        Its name. What is called `names` may be names of files or of features, too.
    labels : array
        (N,) integers or texts.
    width : int
        The number of features.

    Raises
    ------
    UserError
        It may be two things.
    """
    used = np.unique(labels)
    n = len(labels)
    may_be_other = key.casefold() == "names"
    texts = names.astype(np.str_)
    if labels.dtype.kind == "U" and {*used.tolist()} <= {*texts.tolist()}:
        if len(names) < n or len(np.unique(texts)) == n:
            return ""
    elif labels.dtype.kind == "U" and may_be_other and not np.isin(used, texts).any():
        return "no label is among them"
    if len(names) == n:
        return _one_a_row(key, texts, len(used), where)
    if may_be_other and len(names) == width != len(used):
        raise UserError(
            f"{where}: names has {len(names)} entries, as many as there are features, and the "
            f"labels have {len(used)} values",
            "call it class_names if it names the classes, and feature_names if not",
        )
    return ""


def _one_a_row(key: str, texts: Array, used: int, where: str) -> str:
    """Why an array with as many entries as rows is not the list of class names."""
    n = len(texts)
    if key.casefold() == "names":
        if used < n:
            return "one a row, so no names of classes"
        raise UserError(
            f"{where}: names has {n} entries, and there are as many rows and as many classes",
            "call it class_names, or sample_ids",
        )
    if len(np.unique(texts)) < n:
        raise UserError(
            f"{where}: {key} holds one text a row, some of them more than once; expected one name "
            "a class",
            f"give --labels {key} if these are the labels, or remove it",
        )
    return ""


def check_numbers(key: str, names: Array, labels: Array, where: str) -> str:
    """Return what to say of labels that are numbers, where names are numbers or texts of them.

    Raises
    ------
    UserError
        Names are numbers, and labels may be positions or values among them.
    """
    if labels.dtype.kind == "U" or not _are_positions(labels, names):
        return ""
    texts = names.astype(np.str_)
    if all(name == str(place) for place, name in enumerate(texts.tolist())):
        return ""
    if not np.isin(np.unique(labels).astype(np.str_), texts).all():
        return ""
    first = int(np.flatnonzero(texts != np.arange(len(texts)).astype(np.str_))[0])
    if names.dtype.kind in "iu":
        raise UserError(
            f"{where}: label {first} may be the class {first} of {key}, or the one at position "
            f"{first}, which is {texts[first]}",
            f"give {key} as texts if the labels are positions, and no {key} if they are the names",
        )
    return f"labels are positions in {key}: label {first} is class {str(texts[first])!r}."


def merge_spellings(
    labels: Ints, classes: tuple[str, ...], *, by_name: bool
) -> tuple[Ints, tuple[str, ...]]:
    """Return labels and classes in which names that look alike are one, see `one_spelling`.

    Classes keep their order, or are in that of their names.
    """
    spelling = one_spelling(classes)
    if len(spelling) < len(classes) or all(name == one for name, one in spelling.items()):
        return labels, classes
    kept = list(dict.fromkeys(spelling.values()))
    if by_name:
        kept.sort()
    number = {name: place for place, name in enumerate(kept)}
    places = np.array([number[spelling[name]] for name in classes], np.int64)
    return places[labels], tuple(kept)
