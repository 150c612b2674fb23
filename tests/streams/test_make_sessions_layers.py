"""Intermediate layers in a stream: read, scaled each on its own, shown to those who ask."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from honest_learners import Good

from embedbench.checks.blob_streams import blobs
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file
from embedbench.learning.learner import Tags
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.load_table import layer_names, load_table
from embedbench.streams.make_sessions import layer_columns
from embedbench.streams.stream import Stream, StreamSpec
from embedbench.streams.view import View, table_of

N, D = 60, 4
LAYERS = {"block-9": 3, "block-10": 2}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    """Six classes of eight training and two test samples; values of a table start at 10, 20, 30."""
    draw = np.random.default_rng(0)
    samples = Samples(
        ids=np.array([f"{i}.png" for i in range(N)]),
        labels=np.arange(N) % 6,
        split=np.where(np.arange(N) < 48, 0, 2).astype(np.uint8),
        classes=tuple("abcdef"),
        parents=np.full(6, -1),
    )
    tables = {
        name: (start + draw.normal(size=(N, width))).astype(np.float32)
        for start, (name, width) in zip((10, 20, 30), {"": D, **LAYERS}.items(), strict=True)
    }
    path = tmp_path_factory.mktemp("layers") / "vit.h5"
    features = tables.pop("")
    tables["block-9"][-1] *= 4e-14  # about 1e-12 long, which is still scaled
    return write_file(path, samples, features, {"backbone": {"name": "vit"}}, layers=tables)


@dataclass
class Wide(Good):
    """Asks for layers."""

    tags: ClassVar[Tags] = Tags(needs_layers=True)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.seen = spec


@dataclass
class Narrow(Wide):
    """Does not."""

    tags: ClassVar[Tags] = Tags()


def shown(stream: Stream) -> list[View]:
    sets = [e.x for e in stream.eval_sets]
    return [*(v for s in stream.sessions for v in (s.x, s.val_x)), *sets]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("all", {"block-9": (4, 7), "block-10": (7, 9)}),  # by number
        ("none", {}),
        ("block-10", {"block-10": (4, 6)}),
        ("block-10, block-9,block-10", {"block-10": (4, 6), "block-9": (6, 9)}),
    ],
)
def test_places(layers: str, expected: dict[str, tuple[int, int]], file: EmbeddingFile) -> None:
    stream = FSCIL(layers=layers).build([file], seed=0)
    width = D + sum(LAYERS[name] for name in expected)
    assert stream.spec.layers == expected
    assert stream.spec.input_shape == (width,)
    table = table_of(shown(stream)[0]).values
    np.testing.assert_array_equal(table[:, :D], file.read())
    for name, (first, end) in expected.items():
        np.testing.assert_array_equal(table[:, first:end], file.read([name])[:, D:])
    assert {v.width for v in shown(stream)} == {width}
    assert layer_columns(file, layer_names(file, layers)) == expected


@pytest.mark.parametrize(
    "given",
    [{"layers": "block-8"}, {"layers": "block-9,"}, {"layers": ""}, {"embedding": "block-8"}],
)
def test_an_unknown_layer_is_refused(given: dict[str, str], file: EmbeddingFile) -> None:
    with pytest.raises(UserError, match=r"layer .*vit\.h5 .* block-10, block-9"):
        IncrementalClass(**given).build([file], seed=0)


@pytest.mark.parametrize("scale", ["none", "l2", "rms", "standard", "auto"])
def test_each_part_is_scaled_on_its_own(scale: str, file: EmbeddingFile) -> None:
    rows = np.arange(40)
    together = load_table(file, scale, rows, ["block-9", "block-10"])[0].values
    np.testing.assert_array_equal(together[:, :D], load_table(file, scale, rows)[0].values)
    for name, (first, end) in layer_columns(file, ["block-9", "block-10"]).items():
        x = file.read([name])[:, D:].astype(np.float64)
        if scale in ("l2", "rms"):
            x /= np.sqrt((x**2).sum(1, keepdims=True)) / (np.sqrt(end - first) ** (scale == "rms"))
        elif scale != "none":
            x = np.clip((x - x[rows].mean(0)) / x[rows].std(0), -5, 5)
        np.testing.assert_allclose(together[:, first:end], x, rtol=1e-4, atol=1e-5)


def test_the_features_digest_says_which_layers(file: EmbeddingFile) -> None:
    options = ("all", "none", "block-9", "block-10", "block-10,block-9")
    digests = [load_table(file, "none", np.arange(9), layer_names(file, o))[1] for o in options]
    streams = [FSCIL(layers=o).build([file], seed=0) for o in options]
    assert [s.digests["features"] for s in streams] == digests
    assert len({*digests}) == 5
    assert len({s.digests["train"] for s in streams}) == 1


@pytest.mark.parametrize("layers", ["none", "all"])
@pytest.mark.parametrize("embedding", LAYERS)
def test_a_layer_replaces_the_embedding(embedding: str, layers: str, file: EmbeddingFile) -> None:
    stream = FSCIL(embedding=embedding, layers=layers).build([file], seed=0)
    table, width = table_of(shown(stream)[0]).values, LAYERS[embedding]
    np.testing.assert_array_equal(table[:, :width], file.read([embedding])[:, D:])
    assert table.shape[1] == width + (0 if layers == "none" else 5)
    for name, (first, end) in stream.spec.layers.items():
        np.testing.assert_array_equal(table[:, first:end], file.read([name])[:, D:])
    alone = Narrow()
    run_stream(stream, alone, Seeds.of(0))
    assert alone.seen == StreamSpec((width,), 6)
    assert embedding in stream.notes[0]


def test_incremental_class_takes_layers_too(file: EmbeddingFile) -> None:
    usual, layer, beside = (
        IncrementalClass(scale="none", **given).build([file], seed=0)
        for given in ({}, {"embedding": "block-9"}, {"layers": "all"})
    )
    np.testing.assert_array_equal(table_of(shown(layer)[0]).values, file.read(embedding="block-9"))
    assert layer.spec == StreamSpec((3,), 6)
    assert "block-9" in layer.notes[0]
    assert beside.spec.layers == {"block-9": (4, 7), "block-10": (7, 9)}
    np.testing.assert_array_equal(
        table_of(shown(beside)[0]).values, file.read(["block-9", "block-10"])
    )
    for other in (layer, beside):
        same = {key for key, value in other.digests.items() if value == usual.digests[key]}
        assert same == {"train", "eval"}
    for name in ("embedding", "layers"):  # runs made before there was a choice keep their place
        assert f'"{name}"' not in usual.recipe


def test_a_stream_without_its_layers(file: EmbeddingFile) -> None:
    stream = FSCIL().build([file], seed=0)
    cut = stream.without_layers()
    plain = FSCIL(layers="none").build([file], seed=0)
    assert cut.spec == plain.spec
    assert cut.digests == stream.digests
    for a, b, wide in zip(shown(cut), shown(plain), shown(stream), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert table_of(a) is table_of(wide)  # no second one
    assert plain.without_layers() is plain


def test_merged_and_revealed_keep_the_layers(file: EmbeddingFile) -> None:
    stream = FSCIL().build([file], seed=0)
    merged, told = stream.merged(), stream.revealed()
    assert merged.spec.layers == told.spec.layers == stream.spec.layers
    assert {v.width for v in (*shown(merged), *shown(told))} == {9}
    assert not told.merged().spec.reveals_session_id
    whole = replace(told, whole=merged.sessions, alone=(stream,)).without_layers()
    assert {v.width for v in shown(whole.merged())} == {D}
    assert whole.alone[0].spec == whole.merged().spec == StreamSpec((D,), 6)


def test_layers_are_shown_to_those_who_ask(file: EmbeddingFile) -> None:
    stream = FSCIL().build([file], seed=0)
    wide, narrow, plain = Wide(), Narrow(), Narrow()
    run_stream(stream, wide, Seeds.of(0))
    assert wide.seen == stream.spec
    told, _ = run_stream(stream, narrow, Seeds.of(0))
    assert narrow.seen == StreamSpec((D,), 6)
    alone, _ = run_stream(FSCIL(layers="none").build([file], seed=0), plain, Seeds.of(0))
    np.testing.assert_array_equal(told.answer, alone.answer)


def test_a_learner_that_needs_layers_is_refused_without(file: EmbeddingFile) -> None:
    for stream in (FSCIL(layers="none").build([file], seed=0), blobs(Tags())):
        with pytest.raises(UserError) as error:
            run_stream(stream, Wide(), Seeds.of(0))
        assert "Wide needs intermediate layers" in str(error.value)
        assert "extract SOURCE --layers" in str(error.value)
