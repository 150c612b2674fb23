"""The parts of a data set by their usual names, and one source made of them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from embedbench.errors import UserError
from embedbench.files.sample_metadata import SPLITS, TEST, TRAIN, VAL

from .source import Content, Source

SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}


def official_split(parts: Mapping[str, int | None]) -> tuple[dict[str, int], str]:
    """Return what each part is in the official split, and what is no matter of course in it.

    No part is returned if there is no official split. Without a test part, the validation part is
    the test part, as ImageNet's is. A test part alone is a split: all samples are in it.

    Parameters
    ----------
    parts : mapping
        TRAIN, VAL, TEST or None by the name that the data set gives the part.

    >>> official_split({"train": TRAIN, "dev": VAL})
    ({'train': 0, 'dev': 2}, 'dev is the test part, as there is no other')
    """
    known = {name: part for name, part in parts.items() if part is not None}
    if not set(known.values()) - {TRAIN}:
        return {}, "no official split; --split decides, by default 0.3 by hash"
    remarks = []
    if TEST not in known.values():
        moved = ", ".join(name for name, part in known.items() if part == VAL)
        remarks.append(f"{moved} is the test part, as there is no other")
        known = {name: TEST if part == VAL else part for name, part in known.items()}
    if TRAIN not in known.values():
        all_are = "all are test" if set(known.values()) == {TEST} else "all are validation or test"
        remarks.append(f"no part for training, {all_are}; --split 0.2 makes another split")
    return known, "; ".join(remarks)


def sorted_classes(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the names among labels that are texts in order, whole numbers by their value.

    >>> sorted_classes(["10", "9", "9"])
    ('9', '10')
    """
    return tuple(sorted(set(labels), key=lambda name: (len(name) if name.isdigit() else 0, name)))


@dataclass(frozen=True)
class Part:
    """One part of a data set, as a library reads it.

    Parameters
    ----------
    name : str
        The name that the data set gives it.
    role : int or None
        TRAIN, VAL or TEST; None: it is none of them.
    labels : sequence of int or None
        (n,) numbers of classes; None or below 0: the sample has no label and is left out.
    classes : collection of str
        (C,) names; where two are the same, the number of the class is added.
    read : callable
        Function from a sample's number in the part to its content.
    columns : mapping
        Values (n,) of `domain`, `group` and `time`, where there are any.
    """

    name: str
    role: int | None
    labels: Sequence[int | None]
    classes: Collection[str]
    read: Callable[[int], Content]
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def unique_classes(self) -> list[str]:
        """Return the names of the classes, each once."""
        times = Counter(self.classes)
        return [f"{n} ({i})" if times[n] > 1 else n for i, n in enumerate(self.classes)]


def join_parts(name: str, parts: Sequence[Part], facts: Iterable[str], **given: Any) -> Source:
    """Return one source of several parts; its remark is a line that says what became of each.

    `facts` are phrases that the line begins with, `given` other fields of the source. A sample is
    named by what its part is, and its number there: `train/00000`.
    """
    rows = [
        np.array(
            [i for i, label in enumerate(part.labels) if label is not None and label >= 0], int
        )
        for part in parts
    ]
    pairs = [(part, row) for part, row in zip(parts, rows, strict=True) if len(row)]
    if not pairs:
        raise UserError(f"{name} has no sample with a label; choose another data set or column.")
    official, remark = official_split({part.name: part.role for part, _ in pairs})
    names = [part.unique_classes() for part, _ in pairs]
    classes = tuple(dict.fromkeys(label for part in names for label in part))
    index = {label: i for i, label in enumerate(classes)}
    labels = [
        index[own[part.labels[i] or 0]]
        for own, (part, row) in zip(names, pairs, strict=True)
        for i in row
    ]
    part_of = np.repeat(np.arange(len(pairs)), [len(row) for _, row in pairs])
    row_of = np.concatenate([row for _, row in pairs])
    roles = [official.get(part.name, TRAIN) for part, _ in pairs]
    counts: Counter[int] = Counter()
    ids = []
    for place in part_of.tolist():
        ids.append(f"{SPLITS[roles[place]]}/{counts[roles[place]]:05d}")
        counts[roles[place]] += 1
    columns: dict[str, Any] = {
        column: np.concatenate([np.array(part.columns[column])[row] for part, row in pairs])
        for column in pairs[0][0].columns
    }
    line = [*facts, f"{len(classes)} classes", *_describe(parts, rows, official, remark)]
    return Source(
        name=name,
        ids=tuple(ids),
        labels=np.array(labels, np.int64),
        classes=classes,
        parents=np.full(len(classes), -1, np.int64),
        read=lambda i: pairs[part_of[i]][0].read(int(row_of[i])),
        split=np.array(roles, np.uint8)[part_of] if official else None,
        remark=f"{name}: {'; '.join(line)}.",
        **columns,
        **given,
    )


def _describe(
    parts: Sequence[Part], rows: Sequence[Any], official: Mapping[str, int], remark: str
) -> list[str]:
    """Return phrases on the size of each part, on what is left out, and on names that changed."""
    sizes = []
    for part, row in zip(parts, rows, strict=True):
        role = SPLITS[official[part.name]] if part.name in official else part.name
        other = f" ({part.name})" if part.name != role else ""
        sizes.append(f"{role}{other} {len(row):,}")
    phrases = [", ".join(sizes)]
    missing = sum(len(part.labels) - len(row) for part, row in zip(parts, rows, strict=True))
    if missing:
        phrases.append(f"left out {missing:,} samples without a label")
    if any(len(set(part.classes)) < len(part.classes) for part in parts):
        phrases.append("classes of the same name got their number")
    return [*phrases, remark] if remark else phrases
