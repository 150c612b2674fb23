"""The protocol `iirc` beside the authors' package: sessions, counts, class orders.

The fixtures are made by tools/iirc_official.py. They hold for label lists of equal classes.
"""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from iirc_files import LabelFile, label_list
from iirc_official import LISTS, pairs_hash

from embedbench.protocols._hierarchy import hierarchy_text
from embedbench.protocols.iirc import IIRC
from embedbench.streams.stream import EvalSet, Session, Stream
from embedbench.streams.view import rows_of

FIXTURES = json.loads(Path(__file__).with_name("iirc_official.json").read_text(encoding="utf-8"))


@cache
def file_of(name: str) -> LabelFile:
    """The synthetic label list; its labels are the leaves in alphabetical order."""
    parents = json.loads(hierarchy_text(name))["parents"]
    leaves = sorted(set(parents) - set(parents.values()))
    k, train, test = LISTS[name]
    assert len(leaves) == k
    return label_list(leaves, train, test)


@cache
def build(name: str, configuration: int, information: str = "incomplete") -> Stream:
    protocol = IIRC(hierarchy=name, configuration=configuration, information=information)
    return protocol.build([file_of(name)], seed=99)


def official_name(shown: str) -> str:
    """The wnid of "dalmatian (n02110341)"; other names as they are."""
    found = re.fullmatch(r".* \((n\d{8})\)", shown)
    return found[1] if found else shown


def numbers(name: str, stream: Stream) -> np.ndarray:
    """(C,) the stream's classes as the fixtures number them."""
    order = {c: i for i, c in enumerate(sorted(json.loads(hierarchy_text(name))["parents"]))}
    return np.array([order[official_name(c)] for c in stream.classes])


def hashed(rows: np.ndarray, y: np.ndarray, number: np.ndarray) -> str:
    i, c = np.divmod(np.flatnonzero(y), y.shape[1])
    return pairs_hash(rows[i], number[c])


def asked_of(session: Session, test: EvalSet) -> tuple[np.ndarray, np.ndarray]:
    """Samples of a session in an eval set, with their labels among the classes seen so far."""
    mine = np.flatnonzero(test.y[:, session.classes].any(axis=1))
    return test.ids[mine], test.y[mine] & session.loss_classes


def check_sessions(name: str, configuration: int) -> None:
    stream = build(name, configuration)
    number, (test, posttask) = numbers(name, stream), stream.eval_sets
    found: dict[str, list[str]] = {"train": [], "intask": [], "posttask": [], "test": []}
    for session in stream.sessions:
        found["train"].append(hashed(session.ids, session.y, number))
        found["intask"].append(hashed(rows_of(session.val_x), session.val_y, number))
        found["test"].append(hashed(*asked_of(session, test), number))
        found["posttask"].append(hashed(*asked_of(session, posttask), number))
        assert np.array_equal(session.ids, rows_of(session.x))
    assert found == {part: FIXTURES[name][configuration][part] for part in found}


@pytest.mark.parametrize(
    ("name", "configurations"),
    [
        ("iirc-cifar", 10),
        ("incremental-cifar", 10),
        ("incremental-imagenet-full", 5),
        ("incremental-imagenet-lite", 5),
        pytest.param("iirc-imagenet-lite", 5, marks=pytest.mark.thorough),
        pytest.param("iirc-imagenet-full", 5, marks=pytest.mark.long),
    ],
)
def test_sessions(name: str, configurations: int) -> None:
    """Samples and labels of every session, train, validation and test, are the package's."""
    for configuration in range(configurations):
        check_sessions(name, configuration)


@pytest.mark.parametrize("information", ["complete", "cumulative"])
def test_more_information_as_in_the_package(information: str) -> None:
    for configuration in (0, 7):
        stream = build("iirc-cifar", configuration, information)
        number = numbers("iirc-cifar", stream)
        found = [hashed(s.ids, s.y, number) for s in stream.sessions]
        assert found == FIXTURES["iirc-cifar"][configuration][information]


def test_counts_of_cifar() -> None:
    stream = build("iirc-cifar", 0)
    (whole,) = stream.merged().sessions
    assert len(stream.sessions) == 22
    assert stream.spec.n_classes == 115
    assert (stream.parents == -1).sum() == 15 + 23
    assert sum(len(s.x) for s in stream.sessions) == 46_160
    assert sum(len(s.val_x) for s in stream.sessions) == 5_770
    assert (len(whole.x), len(whole.val_x)) == (40_000, 5_000)
    assert [(e.split, len(e.x)) for e in stream.eval_sets] == [("test", 10_000), ("val", 5_000)]
    size = np.sum([session.y.sum(axis=0) for session in stream.sessions], axis=0)
    sizes = {"vehicles": 1280, "small_mammals": 800, "bus": 320, "squirrel": 320, "mushroom": 400}
    assert {name: size[stream.classes.index(name)] for name in sizes} == sizes
