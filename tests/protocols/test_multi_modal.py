"""The multi-modal protocol: its streams, its references, and the paper's Table 2 from Table S8."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from plan_runs import plan
from protocol_files import make_file
from report_records import unscored
from toy import predictions

from embedbench.api import build_stream, run, score
from embedbench.config.json_records import plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.write_file import write_file
from embedbench.learning.learner import Context, Learner
from embedbench.papers.paper_folders import facts
from embedbench.protocols.multi_modal import MultiModal
from embedbench.protocols.permutation import Permutation
from embedbench.reports.result_rows import Group
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.stream_cache import reference_key
from embedbench.runs.stream_runner import run_stream
from embedbench.scores import record_files
from embedbench.scores.metrics import Reference, compute
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.scores.verified_records import rescore
from embedbench.streams.stream import Session, Stream
from embedbench.streams.view import rows_of, table_of

NAN = math.nan


def two_files(folder: Path) -> list[EmbeddingFile]:
    """a: 4 columns, 3 classes of 3 + 1 + 1 samples; b: 3 columns, 2 classes of 2 + 1 + 2."""
    return [
        make_file(folder, train=[3] * 3, val=[1] * 3, test=[1] * 3, name="a.h5"),
        make_file(folder, train=[2] * 2, val=[1] * 2, test=[2] * 2, name="b.h5", width=3),
    ]


def build(files: list[EmbeddingFile], seed: int = 0, **params: Any) -> Stream:
    return MultiModal(**params).build(files, seed=seed)


def test_a_session_a_file_by_hand(tmp_path: Path) -> None:
    files = two_files(tmp_path)
    stream = build(files, scale="none")
    assert stream.spec.input_shape == (4,)
    assert stream.spec.n_classes == 5
    assert [s.classes.tolist() for s in stream.sessions] == [[0, 1, 2], [3, 4]]
    assert stream.can_reveal  # to a learner that cannot answer without
    assert rows_of(stream.sessions[0].x).tolist() == [0, 1, 2, 5, 6, 7, 10, 11, 12]
    # rows of b: class by class two to train, one to validate, two to test; ids go on after a's 15
    session, test = stream.sessions[1], stream.eval_sets[1]
    rows = [rows_of(view).tolist() for view in (session.x, session.val_x, test.x)]
    assert rows == [[0, 1, 5, 6], [2, 7], [3, 4, 8, 9]]
    assert (session.ids.tolist(), test.ids.tolist()) == ([15, 16, 20, 21], [18, 19, 23, 24])
    labels = [y.tolist() for y in (session.y, session.val_y, test.y)]
    assert labels == [[3, 3, 4, 4], [3, 4], [3, 3, 4, 4]]
    b = files[1].read()
    for view in (session.x, session.val_x, test.x):
        np.testing.assert_array_equal(view.numpy()[:, :3], b[rows_of(view)])
        np.testing.assert_array_equal(view.numpy()[:, 3:], np.zeros((len(view), 1)))
    first = stream.sessions[0].x
    np.testing.assert_array_equal(first.numpy(), files[0].read()[:13][rows_of(first)])
    assert stream.notes == (
        "b.h5: 3 columns, padded with zeros to 4",
        "answers are among the classes of the sample's own file",
    )


def test_restricted_answers_mask_the_loss_and_the_candidates(tmp_path: Path) -> None:
    files = two_files(tmp_path)
    own = [[True] * 3 + [False] * 2, [False] * 3 + [True] * 2]
    for answers in ("restricted", "all"):
        stream = build(files, answers=answers)
        for session, test, mask in zip(stream.sessions, stream.eval_sets, own, strict=True):
            assert test.classes.tolist() == mask
            for limit in (session.loss_classes, test.candidates):
                assert limit is None if answers == "all" else np.array_equal(limit, mask)
    assert stream.notes == ("b.h5: 3 columns, padded with zeros to 4",)


def test_every_file_is_scaled_by_its_own_training_data(tmp_path: Path) -> None:
    files = two_files(tmp_path)
    stream = build(files, scale_least=4)  # so many has b
    assert (stream.scale, build(files).scale) == ("standard", "rms")
    for file, session in zip(files, stream.sessions, strict=True):
        raw = file.read().astype(np.float64)
        base = raw[rows_of(session.x)]
        expected = np.clip((raw - base.mean(0)) / base.std(0), -5, 5)
        np.testing.assert_allclose(table_of(session.x).values, expected, rtol=2e-6, atol=1e-6)


def test_the_order_of_the_files_is_the_order(tmp_path: Path) -> None:
    a, b = two_files(tmp_path)
    one, other = build([a, b]), build([b, a])
    assert [len(s.classes) for s in other.sessions] == [2, 3]
    assert one.digests["train"] != other.digests["train"]
    assert one.digests["recipe"] == other.digests["recipe"]
    stream = build([a, b, make_file(tmp_path, [2] * 4, [0] * 4, [1] * 4, name="c.h5", width=7)])
    assert stream.spec.input_shape == (7,)
    assert [s.classes.tolist() for s in stream.sessions] == [[0, 1, 2], [3, 4], [5, 6, 7, 8]]
    ids = np.concatenate([p.ids for p in (*stream.sessions, *stream.eval_sets)])
    assert len(np.unique(ids)) == len(ids)


def test_a_projection_is_one_matrix_a_file(tmp_path: Path) -> None:
    files = two_files(tmp_path)
    plain, stream = build(files), build(files, join="project", width=6)
    assert stream.spec.input_shape == (6,)
    assert stream.scale == plain.scale
    matrix = MultiModal(join="project")._matrix(files[0], 6)
    assert matrix[0, :2].tolist() == pytest.approx([-0.3152335, 0.2925342], abs=1e-6)
    matrices = []
    for before, after in zip(plain.sessions, stream.sessions, strict=True):
        x, z = table_of(before.x).values, table_of(after.x).values
        matrix, _, rank, _ = np.linalg.lstsq(x, z, rcond=None)
        assert rank == x.shape[1]
        np.testing.assert_allclose(x @ matrix, z, atol=1e-5)  # exactly linear, up to float32
        matrices.append(matrix)
    assert not np.allclose(matrices[0][:3], matrices[1])
    assert "a.h5: 4 columns, projected to 6 at random" in stream.notes
    turned = build(files[::-1], join="project", width=6)  # a file's matrix is its own
    np.testing.assert_array_equal(
        table_of(turned.sessions[0].x).values, table_of(stream.sessions[1].x).values
    )


def test_a_projection_keeps_lengths_on_average(tmp_path: Path) -> None:
    # ‖xP‖² / ‖x‖² is chi-squared with `width` degrees of freedom over width: deviation √(2/width),
    # .032 here; 5 of them
    files = two_files(tmp_path)
    plain, stream = build(files), build(files, join="project", width=2000)
    for before, after in zip(plain.sessions, stream.sessions, strict=True):
        ratio = (after.x.numpy() ** 2).sum(1) / (before.x.numpy() ** 2).sum(1)
        np.testing.assert_allclose(ratio, 1, atol=0.16)
    # another seed is another recipe
    one, two = (build(files, join="project", projection=k) for k in (0, 1))
    assert {key for key in one.digests if one.digests[key] == two.digests[key]} == {"train", "eval"}
    assert not np.allclose(one.sessions[0].x.numpy(), two.sessions[0].x.numpy())


def test_what_is_refused(tmp_path: Path) -> None:
    a, b = two_files(tmp_path)
    copy = write_file(tmp_path / "copy.h5", a.samples, a.read(), a.provenance)
    for files, settings, refusal in (
        ([a], {}, {"check": says(expected="2 or more", got=1)}),
        ([a, b, copy], {}, {"match": "two files hold"}),
        *(([a, b], {"width": n}, {"match": f"width {n} .* 4 .* a.h5"}) for n in (1, 3)),
        ([a, b], {"width": -1}, {"check": says(what="width", got=-1)}),
        ([a, b], {"join": "padd"}, {"match": "'padd'.* 'pad'"}),
        ([a, b], {"answers": "own"}, {"match": "answers 'own'"}),
    ):
        with pytest.raises(UserError, **refusal):
            build(files, **settings)
    # the same samples through two backbones are two modalities
    other = write_file(tmp_path / "other.h5", a.samples, a.read()[:, ::-1], {"backbone": {}})
    assert len(build([a, other]).sessions) == 2


def test_the_reference_of_a_modality_is_that_of_its_file_in_other_protocols(tmp_path: Path) -> None:
    files = two_files(tmp_path)
    for order in (files, files[::-1]):
        for file, alone in zip(order, build(order).references, strict=True):
            (elsewhere,) = Permutation(sessions=2).build([file], seed=7).references
            assert alone.digests == elsewhere.digests
            assert alone.spec == elsewhere.spec
            assert reference_key(alone) == reference_key(elsewhere)
            rows = [stream.sessions[0].x.numpy() for stream in (alone, elsewhere)]
            np.testing.assert_array_equal(*rows)


class Fixed(Learner):
    """Prefers classes in a given order, whatever it is shown; keeps what it is told."""

    def __init__(self, order: list[int]) -> None:
        self.rank = -np.argsort(order).astype(np.float32)
        self.validated: list[float] = []

    def start(self, spec: Any, seeds: Seeds, device: str) -> None:
        pass

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.validated.append(ctx.validate(self.scores))
        return {}

    def scores(self, x: Any, *, session_id: Any = None) -> Any:
        return np.tile(self.rank, (len(x), 1))


def test_answers_and_validation_are_among_the_modalitys_classes(tmp_path: Path) -> None:
    files, best = two_files(tmp_path), [1] * 3 + [4] * 4  # of 0, 1, 2 and of 3, 4
    for answers, expected in ("restricted", best), ("all", [4] * 7):
        learner = Fixed([4, 1, 3, 0, 2])
        p, _ = run_stream(build(files, answers=answers), learner, Seeds.of(0))
        assert p.within.tolist() == [best] * 2
        assert learner.validated == [pytest.approx(1 / 3), pytest.approx(1 / 2)]
        assert p.answer[1].tolist() == expected
    assert p.answer[0].tolist() == [1] * 7
    assert math.isnan(p.score_matrix().R[0, 1])  # the second modality's classes were not seen


def test_chance_is_among_the_classes_an_answer_is_chosen_from(tmp_path: Path) -> None:
    # 360 classes, then 40. Of the second modality 1 of 40 is right: chance, but ten times what
    # guessing among all 400 classes would give.
    groups = [list(range(360)), list(range(360, 400))]
    answers = [[0] * 400, [*range(360), *[360] * 40]]
    within = [answers[1], answers[1]]
    predictions(groups, answers, groups, within=within).save(tmp_path / "predictions.h5")
    for candidates, flagged in ({}, False), ({"n_candidates": [360, 40]}, True):
        made = record_files.evaluate(unscored(2, **candidates), tmp_path, tmp_path)
        assert ("not-learned" in made.flags) is flagged


BRIEF = ["stop.rule=epochs", "stop.epochs=3", "units=8"]
FAST = [*BRIEF, *(f"offline.mlp.{item}" for item in BRIEF)]


def blobs(folder: Path, name: str, n_classes: int, width: int) -> str:
    rng = np.random.default_rng(n_classes)
    file = make_file(folder, [12] * n_classes, [0] * n_classes, [5] * n_classes, name=name)
    x = rng.normal(size=(n_classes, width))[file.labels] * 2
    x += rng.normal(size=x.shape)
    return str(write_file(folder / f"{name}.h5", file.samples, x.astype(np.float32), {}).path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """MLP and NCM on two files in both orders, α_ideal from two runs."""
    folder = tmp_path_factory.mktemp("modal")
    files = [blobs(folder, "first", 5, 6), blobs(folder, "second", 3, 4)]
    settings = [*FAST, "references=2"]
    for order in (files, files[::-1]):
        cells = plan(order, "multi-modal", ["mlp", "ncm"], [0], settings)
        assert not run_grid(cells, folder / "runs").failed
    return folder / "runs", files


def test_both_orders_share_one_reference_a_file(runs: tuple[Path, list[str]]) -> None:
    root, files = runs
    references = [record_files.load(p.parent) for p in root.glob("references/*/*/record.json")]
    names = sorted(f.name for r in references for f in r.files)
    assert names == sorted([Path(f).name for f in files] * 2)  # two runs each
    ideals: dict[str, list[float]] = {}
    for r in references:
        assert len(r.n_classes) == 1
        assert r.n_classes[0] == len(r.classes[0])
        ideals.setdefault(r.files[0].name, []).append(r.R[0][0])
    for place in record_files.find(root):
        kept = record_files.load(place)
        expected = [np.mean(ideals[f.name]) for f in kept.files]
        assert kept.reference.ideal["class_accuracy"] == pytest.approx(expected)
        assert plain(kept.reference.ideal["within_accuracy"]) == [None, None]


def test_omega_of_a_record_by_hand(runs: tuple[Path, list[str]]) -> None:
    places = record_files.find(runs[0])
    assert len(places) == 2 * 3  # mlp, ncm, chance
    for place in places:
        kept = record_files.load(place)
        (a, b), R = kept.reference.ideal["class_accuracy"], kept.R
        metrics = kept.metrics
        assert metrics["omega_base"] == pytest.approx(R[1][0] / a)
        assert metrics["omega_new"] == R[1][1]
        assert metrics["omega_all"] == pytest.approx((R[1][0] / a + R[1][1] / b) / 2)
        assert not rescore(place, runs[0]).differs
        assert f"{100 * a:.1f} %, {100 * b:.1f} %" in " ".join(Group("place", (kept,)).describe())


def test_the_offline_learner_has_each_file(runs: tuple[Path, list[str]], tmp_path: Path) -> None:
    _, files = runs
    settings = [f"offline.mlp.{i}" for i in BRIEF]
    outcome = run_grid(plan(files, "multi-modal", ["offline"], [0], settings), tmp_path)
    shown = [[f.name for f in record_files.load(p).files] for p in outcome.run_dirs]
    assert shown == [[Path(f).name] for f in files]


def test_the_api_scores_by_the_reference_of_each(runs: tuple[Path, list[str]]) -> None:
    stream = build_stream(runs[1], "multi-modal")
    answers = run(stream, "ncm")
    offline = [run(alone, "ncm") for alone in stream.references]
    R = answers.score_matrix().R
    a, b = (float(p.score_matrix().pooled[-1]) for p in offline)
    found = score(answers, offline=offline)
    assert found["omega_all"] == pytest.approx((R[1, 0] / a + R[1, 1] / b) / 2)
    assert found["omega_base"] == pytest.approx(1.0)  # restricted class means do not interfere
    assert found["omega_all"] == pytest.approx(1.0)


def matrix(R: list[list[float]] | Any) -> ScoreMatrix:
    n = len(R)
    return ScoreMatrix(
        name="class_accuracy",
        values=np.array(R, dtype=np.float64),
        pooled=np.full(n, 0.123),  # no metric below may use it
        session=np.arange(n),
        samples_seen=np.arange(n),
        classes_seen=np.arange(1, n + 1),
        n_samples=np.full(n, 10),
        n_classes=np.full(n, 1),
        learned=np.arange(n),
        per_class=np.full((n, 1), np.nan),
        class_sizes=np.full(1, np.nan),
    )


@pytest.mark.parametrize("divided", [False, True])
def test_own_references_by_plain_loops(divided: bool) -> None:
    rng, T = np.random.default_rng(0), 4
    R, ideal = rng.uniform(size=(T, T)), rng.uniform(0.2, 1, T)
    found = compute(matrix(R), Reference(ideal=ideal, normalise_new=divided))
    base = new = everything = 0.0
    for i in range(1, T):
        base += R[i, 0] / ideal[0]
        new += R[i, i] / (ideal[i] if divided else 1.0)
        everything += sum(R[i, j] / ideal[j] for j in range(i + 1)) / (i + 1)
    assert found["omega_base"] == pytest.approx(base / (T - 1))
    assert found["omega_new"] == pytest.approx(new / (T - 1))
    assert found["omega_all"] == pytest.approx(everything / (T - 1))


@pytest.mark.parametrize("missing", [NAN, 0.0])
def test_a_missing_own_reference_leaves_no_silent_number(missing: float) -> None:
    scores = matrix([[0.5, NAN], [0.4, 0.3]])
    for ideal, base in (([0.5, missing], 0.8), ([missing, 0.5], NAN)):
        values = compute(scores, Reference(ideal=np.array(ideal)))
        assert values["omega_base"] == pytest.approx(base, nan_ok=True)
        assert math.isnan(values["omega_all"])


TABLES = facts("kemker2018")["printed"]["tables"]
PRINTED = {(r["learner"], r["data"]): r for r in TABLES["2"] if r["protocol"] == "multi-modal"}
OFFLINE = {"cub": 0.621, "audioset": 0.461}
ODD = {
    # 47.1 / 46.1 = 1.022 is printed clipped; Ω_all of the same row is not
    ("ewc", "audioset", "omega_base"): 1.022,
    # 1.0 % is .010; .329 is FEL's value, two rows below
    ("geppnet-stm", "cub", "omega_new"): 0.010,
}


@pytest.mark.parametrize("row", TABLES["S8"], ids=lambda row: f"{row['learner']} {row['data'][0]}")
def test_table_2_follows_from_table_s8(row: dict[str, Any]) -> None:
    key = row["learner"], row["data"][0]
    (initial, _), (final, second) = (np.array(row[name]) / 100 for name in ("initial", "final"))
    ideal = np.array([OFFLINE[data] for data in row["data"]])
    found = compute(matrix([[initial, NAN], [final, second]]), Reference(ideal=ideal))
    for name in ("omega_base", "omega_new", "omega_all"):
        printed = PRINTED[key][name]
        expected = ODD.get((*key, name), printed)
        assert round(found[name], 3) == pytest.approx(expected, abs=1e-9), name
        assert (expected == printed) is ((*key, name) not in ODD)
