"""Scores of label sets: by hand, and by loops over Python sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from file_helpers import says
from label_set_answers import (
    BEARS,
    Sets,
    above,
    random_label_sets,
)
from report_records import unscored

from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import Bytes, LabelSets, levels, superclasses

NAN = np.nan


def test_scores_by_hand() -> None:
    expected = {
        "pw_js": [[13 / 16, NAN, NAN], [7 / 16, 3 / 4, NAN], [53 / 72, 17 / 36, 1]],
        "js": [[7 / 8, NAN, NAN], [1 / 2, 3 / 4, NAN], [19 / 24, 7 / 12, 1]],
        "exact_match": [[3 / 4, NAN, NAN], [1 / 4, 1 / 2, NAN], [1 / 2, 0, 1]],
    }
    found = BEARS.score_matrices()
    assert tuple(found) == LabelSets.SCORES
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].values, values, rtol=1e-12)
        np.testing.assert_allclose(found[name].pooled, np.array(values)[:, 0], rtol=1e-12)
        assert found[name].n_samples.tolist() == [4, 2, 1]
        assert found[name].n_classes.tolist() == [2, 1, 1]
        assert found[name].classes_seen.tolist() == [2, 3, 4]


def test_curves_by_hand() -> None:
    expected = {
        "superclass_pw_js": [1, 2 / 3, 2 / 3],
        "subclass_precision": [NAN, 2 / 3, 3 / 4],
        "lone_subclass_precision": [1 / 2, NAN, 1],
        "labels_predicted": [5 / 4, 5 / 4, 7 / 4],
        "labels_true": [1, 3 / 2, 7 / 4],
        "labels_newest": [1, 3 / 5, 2 / 7],
        "depth_0_pw_js": [13 / 16, 1 / 2, 3 / 4],
        "depth_1_pw_js": [NAN, 1, (1 / 4 + 1 + 1) / 3],
    }
    found = BEARS.curves(BEARS.score_matrix(), limited=False)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, err_msg=name)


def plain(p: LabelSets) -> list[list[tuple[set[int], set[int]]]]:
    """Per moment: true labels seen, and labels given, of the test samples with a seen label."""

    def unpack(packed: Bytes) -> Sets:
        rows = np.unpackbits(packed, axis=-1, count=p.seen.shape[1])
        return [set(np.flatnonzero(row).tolist()) for row in rows]

    true = unpack(p.y)
    found = []
    for m in range(len(p.session)):
        seen = set(np.flatnonzero(p.seen[m]).tolist())
        each = zip(true, unpack(p.answer[m]), p.split, strict=True)
        found.append([(y & seen, given) for y, given, split in each if split == 0 and y & seen])
    return found


def sample_score(name: str, y: set[int], told: set[int]) -> float:
    if name == "exact_match":
        return float(y == told)
    if not told:
        return 0.0
    js = len(y & told) / len(y | told)
    return js if name == "js" else js * len(y & told) / len(told)


def average(values: list[float]) -> float:
    return sum(values) / len(values) if values else NAN


def restricted(pairs: list[tuple[set[int], set[int]]], among: set[int]) -> float:
    kept = [(y & among, g & among) for y, g in pairs if y & among]
    return average([sample_score("pw_js", y, g) for y, g in kept])


def precision(pairs: list[tuple[set[int], set[int]]], among: set[int]) -> float:
    return average([float(c in y) for y, g in pairs for c in g & among])


CASES = [(0, 9, 0.3), (3, 70, 0.05), (4, 3, 0.5)]


@pytest.mark.parametrize(("seed", "n_classes", "share"), CASES)
def test_scores_and_curves_are_the_definition(seed: int, n_classes: int, share: float) -> None:
    p = random_label_sets(seed, n_classes, share)
    sessions = [set(np.flatnonzero(row).tolist()) for row in p.introduces]
    parents, classes = p.parents.tolist(), set(range(n_classes))
    level = {c: len(above(c, parents)) - 1 for c in classes}
    supers = {c for c in classes if c in parents}
    under = {c for c in classes - supers if parents[c] >= 0}
    assert levels(p.parents).tolist() == [level[c] for c in range(n_classes)]
    assert set(np.flatnonzero(superclasses(p.parents)).tolist()) == supers
    found, found_curves = p.score_matrices(), p.curves(p.score_matrix(), limited=False)
    for m, pairs in enumerate(plain(p)):
        for name in LabelSets.SCORES:
            each = [sample_score(name, y, g) for y, g in pairs]
            np.testing.assert_allclose(found[name].pooled[m], average(each), rtol=1e-12)
            for k, own in enumerate(sessions):
                scores = [s for s, (y, _) in zip(each, pairs, strict=True) if y & own and k <= m]
                np.testing.assert_allclose(found[name].values[m, k], average(scores), rtol=1e-12)
        expected = {
            "superclass_pw_js": restricted(pairs, supers),
            "subclass_precision": precision(pairs, under),
            "lone_subclass_precision": precision(pairs, classes - supers - under),
            "labels_predicted": average([len(g) for _, g in pairs]),
            "labels_true": average([len(y) for y, _ in pairs]),
            "labels_newest": average([float(c in sessions[m]) for _, g in pairs for c in g]),
        }
        for depth in range(max(level.values()) + 1):
            among = {c for c in classes if level[c] == depth}
            expected[f"depth_{depth}_pw_js"] = restricted(pairs, among)
        values = {name: curve[m] for name, curve in found_curves.items()}
        assert values == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_a_record_has_the_curves_of_the_main_score_alone(tmp_path: Path) -> None:
    BEARS.save(tmp_path / "predictions.h5")
    made = record_files.evaluate(unscored(3), tmp_path, tmp_path)
    expected = {
        name: pytest.approx(v, nan_ok=True)
        for name, v in BEARS.curves(BEARS.score_matrix(), limited=False).items()
    }
    assert [score.curves for score in made.by_score.values()] == [expected, {}, {}]


def test_label_sets_of_one_session_are_made_of_truth_values() -> None:
    p = LabelSets.from_sets([[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]], parents=[-1, 0, 0])
    assert p.score_matrix("exact_match").pooled.tolist() == [0.5]
    with pytest.raises(UserError, check=says(expected="(n, C), (n, C) and (C,)")):
        LabelSets.from_sets([[1, 1, 0]], [[1, 1, 0]], parents=[-1, 0])


def test_without_test_samples_there_are_no_scores() -> None:
    found = replace(BEARS, split=np.ones_like(BEARS.split)).score_matrix()
    assert np.isnan([*found.pooled, *found.values.ravel()]).all()
