"""The layer study: which runs, their numbers, statements and pictures; and FR's costly tables."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fscil_small import Made, flat, made, ours
from reproduce_files import blob_file
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_samples

from embedbench.papers.fscil.paper import LABELS, PAPER, layers
from embedbench.papers.fscil.runs import (
    FACTS,
    NO_LAYERS,
    SWEEPS,
    VARIANTS,
    FSCILRuns,
    of_layers,
    of_losses,
)
from embedbench.papers.fscil.tsne import (
    draw_panels,
    features,
    separate,
)
from embedbench.papers.paper import PaperData
from embedbench.papers.paper_table import PaperTable, table_parts
from embedbench.reports.tables_from_runs import collect
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.few_shot_scores import curves_from_accuracies, summary

NAMES = ("block-8", "block-9")
QUICK = [
    *("fr.batch_classes=4", "fr.batch_samples=4", "fr.epochs=1", "fr.epoch_samples=8"),
    *("protocol.sessions=3", "protocol.val_fraction=0.2"),
]
SIZES = [24, 2, 2, 2]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes of twelve training and twelve test samples."""
    return blob_file(tmp_path_factory.mktemp("data") / "vit.h5", 10, 24, layers=NAMES).path


def runs_on(path: Path, out: Path, items: Sequence[str] = QUICK) -> FSCILRuns:
    return FSCILRuns(out, [0], {"vit": PaperData(path)}, items=items)


# --- which runs ---


def test_a_layer_alone_raw_and_rectified(path: Path, tmp_path: Path) -> None:
    runs = runs_on(path, tmp_path)
    assert runs.layers("vit") == NAMES
    (raw,), (recti,) = (runs.specs("vit", name) for name in ("block-8-raw", "block-9-recti"))
    for cell, *expected in ((raw, "prototype", "block-8", "none"), (recti, "fr", "final", "all")):
        params = asdict(cell.protocol.settings)
        assert [cell.learner.name, params["embedding"], params["layers"]] == expected
    assert asdict(recti.learner.settings)["layers"] == "block-9"
    cells = runs.plan_tables([layers])
    # the prototype and FR, and each of them on each layer; streams differ where the runs do not
    places = {runs.streams.run_dir(c, tmp_path) for c in cells}
    assert len(places) == len(cells) == 2 + 2 * len(NAMES)


def test_the_study_is_of_the_layers_that_fr_takes(path: Path, tmp_path: Path) -> None:
    items = ["protocol.sessions=3", "protocol.val_fraction=0.2"]
    both, one, of_stream, none = (
        runs_on(path, tmp_path, [*items, *more])
        for more in (
            [],
            ["fr.layers=block-9"],
            ["protocol.layers=block-9"],
            ["protocol.layers=none"],
        )
    )
    assert one.layers("vit") == of_stream.layers("vit") == ("block-9",)
    assert none.layers("vit") == ()
    assert NO_LAYERS in layers(none)[0].notes
    assert NO_LAYERS not in layers(both)[0].notes


# --- what is made of them ---


class Studied(Made):
    """Made runs of two layers."""

    def layers(self, name: str) -> tuple[str, ...]:
        return NAMES

    def variants(self, name: str) -> dict[str, object]:  # type: ignore[override]  # labels only
        return {**VARIANTS, **of_layers(NAMES)}


def studied(out: Path, **had: tuple[float, float]) -> Studied:
    """Runs of two seeds, the second a point better; accuracies of base and novel classes."""
    records = {
        name.replace("_", "-"): [
            made(seed, flat(base + seed / 100, novel + seed / 100), SIZES) for seed in (0, 1)
        ]
        for name, (base, novel) in had.items()
    }
    return Studied(out, [0, 1], {"vit": PaperData(out / "vit.h5")}, had=records)


HAD = {
    "block_8_raw": (0.70, 0.45), "block_8_recti": (0.75, 0.48), "block_9_raw": (0.82, 0.35),
    "block_9_recti": (0.76, 0.36), "prototype": (0.80, 0.40), "fr": (0.80, 0.47),
}  # fmt: skip


def test_layers_stand_in_a_row_each_with_the_paper_below(tmp_path: Path) -> None:
    (result,) = layers(studied(tmp_path, **HAD))
    labels_of_ours = [row.labels[1] for row in result.rows]
    assert labels_of_ours == [
        "block-8, raw", "block-8, rectified", "block-9, raw", "block-9, rectified", "final, raw",
        "ensemble",
    ]  # fmt: skip
    assert ours(result, "block-8, raw", "base, last").values == pytest.approx((70, 71))
    assert ours(result, "block-8, raw", "novel, last").values == pytest.approx((45, 46))
    expected = summary(curves_from_accuracies(flat(0.75, 0.48), SIZES))
    for head, number in (("aAcc", "aacc"), ("gAcc", "gacc"), ("novel", "novel_accuracy")):
        stat = ours(result, "block-8, rectified", head)
        assert stat.values[0] == pytest.approx(100 * expected[number])
    # what was not run has no row
    (few,) = layers(studied(tmp_path, prototype=(0.8, 0.4), block_9_raw=(0.7, 0.5)))
    labels_of_ours = [row.labels[1] for row in few.rows]
    assert labels_of_ours == ["block-9, raw", LABELS["prototype"]]


# --- features ---


@pytest.mark.parametrize("seed", range(3))
def test_nearest_neighbours_and_silhouettes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    y = draw.integers(6, size=40)
    y[0] = 7  # a class of one sample has no other
    x = draw.normal(size=(40, 3))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    classes = np.array([1, 3, 4, 7])
    rows = [i for i in range(40) if y[i] in classes and sum(y == y[i]) > 1]
    right = []
    for i in rows:
        nearest = max((j for j in rows if j != i), key=lambda j: float(x[i] @ x[j]))
        right.append(y[i] == y[nearest])
    each = silhouette_samples(x[rows], y[rows], metric="cosine")
    expected = (np.mean(right), each.mean())
    assert separate(x, y, classes) == pytest.approx(expected, abs=1e-6)
    assert np.isnan(separate(x, y, np.array([1, 7]))).all()  # one class is left


def test_panels_show_every_class_at_its_place() -> None:
    """Raw above rectified; points are t-SNE's; base classes are pale."""
    draw = np.random.default_rng(0)
    kinds = {name: draw.normal(size=(30, 4)).astype(np.float32) for name in ("a", "b", "c")}
    rows = {"x": np.arange(5), "y": np.arange(9, 15), "z": np.arange(20, 30)}
    figure = draw_panels(kinds, rows, 2, seed=3)
    assert figure.get_size_inches().tolist() == pytest.approx([2.9, 2.9])  # two panels across
    assert [axes.get_title() for axes in figure.axes] == [*kinds]
    spans = [axes.get_subplotspec() for axes in figure.axes]
    assert [(s.rowspan.start, s.colspan.start) for s in spans if s] == [(0, 0), (0, 1), (1, 0)]
    every = np.concatenate([*rows.values()])
    made = TSNE(perplexity=20 / 3, init="pca", random_state=3).fit_transform(kinds["a"][every])
    lines = figure.axes[0].lines
    assert [line.get_label() for line in lines] == [*rows]
    assert [line.get_alpha() for line in lines] == [0.4, 0.4, 1.0]
    for line, part in zip(lines, np.split(made, [5, 11]), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), part)


def test_features_are_the_layers_and_what_the_modules_make_of_them(
    path: Path, tmp_path: Path
) -> None:
    items = [*QUICK, "fr.layers=block-9,block-8"]
    runs = runs_on(path, tmp_path, items)
    assert runs.layers("vit") == ("block-9", "block-8")
    (cell,) = runs.specs("vit", "fr")
    stream = runs.streams.stream(cell)
    result, y = features(cell, stream, runs.layers("vit"))
    names = ["block-9, raw", "block-8, raw", "final, raw", "block-9, rectified"]
    assert list(result) == [*names, "block-8, rectified"]
    x = np.concatenate([e.x.numpy() for e in stream.eval_sets])
    assert np.array_equal(y, np.concatenate([e.y for e in stream.eval_sets]))
    for name, first in (("final", 0), ("block-8", 6), ("block-9", 12)):
        values = x[:, first : first + 6]
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)
        np.testing.assert_allclose(result[f"{name}, raw"], unit, rtol=1e-5)
    again, _ = features(cell, stream, runs.layers("vit"))
    for kind, values in result.items():
        assert values.shape == (len(y), 6)
        np.testing.assert_array_equal(values, again[kind])
    # cosines of rectified features to the prototypes are what FR answers with
    learner: Any = cell.learner.fresh()
    predictions, _ = run_stream(stream, learner, cell.seeds)
    seen = learner.prototypes.seen
    rows = learner.prototypes.rows[seen].T
    branches = [torch.from_numpy(result[f"block-{k}, rectified"]) @ rows for k in (9, 8)]
    mean = sum(torch.softmax(16 * b, -1) for b in branches)
    answer = seen.nonzero().flatten()[torch.as_tensor(mean).argmax(1)]
    assert (answer.numpy() == np.asarray(predictions.answer)[-1]).mean() > 0.99


# --- all of it ---


@pytest.mark.thorough
def test_costly_tables_on_a_small_file(path: Path, tmp_path: Path) -> None:
    runs = FSCILRuns(tmp_path, [0], items=QUICK)
    tables = PAPER.reproduce(runs, [*PAPER.costly], [str(path)])
    result = {t.name.removesuffix(" · vit"): t for t in tables}
    assert (list(result), runs.failed) == (["Losses", "Layers", "Figure A2", "Figure A4"], [])

    def measured(table: PaperTable) -> list[float]:
        stats = [v.ours for row in table.rows for v in row.values.values() if v.ours]
        assert all(len(s.values) == 1 for s in stats)
        return [s.mean for s in stats]

    for name, n in (("Losses", 4 * (1 + len(of_losses()))), ("Figure A4", 2 * len(SWEEPS))):
        values = measured(result[name])
        assert len(values) == n
        assert all(0 <= v <= 100 for v in values)
    assert len(measured(result["Layers"])) == 6 * 5
    picture = result["Figure A2"]
    assert [row.labels[0] for row in picture.rows] == [
        "block-8, raw", "block-9, raw", "final, raw", "block-8, rectified", "block-9, rectified",
    ]  # fmt: skip
    assert all(set(row.values) == set(FACTS["tables"]["tsne"]["columns"]) for row in picture.rows)
    svg = (tmp_path / "tsne-vit.svg").read_text(encoding="utf-8")
    assert "the picture is tsne-vit.svg" in picture.notes
    for text in ("block-8, rectified", "final, raw", "c0", "c7"):
        assert f">{text}<" in svg
    # no mean takes two embeddings: each is a table of its own, and says so
    groups = {row.group.place: row.group for row in collect(tmp_path / "runs")}
    notes = [n for g in groups.values() for n in g.notes if "in the place" in n]
    assert len(groups) == 1 + len(NAMES) == 1 + len(set(notes))
    assert all(table_parts(t) for t in tables)


def test_without_layers_the_reason_is_told(tmp_path: Path) -> None:
    data, runs = blob_file(tmp_path / "toy.h5", 10, 24), FSCILRuns(tmp_path, [0], items=QUICK)
    tables = PAPER.reproduce(runs, [*PAPER.costly], [str(data.path)])
    assert runs.failed == []
    assert all(any("extract --layers" in note for note in t.notes) for t in tables)
    assert next(t for t in tables if t.name.startswith("Figure A2")).rows == ()
