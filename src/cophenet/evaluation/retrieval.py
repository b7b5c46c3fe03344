"""Mean average precision of retrieving test samples by the mean training feature of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from cophenet.evaluation.keys import metric_key
from cophenet.evaluation.predictions import not_shared, stand_ins
from cophenet.metrics import class_prototypes, level_labels, prototype_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cophenet.evaluation.features import FeatureSet
    from cophenet.evaluation.numbers import Numbers

__all__ = ["add_retrieval"]


def add_retrieval(
    numbers: Numbers, train: FeatureSet, test: FeatureSet, domain: str, levels: Iterable[str]
) -> None:
    """MAP at some levels, with prototypes of the training samples.

    Args:
        numbers: Where it is added.
        train: What the network was trained on, without augmentation.
        test: The samples to retrieve, of the same or other classes.
        domain: Of the test samples, for the keys.
        levels: Levels by name.
    """
    for level in levels:
        key = metric_key(domain, "map", level)
        same = stand_ins(train.tree, test.tree, level)
        if same is None:
            numbers.lack([key], not_shared(level))
            continue
        with numbers.found() as found:
            own = level_labels(train.labels, train.tree, level)
            wanted = level_labels(torch.from_numpy(same)[test.labels], train.tree, level)
            classes, prototypes = class_prototypes(train.features, own)
            found[key] = prototype_map(test.features, wanted, prototypes, classes)
