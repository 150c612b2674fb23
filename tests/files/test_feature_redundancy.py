"""Feature redundancy: plain loops for all of it."""

import json
import math
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import refusal
from PIL import Image

from embedbench.files import feature_redundancy
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.feature_redundancy import DiscretisedFeatures, class_su, fcbf, mdlp_cuts
from embedbench.files.sample_metadata import TEST, TRAIN, VAL, Samples
from embedbench.files.write_file import write_file


@pytest.fixture(params=[(1, 3), (3, 7), None])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that do not divide what they cut; and those of the module."""
    for name, value in zip(("BATCH", "ROWS"), request.param or (), strict=False):
        monkeypatch.setattr(feature_redundancy, name, value)


def su_by_loops(x: list[int], y: list[int]) -> float:
    """Eq. 5 to 8 as they stand."""
    n = len(x)

    def entropy(values: list[int]) -> float:
        return -sum(c / len(values) * math.log2(c / len(values)) for c in Counter(values).values())

    conditional = 0.0  # H(X|Y)
    for value, count in Counter(y).items():
        conditional += count / n * entropy([a for a, b in zip(x, y, strict=True) if b == value])
    total = entropy(x) + entropy(y)
    return 2 * (entropy(x) - conditional) / total if total else 0.0


def correlated(seed: int, n_features: int = 9) -> tuple[DiscretisedFeatures, Any]:
    """Features of 1 to 5 intervals that say more or less of a class of three, and of each other."""
    rng, n = np.random.default_rng(seed), 60
    y = rng.integers(0, 3, n)
    rows: list[Any] = []
    for f in range(n_features):
        bins = int(rng.integers(1, 6))
        source = rows[int(rng.integers(f))] if f and rng.random() < 0.5 else y
        noise = rng.random(n) < rng.uniform(0, 0.9)
        rows.append(np.where(noise, rng.integers(0, bins, n), source % bins))
    codes = np.array(rows, dtype=np.uint16)
    return DiscretisedFeatures(codes, codes.max(axis=1).astype(np.int64) + 1), y


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(2))
def test_matrices_by_plain_loops(seed: int) -> None:
    codes, y = correlated(seed)
    rows = codes.values.tolist()
    said: list[Any] = []
    found = feature_redundancy.su_matrix(codes, lambda *n: said.append(n))
    assert said == [(first, 9) for first in range(0, 9, feature_redundancy.BATCH)]
    np.testing.assert_allclose(found, [[su_by_loops(a, b) for b in rows] for a in rows], atol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    of_class = [su_by_loops(a, y.tolist()) for a in rows]
    np.testing.assert_allclose(class_su(codes, y), of_class, atol=1e-12)


def fcbf_by_loops(codes: DiscretisedFeatures, y: Any) -> list[int]:
    """Yu and Liu (2003), a pair at a time."""
    rows = codes.values.tolist()
    su = [su_by_loops(r, y.tolist()) for r in rows]
    left = sorted((f for f in range(len(rows)) if su[f] > 1e-9), key=lambda f: (-su[f], f))
    kept = []
    while left:
        p = left.pop(0)
        kept.append(p)
        left = [q for q in left if su_by_loops(rows[p], rows[q]) < su[q] - 1e-9]
    return kept


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", [0, 1, 13, 24])  # from 13 on, a removed one would remove
def test_fcbf_by_plain_loops(seed: int) -> None:
    codes, y = correlated(seed, n_features=14)
    kept = fcbf(codes, class_su(codes, y)).tolist()
    assert kept == fcbf_by_loops(codes, y)
    assert 0 < len(kept) < 14  # something goes, something stays


def mdlp_by_loops(pairs: list[tuple[float, int]]) -> list[float]:
    """Fayyad and Irani (1993), every cut by itself."""

    def entropy(part: list[tuple[float, int]]) -> tuple[float, int]:
        counts = Counter(c for _, c in part)
        p = [c / len(part) for c in counts.values()]
        return -sum(q * math.log2(q) for q in p), len(counts)

    pairs = sorted(pairs)
    n = len(pairs)
    choices = []
    for i in range(1, n):
        if pairs[i - 1][0] < pairs[i][0]:
            a, b = pairs[:i], pairs[i:]
            spread = (len(a) * entropy(a)[0] + len(b) * entropy(b)[0]) / n
            choices.append((spread, i))
    if not choices:
        return []
    spread, i = min(choices)
    (h, k), (h1, k1), (h2, k2) = entropy(pairs), entropy(pairs[:i]), entropy(pairs[i:])
    delta = math.log2(3**k - 2) - (k * h - k1 * h1 - k2 * h2)
    if h - spread <= (math.log2(n - 1) + delta) / n:
        return []
    return [*mdlp_by_loops(pairs[:i]), pairs[i - 1][0], *mdlp_by_loops(pairs[i:])]


@pytest.mark.parametrize("levels", [12, 1000])  # many ties, few ties
@pytest.mark.parametrize("seed", range(2))
def test_mdlp_by_plain_loops(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = 150, int(rng.integers(2, 6))
    y = rng.integers(0, k, n)
    x = np.round((y * rng.uniform(1, 4) + rng.normal(size=n)) * levels / 10).astype(np.float32)
    for rows in (n, 40, 12, 4, 1):
        found = mdlp_cuts(x[:rows], y[:rows]).tolist()
        assert found == mdlp_by_loops(list(zip(x[:rows].tolist(), y[:rows].tolist(), strict=True)))
        assert found or rows < n
    assert [mdlp_cuts(np.arange(n), np.arange(n).clip(0, 1)).tolist() for n in (6, 7)] == [[0], []]
    assert mdlp_cuts(np.full(4, 5, np.float32), y[:4]).tolist() == []


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    """Four classes in two bits: 0 and 1 the high bit, 2 the low bit, 3 noise, 4 constant.

    1 is 0 stretched; test samples say the opposite.
    """
    rng = np.random.default_rng(0)
    n = 400
    y = np.arange(n) % 4
    x = np.stack([y // 2, y // 2, y % 2, np.zeros(n), np.zeros(n)], axis=1).astype(np.float64)
    x[:, [0, 2]] += rng.uniform(-0.4, 0.4, (n, 2))
    x[:, 1] = 10 * x[:, 0] + 3
    x[:, 3] = rng.normal(size=n)
    split = np.where(np.arange(n) < 300, TRAIN, np.where(np.arange(n) < 320, VAL, TEST))
    x[split == TEST] = rng.normal(size=(80, 5))
    ids, none = np.array([f"{i:03d}" for i in range(n)]), np.full(4, -1)
    samples = Samples(ids, y, split.astype(np.uint8), tuple("abcd"), none)
    path = tmp_path_factory.mktemp("redundant") / "bits.h5"
    return write_file(path, samples, x.astype(np.float32), {})


def test_a_file_by_hand(file: EmbeddingFile, tmp_path: Path) -> None:
    said: list[Any] = []
    result, _ = feature_redundancy.redundancy(file, progress=lambda *n: said.append(n))
    assert said == [*((f, 5, "intervals") for f in range(5)), (0, 3, "filter")]
    kept = {"features": 5, "kept": 2, "share": 0.4, "relevant": 3, "features_kept": [0, 2]}
    assert result.to_json() == kept
    samples = replace(file.samples, split=np.full_like(file.split, TEST))
    only = write_file(tmp_path / "only.h5", samples, file.read(), {})
    assert "only.h5 has no samples but test" in refusal(feature_redundancy.redundancy, only)


def test_the_command_line(file: EmbeddingFile, tmp_path: Path, call: Any) -> None:
    inspect = partial(call, "inspect", str(file.path))
    code, text, _ = inspect("--redundancy")
    assert code == 0
    assert "2 of 5 features are not redundant (40.0 %; FCBF, 3 bear on the class)" in text
    assert "not redundant" not in inspect()[1]
    plain, png = json.loads(inspect("--json")[1]), tmp_path / "map.png"
    png.write_bytes(b"mine")
    words = ("--heatmap", str(png), "--json")
    assert inspect(*words)[:2] == (2, "")
    assert png.read_bytes() == b"mine"
    found = json.loads(inspect(*words, "--overwrite")[1])
    assert found.pop("redundancy")["kept"] == 2
    assert found == plain
    with Image.open(png) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    yellow = (abs(pixels - [253, 231, 37]).sum(axis=2) < 12).sum()  # viridis at 1
    purple = (abs(pixels - [68, 1, 84]).sum(axis=2) < 12).sum()  # and at 0
    # of 25 pairs 0 with itself and 1, and 2 with itself are 1
    assert pixels.shape[1] == 1500
    assert purple > yellow > 10_000
