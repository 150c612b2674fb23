"""What the arrays of a source are: features, labels, split, groups, …, by their names and shapes.

docs/files.md lists the names. What is not used is named in `Arrays.left_out`.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Bytes, Ints, Strings
from embedbench.errors import UserError, list_first, unknown
from embedbench.text.undecoded_text import as_text

from . import file_digests, hdf5_layout
from .arrays_by_part import LAYER, join_parts, lists_rows, parse_key, split_by_rows
from .formats.arrow_files import NamedLabels
from .formats.numpy_files import as_float32
from .known_names import (
    FILE_NAMES,
    KEYS,
    LISTED,
    MAYBE_SPLIT,
    describe_spelling,
    find_keys,
    may_list_rows,
    merge_texts,
    read_split,
    resembles_part,
)
from .missing_arrays import is_weight, reshape_way, without_features, without_labels
from .numbered_labels import (
    check_numbers,
    count_from_zero,
    describe_unsure,
    flat_column,
    may_count_from,
    merge_spellings,
    number_labels,
    whole_numbers,
    why_not_names,
)
from .provenance import read_provenance
from .sample_metadata import SPLITS, VAL, Samples
from .train_test_split import groups as groups_of


@dataclass(frozen=True)
class Arrays:
    """Contents of a source; without `has_split`, all samples are in train so far.

    Parameters
    ----------
    groups : list of str or None
        (N,) names of groups that are to stay in one part.
    origin : mapping
        The key that each thing was read from.
    left_out, remarks : sequence of str
        Phrases on what was not used, and sentences on what was not a matter of course.
    feature_names : sequence of str
        (D,) the columns of a table that became the features; empty: they have no names.
    counts_from : sequence of int
        What labels that are positions may be counted from: 0, 1, or both; empty: they are none.
    unsure : str
        What to say where it may be both, and nothing else decides it.
    """

    samples: Samples
    features: Array
    provenance: dict[str, Any]
    has_split: bool = True
    groups: list[str] | None = None
    layers: dict[str, Array] = field(default_factory=dict)
    columns: dict[str, Array] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    remarks: Sequence[str] = ()
    feature_names: Sequence[str] = ()
    counts_from: Sequence[int] = ()
    unsure: str = ""


def choose_arrays(found: Mapping[str, Any], src: Path, asked: Mapping[str, str | None]) -> Arrays:
    """Return what the arrays of a source are.

    Parameters
    ----------
    found : mapping
        Arrays by name; those that are not needed are not taken out of it.
    asked : mapping
        The keys that the user named for `features`, `labels` and `groups`; the last may be a rule
        for the ids instead.

    Raises
    ------
    UserError
        Arrays are missing, contradict each other, or may mean two things.
    """
    joined = join_parts(found, asked, str(src))
    source = _Source(joined.arrays, src, {**getattr(found, "origin", {}), **joined.origin})
    source.remarks.extend(getattr(found, "remarks", ()))
    features, given = source.take_tables(asked)
    if features.dtype.kind in "iu" and getattr(found, "untyped", False):
        features = features.astype(np.float32)
        source.remarks.append("the features are whole numbers, and are read as real ones.")
    names = getattr(found, "joined", ())
    labels, leaves, parents = source.take_classes(given, features.shape[1])
    ids = listed = source.take_ids()
    split = joined.split
    if split is None:
        split = source.take_split()
    else:
        source.origin["split"] = joined.origin["split"]
    rows: Any = slice(None)
    if split is None:
        split, rows = source.split_by_rows(ids)
    groups = source.take_groups(asked["groups"])
    layers = [key for key in source.arrays if key.startswith(LAYER)]
    columns = source.optional_columns(asked["groups"])
    source.compare_orders(listed)
    kept = {key: source.take_rows(key)[rows] for key in (*layers, *columns)}
    features = features[rows]
    labels = labels[rows]
    split = None if split is None else split[rows]
    ids = _default_ids(len(labels), split) if ids is None else ids[rows]
    groups = source.groups_of_ids(asked["groups"], ids) if groups is None else groups[rows]
    if "ids" not in source.origin and "of the ids" in source.origin.get("groups", ""):
        source.remarks.append("--group reads running numbers, as there is no key of ids.")
    none_yet = np.zeros(len(ids), np.uint8)
    return Arrays(
        Samples(ids, labels, none_yet if split is None else split, leaves, parents),
        features,
        source.take_provenance(features),
        split is not None,
        None if groups is None else groups.tolist(),
        layers={key.removeprefix(LAYER): kept[key] for key in layers},
        columns={name: kept[name] for name in columns},
        origin=source.origin,
        left_out=[*source.left_out(), *getattr(found, "not_read", ())],
        remarks=source.remarks,
        feature_names=names if len(names) == features.shape[1] else (),
        counts_from=source.counts_from,
        unsure=source.unsure,
    )


class _Source:
    """The arrays of a source, and what became of each.

    Attributes
    ----------
    origin : dict
        The key in the source of each thing that was taken.
    remarks : list of str
        Sentences on what is no matter of course.
    n : int
        The number of rows of features.
    """

    def __init__(self, arrays: Mapping[str, Any], src: Path, joined: Mapping[str, str]) -> None:
        self.arrays, self.src, self._joined = arrays, src, joined
        self.origin: dict[str, str] = {}
        self.remarks: list[str] = []
        self.n = 0
        self.counts_from: Sequence[int] = ()
        self.unsure = ""
        self._read: dict[str, Any] = {}
        self._used: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._dropped: list[str] = []

    # --- one array ---

    def _get(self, key: str) -> Any:
        if key not in self.arrays:
            raise unknown(f"key of {self.src}", key, self.arrays)
        if key not in self._read:
            self._read[key] = self.arrays[key]
        return self._read[key]

    def _plain(self, key: str) -> Array:
        """An array; categories are their names."""
        values = self._get(key)
        return values.names[values.values] if isinstance(values, NamedLabels) else values

    def take(self, key: str, what: str, *, table: bool = False) -> Array:
        """Return an array of one value a row, or a table, which leaves float64."""
        values = self._checked(key, table=table)
        self._used.add(key)
        if what:
            self.origin[what] = self._joined.get(key, key)
        return values

    def _checked(self, key: str, *, table: bool = False) -> Array:
        values = self._plain(key)
        axes, kinds = ((2, 4), "fiu") if table else ((1,), "fiuUb")
        if not table:
            values = flat_column(values)
        if values.ndim not in axes or values.dtype.kind not in kinds:
            form = "(N, D) or (N, H, W, C)" if table else "one value a row"
            raise UserError(
                f"{self.src}: {key} is {values.dtype} of shape {values.shape}; expected {form}",
                reshape_way(key, values, table=table),
            )
        if table and values.dtype == np.float64:
            return as_float32(values, f"{self.src}: {key}")
        return values

    def take_rows(self, key: str, what: str = "") -> Array:
        """Return an array that has as many rows as there are features."""
        values = self.take(key, what, table=key.startswith(LAYER))
        if len(values) != self.n:
            raise UserError(
                f"{self.src}: {key} has {len(values)} values, and there are {self.n} rows of "
                "features",
                "give one for each row, or rename it",
            )
        return values

    def _unused(self, usual: Sequence[str]) -> list[str]:
        return [key for key in find_keys(usual, self.arrays) if key not in self._used]

    def _by_length(self, keys: Sequence[str]) -> list[str]:
        """Keys with one value for each row before the others."""
        return sorted(keys, key=lambda key: self._plain(key).shape != (self.n,))

    # --- what the arrays are ---

    def take_tables(self, asked: Mapping[str, str | None]) -> tuple[Array, Any]:
        """Return features and labels: the first of their usual keys with as many rows."""
        keys = {}
        for what in ("features", "labels"):
            named = asked[what]
            keys[what] = find_keys(KEYS[what], self.arrays) if named is None else [named]
        keys["features"] = keys["features"] or self._only_table()
        if not keys["features"]:
            missing = [what for what in keys if not keys[what]]
            raise without_features(str(self.src), self.arrays, missing)
        if not keys["labels"]:
            key = keys["features"][0]
            others = [name for name in self.arrays if name != key]
            alone = self._checked(key, table=True)
            raise without_labels(str(self.src), self._joined.get(key, key), alone, others)
        table, target = next(self._fitting(keys), (keys["features"][0], keys["labels"][0]))
        features = self.take(table, "features", table=True)
        given = self._get(target)
        labels = self.take(target, "labels")
        if not isinstance(given, NamedLabels):
            given = labels
        if len(features) != len(labels) and features.shape[1:] == labels.shape:
            self.remarks.append(
                f"{table} is {features.shape[0]} × {features.shape[1]}, and there are "
                f"{len(labels)} labels: its columns are the samples."
            )
            features = np.ascontiguousarray(features.T)
        self.n = len(features)
        if self.n != len(labels):
            raise UserError(
                f"{self.src} has {self.n} rows of features and {len(labels)} labels",
                "give one label per row",
            )
        for what, key in (("features", table), ("labels", target)):
            self._reasons |= dict.fromkeys({*keys[what]} - {key}, f"{what} are {key}")
        return features, given

    def _only_table(self) -> list[str]:
        """The only array that can be features, (N, D) of real numbers, whatever its name.

        One that cannot be read might be it: what is wrong with it is raised.
        """
        tables = []
        for key in self.arrays:
            values = self._get(key)
            plain = not isinstance(values, NamedLabels) and not key.startswith(LAYER)
            plain = plain and not is_weight(key)
            if plain and np.ndim(values) == 2 and values.dtype.kind == "f" and values.shape[1] > 1:
                tables.append(key)
        return tables if len(tables) == 1 else []

    def _fitting(self, keys: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
        """Yield keys of features and of labels that can be that and have as many rows."""
        if all(len(several) == 1 for several in keys.values()):
            return
        for table, target in itertools.product(keys["features"], keys["labels"]):
            rows = self._plain(table)
            values = flat_column(self._plain(target))
            can_be = rows.ndim in (2, 4) and rows.dtype.kind in "fiu" and values.ndim == 1
            if can_be and len(rows) == len(values):
                yield table, target

    def take_classes(self, given: Any, width: int) -> tuple[Ints, tuple[str, ...], Ints]:
        """Return labels as numbers, the names of all classes, and their parents."""
        labels, names = given, None
        if isinstance(given, NamedLabels):
            labels = given.values
            names = given.names
        where = str(self.src)
        keys = self._unused(KEYS["classes"])
        for key in keys:
            if names is not None:
                self._reasons[key] = "the classes have their names"
                continue
            values = self._checked(key)
            if reason := why_not_names(key, values, labels, width, where):
                self._reasons[key] = reason
                continue
            names = self.take(key, "classes")
            self.counts_from = may_count_from(labels, names)
            if self.counts_from == (0, 1):
                self.unsure = describe_unsure(key, labels, names)
            labels, said = count_from_zero(key, labels, names)
            if said:
                self.remarks.append(said)
                continue
            if said := check_numbers(key, names, labels, where):
                self.remarks.append(said)
        if names is None:
            labels, said = whole_numbers(labels)
            if said:
                self.remarks.append(said)
        numbers, leaves = number_labels(labels, names)
        if "parents" in self.arrays:
            return numbers, leaves, self.take("parents", "")
        if said := describe_spelling(leaves, "class"):
            self.remarks.append(f"{said}.")
        numbers, leaves = merge_spellings(numbers, leaves, by_name=names is None)
        return numbers, leaves, np.full(len(leaves), -1)

    def take_ids(self) -> Strings | None:
        """Return the ids; without a key for them, different names of files, one a row."""
        if keys := self._by_length(self._unused(KEYS["ids"])):
            self._reasons |= dict.fromkeys(keys[1:], f"ids are {keys[0]}")
            return self.take_rows(keys[0], "ids").astype(np.str_)
        for key in self._unused(FILE_NAMES):
            values = self._plain(key)
            if values.shape == (self.n,) and values.dtype.kind == "U":
                if len(np.unique(values)) == self.n:
                    return self.take_rows(key, "ids")
                self._reasons[key] = "not different enough for ids"
        return None

    def take_split(self) -> Bytes | None:
        """Return the split that a key says, one value a row."""
        keys = self._unused(KEYS["split"])
        maybe = self._unused(MAYBE_SPLIT)
        if keys:
            self._reasons |= dict.fromkeys((*keys[1:], *maybe), f"the split is {keys[0]}")
            values = self.take_rows(keys[0], "split")
            split = read_split(values, keys[0])
            self._say_of_zeros_and_ones(values, keys[0])
            return split
        for key in maybe:
            values = self._plain(key)
            numbers = values.dtype.kind in "iu" and "split" in key.casefold()
            if values.shape != (self.n,) or not (numbers or values.dtype.kind == "U"):
                self._reasons[key] = f"no split: {values.dtype} of shape {values.shape}"
                continue
            try:
                split = read_split(values, key)
            except UserError as error:
                self._reasons[key] = f"no split: {error.what}"
                continue
            if len(np.unique(split)) == 1:
                self._reasons[key] = f"no split: all rows are {SPLITS[split[0]]}"
                continue
            self._say_of_zeros_and_ones(values, key)
            self.take(key, "split")
            return split
        return None

    def _say_of_zeros_and_ones(self, values: Array, key: str) -> None:
        if values.dtype.kind in "iu" and values.max(initial=0) == VAL:
            self.remarks.append(f"{key} holds no 2: 0 is train and 1 is val, and no row is test.")

    def split_by_rows(self, ids: Strings | None) -> tuple[Bytes | None, Any]:
        """Return the split that lists of rows or masks say, and the rows that are in it."""
        made = split_by_rows(self.arrays, self.n, ids, self._used, str(self.src))
        if made is None:
            return None, slice(None)
        for key in made.keys:
            self._used.add(key)
        self.origin["split"] = ", ".join(made.keys)
        if made.kept.all():
            if made.remark:
                self.remarks.append(f"{made.remark}.")
            return made.split, slice(None)
        self._dropped.append(made.remark)
        return made.split, np.flatnonzero(made.kept)

    def take_groups(self, asked: str | None) -> Strings | None:
        """Return the groups that a key names; names that look alike are one."""
        keys = self._by_length(self._unused(KEYS["groups"]))
        if asked is not None:
            keys = [asked] if asked in self.arrays else []
        if not keys:
            return None
        given = self.take_rows(keys[0], "groups")
        if given.dtype.kind == "f" and np.isnan(given).any():
            row = int(np.isnan(given).argmax())
            raise UserError(f"{self.src}: {keys[0]} has NaN in row {row}", "name every group")
        groups = given.astype(np.str_)
        groups, said = merge_texts(groups, "group")
        if said:
            self.remarks.append(f"{said}.")
        return groups

    def groups_of_ids(self, rule: str | None, ids: Strings) -> Strings | None:
        """Return the groups that a rule takes out of the ids."""
        if rule is None:
            return None
        try:
            groups = np.array(groups_of(ids.tolist(), rule), np.str_)
        except UserError:  # one that does not fit all ids was meant as a key
            raise unknown(f"key of {self.src}", rule, self.arrays) from None
        self.origin["groups"] = f"{rule} of the ids"
        return groups

    def optional_columns(self, asked: str | None) -> list[str]:
        """Return which optional columns there are; other groups take the place of `group`."""
        there = [name for name in hdf5_layout.COLUMNS if name in self.arrays]
        groups = asked or self.origin.get("groups")
        if groups is not None and "group" in there:
            there.remove("group")
            self._reasons["group"] = f"the groups are {groups}"
        return there

    def compare_orders(self, ids: Strings | None) -> None:
        """Say which unused lists hold the ids (n,), or one another's values, in another order."""
        lists = {} if ids is None else {self.origin["ids"]: ids}
        for key in self.arrays:
            if key in self._used or not may_list_rows(key):
                continue
            with suppress(UserError):  # one that cannot be read is left out
                values = self._plain(key)
                if values.shape == (self.n,) and values.dtype.kind in "iuU":
                    self._compare_order(key, values, lists)
                    lists[key] = values.astype(np.str_)

    def _compare_order(self, key: str, values: Array, lists: Mapping[str, Strings]) -> None:
        if values.dtype.kind != "U" and is_permuted(values, np.arange(self.n)):
            self._reasons[key] = "all row numbers, in another order"
            return
        texts = values.astype(np.str_)
        for other, listed in lists.items():
            if is_permuted(texts, listed):
                self._reasons[key] = f"the values of {other}, in another order"
                self.remarks.append(
                    f"{key} has the values of {other} in another order, and features and labels "
                    f"are taken row by row: if {key} belongs to one of the two, sort that first."
                )
                return

    def take_provenance(self, features: Array) -> dict[str, Any]:
        """Return the provenance in the source, or one that says that the backbone is unknown.

        The digest of the features then replaces the backbone, so that two unknown backbones are
        never taken for the same one.
        """
        if "provenance" in self.arrays:
            self._used.add("provenance")
            text = str(self.arrays["provenance"][()])
            return read_provenance(text, f"{self.src}: provenance")
        return unknown_backbone(features, as_text(self.src.stem))

    def left_out(self) -> list[str]:
        """Phrases on the arrays, and rows, that were not used."""
        by_reason: dict[str, list[str]] = {}
        for key in self.arrays:
            if key in self._used:
                continue
            reason = self._reasons.get(key, "")
            if not reason and lists_rows(key) and "split" in self.origin:
                reason = f"the split is from {self.origin['split']}"
            elif not reason and (resembles_part(key) or parse_key(key) is not None):
                reason = "no features or labels of a part, no row numbers"
            by_reason.setdefault(reason, []).append(key)
        phrases = []
        for reason, keys in by_reason.items():
            why = f" ({reason})" if reason else ""
            phrases.append(f"{list_first(keys, LISTED)}{why}")
        return [*self._dropped, *phrases]


def unknown_backbone(features: Array, name: str) -> dict[str, Any]:
    """Return the provenance of features of a source of this name that says nothing of them."""
    blocks = hdf5_layout.block_ranges(len(features))
    sums = (file_digests.block_digest(features[a:b]) for a, b in blocks)
    made = file_digests.sha256_parts([("features", b"".join(sums))])
    return {
        "backbone": {"name": "unknown", "features_sha256": made},
        "preprocessing": {},
        "arithmetic": {"dtype": features.dtype.name},
        "source": {"name": name, "revision": "", "licence": ""},
    }


def is_permuted(values: Array, others: Array) -> bool:
    """Whether (N,) values are (N,) others in another order."""
    if np.array_equal(values, others):
        return False
    return np.array_equal(np.sort(values), np.sort(others))


def _default_ids(n: int, split: Bytes | None) -> Strings:
    """Return the ids `00000`, `00001`, …; with a split, `train/00000`, … within each part."""
    if split is None:
        return np.array([f"{row:05d}" for row in range(n)], dtype=np.str_)
    within = {part: itertools.count() for part in range(len(SPLITS))}
    ids = [f"{SPLITS[part]}/{next(within[part]):05d}" for part in split.tolist()]
    return np.array(ids, dtype=np.str_)
