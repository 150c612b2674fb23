"""`embedbench demo`: the whole testbed once, on the data in the package."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from embedbench.engines.engine import Engine
from embedbench.papers.data import shipped_layers
from embedbench.reports.collect import collect
from embedbench.reports.html import write_html
from embedbench.reports.text import print_report
from embedbench.runs import grid
from embedbench.runs.command import start_of_command
from embedbench.runs.settings import parse_settings, plan

from .options import note
from .progress import bar

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Stage:
    """A protocol of the demo, and the learners that run it.

    Parameters
    ----------
    settings : tuple of str
        Settings, as after --set.
    file : Path or None
        File of shipped embeddings; None: the file that the demo extracts.
    """

    protocol: str
    learners: tuple[str, ...]
    settings: tuple[str, ...]
    file: Path | None = None


PLAIN = ("mlp", "ewc", "ncm")
FIXED = "ewc.lam=100"  # a search would train every session about ten times
# FR's defaults are for 30,000 samples; a tenth of the steps of the preset fr-short
FEW = (
    *("fr.optimiser=adam", "fr.lr=0.001", "fr.epochs=2", "fr.epoch_samples=14"),
    *("fr.batch_classes=8", "fr.batch_samples=8"),
)
STAGES = (
    # 88 classes: 44 at first, then 4 a session
    Stage("incremental-class", PLAIN, ("protocol.step=4", "protocol.order=random", FIXED)),
    Stage("permutation", PLAIN, ("protocol.sessions=4", FIXED)),
    # 40 classes: 24 at first, then 2 of 5 samples a session
    Stage(
        "fscil",
        ("prototype", "teen", "fr"),
        ("protocol.base=24", "protocol.way=2", "protocol.scale=standard", *FEW),
        shipped_layers(),
    ),
)


def run_demo(out: Path, *, quiet: bool) -> None:
    """Extract the shipped emoji, run every stage with a few learners and seeds, write a report.

    Results of an earlier demo under `out` are kept and used.
    """
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    file = out / "emoji.h5"
    if not file.is_file():
        from embedbench.extract.pipeline import extract

        _say("1/3  images to embeddings: Noto emoji through EfficientNet-Lite0", quiet)
        with bar("images", quiet) as advance:
            extract("demo", file, progress=advance, notify=lambda s: _say(s, quiet))
    _say("2/3  embeddings to streams, learners learn", quiet)
    for stage in STAGES:
        _run(stage, stage.file or file, out / "runs", quiet)
    _say("3/3  predictions to scores", quiet)
    rows, page = collect(out / "runs"), out / "report.html"
    write_html(rows, page, "runs")
    print_report(rows, as_json=False)
    print(f"report: {page.resolve().as_uri()}")
    _say(f"{time.perf_counter() - began:.0f} s in all", quiet)


def _run(stage: Stage, file: Path, runs: Path, quiet: bool) -> None:
    cells = plan(
        [str(file)],
        stage.protocol,
        stage.learners,
        SEEDS,
        settings=parse_settings(stage.settings, stage.learners, None),
        device="cpu",
        command=start_of_command([file], stage.protocol, runs),
    )
    with bar(stage.protocol, quiet) as advance:
        grid.run_grid(cells, runs, engine=Engine("local"), progress=advance)


def _say(sentence: str, quiet: bool) -> None:
    if not quiet:
        note(sentence)
