"""What is said to limit an extraction, by seconds that the tests set."""

from pathlib import Path
from typing import Any

import hostile_sources as hostile
import pytest

from embedbench.extract import extraction_pace, extraction_work
from embedbench.extract.extraction_pace import ExtractionPace
from embedbench.extract.open_backbone import Images
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.extract.source import Content


@pytest.mark.parametrize(
    ("decoding", "backbone", "said"),
    [
        (9.0, 3.0, "decoding is the limit (75 % of the time)"),
        (1.0, 9.0, "the backbone is the limit (90 % of the time)"),
        (5.0, 4.0, "decoding and the backbone take about as long"),
        (6.0, 4.0, "decoding is the limit (60 % of the time)"),
        (4.0, 6.0, "the backbone is the limit (60 % of the time)"),
        (5.9, 4.1, "decoding and the backbone take about as long"),
        (4.1, 5.9, "decoding and the backbone take about as long"),
        (0.75, 0.25, "decoding is the limit (75 % of the time)"),
        (0.4, 0.1, ""),  # too little to say
    ],
)
def test_the_limit_is_what_takes_the_time(decoding: float, backbone: float, said: str) -> None:
    pace = ExtractionPace()
    pace.add("decoding", decoding)
    pace.add("backbone", backbone)
    assert pace.limit() == said


class Seconds:
    """A clock that work moves."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Slow(Images):
    """A backbone that decodes a sample in three seconds, and computes a batch in one."""

    clock: Seconds

    def prepare(self, content: Content) -> Any:
        self.clock.now += 3
        return super().prepare(content)

    def forward(self, ready: Any) -> Any:
        self.clock.now += 1
        return super().forward(ready)


def test_the_time_of_the_threads_counts_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(str(hostile.good(tmp_path / "in")))
    backbone, pace = Slow(extraction_work.first_image(source), 2), ExtractionPace()
    backbone.clock = Seconds()
    monkeypatch.setattr(extraction_pace, "time", backbone.clock)
    batches = [range(i, i + 1) for i in range(3)]
    for _ in extraction_work.compute_batches(source, batches, backbone, 1, pace=pace):
        pass
    assert pace.limit() == "decoding is the limit (75 % of the time)"


def test_extract_says_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction_pace, "LEAST", 0.0)
    said = list[str]()
    source = str(hostile.good(tmp_path / "in"))
    extract(source, tmp_path / "a.h5", backbone="pixels", size=2, limit=said.append)
    assert "decoding" in said[-1]  # pixels have no backbone that computes
