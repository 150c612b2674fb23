"""The map and its readout: every path of the fast code against the algorithm written plainly."""

from typing import Any

import numpy as np
import pytest
import torch
from plain_som import PlainSom, assert_close
from toy import Array

from embedbench.models import _som, _som_kernel
from embedbench.models._som import MapNetwork, Som, by_last_use, previous

# side, inputs, classes, samples. As many samples as units or more: of two units that begin at one
# sample either may be the nearest, by how a matrix product rounds.
SHAPES = [(3, 5, 4, 9), (6, 12, 10, 150), (1, 3, 2, 9), (2, 2, 1, 1100)]
BRIEF: dict[str, Any] = {"iterations": 700, "som_iterations": 250, "hold": 60, "lr": 0.02}


def problem(shape: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    """Samples in overlapping clusters with labels, (n, D) float32 and (n,)."""
    _, width, classes, n = shape
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n).astype(np.int32)
    x = 0.7 * rng.normal(size=(classes, width))[y] + rng.normal(size=(n, width))
    return x.astype(np.float32), y


def both(shape: tuple[int, ...], seed: int, **settings: Any) -> tuple[Any, PlainSom, Any, Any]:
    """The fast network and the plain one, and two functions that teach each."""
    x, y = problem(shape, seed)
    som = Som(**{**BRIEF, "side": shape[0], **settings})
    fast, plain = MapNetwork(som, shape[1], shape[2]), PlainSom(som, shape[1], shape[2])

    def take(index: Array) -> torch.Tensor:
        return torch.from_numpy(x[index])

    return fast, plain, (take, y), (x, y)


@pytest.mark.parametrize("block", [2, 7, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_map_is_the_plain_algorithm(shape: Any, block: int, monkeypatch: Any) -> None:
    seed = block
    monkeypatch.setattr(_som, "BLOCK", block)
    fast, plain, teach, samples = both(shape, seed, theta=0.2, eps_later=0.1)
    log = fast.learn_base(*teach, seed, np.random.default_rng(seed))
    novel = plain.learn_base(*samples, seed, np.random.default_rng(seed))
    assert log == {"iterations": 700, "novelty": np.mean(novel)}
    assert_close(fast, plain)
    assert plain.W.std(0).max() > 0.1 or shape[0] == 1  # the units did not all fall into one
    flipped = ((samples[1] + 1) % shape[2]).astype(np.int32)  # something to learn anew
    rng = np.random.default_rng(seed + 100)
    rates = []
    for size in (1, 1, 2, 5, 30, 200):
        drawn = rng.integers(shape[3], size=size)
        rates.append(fast.learn(teach[0], flipped, drawn)["novelty"])
        novel = plain.learn(samples[0], flipped, drawn)
        assert rates[-1] == np.mean(novel)
        assert_close(fast, plain)
    if shape[2] > 1:
        assert 0 < rates[-1] <= 1


def test_units_that_move_far_end_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a rate of .6 a unit forgets where it stood in 30 steps, and coefficients would overflow
    in 100."""
    fast, plain, teach, samples = both((3, 5, 4, 12), 0, eps=0.6, eps_end=0.6)
    done = []
    learn_block = fast._learn_block

    def counted(*given: Any) -> int:
        done.append(learn_block(*given))
        return done[-1]

    monkeypatch.setattr(fast, "_learn_block", counted)
    fast.learn_base(*teach, 0, np.random.default_rng(0))
    plain.learn_base(*samples, 0, np.random.default_rng(0))
    assert 2 + 2 < len(done) < 100  # one block and what was cut short for each of the two parts
    assert sum(done) == 700
    assert_close(fast, plain)


def test_outputs_are_the_plain_ones() -> None:
    fast, plain, teach, samples = both((6, 12, 10, 150), 0, theta=0.05)
    fast.learn_base(*teach, 0, np.random.default_rng(0))
    for name in ("W", "V", "b"):
        setattr(plain, name, getattr(fast, name).double().numpy())
    plain.error = fast.error
    x = samples[0] + np.float32(0.1)
    found = fast.outputs(torch.from_numpy(x)).numpy()
    expected = np.stack([plain.respond(row)[0] for row in x.astype(np.float64)])
    np.testing.assert_allclose(found, expected, atol=1e-6)  # float32 of numbers below 10


def test_of_equal_outputs_the_first_is_the_answer() -> None:
    no, b, o = np.zeros(0, np.int64), np.float32([1, 3, 3]), np.zeros(3, np.float32)
    read = [_som_kernel._read(b[:0], no, np.zeros((4, 3), np.float32), b, c, o) for c in range(3)]
    assert read == [(0, False), (0, True), (0, False)]


@pytest.mark.parametrize(("rate", "part"), [(10.0, 1.0), (0.1, 1.0), (0.01, 6 * 0.02)])
def test_a_step_of_the_readout_never_goes_beyond_the_label(rate: float, part: float) -> None:
    """Two units at activities 2 and 1: an energy of 1 + 4 + 1, so steps over 1/6 are cut to it."""
    z, active = np.float32([2, 1]), np.arange(2)
    V, b, o = np.zeros((2, 3), np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
    _som_kernel._teach(z, active, V, b, 1, o, rate)
    np.testing.assert_allclose(b + z @ V, [0, part, 0], rtol=1e-6)


def test_samples_that_are_all_alike() -> None:
    """No distance, no spread: the readout still learns the label. No confidence is below 0."""
    fast = MapNetwork(Som(**{**BRIEF, "side": 3, "theta": 0.0}), 4, 2)
    x, y = torch.ones(1, 4), np.ones(1, np.int32)
    assert not fast.is_novel(lambda i: x[i], 0 * y, np.zeros(1, int)).any()  # outputs are equal
    assert fast.learn_base(lambda i: x[i], y, 0, np.random.default_rng(0))["novelty"] == 0
    assert fast.outputs(x).argmax(1).tolist() == [1]
    assert torch.isfinite(fast.outputs(torch.randn(5, 4))).all()


def test_schedule() -> None:
    eps, sigma = Som().schedule()
    assert eps.shape == sigma.shape == (80_000,)
    assert (eps[:5001] == 0.1).all()
    np.testing.assert_allclose(sigma[:5001], 23 / 3)
    half = 12_500  # exponential: half way down it is the geometric mean
    np.testing.assert_allclose([eps[half], sigma[half]], np.sqrt([0.1 * 0.03, 23 / 3 * 0.7]))
    np.testing.assert_allclose(eps[20_000:], 0.03)
    np.testing.assert_allclose(sigma[20_000:], 0.7)
    eps, _ = Som(iterations=4, som_iterations=2, hold=2).schedule()  # no time to fall
    assert eps.tolist() == [0.1, 0.1, 0.03, 0.03]


def test_how_draws_are_cut_into_blocks() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.integers(rng.integers(1, 30), size=50)
    seen: dict[int, int] = {}
    for t, (i, before) in enumerate(zip(drawn, previous(drawn), strict=True)):
        assert before == seen.get(i, -1)
        seen[i] = t
    index, local, over = by_last_use(drawn)
    assert sorted(index) == sorted(set(drawn))
    assert (index[local] == drawn).all()
    for t, prefix in enumerate(over):
        assert set(index[prefix:]) == set(drawn[t + 1 :])


def test_what_the_kernel_would_overrun_is_refused() -> None:
    """A state and labels may come from a file, and the compiled kernel looks at no bounds."""
    fast, _, (take, y), _ = both((4, 3, 2, 30), 0)
    state = fast.state_dict()
    for name in ("W", "V", "b"):
        with pytest.raises(ValueError, match=f"{name} is of shape"):
            fast.load_state_dict({**state, name: state[name][1:]})
    for wrong in (y + 1, y - 1):
        with pytest.raises(ValueError, match="of 2 classes"):
            fast.learn(take, wrong, np.arange(30))
