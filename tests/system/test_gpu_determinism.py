"""Arithmetic on a card: settings that repeat bits, set and put back; nothing on a CPU."""

import os
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import torch
from honest_learners import Good

from embedbench.checks import conformance_suite as check
from embedbench.checks.blob_streams import blobs
from embedbench.checks.learner_check_tools import on_device
from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Tags
from embedbench.runs import stream_runner
from embedbench.runs.stream_runner import run_stream
from embedbench.system.gpu_determinism import repeatable


def settings() -> tuple[Any, ...]:
    cudnn, mode = torch.backends.cudnn, torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    return mode, cudnn.enabled, cudnn.deterministic, cudnn.allow_tf32, cudnn.benchmark, fill


def test_a_card_repeats_its_bits_and_all_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = settings()
    with repeatable("cpu"):
        assert settings() == before
    with suppress(ZeroDivisionError), repeatable("cuda:1"):
        assert settings() == (1, True, True, False, False, False)
        raise ZeroDivisionError
    assert settings() == before
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_run_is_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    open_: list[str] = []

    @contextmanager
    def noted(device: str) -> Any:
        open_.append(device)
        yield
        open_.append("closed")

    class Looks(Good):
        def learn(self, session: Any, ctx: Any) -> dict[str, Any]:
            assert open_ == ["cpu:0"]
            return super().learn(session, ctx)

    monkeypatch.setattr(stream_runner, "repeatable", noted)
    run_stream(blobs(Tags()), Looks(), Seeds.of(0), "cpu:0")
    assert open_ == ["cpu:0", "closed"]


def test_the_conformance_suite_takes_a_device() -> None:
    devices: set[str] = set()

    class Looks(Good):
        def start(self, spec: Any, seeds: Seeds, device: str) -> None:
            devices.add(device)
            super().start(spec, seeds, device)

    with on_device("cpu:0"):
        results = check.run_checks(check.LEARNER_CHECKS, Looks)
    assert [r.name for r in results if not r.passed] == []
    assert devices == {"cpu:0"}
