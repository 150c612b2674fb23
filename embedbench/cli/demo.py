"""The command demo: the whole testbed once, on the images in the package."""

import time
import zipfile
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path, PurePosixPath

from embedbench.engines.engine import Engine
from embedbench.networks.published_weights import SHIPPED
from embedbench.reports import html_report, tables_from_runs, terminal_tables
from embedbench.runs import grid_scheduler
from embedbench.runs.progress_line import RunsAtWork
from embedbench.storage.atomic_write import write_safely
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study, parse_settings

from .command_output import bar, note

SEEDS = (0, 1, 2)
# Classes of the shipped emoji that a network trained on all of them at once tells apart well: else
# Ω, which is relative to that network, says little.
CLASSES = (
    *("alphanum", "animal-bird", "animal-mammal", "arrow", "clothing", "country-flag", "drink"),
    *("food-fruit", "geometric", "heart", "office", "sky-weather", "time", "transport-ground"),
)
MOST = 40  # images of a class
LEARNERS = ("mlp", "ewc", "icarl", "slda")
# At this λ next to nothing moves after the first session. Ten exemplars a class.
SETTINGS = ("ewc.lam=1e7", "icarl.memory.total=140")
STREAMS = (
    ("incremental-class", ("protocol.base=6", "protocol.step=2", "protocol.order=random")),
    ("mixture", ("protocol.sessions=5",)),
    ("permutation", ("protocol.sessions=4",)),
)
NEXT = """\
What next:
  # which differences are real
  embedbench report {runs} --compare
  # accuracy against memory and time
  embedbench report {runs}/incremental-class* \\
    --figure trade-off --out trade-off.pdf
  # your images, a folder for each class
  embedbench extract YOUR_FOLDER --backbone resnet50 \\
    --out mine.h5
  embedbench run mine.h5 --protocol incremental-class \\
    --set protocol.sessions=5 \\
    --learner mlp,slda --seeds 0-4 --out runs"""


def run_demo(out: Path, *, quiet: bool) -> None:
    """Extract shipped emoji, run the same learners on three protocols, write a report.

    Results of an earlier demo under `out` are kept and used.
    """
    say: Callable[[str], None] = (lambda _: None) if quiet else note
    began = time.perf_counter()
    file = out / "emoji.h5"
    runs = out / "runs"
    if file.is_file():
        say(f"1/3  {file} of an earlier demo is used; delete it, and it is made again")
    else:
        _extract(out / "images", file, quiet, say)
    say("2/3  embeddings to streams, learners learn")
    for protocol, settings in STREAMS:
        _run(file, protocol, settings, runs, quiet)
    say("3/3  predictions to scores")
    rows = tables_from_runs.collect(runs)
    page = out / "report.html"
    html_report.write_html(rows, page, html_report.page_heading([runs]))
    terminal_tables.print_tables(rows)
    print(f"\nreport: {page.resolve().as_uri()}\n")
    print(NEXT.format(runs=runs))
    say(f"{time.perf_counter() - began:.0f} s in all")


def _extract(images: Path, file: Path, quiet: bool, say: Callable[[str], None]) -> None:
    from embedbench.extract.pipeline import extract

    n = unpack(images)
    say(f"1/3  images to embeddings: {n} emoji in {images} through EfficientNet-Lite0")
    with bar("extract", quiet) as advance:
        extract(
            str(images),
            file,
            backbone=SHIPPED,
            weights="shipped",
            split="0.3",
            stratify=True,
            progress=advance.stage("images"),
            limit=advance.say_limit,
            notify=say,
        )


def unpack(images: Path) -> int:
    """Write the demo's images as a folder for each class; return their number."""
    written: Counter[str] = Counter()
    archive = files("embedbench") / "assets" / "emoji-noto.zip"
    with zipfile.ZipFile(Path(str(archive))) as emoji:
        for name in sorted(emoji.namelist()):
            path = PurePosixPath(name)
            if path.suffix == ".png" and path.parent.name in CLASSES:
                written[path.parent.name] += 1
                if written[path.parent.name] <= MOST:
                    to = images / path.parent.name / path.name
                    to.parent.mkdir(parents=True, exist_ok=True)
                    write_safely(to, emoji.read(name), sync=False)
    return sum(min(n, MOST) for n in written.values())


def _run(file: Path, protocol: str, settings: tuple[str, ...], runs: Path, quiet: bool) -> None:
    study = Study(
        files=((str(file),),),
        protocols=(protocol,),
        learners=LEARNERS,
        seeds=SEEDS,
        set=parse_settings((*settings, *SETTINGS)),
    )
    specs = resolve(study, out=runs)
    with bar("run", quiet) as advance:
        at_work = RunsAtWork()
        grid_scheduler.run_grid(
            specs,
            runs,
            engine=Engine("local"),
            progress=advance.stage("runs", at_work),
            planned=at_work.plan,
        )
