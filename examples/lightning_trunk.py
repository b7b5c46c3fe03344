"""Lightning, with a frozen pretrained backbone: a small network behind it learns digits and their shapes.

Needs the extras `train` and `pretrained`; nothing is downloaded. A minute on one core.
"""

from __future__ import annotations

import lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate
from torch.utils.data import DataLoader, TensorDataset

from cophenet import CPCCLoss, Hierarchy
from cophenet.integrations import CPCCCallback
from cophenet.models import create_backbone

TREE = Hierarchy.from_nested({"loops": list("0689"), "curves": list("235"), "strokes": list("147")})
SIZE = 64


class Classifier(lightning.LightningModule):
    """EfficientNet-Lite0 with the weights of ImageNet, a neck that is trained, and a head."""

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.trunk = create_backbone("efficientnet-lite0", input_shape=(3, SIZE, SIZE), weights="pretrained")
        self.trunk.requires_grad_(False)
        self.neck = nn.Sequential(nn.Linear(self.trunk.num_features, 128), nn.ReLU(), nn.Linear(128, 64))
        self.head = nn.Linear(64, TREE.num_classes)
        self.criterion = CPCCLoss(TREE, weight=weight)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, 64) and logits (B, classes)."""
        self.trunk.eval()
        features = self.neck(self.trunk(images))
        return features, self.head(features)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        """Cross entropy and the term."""
        features, logits = self(batch[0])
        loss: Tensor = cross_entropy(logits, batch[1]) + self.criterion(features, batch[1])
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        """Accuracy; CPCC is logged by the callback."""
        right = self(batch[0])[1].argmax(1) == batch[1]
        self.log("val/accuracy", right.float().mean(), batch_size=len(right))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Of what is trained."""
        return torch.optim.AdamW([*self.neck.parameters(), *self.head.parameters()], lr=2e-3)


def loaders(count: int) -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]:
    """Digits as colour images, three quarters of them to train on."""
    pixels, digits = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels[:count]).float().view(-1, 1, 8, 8) / 16
    images = (
        interpolate(images, SIZE, mode="bilinear").expand(-1, 3, -1, -1) * 2 - 1
    )  # the scale of its weights
    labels = torch.tensor([TREE.index(str(digit)) for digit in digits[:count]])
    cut = 3 * count // 4
    train, test = TensorDataset(images[:cut], labels[:cut]), TensorDataset(images[cut:], labels[cut:])
    return DataLoader(train, 64, shuffle=True), DataLoader(test, 64)


def main(count: int = 1200, epochs: int = 4) -> dict[str, float]:
    """Train and say how it went."""
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        callbacks=[CPCCCallback(TREE, layer="head")],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), *loaders(count))
    return {name: round(float(value), 3) for name, value in trainer.callback_metrics.items()}


if __name__ == "__main__":
    print(main())
