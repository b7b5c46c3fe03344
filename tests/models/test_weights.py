"""Checkpoints load whole or are refused with what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from cophenet.models import create_backbone, load_weights
from cophenet.models.vit import VisionTransformer

State = dict[str, Tensor]


def resnet(weights: Path | None = None, **options: object) -> torch.nn.Module:
    return create_backbone("resnet10-w8", input_shape=(3, 32, 32), weights=weights, **options)


def checkpoint() -> State:
    state = resnet().state_dict()
    return {**state, "fc.weight": torch.zeros(1000, 64), "fc.bias": torch.zeros(1000)}


def vit(side: int = 32, **options: bool) -> VisionTransformer:
    return VisionTransformer((3, side, side), **options, depth=2, width=8, heads=2, hidden=12)


def saved(folder: Path, state: object, name: str = "net.pth") -> Path:
    path = folder / name
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("name", ["net.pth", "net.safetensors"])
def test_all_but_the_classifier_is_loaded(tmp_path: Path, name: str) -> None:
    state = checkpoint()
    net = resnet(saved(tmp_path, state, name))
    for key, values in net.state_dict().items():
        assert torch.equal(values, state[key]), key
    assert set(load_weights(net, tmp_path / name)) == {"fc.weight", "fc.bias"}


def test_old_checkpoints_without_batch_counters(tmp_path: Path) -> None:
    state = {name: values for name, values in checkpoint().items() if "num_batches" not in name}
    net = resnet(saved(tmp_path, state))
    assert torch.equal(net.state_dict()["conv1.weight"], state["conv1.weight"])


def test_everything_that_does_not_fit_is_named(tmp_path: Path) -> None:
    state = checkpoint()
    state["layer1.0.conv9.weight"] = state.pop("layer1.0.conv1.weight")
    state["bn1.bias"] = torch.zeros(3)
    with pytest.raises(ValueError) as caught:
        resnet(saved(tmp_path, state), stem="cifar")
    lines = str(caught.value).splitlines()
    assert lines[0] == f"weights {tmp_path / 'net.pth'} do not fit the backbone:"
    assert lines[1:] == [
        "  missing (1): layer1.0.conv1.weight",
        "  unexpected (1): layer1.0.conv9.weight",
        "  wrong shape (2): conv1.weight is (8, 3, 7, 7), needs (8, 3, 3, 3); bn1.bias is (3,), needs (8,)",
        "  conv1.weight: the stem or the number of channels differs; "
        "ImageNet checkpoints need stem='imagenet' and 3 channels",
    ]


def test_long_lists_are_cut(tmp_path: Path) -> None:
    path = saved(tmp_path, {"one": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"missing \(\d+\): conv1.weight; .*; and \d+ more"):
        resnet(path)
    with pytest.raises(ValueError, match=r"unexpected \(1\): one"):
        create_backbone("identity", input_shape=(3,), weights=path)


def test_a_refused_checkpoint_changes_nothing(tmp_path: Path) -> None:
    net, state = resnet(), checkpoint()
    before = {name: values.clone() for name, values in net.state_dict().items()}
    del state["bn1.bias"]
    with pytest.raises(ValueError, match="missing"):
        load_weights(net, saved(tmp_path, state))  # type: ignore[arg-type]
    assert all(torch.equal(values, before[name]) for name, values in net.state_dict().items())


def test_vit_with_classifier_and_with_the_older_names(tmp_path: Path) -> None:
    state = {**vit().state_dict(), "heads.head.weight": torch.zeros(9, 8), "heads.head.bias": torch.zeros(9)}
    old = {
        n.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): v for n, v in state.items()
    }
    assert old.keys() != state.keys()
    for given in (state, old):
        net = vit()
        assert load_weights(net, saved(tmp_path, given)) == ("heads.head.weight", "heads.head.bias")
        assert all(torch.equal(values, state[name]) for name, values in net.state_dict().items())


def test_positions_of_another_image_size(tmp_path: Path) -> None:
    state = vit(64).state_dict()
    corners = torch.arange(16.0).reshape(1, 16, 1).expand(1, 16, 8)
    state["encoder.pos_embedding"] = torch.cat((torch.full((1, 1, 8), -5.0), corners), 1)
    path = saved(tmp_path, state)
    with pytest.raises(
        ValueError, match=r"another image size; resize the images .* interpolate_positions=True"
    ):
        load_weights(vit(), path)
    net = vit(interpolate_positions=True)
    load_weights(net, path)
    # The class token keeps its position, the corners of the grid keep theirs.
    assert net.encoder.pos_embedding[0, :, 0].tolist() == pytest.approx([-5, 0, 3, 12, 15], abs=1e-5)
    del state["encoder.pos_embedding"]
    with pytest.raises(ValueError, match=r"missing \(1\): encoder.pos_embedding"):
        load_weights(net, saved(tmp_path, state))


@pytest.mark.parametrize(
    "shape", [(), (17, 8), (1, 16, 8), (2, 17, 8), (1, 1, 8), (1, 0, 8), (1, 17, 0), (1, 17, 9)]
)
def test_positions_that_are_no_grid(shape: tuple[int, ...], tmp_path: Path) -> None:
    for dtype in (torch.float32, torch.int64):
        state = {**vit().state_dict(), "encoder.pos_embedding": torch.zeros(shape, dtype=dtype)}
        with pytest.raises(
            ValueError, match=r"do not fit the backbone:\n  wrong shape \(1\): encoder.pos_embed"
        ):
            load_weights(vit(interpolate_positions=True), saved(tmp_path, state))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"state_dict": {"a": torch.zeros(1)}, "epoch": 3}, "got dict at 'state_dict'; save the state_dict"),
        ([torch.zeros(1)], "must hold named tensors, got list"),
        ({}, "must hold named tensors"),
        (Path, "no file of tensors that torch can read"),
    ],
)
def test_files_of_another_kind(tmp_path: Path, state: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resnet(saved(tmp_path, state))


@pytest.mark.parametrize("name", ["net.pth", "net.safetensors"])
@pytest.mark.parametrize("content", [b"", b"not a checkpoint", "truncated"])
def test_broken_files(tmp_path: Path, name: str, content: bytes | str) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        whole = saved(tmp_path, checkpoint(), name).read_bytes()
        content = whole[: len(whole) // 2]
    path.write_bytes(content)
    with pytest.raises(ValueError, match="are no "):
        resnet(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"weights not found: .*none.pth"):
        resnet(tmp_path / "none.pth")


@pytest.mark.parametrize("name", ["net.pth", "net.safetensors"])
@pytest.mark.parametrize("content", [b"epoch 3\nloss 0.5\n", b"hello", b"\x80\x02}", b"PK\x03\x04", b"{}"])
def test_what_cannot_be_read_is_told_in_our_words(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"weights .*{name} are no .*, it is damaged") as caught:
        resnet(path)
    assert "weights_only" not in str(caught.value)
    assert "\n" not in str(caught.value)
