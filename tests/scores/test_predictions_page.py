"""The Python of docs/specification/predictions.md, run on random answers, gives our scores."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confident_runs import confident_predictions
from label_set_answers import random_label_sets
from toy import keep_samples, random_predictions

from embedbench.scores.label_set_predictions import KINDS
from embedbench.scores.metrics import Reference, all_metrics, compute
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "specification" / "predictions.md"
TEXT = PAGE.read_text(encoding="utf-8")
READ, SURE, BASE, ENDS, METRICS, SEVERAL, STREAMING, SETS = (
    compile(code, PAGE.name, "exec")
    for code in re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
)


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    space: dict[str, Any] = {}
    exec(READ, space)
    return space


@pytest.mark.parametrize("finite", [False, True])
def test_confidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finite: bool) -> None:
    answers = confident_predictions(0)
    if finite:
        answers = keep_samples(answers, (answers.answer >= 0).all(axis=0))
    answers.save(tmp_path / "predictions.h5")
    space = opened(tmp_path, monkeypatch)
    m = len(answers.session) - 1
    exec(SURE, space | {"m": m, "S": answers.eval_set <= answers.session[m]}, space)
    ours = [ANSWER_METRICS[name](answers) for name in ("top5_accuracy", "nll", "brier_score")]
    page = [float(space[name]) for name in ("top5", "nll", "brier")]
    assert ours == pytest.approx(page, nan_ok=True)  # the page adds up in float32
    assert np.isfinite(page).all() == finite


@pytest.mark.parametrize("seed", range(4))
def test_scores_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    answers = confident_predictions(seed)
    if seed % 2 == 0:  # several moments in a session
        p = random_predictions(seed, permutation=seed == 2)
        at = np.sort([*p.session, *p.session[1:], 0])
        tables = {name: getattr(p, name)[at] for name in ("seen", "answer", "within")}
        answers = replace(p, session=at, samples_seen=7 * np.arange(len(at)) ** 2, **tables)
    answers.save(tmp_path / "predictions.h5")
    sizes = np.random.default_rng(seed).integers(1, 40, answers.seen.shape[1])
    matrix = answers.score_matrices(sizes)["class_accuracy"]
    space = opened(tmp_path, monkeypatch)
    p = space["p"]

    def score(m: int, which: Any) -> float:
        space.update(m=m, S=which)
        exec(BASE, space)
        return float(space["class_accuracy"])

    exec(ENDS, space)
    ends, (moments, classes), sets = space["ends"], p["seen"].shape, range(len(p["set_classes"]))
    pooled = np.array([score(m, p["eval_set"] <= p["session"][m]) for m in range(moments)])
    R = np.array([[score(m, p["eval_set"] == e) for e in sets] for m in ends])
    recall = np.full((len(ends), classes), np.nan)
    for i, m in enumerate(ends):
        R[i, [not (p["seen"][m] >= s).all() for s in p["set_classes"]]] = np.nan
        for c in np.flatnonzero(p["seen"][m]):
            which = (p["y"] == c) & (p["eval_set"] <= p["session"][m])
            recall[i, c] = score(m, which) if which.any() else np.nan
    assert np.array_equal(R, matrix.R, equal_nan=True)
    assert np.array_equal(pooled, matrix.pooled)
    ideal = 0.25 + np.arange(len(ends)) / 10
    space |= {"R": R, "pooled": pooled, "alpha": pooled[ends], "recall": recall, "score": "s"}
    space |= {"record": {"n_train_by_class": sizes.tolist()}}
    for given, code, known in (
        (0.5, METRICS, all_metrics().keys() - {"omega_streaming"}),
        (ideal, SEVERAL, {"omega_base", "omega_new", "omega_all"}),
        (ideal, STREAMING, {"omega_streaming"}),
    ):
        chance = [np.nan, *np.diagonal(R, 1)]
        space["reference"] = {"ideal": {"s": given}, "chance": {"s": np.array(chance)}}
        space["reference"] |= {"normalise_new": seed % 2 == 1, "preset": "kemker_table"}
        if code is not METRICS:
            space["ideal"] = given
        exec(code, space)
        reference = Reference(given, np.array(chance), seed % 2 == 1, so_far=ideal)
        ours = compute(matrix, reference)
        page = {name: float(space[name]) for name in known}
        assert np.array_equal([*page.values()], [ours[name] for name in page], equal_nan=True), page


def test_label_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p = random_label_sets(0, n_classes=10, share=0.3)
    p.save(tmp_path / "predictions.h5")
    space, kept = opened(tmp_path, monkeypatch), p.score_matrices()
    for m in range(len(p.session)):
        for k in range(m + 1):
            space.update(m=m, k=k)
            exec(SETS, space)
            for name in ("js", "pw_js"):
                assert space[name][space["S"]].mean() == pytest.approx(kept[name].pooled[m])
                assert space[name][space["S_k"]].mean() == pytest.approx(kept[name].values[m, k])


def test_the_page_describes_every_kind_of_answers() -> None:
    assert [kind.FORMAT for kind in KINDS if f"`{kind.FORMAT}`" not in TEXT] == []
