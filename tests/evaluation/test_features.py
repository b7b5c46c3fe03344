"""Saved features and checkpoints of a run: damaged ones, and those of another training."""

import re

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from cophenet.evaluation import evaluate
from cophenet.evaluation.features import load_features, save_features
from cophenet.metrics.cards import FeatureSet
from cophenet.runs import load_network
from cophenet.runs.checkpoints import write_checkpoint
from cophenet.tree import Hierarchy
from cophenet.vectors import map_arrays
from evaluation.runs import ONE_SHOT, TINY, make_run


def test_a_damaged_last_checkpoint_is_not_passed_over(tmp_path):
    """The one before it is whole, but is not what the training ended with."""
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "seeds=[0, 1]"))
    part = run.parts[1]
    state = {f"network.{name}": value for name, value in load_network(part).state_dict().items()}
    path = write_checkpoint(part.path / "checkpoints", 3, {"state_dict": state})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"{re.escape(str(part.path))}.* damaged"):
        evaluate(run)
    assert not list(run.path.rglob("results.json"))


def test_features_of_another_checkpoint_are_made_anew(tmp_path):
    run = make_run(tmp_path / "run")
    evaluate(run)
    before = load_file(run.features_path("source-test"))
    state = {f"network.{name}": value * 2 for name, value in load_network(run).state_dict().items()}
    path = write_checkpoint(run.path / "checkpoints", 3, {"state_dict": state})
    results = evaluate(run)
    after = load_file(run.features_path("source-test"))
    assert not torch.allclose(before["features"], after["features"])
    with safe_open(run.features_path("source-test"), framework="pt") as file:
        metadata = file.metadata()
    assert metadata.pop("tree").startswith('{\n"format": "cophenet-tree"')
    assert re.fullmatch(r"[0-9a-f]{16}", metadata.pop("checksum"))
    assert metadata == {"checkpoint": path.stem, "domain": "source", "part": "test"}
    right = (after["logits"].argmax(1) == after["labels"]).double().mean().item()
    assert results["metrics"]["source/accuracy/level2"]["mean"] == right


def test_a_changed_byte_of_saved_features_is_noticed_by_every_reader(tmp_path):
    run = make_run(tmp_path / "run", TINY)
    evaluate(run)
    path = run.features_path("source-test")
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in np.random.default_rng(0).integers(header, len(whole), 8):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(place) % 8
        path.write_bytes(changed)
        for read in (evaluate, lambda run: map_arrays(run.features_path("source-test"))):
            with pytest.raises(ValueError, match=r"source-test.safetensors: .*bytes have changed.* remove "):
                read(run)
    path.write_bytes(whole)
    assert map_arrays(path)["features"].shape[0] > 0
    # Files of earlier versions have no checksum.
    with safe_open(path, framework="pt") as file:
        metadata = {key: text for key, text in file.metadata().items() if key != "checksum"}
    save_file(load_file(path), path, metadata=metadata)
    before = path.stat().st_mtime_ns
    evaluate(run)
    assert path.stat().st_mtime_ns == before


def test_a_damaged_file_of_features_is_refused(tmp_path):
    run = make_run(tmp_path / "run")
    evaluate(run)
    path = run.features_path("source-test")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"source-test.safetensors: truncated, damaged .* remove it"):
        evaluate(run)
    path.unlink()
    evaluate(run)


def test_the_same_features_are_the_same_bytes(tmp_path):
    tree = Hierarchy.from_paths([("kätzchen",), ("dog",)])
    samples = FeatureSet(torch.eye(2), torch.arange(2), torch.ones(2, 2), tree)
    for number in range(8):
        save_features(tmp_path / f"{number}", samples, "step00000001-0123456789abcdef", "source", "test")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    loaded = load_features(tmp_path / "0", "step00000001-0123456789abcdef", "test")
    assert loaded is not None
    assert loaded.tree == tree
    assert torch.equal(loaded.features, samples.features)
