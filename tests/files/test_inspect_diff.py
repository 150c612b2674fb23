"""inspect, verify and diff: figures against naive loops."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import (
    PROVENANCE,
    damage,
    foreign_write,
    make_features,
    make_samples,
    refusal,
    says,
    written,
)

from embedbench.errors import UserError
from embedbench.files.diff import Diff, diff, diff_text, neighbour_changes
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.inspect import Card, card, card_text, provenance_lines
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file


def write(path: Path, samples: Samples, features: Any, **provenance: Any) -> Path:
    """Write a file with some provenance replaced."""
    made = {**PROVENANCE, **{k: {**PROVENANCE[k], **v} for k, v in provenance.items()}}
    return write_file(path, samples, features, made).path


def part(samples: Samples, rows: Any) -> Samples:
    taken = {name: getattr(samples, name)[rows] for name in ("ids", "labels", "split")}
    return replace(samples, **taken)


def test_card_counts(tmp_path: Path) -> None:
    samples = Samples(
        ids=np.array(list("abcdefg")),
        labels=np.array([0, 0, 0, 1, 1, 2, 0]),
        split=np.array([0, 0, 0, 0, 0, 2, 2]),
        classes=("x", "y", "z", "top"),
        parents=np.array([3, 3, -1, -1]),
    )
    result = card(EmbeddingFile.open(write(tmp_path / "a.h5", samples, make_features(7))))
    assert result.samples == {"train": 5, "val": 0, "test": 2}
    assert result.classes == {"leaves": 3, "inner": 1}
    assert result.class_sizes() == {
        "train": "0 to 3, median 2; 1 classes have none",
        "test": "0 to 1, median 1; 1 classes have none",
    }
    assert result.class_counts == {
        "x": {"train": 3, "val": 0, "test": 1},
        "y": {"train": 2, "val": 0, "test": 0},
        "z": {"train": 0, "val": 0, "test": 1},
    }
    assert result.bytes == (tmp_path / "a.h5").stat().st_size
    assert Card.from_json(json.loads(json.dumps(result.to_json()))) == result
    alike = replace(result, class_counts={"x": result.class_counts["x"]})
    assert alike.class_sizes() == {"train": "3", "test": "1"}
    text = card_text(replace(result, bytes=1_260_000)).splitlines()
    lines = [" ".join(line.split()) for line in text]
    assert lines[:8] == [
        f"file {tmp_path / 'a.h5'} (1.3 MB)",
        "format embedbench-embedding 1.0, kind embedding",
        "features 7 x 5 float32",
        "layers none",
        "samples 5 train, 2 test",
        "classes 3 leaves, 1 inner nodes",
        "train per class 0 to 3, median 2; 1 classes have none",
        "test per class 0 to 1, median 1; 1 classes have none",
    ]
    assert lines[8].startswith("backbone name resnet50, layer head, library timm, library_version ")
    digests = [f"{key} digest {result.digests[key]}" for key in ("content", "recipe", "samples")]
    made = "made 2026-01-02T03:04:05Z by embedbench 0"
    assert lines[12:] == ["split", "skipped 0 samples", made, *digests]


def test_verify_names_damaged_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", 5000).path
    for row in (1100, 4999):
        damage(path, "features", row)
    first, second = expected = verify(path)
    assert "1024 to 2047 of features" in first
    assert "4096 to 4999 of features" in second
    damage(path, "labels", 3000)
    first, *others, last = verify(path)
    assert "rows 2048-3071 of labels" in first
    assert others == expected
    assert "2048 to 3071 of labels" in last
    features = make_features(1500)
    features[[7, 1400], 2] = np.nan
    foreign_write(path, make_samples(1500), features)
    (said,) = verify(path)
    assert said.startswith(f"{path}: features row 7 ")
    assert "is no file" in refusal(verify, tmp_path / "none.h5")


def naive_probe(samples: Samples, x: Any) -> float:
    """Return test accuracy of the nearest class mean, a sample at a time."""
    x, y, train = x.astype(np.float64), samples.labels, samples.split == TRAIN
    means = {c: x[train & (y == c)].mean(axis=0) for c in set(y[train].tolist())}
    right = [
        min(means, key=lambda c: float(((x[r] - means[c]) ** 2).sum())) == y[r]
        for r in np.flatnonzero(samples.split == TEST)
    ]
    return sum(right) / len(right)


def naive_nearest(x: Any) -> list[int]:
    """Return, for each row, the row with the highest cosine to it, a pair at a time."""
    unit = [row / np.linalg.norm(row) for row in x.astype(np.float64)]
    rows = range(len(unit))
    return [max(set(rows) - {row}, key=lambda r: unit[r] @ unit[row]) for row in rows]


@pytest.mark.parametrize("seed", range(3))
def test_diff_figures_equal_naive_loops(tmp_path: Path, seed: int) -> None:
    """Two files that share 90 of 140 and 120 samples, b in another order."""
    rng = np.random.default_rng(seed + 100)
    samples, x = make_samples(170, seed), make_features(170, 6, seed)
    x += samples.labels[:, None] / np.float32(2)  # classes at other distances from 0
    y = x + rng.normal(0, 0.3, x.shape).astype(np.float32)
    rows_a, rows_b = np.arange(140), rng.permutation(np.arange(50, 170))
    of_a, of_b = part(samples, rows_a), part(samples, rows_b)
    a = write(tmp_path / "a.h5", of_a, x[rows_a])
    b = write(tmp_path / "b.h5", of_b, y[rows_b], arithmetic={"dtype": "bfloat16"})
    result = diff(a, b)
    shared = np.arange(50, 140)
    assert result.samples == {
        "shared": 90, "only_a": 50, "only_b": 30, "class_differs": 0, "split_differs": 0,
        "same_order": False, "same_classes": True,
    }  # fmt: skip
    cosines = np.array([x[r] @ y[r] / np.linalg.norm(x[r]) / np.linalg.norm(y[r]) for r in shared])
    figures = dict(result.cosine)
    assert figures.pop("lowest") == samples.ids[shared[cosines.argmin()]]
    quantiles = np.percentile(cosines, [0, 1, 5, 50]).tolist()
    names = ("min", "p1", "p5", "median", "mean", "rows")
    expected = dict(zip(names, [*quantiles, cosines.mean(), 90], strict=True))
    assert figures == pytest.approx(expected, abs=1e-6)
    changed = int(np.not_equal(naive_nearest(x[shared]), naive_nearest(y[shared])).sum())
    assert result.neighbours == {"queries": 90, "among": 90, "changed": changed}
    assert 0 < changed < 90
    one, two = naive_probe(of_a, x[rows_a]), naive_probe(of_b, y[rows_b])
    figures = {key: value for key, value in result.scores.items() if key != "what"}
    assert figures == pytest.approx({"a": one, "b": two, "moved": two - one})
    assert result.reasons == (
        "samples: 50 samples are only in a.",
        "samples: 30 samples are only in b.",
        "samples: the shared samples are in another order.",
        "recipe: dtype is 'float32' in a and 'bfloat16' in b.",
    )
    assert Diff.from_json(json.loads(json.dumps(result.to_json()))) == result
    text = diff_text(result)
    lines = [line.split() for line in text.splitlines()]
    first = ["shared", "cosine", "neighbours", "scores", "why", *["samples:"] * 2, "recipe:"]
    assert [line[0] for line in lines[5:]] == first
    assert text.count(" differ\n") == 3


def test_diff_of_equal_files(tmp_path: Path) -> None:
    a, samples, x = written(tmp_path / "a.h5", 1500).path, make_samples(1500), make_features(1500)
    result = diff(a, write(tmp_path / "b.h5", samples, x, source={"name": "q"}))
    assert result.digests == {"samples": True, "recipe": True, "content": True}
    assert result.reasons == ()
    assert result.cosine["min"] == pytest.approx(1, abs=1e-12)
    assert result.neighbours == {"queries": 500, "among": 1500, "changed": 0}
    assert result.scores["moved"] == 0
    assert diff_text(result).count(" agree") == 3
    made = {"arithmetic": {"device_kind": "cuda"}, "backbone": {"library_version": "1.1"}}
    other = diff(a, write(tmp_path / "c.h5", samples, x * np.float32(1 + 1e-6), **made))
    assert other.digests == {"samples": True, "recipe": True, "content": False}
    (why,) = other.reasons
    assert "the bits differ although samples and recipe agree" in why


def test_diff_of_other_widths_labels_and_no_test(tmp_path: Path) -> None:
    a, samples = written(tmp_path / "a.h5", 100).path, make_samples(100)
    other = replace(samples, labels=(samples.labels + 1) % 3, split=np.zeros(100, np.uint8))
    other = replace(other, classes=("cat", "dog", "tree", "beast"))
    result = diff(a, write(tmp_path / "b.h5", other, make_features(100, 7)))
    assert result.cosine is None
    assert result.neighbours["queries"] == 100
    assert result.scores["b"] is None
    assert result.scores["moved"] is None
    differs = int((samples.split != 0).sum())
    assert result.samples == {
        "shared": 100, "only_a": 0, "only_b": 0, "class_differs": 100, "split_differs": differs,
        "same_order": True, "same_classes": False,
    }  # fmt: skip
    assert result.reasons == (
        "samples: 100 shared samples have another class.",
        f"samples: {differs} shared samples have another split.",
        "samples: the lists of classes or their hierarchy differ.",
    )
    others = replace(samples, ids=np.char.add(samples.ids, "x"))
    result = diff(a, write(tmp_path / "c.h5", others, make_features(100)))
    assert result.samples["shared"] == 0
    assert result.cosine is None
    assert result.neighbours is None
    assert "cosine" not in diff_text(result)


def test_zero_rows_have_cosine_one_with_zero_and_none_with_others(tmp_path: Path) -> None:
    x, y = make_features(3), make_features(3)
    x[:2] = 0
    y[0] = 0
    result = diff(written(tmp_path / "a.h5", 3, x).path, written(tmp_path / "b.h5", 3, y).path)
    assert result.cosine["mean"] == pytest.approx(2 / 3)
    assert result.cosine["lowest"] == "größe/00001.png"


def test_neighbours_of_few_and_of_many_rows() -> None:
    x = make_features(10_050, 2)
    assert neighbour_changes(x[:2], -x[:2]) is None
    for n, among, queries in ((3, 3, 3), (10_050, 10_000, 500)):
        expected = {"queries": queries, "among": among, "changed": 0}
        assert neighbour_changes(x[:n], -x[:n]) == expected
    many = np.zeros((10_010, 1), np.float32)
    assert neighbour_changes(many, many) == {"queries": 500, "among": 10_000, "changed": 0}


def test_a_card_of_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "a.h5", 60)
    written(tmp_path / "b.h5", 90).path.replace(file.path)
    with pytest.raises(UserError, check=says(what=f"{file.path} changed while it was read")):
        card(file)


def test_a_diff_of_a_file_that_is_replaced_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = written(tmp_path / "a.h5", 60).path, written(tmp_path / "b.h5", 60).path
    other = written(tmp_path / "c.h5", 60, make_features(60, seed=4)).path
    opened = EmbeddingFile.open

    def replacing(path: Path) -> EmbeddingFile:
        file = opened(path)
        if path == b:
            other.replace(b)
        return file

    monkeypatch.setattr(EmbeddingFile, "open", replacing)
    with pytest.raises(UserError, match=r"b\.h5 was replaced while it was read"):
        diff(a, b)


def test_a_backbone_without_layers_has_no_empty_brackets() -> None:
    lines = dict(provenance_lines({"backbone": {"name": "net", "layers": {}}}, 2))
    assert lines["backbone"] == "name net"
