"""One of two processes: cached gradients under DDP equal those of the plain step, exchanged once."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from cophenet.models import cached_backward


class TwoOutputs(nn.Module):
    """Features and logits; the loss reads the weights of both heads, and the logits of one."""

    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(5, 7), nn.Linear(7, 4)
        self.coarse = nn.Linear(7, 2)

    def forward(self, inputs):
        features = self.backbone(inputs).relu()
        return features, self.head(features), self.coarse(features)


def check_gradients(rank):
    torch.manual_seed(0)
    module = TwoOutputs().double()
    plain, cached = DistributedDataParallel(copy.deepcopy(module)), DistributedDataParallel(module)
    exchanges = []
    cached.register_comm_hook(
        None,
        lambda _, bucket: (
            exchanges.append(1)
            or dist.all_reduce(bucket.buffer().div_(2), async_op=True)
            .get_future()
            .then(lambda done: done.value()[0])
        ),
    )
    for step in range(2):
        generator = torch.Generator().manual_seed(10 * step + rank)
        count = (11, 5)[rank]
        inputs = torch.randn(count, 5, generator=generator, dtype=torch.float64)
        labels = torch.arange(count) % 4

        def loss(outputs, network, labels=labels):
            features, logits, _ = outputs
            consistency = sum(p.square().sum() for p in network.module.coarse.parameters())
            return (
                features.std()
                + cross_entropy(logits, labels)
                + network.module.head.weight.std()
                + consistency
            )

        loss(plain(inputs), plain).backward()
        cached_backward(cached, inputs, lambda out, loss=loss: loss(out, cached), 4)
    assert len(exchanges) == 2, exchanges
    for one, other in zip(plain.parameters(), cached.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-12)
