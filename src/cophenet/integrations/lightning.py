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
    """Logs the CPCC of the features of all validation data, once per validation.

    It does not change training: for that, create a `CPCCLoss` in the module's `__init__` and add it in
    `training_step`.

    Args:
        tree: The label tree.
        layer: Name in the module of the layer whose input are the features, such as `"head"`.
        labels: A function that returns the labels (B,) of a batch; None for its second element, or its entry
            "labels" or "label".
        name: Name of the logged number.
        **options: Options of `cophenet.metrics.CPCC`: `distance`, `level`, `normalize`, ...

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
        """Reset the metric and register a hook on the layer."""
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
        """Update the metric with the features of a batch."""
        del trainer, pl_module, outputs
        assert self._features is not None
        self.metric.update(self._features.take().detach(), self._labels(batch))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the metric, except in the sanity check, which runs on a few samples only."""
        self._leave()
        if not trainer.sanity_checking:
            # The metric already gathers the samples of all processes.
            pl_module.log(self.name, self.metric.compute(), sync_dist=False)
        self.metric.reset()

    def on_exception(self, *_: Any, **__: Any) -> None:
        """Remove the hook from the layer."""
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
