"""Small vectors that follow a tree, for the tests of the estimator."""

import numpy as np

from cophenet import Hierarchy

TREE = Hierarchy.from_paths(
    ["pet/dog/husky", "pet/dog/poodle", "pet/cat", "car/van", "car/bus"],
    sep="/",
    level_names=["kind", "group", "breed"],
)


def clouds(per_class=24, width=6, spread=0.5, seed=0):
    """Vectors around one centre per class, names of the classes, in mixed order."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(TREE.num_classes, width)) * 2
    codes = rng.permutation(np.repeat(np.arange(TREE.num_classes), per_class))
    rows = centres[codes] + spread * rng.normal(size=(len(codes), width))
    return rows, np.array(TREE.classes)[codes]
