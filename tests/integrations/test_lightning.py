"""The callback of Lightning, with its Trainer."""

import math

import lightning
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from cophenet import CPCCLoss, Hierarchy
from cophenet.integrations import CPCCCallback
from cophenet.integrations.lightning import _labels as find_labels
from cophenet.metrics import CPCC

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),  # between Lightning and torch
]
TREE = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
GENERATOR = torch.Generator().manual_seed(0)
LABELS = torch.arange(64) % 4
INPUTS = torch.randn(64, 8, generator=GENERATOR) + 2 * nn.functional.one_hot(LABELS, 8)


class Module(lightning.LightningModule):
    """What a user has, and three lines."""

    def __init__(self, weight):
        super().__init__()
        self.encoder, self.head = nn.Linear(8, 6), nn.Linear(6, 4)
        self.criterion = CPCCLoss(TREE, distance="l2", weight=weight)

    def training_step(self, batch, _):
        inputs, labels = batch
        features = self.encoder(inputs)
        return cross_entropy(self.head(features), labels) + self.criterion(features, labels)

    def validation_step(self, batch, _):
        self.head(self.encoder(batch[0]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


def fit(callback, module=None, epochs=1):
    data = DataLoader(TensorDataset(INPUTS, LABELS), batch_size=16)
    module = module or Module(1.0)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[callback],
        enable_model_summary=False,
        **quiet,
    )
    trainer.fit(module, data, data)
    return module, trainer


def test_cpcc_of_all_validation_data_is_logged():
    torch.manual_seed(0)
    module, trainer = fit(CPCCCallback(TREE, "head", distance="l2"), epochs=8)
    metric = CPCC(TREE, distance="l2")
    with torch.no_grad():
        metric.update(module.encoder(INPUTS), LABELS)
    logged = trainer.callback_metrics["val/cpcc"].item()
    assert math.isclose(logged, metric.compute().item(), rel_tol=1e-5)
    assert logged > 0.9
    assert not module.head._forward_pre_hooks


def test_an_unknown_layer_is_named():
    with pytest.raises(
        ValueError, match=r"layer must be the name of a layer, such as \['encoder', 'head', 'criterion'\]"
    ):
        fit(CPCCCallback(TREE, "tail"))


def test_labels_that_are_not_found():
    assert find_labels({"labels": LABELS}) is find_labels((INPUTS, LABELS)) is LABELS
    with pytest.raises(ValueError, match="labels must be a function"):
        find_labels("a text")
