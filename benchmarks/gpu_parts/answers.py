"""Does a learner give the same answers on the card as on the CPU, and the same bits twice?

Every learner runs on overlapping blobs: embeddings, label sets, layers and images, as far as its
tags allow. After the last session the scores of all samples are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.checks.blob_streams import EVERY_CLASS, SESSIONS, as_images, blobs, family_blobs
from embedbench.checks.learner_check_tools import SEEDS, measure_difference, small
from embedbench.learning.learner import Tags
from embedbench.runs import learner_and_protocol_names
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream
from embedbench.streams.view import View, table_of
from embedbench.system.gpu_determinism import repeatable
from gpu_parts.step import Bench, Figure, Step

OVERLAP = 1.0  # deviation of added noise, so that not all answers are right
UNIT = 1.0 + 2.0**-23  # 1 plus one unit in the last place
NEAR = 1000  # up to this many times the effect of that unit, a difference is rounding
MOST = 1e-2  # a larger difference is never rounding
AIM = "all answers, but for rounding; twice the same bits"
OWN_DRAWS = {"fr": "it draws its features with the card's own generator, on purpose: other draws"}


def steps() -> list[Step]:
    """One step for each learner and each kind of stream that it takes."""
    result = [
        Step(f"answers/{kind}/{name}", seconds, partial(compare, name, kind), lacks)
        for name, tags, lacks in each_learner()
        for kind, seconds in kinds(tags or Tags()).items()
    ]
    return sorted(result, key=lambda step: step.name.split("/")[1] != "embeddings")


def each_learner() -> Iterator[tuple[str, Tags | None, tuple[str, ...]]]:
    """Every learner with its tags; None where a module is missing that only this learner needs."""
    for name in learner_and_protocol_names.learner_names():
        if name in learner_and_protocol_names.ALIASES:
            continue
        try:
            yield name, learner_and_protocol_names.learner_class(name).tags, ()
        except ImportError as error:
            yield name, None, (error.name or "numba",)


def kinds(tags: Tags) -> dict[str, float]:
    """The kinds of stream that a learner with these tags takes, and the expected seconds."""
    seconds = {"layers" if tags.needs_layers else "embeddings": 3.0}
    if tags.multilabel:
        seconds["label-sets"] = 3.0
    if tags.images:
        seconds["images"] = 6.0
    return seconds


def stream_of(kind: str, tags: Tags, toy: bool) -> Stream:
    """A new stream: blobs that overlap."""
    if kind == "label-sets":
        stream = family_blobs(tags)
    elif kind == "images":
        stream = blobs(tags, EVERY_CLASS if tags.offline else SESSIONS, 12 if toy else 60)
    else:
        stream = blobs(tags, sizes=30 if toy else 240, n_val=12)
    values = table_of(stream.sessions[0].x).values
    values += np.random.default_rng(3).normal(0, OVERLAP, values.shape).astype(np.float32)
    return as_images(stream) if kind == "images" else stream


def scores_of(name: str, kind: str, device: str, toy: bool, scale: float = 1.0) -> NDArray[Any]:
    """Scores of all samples of the table after the last session, (n, C), on the CPU."""
    import torch

    cls = learner_and_protocol_names.learner_class(name)
    stream = stream_of(kind, cls.tags, toy)
    table = table_of(stream.sessions[0].x)
    if kind != "images":
        table.values *= np.float32(scale)
    more = {"trunk": "resnet8", "epochs": 2, "augment": "crop-flip"} if kind == "images" else {}
    learner = small(cls, **more)
    run_stream(stream, learner, SEEDS, device)
    x = View(table, np.arange(len(table.values)), stream.sessions[0].x.width).tensor(device)
    reveals = stream.spec.reveals_session_id or cls.tags.needs_session_id
    ids = torch.arange(len(x), device=device) % len(stream.sessions) if reveals else None
    with torch.inference_mode(), repeatable(device):
        scores = torch.as_tensor(learner.scores(x, session_id=ids))
    table_scores: NDArray[Any] = scores.cpu().double().numpy()
    return table_scores


def compare(name: str, kind: str, bench: Bench) -> list[Figure]:
    """Compare CPU with card and card with card; measure the effect of rounding on the CPU."""
    cpu = scores_of(name, kind, "cpu", bench.toy)
    card, again = (scores_of(name, kind, bench.device, bench.toy) for _ in range(2))
    equal = float((answers(cpu, kind) == answers(card, kind)).all(axis=1).mean())
    off, twice = measure_difference(cpu, card), measure_difference(card, again)
    repeats = card.tobytes() == again.tobytes()
    figure = f"{100 * equal:.2f} % of {len(cpu)} answers equal, scores {off:.1e} apart; twice: "
    figure += "same bits" if repeats else f"scores {twice:.1e} apart"
    rounding, note = np.nan, ""
    if kind != "images":  # bytes have no unit in the last place
        rounding = measure_difference(cpu, scores_of(name, kind, "cpu", bench.toy, UNIT))
        note = f"a unit in the last place of the inputs moves the CPU's scores by {rounding:.1e}"
    same: bool | None = equal == 1 or off <= min(NEAR * rounding, MOST)
    if equal < 1 and same:
        note += "; the answers differ by rounding alone"
    elif not same and name in OWN_DRAWS:
        same, note = None, f"{note}; {OWN_DRAWS[name]}"
    holds = False if not repeats else same
    values = {"equal": equal, "off": off, "rounding": rounding, "repeats": repeats, "twice": twice}
    return [Figure(f"{name}, {kind}: card and CPU", figure, AIM, holds, note, values)]


def answers(scores: NDArray[Any], kind: str) -> NDArray[Any]:
    """The answers of scores (n, C): sets of labels (n, C), or one class (n, 1)."""
    return scores > 0 if kind == "label-sets" else scores.argmax(axis=1, keepdims=True)
