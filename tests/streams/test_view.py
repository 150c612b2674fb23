"""Views: chosen, joined, stored; and what a learner can reach from what it is given."""

import json
import math
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from honest_learners import Good
from numpy.typing import NDArray

from embedbench.checks.blob_streams import as_images, blobs
from embedbench.checks.protocol_cases import build
from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Context, Tags
from embedbench.runs import learner_and_protocol_names
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.feature_tables import PixelTable, Table
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View, table_of

RNG = np.random.default_rng(0)
WIDE = Table(RNG.normal(size=(20, 6)).astype(np.float32))
IMAGES = PixelTable(RNG.integers(0, 256, (20, 2, 3, 1), dtype=np.uint8), (0.3,), (-1.1,))
COLUMNS = RNG.permutation(6)
ROWS = np.array([7, 2, 7, 19])
VIEWS = {
    "plain": View(WIDE, ROWS, 6),
    "cut": View(WIDE, ROWS, 4),
    "padded": View(WIDE, ROWS, 9),
    "permuted": View(WIDE, ROWS, 6, COLUMNS),
    "images": View(IMAGES, ROWS, 6),
    "permuted images": View(IMAGES, ROWS, 6, COLUMNS),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_select_and_joined_are_those_of_the_arrays(view: View) -> None:
    x = view.numpy()
    for index in (np.array([3, 0, 0]), np.arange(0), np.array([-1])):
        np.testing.assert_array_equal(view.select(index).numpy(), x[index])
    with pytest.raises(IndexError):
        view.select(np.array([4]))  # a row of the table, not of the view
    parts = [view.select(np.array(i, np.int64)) for i in ([1, 2], [], [0])]
    joined = parts[0].joined(*parts[1:])
    np.testing.assert_array_equal(joined.numpy(), x[[1, 2, 0]])
    torch.testing.assert_close(joined.batch(torch.tensor([2])), view.tensor()[[0]], rtol=0, atol=0)
    assert table_of(joined) is table_of(view)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_device_is_a_name_or_one_of_torch(view: View) -> None:
    x = view.tensor(torch.device("cpu"))
    np.testing.assert_array_equal(x.numpy(), view.numpy())


def test_rows_of_a_view_come_to_a_device_of_torch() -> None:
    x = VIEWS["images"].batch(torch.tensor([1]), torch.device("cpu"))
    np.testing.assert_array_equal(x.numpy(), VIEWS["images"].numpy()[[1]])


def test_views_of_other_tables_or_columns_are_not_joined() -> None:
    assert repr(VIEWS["plain"]) == "View(width=6, columns=None)"  # without its rows
    for name, other in VIEWS.items():
        assert VIEWS["plain"].joinable(other) == (name == "plain")
        if name != "plain":
            with pytest.raises(ValueError, match="one table"):
                VIEWS["plain"].joined(VIEWS["plain"], other)


def plain_data(value: Any) -> Any:
    """The value as JSON takes it; arrays as lists, anything else is an error there."""
    if isinstance(value, dict):
        return {name: plain_data(v) for name, v in value.items()}
    if isinstance(value, list):
        return [plain_data(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_the_state_of_views_is_data_of_their_rows_alone() -> None:
    views = [*VIEWS.values()]
    state = View.state_dict(views)
    assert "null" not in json.dumps(plain_data(state))
    assert [len(t["values"]) for t in state["tables"]] == [3, 3]  # rows 2, 7, 19 once
    assert View.nbytes(views) == (3 * 6 * 4 + 3 * 6, 6 * 4 * 8 + 2 * 6 * 8)
    assert View.state_dict([]) == {"tables": [], "views": []}
    assert View.nbytes([]) == (0, 0)
    for old, new in zip(views, View.from_state_dict(state), strict=True):
        np.testing.assert_array_equal(new.numpy(), old.numpy())
        assert torch.equal(new.tensor(), old.tensor())


def test_a_stream_goes_to_another_process_with_one_table() -> None:
    stream = as_images(blobs(Tags()))
    again = pickle.loads(pickle.dumps(stream))
    assert again.digests == stream.digests
    views = [v for s in again.sessions for v in (s.x, s.val_x)] + [e.x for e in again.eval_sets]
    assert len({id(table_of(v)) for v in views}) == 1
    assert torch.equal(again.sessions[1].x.tensor(), stream.sessions[1].x.tensor())


NOTHING_BEHIND = (str, bytes, int, float, type, type(None))


def public(root: Any) -> Iterator[Any]:
    """All that public attributes, containers, closures and bases of arrays lead to."""
    stack, seen = [root], dict[int, Any]()
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, NOTHING_BEHIND):
            continue
        seen[id(value)] = value
        yield value
        if isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, list | tuple):
            stack += value
        elif isinstance(value, np.ndarray):
            stack.append(value.base)
        elif isinstance(value, partial):
            stack += [value.args, value.keywords, value.func]
        elif closure := getattr(value, "__closure__", None):
            stack += [cell.cell_contents for cell in closure]
        elif type(value).__module__.startswith("embedbench"):
            stack += [getattr(value, name) for name in dir(value) if name[0] != "_"]


class Remembers(Good):
    """Keeps all that it is given."""

    given: ClassVar[list[Any]] = []

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.given.append((spec, seeds))
        super().start(spec, seeds, device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.given.append((session, ctx))
        assert not math.isnan(ctx.validate(self.scores))
        return super().learn(session, ctx)


def test_nothing_public_leads_from_the_runner_to_other_rows() -> None:
    Remembers.given.clear()
    run_stream(blobs(Tags()), Remembers(), Seeds.of(0))
    assert len(Remembers.given) == 4
    reached = [*public(Remembers.given)]
    assert {Session, Context, View} <= {*map(type, reached)}
    assert not [v for v in reached if isinstance(v, Table | Stream | EvalSet | Good)]


@pytest.mark.parametrize("name", learner_and_protocol_names.protocol_names())
def test_nothing_public_leads_from_a_session_to_the_file(name: str) -> None:
    case = build(learner_and_protocol_names.protocol_class(name), "plain", 0)
    for session in case.stream.sessions:
        n = max(len(session.x) + len(session.val_x), case.stream.spec.n_classes)
        reached = [*public(session)]
        assert not [v for v in reached if isinstance(v, Table | Stream | EvalSet)]
        long = [v.shape for v in reached if isinstance(v, np.ndarray) and len(v) > n]
        assert not long, f"an array over more than the session's samples, {n}"


READ: dict[str, Callable[[View], NDArray[Any]]] = {
    "numpy": lambda view: view.numpy(),
    "tensor": lambda view: view.tensor().numpy(),
    "batch": lambda view: view.batch(torch.tensor([1, 0])).numpy(),
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_read_is_a_copy_of_its_samples(view: View, read: Callable[[View], NDArray[Any]]) -> None:
    x: Any = read(view)
    assert view.tensor().untyped_storage().nbytes() == view.numpy().nbytes
    before = view.numpy()
    x[:] = 0
    np.testing.assert_array_equal(view.numpy(), before)
    while isinstance(x, np.ndarray):
        assert x.size <= before.size
        x = x.base
