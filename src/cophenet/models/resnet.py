"""Residual networks (He et al. 2016, arXiv:1512.03385); bottlenecks have the stride in the 3x3 convolution.

Parameter names are those of torchvision's checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from cophenet._common.checks import check_choice, wrong_argument
from cophenet.models.base import Backbone, image_shape
from cophenet.models.registry import register_backbone

__all__ = ["ResNet"]

Norm = Callable[[int], nn.Module]


def _group_norm(channels: int) -> nn.GroupNorm:
    """Groups of 16 channels, or of the largest common divisor; smaller ones would be all zero on 1x1 maps."""
    return nn.GroupNorm(channels // gcd(channels, 16), channels)


Stem = Literal["imagenet", "cifar", "strided"]
_STRIDES = {"cifar": 1, "strided": 2}
NORMS: dict[str, Norm] = {"batch": nn.BatchNorm2d, "group": _group_norm}


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the map's size at stride 1; without bias, because a norm follows."""
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


def shortcut(inputs: int, outputs: int, stride: int, norm: Norm) -> nn.Module:
    """The identity, or a projection to the shape of a block's output."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(conv(inputs, outputs, 1, stride), norm(outputs))


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions; (B, inputs, h, w) -> (B, width, h / stride, w / stride)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, width, 3, stride), norm(width)
        self.conv2, self.bn2 = conv(width, width, 3), norm(width)
        self.downsample = shortcut(inputs, width, stride, norm)

    def forward(self, maps: Tensor) -> Tensor:
        """The rectified sum of convolutions and shortcut."""
        inner = relu(self.bn1(self.conv1(maps)))
        return relu(self.bn2(self.conv2(inner)) + self.downsample(maps))


class _Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; (B, inputs, h, w) -> (B, 4 * width, h / stride, w / stride)."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        outputs = self.expansion * width
        self.conv1, self.bn1 = conv(inputs, width, 1), norm(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), norm(width)
        self.conv3, self.bn3 = conv(width, outputs, 1), norm(outputs)
        self.downsample = shortcut(inputs, outputs, stride, norm)

    def forward(self, maps: Tensor) -> Tensor:
        """The rectified sum of convolutions and shortcut."""
        inner = relu(self.bn1(self.conv1(maps)))
        inner = relu(self.bn2(self.conv2(inner)))
        return relu(self.bn3(self.conv3(inner)) + self.downsample(maps))


Block = type[_BasicBlock] | type[_Bottleneck]
BLOCKS: dict[int, tuple[Block, tuple[int, ...]]] = {
    10: (_BasicBlock, (1, 1, 1, 1)),
    18: (_BasicBlock, (2, 2, 2, 2)),
    34: (_BasicBlock, (3, 4, 6, 3)),
    50: (_Bottleneck, (3, 4, 6, 3)),
}


class ResNet(Backbone):
    """A residual network; features are the means of the last maps.

    Args:
        input_shape: Channels, height and width of an image.
        stem: "imagenet", a 7x7 convolution of stride 2 and max pooling; "cifar", a 3x3 convolution, for
            images below about 64 pixels; or "strided", the same with stride 2, at a quarter of the cost.
        norm: "batch"; or "group", which does not depend on the batch.
        depth: 10, 18, 34 or 50 layers.
        width: Channels of the first stage; each later stage has twice as many as the one before.

    Attributes:
        channels_last: Whether maps have that memory layout on a CPU; set for narrow networks.

    Example:
        >>> net = ResNet((1, 8, 8), stem="cifar", depth=10, width=8)
        >>> net.forward_features(torch.zeros(2, 1, 8, 8)).shape, net(torch.zeros(2, 1, 8, 8)).shape
        (torch.Size([2, 64, 1, 1]), torch.Size([2, 64]))
    """

    classifier = ("fc.",)
    advice: ClassVar[Mapping[str, str]] = {
        "conv1.weight": "the stem or the number of channels differs; "
        "ImageNet checkpoints need stem='imagenet' and 3 channels"
    }
    named_sizes = ("width",)
    layer1: nn.Module
    layer2: nn.Module
    layer3: nn.Module
    layer4: nn.Module

    def __init__(
        self,
        input_shape: Sequence[int],
        /,
        stem: Stem = "imagenet",
        norm: Literal["batch", "group"] = "batch",
        *,
        depth: int = 18,
        width: int = 64,
    ) -> None:
        super().__init__()
        check_choice("stem", stem, get_args(Stem))
        check_choice("norm", norm, NORMS)
        channels, *size = image_shape(f"resnet{depth}", input_shape)
        if stem == "imagenet" and min(size) < 32:
            raise wrong_argument(
                "stem",
                f"'imagenet' needs images of at least 32 x 32, got {size[0]} x {size[1]}; give stem='cifar'",
            )
        large, make_norm = stem == "imagenet", NORMS[norm]
        self.conv1 = conv(channels, width, 7, 2) if large else conv(channels, width, 3, _STRIDES[stem])
        # The names bn1, bn2 ... are kept for other norms too: they are the names in checkpoints.
        self.bn1 = make_norm(width)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1) if large else nn.Identity()
        block, counts = BLOCKS[depth]
        inputs = width
        for stage, count in enumerate(counts):
            layer = _stage(block, count, inputs, width << stage, 2 if stage else 1, make_norm)
            self.add_module(f"layer{stage + 1}", layer)
            inputs = block.expansion * (width << stage)
        self.num_features = inputs
        # benchmarks/models.py: narrow networks are faster this way on a CPU, wide ones are not.
        self.channels_last = width < 32
        _initialize(self)

    @classmethod
    def parse_sizes(cls, name: str, suffix: str) -> dict[str, int] | None:
        """Parse the width: 16 of `resnet18-w16`."""
        match = re.fullmatch(r"w(\d+)", suffix)
        if match is None:
            return None
        width = int(match[1])
        if width == 0 or width % 4:
            raise ValueError(f"the width in backbone {name!r} must be a positive multiple of 4, got {width}")
        return {"width": width}

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, channels, height, width) -> (B, num_features, h, w)."""
        maps: Tensor = self.conv1(inputs)
        if self.channels_last and maps.device.type == "cpu":
            maps = maps.contiguous(memory_format=torch.channels_last)
        maps = self.maxpool(relu(self.bn1(maps)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            maps = layer(maps)
        return maps

    def pool(self, maps: Tensor) -> Tensor:
        """(B, num_features, h, w) -> (B, num_features), means of the maps."""
        return torch.mean(maps, dim=(2, 3))


def _stage(block: Block, count: int, inputs: int, width: int, stride: int, norm: Norm) -> nn.Sequential:
    """Blocks of one width; the first has the stride."""
    rest = (block(block.expansion * width, width, 1, norm) for _ in range(count - 1))
    return nn.Sequential(block(inputs, width, stride, norm), *rest)


def _initialize(net: nn.Module) -> None:
    """Initialize convolutions as He et al. (2015); norms are ones and zeros by default."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


for _depth in BLOCKS:
    register_backbone(f"resnet{_depth}", depth=_depth)(ResNet)
