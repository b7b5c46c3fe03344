"""pytorch-metric-learning: CPCC with the call of its losses, alone or in `MultipleLosses`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from cophenet.cpcc.loss import CPCCLoss

__all__ = ["MetricLearningCPCC"]


class MetricLearningCPCC(CPCCLoss):
    """`CPCCLoss` with the call of pytorch-metric-learning: `loss(embeddings, labels, indices_tuple)`.

    Its losses compare unit vectors by default, so `normalize=True` is the default here. The results of miners
    are ignored, because the correlation is over all class pairs of the batch. Use `memory=` in place of its
    `CrossBatchMemory`.

    Args:
        tree: The label tree.
        normalize: Compare unit vectors.
        **options: Options of `CPCCLoss`: `distance`, `weight`, `level`, `memory`, ...

    Example:
        >>> import torch
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> loss = MetricLearningCPCC(tree, distance="l2", normalize=False)
        >>> features = torch.tensor([[0.0, 1.0], [0.0, 2.0], [5.0, 1.0], [5.0, 2.0]])
        >>> round(loss(features, torch.arange(4), indices_tuple=None).item(), 3)
        0.0
    """

    def __init__(self, tree: Any, normalize: bool = True, **options: Any) -> None:
        super().__init__(tree, normalize=normalize, **options)

    def forward(  # type: ignore[override]
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: Any = None,  # noqa: ARG002
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of a batch.

        Args:
            embeddings: (B, d).
            labels: (B,) positions in the tree's classes.
            indices_tuple: Result of a miner; ignored.
            ref_emb: Must be None.
            ref_labels: Must be None.
        """
        if ref_emb is not None or ref_labels is not None:
            raise ValueError(
                "ref_emb must be None: samples of earlier batches count by memory=..., see CPCCLoss"
            )
        return super().forward(embeddings, labels)
