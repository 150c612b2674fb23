"""`embedbench demo`: the whole testbed once, on what the package ships."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from embedbench import grid
from embedbench.cores import cores
from embedbench.progress import bar
from embedbench.report import print_report
from embedbench.report_html import write_html
from embedbench.settings import parse_settings, plan, start_of_command

LEARNERS = ("mlp", "ewc", "ncm")
SEEDS = (0, 1, 2)
STREAMS = {
    # 88 classes: 44 at first, then 4 a session
    "incremental-class": ["protocol.step=4", "protocol.order=random"],
    "permutation": ["protocol.sessions=4"],
}


def run_demo(out: Path, *, quiet: bool) -> None:
    """Extract the shipped emoji, run every protocol with a few learners and seeds, write a report.

    What an earlier demo finished under `out` is kept and used.
    """
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    file = out / "emoji.h5"
    if not file.is_file():
        from embedbench.extract import extract

        _say("1/3  images to embeddings: Noto emoji through EfficientNet-Lite0", quiet)
        with bar("images", quiet) as advance:
            extract("demo", file, progress=advance, notify=lambda s: _say(s, quiet))
    _say("2/3  embeddings to streams, learners learn", quiet)
    for protocol, items in STREAMS.items():
        # λ fixed: a search would train every session some ten times over
        settings = parse_settings([*items, "ewc.lam=100"], LEARNERS, None)
        cells = plan(
            [str(file)],
            protocol,
            LEARNERS,
            SEEDS,
            settings=settings,
            device="cpu",
            command=start_of_command([file], protocol, out / "runs"),
        )
        with bar(protocol, quiet) as advance:
            grid.run_grid(cells, out / "runs", jobs=cores(), progress=advance)
    _say("3/3  predictions to scores", quiet)
    print_report(out / "runs", as_json=False)
    page = out / "report.html"
    write_html(out / "runs", page)
    print(f"report: {page.resolve().as_uri()}")
    _say(f"{time.perf_counter() - began:.0f} s in all", quiet)


def _say(sentence: str, quiet: bool) -> None:
    if not quiet:
        print(sentence, file=sys.stderr, flush=True)
