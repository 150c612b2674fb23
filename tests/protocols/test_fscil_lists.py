"""The published few-shot lists: their bytes and counts, and the files they fit."""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from file_helpers import says

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.raw_pixels import FLIPPED
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.protocols.fscil import FSCIL, LISTS, SHOT, _check_classes, read_list
from embedbench.streams.view import rows_of


@cache
def lines(name: str) -> list[list[str]]:
    return read_list(name)


@pytest.mark.parametrize(
    ("name", "classes", "base", "later", "sha256"),  # the digest of all lines
    [
        ("cifar100", 60, 30_000, [25] * 8, "855b0b91d039b6231808d5b6996396c3"),
        ("mini-imagenet", 60, 30_000, [25] * 8, "9fbb1b741dc1efa399df23abd430be1c"),
        ("cub200", 100, 3_000, [50] * 10, "b357013347063690d9a56bcc901c7572"),
    ],
)
def test_published_lists(name: str, classes: int, base: int, later: list[int], sha256: str) -> None:
    every = [line for session in lines(name) for line in session]
    text = "".join(f"{line}\n" for line in every)
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == sha256
    assert [len(session) for session in lines(name)] == [base, *later]
    assert len({line.rpartition("/")[2] for line in every}) == len(every)  # no image twice
    assert LISTS[name] == (classes, later[0] // SHOT)


def cifar_labels() -> np.ndarray:
    """(50000,) labels that fit the lists: 60 classes of 500, and five images of each other class.

    Which base class an image is of cannot be told from the lists; nor can what is not listed.
    """
    labels = np.full(50_000, -1)
    listed = [np.array(session, dtype=np.int64) for session in lines("cifar100")]
    labels[listed[0]] = np.arange(30_000) // 500
    for k, rows in enumerate(listed[1:]):
        labels[rows] = 60 + 5 * k + np.arange(25) // SHOT
    rest = labels < 0
    labels[rest] = 60 + np.arange(rest.sum()) % 40
    return labels


def write(folder: Path, ids: Sequence[str], labels: Any, split: Any, n: int) -> EmbeddingFile:
    samples = Samples(
        ids=np.array(ids),
        labels=labels,
        split=split,
        classes=tuple(f"class {c}" for c in range(n)),
        parents=np.full(n, -1),
    )
    features = np.random.default_rng(0).normal(size=(len(labels), 2)).astype(np.float32)
    return write_file(folder / "file.h5", samples, features, {"backbone": {"name": "made up"}})


def cifar_file(folder: Path, ids: str, order: np.ndarray | None = None) -> EmbeddingFile:
    """CIFAR-100 by its labels: `ids` has a place for a number; rows in `order`, test rows first."""
    own = cifar_labels()
    order = np.arange(50_000) if order is None else order
    labels = np.concatenate([np.arange(200) % 100, own[order]])
    names = [*(f"test/{i:05d}" for i in range(200)), *(ids.format(i) for i in order)]
    split = np.array([TEST] * 200 + [TRAIN] * 50_000, dtype=np.uint8)
    return write(folder, names, labels, split, 100)


@pytest.mark.parametrize("ids", ["train/{:05d}", "picture {}"])
def test_cifar_in_its_order(ids: str, tmp_path: Path) -> None:
    file = cifar_file(tmp_path, ids)
    stream = FSCIL(lists="cifar100").build([file], seed=0)
    expected = [[*range(60)], *([*range(60 + 5 * k, 65 + 5 * k)] for k in range(8))]
    assert [s.classes.tolist() for s in stream.sessions] == expected
    base, *later = stream.sessions
    assert (len(base.x), len(base.val_x)) == (27_000, 3_000)
    for session, listed in zip(later, lines("cifar100")[1:], strict=True):
        assert sorted(rows_of(session.x) - 200) == sorted(map(int, listed))  # behind 200 test rows
        assert len(session.val_x) == 0
    assert all((rows_of(e.x) < 200).all() for e in stream.eval_sets)
    assert sum(len(e.x) for e in stream.eval_sets) == 200
    again = FSCIL(lists="cifar100").build([file], seed=1)
    assert again.digests == stream.digests  # nothing is drawn
    some = FSCIL(lists="cifar100", sessions=2).build([file], seed=0)
    assert [len(s.classes) for s in some.sessions] == [60, 5]


def test_cifar_in_another_order_needs_its_numbers(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(50_000)
    told = cifar_file(tmp_path, "train/{:05d}", order)
    stream = FSCIL(lists="cifar100").build([told], seed=0)
    second = told.sample_ids[rows_of(stream.sessions[1].x)].tolist()
    assert sorted(second) == sorted(f"train/{int(n):05d}" for n in lines("cifar100")[1])
    (tmp_path / "file.h5").unlink()
    hidden = cifar_file(tmp_path, "train/{:09d}", order)  # no number of this data set
    with pytest.raises(UserError, match=r"cifar100: .* session 0 .* 100 new"):
        FSCIL(lists="cifar100").build([hidden], seed=0)
    labels = np.array([*range(60), *np.repeat([*range(60, 65), 60, *range(66, 70)], 5)])
    twice: Any = SimpleNamespace(path=hidden.path, labels=labels)
    with pytest.raises(UserError, match=r"session 2 .* 5 .* 4 new"):
        _check_classes("cifar100", twice, np.split(np.arange(len(labels)), [60, 85]))


def test_cifar_with_flipped_copies_teaches_those_of_the_base_session(tmp_path: Path) -> None:
    """27,000 images and as many copies, and shots without; see `extract --flip`."""
    plain = cifar_file(tmp_path, "train/{:05d}")
    rows = np.repeat(np.arange(50_200), 1 + (plain.split == TRAIN))
    ids = plain.sample_ids[rows].astype("U20")
    ids[np.append(False, rows[1:] == rows[:-1])] += FLIPPED
    plain.path.unlink()
    samples = Samples(ids, plain.labels[rows], plain.split[rows], plain.classes, plain.parents)
    features = np.random.default_rng(0).normal(size=(len(rows), 2)).astype(np.float32)
    made = {"backbone": {"name": "pixels"}, "preprocessing": {"flip": "left to right"}}
    file = write_file(plain.path, samples, features, made)
    stream = FSCIL(lists="cifar100").build([file], seed=0)
    assert [len(s.x) for s in stream.sessions] == [54_000, *[25] * 8]
    shown = file.sample_ids[rows_of(stream.sessions[1].x)].tolist()
    assert sorted(shown) == sorted(f"train/{int(n):05d}" for n in lines("cifar100")[1])


def birds(folder: Path, skip: int = 0) -> EmbeddingFile:
    """CUB-200 by its lists, each class with a test image; `skip` listed images are missing."""
    paths = [line.partition("/images/")[2] for session in lines("cub200") for line in session]
    names = sorted({path.partition("/")[0] for path in paths})
    ids = sorted(f"images/{p}" for p in paths[skip:]) + [f"images/{c}/test.jpg" for c in names]
    labels = np.array([names.index(i.split("/")[-2]) for i in ids])
    split = np.array([TRAIN] * (len(ids) - 200) + [TEST] * 200, dtype=np.uint8)
    return write(folder, ids, labels, split, 200)


def test_cub_by_the_names_of_its_images(tmp_path: Path) -> None:
    file = birds(tmp_path)
    stream = FSCIL(lists="cub200").build([file], seed=0)
    expected = [[*range(100 + 10 * k, 110 + 10 * k)] for k in range(10)]
    assert [s.classes.tolist() for s in stream.sessions[1:]] == expected
    assert len(stream.sessions[0].x) + len(stream.sessions[0].val_x) == 3_000
    for session, listed in zip(stream.sessions[1:], lines("cub200")[1:], strict=True):
        found = {i.rpartition("/")[2] for i in file.sample_ids[rows_of(session.x)].tolist()}
        assert found == {line.rpartition("/")[2] for line in listed}
    for sessions in (1, 12):
        with pytest.raises(UserError, match="2 to 11", check=says(what="sessions", got=sessions)):
            FSCIL(lists="cub200", sessions=sessions).build([file], seed=0)
    assert len(FSCIL(lists="cub200", sessions=11).build([file], seed=0).sessions) == 11
    (tmp_path / "file.h5").unlink()
    split = np.array([TRAIN, TEST], dtype=np.uint8)
    other = write(tmp_path, ["a", "b"], np.array([0, 0]), split, 1)
    with pytest.raises(UserError, match=r"cifar100 .* 30200 .* 30199 .* '32048'"):
        FSCIL(lists="cifar100").build([other], seed=0)


def test_a_listed_image_that_is_tested_or_missing_is_refused(tmp_path: Path) -> None:
    file, line = birds(tmp_path), lines("cub200")[3][7]
    split = file.split.copy()
    split[file.sample_ids.tolist().index(f"images/{line.partition('/images/')[2]}")] = TEST
    file.path.unlink()
    tested = write(tmp_path, file.sample_ids.tolist(), file.labels, split, 200)
    with pytest.raises(UserError, match=f" 1 of .*{line}"):
        FSCIL(lists="cub200").build([tested], seed=0)
    tested.path.unlink()
    missing = birds(tmp_path, skip=2)
    with pytest.raises(UserError, match=f" 2 of .*{lines('cub200')[0][0]}"):
        FSCIL(lists="cub200").build([missing], seed=0)
