"""Fields say what they may be: `Annotated` ranges and `Literal` choices, read when one is made."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from file_helpers import says

from embedbench.api import above, at_least, require, within
from embedbench.config.fields_added_later import later
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import generator
from embedbench.config.setting_ranges import FieldHint, check_settings, check_size, field_hints
from embedbench.errors import UserError
from embedbench.learning.stopping import Stop
from embedbench.models.chance import Chance
from embedbench.models.er import ER
from embedbench.models.ewc import EWC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.permutation import Permutation


@dataclass
class Declared(Chance):  # two hints in quotes, as a plug-in may have all of them
    lam: "Annotated[float, at_least(0)] | None" = None
    fisher: "Literal['exact', 'sampled'] | None" = "exact"
    mode: Literal[1, 2, 3] = 3
    gamma: Annotated[float, within("[0, 1]")] = later(0.5, earlier=1.0)
    many: Literal["auto"] | Annotated[int, above(0)] = "auto"


def test_what_a_field_does_not_declare_is_refused() -> None:
    for name, value, expected, got in (
        ("lam", "-1", "at least 0", "-1.0"),
        ("lam", "nan", "finite and at least 0", "nan"),
        ("lam", "much", "float | None", "'much'"),
        ("fisher", 3, "None | str", "3"),
        ("mode", "5", "1, 2 or 3", "5"),
        ("mode", "one", "int", "'one'"),
        ("gamma", "2", "in [0, 1]", "2.0"),
        ("gamma", 10**400, "finite and in [0, 1]", "inf"),
        ("many", "0", "above 0", "0"),
    ):
        with pytest.raises(UserError, match=rf"(declared|test-setting-ranges)\.{name} ") as caught:
            make(Declared, {name: value}, name="declared")
        assert caught.value.expected == expected
        assert repr(caught.value.got) == got
    with pytest.raises(UserError, match=r"(declared|test-setting-ranges)\.fisher 'exat'.* 'exact'"):
        make(Declared, {"fisher": "exat"}, name="declared")


def test_texts_are_read_as_the_type_below_the_hint() -> None:
    texts = {"lam": "2", "fisher": "sampled", "mode": "1", "gamma": 1, "many": str(10**15)}
    made = vars(make(Declared, texts, name="x"))
    assert made == {"lam": 2.0, "fisher": "sampled", "mode": 1, "gamma": 1.0, "many": 10**15}
    assert [type(value) for value in made.values()] == [float, str, int, float, int]
    assert make(Declared, {"lam": "none", "fisher": "null"}, name="x") == Declared(fisher=None)


def test_hints_are_taken_apart() -> None:
    for hint, parsed in (
        (int, FieldHint(int)),
        (float | None, FieldHint(float | None)),
        (Annotated[float, above(0)] | None, FieldHint(float | None, (above(0),))),
        (Annotated[float | None, above(0), "said"], FieldHint(float | None, (above(0),))),
        (Literal["a", "b"] | None, FieldHint(str | None, (), ("a", "b"))),
        (Literal["auto"] | Annotated[int, above(0)], FieldHint(str | int, (above(0),))),
        (Annotated[Literal[1, 2], above(0)], FieldHint(int, (above(0),), (1, 2))),
    ):
        assert FieldHint.parse(hint) == parsed
    FieldHint(int, (above(0),)).check(None, "n")


def test_a_field_declared_again_keeps_the_range_of_its_base() -> None:
    """Learners change defaults of shared settings; a range of their own goes over the old one."""

    @dataclass
    class Again(EWC):
        lam: float | None = 1.0
        optimiser: str = "sgd"  # type: ignore[assignment]
        lr: Annotated[float, within("(0, 1)")] = 0.5

    with pytest.raises(UserError, check=says(expected="at least 0", got=-1)):
        Again(lam=-1.0)
    with pytest.raises(UserError, match=r"\.optimiser 'sdg'.* 'sgd'\?"):
        Again(optimiser="sdg")
    with pytest.raises(UserError, check=says(expected="in (0, 1)", got=1)):
        Again(lr=1.0)
    with pytest.raises(UserError, check=says(what="er.batch_size", got=0)):
        ER(batch_size=0)


def test_a_class_within_a_function() -> None:
    @dataclass
    class Inner:
        depth: Annotated[int, at_least(1)] = 1

        def __post_init__(self) -> None:
            check_settings(self, "inner")

    @dataclass
    class Local(Permutation):
        inner: "Inner" = dataclasses.field(default_factory=Inner)  # a name that no module has
        share: "Annotated[float, above(0)]" = 0.5

    assert Local().share == 0.5
    with pytest.raises(UserError, check=says(what="share", expected="above 0")):
        Local(share=-1.0)
    with pytest.raises(UserError, check=says(what="inner.depth", got=0)):
        Inner(0)


def test_a_declaration_that_cannot_be_read_is_not_passed_over() -> None:
    from embedbench.config.setting_ranges import at_least as least

    @dataclass
    class Local(Chance):
        depth: "Annotated[int, least(1)]" = 1

    with pytest.raises(UserError, match=r"of depth .*'least'"):
        Local()


CELL = '''
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated, Literal
from embedbench.learning.learner import Learner
from embedbench.learning.footprint import Footprint
from embedbench.api import above, at_least, require

@dataclass
class Mine(Learner):
    """A learner in a notebook."""

    floor: Annotated[float, above(0)] = 1.0
    kind: Literal["plain", "round"] = "plain"

    def start(self, spec, seeds, device): ...
    def scores(self, x, *, session_id=None): ...
    def footprint(self): return Footprint()

@dataclass
class Own(Mine):
    """One with a `__post_init__` that does not call super."""

    k: int = 1

    def __post_init__(self):
        require(self, "own", k=at_least(1))
'''


def test_classes_in_a_notebook() -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}  # that no file is the module of
    exec(CELL, cell)
    assert cell["Mine"]().floor == 1.0
    with pytest.raises(UserError, check=says(expected="above 0", got=0)):
        cell["Mine"](floor=0.0)
    with pytest.raises(UserError, match=r"\.kind 'rund'.* 'round'\?"):
        make(cell["Mine"], {"kind": "rund"}, name="mine")
    assert make(cell["Own"], {"k": "3"}, name="own").k == 3
    with pytest.raises(UserError, check=says(what="own.k", got=0)):
        cell["Own"](k=0)
    assert require.__module__ == "embedbench.config.setting_ranges"


def test_hints_are_read_once_a_class() -> None:
    assert field_hints(Stop) is field_hints(Stop)
    assert field_hints(EWC)["fisher"].choices == ("exact", "sampled", "empirical")
    assert field_hints(EWC)["batch_size"].ranges == (at_least(1),)


@pytest.mark.parametrize(("cls", "word"), [(object, "@dataclass"), (FieldHint, "'kind'")])
def test_what_cannot_be_made(cls: Any, word: str) -> None:
    with pytest.raises(UserError, match=f"^mine .*{word}"):
        make(cls, {}, name="mine")


def test_numbers_that_are_too_many_and_generators_of_seeds() -> None:
    check_size("the net", 10**9)
    with pytest.raises(UserError, match=r"the net holds 1e\+09"):
        check_size("the net", 10**9 + 1)
    (state,) = np.random.SeedSequence([7, 1, 2]).generate_state(1, np.uint64)
    assert generator(7, 1, 2).initial_seed() == state // 2


def test_a_list_of_two_is_no_number() -> None:
    assert make(IncrementalClass, {"sessions": [3, 2]}, name="protocol").sessions == "3,2"
    expected = "a number, or a list of two or more"
    with pytest.raises(UserError, check=says(expected=expected, got=[3])):
        make(IncrementalClass, {"sessions": [3]}, name="protocol")
