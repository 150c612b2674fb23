"""Alignment of layers: plain loops, a case by hand, and that no test sample is read."""

import math

import numpy as np
import pytest
from reproduce_files import blob_file

from embedbench.array_types import Floats, Ints
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols.fscil import FSCIL
from embedbench.streams.measure_layer_alignment import (
    alignment,
    alignment_words,
    stream_alignment,
)

LAYERS = ("block-8", "block-9")
SPANS = {"wide": (3, 8), "near": (8, 11), "far": (11, 14)}


def naive(train: tuple[Floats, Ints], val: tuple[Floats, Ints], of: slice, by: slice) -> float:
    """Sample by sample: the class whose mean of `by` has the largest cosine to its `of`."""
    (x, y), (val_x, val_y) = train, val
    classes = sorted({int(c) for c in y})
    right = 0
    for sample, label in zip(val_x, val_y, strict=True):
        best, answer = -math.inf, -1
        for c in classes:
            mean = sum(x[i, by] for i in range(len(y)) if y[i] == c) / sum(y == c)
            v = sample[of]
            cosine = float(v @ mean) / math.sqrt(float(v @ v) * float(mean @ mean))
            if cosine > best:
                best, answer = cosine, c
        right += answer == label
    return right / len(val_y)


@pytest.mark.parametrize("seed", range(2))
def test_accuracies_are_those_of_naive_loops(seed: int) -> None:
    draw = np.random.default_rng(seed)
    y, val_y = draw.choice([1, 4, 5, 9], 40), draw.choice([1, 4, 5, 9, 7], 25)  # no mean of 7
    y[:4] = [1, 4, 5, 9]
    centres = draw.normal(size=(10, 14))
    x, val_x = ((centres[c] + draw.normal(size=(len(c), 14))).astype("f4") for c in (y, val_y))
    found = alignment((x, y), (val_x, val_y), 3, SPANS)
    given = ((x.astype(float), y), (val_x.astype(float), val_y))
    final = slice(0, 3)
    assert found.samples == 25
    assert found.final == pytest.approx(naive(*given, final, final))
    for name, (first, end) in SPANS.items():
        own = slice(first, end)
        assert found.own[name] == pytest.approx(naive(*given, own, own))
        if name == "wide":  # five columns and three have no cosine
            assert math.isnan(found.to_final[name])
        else:
            assert found.to_final[name] == pytest.approx(naive(*given, own, final))


def test_a_layer_by_hand() -> None:
    """Two classes on two axes; a layer with the axes changed fits its own means, not the final."""
    x = np.array([[1, 0, 0, 2, 3, 0], [0, 1, 2, 0, 0, 3]], dtype=np.float32)
    y, val_y = np.array([0, 1]), np.array([0, 0, 1, 1])
    val_x = x[[0, 0, 1, 1]] + np.float32(0.1)
    val_x[3, :2] = (5, 1)  # one final sample lies with the other class
    val_x[3, 4:] = (1, 5)
    found = alignment((x, y), (val_x, val_y), 2, {"swapped": (2, 4), "same": (4, 6)})
    assert found.final == 0.75
    assert (found.own, found.to_final) == ({"swapped": 1, "same": 1}, {"swapped": 0, "same": 1})
    final, *layers = alignment_words(found)
    assert final.startswith("final embedding: 75.0 % right of 4 validation samples (of the base se")
    assert layers == [
        "swapped: 0.0 % by the final means (0.00 of the final embedding), 100.0 % by its own",
        "same: 100.0 % by the final means (1.33 of the final embedding), 100.0 % by its own",
    ]
    nothing = alignment((x, y), (val_x[:0], val_y[:0]), 2, {"same": (4, 6)})
    assert math.isnan(nothing.final)
    assert alignment_words(nothing)[1] == "same: – by the final means, – by its own"


# --- of streams ---


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    """Ten classes of 20 training and 20 test samples, without validation samples."""
    return blob_file(tmp_path_factory.mktemp("alignment") / "vit.h5", 10, 40, layers=LAYERS)


def test_of_the_base_session_of_a_stream(file: EmbeddingFile) -> None:
    stream = FSCIL(base=6, way=2, order="size").build([file], seed=Seeds.of(0).order)
    found = stream_alignment(stream, ["block-9"])
    base = stream.sessions[0]
    assert found.samples == len(base.val_y) == 12
    given = [(v.numpy().astype(float), y) for v, y in ((base.x, base.y), (base.val_x, base.val_y))]
    final = slice(0, 6)
    assert found.final == pytest.approx(naive(given[0], given[1], final, final))
    expected = naive(given[0], given[1], slice(12, 18), final)
    assert found.to_final == {"block-9": pytest.approx(expected)}
    on_test = FSCIL(base=6, way=2, order="size", validation="test").build([file], seed=0)
    with pytest.raises(UserError, match="test samples"):
        stream_alignment(on_test, LAYERS)
