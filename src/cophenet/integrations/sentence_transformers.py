"""sentence-transformers: a loss for its trainer, on labelled texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cophenet._common.checks import check_number
from cophenet.cpcc.loss import CPCCLoss
from cophenet.tree import Hierarchy

__all__ = ["SentenceCPCC"]


class SentenceCPCC(nn.Module):
    """Cross entropy of a linear layer on the embeddings, plus `weight * (1 - CPCC)` of the embeddings.

    For data sets with one column of texts and one of labels, which are positions in the tree's classes. The
    linear layer is part of the loss: it is trained with the model, and not needed afterwards.

    Args:
        model: A `SentenceTransformer`.
        tree: The label tree.
        weight: Factor of `1 - CPCC`.
        classification: Factor of the cross entropy; 0 for CPCC alone.
        normalize: Compute CPCC of unit vectors, because sentence embeddings are compared by cosine.
        **options: Options of `CPCCLoss`: `distance`, `level`, `memory`, ...
    """

    def __init__(
        self,
        model: nn.Module,
        tree: Hierarchy,
        weight: float = 1.0,
        classification: float = 1.0,
        normalize: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        check_number("classification", classification)
        self.model = model
        self.criterion = CPCCLoss(tree, weight=weight, normalize=normalize, **options)
        self.classification = classification
        width = _width(model)
        self.head = nn.Linear(width, tree.num_classes) if classification else None

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor) -> Tensor:
        """Compute the loss of a batch of texts.

        Args:
            sentence_features: The tokens of one column of texts.
            labels: (B,) positions in the tree's classes.
        """
        columns = list(sentence_features)
        if len(columns) != 1:
            raise ValueError(f"sentence_features must be those of one column of texts, got {len(columns)}")
        embeddings: Tensor = self.model(columns[0])["sentence_embedding"]
        loss: Tensor = self.criterion(embeddings, labels).to(embeddings)
        if self.head is not None:
            loss = loss + self.classification * cross_entropy(self.head(embeddings), labels)
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """Settings of the loss, for a model card."""
        return {
            "distance": self.criterion.distance.name,
            "weight": self.criterion.weight,
            "classification": self.classification,
        }


def _width(model: nn.Module) -> int:
    """The width of a model's embeddings, whose getter has another name in newer versions."""
    for name in ("get_embedding_dimension", "get_sentence_embedding_dimension"):
        if hasattr(model, name):
            return int(getattr(model, name)())
    raise ValueError(f"model must be a SentenceTransformer, got {type(model).__name__}")
