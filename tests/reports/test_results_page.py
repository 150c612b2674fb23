"""docs/results_as_data.md and docs/studies.md: their Python and their TOML, on small runs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_files import embedding_file
from plan_runs import plan

from embedbench.reports.toml_report import read_selections
from embedbench.runs.grid_scheduler import run_grid
from embedbench.studies.resolve import resolve
from embedbench.studies.study_file import read_study

DOCS = Path(__file__).resolve().parents[2] / "docs"
LEARNERS = ["ncm", "ewc", "mlp"]
SHORT = ["stop.epochs=1", "stop.rule=epochs", "units=8", "ewc.lam=10", "references=0"]


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `emoji-runs`, as the README makes them; much smaller."""
    folder = tmp_path_factory.mktemp("page")
    embedding_file(folder)
    settings = [*SHORT, "protocol.step=1"]
    cells = plan([str(folder / "e.h5")], "incremental-class", LEARNERS, [0, 1], settings)
    assert not run_grid(cells, folder / "emoji-runs").failed
    return folder


def test_the_python_of_the_page_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import image, pyplot

    monkeypatch.chdir(folder)
    made: dict[str, Any] = {}
    for block in blocks("results_as_data.md", "python"):
        exec(compile(block, "results_as_data.md", "exec"), made)
    pyplot.close("all")
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[1] == "10.0" for line in lines[:2])  # two seeds of ewc
    assert [line.split()[0] for line in lines[2:6]] == ["0", "1", "2", "3"]  # R after each session
    for name in ("accuracy", "memory", "classes"):
        assert np.asarray(image.imread(f"{name}.png")).std() > 0.01  # something is drawn
    tracker = made["Printed"]("here")
    runs = made["load_runs"]("emoji-runs")
    for call in (
        lambda: tracker.cell_started(runs[0]),
        lambda: tracker.session(runs[0], 0, {}, {}),
        lambda: tracker.cell_done(runs[0].record),
        tracker.close,
    ):
        call()


def test_the_study_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two protocols × (ncm, three slda, ewc) × five seeds."""
    text, shows = blocks("studies.md", "toml")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    made = resolve(read_study(tmp_path / "study.toml"))
    assert len({(run.files, run.protocol) for run in made}) == 2
    assert len(made) == 2 * 5 * 5
    (tmp_path / "study.toml").write_text(text + shows, encoding="utf-8")
    assert resolve(read_study(tmp_path / "study.toml")) == made
    assert [one.compare for one in read_selections(tmp_path / "study.toml")] == [None, "ranks"]
