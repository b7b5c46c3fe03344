"""Backbones of other packages, which need not be installed, and of the user."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from cophenet._common.trust import TrustError
from cophenet.models import create_backbone
from cophenet.models.other_packages import Foreign

OWN = """
import os
import torch
from torch import nn
from cophenet.models import backbone_function

class Net(nn.Module):
    def __init__(self, size=4, *, mode="good"):
        super().__init__()
        self.layer, self.drop, self.mode = nn.Linear(3, size), nn.Dropout(0.5), mode
        self.drop.eval()

    def forward(self, x):
        y = self.drop(self.layer(x))
        if self.mode == "changing" and self.layer.training:
            return y[:, 1:]
        return {"map": y[:, :, None], "tuple": (y, y), "int": y.long(), "one": y[:1]}.get(self.mode, y)

called = []

def plain(**options):
    called.append(options)

@backbone_function
def number():
    return 3

@backbone_function
def small(size=2):
    return nn.Linear(3, size)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_net_for_tests.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_net_for_tests", raising=False)
    return "own_net_for_tests:Net"


class Pretend(nn.Module):
    """Has a classifier nested as torchvision's often are."""

    def __init__(self, channels: int = 3, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, 6, 3)
        last = nn.Linear(6, classes) if classes else nn.Identity()
        self.classifier = nn.Sequential(nn.Dropout(0.2), last)
        self.pretrained_cfg = {"classifier": "classifier.1"}

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.classifier(self.stem(images).mean((2, 3)))
        return out


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    timm, vision, models = (ModuleType(n) for n in ("timm", "torchvision", "torchvision.models"))
    timm.__dict__.update(
        list_models=lambda: ["pretend", "resnet18d"],
        create_model=lambda _, num_classes, in_chans: Pretend(in_chans, num_classes),
    )
    models.__dict__.update(
        list_models=lambda module: module and ["pretend", "squeezenet1_0"],
        get_model=lambda name: nn.Sequential(nn.ReLU()) if name.startswith("sq") else Pretend(),
    )
    for module in (timm, vision, models):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_own_module_with_options(own: str) -> None:
    net = create_backbone(own, input_shape=(3,), size=5)
    assert net.num_features == 5
    assert net(torch.zeros(2, 3)).shape == (2, 5)
    inner = net.get_submodule("module")
    assert inner.training
    assert not inner.get_submodule("drop").training


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("map", r"floats of shape \(B, d\), got \(2, 4, 1\) torch.float32 for B = 2"),
        ("tuple", r"a tensor of shape \(B, d\), got tuple"),
        ("int", r"got \(2, 4\) torch.int64"),
        ("one", r"got \(1, 4\) torch.float32 for B = 2"),
    ],
)
def test_own_module_with_other_outputs(own: str, mode: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_backbone(own, input_shape=(3,), mode=mode)


def test_own_module_that_changes_its_mind(own: str) -> None:
    net = create_backbone(own, input_shape=(3,), mode="changing")
    with pytest.raises(ValueError, match="gave 3 features, and 4 when made"):
        net(torch.zeros(2, 3))


def test_a_module_that_fails_keeps_its_mode() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5).eval())
    with pytest.raises(ValueError, match=r"cannot take inputs of shape \(5,\)"):
        Foreign(module, (5,), name="own")
    assert [part.training for part in module.modules()] == [True, True, False]


def test_own_module_refusals(own: str) -> None:
    with pytest.raises(ValueError, match=r"cannot take inputs of shape \(5,\): mat1"):
        create_backbone(own, input_shape=(5,))
    with pytest.raises(ValueError, match=r"does not take these options: got an unexpected .* 'sice'"):
        create_backbone(own, input_shape=(3,), sice=5)
    with pytest.raises(ValueError, match=r"must be a torch.nn.Module, got int"):
        create_backbone(own.replace("Net", "number"), input_shape=(3,))
    with pytest.raises(ImportError, match="has no class 'Other'"):
        create_backbone(own.replace("Net", "Other"), input_shape=(3,))
    with pytest.raises(ImportError, match=r"needs no_such_package, which cannot be imported .*PYTHONPATH"):
        create_backbone("no_such_package:Net", input_shape=(3,))


def test_a_function_must_say_that_it_is_a_backbone(own: str) -> None:
    assert create_backbone(own.replace("Net", "small"), input_shape=(3,), size=7).num_features == 7
    with pytest.raises(ValueError, match=r"plain' must be a subclass .*backbone_function, got function"):
        create_backbone(own.replace("Net", "plain"), input_shape=(3,))
    assert sys.modules["own_net_for_tests"].called == []


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:exec",
        "builtins:dict",
        "subprocess:Popen",
        "own_net_for_tests:os",
        "own_net_for_tests:Net.forward",
        "own_net_for_tests:os.system",
        "own_net_for_tests:",
        ":system",
        ".own:Net",
        "a b:Net",
    ],
)
@pytest.mark.usefixtures("own")
def test_nothing_but_a_module_is_called(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    command = f"touch '{marker}'"
    for options in ({}, {"command": command}, {"args": ["touch", str(marker)]}):
        with pytest.raises(ValueError, match=r"must be (a subclass of|named as)"):
            create_backbone(name, input_shape=(3,), **options)
    assert not marker.exists()


def test_code_that_is_not_trusted_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_hostile_net.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrustError, match="backbone 'own_hostile_net:Net' is code that is not trusted"):
        create_backbone("own_hostile_net:Net", input_shape=(3,), trust=False)
    with pytest.raises(TrustError, match="option checkpoint_path of backbone 'timm:resnet18'"):
        create_backbone("timm:resnet18", input_shape=(3, 8, 8), trust=False, checkpoint_path="x.pth")
    assert create_backbone("identity", input_shape=(3,), trust=False).num_features == 3


def test_the_current_folder_is_searched_last_and_for_this_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_net_here.py").write_text(OWN)
    (tmp_path / "json.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    before = list(sys.path)
    with pytest.raises(ValueError, match="must be a subclass"):
        create_backbone("json:loads", input_shape=(3,))
    assert sys.path == before
    assert create_backbone("own_net_here:Net", input_shape=(3,)).num_features == 4
    assert sys.path == [*before, str(tmp_path)]
    del sys.modules["own_net_here"]


def test_own_weights(own: str, tmp_path: Path) -> None:
    state = {"layer.weight": torch.ones(4, 3), "layer.bias": torch.ones(4)}
    torch.save(state, tmp_path / "own.pth")
    net = create_backbone(own, input_shape=(3,), weights=tmp_path / "own.pth").eval()
    assert net(torch.ones(1, 3)).tolist() == [[4.0] * 4]


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(("package", "channels"), [("timm", 1), ("timm", 3), ("torchvision", 3)])
def test_other_packages(package: str, channels: int, tmp_path: Path) -> None:
    torch.save(Pretend(channels).state_dict(), tmp_path / "net.pth")
    name = f"{package}:pretend"
    net = create_backbone(name, input_shape=(channels, 8, 8), weights=tmp_path / "net.pth")
    assert net.num_features == 6
    assert net(torch.zeros(2, channels, 8, 8)).shape == (2, 6)
    assert not any("classifier" in key for key in net.state_dict())


@pytest.mark.usefixtures("packages")
def test_other_packages_refusals() -> None:
    with pytest.raises(ValueError, match=r"the package has no model 'pretent'; did you mean 'pretend'\?"):
        create_backbone("timm:pretent", input_shape=(3, 8, 8))
    with pytest.raises(ValueError, match="has no linear classifier"):
        create_backbone("torchvision:squeezenet1_0", input_shape=(3, 8, 8))
    with pytest.raises(ValueError, match=r"cannot take inputs of shape \(1, 8, 8\)"):
        create_backbone("torchvision:pretend", input_shape=(1, 8, 8))
    with pytest.raises(ValueError, match="takes images"):
        create_backbone("timm:pretend", input_shape=(8,))


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_package_that_is_not_installed(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"backbone '{package}:resnet18' needs {package}.* install it"):
        create_backbone(f"{package}:resnet18", input_shape=(3, 32, 32))
