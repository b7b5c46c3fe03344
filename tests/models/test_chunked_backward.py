import copy
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from cophenet import CPCCLoss, Hierarchy
from cophenet.models import Network, build_heads, cached_backward, create_backbone
from cophenet.objectives import StepOutput, create_objective
from models.chunked_backward_rank import check_gradients
from ranks import process_group
from support import DEVICE

TREE = Hierarchy.from_paths([(f"g{c // 4}", f"p{c // 2}", f"c{c}") for c in range(8)])
LABELS = (torch.arange(30) % 8).to(DEVICE)


def build(objective, dtype=torch.float64):
    torch.manual_seed(1)
    backbone = create_backbone("mlp", input_shape=(5,), hidden=(16, 7))
    return Network(backbone, build_heads(objective.heads, backbone.num_features)).to(DEVICE, dtype)


def make_inputs(dtype=torch.float64, count=30):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(count, 5, generator=generator, dtype=torch.float64).to(DEVICE, dtype)


def gradients(network):
    return {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def assert_same(cached, plain, atol=1e-12):
    assert gradients(cached).keys() == gradients(plain).keys()
    for name, expected in gradients(plain).items():
        torch.testing.assert_close(gradients(cached)[name], expected, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("chunk_size", [1, 7, 100])
@pytest.mark.parametrize(
    "name", ["flat", "fastft", "emd", "swd", "mtl", "gc", "shc", "quadruplet", "rank", "curriculum"]
)
def test_gradients_are_those_of_the_whole_batch(name, chunk_size):
    objective = create_objective(name, TREE).to(DEVICE)
    plain = build(objective)
    cached = copy.deepcopy(plain)
    other = copy.deepcopy(objective)  # a random distance draws the same
    inputs = make_inputs()
    terms = objective(StepOutput(*plain(inputs), LABELS, plain.heads))
    torch.stack(list(terms.values())).sum().backward()
    given = cached_backward(
        cached, inputs, lambda out: other(StepOutput(*out, LABELS, cached.heads)), chunk_size
    )
    for term, value in terms.items():
        torch.testing.assert_close(given[term], value.detach())
        assert not given[term].requires_grad
    assert_same(cached, plain)


def test_gradients_add_up_and_the_loss_may_be_a_scalar():
    criterion = CPCCLoss(TREE, "l2").to(DEVICE)
    plain = nn.Linear(5, 8).to(DEVICE, torch.float64)
    cached = copy.deepcopy(plain)
    inputs = make_inputs()

    def loss(z):
        return criterion(z, LABELS) + cross_entropy(z, LABELS)

    for _ in range(2):
        loss(plain(inputs)).backward()
        value = cached_backward(cached, inputs, loss, 4)
    assert value.shape == ()
    assert_same(cached, plain)


class Pair(NamedTuple):
    one: torch.Tensor
    others: list[torch.Tensor]


def test_outputs_may_be_nested_and_whole_numbers():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 4, dtype=torch.float64, device=DEVICE)

        def forward(self, inputs):
            z = self.layer(inputs)
            return {"pair": Pair(z, [z.square()]), "best": z.argmax(1)}

    def loss(out):
        assert isinstance(out["pair"], Pair)
        picked = out["pair"].one.gather(1, out["best"][:, None])
        return (picked.std() * out["pair"].others[0]).sum()

    plain = Nested()
    cached = copy.deepcopy(plain)
    loss(plain(make_inputs())).backward()
    cached_backward(cached, make_inputs(), loss, 8)
    assert_same(cached, plain)


def test_both_passes_draw_the_same_dropout():
    network = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 3)).to(DEVICE, torch.float64)
    cached = copy.deepcopy(network)
    seen = []
    cached.register_forward_hook(lambda *call: seen.append(call[-1].detach().clone()))
    torch.manual_seed(3)
    cached_backward(cached, make_inputs(), lambda z: z.std(), 8)
    after = torch.rand(3)
    assert len(seen) == 8
    for first, second in zip(seen[:4], seen[4:], strict=True):
        assert torch.equal(first, second)
    torch.manual_seed(3)
    torch.cat([network(chunk) for chunk in make_inputs().split(8)]).std().backward()
    assert_same(cached, network)
    assert torch.equal(after, torch.rand(3))  # and what comes later is as after one pass


def test_batch_statistics_are_those_of_chunks_and_move_once():
    plain = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6)).to(DEVICE, torch.float64)
    cached = copy.deepcopy(plain)
    cached_backward(cached, make_inputs(), lambda z: z.square().std(), 10)
    torch.cat([plain(chunk) for chunk in make_inputs().split(10)]).square().std().backward()
    assert_same(cached, plain)
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(cached.get_buffer(name), buffer)
    assert cached[1].num_batches_tracked == 3


def test_no_chunk_is_left_with_a_single_sample():
    network = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6)).to(DEVICE, torch.float64)
    sizes = []
    network.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    cached_backward(network, make_inputs(count=21), lambda z: z.square().std(), 10)
    assert sizes == [7] * 6


def test_autocast_keeps_the_graph_of_cast_weights():
    network = nn.Linear(5, 4).to(DEVICE)
    plain = copy.deepcopy(network)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        cached_backward(network, make_inputs(torch.float32), lambda z: z.float().square().mean(), 8)
        plain(make_inputs(torch.float32)).float().square().mean().backward()
    torch.testing.assert_close(network.weight.grad, plain.weight.grad, rtol=0.02, atol=1e-3)


def test_the_loss_may_be_scaled_before_the_backward_pass():
    network = nn.Linear(5, 4).to(DEVICE, torch.float64)
    plain = copy.deepcopy(network)
    value = cached_backward(
        network, make_inputs(), lambda z: z.square().mean(), 8, backward=lambda loss: (4 * loss).backward()
    )
    (4 * plain(make_inputs()).square().mean()).backward()
    assert_same(network, plain)
    torch.testing.assert_close(value, plain(make_inputs()).square().mean().detach())


def peak_bytes(task):
    """Most memory that the task held at once beyond what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        task()
    held = peak = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


@pytest.mark.skipif(DEVICE.type != "cpu", reason="measures the host's memory")
def test_memory_is_that_of_a_chunk():
    layers = [nn.Linear(16, 256)] + [layer for _ in range(8) for layer in (nn.ReLU(), nn.Linear(256, 256))]
    network = nn.Sequential(*layers, nn.Linear(256, 8))
    inputs, labels = torch.randn(4096, 16), torch.arange(4096) % 8
    criterion = CPCCLoss(TREE, "l2")

    def loss(z):
        return criterion(z, labels)

    loss(network(inputs[:8].repeat(512, 1))).backward()  # gradients are there before
    plain = peak_bytes(lambda: loss(network(inputs)).backward())
    cached = peak_bytes(lambda: cached_backward(network, inputs, loss, 128))
    assert plain > 4096 * 256 * 4 * 8
    assert cached < plain / 8


@pytest.mark.parametrize(
    ("network", "chunk_size", "message"),
    [
        (nn.Linear(5, 2), 0, "chunk_size must be a whole number of at least 1, got 0"),
        (lambda x: x.sum(), 4, r"one row per sample, got shape \(\) for 3 samples"),
        (lambda x: x[:2], 4, r"one row per sample, got shape \(2, 5\) for 3 samples"),
        (lambda _: {"a": 1.5}, 4, "outputs of network must be tensors in tuples, lists and dicts, got float"),
    ],
)
def test_wrong_arguments_are_refused(network, chunk_size, message):
    with pytest.raises(ValueError, match=message):
        cached_backward(network, torch.randn(9, 5), lambda z: z.sum(), chunk_size)


def test_processes_exchange_the_same_gradients_as_without_chunks():
    """Two real processes with different numbers of chunks."""
    with process_group(2) as ranks:
        ranks(check_gradients)
