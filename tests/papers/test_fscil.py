"""The reproduction of FSCIL: printed cells, tables of made runs, layers and pictures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from file_helpers import says
from report_records import scored
from reproduce_files import blob_file, by_labels
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_samples

from embedbench.array_types import Floats
from embedbench.errors import UserError
from embedbench.papers.fscil import paper
from embedbench.papers.fscil.paper import PAPER, follows, printed_rows, row_name
from embedbench.papers.fscil.runs import (
    FACTS,
    LEARNERS,
    NO_LAYERS,
    SWEEPS,
    FSCILRuns,
    of_losses,
    shape,
    weights,
)
from embedbench.papers.fscil.tsne import draw_panels, features, separate
from embedbench.papers.paper import PaperData
from embedbench.papers.paper_table import PaperTable, table_parts
from embedbench.reports.tables_from_runs import collect
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.few_shot_scores import aacc, curves_from_accuracies, summary
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.studies.study import parse_settings

SIZES = [24, 2, 2, 2]
MARKED = {(m["table"], m["row"], m["column"].lower()) for m in FACTS["printed"]["misprints"]}
# Rows whose printed gAcc is further than .05 from what follows; Table 1 has .4 and more wrong.
FAR = {
    "A6": {"SAVC": 0.23, "Regularizer": -0.98, "Vit-Baseline": -0.07, "+YourSelf (Ours)": 0.35},
    "A7": {"+YourSelf (Ours)": -0.14},
}


def test_means_are_those_of_their_rows_but_for_the_misprints() -> None:
    for number in FACTS["printed"]["tables"]:
        # nearly all means of CUB-200 are about .1 off, in both directions
        tolerance = 0.14 if number in ("2", "A8") else 0.05
        for row in printed_rows(number):
            computed = {k: v for k, v in follows(number, row).items() if k in ("mean", "aacc")}
            for cell, value in computed.items():
                wrong = {c for t, n, c in MARKED if (t, n) == (number, row_name(row))}
                if not wrong & {cell, "2", "11"}:
                    assert row[cell] == pytest.approx(value, abs=tolerance), (number, row_name(row))


@pytest.mark.parametrize("number", FAR)
def test_the_printed_gacc_follows_from_the_printed_accuracies(number: str) -> None:
    for row in printed_rows(number):
        gap = follows(number, row)["gacc"] - row["gacc"]
        expected = FAR[number].get(row_name(row), 0.0)
        assert gap == pytest.approx(expected, abs=0.05 if not expected else 0.006), row_name(row)
    # SAVC follows with one digit of Table 1 changed
    savc, novel = (next(r for r in printed_rows(n) if row_name(r) == "SAVC") for n in ("1", "A6"))
    changed = {**savc, "sessions": [68.4 if v == 71.4 else v for v in savc["sessions"]]}
    assert follows("1", changed)["gacc"] == pytest.approx(novel["gacc"], abs=0.03)


def test_a_matrix_has_the_accuracies_that_it_was_made_of() -> None:
    draw = np.random.default_rng(0)
    sessions, novel = draw.uniform(20, 90, 5), draw.uniform(5, 60, 4)
    result = paper.matrix(sessions.tolist(), novel.tolist(), ratio=3.0)
    assert np.array_equal(np.isnan(result), ~np.tri(5, dtype=np.bool_))
    np.testing.assert_allclose(100 * aacc(result, [6, 2, 2, 2, 2]), sessions)
    np.testing.assert_allclose(100 * np.tril(result)[1:, 1:].sum(axis=1) / [1, 2, 3, 4], novel)


def test_tables_show_what_follows_and_mark_misprints() -> None:
    assert [row_name(row) for row in printed_rows("4")] == ["none", "cos_nov", "cr", "all losses"]
    one, case = paper.table("1"), paper.table("A1")
    rows = {row.labels[0]: row.values for row in one.rows}
    assert rows["NC-FSCIL"]["gAcc"].texts() == ("60.93", "60.93", "+0.00")
    assert "gAcc" not in rows["TOPIC †"]
    assert any(note.startswith("SAVC, 4: printed 71.4, reads 68.4: ") for note in one.notes)
    remarks = {place: remark.partition(": ")[0] for place, remark in one.remarks}
    assert remarks["Regularizer, aAcc"] == "printed 62.82, reads 60.83"
    assert case.rows[1].labels == ("f_2", "85", "0", *[""] * 7)


def test_data_have_the_papers_names_only_where_they_are_said_to(tmp_path: Path) -> None:
    toy = str(blob_file(tmp_path / "toy.h5", 40, 4).path)
    all_classes = str(blob_file(tmp_path / "hundred.h5", 100, 4).path)
    runs = FSCILRuns(tmp_path, [0])
    given = [f"mini-imagenet={all_classes}", f"cifar100={toy}", toy]
    runs.data = result = runs.find_data(given)
    assert [runs.label(name) for name in result] == [
        "a part of miniImageNet, another backbone (hundred)",
        "a part of CIFAR-100, another backbone (toy)",
        "toy, a stand-in",
    ]
    settings = [runs.specs(name, "ncm")[0].protocol.settings for name in result]
    assert runs.specs("toy", "ncm")[0].references == 0  # no table shows Ω
    assert [of.lists for of in settings[:2]] == ["mini-imagenet", ""]
    for of in settings[1:]:  # the lists name all classes
        assert [getattr(of, key) for key in ("base", "way", "order")] == [24, 2, "size"]
    birds = str(blob_file(tmp_path / "cub200.h5", 4, 4).path)
    with pytest.raises(UserError, check=says(what="--data", got=birds)):
        runs.find_data([birds])
    with pytest.raises(UserError, check=says(what="--data", got=f"imagenet={toy}")):
        runs.find_data([f"imagenet={toy}"])
    shapes = {3: (1, 1), 10: (6, 1), 19: (11, 1), 20: (12, 1), 39: (12, 1), 299: (168, 14)}
    assert {n: shape(n) for n in shapes} == shapes  # of 20 classes and more the paper's ratio


def test_what_needs_layers_is_left_out_without(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "toy.h5", 40, 4)
    runs = FSCILRuns(tmp_path, [0], {"toy": PaperData(file.path)})
    possible = [runs.possible("toy", name) for name in ("ncm", "fr", "fr-paper-cr")]
    assert possible == [True, False, False]
    assert runs.specs("toy", "fr") == []
    # by FR's own weights a row of losses is the same run as FR itself
    file = blob_file(tmp_path / "layers.h5", 10, 4, layers=["block-8"])
    runs = FSCILRuns(tmp_path, [0], {"toy": PaperData(file.path)})
    (named,), (default,) = (runs.specs("toy", v) for v in ("fr-paper-softmax", "fr"))
    assert len({make_task(spec, tmp_path, runs.streams).place for spec in (named, default)}) == 1


def test_equal_weights_are_run_once(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "toy.h5", 24, 4, layers=["block-8"])
    data, few = {"toy": PaperData(file.path)}, ["prototype", "ncm", "fr"]
    runs = FSCILRuns(tmp_path, [3, 4], data, learners=few)

    def plan(*tables: str) -> list[tuple[str, int]]:
        makers = {**PAPER.tables, **PAPER.costly}
        specs = runs.plan_tables(makers[table] for table in tables)
        return [(spec.learner.name, spec.seed) for spec in specs]

    names = ["prototype", "fr", "ncm"]
    assert plan("learners") == [(name, seed) for seed in (3, 4) for name in names]
    assert plan("compared") == [("fr", 3), ("fr", 4)]  # Table 1 has no baseline
    # three weights of five values, one of each FR's own
    assert len(plan("figa4")) == 2 * (1 + 3 * 4)
    # the prototype, NCM, FR, which is the paper's row of all losses, and seven further rows
    assert len(plan("losses", "learners")) == 2 * (2 + len(of_losses()))


# As printed in A5.3, which has none for CUB-200, and in the three scripts of the authors:
# w_cos, w_novel, w_class, w_same, w_different.
@pytest.mark.parametrize(
    ("whose", "official", "expected"),
    [
        ("paper", None, (0.1, 0.1, 0.5, 1, 1)),
        ("paper", "mini-imagenet", (0.1, 0.1, 0.1, 0.5, 0.5)),
        ("code", None, (0.1, 2, 0.5, 1, 1)),
        ("code", "mini-imagenet", (0.1, 0.5, 0.1, 1, 1)),
        ("code", "cub200", (0.1, 0.5, 1, 1, 1)),
    ],
)
def test_weights_by_data_set(whose: str, official: str | None, expected: tuple[float, ...]) -> None:
    assert tuple(weights(whose, official).values()) == expected
    assert weights(whose, "cifar100") == weights(whose)
    every = of_losses(official)
    fixed = [f"fr.{k}={v:g}" for k, v in weights(whose, official).items()]
    none = ["fr.w_same=0", "fr.w_different=0"]
    for row, items in {
        "softmax": [*fixed, "fr.ensemble=softmax"],
        "cosine": [*fixed, "fr.ensemble=cosine"],
        "cr": [*fixed[:3], *none],
        "cos": [*fixed[:2], "fr.w_class=0", *none],
    }.items():
        assert every[f"fr-{whose}-{row}"].fixed == parse_settings(items)
    # a sweep changes the weights that the paper calls one
    assert SWEEPS["fr-β_cos-0.25"].fixed == parse_settings(["fr.w_cos=0.25", "fr.w_novel=0.25"])
    assert SWEEPS["fr-β_IR-0"].fixed == parse_settings(none)


@dataclass
class Made(FSCILRuns):
    """Runs with the records of `had`, by variant, on a file with layers or without."""

    had: dict[str, list[RunRecord]] = field(default_factory=dict)
    of_file: tuple[str, ...] = ()

    def of(self, name: str, variant: str) -> list[RunRecord]:
        return self.had.get(variant, [])

    def layers(self, name: str) -> tuple[str, ...]:
        return self.of_file


def make_runs(official: str | None = None, layers: Sequence[str] = (), **had: list[Floats]) -> Made:
    """Runs on a data set of the paper, or on a stand-in: the accuracies of each seed."""
    records = {
        variant.replace("_", "-"): [
            scored(R, R[-1], curves_from_accuracies(R, SIZES), seed=seed, n_classes=SIZES)
            for seed, R in enumerate(each)
        ]
        for variant, each in had.items()
    }
    data = {official or "toy": PaperData(Path("toy.h5"), official)}
    return Made(Path(), [0, 1], data, had=records, of_file=tuple(layers))


def flat(base: float, novel: float) -> Floats:
    R = np.where(np.tri(4, dtype=np.bool_), novel, np.nan)
    R[:, 0] = base
    return R


def ours(table: PaperTable, label: str, head: str) -> Stat:
    (values,) = [row.values for row in table.rows if label in row.labels]
    stat = values[head].ours
    assert stat is not None
    return stat


def test_losses_are_added_under_both_weights_and_for_both_ensembles() -> None:
    runs = make_runs(
        prototype=[flat(0.8, 0.2), flat(0.9, 0.2)],
        fr_paper_cos=[flat(0.7, 0.3)],
        fr_paper_cr=[flat(0.781, 0.3), flat(0.9, 0.3)],
        fr_paper_softmax=[flat(0.7, 0.3)],
        fr_paper_cosine=[flat(0.8, 0.3), flat(0.875, 0.3)],
        fr_code_cr=[flat(0.78, 0.4), flat(0.88, 0.4)],
    )
    (added,) = paper.losses(runs)
    none, cos, cr, every = "68.74 / 57.87", "66.84 / 60.89", "68.60 / 61.38", "68.80 / 62.20"
    assert [row.labels[1] for row in added.rows] == [none, cos, cr, every, every, cr]
    labels = [row.labels[0] for row in added.rows]
    whose = [*["paper"] * 4, "code"]
    assert all(f"the {w}'s weights" in label for w, label in zip(whose, labels[1:], strict=True))
    assert "mean of cosines" in labels[4]
    assert ours(added, labels[4], "base, first").values == pytest.approx((80, 87.5))
    assert added.parts == [1]  # nothing is published, so there is no column of dashes
    runs.had["fr-β_CR-0.25"] = runs.had["fr-code-cr"]
    (swept,) = paper.sweeps(runs)
    ((labels_of_sweep, values),) = by_labels(swept).items()
    assert labels_of_sweep == ("β_CR", "0.25")
    assert values["aAcc"].ours is not None


def test_rows_of_learners_stand_beside_the_tables_that_have_them() -> None:
    had = {"prototype": [flat(0.8, 0.2)], "fr": [flat(0.7, 0.3)]}
    tables = paper.compare_rows(make_runs("mini-imagenet", **had))
    assert [t.heads for t in tables] == [("method",), ("method",), ("layer",), ("method",)]
    of = {t.name: by_labels(t) for t in tables}
    assert list(of) == [f"{number}, runs" for number in ("1", "5", "6", "A6")]
    ours_and_base = [("1", "YourSelf (Ours)", "fr"), ("5", "ViT baseline", "prototype")]
    for number, row, variant in ours_and_base:
        value = of[f"{number}, runs"][row,]["aAcc"]
        expected = 100 * float(aacc(had[variant][0], SIZES).mean())
        assert value.published is not None
        assert value.ours.mean == pytest.approx(expected)  # type: ignore[union-attr]
        assert value.made == "drawn"
        assert value.decimals == 2
    (of_stand_in,) = paper.compare_rows(make_runs(fr=[flat(0.8, 0.2)]))  # a run once
    assert of_stand_in.name == "1, runs · toy"
    (values,) = (row.values for row in of_stand_in.rows)
    assert values["gAcc"].published == 62.2
    assert values["gAcc"].difference is None


def test_all_of_it_on_a_small_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = list[str]()
    runs = FSCILRuns(out, [0, 1], learners=["prototype", "ncm"], notify=said.append)
    tables = PAPER.reproduce(runs, ["A1", "A2"], ["none.h5"])  # needs no data
    assert [t.name for t in tables] == ["A1", "A2"]
    assert list(out.iterdir()) == []
    file = blob_file(tmp_path / "toy.h5", 24, 24)
    (table,) = PAPER.reproduce(runs, [*PAPER.tables], [str(file.path)])
    assert table.name == "Learners · toy"
    assert runs.failed == []
    for label in (LEARNERS["prototype"].label, LEARNERS["ncm"].label):
        stat = ours(table, label, "gAcc")
        assert len(stat.values) == 2
        assert 0 < stat.mean < 100
    assert said == ["4 runs; those that are finished are kept"]
    # what cannot be trusted is left out, with a sentence
    again = FSCILRuns(out, [0, 1], runs.data)
    (spec, _) = again.specs("toy", "ncm")
    (make_task(spec, again.runs_dir, again.streams).run_dir / "predictions.h5").write_bytes(b"")
    assert [len(again.of("toy", "ncm")) for _ in range(2)] == [1, 1]
    assert len(again.failed) == 1
    assert again.failed[0].startswith("left out: ")


def test_learners_stand_in_the_order_of_gacc() -> None:
    runs = make_runs(
        ncm=[flat(0.8, 0.2), flat(0.82, 0.2)], prototype=[flat(0.72, 0.52)], slda=[flat(0.6, 0.1)]
    )
    (result,) = paper.learners(runs)
    names = [LEARNERS[n].label for n in ("prototype", "ncm", "slda")]
    assert [row.labels for row in result.rows] == [("toy, a stand-in", name) for name in names]
    assert ours(result, "NCM", "novel").values == pytest.approx((20, 20))
    assert ours(result, "NCM", "lAcc").values == pytest.approx((68, 69.6))
    assert ours(result, "NCM", "base, first").values == pytest.approx((80, 82))
    values = [v for row in result.rows for v in row.values.values()]
    assert {(v.published, v.decimals) for v in values} == {(None, 2)}


NAMES = ("block-8", "block-9")
QUICK = [
    *("fr.batch_classes=4", "fr.batch_samples=4", "fr.epochs=1", "fr.epoch_samples=8"),
    *("protocol.sessions=3", "protocol.val_fraction=0.2"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes of five training samples, and as many test samples as a picture needs."""
    return blob_file(tmp_path_factory.mktemp("data") / "vit.h5", 10, 10, layers=NAMES).path


def runs_on(path: Path, out: Path, items: Sequence[str] = QUICK) -> FSCILRuns:
    return FSCILRuns(out, [0], {"vit": PaperData(path)}, items=items)


def test_a_layer_alone_raw_and_rectified(path: Path, tmp_path: Path) -> None:
    runs = runs_on(path, tmp_path)
    assert runs.layers("vit") == NAMES
    (raw,), (recti,) = (runs.specs("vit", name) for name in ("block-8-raw", "block-9-recti"))
    for cell, *expected in ((raw, "prototype", "block-8", "none"), (recti, "fr", "final", "all")):
        params = asdict(cell.protocol.settings)
        assert [cell.learner.name, params["embedding"], params["layers"]] == expected
    assert asdict(recti.learner.settings)["layers"] == "block-9"
    cells = runs.plan_tables([paper.layers])
    # the prototype and FR, and each of them on each layer; streams differ where the runs do not
    places = {make_task(c, tmp_path, runs.streams).place for c in cells}
    assert len(places) == len(cells) == 2 + 2 * len(NAMES)


def test_the_study_is_of_the_layers_that_fr_takes(path: Path, tmp_path: Path) -> None:
    items = ["protocol.sessions=3", "protocol.val_fraction=0.2"]
    each = ([], ["fr.layers=block-9"], ["protocol.layers=block-9"], ["protocol.layers=none"])
    both, one, of_stream, none = (runs_on(path, tmp_path, [*items, *more]) for more in each)
    assert one.layers("vit") == of_stream.layers("vit") == ("block-9",)
    assert none.layers("vit") == ()
    assert NO_LAYERS in paper.layers(none)[0].notes
    assert NO_LAYERS not in paper.layers(both)[0].notes


def test_layers_stand_in_a_row_each() -> None:
    some = {"prototype": [flat(0.8, 0.4)], "block_9_raw": [flat(0.82, 0.35)]}
    (few,) = paper.layers(make_runs(layers=NAMES, **some))  # what was not run has no row
    assert [row.labels[1] for row in few.rows] == ["block-9, raw", paper.LABELS["prototype"]]
    some |= {"block_8_raw": some["prototype"], "block_9_recti": some["prototype"]}
    some |= {"block_8_recti": [flat(0.75, 0.48), flat(0.76, 0.49)], "fr": some["prototype"]}
    (result,) = paper.layers(make_runs(layers=NAMES, **some))
    assert [row.labels[1] for row in result.rows] == [
        "block-8, raw", "block-8, rectified", "block-9, raw", "block-9, rectified", "final, raw",
        "ensemble",
    ]  # fmt: skip
    values = {head: v.ours.values for head, v in result.rows[1].values.items() if v.ours}
    pairs = ((0.75, 0.48), (0.76, 0.49))
    expected = [summary(curves_from_accuracies(flat(*pair), SIZES)) for pair in pairs]
    names = {"aAcc": "aacc", "gAcc": "gacc", "novel": "novel_accuracy"}
    assert values == {
        **{h: pytest.approx([100 * e[name] for e in expected]) for h, name in names.items()},
        "base, last": pytest.approx((75, 76)),
        "novel, last": pytest.approx((48, 49)),
    }


def test_nearest_neighbours_and_silhouettes() -> None:
    draw = np.random.default_rng(0)
    y = draw.integers(6, size=40)
    y[:3] = 7, 8, 8  # a class of one sample has no other
    x = draw.normal(size=(40, 3))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    classes = np.array([1, 3, 4, 7, 8])
    rows = [i for i in range(40) if y[i] in classes and sum(y == y[i]) > 1]
    right = []
    for i in rows:
        nearest = max((j for j in rows if j != i), key=lambda j: float(x[i] @ x[j]))
        right.append(y[i] == y[nearest])
    each = silhouette_samples(x[rows], y[rows], metric="cosine")
    assert separate(x, y, classes) == pytest.approx((np.mean(right), each.mean()), abs=1e-6)
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
    assert [s and s.get_geometry() for s in spans] == [(2, 2, k, k) for k in range(3)]
    every = np.concatenate([*rows.values()])
    made = TSNE(perplexity=20 / 3, init="pca", random_state=3).fit_transform(kinds["a"][every])
    with mock.patch("sklearn.manifold.TSNE", side_effect=TSNE) as many:
        draw_panels({"a": draw.normal(size=(99, 4))}, {"x": np.arange(99)}, 1, seed=3)
    assert many.call_args.kwargs["perplexity"] == 30
    lines = figure.axes[0].lines
    assert [line.get_label() for line in lines] == [*rows]
    assert [line.get_alpha() for line in lines] == [0.4, 0.4, 1.0]
    for line, part in zip(lines, np.split(made, [5, 11]), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), part)


def test_features_are_layers_and_outputs_of_modules(path: Path, tmp_path: Path) -> None:
    runs = runs_on(path, tmp_path, [*QUICK, "fr.layers=block-9,block-8"])
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


@pytest.mark.thorough
def test_costly_tables_on_a_small_file(path: Path, tmp_path: Path) -> None:
    runs = FSCILRuns(tmp_path, [0], items=QUICK)
    tables = PAPER.reproduce(runs, [*PAPER.costly], [str(path)])
    result = {t.name.removesuffix(" · vit"): t for t in tables}
    assert list(result) == ["Losses", "Layers", "Figure A2", "Figure A4"]
    assert runs.failed == []

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
    for text in ("block-8, rectified", "final, raw"):
        assert f">{text}<" in svg
    assert [c for c in range(10) if f">c{c}<" in svg] == [0, 1, 2, 3, 6, 7]  # of six and two
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
