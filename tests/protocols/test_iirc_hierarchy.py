"""The protocol `iirc` over hierarchies by name and from files, and what it refuses."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from iirc_files import bears, label_list, publish, shown

from embedbench.errors import UserError
from embedbench.protocols._hierarchy import PUBLISHED, file_hierarchy, hierarchy_text
from embedbench.protocols.iirc import IIRC
from embedbench.streams.view import rows_of


def cifar_like(rename: Any = str, extra: tuple[str, ...] = ()) -> Any:
    above = json.loads(hierarchy_text("iirc-cifar"))["parents"]
    return label_list([*map(rename, sorted(set(above) - set(above.values()))), *extra], 4, 1)


def test_names_match_but_for_case_and_separators() -> None:
    titles = cifar_like(lambda c: c.replace("_", " ").title())
    plain, other = (
        IIRC(hierarchy="iirc-cifar").build([file], seed=2) for file in (cifar_like(), titles)
    )
    assert plain.classes == other.classes
    assert shown(plain) == shown(other)
    assert plain.notes[0] == "class order: configuration 2 of iirc-cifar"


def test_classes_that_the_hierarchy_has_not_are_left_out() -> None:
    told = "classes that iirc-cifar has not are left out: centaur, dragon, unicorn"
    for extra, note in ((), f"3 {told}"), (("yeti",), f"4 {told}, …"):
        file = cifar_like(extra=("centaur", "dragon", "unicorn", *extra))
        stream = IIRC(hierarchy="iirc-cifar").build([file], seed=0)
        assert stream.spec.n_classes == 115
        rows = np.concatenate([rows_of(v.x) for v in (*stream.sessions, *stream.eval_sets)])
        assert (file.labels[rows] < 100).all()
        assert note in stream.notes


def test_imagenet_by_wnid_or_word() -> None:
    told = json.loads(hierarchy_text("iirc-imagenet-lite"))
    leaves = sorted(set(told["parents"]) - set(told["parents"].values()))
    words = [told["words"][c] for c in leaves]
    by_id, by_word = (
        IIRC(hierarchy="iirc-imagenet-lite").build([label_list(names, 4, 1)], seed=6)
        for names in (leaves, words)
    )
    assert by_id.classes[0] in {f"{a} ({b})" for a, b in zip(words, leaves, strict=True)}
    assert shown(by_id) == shown(by_word)
    assert by_id.notes[0] == "class order: configuration 1 of iirc-imagenet-lite"


def test_published_orders_have_every_class_once_after_those_above_it() -> None:
    for name in PUBLISHED:
        told = json.loads(hierarchy_text(name))
        for sessions in told["configurations"]:
            seen: set[str] = set()
            for session in sessions:
                assert len(session) == len(set(session)) > 0
                assert not seen & set(session)
                assert {told["parents"].get(c) for c in session} <= seen | {None}
                seen |= set(session)


def test_two_classes_that_one_name_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    name = publish(monkeypatch, parents={"lamp": None, "LAMP": None}, configurations=[])
    with pytest.raises(UserError, match=r" 1 of the 2 .* 'LAMP'"):
        IIRC(hierarchy=name).build([bears()], seed=0)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"hierarchy": "iirc-cfar"}, {"match": "'iirc-cfar'.* 'iirc-cifar'"}),
        ({"hierarchy": "iirc-cifar"}, {"match": "99 of the 100"}),
        ({"information": "partial"}, {"match": "information 'partial'"}),
        ({"validation": "test"}, {"check": says(what="iirc.validation", got="test")}),
        ({"val_fraction": 0.5}, {"match": "0, 0.5", "check": says(what="val_fraction", got=0.5)}),
        ({"superclass_share": 0.0}, {"check": says(what="superclass_share", got=0)}),
        ({"configuration": -1}, {"check": says(what="configuration", got=-1)}),
        ({"step": 1, "sessions": 3}, {"match": "step or sessions, .* 1 and 3"}),
        ({"base": 2, "sessions": 4}, {"match": "2 to 3", "check": says(what="sessions", got=4)}),
        ({"step": -1}, {"check": says(what="step", got=-1)}),
    ],
)
def test_parameters_out_of_range(settings: dict[str, Any], refusal: Any) -> None:
    with pytest.raises(UserError, **refusal):
        IIRC(**settings).build([bears()], seed=0)


def test_published_orders_take_no_sizes() -> None:
    for settings, refusal in (
        *(({name: 3}, {"match": "iirc-cifar brings"}) for name in ("base", "step", "sessions")),
        ({"configuration": 10}, {"match": "0 to 9", "check": says(what="configuration", got=10)}),
    ):
        with pytest.raises(UserError, **refusal):
            IIRC(hierarchy="iirc-cifar", **settings).build([cifar_like()], seed=0)


def test_a_file_without_test_samples() -> None:
    with pytest.raises(UserError, match="no test samples"):
        IIRC().build([bears(test=0)], seed=0)


def test_the_most_classes() -> None:
    file: Any = SimpleNamespace(path=bears().path, samples=bears().samples, parents=None)
    file.classes = ("",) * 10_000
    assert file_hierarchy(file).classes == file.classes
    file.classes += ("",)
    with pytest.raises(UserError, match=r"10,001 .* iirc .* 10,000"):
        file_hierarchy(file)


def test_the_fraction_is_that_of_the_authors() -> None:
    for name in ("file", *PUBLISHED):
        assert IIRC(hierarchy=name).val_fraction == (0.04 if "imagenet" in name else 0.1)
    assert IIRC(hierarchy="iirc-imagenet-full", val_fraction=0.2).val_fraction == 0.2
