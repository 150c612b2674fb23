"""Mapped tables: the same bits as tables in memory, whatever is asked of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from file_helpers import PROVENANCE, make_features
from toy import class_stream

from embedbench.array_types import Array
from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file
from embedbench.learning import sample_containers
from embedbench.learning.exemplars import Exemplars, Memory
from embedbench.learning.loss import batch_loss
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import validation_value
from embedbench.streams import feature_tables, scaling
from embedbench.streams import load_table as loading
from embedbench.streams.feature_tables import MappedTable, PixelTable, Table
from embedbench.streams.scaling import statistics
from embedbench.streams.view import View

N = 2300  # not a multiple of a block
SCALES = ("none", "l2", "rms", "standard")


def made(path: Path, dtype: str = "float32", *, seed: int = 0, width: int = 7) -> EmbeddingFile:
    draw = np.random.default_rng(seed)
    labels = np.arange(N) % 6
    samples = Samples(
        ids=np.array([f"{seed}/{i}" for i in range(N)]),
        labels=labels,
        split=np.where(draw.random(N) < 0.3, 2, 0),
        classes=tuple("abcdef"),
        parents=np.full(6, -1),
    )
    x = make_features(N, width, seed) * 3 + labels[:, None] * np.arange(width)
    layers = {"b": make_features(N, 3, 1).astype(np.float16), "c": make_features(N, 1, 2)}
    return write_file(path, samples, x.astype(dtype), PROVENANCE, layers=layers)


def whole(table: Table) -> Array:
    return table.numpy(np.arange(len(table.values)), table.width, None)


def both(monkeypatch: pytest.MonkeyPatch, *given: Any) -> tuple[Table, Table]:
    """One table in memory and mapped, with the same digests."""
    resident, *digests = loading.load_table(*given)
    with monkeypatch.context() as patch:
        patch.setattr(loading, "RESIDENT", 0)
        mapped, *others = loading.load_table(*given)
        again, *_ = loading.load_table(*given)  # with statistics from the cache
    assert digests == others
    assert isinstance(mapped, MappedTable)
    assert mapped.unfit_row() is None
    np.testing.assert_array_equal(whole(mapped), whole(again))
    return resident, mapped


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("scale", SCALES)
def test_the_bits_of_a_mapped_table_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: str, dtype: str
) -> None:
    file, base = made(tmp_path / "a.h5", dtype), np.flatnonzero(np.arange(N) % 3)
    draw = np.random.default_rng(0)
    for layers, embedding, width in (((), "final", 7), (("b", "c"), "final", 11), (("b",), "c", 4)):
        a, b = both(monkeypatch, file, scale, base, layers, embedding)
        assert (a.width, a.shape_of(a.width)) == (b.width, b.shape_of(b.width)) == (width, (width,))
        np.testing.assert_array_equal(whole(a), whole(b))
        order, rows = draw.permutation(width), draw.permutation(N)[:77]
        for cut, columns in ((width, None), (width - 2, None), (width + 3, None), (width, order)):
            x, y = (View(t, rows, cut, columns) for t in (a, b))
            np.testing.assert_array_equal(x.numpy(), y.numpy())
            index = torch.from_numpy(draw.integers(0, 77, 20))
            assert torch.equal(x.batch(index), y.batch(index))
            assert x.tensor().shape == y.tensor().shape == (77, cut)
            assert View.nbytes([x]) == View.nbytes([y])
            (kept,) = View.from_state_dict(View.state_dict([y]))
            np.testing.assert_array_equal(kept.numpy(), x.numpy())


@pytest.mark.parametrize("seed", range(4))
def test_statistics_by_blocks_are_numpys(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    monkeypatch.setattr(scaling, "BLOCK", (1, 2, 100, 1024)[seed])
    n, width = (int(draw.integers(1, 3000)), 1999, 2049, 1)[seed], (1030, 1, 17, 2)[seed]
    spread = 10 ** draw.uniform(-3, 3, width)
    x = (draw.standard_normal((n, width)) * spread + 5).astype(np.float32)
    rows = draw.permutation(n)
    mean, deviation = statistics(x.__getitem__, rows)
    np.testing.assert_array_equal(mean, x[rows].mean(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(deviation, x[rows].std(axis=0, dtype=np.float64))


def test_images_are_mapped_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).integers(0, 256, (N, 3, 2, 3), dtype=np.uint8)
    file = write_file(tmp_path / "p.h5", made(tmp_path / "a.h5").samples, images, PROVENANCE)
    monkeypatch.setattr(loading, "RESIDENT", images.nbytes)
    assert not loading.is_mapped(file)
    monkeypatch.undo()
    for scale in ("none", "standard"):
        a = loading.load_table(file, scale, np.arange(0, N, 2))[0]
        monkeypatch.setattr(loading, "RESIDENT", images.nbytes - 1)
        assert loading.is_mapped(file)
        b = loading.load_table(file, scale, np.arange(0, N, 2))[0]
        monkeypatch.undo()
        assert isinstance(b, PixelTable)
        assert isinstance(b.values, np.memmap)
        assert a.scaling == b.scaling
        rows, order = np.random.default_rng(1).permutation(N)[:50], np.arange(6)[::-1].copy()
        for columns in (None, order):
            x, y = (View(t, rows, 6, columns) for t in (a, b))
            np.testing.assert_array_equal(x.numpy(), y.numpy())
            assert torch.equal(x.tensor(), y.tensor())
        assert b.unfit_row() is None
        np.testing.assert_array_equal(b.part(rows, 6).values, images[rows])


def test_a_device_gets_the_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = both(monkeypatch, made(tmp_path / "a.h5"), "standard", np.arange(N))
    assert a.moves("cpu")
    assert not b.moves("cpu")
    assert b.nbytes == a.nbytes
    b._moves.clear()
    monkeypatch.setattr(feature_tables, "free_bytes", lambda _: 3 * b.nbytes)
    monkeypatch.setattr(feature_tables, "MOVED", 4 * 7 * 999)  # rows at a time
    assert b.moves("cpu")
    assert torch.equal(b.tensor("cpu"), torch.from_numpy(whole(a)))
    monkeypatch.setattr(b, "numpy", None)  # not asked again
    x, y = (View(t, np.arange(0, N, 3), 7) for t in (a, b))
    assert torch.equal(x.tensor(), y.tensor())


def test_validation_by_blocks_is_that_of_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    session = class_stream([[0, 1], [2]], n_val=1500).sessions[0]
    net = mlp_net(6, 4, 1, 3, 0)

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return batch_loss(net(x), y, None)

    whole = [validation_value(net, session, m, loss, "cpu") for m in ("loss", "accuracy")]
    for values, sizes in (18000, [3000]), (12288, [2048, 952]), (6144, [1024, 1024, 952]):
        monkeypatch.setattr(sample_containers, "VALUES", values)
        assert [len(x) for x in sample_containers.blocks(session.val_x, "cpu")] == sizes
    blocks = [validation_value(net, session, m, loss, "cpu") for m in ("loss", "accuracy")]
    np.testing.assert_allclose(blocks, whole, rtol=1e-6)


def test_a_memory_reads_only_the_samples_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = class_stream([[0, 1], [2]])
    taken: list[int] = []
    batch = View.batch

    def counted(view: View, index: torch.Tensor, device: str = "cpu") -> torch.Tensor:
        taken.append(len(index))
        return batch(view, index, device)

    by_sample, held = (
        Exemplars(Memory(total=5, select="reservoir"), stream.spec, 3, "cpu") for _ in range(2)
    )
    for s in stream.sessions:
        by_sample.add(torch.from_numpy(s.x.numpy()), torch.from_numpy(s.y))
    monkeypatch.setattr(View, "batch", counted)
    for s in stream.sessions:
        held.update(s)
    assert max(taken) <= 5
    assert torch.equal(held.rows.x, by_sample.rows.x)
    assert torch.equal(held.lists, by_sample.lists)


@pytest.mark.parametrize("more", [0, 1])
def test_more_than_256_mib_are_mapped(more: int) -> None:
    """Of float32, whatever is stored; of images, bytes."""
    for kind, width, layers in (("pixels", 256, ()), ("e", 64, ()), ("e", 60, ("a", "b"))):
        like: Any = SimpleNamespace(kind=kind, layers={"a": 3, "b": 1}, labels=range(2**20 + more))
        like.width = {FINAL: width, "c": width - 1}.__getitem__
        assert loading.is_mapped(like, layers) == bool(more)
        assert not loading.is_mapped(like, layers, "c")
