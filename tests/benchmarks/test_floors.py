"""`benchmarks/floors.py` counts the matrix products of training and answering, and no others."""

import floors
import torch
from torch.nn.functional import cross_entropy


def test_the_products_of_a_training_step_are_those_of_the_formula() -> None:
    """Forward 2w, gradient of the weights 2w, of every layer's input but the first 2(w - f)."""
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    x, y = torch.rand(32, 5), torch.arange(32) % 3
    with floors.Products() as products:
        cross_entropy(net(x), y).backward()
    weights, first = 5 * 7 + 7 * 3, 5 * 7
    assert products.flops == 32 * 2 * (3 * weights - first)
    assert sum(products.counts.values()) == 5
    with floors.Products() as answers, torch.inference_mode():
        net(x).relu() + 1
    assert answers.flops == 32 * 2 * weights


def test_the_bare_side_makes_the_same_products() -> None:
    x, y = torch.rand(4, 6), torch.rand(2, 6).T
    with floors.Products() as products:
        for _ in range(3):
            x @ y
        torch.bmm(torch.rand(5, 2, 3), torch.rand(5, 3, 4))
    assert products.flops == 3 * 2 * 4 * 6 * 2 + 5 * 2 * 2 * 3 * 4
    bare = floors.bare_products(products)
    with floors.Products() as again:
        bare()
    assert again.flops == products.flops


def test_steps_are_counted_by_optimiser_and_made_again_on_copies() -> None:
    nets = [torch.nn.Linear(5, width) for width in (2, 3)]
    with floors.counted_steps() as seen:
        for net, steps in zip(nets, (4, 1), strict=True):
            optimiser = torch.optim.Adam(net.parameters())
            net(torch.rand(6, 5)).sum().backward()
            for _ in range(steps):
                optimiser.step()
        solver = torch.optim.LBFGS(nets[0].parameters())  # its products are counted
        solver.step(lambda: nets[0](torch.rand(6, 5)).square().sum().item())
    assert [steps for _, steps in seen.values()] == [4, 1]
    before, (copied, _) = nets[0].weight.clone(), next(iter(seen.values()))
    mine = copied.param_groups[0]["params"][0].clone()
    copied.step()
    assert torch.equal(nets[0].weight, before)
    assert not torch.equal(copied.param_groups[0]["params"][0], mine)
