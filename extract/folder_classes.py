"""Classes, hierarchy and official split out of the folders in which samples lie."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedbench.array_types import Bytes
from embedbench.errors import UserError
from embedbench.files.known_names import (
    PART_WORDS,
    describe_spelling,
    one_spelling,
    resembles_part,
    split_role,
    split_roles,
)
from embedbench.files.sample_metadata import SPLITS, TEST, TRAIN, VAL

from .data_set_parts import official_split

Folders = tuple[str, ...]  # the folders of a file, from the root of the source down
LISTED = 5  # names that a sentence lists


@dataclass(frozen=True)
class FolderSplit:
    """The folders that are parts of a data set.

    Parameters
    ----------
    level : int
        Which of a file's folders is the part: 0 is the first.
    above : int
        How many folders hold everything, each the only one; if it is less than `level`, the parts
        lie in classes.
    roles : dict
        TRAIN, VAL or TEST by the name of the folder.
    left_out : tuple of str
        Folders beside them that are no part.
    """

    level: int
    above: int
    roles: dict[str, int]
    left_out: tuple[str, ...] = ()


def find_split(folders: Sequence[Folders], where: str) -> tuple[FolderSplit | None, str]:
    """Return the parts among the folders of files, and what is to be said of names like theirs.

    Parts lie side by side at the top, below folders that hold everything, or in each class:
    `train/cat`, `data/train/cat`, `cat/train`. A folder beside `train` and `test` that is no part
    is left out, if they have folders of classes; else all of them are classes.

    Raises
    ------
    UserError
        Some folders have parts inside of them and others do not, or most names look like parts and
        cannot be read.
    """
    level = _common_depth(folders)
    named = {parts[level] if len(parts) > level else "" for parts in folders}
    roles = {name: role for name, role in split_roles(sorted(named)).items() if role is not None}
    others = sorted(named - roles.keys())
    if roles and not others and {*roles.values()} != {TRAIN}:
        return FolderSplit(level, level, roles), ""
    if _is_whole(roles) and "" not in others and _hold_classes(folders, level, roles):
        return FolderSplit(level, level, roles, tuple(others)), ""
    below = _parts_of_classes(folders, level, where)
    if below is not None:
        return below, ""
    return None, _doubtful_names(named - {""}, roles, where)


def _common_depth(folders: Sequence[Folders]) -> int:
    """Return how many folders hold everything, each the only one; a part is none of them."""
    level = 0
    while len({parts[level : level + 1] for parts in folders}) == 1:
        (name,) = folders[0][level : level + 1] or ("",)
        if split_role(name) is not None or any(len(parts) < level + 2 for parts in folders):
            break
        level += 1
    return level


def _is_whole(roles: dict[str, int]) -> bool:
    """Whether there is a part to learn from and one to be judged on."""
    return TRAIN in roles.values() and bool({VAL, TEST} & {*roles.values()})


def _hold_classes(folders: Sequence[Folders], level: int, roles: dict[str, int]) -> bool:
    inside = [parts for parts in folders if parts[level] in roles]
    return all(len(parts) > level + 1 for parts in inside)


def _parts_of_classes(folders: Sequence[Folders], top: int, where: str) -> FolderSplit | None:
    """Return the parts that lie below classes, as `cat/train` and `cat/test` do."""
    for level in range(top + 1, max(map(len, folders), default=0)):
        siblings: dict[Folders, set[str]] = {}
        for parts in folders:
            if len(parts) > level:
                siblings.setdefault(parts[:level], set()).add(parts[level])
        known: dict[str, int] = {}
        for names in siblings.values():
            roles = split_roles(sorted(names))
            known |= {name: role for name, role in roles.items() if role is not None}
        divided = [
            parent
            for parent, names in siblings.items()
            if _is_whole({name: known[name] for name in names & known.keys()})
        ]
        if not divided:
            continue
        for parts in folders:
            if len(parts) <= level or parts[level] not in known:
                raise UserError(
                    f"{'/'.join(divided[0])} in {where} has the folders of a split, "
                    f"{' and '.join(sorted(siblings[divided[0]] & known.keys()))}, but files in "
                    f"{'/'.join(parts) or 'no folder'} lie in no such folder",
                    "let every class have them, or put them above the classes: train/CLASS, "
                    "test/CLASS",
                )
        return FolderSplit(level, top, known)
    return None


def _doubtful_names(names: set[str], roles: dict[str, int], where: str) -> str:
    """Return the line on names of classes that look like parts; refuse where most do."""
    alike = sorted(name for name in names if name in roles or resembles_part(name))
    if not roles and len(alike) < 2:
        return ""
    listed = ", ".join(alike[:LISTED])
    if not roles and 2 * len(alike) >= len(names):
        raise UserError(
            f"{listed} in {where} may be the parts of a split, or classes",
            "rename parts to train, val and test, and classes so that they hold no such word",
        )
    if names == roles.keys():
        return f"{listed} alone is no split, and is taken for a class"
    return f"{listed} beside other folders: taken for classes, not for parts of a split"


# --- classes ---


def read_folders(ids: Sequence[str], where: str) -> dict[str, Any]:
    """Return ids, labels, classes, parents, split, remark and left_out of a `Source` of paths.

    The folder of a file is its class; the folders above are the ancestors of the class. For the
    folders that are parts of a data set see `find_split`; `train` alone is no split.
    """
    folders: list[Folders] = [tuple(name.split("/")[:-1]) for name in ids]
    found, doubtful = find_split(folders, where)
    split: Bytes | None = None
    left_out: tuple[str, ...] = ()
    official = ""
    if found is not None:
        kept = [i for i, parts in enumerate(folders) if parts[found.level] in found.roles]
        left_out = _others(folders, found)
        ids = [ids[i] for i in kept]
        folders = [folders[i] for i in kept]
        split, official = _official_split(folders, found)
        folders = without_parts(folders, found)
    for name, parts in zip(ids, folders, strict=True):
        if not parts:
            raise UserError(
                f"{name} in {where} lies in no class folder",
                f"put it into a folder that is named for its class: CLASS/{name}",
            )
    classes = read_classes(folders, where)
    remarks = [doubtful, official, classes.pop("remark")]
    remark = "; ".join(filter(None, remarks))
    return {
        **classes,
        "ids": tuple(ids),
        "split": split,
        "remark": f"{where}: {remark}." if remark else "",
        "left_out": left_out,
    }


def read_classes(folders: Sequence[Folders], where: str) -> dict[str, Any]:
    """Return labels (N,), classes (C,) and parents (C,) of samples in folders, and a remark."""
    folders, said = join_spellings(folders)
    leaves = sorted(set(folders))
    above: set[Folders] = set()
    for leaf in leaves:
        above.update(leaf[:depth] for depth in range(1, len(leaf)))
    inner = sorted(above)
    both = above.intersection(leaves)
    if both:
        raise UserError(
            f"{'/'.join(min(both))} in {where} holds files and class folders",
            "put its files into a folder of their own",
        )
    order = leaves + inner
    index = {folder: i for i, folder in enumerate(order)}
    return {
        "labels": np.array([index[folder] for folder in folders], np.int64),
        "classes": tuple(_names(leaves) + _names(inner)),
        "parents": np.array([index.get(folder[:-1], -1) for folder in order], np.int64),
        "remark": said,
    }


def join_spellings(folders: Sequence[Folders]) -> tuple[list[Folders], str]:
    """Return folders in which names that look alike are one, and what is to be said of names.

    See `known_names.one_spelling`; the names of all folders are looked at together.
    """
    names = sorted(set[str]().union(*folders))
    spelling = one_spelling(names)
    joined = [tuple(spelling[name] for name in parts) for parts in folders]
    return joined, describe_spelling(names, "class")


def _others(folders: Sequence[Folders], found: FolderSplit) -> tuple[str, ...]:
    """Return phrases on the folders beside the parts."""
    times = Counter(parts[found.level] for parts in folders)
    beside = " and ".join(sorted(found.roles))
    return tuple(
        f"{times[name]:,} files in {name}, which is no part beside {beside}"
        for name in found.left_out
    )


def _official_split(folders: Sequence[Folders], found: FolderSplit) -> tuple[Bytes, str]:
    """Return the split (n,) of files, and what is no matter of course in it."""
    official, remark = official_split(found.roles)
    split = np.array([official[parts[found.level]] for parts in folders], np.uint8)
    if found.level == 0 and official.keys() <= PART_WORDS.keys():
        return split, remark
    named = ", ".join(f"{name} is {SPLITS[part]}" for name, part in sorted(official.items()))
    place = "in the folders of classes, " if found.level > found.above else ""
    return split, "; ".join(filter(None, (f"{place}the folder {named}", remark)))


def without_parts(folders: Sequence[Folders], found: FolderSplit) -> list[Folders]:
    """Return folders without those of parts and those that hold everything.

    Nor is a part inside of the same part, as archives make them: `Train/Train/cat`.
    """
    level = found.level - found.above
    roles = [found.roles[parts[found.level]] for parts in folders]
    inside = [parts[found.above :] for parts in folders]
    rest = [parts[:level] + parts[level + 1 :] for parts in inside]
    while all(
        len(parts) > level + 1 and split_role(parts[level]) == role
        for parts, role in zip(rest, roles, strict=True)
    ):
        rest = [parts[:level] + parts[level + 1 :] for parts in rest]
    return rest


def _names(folders: Sequence[Folders]) -> list[str]:
    """Return each folder's name; its whole path if the name is not unique."""
    times = Counter(folder[-1] for folder in folders)
    return [folder[-1] if times[folder[-1]] == 1 else "/".join(folder) for folder in folders]
