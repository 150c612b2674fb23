"""Streams of images: what is shown, what scales it, and one stream on two files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import HIGH, WIDE, embedding_file, image_bytes, pixel_file, samples
from image_streams import STREAMS
from numpy.typing import NDArray

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.write_file import write_file
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.multi_modal import MultiModal
from embedbench.protocols.permutation import Permutation
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.feature_tables import PixelTable
from embedbench.streams.stream import Stream
from embedbench.streams.view import View, rows_of, table_of


def by_elements(view: View, factor: list[float], offset: list[float]) -> NDArray[np.float64]:
    """The view by its definition, a value at a time."""
    values = table_of(view).values
    _, high, wide, channels = values.shape
    out = np.zeros((len(view), channels, high, wide))
    for i, row in enumerate(rows_of(view)):
        for k in range(high * wide):
            source = k if view.columns is None else int(view.columns[k])
            for c in range(channels):
                value = float(values[row, source // wide, source % wide, c])
                out[i, c, k // wide, k % wide] = value * factor[c] + offset[c]
    return out


def image_view(seed: int) -> View:
    draw = np.random.default_rng(seed)
    channels = (1, 3)[seed % 2]
    table = PixelTable(
        draw.integers(0, 256, (9, HIGH, WIDE, channels), np.uint8),
        tuple(draw.uniform(0.001, 0.01, channels).tolist()),
        tuple(draw.normal(size=channels).tolist()),
    )
    columns = draw.permutation(HIGH * WIDE) if seed % 3 else None
    return View(table, draw.integers(0, 9, 7), table.width, columns)


@pytest.mark.parametrize("seed", range(4))
def test_numpy_and_tensor_are_the_definition(seed: int) -> None:
    view = image_view(seed)
    table = table_of(view)
    assert isinstance(table, PixelTable)
    expected = by_elements(view, *map(list, table.scaling))
    shown = view.tensor()
    np.testing.assert_allclose(shown.numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(shown.numpy(), view.numpy())
    assert view.shape == shown.shape[1:] == view.numpy().shape[1:]
    assert (shown.dtype, view.numpy().dtype) == (torch.float32, np.float32)
    assert shown.is_contiguous()
    index = torch.tensor([2, 0, 2, 6])
    assert torch.equal(view.batch(index), shown[index])
    assert view.batch(index[:0]).shape == (0, *view.shape)


def test_standard_is_per_channel_over_the_training_data_of_session_0(tmp_path: Path) -> None:
    file = pixel_file(tmp_path)
    stream = IncrementalClass(scale_least=0).build([file], seed=0)  # scale="auto"
    assert (stream.scale, IncrementalClass().build([file], seed=0).scale) == ("standard", "none")
    assert stream.spec.input_shape == (3, HIGH, WIDE)
    x = stream.sessions[0].x.numpy()
    np.testing.assert_allclose(x.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(axis=(0, 2, 3)), 1, rtol=1e-5)
    rows = rows_of(stream.sessions[0].x)
    raw = file.images().transpose(0, 3, 1, 2) / 255
    centre, spread = (f(raw[rows], axis=(0, 2, 3))[:, None, None] for f in (np.mean, np.std))
    last = stream.sessions[-1].x
    np.testing.assert_allclose(last.numpy(), (raw[rows_of(last)] - centre) / spread, atol=1e-5)


def test_none_shows_values_between_0_and_1(tmp_path: Path) -> None:
    file = pixel_file(tmp_path, channels=1)
    stream = IncrementalClass(scale="none").build([file], seed=0)
    raw = file.images().transpose(0, 3, 1, 2) / 255
    view = stream.sessions[0].x
    np.testing.assert_allclose(view.numpy(), raw[rows_of(view)], rtol=1e-6)
    assert stream.fitted == ""


def test_a_constant_channel_stays_small(tmp_path: Path) -> None:
    values, standard = image_bytes(), IncrementalClass(scale="standard")
    values[..., 1] = 9
    file = write_file(tmp_path / "flat.h5", samples(), values, {})
    x = standard.build([file], seed=0).sessions[0].x.numpy()
    np.testing.assert_allclose(x[:, 1], 0, atol=1e-5)
    values[0, 0, 0, 1] = 10  # one level of grey is at most one
    file = write_file(tmp_path / "near.h5", samples(), values, {})
    x = standard.build([file], seed=0).sessions[0].x.numpy()
    assert np.ptp(x[:, 1]) == pytest.approx(1, abs=1e-4)


def test_scalings_of_vectors_are_refused_and_joined_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'rms' .* p\.h5"):
        IncrementalClass(scale="rms").build([pixel_file(tmp_path)], seed=0)
    with pytest.raises(UserError, match=r"p\.h5 holds images"):
        MultiModal().build([embedding_file(tmp_path), pixel_file(tmp_path)], seed=0)


def test_a_permutation_moves_pixels_with_all_their_channels(tmp_path: Path) -> None:
    stream = Permutation(sessions=3, scale="none").build([pixel_file(tmp_path)], seed=5)
    draw = np.random.default_rng(5)
    for session, test in list(zip(stream.sessions, stream.eval_sets, strict=True))[1:]:
        columns = draw.permutation(HIGH * WIDE)
        for view in (session.x, session.val_x, test.x):
            plain = replace(view, columns=None).numpy().reshape(len(view), 3, -1)
            np.testing.assert_array_equal(
                view.numpy().reshape(len(view), 3, -1), plain[..., columns]
            )


def recipe_train_eval(stream: Stream) -> list[str]:
    return [stream.digests[key] for key in ("recipe", "train", "eval")]


@pytest.mark.parametrize("name", STREAMS)
def test_one_stream_on_two_files(tmp_path: Path, name: str) -> None:
    files = embedding_file(tmp_path), pixel_file(tmp_path)
    frozen, full = (STREAMS[name]().build([file], seed=1) for file in files)
    assert recipe_train_eval(frozen) == recipe_train_eval(full)
    assert full.spec.scaling == table_of(full.sessions[-1].x).scaling is not None
    a, b = frozen.merged(), full.merged()
    assert recipe_train_eval(a) == recipe_train_eval(b)
    for one, other in zip(frozen.sessions, full.sessions, strict=True):
        np.testing.assert_array_equal(rows_of(one.x), rows_of(other.x))


def test_a_learner_of_vectors_is_refused_with_the_remedy(tmp_path: Path) -> None:
    stream = IncrementalClass().build([pixel_file(tmp_path)], seed=0)
    with pytest.raises(UserError, match=r"NCM .* \(3, 3, 4\).* extract SOURCE .* --trunk"):
        run_stream(stream, learner_class("ncm")(), Seeds.of(0))


def test_views_of_another_shape_are_refused(tmp_path: Path) -> None:
    stream = IncrementalClass().build([pixel_file(tmp_path)], seed=0)
    *others, last = stream.sessions
    for x in (replace(last.x, width=5), replace(last.x, columns=np.arange(13))):
        bad = replace(stream, sessions=(*others, replace(last, x=x)))
        with pytest.raises(UserError, match=r"shape \(3, 1?[35]?\), .* says \(3, 3, 4"):
            run_stream(bad, learner_class("chance")(), Seeds.of(0))
