"""The metric auditor: every definition by hand."""

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
from embedbench.scores.metrics_by_library import audit
from embedbench.scores.predictions import Predictions


def values(p: Predictions) -> dict[tuple[str, str], float]:
    return {(e["group"], e["name"]): e["value"] for e in audit(p)}


def test_one_run_by_hand() -> None:
    """Four samples a session, 12 in session 1, 8 in session 3; each forgetting is another number.

    R, in quarters: session 0: 2 4 3 1; session 1: 3 2 4 (it rises at the end); session 2: 4 2.
    Session 3 has classes 3 and 4, of which the first is answered rightly, 3 of 4. Within its
    session every sample is answered rightly at first, and a quarter less from session to session.
    """
    quarters = [[2, 0, 0, 0], [4, 3, 0, 0], [3, 2, 4, 0], [1, 4, 2, 3]]
    blocks = [[0] * 4, [1] * 4, [2] * 4, [3, 3, 3, 4]]  # of four samples
    sessions, times = [0, 1, 2, 3], [1, 3, 1, 2]

    def row(right: list[int]) -> list[int]:
        parts = [blocks[j][: right[j]] + [-1] * (4 - right[j]) for j in sessions]
        return [c for j in sessions for c in parts[j] * times[j]]

    answers = np.array([row(right) for right in quarters])
    within = np.array([row([4 - t] * 4) for t in sessions])
    truth = [blocks[j] * times[j] for j in sessions]
    p = predictions(truth, answers, [[0], [1], [2], [3, 4]], within=within)
    curve = (2 / 4, (4 + 3 * 3) / 16, (3 + 3 * 2 + 4) / 20, (1 + 3 * 4 + 2 + 2 * 3) / 28)
    expected = {
        "accuracy": {
            "final, per class": (1 / 4 + 1 + 2 / 4 + 1 + 0) / 5,
            "final, per sample": 21 / 28,
            "mean over sessions": 10 / 16,
            "mean over sessions, session known": 1 / 4,
            "average incremental": sum(curve) / 4,
            "average incremental, sessions alike": (2 / 4 + 7 / 8 + 9 / 12 + 10 / 16) / 4,
        },
        "forgetting": {  # twelfths: three sessions of quarters
            "from the best before, per class": ((4 - 1) + (3 - 4) + (4 - 2)) / 12,
            "from the best before": ((4 - 1) + (3 - 4) + (4 - 2)) / 12,
            "from the best before, session known": ((4 - 1) + (3 - 1) + (2 - 1)) / 12,
            "from the best, the last included": ((4 - 1) + 0 + (4 - 2)) / 12,
            "from the first": ((2 - 1) + (3 - 4) + (4 - 2)) / 12,
            "two sessions left out": ((4 - 1) + (3 - 4)) / 12,  # the best of sessions 0 and 1 only
        },
        "backward transfer": {
            "at the end": ((1 - 2) + (4 - 3) + (2 - 4)) / 12,
            # pairs: (1,0) +2; (2,0) +1, (2,1) -1; (3,0) -1, (3,1) +1, (3,2) -2; and without
            # (1,0), (2,1) and (3,2)
            "over all sessions": (2 + 1 - 1 - 1 + 1 - 2) / 24,
            "over all sessions, the newest pairs left out": (1 - 1 + 1) / 24,
        },
    }
    each = {(group, name): v for group, part in expected.items() for name, v in part.items()}
    assert values(p) == pytest.approx(each)


def test_one_session_has_accuracies_only() -> None:
    two = values(predictions([[0], [1]], [[0, 0], [1, 1]], [[0], [1]]))
    assert two["forgetting", "from the best, the last included"] == 1
    assert two["backward transfer", "over all sessions"] == -1
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
