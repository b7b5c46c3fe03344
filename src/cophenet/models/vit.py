"""Vision transformers (Dosovitskiy et al. 2021, arXiv:2010.11929), with torchvision's parameter names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import isqrt, sqrt
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from cophenet.models.base import Backbone, image_shape
from cophenet.models.registry import register_backbone

__all__ = ["VisionTransformer"]

PATCH = 16


class _Layer(nn.Module):
    """Self-attention and a two-layer MLP, each on normalized tokens and with a shortcut."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        # Checkpoints number the second layer 3, because they have a dropout layer before it.
        layers = (("0", nn.Linear(width, hidden)), ("1", nn.GELU()), ("3", nn.Linear(hidden, width)))
        self.mlp = nn.Sequential(OrderedDict[str, nn.Module](layers))
        for module in self.mlp:
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=1e-6)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, tokens, width) -> the same shape."""
        normed = self.ln_1(tokens)
        tokens = tokens + self.self_attention(normed, normed, normed, need_weights=False)[0]
        out: Tensor = tokens + self.mlp(self.ln_2(tokens))
        return out


class _Encoder(nn.Module):
    """Adds position embeddings to tokens and applies the layers."""

    def __init__(self, length: int, depth: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, length, width).normal_(std=0.02))
        layers = ((f"encoder_layer_{i}", _Layer(width, heads, hidden)) for i in range(depth))
        self.layers = nn.Sequential(OrderedDict[str, nn.Module](layers))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, tokens, width) -> the same shape."""
        out: Tensor = self.ln(self.layers(tokens + self.pos_embedding))
        return out


@register_backbone("vit_l_16", depth=24, width=1024, heads=16, hidden=4096)
@register_backbone("vit_b_16", depth=12, width=768, heads=12, hidden=3072)
class VisionTransformer(Backbone):
    """A vision transformer on patches of 16 x 16 pixels; features are the class token.

    Args:
        input_shape: Channels, height and width of an image; square, a multiple of 16.
        interpolate_positions: Whether to load weights trained at another image size with a resized position
            embedding (bicubic), instead of raising an error.
        depth: Number of layers.
        width: Size of a token.
        heads: Attention heads.
        hidden: Size of the hidden layer of the MLPs.

    Example:
        >>> net = VisionTransformer((3, 32, 32), depth=1, width=8, heads=2, hidden=16)
        >>> net.forward_features(torch.zeros(2, 3, 32, 32)).shape, net(torch.zeros(2, 3, 32, 32)).shape
        (torch.Size([2, 5, 8]), torch.Size([2, 8]))
    """

    classifier = ("heads.head.",)
    advice: ClassVar[Mapping[str, str]] = {
        "encoder.pos_embedding": "the checkpoint was trained at another image size; resize the images to it "
        "(224 for most), or give interpolate_positions=True"
    }

    def __init__(
        self,
        input_shape: Sequence[int],
        /,
        interpolate_positions: bool = False,
        *,
        depth: int,
        width: int,
        heads: int,
        hidden: int,
    ) -> None:
        super().__init__()
        channels, side, other = image_shape("vit", input_shape)
        if side != other or side % PATCH:
            raise ValueError(
                f"a vision transformer takes square images with a side that is a multiple of {PATCH}, "
                f"got {side} x {other}"
            )
        self.side, self.interpolate_positions = side, interpolate_positions
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.conv_proj = nn.Conv2d(channels, width, PATCH, PATCH)
        nn.init.trunc_normal_(self.conv_proj.weight, std=1 / sqrt(channels * PATCH**2))
        assert self.conv_proj.bias is not None
        nn.init.zeros_(self.conv_proj.bias)
        self.encoder = _Encoder((side // PATCH) ** 2 + 1, depth, width, heads, hidden)
        self.num_features = width

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, channels, side, side) -> (B, 1 + patches, width), the class token first."""
        if inputs.shape[2:] != (self.side, self.side):
            size = " x ".join(map(str, inputs.shape[2:]))
            raise ValueError(
                f"images must be {self.side} x {self.side}, as the backbone was made, got {size}"
            )
        patches = self.conv_proj(inputs).flatten(2).transpose(1, 2)
        tokens: Tensor = self.encoder(torch.cat((self.class_token.expand(len(inputs), -1, -1), patches), 1))
        return tokens

    def pool(self, maps: Tensor) -> Tensor:
        """(B, 1 + patches, width) -> (B, width), the class token."""
        return maps[:, 0]

    def adapt(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Rename linear_1 and linear_2 of older checkpoints; resize position embeddings if requested."""
        for old, new in (("mlp.linear_1.", "mlp.0."), ("mlp.linear_2.", "mlp.3.")):
            state = {name.replace(old, new): values for name, values in state.items()}
        name = "encoder.pos_embedding"
        if self.interpolate_positions and name in state:
            state[name] = _resize(state[name], self.side // PATCH)
        return state


def _resize(positions: Tensor, side: int) -> Tensor:
    """(1, 1 + old_side ** 2, width) -> (1, 1 + side ** 2, width); the class token is not changed.

    Positions that are no square grid of floats are returned as they are, for the list of what does not fit.
    """
    old = (
        isqrt(max(0, positions.shape[1] - 1)) if positions.ndim == 3 and positions.is_floating_point() else 0
    )
    if not old or positions.shape[:2] != (1, 1 + old**2) or not positions.numel():
        return positions
    width = positions.shape[2]
    grid = positions[:, 1:].transpose(1, 2).reshape(1, width, old, old)
    grid = interpolate(grid, size=(side, side), mode="bicubic", align_corners=True)
    return torch.cat((positions[:, :1], grid.flatten(2).transpose(1, 2)), 1)
