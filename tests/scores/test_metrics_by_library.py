"""The metric auditor: what each library computes, by independent loops over the same answers."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pinned_runs import write_run
from toy import predictions, random_predictions
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.cli.score_command import audit_text
from embedbench.scores import metrics
from embedbench.scores.metrics import Reference
from embedbench.scores.metrics_by_library import DEFINITIONS, audit
from embedbench.scores.predictions import Predictions
from embedbench.scores.single_label_scores import score_matrix


def values(p: Predictions) -> dict[tuple[str, str], float]:
    return {(e["group"], e["name"]): e["value"] for e in audit(p)}


# --- the libraries' ways, written again from what they do ---


def logged(p: Predictions) -> tuple[list[Any], list[Any], list[Any]]:
    """Answers, classes and sessions of the test samples seen so far, one list a session."""
    answers, targets, tasks = [], [], []
    for t in range(len(p.session)):
        so_far = p.eval_set <= t
        answers.append(p.answer[t][so_far])
        targets.append(p.y[so_far])
        tasks.append(p.eval_set[so_far])
    return answers, targets, tasks


def continuum(p: Predictions) -> dict[str, float]:
    """Continuum 1.2.7 gets answers, targets and session numbers, not R."""
    answers, targets, tasks = logged(p)
    T = len(answers)

    def r(i: int, j: int) -> float:
        chosen = tasks[i] == j
        return float((answers[i][chosen] == targets[i][chosen]).mean())

    f = 0.0
    for j in range(T - 2):
        f += max(r(m, j) for m in range(T - 2) if m >= j) - r(T - 1, j)
    b = sum(r(i, j) - r(j, j) for i in range(1, T) for j in range(i - 1))
    return {
        "accuracy": float((answers[-1] == targets[-1]).mean()),
        "average_incremental_accuracy": float(
            np.mean([(a == y).mean() for a, y in zip(answers, targets, strict=True)])
        ),
        "forgetting": f / (T - 1),
        "backward_transfer": b / (T * (T - 1) / 2),
    }


def avalanche(p: Predictions) -> dict[str, float]:
    """Avalanche keeps an accuracy when a session was just learned, and the last one of others."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for t in range(len(p.session)):
        last = {}
        for j in range(t + 1):
            chosen = p.eval_set == j
            accuracy = float((p.answer[t][chosen] == p.y[chosen]).mean())
            if j == t:
                first[j] = accuracy
            else:
                last[j] = accuracy
    drops = [first[j] - last[j] for j in last]
    return {
        "stream_accuracy": float((p.answer[-1] == p.y).mean()),
        "stream_forgetting": float(np.mean(drops)),
    }


def table(p: Predictions, answers: Any) -> Any:
    """Accuracies on the sessions so far, 0 elsewhere, as PyCIL, Mammoth and FACIL collect them."""
    full = np.zeros((len(p.session), len(p.session)))
    for t in range(len(full)):
        for j in range(t + 1):
            chosen = p.eval_set == j
            full[t, j] = (answers[t][chosen] == p.y[chosen]).mean()
    return full


def pycil(p: Predictions) -> dict[str, float]:
    full = table(p, p.answer).T
    last = len(full) - 1
    curve = [float((a == y).mean()) for a, y in zip(*logged(p)[:2], strict=True)]
    return {
        "forgetting": float(np.mean((full.max(axis=1) - full[:, last])[:last])),
        "average_accuracy": sum(curve) / len(curve),
        "last": curve[-1],
    }


def facil(p: Predictions, answers: Any) -> dict[str, float]:
    """FACIL keeps zeros where it has not evaluated, and takes the maximum of the rows before."""
    full = table(p, answers)
    T = len(full)
    drops = [full[: T - 1, u].max() - full[T - 1, u] for u in range(T - 1)]
    return {
        "avg": float(full[-1].sum() / T),
        "forg": float(np.mean(drops)),
    }


def ocl(p: Predictions) -> dict[str, float]:
    full = table(p, p.answer)
    T = len(full)
    below = np.tril(full, -1).sum() - (np.diagonal(full) * np.arange(T - 1, -1, -1)).sum()
    return {
        "acc": float((np.tril(full).sum(axis=1) / (np.arange(T) + 1)).mean()),
        "bwt": float(below / (T * (T - 1) / 2)),
    }


@pytest.mark.parametrize("seed", range(6))
def test_the_audit_agrees_with_independent_code(seed: int) -> None:
    p = random_predictions(seed)
    found = values(p)
    theirs, events, groups = continuum(p), avalanche(p), pycil(p)
    free, told, online = facil(p, p.answer), facil(p, p.within), ocl(p)
    a, f, b = DEFINITIONS
    for key, expected in {
        (a, "final, per sample"): theirs["accuracy"],
        (a, "average incremental"): theirs["average_incremental_accuracy"],
        (f, "two sessions left out"): theirs["forgetting"],
        (b, "over all sessions, the newest pairs left out"): theirs["backward_transfer"],
        (f, "from the first"): events["stream_forgetting"],
        (f, "from the best, the last included"): groups["forgetting"],
        (a, "mean over sessions"): free["avg"],
        (a, "mean over sessions, session known"): told["avg"],
        (f, "from the best before"): free["forg"],
        (f, "from the best before, session known"): told["forg"],
        (a, "average incremental, sessions alike"): online["acc"],
        (b, "over all sessions"): online["bwt"],
    }.items():
        assert found[key] == pytest.approx(expected, abs=1e-12), key
    assert events["stream_accuracy"] == pytest.approx(found[a, "final, per sample"])
    assert groups["average_accuracy"] == pytest.approx(found[a, "average incremental"])
    assert groups["last"] == pytest.approx(found[a, "final, per sample"])


@pytest.mark.parametrize(("seed", "permutation"), [(0, False), (1, True), (2, False), (3, True)])
def test_our_own_names_are_our_own_metrics(seed: int, permutation: bool) -> None:
    p = random_predictions(seed, permutation=permutation)
    found, none = values(p), Reference()
    sample, by_class = score_matrix(p, "accuracy"), score_matrix(p, "class_accuracy")
    for key, metric, scores in (
        (("accuracy", "final, per class"), metrics.final_accuracy, by_class),
        (("accuracy", "final, per sample"), metrics.final_accuracy, sample),
        (("accuracy", "mean over sessions"), metrics.average_accuracy, sample),
        (("accuracy", "average incremental"), metrics.average_incremental_accuracy, sample),
        (("forgetting", "from the best before, per class"), metrics.average_forgetting, by_class),
        (("forgetting", "from the best before"), metrics.average_forgetting, sample),
        (("backward transfer", "at the end"), metrics.bwt, sample),
    ):
        assert found[key] == pytest.approx(metric(scores, none), abs=1e-12), key


def test_one_run_by_hand() -> None:
    """Four samples a session, one class each; every definition of forgetting gives something else.

    R, in quarters: session 0: 2 4 3 1; session 1: 3 2 4 (it rises at the end); session 2: 4 2.
    """
    quarters = [[2], [4, 3], [3, 2, 4], [1, 4, 2, 4]]
    truth = [[c] * 4 for c in range(4)]
    answers = np.full((4, 16), 3)
    answers[:, 12:] = 0  # wrong, until session 3 is learned
    for t, row in enumerate(quarters):
        for j, right in enumerate(row):
            answers[t, 4 * j : 4 * j + 4] = [j] * right + [-1] * (4 - right)
    p = predictions(truth, answers, [[0], [1], [2], [3]])
    np.testing.assert_allclose(score_matrix(p, "accuracy").R[3], [0.25, 1, 0.5, 1])
    found = values(p)
    forgetting = {name: 12 * v for (group, name), v in found.items() if group == "forgetting"}
    forgetting.pop("from the best before, session known")  # another answer
    assert forgetting == pytest.approx(
        {  # twelfths: three sessions of quarters
            "from the best before, per class": 3 - 1 + 2,
            "from the best before": (4 - 1) + (3 - 4) + (4 - 2),
            "from the best, the last included": (4 - 1) + 0 + (4 - 2),
            "from the first": (2 - 1) + (3 - 4) + (4 - 2),
            "two sessions left out": (4 - 1) + (3 - 4),  # the best of sessions 0 and 1 only
        }
    )
    # pairs: (1,0) +2; (2,0) +1, (2,1) -1; (3,0) -1, (3,1) +1, (3,2) -2 → 0; without the newest: 1
    assert found["backward transfer", "over all sessions"] == pytest.approx(0)
    later = found["backward transfer", "over all sessions, the newest pairs left out"]
    assert later == pytest.approx((1 - 1 + 1) / 4 / 6)


def test_definitions_that_cannot_differ_do_not() -> None:
    """Avalanche's forgetting is minus BWT; a maximum that includes the end is never below one that
    does not."""
    for seed in range(10):
        found = values(random_predictions(seed))
        bwt = found["backward transfer", "at the end"]
        assert found["forgetting", "from the first"] == pytest.approx(-bwt)
        clipped = found["forgetting", "from the best, the last included"]
        assert clipped >= max(0, found["forgetting", "from the best before"]) - 1e-12
        assert found["forgetting", "from the best before"] >= -bwt - 1e-12


def test_one_session_has_accuracies_only() -> None:
    p = predictions([[0, 1]], [[0, 0]], [[0, 1]])
    for e in audit(p):
        assert math.isnan(e["value"]) is (e["group"] != "accuracy")
    text = audit_text(audit(p))
    assert "forgetting        –  from the first: 1/L" in text
    assert "Avalanche: StreamForgetting" in text
    assert "accuracy  50.00 %  " in text


def test_the_command_line_audits_one_run(tmp_path: Path) -> None:
    p = random_predictions(0)
    write_run(tmp_path, "stream/mlp/seed-0", p)

    def audited(*words: str) -> Any:
        return CliRunner().invoke(app, ["score", str(tmp_path), "--audit", *words])

    done = audited("--json")
    assert done.exit_code == 0, done.output
    kept = {(e["group"], e["name"]): e["value"] for e in json.loads(done.stdout)}
    assert kept == pytest.approx(values(p))
    assert audited().stdout == audit_text(audit(p)) + "\n"
    write_run(tmp_path, "stream/mlp/seed-1", p)
    assert "the directory of one run" in str(audited().exception)
