"""Joules: read from a card that is made up, absent where nothing tells, and set side by side."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from bridge_records import shown
from report_records import keep, make
from toy import class_stream

from embedbench.config.json_records import plain
from embedbench.config.run_seeds import Seeds
from embedbench.reports.frozen_vs_full import bridge, bridge_parts
from embedbench.reports.tables_from_runs import collect
from embedbench.runs import stream_runner
from embedbench.runs.cost_meter import Meter
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.text.terminal_text import render_text


def card(*, refuses: int = 1000) -> SimpleNamespace:
    """What `pynvml` shows of a computer's second card: 5 J more at every reading."""
    readings = iter(range(1, 1001))

    def handle(uuid: str) -> str:
        assert uuid == "GPU-1f2e"
        return "the second card"

    def millijoules(handle: str) -> int:
        assert handle == "the second card"
        number = next(readings)
        if number >= refuses:
            raise RuntimeError("not supported")
        return 7_000 + 5_000 * number

    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetTotalEnergyConsumption=millijoules,
    )


def with_card(monkeypatch: pytest.MonkeyPatch, pynvml: SimpleNamespace) -> Meter:
    def properties(device: str) -> Any:
        assert device == "cuda:0"
        return SimpleNamespace(uuid="1f2e")

    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    return Meter("cuda:0")


def test_a_card_is_found_by_its_uuid_and_read_in_joules(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = with_card(monkeypatch, card())
    seconds, joules = (meter.read() - meter.read()).tolist()
    assert joules == -5.0
    assert -1 < seconds < 0


def test_no_card_no_library_and_refusals_are_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    assert math.isnan(Meter("cpu").read()[1])
    assert math.isnan(with_card(monkeypatch, card(refuses=1)).read()[1])
    meter = with_card(monkeypatch, card(refuses=2))  # falls silent in the middle
    assert [math.isnan(meter.read()[1]) for _ in range(2)] == [False, True]
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it is an ImportError
    assert math.isnan(Meter("cuda:0").read()[1])
    assert Meter("cuda:0").read()[0] > 0


@pytest.mark.parametrize("every", [0, 7])
def test_a_run_adds_up_what_lies_between_its_readings(
    monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    ticks = iter(range(1000))

    class Ticking(Meter):
        def __init__(self, device: str) -> None:
            pass

        def read(self) -> Any:
            tick = next(ticks)
            return np.array([tick, 10.0 * tick])

    monkeypatch.setattr(stream_runner, "Meter", Ticking)
    stream = class_stream(((0, 1), (2,)), n_train=10)
    learner = learner_class("er")()
    _, logs = run_stream(replace(stream, evaluate_every=every), learner, Seeds.of(0))
    # two readings a lesson and two an evaluation; 20 and 10 samples come in batches of 10
    moments = [2, 1] if every else [1, 1]
    assert [log.learn_seconds for log in logs] == moments
    assert [log.evaluate_seconds for log in logs] == moments
    assert [log.learn_joules for log in logs] == [10 * n for n in moments]
    assert [log.evaluate_joules for log in logs] == [10 * n for n in moments]


def test_a_run_without_a_card_records_null() -> None:
    _, logs = run_stream(class_stream(((0, 1),)), learner_class("ncm")(), Seeds.of(0))
    told = json.loads(json.dumps(plain({"j": logs[0].learn_joules, "s": logs[0].learn_seconds})))
    assert told["j"] is None
    assert told["s"] > 0


@pytest.mark.parametrize("learn", [3.0, None, "not there"])
def test_the_bridge_shows_joules_where_both_sides_have_them(tmp_path: Path, learn: Any) -> None:
    there = {} if learn == "not there" else {"joules": {"learn": learn, "evaluate": learn}}
    keep(tmp_path / "a", make("er", **there))
    keep(tmp_path / "b", shown("er", joules={"learn": 900.0, "evaluate": 1.0}))
    found = bridge([*collect(tmp_path / "a"), *collect(tmp_path / "b")])
    values = found["streams"][0]["learners"][0]["values"]
    text = render_text(bridge_parts(found))
    if learn != 3.0:
        assert "joules.learn" not in values
        assert " J" not in text
        return
    means = {side: stat.mean for side, stat in values["joules.learn"].items()}
    assert means == {"frozen": 3.0, "full": 900.0, "gap": 897.0}
    assert "J: of the whole card" in text.splitlines()[1]
    assert text.splitlines()[2].split()[-4:] == ["learn", "s", "learn", "J"]
    assert "3.0 → 900" in text
