"""The Python API: what holds where nothing is said; and sentences on names and values."""

import ast
import pickle
import runpy
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from confident_runs import confident_predictions
from file_helpers import says
from leaving import SAID, LeavingStream
from protocol_files import make_file
from toy import class_stream

import embedbench
from embedbench import api, extract, learning
from embedbench.config.run_seeds import Seeds
from embedbench.errors import CodeExitError, UserError, error_text, short, unknown

SEEDS: tuple[dict[str, Any], ...] = ({}, {"seed": 0}, {"seed": 1})


def test_defaults_are_the_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, threads = make_file(tmp_path, apart=1.0), list[int]()
    monkeypatch.setattr(api, "limit_threads", lambda n: nullcontext(threads.append(n)))
    words: dict[str, Any] = {"protocol": "incremental-class", "base": 2, "order": "random"}
    streams = [api.build_stream(file, **words, **seed) for seed in SEEDS]
    first, same, other = (s.digests for s in streams)
    assert first == same != other
    p, again, q = (api.run(streams[0], "chance", **seed) for seed in SEEDS)
    assert np.array_equal(p.answer, again.answer)
    assert not np.array_equal(p.answer, q.answer)
    assert threads == [1] * 6
    ncm = api.run(streams[0], "ncm")
    (_, *ours), (*_, ideal) = (api.score_matrices(r)["class_accuracy"].pooled for r in (p, ncm))
    scores = api.score(p, offline=ncm)
    np.testing.assert_equal(api.score(p, offline=[ncm]), scores)  # of its only reference
    assert scores["omega_all"] == pytest.approx(np.mean(ours) / ideal)
    assert 0 < scores["omega_new"] < api.score(p, offline=ncm, normalise_new=True)["omega_new"]


def test_the_package_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["embedbench", "--version"])
    with pytest.raises(SystemExit):
        runpy.run_module("embedbench", run_name="__main__")


def test_sentences_list_few_names_and_quote_short_values() -> None:
    names = [f"n{i:02}" for i in range(61)]
    for n, name, end in (
        (10, "n0", "n09."),
        (11, "n0", "?"),
        (60, "", "n59."),
        (61, "", "1 more."),
    ):
        assert str(unknown("x", name, names[:n])).endswith(end)
    assert (short("a" * 58), short("a" * 59)) == (repr("a" * 58), f"'{'a' * 58}…")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"what": "it is full"}, "it is full"),
        ({"what": "it is full", "remedy": "free some"}, "it is full; free some"),
        ({"what": "n", "expected": "odd"}, "n must be odd"),
        ({"what": "n", "expected": "odd", "got": None}, "n must be odd, got None"),
        (
            {"what": "n", "remedy": "stop", "expected": "odd", "got": 2},
            "n must be odd, got 2; stop",
        ),
    ],
)
def test_an_error_is_one_sentence_of_its_fields(fields: Any, sentence: str) -> None:
    error = pickle.loads(pickle.dumps(UserError(**fields)))
    assert str(error) == sentence
    assert says(**fields)(error)


@pytest.mark.parametrize("how", ["exit", "close", "whim"])
def test_code_that_exits_ends_no_program_of_the_caller(tmp_path: Path, how: str) -> None:
    stream = api.build_stream(make_file(tmp_path), "incremental-class", base=2)
    leaves = api.make_learner("leaving:Leaves", how=how)
    with pytest.raises(CodeExitError, match=f"the learner Leaves left with {SAID[how]}"):
        api.run(stream, leaves)


def test_a_protocol_that_exits_ends_no_program_of_the_caller(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    with pytest.raises(CodeExitError, match="the protocol LeavingStream left with SystemExit: 0"):
        api.build_stream(file, LeavingStream(), seed=next(s for s in range(9) if odd(s)))


def odd(seed: int) -> bool:
    return bool(Seeds.of(seed).order % 2)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("embedbench", "build_stream"),
        ("embedbench", "EmbeddingFile"),
        ("embedbench", "__version__"),
        ("embedbench.api", "Backbone"),
        ("embedbench.learning", "NetLearner"),
        ("embedbench.extract", "extract"),
    ],
)
def test_a_notebook_completes_names_before_their_first_use(module: str, name: str) -> None:
    code = f"import {module} as m; print({name!r} in dir(m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("module", [embedbench, api, learning])
def test_every_name_that_is_completed_is_there(module: ModuleType) -> None:
    assert not [name for name in dir(module) if getattr(module, name, None) is None]


@pytest.mark.parametrize("given", ["known:emoji-vit", Path("a.h5"), None])
def test_run_says_what_to_give_in_place_of_a_file(given: Any) -> None:
    with pytest.raises(
        UserError, check=says(what="stream of run", expected="a stream", got=given)
    ) as refused:
        api.run(given, "ncm")
    assert "run_all(FILE, PROTOCOL, LEARNERS)" in str(refused.value)


def test_run_takes_a_device_of_torch(tmp_path: Path) -> None:
    stream = api.build_stream(make_file(tmp_path, apart=1.0), "incremental-class", base=2)
    answers = [api.run(stream, "ncm", device=at) for at in ("cpu", torch.device("cpu"))]
    np.testing.assert_array_equal(answers[0].answer, answers[1].answer)


class Mute(ValueError):  # noqa: N818
    def __str__(self) -> str:
        raise SystemExit


def test_the_text_of_an_error_can_always_be_made() -> None:
    for error, text in (
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (Mute(), "Mute (it has no readable text)"),
        (SystemExit(0), "SystemExit: 0"),
        (UserError("bad", "mend it"), "bad; mend it"),
    ):
        assert error_text(error) == text


IMPOSSIBLE = confident_predictions(4)


@pytest.mark.parametrize("name", ["score", "score_matrices", "audit"])
def test_predictions_in_memory_are_checked_as_those_of_files(name: str) -> None:
    assert IMPOSSIBLE.squares is not None
    squares = np.where(np.isnan(IMPOSSIBLE.squares), np.nan, 1e-30).astype(np.float32)
    with pytest.raises(UserError, match="squares is less than any probabilities"):
        getattr(api, name)(replace(IMPOSSIBLE, squares=squares))


@pytest.mark.parametrize(
    ("given", "what", "expected"),
    [
        ({"score": "acuracy"}, "unknown score", "accuracy"),
        ({"score": ""}, "unknown score", ""),
        ({"class_sizes": [1]}, "class_sizes", "11 numbers, one for each class"),
        ({"class_sizes": "12"}, "class_sizes of score", "a list or None"),
        ({"class_sizes": [None]}, "class_sizes of score", "a list or None"),
        ({"offline": 0.9}, "offline of score", "a RunAnswers, a list or None"),
        ({"normalise_new": np.zeros(3)}, "normalise_new of score", "True or False"),
    ],
)  # fmt: skip
def test_arguments_of_score(given: dict[str, Any], what: str, expected: str) -> None:
    with pytest.raises(UserError, check=says(what=what, expected=expected)):
        api.score(IMPOSSIBLE, **given)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"seed": "1"}, "seed of run"),
        ({"seed": 0.5}, "seed of run"),
        ({"seed": True}, "seed of run"),
        ({"threads": 0}, "threads"),
        ({"device": "nothing"}, "device 'nothing' cannot be used here"),
    ],
)
def test_arguments_of_run(given: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError, match=what):
        api.run(class_stream([[0, 1], [2]]), "ncm", **given)


def test_a_numpy_number_is_a_number() -> None:
    stream = class_stream([[0, 1], [2]])
    same = [api.run(stream, "chance", seed=seed) for seed in (3, np.int64(3))]  # type: ignore[arg-type]
    assert np.array_equal(same[0].answer, same[1].answer)


def test_a_number_that_python_does_not_write_is_quoted_in_words() -> None:
    assert short(10**5000) == "a number of thousands of digits"


@pytest.mark.parametrize("module", [api, embedbench, extract, learning])
def test_every_name_of_the_list_is_known(module: Any) -> None:
    """A module that imports a name when it is first used says it to type checkers, too."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (hidden,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {a.name for node in hidden.body for a in getattr(node, "names", [])}
    listed = getattr(module, "_HOMES", names)
    assert names == {n for n in listed if getattr(module, n) is not None}
    with pytest.raises(AttributeError, match="has no attribute 'Lerner'"):
        module.Lerner  # noqa: B018
