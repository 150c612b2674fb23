"""The preset `pilot` against SimpleCIL as PILOT runs it, written anew with plain loops.

PILOT's own code was run on the features of emoji-vit at 2647455, with the identity as backbone: its
500 answers after four sessions are those of the preset, sample by sample. The accuracies here are
what it printed.
"""

import csv
import json
import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from protocol_files import make_file
from typer.testing import CliRunner

from embedbench.api import local
from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST
from embedbench.scores.predictions import Predictions
from embedbench.scores.record_files import load, read_predictions

PRINTED = [26.0, 20.0, 14.67, 15.5]  # top1 after each session


def command(*words: object) -> Any:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.exception or result.output
    return result


def simplecil(file: EmbeddingFile) -> list[dict[int, int]]:
    """After each session of ten classes: row of a test sample → the class that answers.

    A class's prototype is the plain mean of all its samples that are not for test; the largest
    cosine answers, among the classes seen.
    """
    features, labels = file.read().astype(np.float64), file.labels.tolist()
    np.random.seed(1993)  # noqa: NPY002  # as PILOT draws it
    order = np.random.permutation(file.samples.n_leaves).tolist()  # noqa: NPY002
    answers, prototypes = list[dict[int, int]](), dict[int, Any]()
    for first in range(0, len(order), 10):
        for c in order[first : first + 10]:
            total, count = np.zeros(features.shape[1]), 0
            for row, label in enumerate(labels):
                if label == c and file.split[row] != TEST:
                    total, count = total + features[row], count + 1
            prototypes[c] = total / count
        answers.append({})
        for row, label in enumerate(labels):
            if label in prototypes and file.split[row] == TEST:
                answers[-1][row] = nearest(features[row], prototypes)
    return answers


def nearest(x: Any, prototypes: dict[int, Any]) -> int:
    """The class of the prototype with the largest cosine to x, (D,)."""
    best, largest = -1, -math.inf
    for c, prototype in prototypes.items():
        cosine = float(x @ prototype) / (np.linalg.norm(x) * np.linalg.norm(prototype))
        if cosine > largest:
            best, largest = c, cosine
    return best


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the stream that the preset alone makes, and runs on it."""
    folder = tmp_path_factory.mktemp("pilot")
    stream = ("known:emoji-vit", "--protocol", "incremental-class", "--preset", "pilot")
    command("show", *stream, "--export", folder / "stream", "--features")
    command("run", *stream, "--learner", "ncm,finetune", "--out", folder / "runs", "--quiet")
    return folder


def run_dir(made: Path, learner: str) -> Path:
    (found,) = (made / "runs").glob(f"incremental-class-*/{learner}-*/seed-0")
    return found


def test_simplecil_answers_as_pilots_sample_by_sample(made: Path) -> None:
    file = EmbeddingFile.open(local("known:emoji-vit"))
    with (made / "stream" / "test.csv").open(encoding="utf-8") as lines:
        rows = [int(line["row"]) for line in csv.DictReader(lines)]
    answers = cast(Predictions, read_predictions(run_dir(made, "ncm"))).answer
    mine = [dict(zip(rows, after.tolist(), strict=True)) for after in answers]
    theirs = simplecil(file)
    assert [{row: mine[t][row] for row in seen} for t, seen in enumerate(theirs)] == theirs


def test_the_accuracies_are_those_that_pilot_prints() -> None:
    file = EmbeddingFile.open(local("known:emoji-vit"))
    right = [[file.labels[row] == c for row, c in after.items()] for after in simplecil(file)]
    assert [round(100 * float(np.mean(after)), 2) for after in right] == PRINTED


def test_the_exported_features_are_those_of_the_file(made: Path) -> None:
    file = EmbeddingFile.open(local("known:emoji-vit"))
    exported = np.load(made / "stream" / "features.npy")
    np.testing.assert_array_equal(exported, file.read().astype(np.float32))


def test_the_exported_stream_trains_on_all_that_is_not_test(made: Path) -> None:
    file = EmbeddingFile.open(local("known:emoji-vit"))
    with (made / "stream" / "train.csv").open(encoding="utf-8") as lines:
        rows = sorted(int(line["row"]) for line in csv.DictReader(lines))
    assert rows == np.flatnonzero(file.split != TEST).tolist()


def test_no_flag_speaks_of_test_data(made: Path) -> None:
    assert "test-validation" not in load(run_dir(made, "ncm")).flags


def test_a_network_trains_pilots_epochs(made: Path) -> None:
    record = load(run_dir(made, "finetune"))
    assert [(s.log["epochs"], s.log["stopped"]) for s in record.sessions] == [(20, "epochs")] * 4


def test_the_report_says_that_there_is_no_validation_data(made: Path) -> None:
    shown = command("report", made / "runs").stdout
    assert "no validation data" in " ".join(shown.split())


def test_what_would_look_at_validation_data_is_one_sentence(tmp_path: Path) -> None:
    path = make_file(tmp_path, [4] * 20, [0] * 20, [1] * 20, classes="abcdefghijklmnopqrst").path
    words = ("run", path, "--protocol", "b0-inc10", "--preset", "pilot", "--learner", "ncm,ewc")
    result = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "runs")])
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == (
        "ewc looks at validation data (ewc.lam=none), and protocol.validation=none leaves none; "
        "fix it by --set ewc.lam=100, or take --set protocol.validation=train"
    )


def test_a_refused_learner_leaves_no_runs(tmp_path: Path) -> None:
    path = make_file(tmp_path, [4] * 4, [0] * 4, [1] * 4).path
    words = ("run", path, "--protocol", "permutation", "--learner", "ncm,mlp", "--set")
    words = (*words, "protocol.validation=none", "--out", tmp_path / "runs")
    CliRunner().invoke(app, [*map(str, words)])
    assert not (tmp_path / "runs").exists()


def test_a_reference_without_validation_data_is_said_aloud(tmp_path: Path) -> None:
    path = make_file(tmp_path, [9] * 4, [0] * 4, [2] * 4).path
    words = ["run", path, "--protocol", "incremental-class", "--learner", "ncm", "--json"]
    words += ["--set", "protocol.validation=none", "--out", tmp_path / "runs"]
    done = command(*words)
    assert "the reference offline stops by its training loss" in " ".join(done.stderr.split())
    assert json.loads(done.stdout)
