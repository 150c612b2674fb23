"""Does a learner give the same answers on the card as on the CPU, and the same bits twice?

Every learner runs on overlapping blobs: embeddings, label sets, layers and images, as far as its
tags allow. After the last session the scores of all samples are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from embedbench.checks import blob_streams
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
UNITS = 8  # the most by which inputs are moved, in units in the last place
MOVES = range(12)  # seeds of the moves, until one explains what the card shows
NEAR = 1000  # up to this many times the effect of the moves, a difference is rounding
MOST = 1e-2  # a larger difference is rounding only where the moves make half of it
AIM = "all answers, but for rounding; twice the same bits"
# Where no move of the inputs can show what rounding does, and why.
OTHERWISE = {
    "fel": "Adam divides gradients of rounding's size by themselves; on the CPU, too, a unit in "
    "the last place of a probability moves the scores by more than 1",
    "fr": "it draws its features with the card's own generator, on purpose: other draws",
}


def steps() -> list[Step]:
    """One step for each learner and each kind of stream that it takes."""
    result = [
        Step(f"answers/{kind}/{name}", seconds, partial(compare, name, kind))
        for name, tags in each_learner()
        for kind, seconds in kinds(tags).items()
    ]
    return sorted(result, key=lambda step: step.name.split("/")[1] != "embeddings")


def each_learner() -> Iterator[tuple[str, Tags]]:
    """Every learner with its tags."""
    for name in learner_and_protocol_names.learner_names():
        if name not in learner_and_protocol_names.ALIASES:
            yield name, learner_and_protocol_names.learner_class(name).tags


def kinds(tags: Tags) -> dict[str, float]:
    """The kinds of stream that a learner with these tags takes, and the expected seconds."""
    seconds = {"layers" if tags.needs_layers else "embeddings": 3.0}
    if tags.multilabel:
        seconds["label-sets"] = 3.0
    if tags.images:
        seconds["images"] = 6.0
    return seconds


def stream_of(kind: str, tags: Tags, toy: bool, move: int | None = None) -> Stream:
    """A new stream: blobs that overlap; `move`: the seed by which its inputs are moved."""
    if kind == "label-sets":
        stream = family_blobs(tags)
    elif kind == "images":
        stream = blobs(tags, EVERY_CLASS if tags.offline else SESSIONS, 12 if toy else 60)
    else:
        stream = blobs(tags, sizes=30 if toy else 240, n_val=12)
    values = table_of(stream.sessions[0].x).values
    values += np.random.default_rng(3).normal(0, OVERLAP, values.shape).astype(np.float32)
    if kind != "images":
        values *= _moves(values.shape, move)
        return stream
    factor, offset = blob_streams.LEVELS  # bytes have no unit in the last place
    levels = tuple((factor * _moves((3,), move)).tolist()), offset
    with mock.patch.object(blob_streams, "LEVELS", levels):
        return as_images(stream)


def _moves(shape: tuple[int, ...], seed: int | None) -> NDArray[np.float32]:
    """Factors of 1 plus up to `UNITS` units in the last place, up or down; 1 without a seed."""
    draw = np.random.default_rng(seed)
    units = 0 if seed is None else draw.integers(-UNITS, UNITS + 1, shape)
    return np.broadcast_to(1 + units * np.float32(2**-23), shape).astype(np.float32)


def scores_of(
    name: str, kind: str, device: str, toy: bool, move: int | None = None
) -> NDArray[Any]:
    """Scores of all samples of the table after the last session, (n, C), on the CPU."""
    import torch

    cls = learner_and_protocol_names.learner_class(name)
    stream = stream_of(kind, cls.tags, toy, move)
    table = table_of(stream.sessions[0].x)
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
    rounding, same = 0.0, False
    for seed in MOVES:
        moved = scores_of(name, kind, "cpu", bench.toy, seed)
        rounding = max(rounding, measure_difference(cpu, moved))
        same = equal == 1 or off <= max(min(NEAR * rounding, MOST), 2 * rounding)
        if same:
            break
    note = f"{UNITS} units in the last place of the inputs move the CPU's by {rounding:.1e}"
    if equal < 1 and same:
        note += "; the answers differ by rounding alone"
    elif not same and name in OTHERWISE:
        note = f"{note}; {OTHERWISE[name]}"
    holds = None if repeats and not same and name in OTHERWISE else repeats and same
    values = {"equal": equal, "off": off, "rounding": rounding, "repeats": repeats, "twice": twice}
    return [Figure(f"{name}, {kind}: card and CPU", figure, AIM, holds, note, values)]


def answers(scores: NDArray[Any], kind: str) -> NDArray[Any]:
    """The answers of scores (n, C): sets of labels (n, C), or one class (n, 1)."""
    return scores > 0 if kind == "label-sets" else scores.argmax(axis=1, keepdims=True)
