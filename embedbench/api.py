"""The Python API: a file, a stream, a learner, a score; and what code from outside is written with.

The toolkit of learners is in `embedbench.learning`. Nothing here imports torch before it is used.
"""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.fields_added_later import later
from embedbench.config.make_from_settings import make
from embedbench.config.named_streams import find_protocol
from embedbench.config.run_seeds import Seeds
from embedbench.config.setting_ranges import above, at_least, require, within
from embedbench.config.typed_calls import check_arguments
from embedbench.engines.device import find_device
from embedbench.errors import UserError, keep_inside, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote.fetch import local, open_file
from embedbench.learning.learner import Learner
from embedbench.runs.learner_and_protocol_names import alias_settings, learner_class, protocol_class
from embedbench.scores import metrics_by_library
from embedbench.scores.array_file import WrongError
from embedbench.scores.metrics import Reference, compute
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.streams.check_stream import check_stream
from embedbench.streams.load_table import load_table
from embedbench.streams.make_sessions import flat_spec, one_file, split_rows, view_session
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Session, Stream, StreamSpec
from embedbench.system.cpu_threads import MOST_THREADS, limit_threads

if TYPE_CHECKING:
    from embedbench.extract.backbone import Backbone
    from embedbench.extract.source import Source, read_sample

__all__ = [
    "build_stream", "make_learner", "run", "score", "audit", "local", "score_matrices",
    "above", "at_least", "later", "require", "within", "Session", "StreamSpec",  # of plug-ins
    "flat_spec", "load_table", "one_file", "split_rows", "view_session",  # protocols
    "Backbone", "Source", "read_sample",  # extraction
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what extracts embeddings at its first use."""
    if name == "Backbone":
        from embedbench.extract import backbone

        return backbone.Backbone
    if name in ("Source", "read_sample"):
        from embedbench.extract import source

        return getattr(source, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What a notebook completes: no module that this one imports."""
    return sorted(__all__)


@check_arguments
def build_stream(
    files: str | Path | EmbeddingFile | Sequence[str | Path | EmbeddingFile],
    protocol: str | Protocol,
    *,
    seed: int = 0,
    **params: Any,
) -> Stream:
    """Build a stream: `build_stream("mnist.h5", "incremental-class", base=5)`.

    A file may also be a name: `hf://datasets/ORG/NAME@REVISION/mnist.h5`, `https://…`, `s3://…` or
    `known:NAME`; it is fetched, unless it is in the cache.

    `protocol` is a name, also one of a stream (`b0-inc10`; `params` go over its settings),
    `package.module:Class`, or a `Protocol` with its parameters, such as `IncrementalClass(base=5)`.
    `seed` is the one that `embedbench run --seed` takes; the order seed is drawn from it.
    """
    if isinstance(protocol, Protocol):
        if params:
            raise UserError(
                f"{type(protocol).__name__} is made already",
                f"give it {', '.join(params)} when you make it",
            )
        made = protocol
    else:
        name, named = find_protocol(protocol)
        made = make(protocol_class(name), {**named, **params}, name="protocol")
    given = [files] if isinstance(files, str | Path | EmbeddingFile) else list(files)
    if not given:
        raise UserError("build_stream needs a file", "give its path or its name")
    opened = [f if isinstance(f, EmbeddingFile) else open_file(f) for f in given]
    with limit_threads(1), keep_inside(f"the protocol {type(made).__name__}"):
        return made.build(opened, seed=Seeds.of(seed).order)


@check_arguments
def make_learner(name: str, **params: Any) -> Learner:
    """Make a learner by name: `make_learner("ewc", lam=100)`."""
    made: Learner = make(learner_class(name), {**alias_settings(name), **params}, name=name)
    return made


@check_arguments
def run(
    stream: Any,
    learner: Learner | str,
    *,
    seed: int = 0,
    device: Any = "cpu",
    threads: int = 1,
) -> RunAnswers:
    """Run a learner through a stream; return its answers after every session.

    `seed` and `threads` are those of `embedbench run`: equal ones give equal answers. `device` is a
    name or a `torch.device`. A file is no stream: `embedbench.run_all` takes files.
    """
    from embedbench.runs.stream_runner import run_stream

    if not isinstance(stream, Stream):
        raise UserError(
            "stream of run",
            "make one with build_stream(FILE, PROTOCOL), or give the file to run_all(FILE, "
            "PROTOCOL, LEARNERS)",
            expected="a stream",
            got=stream,
        )
    require(SimpleNamespace(threads=threads), "", threads=at_least(1, MOST_THREADS))
    device = find_device(str(device))
    check_stream(stream)
    if isinstance(learner, str):
        learner = make_learner(learner)
    with limit_threads(threads):
        return run_stream(stream, learner, Seeds.of(seed), device)[0]


@check_arguments
def score(
    predictions: RunAnswers,
    *,
    offline: RunAnswers | Sequence[RunAnswers] | None = None,
    score: str | None = None,
    normalise_new: bool = False,
    class_sizes: Sequence[int] | None = None,
) -> dict[str, float]:
    """All metrics of one run by name, as fractions.

    Parameters
    ----------
    offline : Predictions or sequence of Predictions or None
        Answers of the `offline` learner on the same stream, or on each of its `references`, of
        which a multi-modal stream has several. None: Ω is NaN.
    score : str or None
        Base score, one of `predictions.SCORES`. None: the first of them.
    normalise_new : bool
        Whether Ω_new is divided by α_ideal; give `stream.normalise_new`.
    class_sizes : sequence of int or None
        (C,) training samples of each class; give `stream.class_sizes`.
    """
    ideal: float | Floats = float("nan")
    matrices = score_matrices(predictions, class_sizes)
    if score is None:
        score = next(iter(matrices))
    elif score not in matrices:
        raise unknown("score", score, matrices)
    if offline is not None and not score.startswith("within_"):  # Ω is over all classes
        runs = offline if isinstance(offline, Sequence) else [offline]
        _check_references(predictions, runs)
        each = np.array([score_matrices(p)[score].pooled[-1] for p in runs])
        ideal = each if len(each) > 1 else float(each[0])
    reference = Reference(ideal=ideal, normalise_new=normalise_new)
    return compute(matrices[score], reference)


@check_arguments
def score_matrices(
    predictions: RunAnswers, class_sizes: Sequence[int] | None = None
) -> dict[str, ScoreMatrix]:
    """Every base score of a run, by name; the main score comes first.

    `class_sizes` are (C,) training samples of each class in the whole stream, if they are known.

    Raises
    ------
    UserError
        The predictions hold what no run can have answered, or `class_sizes` are of other classes.
    """
    check_predictions(predictions)
    n_classes = predictions.seen.shape[1]
    if class_sizes is not None and len(class_sizes) != n_classes:
        expected = f"{n_classes} numbers, one for each class"
        raise UserError("class_sizes", expected=expected, got=len(class_sizes))
    return predictions.score_matrices(class_sizes)


@check_arguments
def audit(predictions: Predictions) -> list[dict[str, Any]]:
    """Every library's definition with its value on one run, as plain JSON; NaN where undefined.

    They are fractions.
    """
    check_predictions(predictions)
    return metrics_by_library.audit(predictions)


def check_predictions(predictions: RunAnswers) -> None:
    """Refuse predictions that no run can have made, as where a file of them is read."""
    try:
        predictions.check()
    except WrongError as e:
        raise UserError(
            f"these predictions are not those of a run ({e})",
            "give what run returns, or load_runs(…)[0].predictions()",
        ) from None


def _check_references(predictions: RunAnswers, runs: Sequence[RunAnswers]) -> None:
    """Refuse reference runs that are of another kind, or of another number than can be used."""
    sets = 1 if predictions.OWN_SETS else predictions.n_sets
    if any(type(one) is not type(predictions) for one in runs) or len(runs) not in (1, sets):
        raise UserError(
            "offline",
            "give the answers of the offline learner on each of stream.references",
            expected=f"1 or {sets} runs with answers of the same kind",
            got=len(runs),
        )
