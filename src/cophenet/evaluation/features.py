"""What a network makes of a part of the data, and the file that keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cophenet._common.files import write_bytes
from cophenet.tree import Hierarchy
from cophenet.tree.formats.document import dump_json, parse_json

if TYPE_CHECKING:
    from cophenet.models import Network

__all__ = ["FeatureSet", "extract", "load_features", "require_safetensors", "save_features"]

_KEYS = ("features", "labels", "logits")


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Features of some samples, in the order of the data set, on the CPU.

    Attributes:
        features: (N, d) float32.
        labels: (N,) int64, positions in the classes of the tree.
        logits: (N, k) float32 of the head that tells the trained classes apart.
        tree: The tree of the samples' own classes, with all levels of the data.
    """

    features: Tensor
    labels: Tensor
    logits: Tensor
    tree: Hierarchy

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.labels)


def extract(
    network: Network,
    batches: Iterable[tuple[Tensor, Tensor]],
    head: str,
    tree: Hierarchy,
    progress: Callable[[int], None] | None = None,
) -> FeatureSet:
    """Features and logits of all batches; the network is in evaluation mode and nothing is learned.

    Args:
        network: The network, on the device of the batches.
        batches: Inputs (n, ...) and labels (n,).
        head: Name of the head whose logits are kept.
        tree: The tree of the labels.
        progress: Called with the number of samples done, after each batch.

    Example:
        >>> from cophenet.models import Network, build_heads, create_backbone
        >>> from cophenet.objectives import HeadSpec
        >>> backbone = create_backbone("identity", input_shape=(2,))
        >>> network = Network(backbone, build_heads([HeadSpec("kind", 1, 2)], 2))
        >>> tree = Hierarchy.from_paths([("cat",), ("dog",)])
        >>> extract(network, [(torch.eye(2), torch.tensor([0, 1]))], "kind", tree).features
        tensor([[1., 0.],
                [0., 1.]])
    """
    training = network.training
    rows: list[tuple[Tensor, Tensor, Tensor]] = []
    done = 0
    network.eval()
    try:
        with torch.inference_mode():
            for inputs, labels in batches:
                features, logits = network(inputs)
                rows.append((features.float().cpu(), labels.cpu(), logits[head].float().cpu()))
                done += len(labels)
                if progress is not None:
                    progress(done)
    finally:
        network.train(training)
    features, labels, logits = (torch.cat(column) for column in zip(*rows, strict=True))
    return FeatureSet(features, labels, logits, tree)


def save_features(path: Path, kept: FeatureSet, checkpoint: str, domain: str, part: str) -> None:
    """Write a safetensors file, as a whole or not at all.

    Args:
        path: The file; its folder is made if needed.
        kept: What to write.
        checkpoint: Name of the checkpoint that the network was loaded from; its checksum is in it.
        domain: Of the data, as in `Samples`.
        part: Of the data: "train", "test" or "validation".
    """
    save = require_safetensors().torch.save
    metadata = {"checkpoint": checkpoint, "domain": domain, "part": part, "tree": dump_json(kept.tree)}
    tensors = {key: getattr(kept, key).contiguous() for key in _KEYS}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, save(tensors, metadata=metadata))


def load_features(path: Path, checkpoint: str, part: str) -> FeatureSet | None:
    """Read what `save_features` wrote; None if there is no such file, or it is of another checkpoint or part.

    Raises:
        ValueError: If the file is damaged.
    """
    if not path.is_file():
        return None
    safetensors = require_safetensors()
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if (metadata.get("checkpoint"), metadata.get("part")) != (checkpoint, part):
                return None
            # Copies lie in memory as freshly computed tensors do, so that sums add up in the same order.
            features, labels, logits = (file.get_tensor(key).clone() for key in _KEYS)
        return FeatureSet(features, labels, logits, Hierarchy(parse_json(metadata["tree"])))
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: truncated, damaged or not a file of features ({error}); remove it to have it made anew"
        ) from error


def require_safetensors() -> Any:
    """The package that features are written with.

    Raises:
        ImportError: If it is missing; names the extra that has it.
    """
    try:
        import safetensors
        import safetensors.torch
    except ImportError as error:
        raise ImportError("files of features need safetensors: pip install 'cophenet[data]'") from error
    return safetensors
