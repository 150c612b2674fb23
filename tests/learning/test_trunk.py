"""Trunks: residual networks by hand, gradients of single samples, learners of images."""

import copy
import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from file_helpers import says
from safetensors.torch import save_file
from small_training import equal
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, cross_entropy
from trunk_runs import lively, x_of

from embedbench.checks.blob_streams import as_images, blobs
from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.learning.image_training import ImageTraining
from embedbench.learning.learner import Tags
from embedbench.learning.network import (
    PART,
    CosineNet,
    Net,
    cosine_net,
    eval_features,
    mlp_net,
    predict,
    trunk_and_head,
)
from embedbench.learning.per_sample_gradients import gradients, is_mlp
from embedbench.learning.sample_containers import Rows
from embedbench.learning.stopping import Stop, validation_value
from embedbench.learning.trunk import STAGES, ResNet, Trunk, image_trunk
from embedbench.models.ewc import fisher_diagonal
from embedbench.models.mlp import MLP
from embedbench.networks.weights import file_sha256
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import StreamSpec

SPEC = StreamSpec((3, 8, 8), 4)
BRIEF: dict[str, Any] = {"trunk": "resnet8", "stop": Stop(rule="epochs", epochs=1)}


def test_weights_of_residual_networks() -> None:
    torch.manual_seed(0)
    for name, layers in (("resnet8", 8), ("resnet20", 20), ("resnet32", 32)):
        net, width = image_trunk(name, (3, 8, 8), ImageTraining())
        convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
        assert len(convolutions) + 1 == layers  # and the head
        assert width == 64
        for m in convolutions:  # by the number of outputs
            std = (2 / (9 * m.out_channels)) ** 0.5
            assert m.weight.std().item() == pytest.approx(std, rel=0.15)
    # the paper's .46 million, head included
    assert sum(p.numel() for p in net.parameters()) + 65 * 10 == 464_154


def plainly(net: ResNet, x: Tensor, relu: bool) -> Tensor:
    """The forward pass by its definition, a convolution after the other."""
    state = net.state_dict()

    def unit(x: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        h = conv2d(x, state[f"{conv}.weight"], stride=stride, padding=1)
        mean, var, weight, bias = (
            state[f"{norm}.{k}"] for k in ("running_mean", "running_var", "weight", "bias")
        )
        return batch_norm(h, mean, var, weight, bias)

    h = unit(x, "conv", "norm").relu()
    n = len(net.blocks) // 3
    for i in range(3 * n):
        stride = 2 if i in (n, 2 * n) else 1
        inner = unit(h, f"blocks.{i}.conv1", f"blocks.{i}.norm1", stride).relu()
        inner = unit(inner, f"blocks.{i}.conv2", f"blocks.{i}.norm2")
        out = inner.clone()
        for row in range(out.shape[2]):
            for column in range(out.shape[3]):
                out[:, : h.shape[1], row, column] += h[:, :, stride * row, stride * column]
        h = out if i == 3 * n - 1 and not relu else out.relu()
    return h.flatten(2).mean(2)


@pytest.mark.parametrize(("blocks", "relu", "side"), [(1, True, 8), (2, False, 8), (2, True, 7)])
def test_residual_networks_are_the_definition(blocks: int, relu: bool, side: int) -> None:
    net = lively(ResNet(3, blocks) if relu else ResNet(3, blocks, relu=False))
    assert isinstance(net, ResNet)
    x = x_of(3, shape=(3, side, side + 2))
    with torch.no_grad():
        phi = net(x)
        torch.testing.assert_close(phi, plainly(net, x, relu), rtol=1e-4, atol=1e-5)
    assert phi.shape == (3, STAGES[-1])
    assert bool((phi < 0).any()) is not relu


def test_a_batch_of_one_goes_by_the_running_statistics() -> None:
    trunk, x = Trunk(lively(ResNet(3, 1))).train(), x_of(5)
    before = copy.deepcopy(trunk.state_dict())
    alone = trunk(x[:1])
    assert equal(trunk.state_dict(), before)
    assert trunk.body.training
    trunk(x)
    assert not equal(trunk.state_dict(), before)
    trunk.load_state_dict(before)
    with torch.no_grad():
        torch.testing.assert_close(alone, trunk.eval()(x)[:1])


@pytest.mark.parametrize("name", ["mlp", "resnet8", "test_resnet"])
def test_the_seed_decides_the_weights(name: str) -> None:
    learner = MLP(trunk=name, units=5)
    state = torch.get_rng_state()
    for make in (trunk_and_head, functools.partial(cosine_net, eta=2.0)):
        a, b, other = (dict(make(learner, SPEC, seed).named_parameters()) for seed in (3, 3, 4))
        assert torch.equal(torch.get_rng_state(), state)  # the global state is left alone
        assert equal(a, b)
        assert not any(torch.equal(a[k], other[k]) for k in a if a[k].ndim > 1)


@pytest.mark.parametrize(("trunk", "width", "layers"), [("mlp", 5, 2), ("linear", 192, 0)])
def test_flat_trunks_take_the_values_of_an_image(trunk: str, width: int, layers: int) -> None:
    learner, flat, x = MLP(trunk=trunk, units=5), StreamSpec((192,), 4), x_of(6)
    for make in (trunk_and_head, functools.partial(cosine_net, eta=2.0)):
        net = make(learner, SPEC, 0)
        assert torch.equal(predict(net, x), predict(make(learner, flat, 0), x.flatten(1)))
        assert eval_features(net, x).shape == (6, width)
    plain = mlp_net(192, 5, layers, 4, 0)
    assert torch.equal(predict(plain, x.flatten(1)), predict(trunk_and_head(learner, SPEC, 0), x))


@pytest.mark.parametrize(("name", "channels"), [("timm:test_resnet", 3), ("test_vit", 1)])
def test_trunks_of_timm(name: str, channels: int) -> None:
    spec = StreamSpec((channels, 32, 32), 4)
    net = trunk_and_head(MLP(trunk=name), spec, 0)
    x = x_of(3, shape=spec.input_shape)
    phi = eval_features(net, x)
    assert phi.shape == (3, net.head.in_features)
    torch.testing.assert_close(predict(net, x), net.head(phi))
    assert isinstance(net[0], Trunk)
    net.train()(x[:1])  # statistics of one sample and one position: there are none


def test_cosine_heads_have_the_trunk_without_its_last_relu() -> None:
    net = cosine_net(MLP(trunk="resnet8"), SPEC, 0, eta=3.0)
    assert isinstance(net, CosineNet)
    phi = eval_features(net, x_of(8))
    assert (phi < 0).any()
    assert not (eval_features(trunk_and_head(MLP(trunk="resnet8"), SPEC, 0), x_of(8)) < 0).any()
    assert phi.shape == (8, net.theta.shape[1])
    assert 0.9 / 8 < net.theta.abs().max() <= 1 / 8  # uniform in ±1/√64
    with torch.no_grad():
        torch.testing.assert_close(predict(net, x_of(8)), 3 * net.cosines(phi))


def test_many_images_go_through_a_net_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    net = trunk_and_head(MLP(trunk="resnet8"), SPEC, 0)
    x = x_of(9)
    whole, phi = predict(net, x), eval_features(net, x)
    sizes: list[int] = []
    net.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    monkeypatch.setattr("embedbench.learning.network.PART", 4)
    torch.testing.assert_close(predict(net, x), whole)
    torch.testing.assert_close(eval_features(net, x), phi)
    assert sizes == [4, 4, 1]
    monkeypatch.setattr("embedbench.learning.stopping.PART", 4)
    session = as_images(blobs(Tags(), ((0, 1),), 8, n_val=9)).sessions[0]

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(net(x), y)

    found = validation_value(net, session, "loss", loss, "cpu")
    val_y = torch.from_numpy(session.val_y)
    assert len(val_y) % 4
    assert found == pytest.approx(loss(session.val_x.tensor(), val_y).item(), rel=1e-5)
    assert PART >= 256


@pytest.mark.parametrize(
    ("trunk", "shape", "sentence"),
    [
        ("resnet33", (3, 8, 8), "mlp.trunk 'resnet33'.* 'resnet"),
        ("timm:resnet5O", (3, 8, 8), "mlp.trunk 'timm:resnet5O'"),
        ("resnet32", (12,), "width 12: .*--backbone none"),
        ("test_vit", (3, 8, 8), "'test_vit' cannot be"),
    ],
)
def test_trunks_that_do_not_fit(trunk: str, shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        trunk_and_head(MLP(trunk=trunk), StreamSpec(shape, 4), 0)


def test_gradients_of_single_samples() -> None:
    """∂ logits[label]/∂θ of each sample, as by the ordinary way; nothing else changes."""
    net = lively(trunk_and_head(MLP(trunk="resnet8"), SPEC, 0))
    x, y = x_of(3), torch.tensor([2, 0, 3])
    before = {k: v.clone() for k, v in net.state_dict().items()}
    found = gradients(net, lambda z, c: z.gather(0, c[None])[0], x, y)
    for i, c in enumerate(y):
        one = torch.autograd.grad(net(x[i : i + 1])[0, c], list(net.parameters()))
        for g, e in zip(found, one, strict=True):
            torch.testing.assert_close(g[i], e, rtol=1e-3, atol=1e-5)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())


@pytest.mark.parametrize(
    ("kind", "mask"), [("exact", None), ("exact", 1), ("sampled", 1), ("empirical", 1)]
)
def test_both_ways_to_the_fisher_information_agree(kind: str, mask: int | None) -> None:
    """On an MLP that is not recognised as one, the general way gives what the short one gives."""
    net = mlp_net(6, 5, 2, 4, 0)
    disguised = Net(nn.Identity(), *net)
    assert is_mlp(net)
    assert not is_mlp(disguised)
    x, y = torch.randn(40, 6), torch.tensor([0, 2, 3, 0]).repeat(10)
    blocked = None if mask is None else torch.zeros(4).index_fill(0, torch.tensor(mask), -torch.inf)
    short, general = (
        fisher_diagonal(n, Rows(x), y, kind, generator(0, 0), mask=blocked)
        for n in (net, disguised)
    )
    for a, b in zip(short, general, strict=True):
        assert bool(a.isfinite().all())
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


def test_joint_keeps_images_as_bytes() -> None:
    learner = learner_class("joint")(**BRIEF)
    run_stream(as_images(blobs(Tags(), ((0, 1), (2,)), 8, n_val=2)), learner, Seeds.of(0))
    kept = 2 * (8 + 2)  # training and validation samples of two sessions
    assert learner.footprint()["samples"] == kept * (192 + 4)


def test_weights_that_were_replaced_since_the_command_began(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    state = image_trunk("resnet8", (3, 8, 8), ImageTraining())[0].body.state_dict()
    save_file({name: value.contiguous() for name, value in state.items()}, path)
    images = ImageTraining(weights=str(path), sha256=file_sha256(path))
    save_file({name: value + 1 for name, value in state.items()}, path)
    with pytest.raises(UserError, check=says(what=f"{path} has changed since the command began")):
        image_trunk("resnet8", (3, 8, 8), images)
