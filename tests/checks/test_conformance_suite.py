"""The conformance suite over all that ships; and each of its checks seen to catch its fault."""

import json
import math
import os
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import faulty_peeks
import faulty_promises
import numpy as np
import pytest
import torch
from faults import MUTANTS, failures, must_fail, name_of
from faulty_learners import StateIsNoData
from honest_learners import HONEST, Good, NeedsId

from embedbench.checks import blob_streams, conformance_suite
from embedbench.checks import check_building_blocks as blocks
from embedbench.checks import learner_check_tools as tools
from embedbench.checks.blob_streams import as_images, blobs, family_blobs, on_table
from embedbench.checks.check_building_blocks import CheckFailed, NotApplicable
from embedbench.checks.learner_check_tools import SMALL, LearnerCheck, held_bytes, same
from embedbench.checks.learner_contract import (
    memory_stays_within_its_limit,
    no_sample_is_kept_in_secret,
    same_seed_same_predictions,
    scores_ignore_how_batches_are_cut,
    state_round_trips,
    tags_are_true,
)
from embedbench.checks.learner_edge_cases import (
    only_sessions_so_far_matter,
    unusual_sessions_are_learned,
)
from embedbench.checks.metric_contract import METRIC_CHECKS
from embedbench.checks.protocol_contract import PROTOCOL_CHECKS, samples_are_the_files
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.learner import Learner, Tags
from embedbench.protocols.permutation import Permutation
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.runs import stream_runner
from embedbench.scores.metrics import all_metrics
from embedbench.streams.feature_tables import Table
from embedbench.streams.view import BLACK, View, table_of

LEARNER_CHECKS = conformance_suite.LEARNER_CHECKS
LEARNERS = [name for name in by_name.learner_names() if name not in by_name.ALIASES]
SHARE = 6  # of so many pairs of a name and a check one is tried
# Which check asks nothing of which learner or protocol, by the check; a new one adds its name.
EXEMPT: dict[str, list[str]] = json.loads(Path(__file__).with_name("exempt.json").read_text())


def _pairs(names: list[str], checks: Iterable[Any]) -> list[Any]:
    """Return every name with every check; without THOROUGH=1 a sixth of those that apply.

    The sixth leaves out no name and no check, and is the same each time.
    """
    table = [(i + j, n, c) for i, n in enumerate(names) for j, c in enumerate(checks)]
    every = os.environ.get("THOROUGH") == "1"
    kept: set[Any] = set()
    seen: set[Any] = set()
    for k, n, c in sorted(table, key=lambda row: row[0] % SHARE):
        applies = n not in EXEMPT.get(c.__name__, ())
        chosen = k % SHARE == 0 or not {n, c} <= seen
        if every or (applies and chosen):
            kept.add((n, c))
            seen |= {n, c}
    return [pytest.param(n, c, id=f"{n}-{name_of(c)}") for _, n, c in table if (n, c) in kept]


def _in_step(name: str, check: Callable[[Any], None], subject: type) -> None:
    """Run a check, and compare whether it asked anything with the table of exemptions."""
    asked = True
    try:
        check(subject)
    except NotApplicable:
        asked = False
    where = f"{name} under {check.__name__} in tests/checks/exempt.json"
    exempt = name in EXEMPT[check.__name__]
    assert asked or exempt, f"this check asks nothing of it: put {where}"
    assert not (asked and exempt), f"this check does ask something of it: strike {where}"


@pytest.mark.parametrize(("name", "check"), _pairs(LEARNERS, LEARNER_CHECKS))
def test_learner(name: str, check: LearnerCheck) -> None:
    _in_step(name, check, by_name.learner_class(name))


@pytest.mark.parametrize(("name", "check"), _pairs(by_name.protocol_names(), PROTOCOL_CHECKS))
def test_protocol(name: str, check: Callable[[Any], None]) -> None:
    _in_step(name, check, by_name.protocol_class(name))


def test_the_table_of_exemptions_has_every_check_and_no_other_name() -> None:
    checks = {c.__name__: LEARNERS for c in LEARNER_CHECKS}
    checks |= {c.__name__: by_name.protocol_names() for c in PROTOCOL_CHECKS}
    assert set(EXEMPT) == set(checks)
    sampled = {v for p in _pairs(LEARNERS, LEARNER_CHECKS) for v in p.values}
    assert sampled == {*LEARNERS, *LEARNER_CHECKS}
    assert not [n for check, names in EXEMPT.items() for n in names if n not in checks[check]]


class DarkCorner(Permutation):
    """Session 1 shows column 0 black, as a turned image its corners."""

    name = "dark-corner"

    def _permutations(self, table: Table, seed: int) -> list[Any]:
        first, second, *others = super()._permutations(table, seed)
        assert second is not None
        second[0] = BLACK
        return [first, second, *others]


def test_a_black_column_is_black() -> None:
    samples_are_the_files(DarkCorner)


def test_a_black_column_that_shows_another_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last, as an index of -1 does in NumPy."""

    def last(table: Table, rows: Any, width: int, columns: Any) -> Any:
        return table.values[rows] if columns is None else table.values[rows][:, columns]

    monkeypatch.setattr(View, "_read_columns", property(lambda view: view.columns))
    monkeypatch.setattr(View, "_black_columns", property(lambda _: ()))
    monkeypatch.setattr(Table, "numpy", last)
    with pytest.raises(CheckFailed, match="the features are others"):
        samples_are_the_files(DarkCorner)


@pytest.mark.parametrize("check", METRIC_CHECKS, ids=name_of)
@pytest.mark.parametrize("metric", all_metrics().values(), ids=name_of)
def test_metric(metric: Callable[..., float], check: Callable[[Any], None]) -> None:
    check(metric)


@pytest.mark.parametrize("cls", HONEST, ids=name_of)
def test_an_honest_learner_passes(cls: type[Learner]) -> None:
    assert failures(LEARNER_CHECKS, cls) == {}


@pytest.mark.parametrize("turn", range(len(MUTANTS)), ids=[name_of(m[0]) for m in MUTANTS])
def test_a_faulty_learner_is_caught_by_its_checks(turn: int) -> None:
    must_fail(LEARNER_CHECKS, *MUTANTS[turn], turn)


class Bare(Learner):  # no dataclass
    start = scores = footprint = lambda *_: None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("check", "cls", "says"),
    [
        (only_sessions_so_far_matter, faulty_peeks.SearchesMemory, "other labels in"),
        (no_sample_is_kept_in_secret, faulty_promises.CountsSamplesWithoutTag, "counts samples"),
        (memory_stays_within_its_limit, faulty_promises.KeepsMoreThanItsMemory, "in `x`"),
        (memory_stays_within_its_limit, faulty_promises.NeverStoresASample, "none was ever stored"),
        (state_round_trips, StateIsNoData, "'classes' .* type set"),
        (unusual_sessions_are_learned, Bare, "write @dataclass"),
        (tags_are_true, Bare, r"expected learn\(\)"),
    ],
    ids=name_of,
)
def test_what_a_check_says(check: LearnerCheck, cls: type[Learner], says: str) -> None:
    with pytest.raises(CheckFailed, match=says):
        check(cls)


def test_every_check_of_learners_catches_something() -> None:
    caught = {name for _, names in MUTANTS for name in names}
    assert caught == {c.__name__.replace("_", " ") for c in LEARNER_CHECKS}


def _wider(view: View) -> View:
    return replace(view, width=13)


def _hole(view: View) -> View:
    values = table_of(view).values.copy()
    values[7, 3] = np.nan
    return on_table(view, Table(values))


@pytest.mark.parametrize(
    ("part", "field", "change", "sentence"),
    [
        ("sessions", "x", _wider, r"session 2 .*\(13,\).*\(12,\)"),
        ("sessions", "x", _hole, "features .* row 7 holds"),
        ("sessions", "y", lambda y: y + 1, "session 2 .* 4 to 4; .*0 to 3"),
        ("sessions", "y", lambda y: y - 4, "session 2 .*-1 to -1; .*0 to 3"),
        ("sessions", "val_x", _wider, r"session 2's .*samples .*\(13,\)"),
        ("sessions", "val_y", lambda y: y[1:], r"session 2's .*\(5,\).*\(6,\)"),
        ("eval_sets", "x", _wider, r"eval set 2 .*\(13,\)"),
        ("eval_sets", "y", lambda y: y + 1, "eval set 2 .* 4 to 4; .*0 to 3"),
    ],
)
def test_what_a_refusal_says(part: str, field: str, change: Any, sentence: str) -> None:
    stream = blobs(Tags())
    *others, last = getattr(stream, part)
    last = replace(last, **{field: change(getattr(last, field))})
    bad: Any = {part: (*others, last)}
    with pytest.raises(UserError, match=sentence):
        stream_runner.run_stream(replace(stream, **bad), Good(), Seeds.of(0))


def test_streams_that_the_tags_exclude_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Good .* observe\(\)"):
        Good().observe(torch.zeros(1, 12), torch.zeros(1))
    with pytest.raises(UserError, match="one label a sample"):
        stream_runner.run_stream(family_blobs(Tags()), Good(), Seeds.of(0))
    with pytest.raises(UserError, match="images"):
        stream_runner.run_stream(as_images(blobs(Tags())), Good(), Seeds.of(0))


def test_ids_are_told_where_needed_and_allowed_only() -> None:
    hidden = blobs(Tags())
    with pytest.raises(UserError, match="NeedsId must know"):
        stream_runner.run_stream(hidden, NeedsId(), Seeds.of(0))
    allowed = replace(hidden, can_reveal=True)
    told, _ = stream_runner.run_stream(allowed, NeedsId(), Seeds.of(0))
    revealed, _ = stream_runner.run_stream(hidden.revealed(), NeedsId(), Seeds.of(0))
    assert same(vars(told), vars(revealed))
    with mock.patch.object(Good, "scores", autospec=True, side_effect=Good.scores) as asked:
        stream_runner.run_stream(allowed, Good(), Seeds.of(0))
    assert {call.kwargs["session_id"] for call in asked.call_args_list} == {None}


def test_a_result_says_what_was_demanded_and_what_came() -> None:
    def sums_to_two(n: Any) -> None:
        """One and one make two."""
        blocks.applies_where(n)
        blocks.demand(n.sum() == 2, f"expected 2, got {n.sum()}")

    results = [
        replace(result, seconds=0.25)
        for n in (np.array([2]), np.array([3]), np.array([3]), np.array(0), "x")
        for result in conformance_suite.run_checks([sums_to_two], n)
    ]
    assert conformance_suite.check_text(results).splitlines() == [
        "ok      sums to two  (0.2 s)",
        "FAILED  sums to two  (0.2 s)",
        "        demanded: One and one make two.",
        "        expected 2, got 3",
        "FAILED  sums to two  (0.2 s): as sums to two",
        "–       sums to two  (does not apply)",
        "FAILED  sums to two  (0.2 s)",
        "        demanded: One and one make two.",
        "        raised AttributeError: 'str' object has no attribute 'sum'",
        "1 of 4 checks passed, 3 failed by 2 faults, 1 does not apply",
    ]
    text = conformance_suite.check_text([results[0], *results[3:4] * 2])
    assert text.endswith("\n1 of 1 checks passed, 2 do not apply")
    assert conformance_suite.check_text(results[:1]).endswith("\n1 of 1 checks passed")
    assert [results[3].to_json()[key] for key in ("passed", "applies")] == [True, False]

    class Fails:
        def outer(self) -> None:
            self.inner()

        def inner(self) -> None:
            raise ZeroDivisionError("0")

    (failed,) = conformance_suite.run_checks([lambda cls: cls().outer()], Fails)
    assert failed.message == "outer raised ZeroDivisionError: 0"
    assert failed.passed is False
    assert 0 <= failed.seconds < 1


def test_checks_run_on_one_thread_and_leave_no_trace() -> None:
    mlp, run = by_name.learner_class("mlp"), stream_runner.run_stream
    threads, used, drawn = torch.get_num_threads(), set[int](), list[Any]()
    for check in (blocks.applies_where, same_seed_same_predictions):
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(5)
        with mock.patch.object(tools, "run_stream") as counted:
            counted.side_effect = lambda *a: used.add(torch.get_num_threads()) or run(*a)
            check(mlp)
        drawn.append((torch.rand(()), random.random(), np.random.random()))  # noqa: NPY002
    assert drawn[0] == drawn[1]
    assert torch.get_num_threads() == threads
    assert used == {1}


def test_images_are_learned_with_settings_that_reveal_faults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tools, "LEARNER_CHECKS", tools.Checks())  # it is no check of the suite
    mlp, made = by_name.learner_class("mlp"), list[Any]()
    tools.kinds_check(lambda make, stream: made.append((stream, make())))(mlp)
    (images,) = (learner.images for stream, learner in made if len(stream.spec.input_shape) == 3)
    assert (images.frozen, images.augment) == (1, "crop-flip")


def test_blobs_are_the_sessions_that_were_asked_for() -> None:
    stream = blobs(Tags(), ((0, 1), (2, 0), (1,)), (5, 4, 3), n_val=2)
    parts = [(s.y, s.val_y, s.classes) for s in stream.sessions]
    assert [[part.tolist() for part in each] for each in parts] == [
        [[0, 1, 0, 1, 0], [0, 1], [0, 1]],
        [[2, 0, 2, 0], [2, 0], [2]],
        [[1, 1, 1], [1, 1], []],
    ]
    tested = [(np.flatnonzero(e.classes).tolist(), e.y.tolist()) for e in stream.eval_sets]
    assert tested == [([0, 1], [0, 1] * 6), ([0, 2], [2, 0] * 6), ([1], [1] * 6)]
    assert [s.session_id for s in stream.sessions] == [None] * 3
    assert [s.session_id for s in blobs(Tags(), reveal=True).sessions] == [0, 1, 2]
    views = [(v, y) for s in stream.sessions for v, y in ((s.x, s.y), (s.val_x, s.val_y))]
    views += [(e.x, e.y) for e in stream.eval_sets]
    x, y = np.concatenate([v.numpy() for v, _ in views]), np.concatenate([y for _, y in views])
    assert all(x[y == c].std(axis=0).max() < 0.4 for c in range(3))
    deep = blobs(Tags(needs_layers=True)).spec
    assert deep.input_shape == (24,)
    assert deep.layers == {"middle": (12, 24)}
    images = blob_streams.each_kind(Tags(images=True))["images"].sessions
    assert [s.classes.tolist() for s in images] == [[0, 1], [2]]
    assert len(images[0].x) % SMALL["batch_size"] == 1  # a last batch of one
    first, again = blob_streams.permuted_blobs(Tags()).sessions
    assert again.session_id == 1
    assert again.classes.size == 0
    assert np.array_equal(again.x.numpy(), first.x.numpy()[:, again.x.columns])
    assert np.array_equal(again.val_x.numpy(), first.val_x.numpy()[:, again.x.columns])
    told, shown = (s.sessions[1].x.tensor() for s in (stream, as_images(stream)))
    squares = shown[:, :, ::4, ::4].permute(0, 2, 3, 1).flatten(1)
    assert torch.allclose(squares, told.clamp(-4, 4), atol=1 / 32)
    assert torch.equal(shown, shown[:, :, ::4, ::4].repeat_interleave(4, 2).repeat_interleave(4, 3))


def test_families_are_taught_the_labels_of_the_session() -> None:
    def listed(y: Any) -> list[list[int]]:
        return [np.flatnonzero(row).tolist() for row in y]

    stream = family_blobs(Tags(multilabel=True), 12, n_val=8)
    full = [[0], [1], [0, 2], [1, 3]]
    assert [(listed(s.y), len(s.val_y)) for s in stream.sessions] == [
        ([[0], [1], [0], [1]] * 3, 8),
        ([[2]] * 3, 2),
        ([[3]] * 3, 2),
    ]
    assert listed([s.loss_classes for s in stream.sessions]) == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]
    whole = [listed(y) for y in (stream.whole[0].y, stream.whole[0].val_y)]
    assert whole == [full * 3, full * 2]
    tested = [(e.split, listed(e.y)) for e in stream.eval_sets]
    assert tested == [("test", full * 6), ("val", full * 6)]
    assert np.array_equal(np.asarray(stream.parents), [-1, -1, 0, 1])


def test_the_tools_of_the_checks_by_hand() -> None:
    a, b = np.array([[1.0, -4.0], [0.5, 0.25]]), np.array([[2.0, -4.0], [0.5, 0.5]])
    assert [tools.measure_difference(*pair) for pair in ((a, b), (a * 0, a * 0))] == [0.5, 0]
    with tools.on_device("cpu:0"):
        assert tools.device() == "cpu:0"
    assert tools.device() == "cpu"
    for off in (1e-5, 1.1e-5):
        with mock.patch.object(tools, "measure_difference", lambda *_, off=off: off):
            assert bool(failures([scores_ignore_how_batches_are_cut], Good)) == (off > 1e-5)
    for wrong in (1, 2):  # of 10
        answers: Any = SimpleNamespace(y=np.ones(10, int), answer=np.ones((2, 10), int))
        answers.answer[-1, :wrong] = 0
        with pytest.raises(CheckFailed) if wrong > 1 else nullcontext():
            tools.demand_right(answers, "here")
    optimiser = {"state": {0: torch.zeros(9)}, "param_groups": []}
    state = {"a": torch.zeros(3), "b": [np.zeros(2), (torch.zeros(1),)], "o": optimiser, "n": 1}
    assert tools.state_bytes(state) == 12 + 16 + 4
    x = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    held = {
        "rows": deque([x[1].astype(np.float64), torch.from_numpy(x[2:]).half().flatten()]),
        "others": [x[0] + 0.5, x[0].astype(int), x[0, :2], x[:0], torch.zeros(3).bfloat16()],
        "set": {7},
    }
    assert tools.samples_held(held, x) == 3
    assert held_bytes({"s": {7}, 5: (1.5, 7)}) == 24  # each object once
    a, b = torch.zeros(100), np.zeros(10)  # shared memory counts once
    assert held_bytes({"a": a, "half": a[:50], "again": [a.numpy()], "b": b, "view": b[2:]}) == 480
    ones = {"x": [torch.tensor([1.0, math.nan]), np.arange(3)], "n": 1}
    assert same(ones, {"x": [torch.tensor([1.0, math.nan]), np.arange(3)], "n": 1})
    for other in ({"x": [torch.ones(2), np.arange(3)], "n": 1}, {"x": ones["x"]}, ones["x"]):
        assert not same(ones, other)
    assert not any(same(torch.zeros(2), other) for other in (torch.zeros(2, 1), None))
    assert not any(same([1, 2], other) for other in ([1], 1))
