"""The exemplar memory: what is chosen, what is dropped, what is counted."""

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from toy import class_stream, session

from embedbench.errors import UserError
from embedbench.learning.exemplars import Exemplars, Memory
from embedbench.models.icarl import ICaRL
from embedbench.streams.stream import Session, StreamSpec

SPEC = StreamSpec((3,), 5)
identity = torch.nn.Identity()


def exemplars(seed: int = 0, *, logits: bool = False, **settings: Any) -> Exemplars:
    return Exemplars(Memory(**settings), SPEC, seed, "cpu", logits=logits)


def numbered(labels: list[int], start: int = 0) -> Session:
    """A session whose samples are (number, 1, 0), so that each can be told."""
    x = np.zeros((len(labels), 3), np.float32)
    x[:, 0], x[:, 1] = start + np.arange(len(labels)), 1
    return session(x, labels)


def numbers(held: Exemplars) -> list[int]:
    return [int(v) for v in held.x[:, 0]]


def plain_herding(features: Tensor, k: int) -> list[int]:
    """The definition, candidate by candidate."""
    phi = [f / f.norm() for f in features.double()]
    mean = sum(phi[1:], phi[0]) / len(phi)
    chosen: list[int] = []
    for _ in range(k):
        left = [i for i in range(len(phi)) if i not in chosen]
        far = [
            float((mean - sum((phi[j] for j in chosen), phi[i]) / (len(chosen) + 1)).norm())
            for i in left
        ]
        chosen.append(left[int(np.argmin(far))])
    return chosen


def test_per_class_memories_grow() -> None:
    held = exemplars(per_class=3, select="random")
    held.choose(numbered([0] * 8 + [1] * 2), identity)
    assert held.y.tolist() == [0] * 3 + [1] * 2  # a class that has fewer gives all
    before = numbers(held)
    held.choose(numbered([4] * 9, start=100), identity)
    assert held.y.tolist() == [0] * 3 + [1] * 2 + [4] * 3
    assert numbers(held)[:5] == before
    assert all(n >= 100 for n in numbers(held)[5:])
    assert len(set(numbers(held))) == 8


@pytest.mark.parametrize("select", ["herding", "random"])
def test_a_fixed_memory_drops_the_tail_of_every_list(select: str) -> None:
    held = exemplars(total=12, select=select)
    draw = np.random.default_rng(0)
    for c, (n_classes, quota) in enumerate([(1, 12), (2, 6), (3, 4), (4, 3), (5, 2)]):
        before = {k: held.x[held.y == k] for k in range(c)}
        held.choose(session(draw.normal(size=(20, 3)), [c] * 20), identity)
        assert Counter(held.y.tolist()) == dict.fromkeys(range(n_classes), quota)
        for k in range(c):
            assert torch.equal(held.x[held.y == k], before[k][:quota])


def test_herded_exemplars_are_in_herding_order() -> None:
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).numpy()
    held = exemplars(per_class=25)
    held.choose(session(x, [2] * 40), lambda x: 2 * x[:, :2] + 1)
    expected = plain_herding(2 * torch.from_numpy(x[:, :2]) + 1, 25)
    assert torch.equal(held.x, torch.from_numpy(x[expected]))


def test_a_class_that_comes_again_is_chosen_from_old_and_new() -> None:
    held = exemplars(per_class=6, select="random")
    held.choose(numbered([0] * 6 + [1] * 6), identity)
    held.choose(numbered([0] * 6, start=100), identity)
    assert held.y.tolist() == [0] * 6 + [1] * 6
    mixed = {*numbers(held)[:6]}
    assert len(mixed) == 6
    assert mixed & {*range(6)}
    assert mixed & {*range(100, 106)}


def test_a_random_memory_is_uniform_and_follows_its_seed() -> None:
    def chosen(seed: int) -> list[int]:
        held = exemplars(seed, per_class=3, select="random")
        held.choose(numbered([0] * 10), identity)
        return numbers(held)

    counts = Counter(number for seed in range(600) for number in chosen(seed))
    assert max(abs(counts[i] - 180) for i in range(10)) < 4 * np.sqrt(600 * 0.3 * 0.7)
    assert chosen(5) == chosen(5)


@pytest.mark.parametrize("settings", [{"total": 0}, {"per_class": 0}])
def test_no_exemplars_at_all(settings: dict[str, int]) -> None:
    held, data = exemplars(**settings), numbered([0, 1])
    held.choose(data, identity)
    assert len(held) == 0
    assert held.join(data) is data


def test_exemplars_join_a_session_as_data() -> None:
    held = exemplars(per_class=2, select="random")
    held.choose(numbered([0] * 5, start=50), identity)
    mask = np.array([False, True, False, True, False])
    plain = replace(class_stream([[3, 1]], width=3).sessions[0], loss_classes=mask)
    joined, n = held.join(plain), len(plain.x)
    everything = torch.cat([plain.x.tensor(), held.x])
    assert len(everything) == n + 2
    assert torch.equal(joined.x.batch(torch.arange(n + 2)), everything)
    index = torch.tensor([n + 1, 0, n, n - 1, 0])
    assert torch.equal(joined.x.batch(index), everything[index])
    assert joined.y.tolist() == [*plain.y.tolist(), 0, 0]
    assert joined.ids.tolist() == [*plain.ids.tolist(), -1, -1]
    assert np.array_equal(joined.loss_classes, [True, True, False, True, False])
    assert not mask[0]  # the session itself stays as it was
    assert joined.x.view is plain.x  # nothing was copied


def offered(held: Exemplars, labels: list[int], batch: int) -> Exemplars:
    data = numbered(labels)
    x, y = data.x.tensor(), torch.from_numpy(data.y)
    for index in torch.split(torch.arange(len(labels)), batch):
        logits = x[index, :1].repeat(1, 5) if held._logits.shape[1] else None
        held.add(x[index], y[index], logits)
    return held


@pytest.mark.parametrize("batch", [1, 3])
def test_pairs_in_a_reservoir_are_uniform(batch: int) -> None:
    """Algorithm R keeps every subset with equal probability, not only every sample."""
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(1000):
        held = offered(exemplars(seed, total=2, select="reservoir"), [0] * 5, batch)
        counts[tuple(sorted(numbers(held)))] += 1
    every = list(itertools.combinations(range(5), 2))
    assert set(counts) == set(every)
    assert max(abs(counts[pair] - 100) for pair in every) < 4.2 * np.sqrt(1000 * 0.1 * 0.9)


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_a_balanced_memory_is_balanced(batch: int) -> None:
    labels = [0] * 40 + [1] * 30 + [2] * 3 + [3] * 27
    held = offered(exemplars(total=20, select="balanced"), labels, batch)
    counts = Counter(held.y.tolist())
    assert len(held) == sum(counts.values()) == 20
    assert counts[2] == 3  # all there are; the largest classes share the rest
    assert max(counts.values()) - min(counts[c] for c in (0, 1, 3)) <= 1
    assert len(set(numbers(held))) == 20
    for number, label in zip(numbers(held), held.y.tolist(), strict=True):
        assert labels[number] == label


def test_a_balanced_memory_takes_a_sample_while_its_class_is_below_the_quota() -> None:
    held = offered(exemplars(total=6, select="balanced"), [0] * 10, 3)
    assert numbers(held) == [0, 1, 2, 3, 4, 5]  # later ones of the only class are not taken
    held = offered(exemplars(total=6, select="balanced"), [0] * 6 + [1] * 6, 1)
    assert Counter(held.y.tolist()) == {0: 3, 1: 3}
    assert {n for n in numbers(held) if n >= 6} == {6, 7, 8}
    held = offered(exemplars(per_class=2, select="balanced"), [0, 0, 0, 1, 2, 2, 2], 2)
    assert numbers(held) == [0, 1, 3, 4, 5]


def test_what_a_balanced_memory_evicts_is_random() -> None:
    evicted: Counter[int] = Counter()
    for seed in range(500):
        held = offered(exemplars(seed, total=5, select="balanced"), [0] * 5 + [1], 6)
        evicted.update({*range(5)} - {*numbers(held)})
    assert max(abs(evicted[i] - 100) for i in range(5)) < 4 * np.sqrt(500 * 0.2 * 0.8)


@pytest.mark.parametrize("select", ["reservoir", "balanced"])
def test_fewer_places_than_classes(select: str) -> None:
    held = offered(exemplars(total=2, select=select), [0, 1, 2, 3, 4] * 3, 4)
    assert len(held) == 2
    assert len(offered(exemplars(total=0, select=select), [0, 1, 2], 2)) == 0
    held = offered(exemplars(total=2, select="balanced"), [0, 1, 2, 0, 1, 0, 1, 2] * 3, 1)
    assert len(set(held.y.tolist())) == 2  # never two of a class
    assert numbers(offered(exemplars(total=2, select="balanced"), [0, 1, 1, 0, 1], 1)) == [0, 1]


def test_an_infinite_memory_keeps_all_in_order() -> None:
    held = offered(exemplars(select="all", total=3), [0, 1] * 30, 7)
    sessions = exemplars(select="all")
    for c in (0, 1):
        sessions.choose(numbered([c] * 30, start=30 * c), identity)
    assert numbers(held) == numbers(sessions) == list(range(60))
    not_full = offered(exemplars(total=50, select="reservoir"), [0, 1] * 20, 4)
    assert (numbers(not_full), len(not_full._x)) == (list(range(40)), 50)


def test_a_loss_is_over_all_classes_or_over_those_that_have_come() -> None:
    new = torch.tensor([1])
    assert offered(exemplars(select="all"), [3], 1).seen_with(new) is None
    spec = replace(SPEC, loss_over_seen=True)
    held = offered(Exemplars(Memory(select="all"), spec, 0, "cpu"), [3], 1)
    assert held.seen_with(new).tolist() == [1, 3]


def test_stored_logits_stay_with_their_samples() -> None:
    held = offered(exemplars(3, total=8, select="reservoir", logits=True), [0] * 60, 7)
    assert torch.equal(held.state_dict()["logits"], held.x[:, :1].repeat(1, 5))
    x, _, logits = held.sample(4, np.random.default_rng(0))
    assert torch.equal(logits[:, 2], x[:, 0])


def test_a_draw_is_without_repetition_and_uniform() -> None:
    held = offered(exemplars(select="all"), [0, 1] * 10, 5)
    counts: Counter[int] = Counter()
    for k in range(500):
        x, y, _ = held.sample(4, np.random.default_rng(k))
        drawn = [int(v) for v in x[:, 0]]
        assert len(set(drawn)) == 4
        assert y.tolist() == [n % 2 for n in drawn]
        counts.update(drawn)
    assert max(abs(counts[i] - 100) for i in range(20)) < 4 * np.sqrt(500 * 0.2 * 0.8)
    assert len(held.sample(99, np.random.default_rng(0))[1]) == 20


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: exemplars(total=1), "^memory.total .* 5, .* 1$"),
        (lambda: exemplars(total=4), "^memory.total .* 5, .* 4$"),
        (lambda: Memory(select="reservoir"), '"reservoir" .*with memory.total'),
        (lambda: ICaRL(memory=Memory(total=9, select="balanced")), "icarl.memory.select 'balan"),
        (lambda: exemplars().add(torch.zeros(1, 3), torch.zeros(1)), '"herding" chooses when'),
        (lambda: ICaRL(memory=Memory(total=0)), "icarl.memory.total .*icarl.memory.per_class"),
    ],
)
def test_memories_that_are_refused(made: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        made()


def test_trimming_changes_no_bytes_counted_and_no_later_choice() -> None:
    trimmed, other = (exemplars(per_class=4, select="balanced") for _ in range(2))
    for i in range(40):
        for held in (trimmed, other):
            held.add(torch.full((1, 3), float(i)), torch.tensor([i * 7 % 5]))
        before = trimmed.footprint()
        trimmed.trim()
        assert len(trimmed._x) == len(trimmed)
        assert before == trimmed.footprint() == other.footprint()
        assert numbers(trimmed) == numbers(other)


def test_one_sample_at_a_time_seldom_moves_the_others() -> None:
    held = exemplars(select="all")
    for i in range(1000):
        held.add(torch.full((1, 3), float(i)), torch.tensor([0]))
        assert len(held._x) == 1 << i.bit_length()  # 1, 2, 4, 4, …, 1024
    assert numbers(held) == list(range(1000))
