"""Runs of a second, and their weights."""

import torch

from cophenet.recipes import load_recipe
from cophenet.runs import train
from cophenet.runs.checkpoints import read_checkpoint

SMALL = ["epochs=2", "model.options.hidden=[16]", "batch_size=256"]


def quick(output, *settings, name="digits", **options):
    options = {"loggers": (), "progress": False, **options}
    return train(load_recipe(name, overrides=[*SMALL, *settings]), output, **options)


def weights(run):
    return read_checkpoint(run.checkpoint())["state_dict"]


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name
