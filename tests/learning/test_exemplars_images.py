"""Exemplars of images: held as bytes, shown again bit by bit, and counted as what they are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from embedbench.checks.blob_streams import as_images, blobs
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.exemplars import Exemplars, Memory
from embedbench.learning.sample_containers import JoinedView, Packing
from embedbench.models.er import ER
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.feature_tables import PixelTable, standardise_images
from embedbench.streams.stream import Stream, StreamSpec
from embedbench.streams.view import View

SHAPE = (3, 4, 5)


def spec_of(table: PixelTable) -> StreamSpec:
    return StreamSpec(SHAPE, 4, scaling=table.scaling)


def every_level(factor: tuple[float, ...], offset: tuple[float, ...]) -> PixelTable:
    """256 images, each of one level of grey."""
    values = np.arange(256, dtype=np.uint8)[:, None, None, None]
    return PixelTable(np.broadcast_to(values, (256, 4, 5, len(factor))).copy(), factor, offset)


def whole(table: PixelTable) -> View:
    return View(table, np.arange(len(table.values)), table.width)


def test_every_byte_comes_back_for_every_scaling_that_a_file_can_have() -> None:
    """Means within [0, 1], deviations between a level of grey, as of a flat image, and .5."""
    flat, draw = np.full((9, 4, 5, 3), 255, np.uint8), np.random.default_rng(0)
    tables = [PixelTable(flat), standardise_images(flat, np.arange(9))]
    for _ in range(5):
        deviation = np.exp(draw.uniform(np.log(1 / 255), np.log(0.5), 3))
        factor, offset = 1 / (255 * deviation), -draw.uniform(0, 1, 3) / deviation
        tables.append(every_level(tuple(factor.tolist()), tuple(offset.tolist())))
    for table in tables:
        x = whole(table).tensor()
        packing = Packing(spec_of(table), "cpu")
        held = packing.pack(x)
        assert held.dtype == torch.uint8
        assert torch.equal(held, table.tensor("cpu").permute(0, 3, 1, 2))
        assert torch.equal(packing.unpack(held), x)  # bit by bit: no value is NaN or -0


def test_a_scaling_whose_levels_float32_cannot_tell_apart_is_held_as_shown() -> None:
    table = every_level((1e-9,) * 3, (1.0,) * 3)
    x = whole(table).tensor()
    assert len(x.unique()) < 256
    held = Exemplars(Memory(select="all"), spec_of(table), 0, "cpu")
    held.add(x, torch.zeros(256, dtype=torch.int64))
    assert torch.equal(held.x, x)
    assert held.footprint().total == 256 * (4 * 60 + 8)


@pytest.mark.parametrize("select", ["herding", "random", "reservoir", "balanced", "all"])
def test_bytes_and_floats_keep_and_show_the_same(select: str) -> None:
    values = np.random.default_rng(1).integers(0, 256, (40, 4, 5, 3), np.uint8)
    table = standardise_images(values, np.arange(30))
    stream = shown_as(table, np.arange(40) % 4)
    memory = Memory(total=9, select=select)
    as_bytes, as_floats = (
        Exemplars(memory, replace(stream.spec, scaling=s), 5, "cpu") for s in (table.scaling, None)
    )
    for held in (as_bytes, as_floats):
        for session in stream.sessions:
            if select in ("herding", "random"):
                held.choose(session, lambda x: x.flatten(1))
            else:
                held.add(session.x.tensor(), torch.from_numpy(session.y))
    n = len(as_bytes)
    assert torch.equal(as_bytes.x, as_floats.x)
    assert torch.equal(as_bytes.lists, as_floats.lists)
    a, b = (held.sample(5, np.random.default_rng(0))[0] for held in (as_bytes, as_floats))
    assert torch.equal(a, b)
    session = stream.sessions[0]
    one, other = (held.join(session).x for held in (as_bytes, as_floats))
    assert isinstance(one, JoinedView)
    index = torch.tensor([len(session.x) + n - 1, 0, *range(len(one))])
    assert torch.equal(one.batch(index), other.batch(index))
    assert as_bytes.footprint().total == n * (60 + 8)
    assert as_floats.footprint().total == n * (240 + 8)


def shown_as(table: PixelTable, y: Any) -> Stream:
    """Two sessions of two classes over a table of images."""
    stream = as_images(blobs(ER.tags, ((0, 1), (2, 3)), 8, n_val=0))
    sessions = []
    for s, classes in zip(stream.sessions, ((0, 1), (2, 3)), strict=True):
        rows = np.flatnonzero(np.isin(y, classes))
        view = View(table, rows, table.width)
        sessions.append(replace(s, x=view, y=y[rows], ids=rows, classes=np.array(classes)))
    return replace(stream, spec=spec_of(table), sessions=tuple(sessions))


def test_a_scaling_that_is_not_the_tables_is_refused() -> None:
    stream = as_images(blobs(ER.tags))
    wrong = replace(stream, spec=replace(stream.spec, scaling=((1.0,) * 3, (0.0,) * 3)))
    with pytest.raises(UserError, match=r"session 0 .*another scaling"):
        run_stream(wrong, ER(trunk="resnet8"), Seeds.of(0))
