"""torch.compile: network and loss in one graph where a batch is planned ahead, else in parts."""

import warnings

import pytest
import torch

from cophenet import CPCCLoss, Hierarchy
from cophenet.objectives import StepOutput, create_objective

TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(6)])


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def batch(seed, size=20):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (size,), generator=generator)
    return torch.randn(size, 7, generator=generator) + 0.3 * y[:, None], y


@pytest.mark.parametrize(("name", "options"), [("l2", {"normalize": True}), ("fastft", {"weight": 0.5})])
def test_one_graph_holds_network_and_loss(name, options):
    torch.manual_seed(0)
    network, criterion = torch.nn.Linear(7, 5), CPCCLoss(TREE, name, **options)

    def step(x, labels):
        return criterion(network(x).relu(), labels)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for seed, size in ((0, 20), (0, 13), (1, 20), (2, 20), (4, 24)):
        x, y = batch(seed, size)
        found = compiled(x, criterion.prepare(y))
        grads = torch.autograd.grad(found, list(network.parameters()))
        expected = step(x, y)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        others = torch.autograd.grad(expected, list(network.parameters()))
        torch.testing.assert_close(grads, others, rtol=1e-4, atol=1e-6)
    # The second batch has another size, and lacks a class: sizes are known to change, so no other compiles.
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert graphs - before <= 2
    compiled(*(part if i == 0 else criterion.prepare(part) for i, part in enumerate(batch(9, 22))))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs
    one_class = compiled(x, criterion.prepare(torch.zeros_like(y)))
    assert one_class == criterion.weight
    assert not any(grad.any() for grad in torch.autograd.grad(one_class, list(network.parameters())))
    assert compiled(x * torch.nan, criterion.prepare(y)).isnan()
    with pytest.raises(ValueError, match="features must be finite, got NaN or inf in step"):
        criterion.prepare(y)


@pytest.mark.parametrize("options", [{"cpcc": "l2"}, {"cpcc": {"distance": "swd", "memory": 12}}])
def test_an_objective_works_in_a_compiled_step(options):
    torch.manual_seed(0)
    network, (x, y) = torch.nn.Linear(7, 6), batch(0)

    def step(x, y, objective):
        z = network(x)
        return sum(objective(StepOutput(z, {"level2": z.tanh()}, y)).values())

    expected, objective = (
        step(x, y, create_objective("flat", TREE, **options)),
        create_objective("flat", TREE, **options),
    )
    found = torch.compile(step, backend="eager")(x, y, objective)
    torch.testing.assert_close(found, expected)
    grads = (torch.autograd.grad(loss, list(network.parameters())) for loss in (found, expected))
    torch.testing.assert_close(*grads)
