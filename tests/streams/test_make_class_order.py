"""Class orders: objectives by hand, the annealer against plain sums, files, what a run keeps."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from numpy.typing import NDArray
from protocol_files import make_file
from scipy.optimize import quadratic_assignment
from toy import blobs
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST
from embedbench.files.write_file import write_file
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.permutation import Permutation
from embedbench.scores import record_files
from embedbench.scores.run_record import ClassOrder
from embedbench.streams import make_class_order, simulated_annealing
from embedbench.streams.class_order import class_order, published_orders
from embedbench.streams.make_class_order import (
    CONFUSION,
    confusion_matrix,
    make_order,
    objective,
    order_score,
)
from embedbench.streams.order_names import BY_CONFUSION, NAMED, PUBLISHED

Array = NDArray[Any]


def small_file(path: Path, names: Sequence[str], parents: list[int] | None = None) -> EmbeddingFile:
    """A file with little in it but its classes."""
    n = len(names) if parents is None else len(names) - len(set(parents) - {-1})
    counts = [2] * n, [0] * n, [1] * n
    return make_file(path.parent, *counts, name=path.name, classes=names, parents=parents)


def naive_score(W: Array, M: Array, order: Array) -> float:
    n = len(M)
    return sum(
        float(W[i, j]) * float(M[order[i], order[j]]) for i in range(n) for j in range(n) if i != j
    )


def counts(n: int, seed: int) -> Array:
    return np.random.default_rng(seed).poisson(1.5, (n, n)) * (1 - np.eye(n, dtype=np.int64))


# Six classes in three sessions of two. Across sessions every error costs n - 0.1.
X = 5.9
INSIDE = {  # cost of an error within each session
    "equal-task-confusion": [0, 0, 0],
    "increasing-task-confusion": [4, 2, 0],  # n - end
    "decreasing-task-confusion": [0, 2, 4],  # start
}
BY_HAND = {
    "max-confusion": [[abs(i - j) for j in range(6)] for i in range(6)],
    "min-confusion": [[-abs(i - j) for j in range(6)] for i in range(6)],
    **{k: np.kron(np.where(np.eye(3), v, X), np.ones((2, 2))) for k, v in INSIDE.items()},
}


@pytest.mark.parametrize("kind", CONFUSION)
def test_weights_by_hand(kind: str) -> None:
    np.testing.assert_allclose(objective(kind, [2, 2, 2]), BY_HAND[kind])


def test_changes_of_single_moves() -> None:
    """Of any symmetric weights, also with something on the diagonal."""
    n = 12
    W = np.random.default_rng(0).normal(size=(n, n))
    W += W.T
    M = counts(n, 0)
    B = (M + M.T).astype(np.float64)
    start = naive_score(W, M, np.arange(n))
    for p, q in itertools.permutations(range(n), 2):
        order = np.arange(n)
        order[[p, q]] = order[[q, p]]
        change = simulated_annealing._swap_change(W, B, p, q)
        assert change == pytest.approx(naive_score(W, M, order) - start)
    for p, middle, q in itertools.combinations(range(n + 1), 3):
        moved = np.r_[middle:q, p:middle]
        order = np.r_[0:p, moved, q:n]
        change = simulated_annealing._block_change(W, B, p, moved)
        assert change == pytest.approx(naive_score(W, M, order) - start)


@pytest.mark.parametrize(("n", "kind"), [(2, "max-confusion"), (150, "increasing-task-confusion")])
def test_incremental_score_is_the_naive_one(kind: str, n: int) -> None:
    """The changes summed up over thousands of moves; 150 is more than a window of blocks."""
    M, W = counts(n, n), objective(kind, make_class_order.session_sizes(n, min(n, 5)))
    B = (M + M.T).astype(np.float64)
    draws = np.random.default_rng(n).random((3000, 6))
    best, lowest = simulated_annealing.anneal(W, B, 100.0, 0.99, draws)
    assert sorted(best.tolist()) == list(range(n))
    found, start = naive_score(W, M, best), naive_score(W, M, np.arange(n))
    assert found - start == pytest.approx(lowest, abs=1e-6)
    if n == 150:
        assert found < start


def test_annealing_gains_nine_tenths_of_what_a_qap_solver_gains() -> None:
    """SciPy's FAQ on 100 classes, as the gain over the natural order."""
    M, W = counts(100, 0), objective("increasing-task-confusion", [10] * 10)
    natural = order_score(W, M, np.arange(100))
    solved = quadratic_assignment(W - np.diag(np.diag(W)), (M + M.T).astype(float)).col_ind
    ours = make_class_order.anneal(W, M, seed=0, steps=20_000)
    gains = [natural - order_score(W, M, order) for order in (ours, solved)]
    assert gains[0] > 0.9 * gains[1] > 30_000


def test_annealing_repeats_and_follows_its_seed() -> None:
    M, W = counts(110, 0), objective("max-confusion", [110])
    right = M + 9 * np.eye(110, dtype=np.int64)  # what is not confused decides nothing
    given = (M, 1), (right, 1), (M, 2)
    one, again, other = (make_class_order.anneal(W, *which, steps=5000) for which in given)
    assert one.tolist() == again.tolist() != other.tolist()
    scores = [order_score(W, right, order) for order in (one, other, np.arange(110))]
    assert scores == [623_663, 625_560, 666_127]  # on any machine: sums of whole numbers


def test_published_orders_are_permutations_that_start_as_printed() -> None:
    starts = {
        "cifar100-max-confusion": [47, 52, 96, 59, 56],
        "cifar100-min-confusion": [65, 3, 44, 46, 55],
        "cifar100-increasing-task-confusion": [1, 39, 69, 85, 58],
        "cifar100-equal-task-confusion": [2, 98, 36, 75, 46],
        "cifar100-decreasing-task-confusion": [47, 98, 46, 2, 11],
        "icarl_87": [87, 0, 52, 58, 44, 91, 68, 97],
        "coarse": [4, 30, 55, 72, 95, 1, 32, 67, 73, 91],  # aquatic mammals, fish
    }
    shipped = published_orders()
    names = shipped.pop("classes")
    assert names == sorted(set(names))
    assert set(shipped) == set(starts) == {*PUBLISHED, "icarl_87", "coarse"}
    for kind, start in starts.items():
        assert sorted(shipped[kind]) == list(range(100))
        assert shipped[kind][: len(start)] == start


def test_published_orders_follow_the_names(tmp_path: Path) -> None:
    """A file that has CIFAR-100's classes in another order gets the same classes."""
    names = published_orders()["classes"]
    mixed = tuple(np.random.default_rng(0).permutation(names).tolist())
    file = small_file(tmp_path / "mixed.h5", mixed)
    for kind in PUBLISHED:
        found = make_order(file, kind)["order"]
        assert found[0] == names[published_orders()[kind][0]]
        assert sorted(found) == names
    assert make_order(file, "icarl1993")["sizes"] == [10] * 10
    assert make_order(file, "icarl1993")["order"][:4] == [names[c] for c in (68, 56, 78, 8)]
    other = small_file(tmp_path / "other.h5", tuple(str(i) for i in range(100)))
    with pytest.raises(UserError, match=r"other\.h5 has 100 others"):
        make_order(other, PUBLISHED[0])
    # the numbers of the two iCaRL orders are used on other data too
    assert make_order(other, "icarl_87")["order"][:2] == ["87", "0"]
    found = [int(c) for c in make_order(other, "icarl1993")["order"]]
    assert found[:12] == [68, 56, 78, 8, 23, 84, 90, 65, 74, 76, 40, 89]
    assert found[-4:] == [29, 49, 57, 33]


def test_natural_random_coarse(tmp_path: Path) -> None:
    names = ("cat", "oak", "dog", "ash", "tree", "animal")
    file = small_file(tmp_path / "a.h5", names, [5, 4, 5, 4, -1, -1])
    assert make_order(file, "natural", sessions=2)["order"] == list(names[:4])
    assert make_order(file, "coarse", sessions=2)["order"] == ["cat", "dog", "oak", "ash"]
    drawn = {tuple(make_order(file, "random", seed=s, sessions=2)["order"]) for s in range(8)}
    assert len(drawn) > 1
    assert {tuple(sorted(d)) for d in drawn} == {tuple(sorted(names[:4]))}
    with pytest.raises(UserError, match="no class hierarchy"):
        make_order(small_file(tmp_path / "b.h5", names[:4]), "coarse", sessions=2)


def test_coarse_sorts_by_names_of_groups_from_the_root(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inner, n = 12, 30
    names = tuple(f"c{i}" for i in rng.permutation(n + inner))
    parents = np.append(n + rng.permuted(np.arange(n) % inner), np.full(inner, -1))
    for i in range(1, inner):
        if rng.random() < 0.8:
            parents[n + i] = n + rng.integers(i)
    file = small_file(tmp_path / "a.h5", names, parents.tolist())

    def groups(leaf: int) -> list[str]:
        above = int(parents[leaf])
        return [] if above < 0 else [*groups(above), names[above]]

    expected = [names[leaf] for leaf in sorted(range(n), key=groups)]
    assert make_order(file, "coarse", sessions=2)["order"] == expected


@pytest.mark.parametrize(
    ("n", "sessions", "base", "sizes"),
    [
        (100, 10, 0, [10] * 10),
        (10, 4, 0, [3, 3, 2, 2]),
        (100, 11, 50, [50, *[5] * 10]),
        (7, 1, 0, [7]),
        (7, 1, 7, [7]),
        (5, 6, 0, None),
        (10, 3, 9, None),
        (10, 1, 4, None),
        (5, 0, 0, None),
    ],
)
def test_session_sizes(n: int, sessions: int, base: int, sizes: list[int] | None) -> None:
    if sizes:
        assert make_class_order.session_sizes(n, sessions, base) == sizes
        return
    with pytest.raises(UserError, match=f"^{n} classes .* {sessions} sessions"):
        make_class_order.session_sizes(n, sessions, base)


def confused_file(path: Path, n_classes: int = 6, shift_tests: float = 0.0) -> EmbeddingFile:
    """Classes 2k and 2k + 1 lie on top of each other; the others apart."""
    n, name = n_classes, f"samples of {path.name}"
    classes = [f"c{i}" for i in range(n)]
    of = make_file(path.parent, [20] * n, [0] * n, [10] * n, name=name, classes=classes)
    features = 3 * blobs(of.labels // 2, 8, seed=1, spread=0.2)
    features[of.split == TEST] += shift_tests
    return write_file(path, of.samples, features, {"backbone": {"name": "toy"}})


def test_confusion_is_where_classes_overlap(tmp_path: Path) -> None:
    matrix = confusion_matrix(confused_file(tmp_path / "a.h5"), seed=0)
    pairs = [(0, 1), (2, 3), (4, 5)]
    assert all(matrix[a, b] + matrix[b, a] > 8 for a, b in pairs)  # of 40
    assert matrix.sum() == sum(matrix[a, b] + matrix[b, a] for a, b in pairs)
    assert (matrix.sum(axis=1) <= 20).all()  # of 20 training samples a class


def test_confusion_reads_no_test_sample_and_no_more_than_five_deviations(tmp_path: Path) -> None:
    files = (confused_file(tmp_path / f"{s}.h5", 2, shift_tests=s) for s in (0.0, 50.0))
    np.testing.assert_array_equal(*(confusion_matrix(file, seed=3) for file in files))
    x = np.array([*itertools.product((-1, 1), repeat=3)], np.float32)
    far = np.array([[9, -3, -2.5], [-9, 3, 2.5]], np.float32)  # 9 deviations count as 5
    assert make_class_order._probe(1.0, x, (x.sum(1) > 0) * 1, far).tolist() == [0, 1]
    tiny = np.array([1, 1.5e-6], np.float32)  # a deviation above 1e-6 is one
    x = np.array([[1, 1], [-1, -1]] * 4, np.float32) * tiny
    asked = np.array([[0.9, -1]], np.float32) * tiny
    assert make_class_order._probe(1.0, x, np.array([1, 0] * 4), asked).tolist() == [0]


def test_a_probe_judges_what_it_never_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, asked_for = confused_file(tmp_path / "a.h5"), list[Array]()

    def probe(alpha: float, x: Array, y: Array, asked: Array) -> Array:
        known = {row.tobytes() for row in x}
        assert not any(row.tobytes() in known for row in asked)
        assert np.bincount(y, minlength=6).min() >= 15  # 20 a class, a fifth held out
        asked_for.append(asked)
        return np.zeros(len(asked), dtype=np.int64)

    monkeypatch.setattr(make_class_order, "_probe", probe)
    assert confusion_matrix(file, seed=0)[:, 0].tolist() == [0, 20, 20, 20, 20, 20]
    np.testing.assert_array_equal(asked_for[0], asked_for[-make_class_order.FOLDS])  # the first
    judged = np.concatenate(asked_for[-make_class_order.FOLDS :])
    assert len(np.unique(judged, axis=0)) == len(judged) == 120


def test_the_penalty_of_the_first_fifth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, used = confused_file(tmp_path / "a.h5"), list[float]()
    label = {row.tobytes(): int(c) for row, c in zip(file.read(), file.labels, strict=True)}

    def probe(alpha: float, x: Array, y: Array, asked: Array) -> Array:
        used.append(alpha)
        return np.array([label[row.tobytes()] for row in asked]) * (alpha == 1e3)

    monkeypatch.setattr(make_class_order, "_probe", probe)
    assert not make_class_order.confusion_matrix(file, seed=0).any()
    assert used == [1e1, 1e2, 1e3, 1e4, 1e5, *[1e3] * 5]


def embedbench(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


def test_an_order_file_runs_and_its_digest_is_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "a.h5", tmp_path / "order.json"
    file = confused_file(path)
    made = ("order", path, "--kind", "equal-task-confusion", "--sessions", 3, "--out", out)
    done = embedbench(*made)
    assert done.exit_code == 0, done.output
    told = json.loads(out.read_text())
    assert told == make_order(file, "equal-task-confusion", sessions=3)
    assert (told["file"]["digests"], told["steps"]) == (file.digests, 2 * 10**5)
    W, M = objective(told["kind"], told["sizes"]), np.array(told["matrix"])
    number = [file.classes.index(c) for c in told["order"]]
    assert told["score"] == pytest.approx(naive_score(W, M, np.array(number)))
    assert told["natural_score"] == pytest.approx(naive_score(W, M, np.arange(6)))
    assert {frozenset(number[i : i + 2]) for i in (0, 2, 4)} == {
        frozenset(p) for p in ((0, 1), (2, 3), (4, 5))
    }
    assert embedbench(*made).exit_code != 0  # nothing is overwritten unasked
    again = embedbench(*made, "--overwrite", "--json")
    assert json.loads(again.stdout) == told == json.loads(out.read_text())
    run = ("run", path, "--protocol", "incremental-class", "--learner", "ncm", "--jobs", 1)
    sizes = ("--set", "protocol.base=2", "--set", "protocol.step=2", "--set", "references=0")
    done = embedbench(*run, *sizes, "--order", out, "--out", tmp_path / "runs", "--json")
    assert done.exit_code == 0, done.output
    kept = [record_files.load(p) for p in record_files.find(tmp_path / "runs")]
    own = next(r for r in kept if r.learner == "ncm")
    sha = hashlib.sha256(out.read_bytes()).hexdigest()
    assert own.order == ClassOrder(told["kind"], "order.json", sha)
    assert own.notes == ()


def test_what_a_record_keeps_of_an_order(tmp_path: Path) -> None:
    path = tmp_path / "order.txt"
    path.write_text("c0\n")
    kept = IncrementalClass(order=str(path)).order_record()
    assert (kept["kind"], kept["name"]) == ("file", "order.txt")
    assert IncrementalClass().order_record() == {"kind": "natural", "name": None, "digest": None}
    assert Permutation().order_record() is None


def test_unknown_kinds_are_told_the_nearest(tmp_path: Path) -> None:
    file = confused_file(tmp_path / "a.h5")
    with pytest.raises(UserError, match=r"'maxconfusion'.* 'max-confusion'"):
        make_order(file, "maxconfusion")
    with pytest.raises(UserError, match=r"b\.h5 .* two classes"):
        confusion_matrix(confused_file(tmp_path / "b.h5", 1), seed=0)


def test_orders_by_confusion_are_those_that_are_annealed() -> None:
    assert set(BY_CONFUSION) == set(CONFUSION)


def test_run_takes_an_order_by_groups_by_its_name(tmp_path: Path) -> None:
    names = ["cat", "car", "dog", "bus", "pets", "cars"]
    file = small_file(tmp_path / "toy.h5", names, [4, 5, 4, 5, -1, -1])
    assert [names[c] for c in class_order("coarse", file, 0)] == ["car", "bus", "cat", "dog"]


@pytest.mark.parametrize("order", BY_CONFUSION)
def test_run_says_how_an_annealed_order_is_made(order: str, tmp_path: Path) -> None:
    file = small_file(tmp_path / "toy.h5", ["a", "b"])
    with pytest.raises(UserError, match=f"embedbench order FILE --kind {order}"):
        class_order(order, file, 0)


def test_an_order_without_a_file_is_named_with_its_neighbour(tmp_path: Path) -> None:
    file = small_file(tmp_path / "toy.h5", ["a", "b"])
    with pytest.raises(UserError, check=says(what="unknown order", expected="natural")):
        class_order("natura", file, 0)


@pytest.mark.parametrize("order", [name for name in NAMED if name not in BY_CONFUSION])
def test_run_knows_every_other_name(order: str) -> None:
    assert IncrementalClass(order=order).recipe()
