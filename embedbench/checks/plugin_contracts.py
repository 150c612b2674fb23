"""The checks of backbones, sources, engines and trackers, ours and those of plug-ins.

Each takes the name on the command line, and opens what has it anew.
"""

from __future__ import annotations

import copy
import io
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.io import wavfile

from embedbench.array_types import Array
from embedbench.engines.engine import Engine
from embedbench.files.sample_metadata import Samples
from embedbench.reports.load_results import Run
from embedbench.reports.trackers import Session, make_tracker
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study, parse_settings

from .check_building_blocks import CheckFailed, Checks, applies_where, demand
from .protocol_cases import WIDTH, small_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from embedbench.extract.backbone import Backbone
    from embedbench.extract.source import Source

BACKBONE_CHECKS = Checks[str]()
SOURCE_CHECKS = Checks[str]()
ENGINE_CHECKS = Checks[str]()
TRACKER_CHECKS = Checks[str]()

# --- backbones: small images or sounds, prepared and computed ---

TOLERANCE = 1e-3  # absolute and relative: batches of other sizes have other last bits
MODES = ("RGB", "L", "RGBA", "P", "RGB", "1")  # Pillow's modes of the small images' files
SIZES = ((40, 30), (30, 40), (64, 48), (33, 33), (96, 96), (25, 64))  # width, height
SQUARE = 32  # pixels: the input size of our own, which take images of one size


def _open_backbone(name: str) -> tuple[Backbone, list[Any]]:
    """A backbone, and small samples for it."""
    from embedbench.extract.open_backbone import open_backbone

    size = SQUARE if name == "pixels" else None
    backbone = open_backbone(name, lambda: _images()[0], size=size)
    return backbone, _sounds() if backbone.takes == "sounds" else _images()


def _images() -> list[Any]:
    """Images of noise, in several sizes; of Pillow's modes those that the pixel policy gives."""
    from PIL import Image

    from embedbench.extract.pixel_policy import DEFAULT

    draw = np.random.default_rng(0)
    made = [draw.integers(0, 256, (height, width, 3), np.uint8) for width, height in SIZES]
    images = [Image.fromarray(a).convert(mode) for a, mode in zip(made, MODES, strict=True)]
    return [DEFAULT.apply(image).image for image in images]


def _sounds() -> list[Any]:
    """WAV files of noise, of several lengths, 16 bits at 16 kHz."""
    draw = np.random.default_rng(0)
    result = []
    for seconds in (0.5, 1.0, 1.5, 3.0):
        file = io.BytesIO()
        wavfile.write(file, 16_000, draw.integers(-9000, 9000, int(16_000 * seconds), np.int16))
        result.append(file.getvalue())
    return result


def _prepare(backbone: Backbone, contents: list[Any]) -> Array:
    """(n, …) the samples, prepared."""
    return np.stack([backbone.prepare(content) for content in contents])


def _compute(backbone: Backbone, batch: Array) -> dict[str, Array]:
    """The tables of a batch, as arrays."""
    tables = backbone.forward(batch)
    return {name: rows.detach().cpu().numpy() for name, rows in tables.items()}


@BACKBONE_CHECKS.add
def says_what_it_is(name: str) -> None:
    """It states its name, weights, layer, pooling and preprocessing, as values of JSON."""
    backbone, _ = _open_backbone(name)
    for key in ("name", "weights_id", "weights_sha256", "layer", "pooling"):
        value = backbone.backbone.get(key)
        demand(isinstance(value, str), f"expected backbone[{key!r}] to be a text, got {value!r}")
    demand(backbone.preprocessing, "expected what `prepare` does in `preprocessing`, it is empty")
    json.dumps([backbone.backbone, backbone.preprocessing], allow_nan=False)


@BACKBONE_CHECKS.add
def rows_are_finite(name: str) -> None:
    """Samples of any size get one shape, and a finite row of `features` and each `layers/NAME`."""
    backbone, contents = _open_backbone(name)
    kinds = {(a.shape, str(a.dtype)) for a in map(backbone.prepare, contents)}
    demand(len(kinds) == 1, f"expected one shape and type of prepared samples, got {kinds}")
    tables = _compute(backbone, _prepare(backbone, contents))
    demand("features" in tables, f"expected the table 'features', got {sorted(tables)}")
    for table, rows in tables.items():
        known = table == "features" or table.startswith("layers/")
        demand(known, f"expected 'features' and 'layers/NAME', got {table!r}")
        shaped = rows.ndim == 2 and len(rows) == len(contents) and rows.shape[1] > 0
        demand(shaped, f"expected {table} of shape ({len(contents)}, D), got {rows.shape}")
        finite = rows.dtype.kind == "f" and np.isfinite(rows).all()
        demand(finite, f"expected finite floating-point numbers in {table}, got others")


@BACKBONE_CHECKS.add
def rows_depend_on_their_samples_alone(name: str) -> None:
    """A sample has one row: made anew, in other batches, in threads. Nothing given is changed."""
    backbone, contents = _open_backbone(name)
    batch = _prepare(backbone, contents)
    expected = _compute(backbone, batch.copy())
    kept = batch.copy()
    n = len(batch)

    def prepare_and_compute(maker: Backbone) -> dict[str, Array]:
        return _compute(maker, _prepare(maker, contents))

    with ThreadPoolExecutor(4) as pool:
        others = [*pool.map(prepare_and_compute, [backbone] * 8)]
    for other in (prepare_and_compute(_open_backbone(name)[0]), *others):
        same = all(np.array_equal(other[table], rows) for table, rows in expected.items())
        demand(same, "expected the same rows made anew and in every thread, got others")
    for part in ([*range(n)][::-1], *([i] for i in range(n))):
        for table, rows in _compute(backbone, batch[part]).items():
            close = np.allclose(rows, expected[table][part], TOLERANCE, TOLERANCE)
            demand(close, f"expected the same {table} however the batches are cut, got others")
    backbone.forward(batch)
    untouched = np.array_equal(batch, kept) and contents == _open_backbone(name)[1]
    demand(untouched, "expected samples and batches as they were, one was changed")


# --- sources ---

READ = 32  # samples that are read


def _open_source(name: str) -> Source:
    from embedbench.extract.open_source import open_source

    return open_source(name)


@SOURCE_CHECKS.add
def samples_form_a_data_set(name: str) -> None:
    """Names, licence, paths as ids and leaf classes as labels, the same whenever it is opened."""
    from embedbench.extract.source import id_problem

    made = _open_source(name)
    texts = all(isinstance(text, str) for text in (made.name, made.licence)) and made.name
    demand(texts, f"expected texts as name and licence, got {made.name!r} and {made.licence!r}")
    demand(made.holds in ("images", "sounds", "texts"), f"unknown kind of samples: {made.holds!r}")
    for i in made.ids:
        problem = id_problem(i)
        demand(not problem, f"expected ids like 'class/name', got {i!r}: {problem}")
    split = made.split if made.split is not None else np.zeros(len(made.ids), dtype=np.uint8)
    Samples(np.array(made.ids), made.labels, split, made.classes, made.parents).check()
    again = _open_source(name)
    same = made.ids == again.ids and np.array_equal(made.labels, again.labels)
    demand(same and made.classes == again.classes, "expected the same samples when opened twice")


@SOURCE_CHECKS.add
def samples_can_be_read(name: str) -> None:
    """Samples are images within our bounds, sounds or texts, the same in every thread."""
    from embedbench.extract.sound_files import read_sound
    from embedbench.extract.source import open_image

    made = _open_source(name)
    n = len(made.ids)
    some = np.unique(np.linspace(0, n - 1, min(READ, n)).astype(int)).tolist()
    contents = [made.read(i) for i in some]
    for content in contents:
        if isinstance(content, bytes) and made.holds == "sounds":
            read_sound(content, 10)
        elif made.holds != "texts":
            open_image(content).load()
    with ThreadPoolExecutor(4) as pool:
        same = [*pool.map(made.read, some * 4)] == contents * 4
    demand(same, "expected the same samples in every thread, got others")


# --- engines ---

TASKS = 5
PATIENCE = 300  # seconds for a task


@contextmanager
def _executor(name: str) -> Iterator[Executor]:
    """The executor of an engine; `NotApplicable` if this process does the work itself."""
    with Engine.parse(name).executor(TASKS) as executor:
        applies_where(executor is not None)
        assert executor is not None
        yield executor


def square(number: int) -> int:
    """A task."""
    return number * number


def fail(number: int) -> int:
    """A task that raises."""
    raise ValueError(f"task {number} is meant to fail")


@ENGINE_CHECKS.add
def tasks_are_run(name: str) -> None:
    """Results come back, errors as they were raised; after the end no task is taken."""
    with _executor(name) as executor:
        bad, *good = executor.submit(fail, 3), *(executor.submit(square, i) for i in range(TASKS))
        try:
            value = bad.result(timeout=PATIENCE)
        except ValueError as error:
            demand("task 3" in str(error), f"expected the task's own error, got {error}")
        else:
            raise CheckFailed(f"expected the task's ValueError, got the result {value}")
        got = [task.result(timeout=PATIENCE) for task in good]
    demand(got == [i * i for i in range(TASKS)], f"expected the squares of 0 to 4, got {got}")
    try:
        executor.submit(square, 2)
    except RuntimeError:
        return
    raise CheckFailed("expected a RuntimeError from submit after the shutdown")


# --- trackers ---

SETTINGS = (
    *("protocol.base=3", "offline.mlp.units=4"),
    *("offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=1"),
)
LOG: dict[str, Any] = {"text": "a\nb", "none": None, "list": [1, [2.5]], "inner": {"é": True}}


def _runs() -> Path:
    """A finished run, with its references; they last as long as the process."""
    file = small_file("plain", WIDTH).path
    study = Study(
        files=((str(file),),),
        protocols=("incremental-class",),
        learners=("ncm",),
        seeds=(0,),
        set=parse_settings(SETTINGS),
    )
    run_grid(resolve(study), file.parent / "runs")
    return file.parent / "runs"


@TRACKER_CHECKS.add
def values_stay_untouched(name: str) -> None:
    """It takes any log that JSON can hold, and changes nothing that it is given."""
    runs = _runs()
    place = record_files.find(runs)[0]
    made = record_files.load(place)
    run = Run(place, runs, made)
    kept = made.to_json()
    log = {"learn_seconds": 0.5, "bytes": 8, **LOG}
    scores: list[dict[str, float]] = [{made.score: made.pooled[0], "R/0": made.R[0][0]}, {}]
    sessions = [Session(each, dict(log)) for each in scores]
    given = copy.deepcopy(sessions)
    with TemporaryDirectory() as folder:
        make_tracker(f"{name}:{folder}/target").add_run(run, sessions)
    demand(sessions == given, f"expected {given}, the tracker made {sessions}")
    demand(made.to_json() == kept, "expected the record as it was, the tracker changed it")
