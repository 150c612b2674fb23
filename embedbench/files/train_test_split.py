"""Train/test splits for sources without one: a stable hash by group, stratified, or a list."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from embedbench.array_types import Array, Bytes, Ints
from embedbench.errors import UserError, short

from .known_names import read_split
from .sample_metadata import TEST, TRAIN, read_by_sample, read_lines

TEST_FRACTION = 0.3
HEAD = ["sample_id", "split"]  # of a list file, which may have one
SMALL = 50  # samples a class, below which a split by hash alone leaves classes without a side


def make_split(
    choice: str | None,
    ids: Sequence[str],
    groups: Sequence[str] | None = None,
    classes: Ints | None = None,
) -> Bytes:
    """Return the split (N,) for a value of `--split`: TRAIN, VAL or TEST.

    A fraction of the groups is in test, chosen by the rank of the SHA-256 of their names. The
    choice depends on nothing but these, so every team makes the same one; their number is exact:
    the fraction of the groups, rounded half up, and at least one on each side. With `classes`, see
    `stratify_groups` instead.

    Parameters
    ----------
    choice : str or None
        A test fraction such as `0.35`, the path of a list file, or None for 0.3.
    groups : sequence of str or None
        (N,) names; no group is in both train and test. None: every sample is a group.
    classes : array of int or None
        (N,) classes that keep their shares (`--stratify`); None: they may have any.

    >>> make_split("0.3", ["1", "2", "3", "4"], ["ann", "ann", "bob", "cy"])
    array([0, 0, 0, 2], dtype=uint8)
    """
    fraction = parse_fraction(choice)
    if fraction is None:
        if classes is not None:
            raise UserError("--stratify belongs to a test fraction (--split 0.3), not to a list.")
        return read_split_list(Path(str(choice)), ids)
    if not 0 < fraction < 1:
        raise UserError("the test fraction", expected="in (0, 1)", got=fraction)
    names = [str(name) for name in (ids if groups is None else groups)]
    if len(names) != len(ids):
        raise UserError(f"{len(names)} groups for {len(ids)} samples", "give one group per sample")
    ranked = _ranked(names)
    if len(ranked) < 2:
        raise UserError(
            f"all {len(names)} samples are of one {'id' if groups is None else 'group'}, and a "
            "split into train and test needs two",
            "group by another key, or give the splits in a list file (--split FILE)",
        )
    if classes is not None:
        return stratify_groups(names, fraction, classes)
    count = min(max(int(fraction * len(ranked) + 0.5), 1), len(ranked) - 1)
    return _in_test(names, set(ranked[:count]))


def _ranked(names: Iterable[str]) -> list[str]:
    """Different names in the order of their SHA-256."""
    return sorted(set(names), key=lambda name: hashlib.sha256(name.encode()).digest())


def _in_test(names: Sequence[str], test: set[str]) -> Bytes:
    return np.array([TEST if name in test else TRAIN for name in names], dtype=np.uint8)


def parse_fraction(choice: str | None) -> float | None:
    """Return the test fraction that a value of `--split` asks for; None for a list file."""
    try:
        return TEST_FRACTION if choice is None else float(choice)
    except ValueError:
        return None


def small(labels: Ints) -> bool:
    """Whether there are fewer than `SMALL` samples a class, on average; (N,) labels."""
    return len(labels) < SMALL * len(np.unique(labels))


def split_rule(choice: str | None, group: str, *, stratify: bool = False) -> dict[str, Any]:
    """Return the rule of `make_split`, for the provenance.

    >>> split_rule("0.35", "speaker")
    {'rule': 'hash', 'test_fraction': 0.35, 'group': 'speaker'}
    """
    fraction = parse_fraction(choice)
    if fraction is None:
        return {"rule": "list file"}
    rule = {"rule": "hash", "test_fraction": fraction, "group": group}
    return {**rule, "stratified": True} if stratify else rule


def groups(ids: Sequence[str], rule: str, option: str = "--group") -> list[str]:
    """Return the group of each sample, (N,) ids.

    Parameters
    ----------
    rule : str
        `stem`: the path up to the first dot of the file name, so that `art_1f3a8.noto.png` and
        `art_1f3a8.twemoji.png` of one folder belong together; `parent`: the folder; or a
        regular expression, whose first group (else the whole match) names the group.
    option : str
        The option that gave the rule, for messages.

    >>> groups(["a/x.noto.png", "a/x.twemoji.png", "b/x.png"], "stem")
    ['a/x', 'a/x', 'b/x']
    >>> groups(["v1_f1.jpg", "v1_f2.jpg"], "(v[0-9]+)_")
    ['v1', 'v1']
    """
    paths = [PurePosixPath(name) for name in ids]
    if rule == "stem":
        return [(path.parent / path.name.partition(".")[0]).as_posix() for path in paths]
    if rule == "parent":
        return [path.parent.as_posix() for path in paths]
    try:
        pattern = re.compile(rule)
    except re.error as error:
        raise UserError(
            f"{option} {rule!r} is no regular expression ({error}), nor 'stem' or 'parent'."
        ) from error
    out = []
    for name in ids:
        if (match := pattern.search(name)) is None:
            raise UserError(f"{option} {rule!r} matches nothing in sample {name!r}", "widen it")
        out.append((match.group(1) if pattern.groups else match.group(0)) or "")
        if not out[-1]:
            raise UserError(f"{option} {rule!r} takes no text out of sample {name!r}", "correct it")
    return out


def read_split_list(path: Path, ids: Sequence[str]) -> Bytes:
    """Read a split from a CSV or TSV file with one line `sample_id,train|val|test` per sample.

    A first line `sample_id,split` is skipped. Every sample must be listed exactly once. Parts may
    be spelled as `known_names.split_roles` reads them.
    """
    if not path.is_file():
        raise UserError(
            f"--split {path} is neither a fraction such as 0.3 nor a list file that exists",
            "give one of the two",
        )
    lines = list(read_lines(path))
    if lines and [field.strip().casefold() for field in lines[0][1]] == HEAD:
        lines = lines[1:]
    names = [split.strip() for (split,) in read_by_sample(path, ids, lines, HEAD)]
    return read_split(np.array(names, np.str_), str(path))


def describe_straddling(
    groups: Array | None, split: Bytes, rule: Mapping[str, Any] | None = None
) -> str:
    """Return in words how many groups (N,) are on both sides of a split; empty if none is.

    `rule` says how the split was made, see `split_rule`.

    >>> describe_straddling(np.array(["a", "a", "b"]), np.array([0, 2, 0], np.uint8))
    "1 of 2 groups ('a') are in test and in another part too. --split 0.3 makes a split that keeps \
them whole."
    """
    if groups is None:
        return ""
    in_test = np.unique(groups[split == TEST])
    both = np.intersect1d(in_test, groups[split != TEST])
    if not len(both):
        return ""
    return (
        f"{len(both):,} of {len(np.unique(groups)):,} groups ({short(str(both[0]))}) are in test "
        f"and in another part too. {_whole_groups(rule or {})}"
    )


def _whole_groups(rule: Mapping[str, Any]) -> str:
    """Return what makes a split that keeps groups whole."""
    if rule.get("rule") == "hash":
        return f"The split keeps groups by {rule.get('group')} whole, as --group asks, not these."
    return "--split 0.3 makes a split that keeps them whole."


# --- splits in which every class keeps its share ---


ROUNDS = 20  # most passes over the groups
LEAST = 1e-9  # gains below it are rounding


def stratify_groups(
    groups: Sequence[str], test_fraction: float, labels: Ints, *, teach_all: bool = False
) -> Bytes:
    """Put whole groups into test so that each class has its share of samples there.

    A class of n samples wants `test_fraction` · n of them in test, rounded half up, and at least
    one on each side if it has two. Groups are gone through in the order of the SHA-256 of their
    names, again and again; each changes sides if that lessens the sum of `_cost` over classes,
    until none does. Where every sample is a group, the wanted numbers are exact.

    With `teach_all` no group goes to test that has all samples of a class which are not there yet:
    every class keeps a training sample, also where others would gain more than it loses.

    >>> stratify_groups(["ann", "ann", "bob", "cy"], 0.3, np.array([0, 1, 0, 1])).tolist()
    [0, 0, 2, 2]
    """
    held: dict[str, Counter[int]] = defaultdict(Counter)  # samples of each class in each group
    for group, label in zip(groups, labels.tolist(), strict=True):
        held[group][label] += 1
    total, have = Counter(labels.tolist()), Counter[int]()  # samples of each class; of them in test
    test: set[str] = set()
    ranked = _ranked(held)
    for _ in range(ROUNDS):
        before = set(test)
        for name in ranked:
            sign = -1 if name in test else 1
            if teach_all and sign == 1 and _takes_the_last(held[name], have, total):
                continue
            gain = sum(
                _cost(have[c], total[c], test_fraction)
                - _cost(have[c] + sign * n, total[c], test_fraction)
                for c, n in sorted(held[name].items())
            )
            if gain > LEAST:
                test ^= {name}
                for c, n in held[name].items():
                    have[c] += sign * n
        if before == test:
            break
    return _in_test(groups, test)


def _takes_the_last(group: Counter[int], have: Counter[int], total: Counter[int]) -> bool:
    """Whether a group has all samples of a class that are not in test yet."""
    return any(have[c] + n == total[c] for c, n in group.items())


def _cost(have: int, n: int, fraction: float) -> float:
    """((in test - wanted) / n)² of a class of n samples, plus 1 if all are on one side."""
    wanted = min(max(int(fraction * n + 0.5), 1), n - 1)
    return float((have - wanted) / n) ** 2 + (have in (0, n))


def describe_lopsided(
    split: Bytes, labels: Ints, classes: Sequence[str], rule: Mapping[str, Any]
) -> str:
    """Return in words which classes lack training or test samples; empty if none does.

    Classes without a sample do not count. `rule` says how the split was made, see `split_rule`.
    """
    there = np.bincount(labels, minlength=len(classes)) > 0
    parts = []
    for name, number in (("training", TRAIN), ("test", TEST)):
        lack = there & (np.bincount(labels[split == number], minlength=len(classes)) == 0)
        if lack.any():
            first = classes[int(lack.argmax())]
            parts.append(f"{lack.sum()} of {there.sum()} classes lack {name} samples ({first!r})")
    if not parts:
        return ""
    text = f"the split is lopsided: {'; '.join(parts)}."
    if rule.get("rule") == "hash" and "stratified" not in rule:
        text += (
            " --stratify keeps the shares of classes; a file that is there is split again by "
            "`embedbench export`, then `import` with --split, --group and --stratify."
        )
    return text
