"""Maps of features: once, saved, and the same again."""

from importlib.util import find_spec

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cophenet.report import embedding


# Importing it takes seconds, in every process that collects tests.
@pytest.mark.skipif(find_spec("umap") is None, reason="needs umap-learn")
def test_umap_runs_once_per_features(tmp_path, monkeypatch):
    path = tmp_path / "source-test.safetensors"
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = (10 * np.eye(5)[labels] + rng.normal(size=(90, 5))).astype("f4")
    save_file({"features": features, "labels": labels}, path)
    first = embedding.embed(path, 3)
    assert (first.method, first.note, first.samples) == ("UMAP", "", 90)
    centres = np.stack([first.points[labels == c].mean(0) for c in range(3)])
    nearest = np.linalg.norm(first.points[:, None] - centres, axis=2).argmin(1)
    assert (nearest == labels).mean() > 0.95
    saved = tmp_path / "umap-source-test.safetensors"
    np.testing.assert_array_equal(load_file(saved)["points"], first.points)

    calls = []
    monkeypatch.setattr(embedding, "_umap", lambda z: calls.append(len(z)) or z[:, :2])
    np.testing.assert_array_equal(embedding.embed(path, 3).points, first.points)
    assert calls == []
    # Other features, a damaged file and a set larger than what is drawn are computed.
    save_file({"features": features + 1, "labels": labels}, path)
    embedding.embed(path, 3)
    saved.write_bytes(b"damaged")
    embedding.embed(path, 3)
    save_file({"features": rng.normal(size=(2500, 5)).astype("f4"), "labels": np.arange(2500) % 3}, path)
    large = embedding.embed(path, 3)
    assert calls == [90, 90, 2000]
    assert (large.points.shape, large.labels.shape, large.samples) == ((2000, 2), (2000,), 2500)


def test_tsne_keeps_groups_together(tmp_path):
    path = tmp_path / "f.safetensors"
    labels = np.arange(60) % 3
    features = 10 * np.eye(5)[labels] + np.random.default_rng(0).normal(size=(60, 5))
    save_file({"features": features.astype("f4"), "labels": labels}, path)
    drawn = embedding.embed(path, 3, "t-SNE")
    assert (drawn.method, drawn.note, drawn.points.shape) == ("t-SNE", "", (60, 2))
    centres = np.stack([drawn.points[labels == c].mean(0) for c in range(3)])
    nearest = np.linalg.norm(drawn.points[:, None] - centres, axis=2).argmin(1)
    assert (nearest == labels).mean() > 0.95
    assert (tmp_path / "tsne-f.safetensors").is_file()
