"""Lightning: CPCC of the validation data, logged by a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cophenet._common.packages import import_optional
from cophenet.integrations.layer_input import LayerInput
from cophenet.tree import Hierarchy

import_optional("lightning", "CPCCCallback needs", "cophenet[train]")
from lightning import Callback, LightningModule, Trainer  # noqa: E402

__all__ = ["CPCCCallback"]


class CPCCCallback(Callback):
    """Logs how well the features of all validation data follow the tree, once per validation.

    Training is the module's own business: three lines, a `CPCCLoss` made in `__init__` and added in
    `training_step`.

    Args:
        tree: The label tree.
        layer: The layer whose input are the features, by its name in the module, such as `"head"`.
        labels: How to find the labels (B,) in a batch; None for its second part, or its entry "labels" or
            "label".
        name: What the number is logged as.
        **options: Of `cophenet.metrics.CPCC`: `distance`, `level`, `normalize`, ...

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> callback = CPCCCallback(tree, "head", distance="l2")  # Trainer(callbacks=[callback])
        >>> callback.name
        'val/cpcc'
    """

    def __init__(
        self,
        tree: Hierarchy,
        layer: str,
        *,
        labels: Callable[[Any], Tensor] | None = None,
        name: str = "val/cpcc",
        **options: Any,
    ) -> None:
        from cophenet.metrics import CPCC

        self.metric = CPCC(tree, **options)
        self.layer = layer
        self.name = name
        self._labels = labels or _labels
        self._features: LayerInput | None = None

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Listen to the layer."""
        modules = dict(pl_module.named_modules())
        if self.layer not in modules or not self.layer:
            names = [name for name, _ in pl_module.named_children()]
            raise ValueError(f"layer must be the name of a layer, such as {names}, got {self.layer!r}")
        self.metric.to(pl_module.device)
        self.metric.reset()
        self._features = LayerInput(modules[self.layer])

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any, **__: Any
    ) -> None:
        """Remember the features of a batch."""
        del trainer, pl_module, outputs
        assert self._features is not None
        self.metric.update(self._features.take().detach(), self._labels(batch))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the number; nothing in the sanity check, which sees a few samples."""
        self._leave()
        if not trainer.sanity_checking:
            # The metric has gathered the samples of all processes already.
            pl_module.log(self.name, self.metric.compute(), sync_dist=False)
        self.metric.reset()

    def on_exception(self, *_: Any, **__: Any) -> None:
        """Leave the layer alone."""
        self._leave()

    def _leave(self) -> None:
        if self._features is not None:
            self._features.close()
            self._features = None


def _labels(batch: Any) -> Tensor:
    labels = None
    if isinstance(batch, dict):
        labels = batch.get("labels", batch.get("label"))
    elif isinstance(batch, (tuple, list)) and len(batch) > 1:
        labels = batch[1]
    if not isinstance(labels, Tensor):
        raise ValueError(
            "labels must be a function that finds the labels in a batch, got None for one of no kind known"
        )
    return labels
