"""Learners in one file outside the project: the two of docs/add_a_learner.md."""

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import Call
from protocol_files import make_file

from embedbench.api import build_stream, make_learner, run, score
from embedbench.checks.conformance_suite import LEARNER_CHECKS, check
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "add_a_learner.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAME = "mypkg.mod:Mine"
WITH_NET = "mypkg.decay:Decay"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the page's learners in mypkg, which is the working directory."""
    code, with_net = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "mod.py").write_text(code, encoding="utf-8")
    (tmp_path / "mypkg" / "decay.py").write_text(with_net, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    yield tmp_path
    for module in ("mypkg", "mypkg.mod", "mypkg.decay"):
        sys.modules.pop(module, None)


@pytest.fixture
def file(outside: Path) -> EmbeddingFile:
    return make_file(outside, [10] * 6, [0] * 6, [5] * 6)


@pytest.mark.parametrize("name", [NAME, WITH_NET])
def test_it_passes_every_check(name: str, outside: Path) -> None:
    results = check(name)
    assert [r for r in results if not r.passed] == []
    assert len(results) == len(LEARNER_CHECKS)


def test_one_with_a_network_has_the_shared_settings(outside: Path) -> None:
    learner: Any = make_learner(WITH_NET, lam=0.5, **{"stop.epochs": 3})
    assert (learner.lam, learner.stop.epochs, learner.units) == (0.5, 3, 400)
    with pytest.raises(UserError, match=r"^decay\.lam must be at least 0, got -1\.0$"):
        make_learner(WITH_NET, lam=-1.0)


def test_what_is_left_out_is_as_on_the_command_line(file: EmbeddingFile) -> None:
    """Seed 0 of stream and run, one thread, and no Ω_new as a share."""
    first, second = (build_stream(file, "permutation", sessions=2, seed=s) for s in (0, 1))
    stream, threads = build_stream(file, "permutation", sessions=2), set[int]()
    assert stream.digests == first.digests != second.digests
    learner = make_learner("chance")
    learner.prepare = lambda: threads.add(torch.get_num_threads())  # type: ignore[method-assign]
    mine, zero, one = (run(stream, learner, **s).answer for s in ({}, {"seed": 0}, {"seed": 1}))
    assert np.array_equal(mine, zero)
    assert not np.array_equal(mine, one)
    assert threads == {1}
    assert 0 < score(run(stream, "chance"))["omega_new"] < 1


def test_it_runs_from_the_command_line(file: EmbeddingFile, call: Call) -> None:
    quick = ["--set", "offline.mlp.stop.epochs=1", "--jobs", "1", "--device", "cpu"]
    words = ["run", file.path, "--protocol", "incremental-class", "--learner", NAME]
    words += ["--set", "floor=0.5", "--out", "runs", *quick]
    code, _, err = call(*words)
    assert not code, err
    records = [json.loads(p.read_text()) for p in Path("runs").rglob("record.json")]
    (record,) = [r for r in records if r["learner"] == NAME]
    assert record["learner_params"] == {"floor": 0.5}
    assert len(record["R"]) == 4


def test_a_faulty_one_ends_the_command_with_1(outside: Path, call: Call) -> None:
    file = outside / "mypkg" / "mod.py"
    text = file.read_text(encoding="utf-8")
    assert ', "counts": "means"}' in text
    file.write_text(text.replace(', "counts": "means"}', "}"), encoding="utf-8")
    code, out, _ = call("check", NAME)
    assert code == 1
    assert "FAILED  state round trips" in out
    assert "expected the same scores after loading the state" in out
    assert "–       goes on inside a session  (does not apply)" in out
    asked = len(LEARNER_CHECKS) - 1
    assert f"{asked - 1} of {asked} checks passed, 1 does not apply" in out


def test_every_check_says_in_one_line_what_it_demands() -> None:
    """The page sends to `check --markdown` for these lines."""
    assert "`--markdown`" in TEXT
    for c in LEARNER_CHECKS:
        demand, *more = (inspect.getdoc(c) or "").split("\n")
        assert demand.endswith("."), c.__name__
        assert not any(more[:1]), c.__name__
