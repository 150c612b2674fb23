"""A stream as a picture: every cell is a count."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from image_files import embedding_file
from matplotlib.figure import Figure
from multilabel_streams import hierarchy_stream

from embedbench.array_types import Ints
from embedbench.reports.figure_style import legend, write
from embedbench.reports.stream_plot import draw_stream
from embedbench.streams.stream_summary import class_counts

TRAIN = np.array([[100, 0, 25], [0, 49, 36]])
TEST = np.array([[16, 0, 0], [16, 9, 0]])


def drawn(train: Ints, test: Ints, **more: Any) -> Figure:
    names = ["a" * 25, *"bc", *map(str, range(3, train.shape[1]))]
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
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["a" * 24 + "\na", "c", "b"]
    legend(figure)
    (entry,) = figure.legends[0].get_texts()
    assert entry.get_text() == "with test samples (41 in all)"
    # a class of no session comes last; equal counts and no tests are drawn, too
    figure = drawn(np.array([[0, 7, 0], [0, 0, 7]]), np.zeros((2, 3), dtype=int))
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()][:2] == ["b", "c"]
    assert cells(figure) == ({(0, 0): 7, (1, 1): 7}, set())


@pytest.mark.parametrize("most", [40, 100, 101, 400])
def test_shades_are_those_of_the_scale(most: int) -> None:
    counts, scale = np.diag([10, 20, most]), "log" if most > 100 else "linear"
    bar: Any = drawn(counts, counts).axes[1]
    assert bar.get_ylabel() == "training samples" + ", logarithmic" * (scale == "log")
    assert bar.get_yscale() == scale
    assert bar.get_box_aspect() == 30
    assert bar._colorbar_info["pad"] == 0.02
    assert bar.get_ylim() == pytest.approx((10 if scale == "log" else 0, most))
    if scale == "log":
        axis = bar.yaxis
        assert axis.get_major_formatter()(200.0, 0) == "200"
        assert {20, 50, 100} <= {round(place) for place in axis.get_majorticklocs()}
        assert list(axis.get_minorticklocs()) == []


@pytest.mark.parametrize(
    ("classes", "height", "size"),
    [
        *((2, 0.6 + 0.8, 7), (10, 0.6 + 3, 7), (40, 0.6 + 5.5, 7)),
        *((41, 0.6 + 5.5, 5.5), (60, 0.6 + 6.6, 5.5), (61, 0.6 + 5.5, None)),
    ],
)
def test_classes_have_room_and_names_to_60(classes: int, height: float, size: float | None) -> None:
    counts = np.ones((2, classes), dtype=int)
    figure = drawn(counts, counts)
    axes, bar = figure.axes
    assert (*figure.get_size_inches(), *bar.get_ylim()) == pytest.approx((3.25, height, 0, 1))
    assert axes.get_xlabel() == "session"
    assert bool(axes.get_ylabel()) == (size is None)
    if size is not None:
        assert [t.get_fontsize() for t in axes.get_yticklabels()] == [size] * classes


@pytest.mark.parametrize(
    ("sessions", "ticks", "side", "edge"),
    [
        (2, [0, 1], 0.8 * 72 * 0.3, 0.7),
        (12, [*range(12)], 0.8 * 72 * 2.25 / 12, 0.7),
        (13, [*range(0, 13, 2)], 0.8 * 72 * 2.25 / 13, 0.7),
        (50, [*range(0, 50, 5)], 0.8 * 72 * 2.25 / 50, 0.1 * 72 * 2.25 / 50),
        (200, [*range(0, 200, 17)], 1, 1 / 8),
    ],
)
def test_ticks_and_outlines_fit(sessions: int, ticks: list[int], side: float, edge: float) -> None:
    counts = np.ones((sessions, 16), dtype=int)
    axes = drawn(counts, counts, sets=("unseen",)).axes[0]
    assert axes.get_xticks().tolist() == ticks
    outlines = axes.lines[0]
    size = outlines.get_markersize(), outlines.get_markeredgewidth()
    assert size == pytest.approx((side, edge))
    assert outlines.get_rasterized() == (sessions * 16 > 3000)


def test_eval_sets_of_no_session_have_columns_of_their_own() -> None:
    figure = drawn(TRAIN, np.array([[9, 9, 9], [16, 16, 16], [100, 0, 0]]), sets=("x", "y", "z"))
    assert cells(figure)[1] == {(3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2), (5, 0)}
    ticks = [(t.get_text(), t.get_rotation()) for t in figure.axes[0].get_xticklabels()]
    assert ticks == [("0", 0), ("1", 0), ("x", 90), ("y", 90), ("z", 90)]


def test_large_streams_are_images_and_the_bytes_are_the_same_twice(tmp_path: Path) -> None:
    train = np.random.default_rng(0).integers(1, 9, (62, 50))
    for name in ("a.svg", "b.svg"):
        write(tmp_path / name, drawn(train, train[:1], sets=("test",)))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.svg").stat().st_size < 300_000


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
