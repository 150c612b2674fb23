"""What names in other people's data mean: the one place that reads names of parts.

Nothing is guessed elsewhere; what was taken is printed, see `describe_taken`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Bytes, Strings
from embedbench.errors import UserError, list_first, short

from .sample_metadata import SPLITS, TEST, TRAIN, VAL, Samples

PART_WORDS = {
    "train": TRAIN,
    "training": TRAIN,
    "val": VAL,
    "valid": VAL,
    "validation": VAL,
    "dev": VAL,
    "test": TEST,
    "testing": TEST,
}
# Words (and `trainval`) whose meaning depends on the other parts, see `split_roles`.
HELD_WORDS = ("eval", "evaluation", "holdout", "heldout", "held_out", "hold_out")
KEYS = {  # of arrays and columns, the first ones first
    "features": (
        *("features", "X", "x", "embeddings", "embedding", "fts", "fea", "feas", "feat", "feats"),
        *("feature", "embeds", "embed", "emb", "vectors", "vector", "data", "Xs", "Xt", "arr_0"),
    ),
    "labels": (
        *("labels", "y", "targets", "label", "target", "gnd", "class", "category", "lbls"),
        *("Ys", "Yt", "arr_1"),
    ),
    "classes": ("classes", "class_names", "names", "target_names"),
    "ids": ("sample_ids", "ids", "sample_id", "id"),
    "groups": ("groups", "group"),
    "split": ("split",),
}
FILE_NAMES = (  # keys that are ids where there are no others
    *("filenames", "file_names", "filename", "file_name", "files", "file"),
    *("paths", "path", "image_paths", "image_path", "names", "image_files", "image_file"),
    *("filepath", "filepaths", "file_path", "file_paths", "img_path", "img_paths"),
)
MAYBE_SPLIT = (  # keys that are the split if their values say so
    *("splits", "subset", "partition", "part", "set", "usage", "phase", "data_split"),
    *("split_idx", "split_index", "split_id", "split_ids", "train_test_split"),
)
_LISTS = {  # words in the names of lists with one entry a row
    *("id", "ids", "uid", "uids", "key", "keys", "name", "names", "file", "files", "filename"),
    *("filenames", "path", "paths", "row", "rows", "idx", "index", "indices", "order", "perm"),
    *("permutation", "shuffle"),
}
NO_VALUE = ("nan", "none", "null", "na", "n/a", "#n/a", "<na>", "nat", "-")  # in small letters
LISTED = 10  # most names that a sentence lists
_SHARD = re.compile(r"([-_.]\d+([-_.]of[-_.]\d+)?|[-_.]?(19|20)\d\d)$")  # test-00000-of-00001
_OF = re.compile(r"(.*?)(\d{1,9})([-_.]of[-_.])(\d{1,9})(?!\d)(.*)")  # a shard of so many
_SET = re.compile(r"[-_. ]?(set|split|data|dataset|images|imgs)$")  # "Training Set", test_data
_GAPS = re.compile(r"[-_.\s]+")
_SPACES = re.compile(r"[-_\s]+")  # a dot may be that of a number


def _plain_word(name: str) -> str:
    """A name in small letters, without a shard's number, a year, and words such as `set`."""
    word = _SHARD.sub("", unicodedata.normalize("NFKC", name).strip().casefold())
    return _GAPS.sub("_", _SET.sub("", word))


def split_role(name: str) -> int | None:
    """Return TRAIN, VAL or TEST for the name of a part of a data set; None for any other name.

    Letters may be capitals; the number of a shard, a year and `set`, `split`, `data` or `images`
    may follow. `eval`, `holdout` and `trainval` mean one thing or another: see `split_roles`.

    >>> split_role("Training"), split_role("Test-00000-of-00001"), split_role("cats")
    (0, 2, None)
    >>> split_role("val2017"), split_role("Test Set"), split_role("eval"), split_role("contest")
    (1, 2, None, None)
    """
    return PART_WORDS.get(_plain_word(name))


def split_roles(names: Iterable[str]) -> dict[str, int | None]:
    """Return TRAIN, VAL, TEST or None for each name, read beside the others.

    `eval` and `evaluation` are TEST, or VAL where another part is TEST; `holdout` is TEST where no
    other part is; `trainval` is TRAIN where no part is TRAIN or VAL.

    >>> split_roles(["Train", "eval"]), split_roles(["train", "eval", "test"])
    ({'Train': 0, 'eval': 2}, {'train': 0, 'eval': 1, 'test': 2})
    >>> split_roles(["trainval", "test"]), split_roles(["train", "trainval", "val", "test"])
    ({'trainval': 0, 'test': 2}, {'train': 0, 'trainval': None, 'val': 1, 'test': 2})
    """
    roles = {name: split_role(name) for name in names}
    words = {name: _plain_word(name) for name in roles}
    sure = {role for role in roles.values() if role is not None}
    if not sure & {TRAIN, VAL}:
        whole = [name for name, word in words.items() if word == "trainval"]
        roles |= dict.fromkeys(whole, TRAIN)
        sure |= {TRAIN} if whole else set()
    held = [name for name, word in words.items() if word in HELD_WORDS]
    if not sure or len(held) != 1:
        return roles
    if TEST not in sure:
        roles[held[0]] = TEST
    elif VAL not in sure and words[held[0]].startswith("eval"):
        roles[held[0]] = VAL
    return roles


def resembles_part(name: str) -> bool:
    """Whether a name that `split_role` does not read has a part's word in it: say so, never guess.

    >>> resembles_part("seg_train"), resembles_part("PublicTest"), resembles_part("contest")
    (True, True, False)
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)", "_", name.strip())
    words = set(_GAPS.sub("_", apart).casefold().split("_"))
    known = {*PART_WORDS, *HELD_WORDS, "trainval"}
    return split_role(name) is None and bool(words & known or _plain_word(name) in known)


def read_split(values: Array, where: str) -> Bytes:
    """Return TRAIN, VAL or TEST for each value (n,) of a column that says it.

    Values are texts, see `split_roles`, or the numbers 0, 1 and 2. `where` names the column.

    Raises
    ------
    UserError
        A value is none of these; all such values are named.
    """
    numbers = "0 (train), 1 (val) or 2 (test)"
    kind = values.dtype.kind
    if kind not in "iuU" or values.ndim != 1:
        raise UserError(where, expected=f"{numbers}, or their names", got=f"{values.dtype}")
    unique, places = np.unique(values, return_inverse=True)
    different: list[Any] = unique.tolist()
    if kind == "U":
        roles = split_roles(different)
    else:
        roles = {value: value if value in (TRAIN, VAL, TEST) else None for value in different}
    strange = [value for value, role in roles.items() if role is None]
    if strange:
        listed = list_first([short(value) for value in strange], LISTED)
        raise UserError(
            f"{where} holds {listed}; expected {numbers}, or their names",
            "name every part train, val or test, or rename what is no split",
        )
    parts = np.array([roles[value] for value in different], np.uint8)
    return parts[places]


# --- keys of arrays, columns of tables ---


def find_keys(usual: Iterable[str], arrays: Iterable[str]) -> list[str]:
    """Return the keys that have one of the usual names, in their order.

    Keys that are written otherwise (`Labels`, `Sample ID`) follow those that are written so.

    >>> find_keys(("features", "X"), ["Features", "Y", "X"])
    ['X', 'Features']
    """
    keys = list(arrays)
    exact = [name for name in usual if name in keys]
    plain = {name.casefold() for name in usual}
    others = [key for key in keys if _GAPS.sub("_", key.strip().casefold()) in plain]
    return [*exact, *(key for key in others if key not in exact)]


def without_common_words(names: Sequence[str]) -> list[str]:
    """Return names without the words that begin, or end, all of them.

    They stay as they are if a name would be empty or become that of another, or where one says
    what an array is: `X_train` and `X_test`.

    >>> without_common_words(["clip_train_labels", "clip_test_labels", "clip_train_features"])
    ['train_labels', 'test_labels', 'train_features']
    >>> without_common_words(["office_amazon_surf", "office_dslr_surf"])
    ['amazon', 'dslr']
    """
    if len(names) < 2:
        return list(names)
    words = [re.split(r"([-_. ]+)", name) for name in names]  # words and what is between them
    known = {*KEYS["features"], *KEYS["labels"]}
    shortest = min(map(len, words)) - 1
    first = 0
    while first < shortest and len({several[first] for several in words}) == 1:
        if words[0][first] in known:
            return list(names)
        first += 2
    last = 0
    while last < shortest - first and len({several[-1 - last] for several in words}) == 1:
        last += 2
    short_names = ["".join(several[first : len(several) - last]) for several in words]
    return short_names if len(set(short_names)) == len(names) else list(names)


def may_list_rows(key: str) -> bool:
    """Whether an array may name the samples, or number them, by its key.

    >>> may_list_rows("labelIds"), may_list_rows("file_names"), may_list_rows("candidates")
    (True, True, False)
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key)
    return bool(_LISTS & {*re.split(r"[-_./\s]+", apart.casefold())})


def files_not_read(folder: Path, read: Iterable[Path]) -> list[str]:
    """Return a phrase on the files of a folder that were not read; none if there are none."""
    rest = sorted({file.name for file in folder.iterdir()} - {file.name for file in read})
    rest = [name for name in rest if not name.startswith(".")]
    if not rest:
        return []
    return [f"{list_first(rest, LISTED)} (not read)"]


def missing_shards(names: Iterable[str]) -> list[str]:
    """Return phrases on files that the names of others count, and that are not there.

    >>> missing_shards(["train-00000-of-00003.parquet", "train-00002-of-00003.parquet", "7.csv"])
    ['train-00001-of-00003.parquet (not there)']
    >>> missing_shards(["a_1_of_2-x.csv", "a_2_of_2-y.csv", "photo-00000-of-00001.parquet"])
    []
    """
    there: dict[tuple[str, str, str], dict[int, tuple[str, str]]] = {}
    for name in names:
        if match := _OF.fullmatch(name):
            before, number, of, total, after = match.groups()
            there.setdefault((before, of, total), {})[int(number)] = (number, after)
    phrases = []
    for (before, of, total), shards in there.items():
        first = 1 if int(total) in shards else 0  # they are counted from 0, or from 1
        count = int(total) - len(shards)
        if count <= 0:
            continue
        lost = next(n for n in range(first, int(total) + first) if n not in shards)
        number, after = next(iter(shards.values()))
        more = f" and {count - 1:,} more of {int(total):,}" if count > 1 else ""
        phrases.append(f"{before}{lost:0{len(number)}d}{of}{total}{after}{more} (not there)")
    return phrases


# --- one name in several spellings ---


def one_spelling(names: Iterable[str]) -> dict[str, str]:
    r"""Return for each name the one that stands for all names that look like it.

    Names look alike if only their Unicode form or white space around them differs. A name that
    looks like no other stays as it is; several become one, in the form NFC without the space.

    >>> one_spelling(["tea ", "caf\xe9", "cafe\u0301"]) == {
    ...     "tea ": "tea ", "caf\xe9": "caf\xe9", "cafe\u0301": "caf\xe9"}
    True
    """
    different = list(dict.fromkeys(names))
    looks = {name: unicodedata.normalize("NFC", name).strip() for name in different}
    times = Counter(looks.values())
    return {name: look if times[look] > 1 else name for name, look in looks.items()}


def merge_texts(values: Strings, what: str) -> tuple[Strings, str]:
    """Return texts (n,) in which those that look alike are one, and what to say of it."""
    spelling = one_spelling(values.tolist())
    if all(name == one for name, one in spelling.items()):
        return values, ""
    merged = np.array([spelling[name] for name in values.tolist()], np.str_)
    return merged, describe_spelling(spelling, what)


def describe_spelling(names: Iterable[str], what: str) -> str:
    """Return in words which names `one_spelling` makes one, and which others are easily mistaken.

    These differ in case, gaps, width or as numbers are written, or are what other programs write
    for a missing value. `what` says what is named: `class`. The text is empty if there are none.

    >>> describe_spelling(["Cat", "cat", "1", "001", "NA", "dog"], "class")
    "class 'NA' is a name here, and no missing value; class '001' and '1', 'Cat' and 'cat' look \
alike and are kept apart"
    """
    spelling = one_spelling(names)
    merged: dict[str, list[str]] = {}
    for name, one in spelling.items():
        merged.setdefault(one, []).append(name)
    alike: dict[str, list[str]] = {}
    for one in merged:
        alike.setdefault(_likeness(one), []).append(one)
    phrases = [
        f"{what} {short(name)} is a name here, and no missing value"
        for name in merged
        if means_nothing(name)
    ]
    for groups, quoted, became in ((merged, ascii, "are one"), (alike, repr, "are kept apart")):
        several = [" and ".join(map(quoted, sorted(g))) for g in groups.values() if len(g) > 1]
        if several:
            listed = list_first(sorted(several), LISTED)
            phrases.append(f"{what} {listed} look alike and {became}")
    return "; ".join(phrases)


def means_nothing(text: str) -> bool:
    """Whether other programs write a missing value so; here a class may be called that.

    >>> means_nothing("N/A"), means_nothing("nation")
    (True, False)
    """
    return text.strip().casefold() in NO_VALUE


def _likeness(name: str) -> str:
    """Return a name without its case, gaps and width; of a number, its value."""
    plain = _SPACES.sub(" ", unicodedata.normalize("NFKC", name)).strip().casefold()
    whole = re.fullmatch(r"(\d+)(?:\.0*)?", plain)
    return str(int(whole[1])) if whole and len(plain) < 100 else plain


# --- what was taken ---


def describe_taken(
    samples: Samples,
    rule: Mapping[str, Any],
    *,
    holds: str = "samples",
    groups: int | None = None,
    columns: Sequence[str] = (),
    left_out: Sequence[str] = (),
    origin: Mapping[str, str] | None = None,
) -> str:
    """Return the line that says what was taken of a source: what `import` and `extract` print.

    Parameters
    ----------
    rule : mapping
        How the split was made, as in the provenance (see `train_test_split.split_rule`).
    holds : str
        What a sample is: `samples`, `images`, `sounds`, `texts`.
    groups : int or None
        The number of groups; None: there are none.
    columns : sequence of str
        The optional columns that were taken.
    left_out : sequence of str
        Phrases on what was left out, each with its reason.
    origin : mapping or None
        The key or column that each thing was read from; None: a matter of course.
    """
    sizes = [(name, int((samples.split == part).sum())) for part, name in enumerate(SPLITS)]
    parts = ", ".join(f"{n:,} {name}" for name, n in sizes if n)
    unused = samples.n_leaves - len(np.unique(samples.labels))
    without = f" ({unused:,} of them without a sample)" if unused else ""
    pieces = [
        f"took {len(samples.ids):,} {holds} of {samples.n_leaves:,} classes{without}",
        f"split ({_rule_text(rule)}): {parts}",
        f"{groups:,} groups" if groups is not None else "no groups",
    ]
    if others := [name for name in columns if name != "group"]:
        pieces.append(f"columns {', '.join(others)}")
    if origin:
        pieces.append(", ".join(f"{what} from {key}" for what, key in origin.items()))
    pieces.extend(f"left out {phrase}" for phrase in left_out)
    return "; ".join(pieces) + "."


_HASHED = {"stem": "stem (names up to the first dot)", "parent": "parent (folders)"}


def _rule_text(rule: Mapping[str, Any]) -> str:
    """How a split was made, in words; a rule of somebody else's provenance may lack anything."""
    by = str(rule.get("rule", "official"))
    if by != "hash":
        return by
    stratified = ", stratified" if rule.get("stratified") else ""
    named = str(rule.get("group"))
    return f"{rule.get('test_fraction')} in test by hash of {_HASHED.get(named, named)}{stratified}"
