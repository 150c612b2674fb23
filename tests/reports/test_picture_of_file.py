"""Two dimensions of a file, by class: which samples, which classes, which points."""

from pathlib import Path
from typing import Any

import numpy as np
from command_line import embedbench
from image_files import embedding_file, pixel_file
from matplotlib.figure import Figure

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file
from embedbench.reports import picture_of_file as picture
from embedbench.reports.figure_style import legend


def many(folder: Path, sizes: list[int], parents: list[int], width: int = 3) -> EmbeddingFile:
    """A file whose leaf classes have these numbers of samples."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    samples = Samples(
        ids=np.array([str(i) for i in range(len(labels))]),
        labels=labels,
        split=np.zeros(len(labels), dtype=np.uint8),
        classes=tuple(f"c{i}" for i in range(len(parents))),
        parents=np.array(parents),
    )
    x = np.random.default_rng(0).normal(size=(len(labels), width)).astype(np.float32)
    return write_file(folder / "m.h5", samples, x, {"backbone": {"name": "some"}})


def figure_of(file: EmbeddingFile) -> Figure:
    figure = picture.draw_file(file, 3.25)
    assert tuple(figure.get_size_inches()) == (3.25, 0.75 * 3.25)
    legend(figure)
    return figure


def test_points_are_the_components_by_class(tmp_path: Path) -> None:
    file = embedding_file(tmp_path)
    figure = figure_of(file)
    (axes,), (points, shares) = figure.axes, picture.components(file.read())
    assert len(axes.lines) == 2 * 6  # the points of a class, and its mark in the legend
    for label, line in enumerate(axes.lines[::2]):
        assert {"color": line.get_color(), "marker": line.get_marker()} == picture.look(label)
        xy = np.stack([line.get_xdata(), line.get_ydata()], axis=1)  # type: ignore[list-item]
        np.testing.assert_allclose(xy, points[file.labels == label])
        assert line.get_rasterized()
        assert line.get_markersize() == 2.6
        assert line.get_alpha() == 0.8
    assert {line.get_markersize() for line in axes.lines[1::2]} == {4}
    assert f"({100 * shares[0]:.0f} % of the variance)" in axes.get_xlabel()
    assert f"({100 * shares[1]:.0f} %)" in axes.get_ylabel()
    assert [t.get_text() for t in figure.legends[0].get_texts()] == list("abcdef")


def test_components_of_one_sample_one_feature_and_two() -> None:
    """Zeros stand where there is no second one, and where nothing varies."""
    cross = [[3, 0], [-3, 0], [0, 1], [0, -1]]  # squares of 18 and 2
    for rows, expected, parts in (
        *(([[3, 3]], [[0, 0]], [0, 0]), ([[0], [4]], [[-2, 0], [2, 0]], [1, 0])),
        (cross, cross, [0.9, 0.1]),
    ):
        points, shares = picture.components(np.array(rows))
        np.testing.assert_allclose(points, expected, atol=1e-12)
        np.testing.assert_allclose(shares, parts)


def test_many_classes_are_coloured_by_the_top_of_the_hierarchy(tmp_path: Path) -> None:
    # c13 is above c0 to c6 by way of c14; c7 to c12 are at the top
    file = many(tmp_path, [2] * 13, [14] * 7 + [-1] * 6 + [-1, 13])
    names, group = picture.groups(file)
    assert names == [f"c{i}" for i in range(7, 14)]
    assert group.tolist() == [6] * 7 + [*range(6)]
    file.path.unlink()
    assert picture.groups(many(tmp_path, [0, 1, 2], [-1] * 3))[0] == ["c1", "c2"]


def test_of_too_many_classes_the_largest_have_colours(tmp_path: Path) -> None:
    sizes = [2] * 5 + [5] * 12 + [1]
    names, group = picture.groups(many(tmp_path, sizes, [-1] * len(sizes)))
    places = [-1] * 5 + [*range(12)] + [-1]
    assert names == [f"c{i}" for i in range(5, 17)]
    assert group.tolist() == places
    figure = figure_of(EmbeddingFile.open(tmp_path / "m.h5"))
    assert figure.legends[0].get_texts()[0].get_text() == "other classes"
    lines = figure.axes[0].lines
    assert len(lines) == 2 * (12 + 1)
    assert lines[0].get_color() == picture.LINE


def test_names_of_classes_are_the_last_part_and_are_cut() -> None:
    whole, cut = (picture._short(f"a/b/{'n' * n}") for n in (24, 25))
    assert whole == "n" * 24
    assert cut == "n" * 23 + "…"
    assert [picture._short("a/"), picture._short("_")] == ["a/", "–"]


def test_few_samples_are_drawn_whole_and_many_by_one_seed() -> None:
    assert picture.sample_rows(picture.POINTS).tolist() == list(range(picture.POINTS))
    rows = picture.sample_rows(70_000)
    assert rows.tolist() == sorted({*rows.tolist()}) == picture.sample_rows(70_000).tolist()
    assert len(rows) == picture.POINTS
    assert 30_000 < rows.mean() < 40_000


def test_inspect_writes_the_map(tmp_path: Path) -> None:
    file = many(tmp_path, [1500, 1000], [-1, -1])

    def inspect(name: str) -> Any:
        return embedbench("inspect", file.path, "--map", tmp_path / name)

    done = inspect("a.svg")
    assert done.exit_code == 0, done.output
    assert ("2,000 of 2,500 samples, seed 0" in done.stderr, "3 float32" in done.stdout) == (1, 1)
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert ">c0</text>" in text
    assert len(text) < 200_000  # the points are an image
    assert inspect("b.svg").exit_code == 0
    assert (tmp_path / "b.svg").read_text("utf-8") == text
    for path, sentence in (("a.svg", "is there already"), ("a.jpeg", "name such a file")):
        assert sentence in str(inspect(path).exception)
    refused = embedbench("inspect", pixel_file(tmp_path).path, "--map", tmp_path / "c.svg")
    assert "holds images, no embeddings" in str(refused.exception)
