"""Scores of label sets: by hand, by loops over Python sets, at their edges."""

from dataclasses import replace

import numpy as np
import pytest
from label_set_answers import Sets, above, label_sets, random_label_sets

from embedbench.scores.label_set_predictions import Bytes, LabelSets, levels
from embedbench.scores.label_set_scores import (
    SCORES,
    curves,
    depth_pw_js,
    labels_newest,
    labels_predicted,
    labels_true,
    lone_subclass_precision,
    score_matrix,
    subclass_precision,
    superclass_pw_js,
    superclasses,
)
from embedbench.scores.make_score_matrices import score_matrices

# --- by hand: two polar bears, a brown bear and a bus ---

BEAR, BUS, POLAR, BROWN = range(4)
PARENTS = [-1, -1, BEAR, BEAR]
SESSIONS: Sets = [{BEAR, BUS}, {POLAR}, {BROWN}]
TRUE: Sets = [{BEAR, POLAR}, {BEAR, POLAR}, {BEAR, BROWN}, {BUS}]
GIVEN: list[Sets] = [
    [{BEAR}, {BEAR, BUS}, {BEAR}, {BUS}],
    [{BEAR, POLAR}, {POLAR}, {BEAR, POLAR}, set()],
    [{BEAR, POLAR, BROWN}, {POLAR}, {BEAR, BROWN}, {BUS}],
]


@pytest.fixture
def bears() -> LabelSets:
    return label_sets(TRUE, GIVEN, SESSIONS, PARENTS, [0] * 4)


def test_the_bears(bears: LabelSets) -> None:
    nan = np.nan
    expected = {
        "pw_js": [[13 / 16, nan, nan], [7 / 16, 3 / 4, nan], [53 / 72, 17 / 36, 1]],
        "js": [[7 / 8, nan, nan], [1 / 2, 3 / 4, nan], [19 / 24, 7 / 12, 1]],
        "exact_match": [[3 / 4, nan, nan], [1 / 4, 1 / 2, nan], [1 / 2, 0, 1]],
    }
    found = score_matrices(bears)
    assert tuple(found) == SCORES
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].values, values, rtol=1e-12)
        np.testing.assert_allclose(found[name].pooled, np.array(values)[:, 0], rtol=1e-12)
    assert found["pw_js"].n_samples.tolist() == [4, 2, 1]
    assert found["pw_js"].n_classes.tolist() == [2, 1, 1]
    assert found["pw_js"].classes_seen.tolist() == [2, 3, 4]


def test_the_curves_of_the_bears(bears: LabelSets) -> None:
    nan = np.nan
    expected = {
        "superclass_pw_js": [1, 2 / 3, 2 / 3],
        "subclass_precision": [nan, 2 / 3, 3 / 4],
        "lone_subclass_precision": [1 / 2, nan, 1],
        "labels_predicted": [5 / 4, 5 / 4, 7 / 4],
        "labels_true": [1, 3 / 2, 7 / 4],
        "labels_newest": [1, 3 / 5, 2 / 7],
        "depth_0_pw_js": [13 / 16, 1 / 2, 3 / 4],
        "depth_1_pw_js": [nan, 1, (1 / 4 + 1 + 1) / 3],
    }
    found = curves(bears)
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, err_msg=name)


# --- by loops ---


def plain(p: LabelSets) -> list[tuple[set[int], Sets, Sets]]:
    """Per moment: classes seen, true labels seen, labels given; of the test samples, as sets."""
    here = [i for i in range(len(p.ids)) if p.split[i] == 0]

    def unpack(packed: Bytes) -> Sets:
        rows = np.unpackbits(packed, axis=-1, count=p.seen.shape[1])
        return [set(np.flatnonzero(row).tolist()) for row in rows]

    true = unpack(p.y)
    found = []
    for m in range(len(p.session)):
        seen = set(np.flatnonzero(p.seen[m]).tolist())
        given = unpack(p.answer[m])
        found.append((seen, [true[i] & seen for i in here], [given[i] for i in here]))
    return found


def sample_score(name: str, y: set[int], told: set[int]) -> float:
    if name == "exact_match":
        return float(y == told)
    if not told:
        return 0.0
    js = len(y & told) / len(y | told)
    return js if name == "js" else js * len(y & told) / len(told)


def average(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


CASES = [(0, 9, 0.3), (1, 16, 0.1), (2, 21, 0.6), (3, 70, 0.05), (4, 3, 0.5)]


@pytest.mark.parametrize(("seed", "n_classes", "share"), CASES)
def test_scores_are_the_definition(seed: int, n_classes: int, share: float) -> None:
    p = random_label_sets(seed, n_classes, share)
    sessions = [set(np.flatnonzero(row).tolist()) for row in p.introduces]
    for name in SCORES:
        found = score_matrix(p, name)
        for m, (_, true, given) in enumerate(plain(p)):
            pairs = [(y, g) for y, g in zip(true, given, strict=True) if y]
            pooled = average([sample_score(name, y, g) for y, g in pairs])
            np.testing.assert_allclose(found.pooled[m], pooled, rtol=1e-12)
            for k, own in enumerate(sessions):
                scores = [sample_score(name, y, g) for y, g in pairs if y & own]
                expected = average(scores) if k <= m else float("nan")
                np.testing.assert_allclose(found.values[m, k], expected, rtol=1e-12)


def restricted(pairs: list[tuple[set[int], set[int]]], among: set[int]) -> float:
    kept = [(y & among, g & among) for y, g in pairs if y & among]
    return average([sample_score("pw_js", y, g) for y, g in kept])


def precision(pairs: list[tuple[set[int], set[int]]], among: set[int]) -> float:
    hits = [c in y for y, g in pairs for c in g & among]
    return average([float(h) for h in hits])


@pytest.mark.parametrize(("seed", "n_classes", "share"), CASES)
def test_curves_are_the_definition(seed: int, n_classes: int, share: float) -> None:
    p = random_label_sets(seed, n_classes, share)
    parents = p.parents.tolist()
    classes = set(range(n_classes))
    level = {c: len(above(c, parents)) - 1 for c in classes}
    supers = {c for c in classes if c in parents}
    under = {c for c in classes - supers if parents[c] >= 0}
    assert levels(p.parents).tolist() == [level[c] for c in range(n_classes)]
    assert set(np.flatnonzero(superclasses(p.parents)).tolist()) == supers
    for m, (_, true, given) in enumerate(plain(p)):
        pairs = [(y, g) for y, g in zip(true, given, strict=True) if y]
        newest = set(np.flatnonzero(p.introduces[m]).tolist())
        expected = {
            superclass_pw_js: restricted(pairs, supers),
            subclass_precision: precision(pairs, under),
            lone_subclass_precision: precision(pairs, classes - supers - under),
            labels_predicted: average([len(g) for _, g in pairs]),
            labels_true: average([len(y) for y, _ in pairs]),
            labels_newest: average([float(c in newest) for _, g in pairs for c in g]),
        }
        for curve, value in expected.items():
            np.testing.assert_allclose(curve(p)[m], value, rtol=1e-12)
        for depth in range(max(level.values()) + 1):
            value = restricted(pairs, {c for c in classes if level[c] == depth})
            np.testing.assert_allclose(depth_pw_js(p, depth)[m], value, rtol=1e-12)


# --- edges ---


def test_nothing_and_everything_predicted() -> None:
    everything = [[set(range(n))] * 4 for n in (2, 3, 4)]
    p = label_sets(TRUE, everything, SESSIONS, PARENTS, [0] * 4)
    # after the last session 4 labels are given to each: bears have 2 of them, the bus 1
    for name, value in (("pw_js", (3 / 4 + 1 / 16) / 4), ("js", (3 / 2 + 1 / 4) / 4)):
        assert score_matrix(p, name).pooled[-1] == pytest.approx(value, rel=1e-12)
    assert score_matrix(p, "exact_match").pooled[-1] == 0
    assert labels_predicted(p).tolist() == [2, 3, 4]
    nothing = label_sets(TRUE, [[set()] * 4] * 3, SESSIONS, PARENTS, [0] * 4)
    for name in SCORES:
        found = score_matrix(nothing, name)
        assert (found.pooled == 0).all()
        assert (found.values[np.tril_indices(3)] == 0).all()
    assert np.isnan(subclass_precision(nothing)).all()
    assert np.isnan(labels_newest(nothing)).all()
    assert (superclass_pw_js(nothing) == 0).all()


def test_samples_without_a_seen_label_wait() -> None:
    """The bus is introduced last: until then its sample is in no mean, whatever it is given."""
    given = [[{BEAR}] * 4, [{BEAR, POLAR}, {BEAR, POLAR}, {BEAR}, {POLAR}], TRUE]
    p = label_sets(TRUE, given, [{BEAR}, {POLAR}, {BUS, BROWN}], PARENTS, [0] * 4)
    assert score_matrix(p).pooled.tolist() == [1, 1, 1]
    assert subclass_precision(p).tolist()[1:] == [1, 1]
    assert labels_predicted(p)[1] == pytest.approx(5 / 3)
    assert score_matrix(p).n_samples.tolist() == [3, 2, 2]


def test_without_test_samples_there_are_no_scores(bears: LabelSets) -> None:
    found = score_matrix(replace(bears, split=np.ones_like(bears.split)))
    assert np.isnan(found.pooled).all()
    assert np.isnan(found.values).all()
