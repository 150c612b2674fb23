"""A stream as a picture: every cell is a count."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from multilabel_streams import hierarchy_stream
from toy import class_stream

from embedbench.arrays import Ints
from embedbench.reports.sheet import PAPER, write
from embedbench.reports.stream_plot import LEAST, draw_stream
from embedbench.streams.counts import class_counts

NAMES = ("a", "b", "c")
TRAIN = np.array([[100, 0, 25], [0, 49, 36]])
TEST = np.array([[16, 0, 0], [16, 9, 0]])


def drawn(train: Ints, test: Ints, **more: object) -> Figure:
    names = [*NAMES, *map(str, range(3, train.shape[1]))]
    with matplotlib.rc_context(PAPER):
        return draw_stream(train, test, names, 3.25, **more)  # type: ignore[arg-type]


def boxes(figure: Figure) -> list[dict[tuple[int, int], float]]:
    """Of filled cells and of outlines: (column, row) → area in whole cells."""
    result = []
    for cells in figure.axes[0].collections:
        found = {}
        for path in cells.get_paths():
            box = path.get_extents()
            middle = (round((box.x0 + box.x1) / 2), round((box.y0 + box.y1) / 2))
            found[middle] = box.width * box.height / 0.92**2
        result.append(found)
    return result


def test_areas_are_counts_and_classes_come_in_their_order() -> None:
    train, test = boxes(drawn(TRAIN, TEST))  # rows: a, c, b, as they first come
    assert train == pytest.approx({(0, 0): 1, (0, 1): 0.25, (1, 1): 0.36, (1, 2): 0.49})
    assert test == pytest.approx({(0, 0): 0.16, (1, 0): 0.16, (1, 2): LEAST**2})
    figure = drawn(TRAIN, TEST)
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert labels == ["a", "c", "b"]
    legend = {t.get_text() for t in figure.legends[0].get_texts()}
    assert legend == {"training samples (at most 100)", "test samples (at most 16)"}


def test_eval_sets_of_no_session_have_columns_of_their_own() -> None:
    figure = drawn(TRAIN, np.array([[9, 9, 9], [16, 16, 16], [100, 0, 0]]), sets=("x", "y", "z"))
    _, test = boxes(figure)
    assert set(test) == {(3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2), (5, 0)}
    ticks = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert ticks == ["0", "1", "x", "y", "z"]


def test_large_streams_are_images_and_the_bytes_are_the_same_twice(tmp_path: Path) -> None:
    train = np.random.default_rng(0).integers(1, 9, (100, 50))
    for name in ("a.svg", "b.svg"):
        write(tmp_path / name, lambda: drawn(train, train[:1], sets=("test",)))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.svg").stat().st_size < 300_000


def test_counts_of_a_stream() -> None:
    train, test = class_counts(class_stream([(0, 2), (1,)], n_train=20, n_test=10))
    assert train.tolist() == [[20, 0, 20], [0, 20, 0]]
    assert test.tolist() == [[10, 0, 10], [0, 10, 0]]


def test_a_sample_counts_for_each_of_its_labels() -> None:
    stream = hierarchy_stream()
    train, test = class_counts(stream)
    assert train.sum() == sum(int(s.y.sum()) for s in stream.sessions)
    for counts, part in ((train, stream.sessions), (test, stream.eval_sets)):
        for row, item in zip(counts, part, strict=True):
            assert row.tolist() == [int(item.y[:, c].sum()) for c in range(item.y.shape[1])]
