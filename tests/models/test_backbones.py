"""Every registered backbone in one loop; names and counts against the official checkpoints."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm

from cophenet.models import Backbone, backbone_names, build_heads, create_backbone
from cophenet.models.resnet import ResNet
from cophenet.models.vit import VisionTransformer
from cophenet.objectives import HeadSpec

SMALL = {"input_shape": (1, 8, 8), "stem": "cifar"}
CASES: dict[str, dict[str, object]] = {
    "resnet10": SMALL,
    "resnet18": SMALL,
    "resnet34": SMALL,
    "resnet50": SMALL,
    "resnet10-w24": {**SMALL, "norm": "group"},
    "resnet18-w16": SMALL,
    "resnet50-w8": {"input_shape": (3, 40, 32)},
    "vit_b_16": {"input_shape": (3, 16, 16)},
    "vit_l_16": {"input_shape": (3, 16, 16)},
    "mlp": {"input_shape": (5,), "hidden": (7, 6)},
    **{f"efficientnet-lite{size}": {"input_shape": (3, 32, 32)} for size in range(3)},
    "identity": {"input_shape": (5,)},
}
LARGE = {"resnet34", "resnet50", "vit_b_16", "vit_l_16", "efficientnet-lite1", "efficientnet-lite2"}
SIZES = {
    **{
        "resnet10": 512,
        "resnet18": 512,
        "resnet34": 512,
        "resnet50": 2048,
        "vit_b_16": 768,
        "vit_l_16": 1024,
    },
    **{"resnet10-w24": 192, "resnet18-w16": 128, "resnet50-w8": 256},
    **{"mlp": 6, "identity": 5},
    **{f"efficientnet-lite{size}": 1280 for size in range(3)},
}


def tiny_vit(side: int = 32, **options: bool) -> VisionTransformer:
    return VisionTransformer((3, side, side), **options, depth=2, width=8, heads=2, hidden=12)


def make(name: str, seed: int = 0) -> Backbone:
    torch.manual_seed(seed)
    return create_backbone(name, **CASES[name])  # type: ignore[arg-type]


def test_every_registered_backbone_is_tested() -> None:
    assert set(backbone_names()) <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_shape_and_gradient(name: str) -> None:
    # The large ones have shapes alone; what they share with the small ones is computed there.
    with torch.device("meta" if name in LARGE else "cpu"):
        net = make(name)
        check_shape_and_gradient(net, CASES[name]["input_shape"])
    assert net.num_features == SIZES[name]


def test_vit_shape_and_gradient() -> None:
    check_shape_and_gradient(tiny_vit(), (3, 32, 32))


def check_shape_and_gradient(net: Backbone, shape: object) -> None:
    inputs = torch.randn(3, *shape, requires_grad=True)  # type: ignore[misc]
    features = net(inputs)
    assert features.shape == (3, net.num_features)
    assert net.pool(net.forward_features(inputs)).shape == features.shape
    features.square().sum().backward()
    for key, tensor in (("inputs", inputs), *net.named_parameters()):
        assert tensor.grad is not None, key
        if not tensor.is_meta:
            assert torch.isfinite(tensor.grad).all(), key
            assert tensor.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", sorted(CASES.keys() - LARGE))
def test_a_seed_decides_the_initialization(name: str) -> None:
    first, again, other = (make(name, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(values, again[key]) for key, values in first.items())
    assert not first or not all(torch.equal(values, other[key]) for key, values in first.items())


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("resnet18", 11_689_512),
        ("resnet34", 21_797_672),
        ("resnet50", 25_557_032),
        ("vit_b_16", 86_567_656),
        ("vit_l_16", 304_326_632),
    ],
)
def test_parameter_counts_with_a_thousand_classes(name: str, count: int) -> None:
    with torch.device("meta"):
        backbone = create_backbone(name, input_shape=(3, 224, 224))
        heads = build_heads([HeadSpec("class", 1, 1000)], backbone.num_features)
    assert sum(p.numel() for module in (backbone, heads) for p in module.parameters()) == count


def norm_names(prefix: str) -> list[str]:
    parts = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    return [f"{prefix}.{part}" for part in parts]


def test_names_of_resnet18_are_the_checkpoints() -> None:
    expected = ["conv1.weight", *norm_names("bn1")]
    for stage, block in product((1, 2, 3, 4), (0, 1)):
        prefix = f"layer{stage}.{block}"
        for i in (1, 2):
            expected += [f"{prefix}.conv{i}.weight", *norm_names(f"{prefix}.bn{i}")]
        if stage > 1 and block == 0:
            expected += [f"{prefix}.downsample.0.weight", *norm_names(f"{prefix}.downsample.1")]
    state = create_backbone("resnet18", input_shape=(3, 224, 224)).state_dict()
    assert list(state) == expected
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer3.0.downsample.0.weight"].shape == (256, 128, 1, 1)


def test_names_of_vit_b_16_are_the_checkpoints() -> None:
    layer = [
        *("ln_1.weight", "ln_1.bias"),
        *("self_attention.in_proj_weight", "self_attention.in_proj_bias"),
        *("self_attention.out_proj.weight", "self_attention.out_proj.bias"),
        *("ln_2.weight", "ln_2.bias", "mlp.0.weight", "mlp.0.bias", "mlp.3.weight", "mlp.3.bias"),
    ]
    expected = ["class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding"]
    expected += [f"encoder.layers.encoder_layer_{i}.{name}" for i in range(12) for name in layer]
    expected += ["encoder.ln.weight", "encoder.ln.bias"]
    with torch.device("meta"):
        state = create_backbone("vit_b_16", input_shape=(3, 224, 224)).state_dict()
    assert list(state) == expected
    assert state["encoder.pos_embedding"].shape == (1, 197, 768)


def test_bottleneck_strides_in_its_3x3_convolution() -> None:
    layers = dict(create_backbone("resnet50-w8", input_shape=(3, 64, 64)).named_modules())
    strides = [layers[f"layer2.0.{name}"].stride for name in ("conv1", "conv2", "conv3", "downsample.0")]
    assert strides == [(1, 1), (2, 2), (1, 1), (2, 2)]


@pytest.mark.parametrize(("stem", "size"), [("imagenet", 2), ("cifar", 8), ("strided", 4)])
def test_stems_shrink(stem: str, size: int) -> None:
    net = create_backbone("resnet10-w8", input_shape=(3, 64, 64), stem=stem)
    assert net.forward_features(torch.zeros(1, 3, 64, 64)).shape == (1, 64, size, size)


def test_resnet_initialization() -> None:
    net = make("resnet18")
    weight = net.state_dict()["layer4.1.conv2.weight"]
    assert weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.02)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    assert all((norm.weight == 1).all() and (norm.bias == 0).all() for norm in norms)


def test_memory_layout_changes_no_value() -> None:
    net, images = make("resnet18-w16").eval(), torch.randn(2, 1, 8, 8)
    assert isinstance(net, ResNet)
    assert net.channels_last
    maps = net.layer1(net.conv1(images).contiguous(memory_format=torch.channels_last))
    assert maps.is_contiguous(memory_format=torch.channels_last)
    features = net(images)
    net.channels_last = False
    torch.testing.assert_close(net(images), features, rtol=1e-4, atol=1e-5)
    assert all(parameter.is_contiguous() for parameter in net.parameters())


def test_group_norm_has_no_batch_statistics() -> None:
    net, images = make("resnet10-w24").train(), torch.randn(4, 1, 8, 8)
    together, alone = net(images), torch.cat([net(image[None]) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert together.std(0).mean() > 0.01
    assert not list(net.buffers())


def test_vit_against_its_formula() -> None:
    net, images = tiny_vit(), torch.randn(2, 3, 32, 32)
    state = net.state_dict()
    for values in state.values():  # zeros would hide a term
        values.add_(torch.randn_like(values), alpha=0.1)
    patches = images.unfold(2, 16, 16).unfold(3, 16, 16).permute(0, 2, 3, 1, 4, 5).reshape(2, 4, -1)
    tokens = patches @ state["conv_proj.weight"].flatten(1).T + state["conv_proj.bias"]
    tokens = torch.cat((state["class_token"].expand(2, 1, 8), tokens), 1) + state["encoder.pos_embedding"]
    for i in range(2):
        prefix = f"encoder.layers.encoder_layer_{i}."
        tokens = layer(tokens, {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
    tokens = layer_norm(tokens, (8,), state["encoder.ln.weight"], state["encoder.ln.bias"], 1e-6)
    torch.testing.assert_close(net(images), tokens[:, 0], rtol=1e-4, atol=1e-5)


def layer(tokens: Tensor, p: dict[str, Tensor]) -> Tensor:
    normed = layer_norm(tokens, (8,), p["ln_1.weight"], p["ln_1.bias"], 1e-6)
    projected = normed @ p["self_attention.in_proj_weight"].T + p["self_attention.in_proj_bias"]
    query, key, value = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in projected.chunk(3, 2))
    mixed = ((query @ key.transpose(2, 3) / 2).softmax(-1) @ value).transpose(1, 2).flatten(2)
    tokens = tokens + mixed @ p["self_attention.out_proj.weight"].T + p["self_attention.out_proj.bias"]
    normed = layer_norm(tokens, (8,), p["ln_2.weight"], p["ln_2.bias"], 1e-6)
    return (
        tokens + gelu(normed @ p["mlp.0.weight"].T + p["mlp.0.bias"]) @ p["mlp.3.weight"].T + p["mlp.3.bias"]
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet81", {}, "did you mean 'resnet18'"),
        ("resnet101", {}, "backbone must be one of efficientnet-lite0, .*identity, mlp, resnet10, resnet18"),
        ("resnet18-w10", {}, "multiple of 4, got 10"),
        ("resnet18-w0", {}, "positive multiple of 4"),
        ("resnet81-w16", {}, "did you mean 'resnet18'"),
        ("mlp-w16", {}, "did you mean 'mlp'"),
        ("resnet18", {"stm": "cifar"}, "no option 'stm'; its options are stem, norm; did you mean 'stem'"),
        ("resnet18", {"width": 16}, "no option 'width'"),
        ("resnet18", {"stem": "cfar"}, "did you mean 'cifar'"),
        ("resnet18", {"norm": "layer"}, "norm must be one of batch, group"),
        ("resnet18", {"input_shape": (3, 28, 28)}, "at least 32 x 32, got 28 x 28; give stem='cifar'"),
        ("resnet18", {"input_shape": (64,)}, "takes images"),
        ("resnet18", {"input_shape": (3, 0, 8)}, "input_shape must be positive integers"),
        ("vit_b_16", {"input_shape": (3, 40, 40)}, "multiple of 16, got 40 x 40"),
        ("vit_b_16", {"input_shape": (3, 32, 48)}, "square"),
        ("mlp", {"input_shape": (4,), "hidden": ()}, "hidden must be positive integers"),
        ("mlp", {"input_shape": (4,), "norm": "layer"}, "norm must be one of none, batch, got 'layer'"),
        ("mlp", {"input_shape": (4,), "dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ("identity", {"input_shape": (4,), "hidden": (3,)}, "it has none"),
    ],
)
def test_refusals(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        create_backbone(name, **{"input_shape": (3, 64, 64), **options})  # type: ignore[arg-type]


def test_mlp_with_norm_and_dropout_against_its_formula() -> None:
    torch.manual_seed(0)
    net = create_backbone("mlp", input_shape=(3,), hidden=(4000, 5), norm="batch", dropout=0.25)
    inputs = torch.randn(8, 3)
    seen: list[torch.Tensor] = []
    last = [layer for layer in net.modules() if isinstance(layer, torch.nn.Linear)][-1]
    last.register_forward_hook(lambda _layer, given, _result: seen.append(given[0]))
    features = net(inputs)
    linear = torch.nn.functional.linear(inputs, *list(net.parameters())[:2])
    normed = (linear - linear.mean(0)) / (linear.var(0, unbiased=False) + 1e-5).sqrt()
    ratio = (seen[0] / normed.relu())[normed > 0]
    dropped = ratio == 0
    torch.testing.assert_close(ratio[~dropped], torch.full_like(ratio[~dropped], 1 / 0.75), rtol=1e-3, atol=0)
    assert dropped.float().mean().item() == pytest.approx(0.25, abs=0.02)
    # Nothing is dropped after the last layer: its features are the rectified normal scores of the batch.
    whole = last(seen[0])
    scores = (whole - whole.mean(0)) / (whole.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(features, scores.relu(), rtol=1e-4, atol=1e-5)
    assert [*create_backbone("mlp", input_shape=(3,)).state_dict()][:2] == [
        "layers.0.weight",
        "layers.0.bias",
    ]


def test_vit_refuses_other_sizes_than_it_was_made_for() -> None:
    with pytest.raises(ValueError, match="images must be 32 x 32, as the backbone was made, got 48 x 48"):
        tiny_vit()(torch.zeros(1, 3, 48, 48))
