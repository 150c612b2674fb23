"""A stream as a picture: every cell is a count."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from image_files import embedding_file
from matplotlib.figure import Figure
from multilabel_streams import hierarchy_stream
from toy import class_stream

from embedbench.array_types import Ints
from embedbench.reports.figure_style import legend, write
from embedbench.reports.stream_plot import draw_stream
from embedbench.streams.stream_summary import class_counts

TRAIN = np.array([[100, 0, 25], [0, 49, 36]])
TEST = np.array([[16, 0, 0], [16, 9, 0]])


def drawn(train: Ints, test: Ints, **more: Any) -> Figure:
    names = [*"abc", *map(str, range(3, train.shape[1]))]
    return draw_stream(train, test, names, 3.25, **more)


def cells(figure: Figure) -> tuple[dict[tuple[int, int], float], set[tuple[int, int]]]:
    """Filled cells: (column, row) → number; and outlines."""
    (axes, *_) = figure.axes
    counts: Any = axes.images[0].get_array()  # (rows, columns)
    filled = {(x, y): n for (y, x), n in np.ndenumerate(counts.filled(0)) if n}
    outlines: Any = axes.lines[0].get_data()
    return filled, {(int(x), int(y)) for x, y in zip(*outlines, strict=True)}


def test_cells_are_counts_and_classes_come_in_their_order() -> None:
    figure = drawn(TRAIN, TEST)
    train, test = cells(figure)  # rows: a, c, b, as they first come
    assert train == {(0, 0): 100, (0, 1): 25, (1, 1): 36, (1, 2): 49}
    assert test == {(0, 0), (1, 0), (1, 2)}
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert labels == ["a", "c", "b"]
    legend(figure)
    (entry,) = figure.legends[0].get_texts()
    assert entry.get_text() == "with test samples (41 in all)"


@pytest.mark.parametrize(("most", "scale"), [(40, "linear"), (400, "log")])
def test_shades_are_those_of_the_scale(most: int, scale: str) -> None:
    counts = np.diag([10, 20, most])
    figure = drawn(counts, counts)
    bar = figure.axes[1]
    assert bar.get_ylabel() == "training samples" + ", logarithmic" * (scale == "log")
    assert bar.get_yscale() == scale
    assert bar.get_ylim()[1] == pytest.approx(most)


def test_equal_counts_and_no_tests_are_drawn_too() -> None:
    assert len(cells(drawn(np.full((2, 3), 7), np.zeros((2, 3), dtype=int)))[0]) == 6


def test_eval_sets_of_no_session_have_columns_of_their_own() -> None:
    figure = drawn(TRAIN, np.array([[9, 9, 9], [16, 16, 16], [100, 0, 0]]), sets=("x", "y", "z"))
    _, test = cells(figure)
    assert test == {(3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2), (5, 0)}
    ticks = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert ticks == ["0", "1", "x", "y", "z"]


def test_large_streams_are_images_and_the_bytes_are_the_same_twice(tmp_path: Path) -> None:
    train = np.random.default_rng(0).integers(1, 9, (62, 50))
    for name in ("a.svg", "b.svg"):
        write(tmp_path / name, drawn(train, train[:1], sets=("test",)))
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


def test_show_draws_the_stream_of_one_seed(tmp_path: Path) -> None:
    file, out = embedding_file(tmp_path), tmp_path / "stream.svg"

    def show(*more: object) -> Any:
        protocol = ("--protocol", "incremental-class", "--set", "protocol.base=2")
        return embedbench("show", file.path, *protocol, "--out", *more)

    done = show(out)
    assert done.exit_code == 0, done.output
    assert f"wrote {out}" in done.stderr
    text = out.read_text("utf-8")
    assert {f">{name}</text>" in text for name in "abcdef"} == {True}
    for sentence, *more in (
        ("is there already", out),
        ("name such a file", tmp_path / "stream.txt"),
        ("give one --seed", tmp_path / "b.svg", "--seeds", "0-1"),
    ):
        assert sentence in str(show(*more).exception)
    assert show(out, "--overwrite").exit_code == 0
    assert out.read_text("utf-8") == text
