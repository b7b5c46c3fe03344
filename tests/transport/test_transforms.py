"""Transforms of torch.func are refused in words; what autograd offers works, or is refused in words."""

import pytest
import torch
from torch.autograd.functional import jacobian

from cophenet import CPCCLoss, Hierarchy, class_distances, cpcc
from cophenet.objectives import StepOutput, create_objective
from cophenet.transport import distance_names
from support import DEVICE, random_batch

TREE = Hierarchy.from_paths([(f"group{c // 2}", f"class{c}") for c in range(4)])
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
MESSAGE = r"cannot be transformed by torch\.func .* use backward\(\), torch\.autograd\.grad"


def batch():
    return random_batch(0, [2, 3, 1, 2])


def transformed(function, z):
    """Each transform of torch.func, applied to a function of the features."""
    return {
        "grad": lambda: torch.func.grad(lambda x: function(x).sum())(z),
        "jacrev": lambda: torch.func.jacrev(function)(z),
        "jacfwd": lambda: torch.func.jacfwd(function)(z),
        "jvp": lambda: torch.func.jvp(function, (z,), (z,)),
        "vjp": lambda: torch.func.vjp(function, z),
        "hessian": lambda: torch.func.hessian(lambda x: function(x).sum())(z),
        "vmap": lambda: torch.vmap(function)(z[None]),
    }


@pytest.mark.parametrize("transform", ["grad", "jacrev", "jacfwd", "jvp", "vjp", "hessian", "vmap"])
@pytest.mark.parametrize("name", sorted(distance_names()))
def test_distances_and_losses_refuse_transforms(name, transform):
    z, y = batch()
    functions = (
        lambda x: class_distances(x, y, name, tree=TREE)[1],
        lambda x: CPCCLoss(TREE, name)(x, y),
        lambda x: create_objective(name, TREE)(StepOutput(x, {"level2": x @ x.new_ones(5, 4)}, y))["cpcc"],
    )
    for function in functions:
        with pytest.raises(ValueError, match=MESSAGE):
            transformed(function, z)[transform]()


def test_transforms_of_other_arguments():
    z, y = batch()
    with pytest.raises(ValueError, match=MESSAGE):
        torch.vmap(lambda labels: CPCCLoss(TREE, "l2")(z, labels))(y[None])
    with pytest.raises(ValueError, match=MESSAGE):
        torch.func.grad(lambda w: CPCCLoss(TREE, "l2")(z, y, w))(torch.ones(len(y), device=DEVICE))
    with pytest.raises(ValueError, match=MESSAGE):
        torch.func.grad(lambda rho: cpcc(rho, TREE.condensed()))(torch.rand(6, device=DEVICE))
    layer = torch.nn.Linear(5, 5).to(z)

    def loss(parameters):
        return CPCCLoss(TREE, "l2")(torch.func.functional_call(layer, parameters, (z,)), y)

    assert loss(dict(layer.named_parameters())).requires_grad  # a call, no transform
    with pytest.raises(ValueError, match=MESSAGE):
        torch.func.grad(loss)({name: p.detach() for name, p in layer.named_parameters()})


@pytest.mark.parametrize("name", sorted(distance_names()))
def test_what_the_message_names_works(name):
    z, y = batch()

    def function(x):
        return class_distances(x, y, name, tree=TREE)[1]

    rows = jacobian(function, z)
    x = z.clone().requires_grad_()
    (whole,) = torch.autograd.grad(function(x).sum(), x)
    torch.testing.assert_close(rows.sum(0), whole)


@pytest.mark.parametrize("name", sorted(set(distance_names()) - {"l1"}))
def test_batched_gradients_are_refused_in_words(name):
    z, y = batch()
    with pytest.raises(RuntimeError, match=r"no batched gradients; leave out is_grads_batched=True"):
        jacobian(lambda x: class_distances(x, y, name, tree=TREE)[1], z, vectorize=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        jacobian(lambda x: class_distances(x, y, name, tree=TREE)[1], z, create_graph=True)
