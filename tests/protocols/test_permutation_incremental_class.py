"""Both protocols on files small enough to know by heart; rotations, and places as labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from image_files import HIGH, WIDE, image_bytes, pixel_file, samples
from PIL import Image
from protocol_files import WIDTH, make_file

from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.raw_pixels import pixels, pixels_recipe
from embedbench.files.sample_metadata import TEST
from embedbench.files.write_file import write_file
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.permutation import Permutation
from embedbench.streams.view import rows_of


@pytest.fixture
def eight(tmp_path: Path) -> EmbeddingFile:
    return make_file(tmp_path, [3] * 8, [0] * 8, [1] * 8)


def test_classes_of_the_sessions(eight: EmbeddingFile) -> None:
    settings: dict[str, Any]
    for settings, sizes in (
        ({}, [4, 1, 1, 1, 1]),  # base half, then one at a time
        ({"base": 7}, [7, 1]),
        ({"base": 1, "step": 3}, [1, 3, 3, 1]),  # the last takes what remains
        ({"base": 4, "step": 5}, [4, 4]),
        ({"sessions": 3}, [3, 3, 2]),
        ({"sessions": 2, "base": 7}, [7, 1]),
        ({"sessions": 4, "base": 1}, [1, 3, 2, 2]),
        ({"sessions": 8}, [1] * 8),
    ):
        stream = IncrementalClass(**settings).build([eight], seed=0)
        expected = [part.tolist() for part in np.split(np.arange(8), np.cumsum(sizes)[:-1])]
        assert [s.classes.tolist() for s in stream.sessions] == expected
        assert [np.flatnonzero(e.classes).tolist() for e in stream.eval_sets] == expected
        assert [sorted(set(s.y.tolist())) for s in stream.sessions] == expected
        assert stream.spec.input_shape == (WIDTH,)
        assert stream.normalise_new is False
        assert stream.can_reveal is False


@pytest.mark.parametrize(
    ("sessions", "sizes"),
    [("5,1,2", [5, 1, 2]), (" 1, 7", [1, 7]), ([2, 2, 4], [2, 2, 4]), ((7, 1), [7, 1])],
)
def test_the_classes_of_each_session_as_a_list(
    eight: EmbeddingFile, sessions: Any, sizes: list[int]
) -> None:
    stream = IncrementalClass(sessions=sessions).build([eight], seed=0)
    expected = [part.tolist() for part in np.split(np.arange(8), np.cumsum(sizes)[:-1])]
    assert [s.classes.tolist() for s in stream.sessions] == expected


def test_a_list_is_in_the_recipe_in_one_form() -> None:
    forms: tuple[Any, ...] = ("5,1,2", "5, 1,02", [5, 1, 2])
    assert len({IncrementalClass(sessions=form).recipe() for form in forms}) == 1


@pytest.mark.parametrize("sessions", ["5,3,0", "5,-1,4", "8,", "5,x", "5.0,3", "", "none"])
def test_what_is_no_list_of_sizes_is_refused(sessions: str) -> None:
    with pytest.raises(UserError, check=says(what="protocol.sessions", got=sessions)):
        IncrementalClass(sessions=sessions)


@pytest.mark.parametrize(
    ("sessions", "remedy"),
    [
        ("5,2", "make the list longer, or take fewer with protocol.classes=7"),
        ("5,4", "make the list shorter"),
    ],
)
def test_a_list_of_another_sum_is_refused(eight: EmbeddingFile, sessions: str, remedy: str) -> None:
    with pytest.raises(UserError, check=says(remedy=remedy)):
        IncrementalClass(sessions=sessions).build([eight], seed=0)


def test_a_list_of_a_subset(eight: EmbeddingFile) -> None:
    stream = IncrementalClass(sessions="5,2", classes=7).build([eight], seed=0)
    assert [s.classes.tolist() for s in stream.sessions] == [[0, 1, 2, 3, 4], [5, 6]]


@pytest.mark.parametrize("other", [{"base": 3}, {"step": 2}])
def test_a_list_goes_with_no_other_size(other: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"leave protocol.{next(iter(other))} out"):
        IncrementalClass(sessions="5,3", **other)


def test_the_first_of_a_list_holds_the_classes_without_test_samples(tmp_path: Path) -> None:
    file = make_file(tmp_path, [3] * 4, [0] * 4, [1, 0, 0, 1])
    stream = IncrementalClass(sessions="3,1").build([file], seed=0)
    assert [s.classes.tolist() for s in stream.sessions] == [[1, 2, 0], [3]]
    with pytest.raises(UserError, match="at least 3 classes, because the 2 without test samples"):
        IncrementalClass(sessions="2,2").build([file], seed=0)


def test_rows_of_the_sessions(tmp_path: Path) -> None:
    file = make_file(tmp_path, train=(3, 2, 1, 2), val=(1, 1, 1, 1), test=(1, 2, 1, 1))
    # a: 0-2 train, 3 val, 4 test; b: 5-6, 7, 8-9; c: 10, 11, 12; d: 13-14, 15, 16
    stream = IncrementalClass().build([file], seed=0)
    assert [rows_of(s.x).tolist() for s in stream.sessions] == [[0, 1, 2, 5, 6], [10], [13, 14]]
    assert [rows_of(s.val_x).tolist() for s in stream.sessions] == [[3, 7], [11], [15]]
    assert [rows_of(e.x).tolist() for e in stream.eval_sets] == [[4, 8, 9], [12], [16]]
    assert [s.y.tolist() for s in stream.sessions] == [[0, 0, 0, 1, 1], [2], [3, 3]]
    assert [s.val_y.tolist() for s in stream.sessions] == [[0, 1], [2], [3]]
    assert [e.y.tolist() for e in stream.eval_sets] == [[0, 1, 1], [2], [3]]


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"base": 8}, {"match": "1 to 7", "check": says(what="base", got=8)}),
        ({"base": -1}, {"check": says(what="base", got=-1)}),
        ({"step": 0}, {"check": says(what="step", got=0)}),
        ({"order": "alphabetic"}, {"check": says(what="unknown order", got="alphabetic")}),
        ({"sessions": 9}, {"match": "2 to 8", "check": says(what="sessions", got=9)}),
        ({"sessions": 1}, {"match": "2 to 8", "check": says(what="sessions", got=1)}),
        ({"sessions": 4, "base": 6}, {"match": "2 to 3", "check": says(what="sessions", got=4)}),
        ({"sessions": 4, "step": 2}, {"match": "step or sessions, .* 2 and 4"}),
    ],
)
def test_parameters_out_of_range(settings: dict[str, Any], refusal: Any, eight: Any) -> None:
    with pytest.raises(UserError, **refusal):
        IncrementalClass(**settings).build([eight], seed=0)


def test_an_order_file(tmp_path: Path) -> None:
    """It counts by its content, not by its name."""
    file, recipes = make_file(tmp_path), []
    for name, text in (
        ("names.json", '["d", "b", "a", "c"]'),
        ("numbers.json", "[3, 1, 0, 2]"),
        ("object.json", '{"order": ["d", "b", "a", "c"]}'),
        ("names.txt", "d\nb\n\na\nc\n"),
        ("again.txt", "d\nb\n\na\nc\n"),
        ("numbers.txt", "3\n1\n0\n2\n"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        protocol = IncrementalClass(order=str(tmp_path / name))
        stream = protocol.build([file], seed=0)
        assert [s.classes.tolist() for s in stream.sessions] == [[3, 1], [0], [2]]
        recipes.append(protocol.recipe())
    assert recipes[3] == recipes[4] != recipes[5]
    assert str(tmp_path) not in recipes[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["d", "b", "a"]', "4 classes .* 3 .* 3 entries"),
        ('["d", "b", "a", "a"]', "holds 3 .* 4 entries"),
        ("[3, 1, 0, 4]", "holds 3 .* 4 entries"),
        ('"dbac"', "JSON list"),
        ("²\n--5\na\nb", "holds 2 .* 4 entries"),
        ('{"order": 3}', r"json: order .* list, got 3"),
        ('{"order": [[0], 1.5]}', r"order\[0\] .* got a list"),
        ('{"order": [0, 1, 2, 3], "kind": 1}', "kind .* text, got 1"),
        ("root:x:0:0:secret\nb", "holds 1 .* 2 entries"),
        ("[" * 100_000, "holds 0 .* 1 entries"),
    ],
)
def test_a_bad_order_file(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=words) as error:
        IncrementalClass(order=str(path)).build([make_file(tmp_path)], seed=0)
    assert "secret" not in str(error.value)


def test_an_order_file_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"file\.h5 .* UTF-8"):
        IncrementalClass(order=str(make_file(tmp_path).path)).recipe()


def test_untested_classes_join_the_base_session(tmp_path: Path) -> None:
    stream = IncrementalClass().build([make_file(tmp_path, test=(1, 2, 0, 2))], seed=0)
    assert [s.classes.tolist() for s in stream.sessions] == [[2, 0], [1], [3]]
    assert stream.notes == ("classes without test samples, in the base session: c",)
    assert IncrementalClass().build([make_file(tmp_path, name="all.h5")], seed=0).notes == ()
    two = make_file(tmp_path, test=(1, 0, 0, 2), name="two.h5")
    with pytest.raises(UserError, check=says(what="base", got=2)):
        IncrementalClass(base=2).build([two], seed=0)
    assert [len(e.x) for e in IncrementalClass(base=3).build([two], seed=0).eval_sets] == [1, 2]


def test_session_0_is_unpermuted_and_the_others_differ(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    stream = Permutation(sessions=5, scale="none").build([file], seed=1)
    values = file.read()
    assert stream.sessions[0].x.columns is None
    orders = set()
    for session, test in zip(stream.sessions[1:], stream.eval_sets[1:], strict=True):
        columns = session.x.columns
        assert sorted(columns) == list(range(WIDTH))
        orders.add(tuple(columns))
        for view in (session.val_x, test.x):  # training, validation and test data alike
            assert view.columns is columns
        np.testing.assert_array_equal(session.x.numpy(), values[rows_of(session.x)][:, columns])
    assert len(orders) == 4
    assert [s.classes.tolist() for s in stream.sessions] == [[0, 1, 2, 3], [], [], [], []]
    assert all(test.classes.all() for test in stream.eval_sets)
    assert stream.normalise_new is True
    assert stream.can_reveal is True
    fewer = Permutation(sessions=3, scale="none").build([file], seed=1)
    for session, other in zip(fewer.sessions[1:], stream.sessions[1:], strict=False):
        np.testing.assert_array_equal(session.x.columns, other.x.columns)


def test_online_settings_reach_the_stream(tmp_path: Path) -> None:
    stream = Permutation(observe_batch=7, evaluate_every=5).build([make_file(tmp_path)], seed=0)
    for each in (stream, stream.merged()):
        assert each.observe_batch == 7
        assert each.evaluate_every == 5
    for name, least in ("observe_batch", 0), ("evaluate_every", 0), ("sessions", 2):
        with pytest.raises(UserError, match=f"{least}, ", check=says(what=name, got=least - 1)):
            Permutation(**{name: least - 1})


# --- rotations ---


def flat_file(folder: Path, side: int, channels: int = 1, **changed: Any) -> EmbeddingFile:
    """A file of rows of pixels, as `--backbone pixels` makes it."""
    made = pixels_recipe()
    if channels == 3:
        made["preprocessing"]["channels"] = "RGB"
    made["preprocessing"] |= changed
    shape = (len(samples().labels), side, side, channels)
    images = np.random.default_rng(1).integers(1, 256, shape, np.uint8)
    return write_file(folder / f"{side}.{channels}.h5", samples(), pixels(images), made)


def rotations(**settings: Any) -> Permutation:
    return Permutation(transform="rotation", **settings)


def test_every_session_of_a_rotation_has_an_angle_of_its_own(tmp_path: Path) -> None:
    protocol, file = rotations(sessions=3, scale="none"), pixel_file(tmp_path)
    stream = protocol.build([file], seed=4)
    angles = protocol.draw_angles(4)
    assert len({*angles}) == 3
    assert all(0 <= angle < 180 for angle in angles)
    assert angles == protocol.draw_angles(4) != protocol.draw_angles(5)
    parts = zip(stream.sessions, stream.eval_sets, angles, strict=True)
    for session, test, angle in parts:
        for view in (session.x, session.val_x, test.x):
            turned = [
                np.asarray(Image.fromarray(image_bytes()[row]).rotate(angle))
                for row in rows_of(view)
            ]
            expected = np.stack(turned).transpose(0, 3, 1, 2) / 255
            np.testing.assert_allclose(view.numpy(), expected, rtol=1e-6)
    assert stream.spec.input_shape == (3, HIGH, WIDE)
    assert stream.notes == ()
    assert stream.normalise_new is True
    assert stream.can_reveal is True


def test_rising_angles_have_equal_parts_of_a_half_turn() -> None:
    for seed in range(20):
        angles = rotations(angles="rising", sessions=6).draw_angles(seed)
        assert [int(angle // 30) for angle in angles] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("angles", ["0,45, 090", [0, 45, 90], ("0", "45.0", "90")])
def test_listed_angles(tmp_path: Path, angles: Any) -> None:
    protocol = rotations(angles=angles, sessions=3)
    assert protocol.angles == "0,45,90"
    assert protocol.draw_angles(0) == protocol.draw_angles(1) == [0, 45, 90]
    stream = protocol.build([flat_file(tmp_path, 3)], seed=0)
    assert stream.sessions[0].x.columns is not None
    assert stream.sessions[2].x.columns.tolist() == [2, 5, 8, 1, 4, 7, 0, 3, 6]  # type: ignore[union-attr]


DECIMALS = [0.0, 12.3456789, 100 / 3, -1e-7]


@pytest.mark.parametrize(
    "angles", [",".join(map(repr, DECIMALS)), DECIMALS, [*np.array(DECIMALS)]], ids=type
)
def test_listed_angles_are_not_rounded(angles: Any) -> None:
    protocol = rotations(angles=angles, sessions=4)
    assert protocol.draw_angles(0) == DECIMALS
    assert protocol.angles == "0,12.3456789,33.333333333333336,-1e-07"


def test_a_setting_takes_a_list_of_decimals() -> None:
    """As a study file or `build_stream` gives it."""
    given = {"transform": "rotation", "angles": [0, 22.5], "sessions": 2}
    assert make(Permutation, given, name="protocol").angles == "0,22.5"


@pytest.mark.parametrize("angles", [[0, True], [0, float("nan")], [0, None]])
def test_a_list_of_what_is_no_number_is_refused(angles: Any) -> None:
    refusal = says(what="protocol.angles", expected="a list of names or numbers")
    with pytest.raises(UserError, check=refusal):
        rotations(angles=angles, sessions=2)


@pytest.mark.parametrize("channels", [1, 3])
def test_rows_of_pixels_are_turned_as_square_images(tmp_path: Path, channels: int) -> None:
    file = flat_file(tmp_path, 6, channels)
    stream = rotations(angles="20,110", sessions=2).build([file], seed=0)
    view = stream.sessions[1].x
    bytes_ = np.rint(file.read()[rows_of(view)] * 255).astype(np.uint8).reshape(-1, 6, 6, channels)
    turned = [np.asarray(Image.fromarray(x.squeeze()).rotate(110)) for x in bytes_]
    np.testing.assert_array_equal(view.numpy(), pixels(np.stack(turned)))
    width = 36 * channels
    assert stream.notes == (f"rows of {width} values are turned as images of 6x6",)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"angles": "0,90"}, says(what="protocol.angles has 2 angles, and the stream 10 sessions")),
        ({"angles": "0,x", "sessions": 2}, says(what="protocol.angles", got="0,x")),
        ({"angles": "0,361", "sessions": 2}, says(what="protocol.angles", got="0,361")),
        ({"angles": "", "sessions": 2}, says(what="protocol.angles", got="")),
        (
            {"transform": "permutation", "angles": "rising"},
            says(what="protocol.angles=rising is of a rotation"),
        ),
    ],
)
def test_angles_out_of_range(settings: dict[str, Any], refusal: Any) -> None:
    with pytest.raises(UserError, check=refusal):
        Permutation(**{"transform": "rotation", **settings})


def test_a_rotation_takes_images_alone(tmp_path: Path) -> None:
    embeddings, normalised = make_file(tmp_path), flat_file(tmp_path, 3, scale="per channel")
    for file in (embeddings, normalised):
        with pytest.raises(UserError, match=r"a rotation takes images, .* take a pixel file"):
            rotations().build([file], seed=0)
    with pytest.raises(UserError, match=r"protocol\.scale=standard moves black"):
        rotations(scale="standard").build([flat_file(tmp_path, 4)], seed=0)


def test_the_place_of_a_permutation_stays() -> None:
    recipe = Permutation().recipe()
    assert "transform" not in recipe
    assert "angles" not in recipe
    assert rotations().recipe() != recipe


# --- places of classes as labels ---


@pytest.mark.parametrize("loss", ["all", "seen"])
def test_a_label_is_the_place_of_its_class(eight: EmbeddingFile, loss: Any) -> None:
    settings: dict[str, Any] = {"sessions": 4, "order": "random", "loss": loss}
    plain = IncrementalClass(**settings).build([eight], seed=3)
    places = IncrementalClass(labels="place", **settings).build([eight], seed=3)
    for one, other in zip(plain.sessions, places.sessions, strict=True):
        first, second = one.classes.tolist()  # in the order of the stream
        expected = {first: 0, second: 1}
        assert rows_of(one.x).tolist() == rows_of(other.x).tolist()
        assert [expected[y] for y in one.y.tolist()] == other.y.tolist()
        assert [expected[y] for y in one.val_y.tolist()] == other.val_y.tolist()
    for old, new, session in zip(plain.eval_sets, places.eval_sets, plain.sessions, strict=True):
        expected = dict(zip(session.classes.tolist(), (0, 1), strict=True))
        assert rows_of(old.x).tolist() == rows_of(new.x).tolist()
        assert [expected[y] for y in old.y.tolist()] == new.y.tolist()
        assert new.classes.tolist() == [True, True]
    assert places.spec.n_classes == 2
    assert [s.classes.tolist() for s in places.sessions] == [[0, 1], [], [], []]
    assert places.classes == ("place 1", "place 2")
    assert places.can_reveal is True
    assert places.normalise_new is True
    assert places.notes == ()  # the seed decides which classes they are
    masks = [s.loss_classes for s in places.sessions]
    assert [None if mask is None else mask.tolist() for mask in masks] == (
        [None] * 4 if loss == "all" else [[True, True]] * 4
    )


def test_even_and_odd_digits(tmp_path: Path) -> None:
    """Split MNIST of van de Ven et al.: class 0, 2, 4, … has label 0, class 1, 3, … label 1."""
    digits = make_file(tmp_path, [3] * 10, [0] * 10, [1] * 10, classes="0123456789")
    stream = IncrementalClass(sessions=5, labels="place").build([digits], seed=0)
    for e in stream.eval_sets:
        assert (digits.labels[rows_of(e.x)] % 2).tolist() == e.y.tolist()
    assert len(stream.eval_sets) == 5
    assert stream.notes == ("place 1: 0, 2, 4, 6, 8; place 2: 1, 3, 5, 7, 9",)


def test_all_places_merged_are_every_sample_once(eight: EmbeddingFile) -> None:
    stream = IncrementalClass(sessions=2, labels="place").build([eight], seed=0)
    (whole,) = stream.references
    assert whole.sessions[0].classes.tolist() == [0, 1, 2, 3]
    assert whole.eval_sets[0].ids.tolist() == np.flatnonzero(eight.split == TEST).tolist()
    assert (eight.labels[whole.eval_sets[0].ids] % 4).tolist() == whole.eval_sets[0].y.tolist()


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [({}, "4, 1, 1, 1, 1"), ({"sessions": 3}, "3, 3, 2"), ({"sessions": 8}, ", ".join("11111111"))],
)
def test_places_need_equal_sessions(
    eight: EmbeddingFile, settings: dict[str, Any], sizes: str
) -> None:
    unequal = says(what="protocol.labels=place", got=sizes)
    with pytest.raises(UserError, check=unequal, match=r"protocol\.sessions to one of 2, 4, and"):
        IncrementalClass(labels="place", **settings).build([eight], seed=0)


def test_the_place_of_class_labels_stays() -> None:
    assert "labels" not in IncrementalClass().recipe()
    assert '"labels": "place"' in IncrementalClass(labels="place").recipe()
