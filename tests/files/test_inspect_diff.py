"""inspect, verify and diff: figures against naive loops."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from file_helpers import PROVENANCE, flip, foreign_write, make_features, make_samples, span

from embedbench.errors import UserError
from embedbench.files.diff import Diff, diff, diff_text
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.inspect import Card, PerClass, card, card_text
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file


def write(path: Path, samples: Samples, features: Any, **provenance: Any) -> Path:
    """Write a file with some provenance replaced."""
    made = {**PROVENANCE, **{k: {**PROVENANCE[k], **v} for k, v in provenance.items()}}
    write_file(path, samples, features, made)
    return path


def test_card_counts(tmp_path: Path) -> None:
    samples = Samples(
        ids=np.array(list("abcdefg")),
        labels=np.array([0, 0, 0, 1, 1, 2, 0]),
        split=np.array([0, 0, 0, 0, 0, 2, 2]),
        classes=("x", "y", "z", "top"),
        parents=np.array([3, 3, -1, -1]),
    )
    features = np.zeros((7, 2), np.float32)
    features[:, 0] = [3, 0, 0, 0, 0, 0, -4]
    features[0, 1] = 4
    result = card(EmbeddingFile.open(write(tmp_path / "a.h5", samples, features)))
    assert result.samples == {"train": 5, "val": 0, "test": 2}
    assert result.classes.to_json() == {"leaves": 3, "inner": 1}
    assert result.per_class == {
        "train": PerClass(min=0, median=2.0, max=3, empty=1),
        "test": PerClass(min=0, median=1.0, max=1, empty=1),
    }
    assert result.class_counts["x"] == {"train": 3, "val": 0, "test": 1}
    assert list(result.class_counts) == ["x", "y", "z"]
    norms = result.norms
    assert (norms.min, norms.max, norms.rows) == (0, 5, 7)
    assert norms.mean == pytest.approx(9 / 7)
    assert result.bytes == (tmp_path / "a.h5").stat().st_size
    assert Card.from_json(json.loads(json.dumps(result.to_json()))) == result
    text = card_text(result)
    for part in (
        "5 train, 2 test",
        "3 leaves, 1 inner",
        "1 classes have none",
        "resnet50",
        "ab" * 32,
    ):
        assert part in text


def test_card_of_many_rows_reads_a_sample_from_first_to_last(tmp_path: Path) -> None:
    features = np.ones((5000, 1), np.float32)
    features[0], features[-1] = 2, 0.5
    result = card(EmbeddingFile.open(write(tmp_path / "a.h5", make_samples(5000), features)))
    assert result.norms.rows == 1024
    assert (result.norms.min, result.norms.max) == (0.5, 2)
    assert "1024 rows in 4 runs" in card_text(result)


def test_verify_names_runs_of_damaged_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", make_samples(5000), make_features(5000))
    assert verify(path) == []
    start, size = span(path, "features")
    for row in (1100, 2100, 4999):
        flip(path, start + row * size)
    assert verify(path) == [
        "rows 1024 to 3071 of features do not match their checksums.",
        "rows 4096 to 4999 of features do not match their checksums.",
    ]
    start, size = span(path, "labels")
    flip(path, start + 3000 * size)
    result = verify(path)
    assert "rows 2048-3071 of labels" in result[0]
    assert result[-1] == "rows 2048 to 3071 of labels do not match their checksums."
    assert len(result) == 4


def test_verify_names_damaged_metadata_and_structure(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", make_samples(50), make_features(50))
    whole = path.read_bytes()
    flip(path, span(path, "provenance")[0] + 3)
    assert len(verify(path)) == 1
    assert "metadata" in verify(path)[0]
    path.write_bytes(whole[:-100])
    assert "damaged or incomplete" in verify(path)[0]
    path.write_bytes(whole)
    with h5py.File(path, "r+") as file:
        del file["checksums/features"]
    assert verify(path)
    with pytest.raises(UserError, match="there is no file"):
        verify(tmp_path / "none.h5")


def test_verify_finds_nan_of_other_writers(tmp_path: Path) -> None:
    features = make_features(1500)
    features[[7, 1400], 2] = np.nan
    foreign_write(tmp_path / "a.h5", make_samples(1500), features)
    assert verify(tmp_path / "a.h5") == [
        "row 7 of features holds NaN or infinite values.",
        "row 1400 of features holds NaN or infinite values.",
    ]


def naive_probe(samples: Samples, x: np.ndarray[Any, Any]) -> float:
    """Return test accuracy of the nearest class mean, by loops."""
    x = x.astype(np.float64)
    means = {}
    for label in set(samples.labels[samples.split == TRAIN].tolist()):
        pairs = zip(samples.split, samples.labels, strict=True)
        own = [row for row, (s, c) in enumerate(pairs) if s == TRAIN and c == label]
        means[label] = sum(x[row] for row in own) / len(own)
    right = [
        min(means, key=lambda c: float(((x[r] - means[c]) ** 2).sum())) == samples.labels[r]
        for r in range(len(x))
        if samples.split[r] == TEST
    ]
    return sum(right) / len(right)


def naive_nearest(x: np.ndarray[Any, Any], row: int) -> int:
    """Return the row with the highest cosine to another, by loops."""
    x = x.astype(np.float64)
    cosines = [
        -2.0 if r == row else float(x[r] @ x[row] / np.linalg.norm(x[r]) / np.linalg.norm(x[row]))
        for r in range(len(x))
    ]
    return int(np.argmax(cosines))


@pytest.mark.parametrize("seed", range(3))
def test_diff_figures_equal_naive_loops(tmp_path: Path, seed: int) -> None:
    """Two files that share 200 of 250 and 230 samples, b in another order."""
    rng = np.random.default_rng(seed + 100)
    samples = make_samples(280, seed)
    x = make_features(280, 6, seed)
    y = x + rng.normal(0, 0.3, x.shape).astype(np.float32)
    rows_a, rows_b = np.arange(250), rng.permutation(np.arange(50, 280))

    def part(rows: np.ndarray[Any, Any]) -> Samples:
        return replace(
            samples, ids=samples.ids[rows], labels=samples.labels[rows], split=samples.split[rows]
        )

    a = write(tmp_path / "a.h5", part(rows_a), x[rows_a])
    b = write(tmp_path / "b.h5", part(rows_b), y[rows_b], arithmetic={"dtype": "bfloat16"})
    result = diff(a, b)
    shared = np.arange(50, 250)
    assert result.samples == {
        "shared": 200, "only_a": 50, "only_b": 30, "class_differs": 0, "split_differs": 0,
        "same_order": False, "same_classes": True,
    }  # fmt: skip
    cosines = np.array([x[r] @ y[r] / np.linalg.norm(x[r]) / np.linalg.norm(y[r]) for r in shared])
    for key, value in (
        ("min", cosines.min()),
        ("mean", cosines.mean()),
        ("median", np.median(cosines)),
        ("p5", np.percentile(cosines, 5)),
    ):
        assert result.cosine[key] == pytest.approx(value, abs=1e-6)
    assert result.cosine["lowest"] == samples.ids[shared[cosines.argmin()]]
    changed = sum(naive_nearest(x[shared], r) != naive_nearest(y[shared], r) for r in range(200))
    assert result.neighbours == {"queries": 200, "among": 200, "changed": changed}
    assert 0 < changed < 200
    assert result.scores["a"] == pytest.approx(naive_probe(part(rows_a), x[rows_a]))
    assert result.scores["b"] == pytest.approx(naive_probe(part(rows_b), y[rows_b]))
    assert result.scores["moved"] == result.scores["b"] - result.scores["a"]
    text = " ".join(result.reasons)
    for phrase in (
        "50 samples are only in a",
        "another order",
        "dtype is 'float32' in a and 'bfloat16'",
    ):
        assert phrase in text
    assert Diff.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert "nearest neighbours changed" in diff_text(result)


def test_diff_of_equal_files(tmp_path: Path) -> None:
    a = write(tmp_path / "a.h5", make_samples(1500), make_features(1500))
    b = write(tmp_path / "b.h5", make_samples(1500), make_features(1500), source={"name": "q"})
    result = diff(a, b)
    assert result.digests == {"samples": True, "recipe": True, "content": True}
    assert result.reasons == ()
    assert result.cosine["min"] == pytest.approx(1, abs=1e-12)
    assert result.neighbours == {"queries": 500, "among": 1500, "changed": 0}
    assert result.scores["moved"] == 0


def test_diff_says_which_machine_changed_the_bits(tmp_path: Path) -> None:
    a = write(tmp_path / "a.h5", make_samples(100), make_features(100))
    features = make_features(100) * np.float32(1 + 1e-6)
    b = write(
        tmp_path / "b.h5", make_samples(100), features,
        arithmetic={"device_kind": "cuda"}, backbone={"library_version": "1.1"},
    )  # fmt: skip
    result = diff(a, b)
    assert result.digests == {"samples": True, "recipe": True, "content": False}
    (why,) = result.reasons
    assert "arithmetic.device_kind: cpu in a, cuda in b" in why
    assert "library version: 1.0 in a, 1.1 in b" in why


def test_diff_of_other_widths_labels_and_no_test(tmp_path: Path) -> None:
    samples = make_samples(100)
    a = write(tmp_path / "a.h5", samples, make_features(100, 5))
    other = replace(samples, labels=(samples.labels + 1) % 3, split=np.zeros(100, np.uint8))
    b = write(tmp_path / "b.h5", other, make_features(100, 7))
    result = diff(a, b)
    assert result.cosine is None
    assert result.neighbours["queries"] == 100
    assert result.scores["b"] is None
    assert result.scores["moved"] is None
    assert result.samples["class_differs"] == 100
    assert result.samples["split_differs"] == int((samples.split != 0).sum())
    assert "not defined" in diff_text(result)


def test_diff_finds_rows_in_another_order(tmp_path: Path) -> None:
    samples, features = make_samples(100), make_features(100)
    order = np.random.default_rng(1).permutation(100)
    moved = replace(
        samples, ids=samples.ids[order], labels=samples.labels[order], split=samples.split[order]
    )
    result = diff(
        write(tmp_path / "a.h5", samples, features),
        write(tmp_path / "b.h5", moved, features[order]),
    )
    assert result.cosine["min"] == pytest.approx(1, abs=1e-12)
    assert result.neighbours["changed"] == 0
    assert result.reasons == ("samples: the shared samples are in another order.",)


def test_diff_of_nothing_shared(tmp_path: Path) -> None:
    samples = make_samples(20)
    a = write(tmp_path / "a.h5", samples, make_features(20))
    b = write(
        tmp_path / "b.h5", replace(samples, ids=np.char.add(samples.ids, "x")), make_features(20)
    )
    result = diff(a, b)
    assert result.samples["shared"] == 0
    assert result.cosine is None
    assert result.neighbours is None
    diff_text(result)


def test_zero_rows_have_cosine_one_with_zero_and_none_with_others(tmp_path: Path) -> None:
    x, y = make_features(3), make_features(3)
    x[:2] = 0
    y[0] = 0
    result = diff(
        write(tmp_path / "a.h5", make_samples(3), x), write(tmp_path / "b.h5", make_samples(3), y)
    )
    assert result.cosine["mean"] == pytest.approx(2 / 3)
    assert result.cosine["lowest"] == "größe/00001.png"


def test_diff_refuses_damage(tmp_path: Path) -> None:
    a = write(tmp_path / "a.h5", make_samples(2000), make_features(2000))
    b = write(tmp_path / "b.h5", make_samples(2000), make_features(2000))
    start, size = span(b, "features")
    flip(b, start + 1999 * size)
    with pytest.raises(UserError, match="rows 1024-1999 of features"):
        diff(a, b)
