"""What reads text or bytes from others gives a value or one sentence, whatever comes."""

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_records
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedbench.config.json_records import plain
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import parse_seeds
from embedbench.errors import UserError
from embedbench.models.ewc import EWC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.scores.record_files import load
from embedbench.scores.run_record import RunRecord
from embedbench.studies.resolve import sort_settings
from embedbench.studies.study import parse_settings

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
QUIET = settings(deadline=None, derandomize=True, max_examples=60)
SOUND: dict[str, Any] = report_records.make()


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = {**value} if isinstance(value, dict) else {}
    if isinstance(value, list):
        inner = dict(enumerate(value))
    return [at, *(p for k, v in inner.items() for p in _paths(v, (*at, k)))]


@pytest.mark.thorough
@QUIET
@given(path=st.sampled_from(_paths(SOUND)[1:]), value=JSON)
def test_a_record_with_any_value_anywhere(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(SOUND)
    at: Any = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with suppress(UserError):
        json.dumps(RunRecord.from_json(data).to_json(), allow_nan=False)


@settings(QUIET, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | JSON.map(lambda v: json.dumps(v).encode()))
def test_a_record_of_any_bytes(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "record.json").write_bytes(data)
    with pytest.raises(UserError):
        load(tmp_path)


@pytest.mark.parametrize("cls", [EWC, IncrementalClass])
@QUIET
@given(data=st.data())
def test_a_parameter_of_any_value(cls: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(cls.__dataclass_fields__)))
    with suppress(UserError):
        made = make(cls, {name: data.draw(JSON)}, name="it")
        json.dumps(plain(vars(made)))
        if cls is IncrementalClass:
            json.loads(made.recipe())


@QUIET
@given(st.text(alphabet="0123456789-, ²x", max_size=30))
def test_seeds_of_any_text(text: str) -> None:
    with suppress(UserError):
        seeds = parse_seeds(text)
        assert all(0 <= s < 2**63 for s in seeds)
        assert len(seeds) <= 10**6
        assert seeds == sorted(set(seeds))


@QUIET
@given(st.lists(st.text(max_size=30), max_size=3))
def test_settings_of_any_text(items: list[str]) -> None:
    with suppress(UserError):
        assert np.isfinite(sort_settings(parse_settings(items), ["ewc", "mlp"]).references)
