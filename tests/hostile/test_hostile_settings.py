"""Settings that nobody means are refused with one sentence, before anything is computed."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from file_helpers import says
from plan_runs import plan
from toy import class_stream

from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds, parse_seeds
from embedbench.errors import UserError
from embedbench.learning.pretraining import Pretraining
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.runs.stream_runner import run_stream

CLASSES: dict[str, type] = {
    **{n: by_name.learner_class(n) for n in by_name.learner_names() if n not in by_name.ALIASES},
    **{n: by_name.protocol_class(n) for n in by_name.protocol_names()},
}
NOT_SIZES = ("nan", "inf", "-inf", "1e300", "-1e300", str(10**30), "9" * 5000)


def numbers(cls: type, prefix: str = "") -> Iterator[str]:
    """Names of the numeric settings of a dataclass, nested ones with dots."""
    hints = typing.get_type_hints(cls)
    for f in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[f.name]):
            yield from numbers(hints[f.name], f"{prefix}{f.name}.")
        elif {int, float} & {hints[f.name], *typing.get_args(hints[f.name])}:
            yield f"{prefix}{f.name}"


@pytest.mark.parametrize("name", CLASSES)
def test_every_number_is_bounded(name: str) -> None:
    for setting in numbers(CLASSES[name]):
        for value in NOT_SIZES:
            with pytest.raises(UserError) as caught:
                make(CLASSES[name], {setting: value}, name=name)
            assert len(str(caught.value)) < 300, setting


@pytest.mark.parametrize(
    ("name", "setting", "value", "what", "expected"),
    [
        ("mlp", "units", 10**6, "mlp.units", "at most 100000"),
        ("mlp", "units", "1_0", "mlp.units", "int"),
        ("mlp", "units", "١٠", "mlp.units", "int"),
        ("ewc", "lam", "1_0.5", "ewc.lam", "float | None"),
        ("ewc", "lam", 1e300, "ewc.lam", "at most 1e+15"),
        ("ewc", "stop.min_delta", "nan", "stop.min_delta", "finite and at least 0"),
        ("pathnet", "lambda", 1, "unknown setting of pathnet", ""),
        ("ewc", "lambda", 1, "unknown setting of ewc", "lam"),
        ("mlp", "learning_rate", 1, "unknown setting of mlp", "lr"),
        ("offline", "learning_rate", 1, "unknown setting of offline", "mlp.lr"),
        ("mlp", "epochs", 5, "unknown setting of mlp", "stop.epochs"),
    ],
)
def test_what_is_refused(name: str, setting: str, value: Any, what: str, expected: str) -> None:
    with pytest.raises(UserError, check=says(what=what, expected=expected)):
        make(CLASSES[name], {setting: value}, name=name)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mlp", {"units": 100_000}),
        ("fel", {"fel_units": 100_000, "units": 50_000}),
        ("nc-fscil", {"outputs": 100_000, "units": 100_000}),
        ("ranpac", {"projections": 10**6}),
        ("geppnet", {"som.side": 1000}),
    ],
)
def test_a_learner_that_no_memory_holds_is_refused(name: str, settings: dict[str, Any]) -> None:
    learner = make(CLASSES[name], settings, name=name)
    width = 1000 if name == "geppnet" else 6
    stream = class_stream([[0], [1]], width=width, n_train=2, n_val=1, n_test=1)
    with pytest.raises(UserError, match="choose smaller ones"):
        run_stream(stream, learner, Seeds.of(0), "cpu")


@pytest.mark.parametrize("text", ["9" * 23, f"0-{2**63}", "²", "-1", "1-", "", "1" * 5000, "1e3"])
def test_seeds_beyond_int64_and_what_is_no_number(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_seeds(text)
    assert len(str(caught.value)) < 200


def test_bounds_of_seeds() -> None:
    assert parse_seeds(f"{2**63 - 1}") == [2**63 - 1]
    assert len(parse_seeds("0-9999")) == 10_000
    for many in ("0-99999999999", "0-9999,20000"):
        with pytest.raises(UserError, check=says(what="--seeds", got=many)):
            parse_seeds(many)
    for make_seeds in (lambda: Seeds.of(-1), lambda: Seeds.of(0, order=2**63)):
        with pytest.raises(UserError, check=says(expected="at least 0 and below 2**63")):
            make_seeds()


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        (f"seeds.order={2**63}", {"what": "seeds.order", "got": str(2**63)}),
        ("seeds.order=-1", {"what": "seeds.order", "got": "-1"}),
        ("seeds.oder=1", {"what": "unknown seed", "expected": "order"}),
        ("omega=kemker", {"what": "unknown omega", "expected": "kemker_eq"}),
        (f"references={10**9}", {"what": "references", "got": str(10**9)}),
        ("epochs=5", {"what": "unknown setting", "expected": "stop.epochs"}),
        ("bacth_size=5", {"what": "unknown setting", "expected": "batch_size"}),
    ],
)
def test_items_without_a_learner(item: str, fields: dict[str, str]) -> None:
    with pytest.raises(UserError, check=says(**fields)):
        plan(["x.h5"], "permutation", ["ncm", "ewc"], [0], [item])


def test_pretraining_is_bounded() -> None:
    for setting in numbers(Pretraining):
        with pytest.raises(UserError):
            make(Pretraining, {"trunk": "resnet32", setting: "1e300"}, name="pretrain")
