"""Hugging Face Transformers: cross entropy with CPCC as `compute_loss_func` of its Trainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cophenet.cpcc.loss import CPCCLoss
from cophenet.integrations.layer_input import LayerInput
from cophenet.tree import Hierarchy

__all__ = ["TrainerCPCC"]


class TrainerCPCC:
    """A loss for `Trainer(compute_loss_func=...)`: cross entropy of the logits, plus `weight * (1 - CPCC)`.

    Like the Trainer's own losses it sums to the mean over all samples of an optimizer step: with gradient
    accumulation, cross entropy and CPCC of each forward pass are weighted by its share of the labels. CPCC
    compares the classes of one forward pass; with several processes, those of all processes together.

    Args:
        tree: The label tree; labels are positions in its classes.
        features: The layer whose input are the features (B, d), such as `model.classifier`; or a function of
            the model's outputs, such as `lambda outputs: outputs.hidden_states[-1][:, 0]`.
        weight: Factor of `1 - CPCC`.
        label_smoothing: Label smoothing of the cross entropy.
        **options: Options of `CPCCLoss`: `distance`, `level`, `memory`, `normalize`, ...

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> loss = TrainerCPCC(tree, lambda outputs: outputs.pooled, weight=0.5, distance="l2")
        >>> pooled = torch.tensor([[0.0, 1.0], [0.0, 2.0], [5.0, 1.0], [5.0, 2.0]])
        >>> outputs = SimpleNamespace(logits=torch.zeros(4, 4), pooled=pooled)
        >>> round(loss(outputs, torch.arange(4)).item(), 3)
        1.386
    """

    def __init__(
        self,
        tree: Hierarchy,
        features: nn.Module | Callable[[Any], Tensor],
        weight: float = 1.0,
        label_smoothing: float = 0.0,
        **options: Any,
    ) -> None:
        self.criterion = CPCCLoss(tree, weight=weight, **options)
        self.label_smoothing = label_smoothing
        layer = LayerInput(features) if isinstance(features, nn.Module) else None
        if layer is None and not callable(features):
            raise ValueError(f"features must be a layer or a function, got {type(features).__name__}")
        self._features: Callable[[Any], Tensor] = features if layer is None else (lambda _: layer.take())

    def __call__(
        self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Compute the loss of one forward pass.

        Args:
            outputs: The output of the model, with `logits` (B, classes).
            labels: (B,) positions in the tree's classes.
            num_items_in_batch: Number of labels in the whole optimizer step, as counted by the Trainer; None
                for that of this pass.
        """
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        labels = labels.view(-1)
        loss: Tensor = cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        loss = loss + self.criterion(self._features(outputs), labels).to(loss)
        if num_items_in_batch is not None:
            loss = loss * (len(labels) / num_items_in_batch)
        return loss
