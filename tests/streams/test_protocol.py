"""What protocols share: validation, scaling, errors."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.files.write_file import write_file
from embedbench.protocols.domain_incremental import DomainIncremental
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.iirc import IIRC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.instance import Instance
from embedbench.protocols.mixture import Mixture
from embedbench.protocols.permutation import Permutation
from embedbench.streams.make_sessions import deal_validation_rows, split_rows
from embedbench.streams.protocol import Protocol
from embedbench.streams.view import rows_of, table_of


@pytest.mark.parametrize(
    ("n", "fraction", "expected"),
    [
        (1, 0.1, 0),  # the only sample is for training
        (2, 0.1, 1),  # at least one
        (14, 0.1, 1),
        (16, 0.1, 2),  # rounded
        (2, 0.9, 1),  # and at least one stays
        (10, 0.5, 5),
    ],
)
def test_samples_that_a_class_gives(n: int, fraction: float, expected: int, tmp_path: Path) -> None:
    file = make_file(tmp_path, train=(n, 20), val=(0, 0), test=(1, 1))
    split = split_rows(file, "train", fraction)
    counts = [int((file.labels[rows] == 0).sum()) for rows in (split.val, split.train)]
    assert counts == [expected, n - expected]
    both = np.sort(np.concatenate([split.train, split.val]))
    np.testing.assert_array_equal(both, np.flatnonzero(file.split == TRAIN))


@pytest.mark.parametrize("cls", [IncrementalClass, Permutation])
def test_validation_on_test_data_is_said_aloud(cls: type[Any], tmp_path: Path) -> None:
    file = make_file(tmp_path, val=(1, 0, 0, 1))
    stream = cls(validation="test").build([file], seed=0)
    assert stream.validation == "test"
    trained = np.unique(np.concatenate([s.ids for s in stream.sessions]))
    np.testing.assert_array_equal(trained, np.flatnonzero(file.split != TEST))
    for session, test in zip(stream.sessions, stream.eval_sets, strict=True):
        np.testing.assert_array_equal(rows_of(session.val_x), rows_of(test.x))
    ordinary = cls().build([file], seed=0)
    assert ordinary.validation == "train"
    assert ordinary.digests["recipe"] != stream.digests["recipe"]


@pytest.mark.parametrize("cls", [IncrementalClass, Permutation])
def test_without_validation_all_but_test_samples_are_trained_on(
    cls: type[Any], tmp_path: Path
) -> None:
    file = make_file(tmp_path, val=(1, 0, 0, 1))
    stream = cls(validation="none").build([file], seed=0)
    trained = np.unique(np.concatenate([s.ids for s in stream.sessions]))
    np.testing.assert_array_equal(trained, np.flatnonzero(file.split != TEST))
    assert [len(s.val_x) for s in stream.sessions] == [0] * len(stream.sessions)
    assert "the 2 validation samples of file.h5 are trained on" in stream.notes


def test_no_note_where_a_file_brings_no_validation_samples(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    assert IncrementalClass(validation="none").build([file], seed=0).notes == ()


def test_a_merged_stream_has_no_validation_data_either(tmp_path: Path) -> None:
    stream = IncrementalClass(validation="none").build([make_file(tmp_path)], seed=0)
    (merged,) = stream.references
    assert merged.validation == "none"
    assert len(merged.sessions[0].val_x) == 0
    assert len(merged.sessions[0].x) == 16


def test_iirc_keeps_its_validation_data() -> None:
    with pytest.raises(UserError, check=says(what="iirc.validation", got="none")):
        IIRC(validation="none")


def test_auto_leaves_pixels_alone_and_standardises_embeddings(tmp_path: Path) -> None:
    pixels = make_file(tmp_path, backbone="pixels", name="pixels.h5")
    stream = Permutation().build([pixels], seed=0)
    np.testing.assert_array_equal(table_of(stream.sessions[0].x).values, pixels.read())
    assert stream.fitted == ""
    stream = Permutation(scale_least=9).build([make_file(tmp_path)], seed=0)
    assert stream.scale == "standard"
    train = stream.sessions[0].x.numpy()
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(train.std(0), 1, rtol=1e-5)


def test_auto_takes_no_statistics_of_too_few_samples(tmp_path: Path) -> None:
    """One sample has no deviation: by the earlier rule every later feature was -5, 0 or 5."""
    file = make_file(tmp_path, train=(1, 20, 20, 20))
    few, earlier = (
        IncrementalClass(base=1, scale_least=least).build([file], seed=0) for least in (50, 0)
    )
    np.testing.assert_allclose(np.square(few.sessions[1].x.numpy()).mean(1), 1, rtol=1e-5)
    assert few.scale == "rms"
    assert few.fitted == ""
    assert few.notes == earlier.notes
    assert (np.abs(earlier.sessions[1].x.numpy()) == 5).all()
    more = make_file(tmp_path, (20, 20, 20, 20), name="more.h5")
    assert IncrementalClass(base=3).build([more], seed=0).scale == "standard"  # 54 samples


def test_validation_rows_go_where_their_classes_are_taught() -> None:
    labels, parts = np.array([0, 0, 1, 2, 0, 1, 0, 2]), [np.array([0]), np.array([1, 2])]
    dealt = deal_validation_rows(labels, [*parts, np.array([2])], np.array([4, 5, 6, 7]))
    assert [rows.tolist() for rows in dealt] == [[4], [6], [5]]


UNEQUAL: dict[str, tuple[type[Protocol], dict[str, Any]]] = {
    "incremental-class": (IncrementalClass, {"sessions": 3, "order": "random"}),
    "fscil": (FSCIL, {"base": 3, "shot": 2, "order": "random"}),
    "domain-incremental": (DomainIncremental, {"domains": "random", "sessions": 2}),
    "class-iid": (Instance, {"ordering": "class-iid", "sessions": 5}),
    "iid": (Instance, {"ordering": "iid", "sessions": 3}),
    "iirc": (IIRC, {"base": 2, "step": 3}),
    "permutation": (Permutation, {}),
    **{
        setting: (Mixture, {"setting": setting, "sessions": 3, **more})
        for setting, more in (
            ("i-blurry", {}),
            ("si-blurry", {}),
            ("repetition", {}),
            ("long-tailed", {"imbalance": 0.1}),
            ("long-tailed-shuffled", {"imbalance": 0.2}),
        )
    },
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_no_order_decides_the_scaling(name: str, tmp_path: Path) -> None:
    """By the earlier rule a file of unequal classes was scaled by whichever came first."""
    sizes = (3, 5, 9, 14, 20, 29)
    domains = np.resize(np.array(list("xyyzzz")), sum(sizes) + 12)
    file = make_file(tmp_path, sizes, (0,) * 6, (2,) * 6, columns={"domain": domains})
    cls, settings = UNEQUAL[name]
    for least in (1, 8, 20, 100):
        streams = [cls(scale_least=least, **settings).build([file], seed=s) for s in range(5)]
        scales = {stream.scale for stream in streams}
        assert len(scales) == 1, least
        first = [len(stream.sessions[0].y) for stream in streams]
        assert scales == {"rms"} or max(first) >= least
        if name == "si-blurry":
            assert scales == {"rms"} or min(first) >= least
        if least == 1:
            assert scales == {"standard"}
    assert scales == {"rms"}


# Training samples of session 0 in the mean, of six classes of 9 (of label sets 8).
MEANS = dict.fromkeys(UNEQUAL, 18) | {"fscil": 27, "iirc": 16, "permutation": 54, "si-blurry": 1}
MEANS |= {"long-tailed": 6, "long-tailed-shuffled": 2, "domain-incremental": 36}


@pytest.mark.parametrize("name", UNEQUAL)
def test_a_mean_of_exactly_the_least_is_enough(name: str, tmp_path: Path) -> None:
    columns = {"domain": np.resize(np.array(list("xxyyz")), 72)}
    file = make_file(tmp_path, (10,) * 6, (0,) * 6, (2,) * 6, columns=columns)
    (cls, settings), least = UNEQUAL[name], MEANS[name]
    streams = [cls(scale_least=n, **settings).build([file], seed=0) for n in (least, least + 1)]
    assert [stream.scale for stream in streams] == ["standard", "rms"]
    np.testing.assert_allclose(streams[0].sessions[0].x.numpy().mean(0), 0, atol=1e-5)  # its own


def test_a_fitted_scaling_is_recorded_by_the_rows_it_saw(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    of_base = partial(IncrementalClass, order="random", scale_least=0, base=1)
    fitted = {
        tuple(s.classes.tolist()): stream.fitted
        for seed in range(20)
        for stream in [of_base().build([file], seed=seed)]
        for s in stream.sessions[:1]
    }
    assert len(fitted) == len(set(fitted.values())) == 4  # one for each base class
    assert IncrementalClass(scale="l2").build([file], seed=0).fitted == ""


def test_a_constant_column_stays_finite_and_a_small_one_is_scaled(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    features = file.read()
    features[:, 1], features[:, 2] = 3, 3e-6 * (np.arange(len(features)) % 2)
    flat = write_file(tmp_path / "flat.h5", file.samples, features, file.provenance)
    stream = IncrementalClass(scale="standard").build([flat], seed=0)
    values = table_of(stream.sessions[0].x).values
    assert np.isfinite(values).all()
    assert (values[:, 1] == 0).all()
    assert stream.sessions[0].x.numpy()[:, 2].std() == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"scale": "rsm"}, {"match": "scale 'rsm'.* 'rms'"}),
        ({"validation": "tset"}, {"match": "validation 'tset'.* 'test'"}),
        ({"val_fraction": 1.0}, {"check": says(what="val_fraction", expected="in (0, 1)", got=1)}),
        ({"val_fraction": 0}, {"check": says(what="val_fraction", expected="in (0, 1)", got=0)}),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], refusal: Any) -> None:
    with pytest.raises(UserError, **refusal):
        IncrementalClass(**settings)


def test_files_that_make_no_stream(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    untested = make_file(tmp_path, test=(0, 0, 0, 0), name="untested.h5")
    untaught = make_file(tmp_path, train=(0, 0, 0, 0), val=(1, 1, 1, 1), name="untaught.h5")
    with pytest.raises(UserError, check=says(expected="1", got=2)):
        Permutation().build([file, file], seed=0)
    for lacking, what in (untested, "test"), (untaught, "training"):
        with pytest.raises(UserError, match=f"{lacking.path.name} .* {what} samples"):
            Permutation().build([lacking], seed=0)
