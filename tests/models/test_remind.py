"""REMIND: the quantiser against a naive loop, codes in bytes, and replay against the plain loop."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from teaching import STORAGE_CHECKS, assert_same_weights, batches_of, descend, start
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.config.fields_added_later import identity
from embedbench.learning import Memory, Seeds
from embedbench.learning.network import mlp_net
from embedbench.models.remind import CENTROIDS, REMIND, ProductQuantiser
from embedbench.runs.run_spec import Spec

SEEDS = Seeds.of(0)
SMALL: dict[str, Any] = {"units": 8, "batch_size": 6, "codes": 3, "base_samples": 15, "updates": 1}
STREAM = class_stream([[0, 1], [2], [3, 4]], n_train=12, spread=1.0)


def trained(n: int, width: int, parts: int, seed: int) -> tuple[ProductQuantiser, torch.Tensor]:
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32))
    quantiser = ProductQuantiser(width, parts, "cpu")
    quantiser.fit(x, seed)
    return quantiser, x


def taught(n: int | None = None, **settings: Any) -> Any:
    learner = start(REMIND(**{**SMALL, **settings}), STREAM.spec)
    for x, y in [*batches_of(STREAM, 5)][:n]:
        learner.observe(x, y)
    return learner


def test_codes_are_those_of_a_naive_loop_over_centroids() -> None:
    quantiser, x = trained(300, 10, 4, 0)  # parts of 3, 3, 3 and 1
    assert quantiser.parts == 4
    books = quantiser.books.double().numpy()
    codes, back = quantiser.pack(x[:40]), quantiser.unpack(quantiser.pack(x[:40]))
    for i, row in enumerate(x[:40].double().numpy()):
        for j, part in enumerate(np.pad(row, (0, 2)).reshape(4, 3)):
            distances = [np.sum((part - centroid) ** 2) for centroid in books[j]]
            assert int(codes[i, j]) == int(np.argmin(distances))
        kept = books[range(4), codes[i].tolist()].flatten()
        np.testing.assert_array_equal(back[i].numpy(), kept[:10])


def test_centroids_are_the_means_of_their_samples() -> None:
    few = torch.cat([torch.full((9, 1), float(c)) for c in range(300)])  # 300 values, 256 centroids
    single = ProductQuantiser(1, 1, "cpu")
    single.fit(few, 2**32)
    rebuilt = single.unpack(single.pack(few))
    for value in rebuilt.unique():
        assert float(few[rebuilt == value].mean()) == pytest.approx(float(value), abs=1e-3)
    many, x = trained(9000, 4, 2, 2**32 + 69)  # the 25 steps of faiss, from random samples
    known = KMeans(CENTROIDS, init="random", n_init=1, max_iter=25, random_state=70).fit(x[:, 2:])
    np.testing.assert_allclose(many.books[1], known.cluster_centers_, atol=1e-5)
    for n in (20, CENTROIDS):  # no more samples than centroids: each is its own
        small, x = trained(n, 6, 3, 0)
        values = np.unique(x[:, :2].numpy(), axis=0).tolist()
        assert small.books[0].tolist() == values + values[:1] * (CENTROIDS - n)
        assert torch.equal(small.unpack(small.pack(x)), x)


@pytest.mark.parametrize(
    ("width", "asked", "parts", "length"),
    [(1280, 32, 32, 40), (784, 32, 32, 25), (6, 32, 6, 1), (40, 32, 20, 2), (5, 1, 1, 5)],
)
def test_a_sample_has_a_byte_for_each_part(width: int, asked: int, parts: int, length: int) -> None:
    quantiser = ProductQuantiser(width, asked, "cpu")
    assert quantiser.books.shape == (parts, CENTROIDS, length)
    codes = quantiser.pack(torch.zeros(7, width))
    assert codes.shape == (7, parts)
    assert codes.dtype == torch.uint8
    assert quantiser.unpack(codes).shape == (7, width)
    assert quantiser.books.nbytes == 4 * 256 * parts * length


def test_a_code_is_a_byte_a_part_and_base_samples_are_whole() -> None:
    before, after = taught(2), taught(3)  # 10 and 15 samples: the third batch completes the base
    assert before.footprint()["samples"] == 10 * (6 * 4 + 8)
    assert after.footprint()["samples"] == 15 * (3 + 8)
    assert before.footprint()["codebooks"] == after.footprint()["codebooks"] == 256 * 6 * 4
    assert len(after.base) == 0
    assert after.exemplars.rows.x.nbytes == 15 * 3
    assert taught().footprint()["samples"] == 60 * (3 + 8)


@pytest.mark.parametrize("memory", [{"total": 12}, {"total": 7}, {"per_class": 3}])
def test_the_memory_keeps_its_limit_at_every_moment(memory: dict[str, int]) -> None:
    """A base of 1,000 samples that the memory has no room for: the quantiser is trained earlier."""
    settings = {**SMALL, "base_samples": 1000, "memory": Memory(select="balanced", **memory)}
    learner, seen = start(REMIND(**settings), STREAM.spec), set()
    for x, y in batches_of(STREAM, 5):
        learner.observe(x, y)
        seen |= {*y.tolist()}
        limit = memory.get("total", 3 * len(seen))
        assert len(learner.base) + len(learner.exemplars) <= limit
    assert learner.quantiser.trained
    assert len(learner.base) == 0


@pytest.mark.parametrize(
    ("memory", "moved"),
    [({"total": 1000}, False), ({"total": 999}, True), ({"per_class": 20}, True), (None, False)],
)
def test_runs_have_a_new_place_only_where_the_memory_has_no_room(memory: Any, moved: bool) -> None:
    learner = REMIND() if memory is None else REMIND(memory=Memory(select="balanced", **memory))
    spec = Spec("remind", learner)
    assert (spec.identity != json.dumps(identity(learner), sort_keys=True)) == moved


def test_a_memory_with_room_for_the_base_changes_nothing() -> None:
    """15 base samples: a memory of 15 is as one of 20,000 until it is full."""
    room = [taught(4, memory=Memory(total=n, select="balanced")) for n in (20, 20_000)]
    x = STREAM.eval_sets[0].x.tensor()
    assert torch.equal(*(learner.scores(x) for learner in room))


def test_steps_are_those_of_the_plain_algorithm() -> None:
    """SGD on each batch and on stored samples; all rebuilt once the quantiser is trained."""
    learner = taught(memory=Memory(select="all"))
    net = mlp_net(6, 8, 2, 5, SEEDS.init)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-5)
    held_x, held_y, quantiser = torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64), None
    for t, (x, y) in enumerate(batches_of(STREAM, 5)):
        draw = np.random.default_rng([SEEDS.batches, t])
        old = draw.choice(len(held_x), min(6, len(held_x)), replace=False, shuffle=False)
        new = x if quantiser is None else quantiser.unpack(quantiser.pack(x))
        z = net(torch.cat([new, held_x[old]]))
        descend(sgd, cross_entropy(z, torch.cat([y, held_y[old]])))
        held_x, held_y = torch.cat([held_x, new]), torch.cat([held_y, y])
        if quantiser is None and len(held_x) >= 15:
            quantiser = ProductQuantiser(6, 3, "cpu")
            quantiser.fit(held_x, SEEDS.memory)
            held_x = quantiser.unpack(quantiser.pack(held_x))
    assert_same_weights(learner, net)
    assert quantiser is not None
    x = STREAM.eval_sets[0].x.tensor()
    expected = net(quantiser.unpack(quantiser.pack(x)))
    torch.testing.assert_close(learner.scores(x), expected, rtol=1e-4, atol=1e-5)
    assert (learner.scores(x) - learner.net(x)).abs().max() > 1e-3  # test samples are rebuilt, too


@dataclass
class Early(REMIND):
    """`remind` with a quantiser from the first batches on, so that the suite sees codes."""

    base_samples: int = 8
    codes: int = 4


@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_the_contract_is_kept_with_codes(check: Any) -> None:
    check(Early)
