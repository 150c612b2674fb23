"""Classes and samples of IIRC's data sets, counted from the published hierarchies: Tables 1 to 3.

CIFAR-100 has 500 training and 100 test images of every class, so its counts need no images. Those
of IIRC-ImageNet in Table 1, and of its bird in Table 3, need ImageNet's lists and are left open.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Float32s
from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.papers.paper_table import EXACT, PaperTable
from embedbench.protocols._hierarchy import hierarchy_text
from embedbench.protocols.iirc import IIRC
from embedbench.streams.stream import Stream

TRAINED, TESTED = 500, 100  # images of a class of CIFAR-100
Counts = dict[tuple[str, ...], Sequence[int]]  # in the order of the columns, by a row's labels


class LabelList(EmbeddingFile):
    """A file of labels alone; every feature is 0."""

    def read(self, layers: Any = (), embedding: str = FINAL) -> Float32s:
        return np.zeros(self.shape, dtype=np.float32)


def count_table(number: str, facts: Mapping[str, Any]) -> PaperTable:
    """Return printed Table 1, 2 or 3 with our counts beside it; a row without counts has none."""
    table = PaperTable.of_facts(facts, f"counts-{number}")
    counts = {"1": _samples, "2": _classes, "3": _sizes}[number]()
    for row in facts["counts"][number]:
        ours = counts.get(tuple(row["labels"]), ())
        table.add_numbers(row["labels"], ours, row["values"], 0, made=EXACT)
    return table


def _parents(name: str) -> dict[str, str | None]:
    parents: dict[str, str | None] = json.loads(hierarchy_text(name))["parents"]
    return parents


def _classes() -> Counts:
    """Table 2, from the hierarchies alone."""
    rows: Counts = {}
    for label, name in (("IIRC-CIFAR", "iirc-cifar"), ("IIRC-ImageNet-full", "iirc-imagenet-full")):
        parents = _parents(name)
        under = Counter(parents.values())
        alone = sum(above is None and c not in under for c, above in parents.items())
        rows[label,] = (len(under) - 1, len(parents) - under[None], alone, len(parents))
    return rows


def _stream() -> Stream:
    """IIRC-CIFAR's first configuration over labels alone."""
    parents = _parents("iirc-cifar")
    leaves = sorted(set(parents) - set(parents.values()))
    labels = np.tile(np.arange(len(leaves)), TRAINED + TESTED)
    split = np.repeat([TRAIN, TEST], [TRAINED * len(leaves), TESTED * len(leaves)])
    ids = np.arange(len(labels)).astype(np.str_)
    samples = Samples(ids, labels, split, tuple(leaves), np.full(len(leaves), -1))
    digests = {"samples": samples.digest(), "recipe": "", "content": ""}
    kind, dtype, shape = "embedding", np.dtype(np.float32), (len(labels), 1)
    file = LabelList(Path("labels"), samples, {}, digests, kind, shape, dtype, {})
    return IIRC(hierarchy="iirc-cifar", configuration=0).build([file], seed=0)


def _samples() -> Counts:
    """Table 1's row of IIRC-CIFAR."""
    stream = _stream()
    test, later = stream.eval_sets
    (whole,) = stream.merged().sessions
    with_duplicates = [
        sum(map(len, parts))
        for parts in ((s.x for s in stream.sessions), (s.val_x for s in stream.sessions))
    ]
    alone = [len(view) for view in (whole.x, whole.val_x, later.x, test.x)]
    return {("IIRC-CIFAR",): [*with_duplicates, *alone]}


def _sizes() -> Counts:
    """Table 3's rows of IIRC-CIFAR: training samples that a class is taught with."""
    stream, parents = _stream(), _parents("iirc-cifar")
    taught = {
        name: sum(int(s.y[:, c].sum()) for s in stream.sessions if c in s.classes)
        for c, name in enumerate(stream.classes)
    }
    under = Counter(parents.values())
    return {
        ("IIRC-CIFAR", top or "–", name): [
            taught[name],
            *((under[top], taught[top]) if top else ()),
        ]
        for name, top in parents.items()
        if name not in under
    }
