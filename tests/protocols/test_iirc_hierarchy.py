"""The protocol `iirc` over hierarchies by name and from files, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iirc_files import ABOVE, BEARS, bears, label_file, listed, shown

from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.protocols._hierarchy import hierarchy_text
from embedbench.protocols.iirc import IIRC
from embedbench.streams.view import rows_of


def cifar_like(rename: Any = str, drop: int = 0, extra: tuple[str, ...] = ()) -> Any:
    above = json.loads(hierarchy_text("iirc-cifar"))["parents"]
    leaves = sorted(set(above) - set(above.values()))[drop:]
    names = [*map(rename, leaves), *extra]
    labels = np.arange(len(names) * 5) % len(names)
    split = np.where(np.arange(len(labels)) < len(names) * 4, TRAIN, TEST)
    return label_file(labels, split, names)


def test_names_match_but_for_case_and_separators() -> None:
    plain = IIRC(hierarchy="iirc-cifar").build([cifar_like()], seed=2)
    other = IIRC(hierarchy="iirc-cifar").build(
        [cifar_like(lambda c: c.replace("_", " ").title())], seed=2
    )
    assert plain.classes == other.classes
    assert shown(plain) == shown(other)
    assert plain.notes[0] == "class order: configuration 2 of iirc-cifar"


def test_classes_that_the_hierarchy_has_not_are_left_out() -> None:
    stream = IIRC(hierarchy="iirc-cifar").build([cifar_like(extra=("unicorn",))], seed=0)
    assert stream.spec.n_classes == 115
    rows = np.concatenate([rows_of(v.x) for v in (*stream.sessions, *stream.eval_sets)])
    assert not (rows % 101 == 100).any()
    assert "1 classes that iirc-cifar has not are left out: unicorn" in stream.notes


def test_imagenet_by_wnid_or_word() -> None:
    told = json.loads(hierarchy_text("iirc-imagenet-lite"))
    leaves = sorted(set(told["parents"]) - set(told["parents"].values()))
    streams = []
    for names in (leaves, [told["words"][c] for c in leaves]):
        labels = np.arange(998 * 5) % 998
        split = np.where(np.arange(len(labels)) < 998 * 4, TRAIN, TEST)
        file = label_file(labels, split, names)
        streams.append(IIRC(hierarchy="iirc-imagenet-lite").build([file], seed=6))
    assert streams[0].classes == streams[1].classes
    assert (
        "leopard (n02128385)"
        in IIRC(hierarchy="iirc-imagenet-lite", configuration=3)
        .build([label_file(labels, split, leaves)], seed=0)
        .classes
    )
    assert all(
        np.array_equal(rows_of(a.x), rows_of(b.x))
        for a, b in zip(streams[0].sessions, streams[1].sessions, strict=True)
    )
    assert streams[0].notes[0] == "class order: configuration 1 of iirc-imagenet-lite"


def test_a_hierarchy_file_without_orders_is_drawn_over(tmp_path: Path) -> None:
    above = {"polar bear": "bear", "Brown Bear": "bear", "bear": "thing", "lamp": "thing"}
    hierarchy = listed(tmp_path, parents=above)
    stream = IIRC(hierarchy=hierarchy, step=1).build([bears()], seed=0)
    assert stream.classes == ("polar bear", "Brown Bear", "lamp", "bear", "thing")
    first = [stream.classes[k] for k in stream.sessions[0].classes]
    assert first == ["thing"]
    recipe = IIRC(hierarchy=hierarchy).recipe()
    assert str(tmp_path) not in recipe
    assert "Brown Bear" in recipe


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ([], "must be an object, got a list"),
        ({"parents": {"lamp": "bear", "bear": "lamp"}}, "class 'lamp' is above itself"),
        ({"parents": {"lamp": None, "cat": None}}, "lacks 1 of the 2 classes of hierarchy"),
        ({"parents": {"lamp": None, "LAMP": None}}, "class 'lamp' of labels.h5 fits two classes"),
        (
            {"parents": {"lamp": "thing"}, "configurations": [[["thing"], ["cat"]]]},
            "a configuration has 'cat', which 'parents' has not",
        ),
        (
            {"parents": {"lamp": "thing"}, "configurations": [[["thing", "lamp"]]]},
            "'lamp' in session 0 comes before the class above it, or with it",
        ),
        (
            {"parents": {"lamp": "thing"}, "configurations": [[["thing"], ["lamp"], ["lamp"]]]},
            "'lamp' in session 2 comes twice",
        ),
        ({"parents": {}}, "has no classes"),
        ({"parents": {"lamp": 3}}, "parents.lamp must be null or a text, got 3"),
        ({"parents": {"lamp": None}, "words": ["x"]}, "words must be an object"),
        ({"parents": {"lamp": None}, "configurations": [["lamp"]]}, "must be a list, got 'lamp'"),
        ({"parents": {"lamp": None}, "configurations": [[]]}, "a session without classes"),
        (
            {"parents": {"lamp": "c0", **{f"c{i}": f"c{i + 1}" for i in range(10_000)}}},
            "has 10,002 classes on 10,002 levels; expected at most 10,000 on 100",
        ),
    ],
)
def test_bad_hierarchies(told: Any, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "hierarchy.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(UserError) as error:
        IIRC(hierarchy=str(path)).build([bears()], seed=0)
    assert sentence in str(error.value)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"{", b"[" * 100_000])
def test_a_hierarchy_file_that_is_no_json(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "hierarchy.json").write_bytes(data)
    with pytest.raises(UserError, match=r"not (JSON|a text file)"):
        IIRC(hierarchy=str(tmp_path / "hierarchy.json")).build([bears()], seed=0)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hierarchy": "iirc-cfar"}, "Did you mean 'iirc-cifar'?"),
        ({"hierarchy": "iirc-cifar"}, "lacks 99 of the 100 classes of hierarchy iirc-cifar"),
        ({"information": "partial"}, "unknown information 'partial'"),
        ({"validation": "test"}, "iirc takes validation='train' only, got 'test'"),
        ({"val_fraction": 0.5}, "val_fraction must be in (0, 0.5), got 0.5"),
        ({"superclass_share": 0.0}, "superclass_share must be in (0, 1], got 0.0"),
        ({"configuration": -1}, "configuration must be at least 0, got -1"),
        ({"base": 3}, "base must be between 1 and 2, the classes that may come first, got 3"),
        ({"step": 1, "sessions": 3}, "give step or sessions, not both; got 1 and 3"),
        ({"base": 2, "sessions": 4}, "sessions must be 2 to 3 for 4 classes on 2 levels"),
        ({"step": -1}, "step must be at least 0, got -1"),
    ],
)
def test_parameters_out_of_range(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        IIRC(**settings).build([bears()], seed=0)
    assert sentence in str(error.value)


def test_published_orders_take_no_sizes() -> None:
    with pytest.raises(UserError, match="brings its class orders"):
        IIRC(hierarchy="iirc-cifar", step=3).build([cifar_like()], seed=0)
    with pytest.raises(UserError, match="has configurations 0 to 9, got 10"):
        IIRC(hierarchy="iirc-cifar", configuration=10).build([cifar_like()], seed=0)


def test_a_class_without_training_samples() -> None:
    file = label_file([0, 0, 1, 2, 0], [0, 0, TEST, 0, TEST], BEARS, ABOVE)
    with pytest.raises(UserError, match="no training samples of class 'brown bear'"):
        IIRC().build([file], seed=0)


def test_the_fraction_is_that_of_the_authors() -> None:
    assert IIRC().val_fraction == 0.1
    assert IIRC(hierarchy="iirc-cifar").val_fraction == 0.1
    assert IIRC(hierarchy="iirc-imagenet-full").val_fraction == 0.04
    assert IIRC(hierarchy="iirc-imagenet-full", val_fraction=0.2).val_fraction == 0.2
