"""Equal contents in two splits or classes: hashes of rows, pairs of rows, and what is said."""

import hashlib

import numpy as np

from embedbench.files.equal_contents import (
    describe_two_classes,
    describe_two_splits,
    pairs_apart,
    row_hashes,
)
from embedbench.files.sample_metadata import Samples


def test_pairs_against_a_naive_search() -> None:
    rng, n = np.random.default_rng(0), 60
    hashes = np.zeros((n, 16), np.uint8)
    hashes[:, rng.integers(16)] = rng.integers(0, 25, n)
    split = rng.integers(0, 3, n).astype(np.uint8)
    rows = [bytes(row) for row in hashes]
    expected = {b for a, b in np.ndindex(n, n) if rows[a] == rows[b] and split[a] < split[b]}
    pairs = pairs_apart(hashes, split)
    assert {b for _, b in pairs} == expected
    for a, b in pairs:
        assert rows[a] == rows[b]
        assert split[a] < split[b]


def test_a_hash_is_of_the_bytes_of_a_row() -> None:
    table = np.arange(6 * 1030, dtype=np.float32).reshape(1030, 6)  # two blocks
    expected = [hashlib.sha256(row.tobytes()).digest()[:16] for row in table]
    assert [bytes(row) for row in row_hashes(table[:, ::1])] == expected
    assert bytes(row_hashes(np.asfortranarray(table))[1029]) == expected[1029]


SAMPLES = Samples(
    np.array(["a", "b", "c", "d", "e"]),
    np.array([0, 0, 0, 0, 1]),
    np.array([0, 2, 2, 2, 2], np.uint8),
    ("cat", "dog"),
    np.array([-1, -1]),
)


def test_pairs_in_two_splits_are_counted_and_three_are_named() -> None:
    said = describe_two_splits([(0, 1), (0, 2), (0, 3), (0, 4)], SAMPLES, "images", "extract")
    assert said == (
        "4 images are in two splits with the same content: a (train) = b (test); a (train) = c "
        "(test); a (train) = d (test); …. Remove one of each pair, or keep both in one split by "
        "--group, and extract again"
    )


def test_three_pairs_are_all() -> None:
    said = describe_two_splits([(0, 1), (0, 2), (0, 3)], SAMPLES, "images", "extract")
    assert "…" not in said


def test_pairs_in_two_classes_are_named_with_both() -> None:
    said = describe_two_classes([(3, 4)], SAMPLES, "texts", "extract")
    assert said == (
        "1 texts are in two classes with the same content: d (cat) = e (dog). No learner can tell "
        "them apart: remove those whose class is wrong, and extract again"
    )


def test_without_pairs_nothing_is_said() -> None:
    assert describe_two_splits([], SAMPLES, "images", "import") == ""
    assert describe_two_classes([], SAMPLES, "images", "import") == ""
