"""Maps of features: once, saved, and the same again."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cophenet.report import embedding

# Compiling UMAP takes a minute, and numba gives torch more threads: another process runs it as Python.
DRAW = """
import json, sys
from pathlib import Path
from cophenet.report.embedding import embed
drawn = embed(Path(sys.argv[1]), 3)
print(json.dumps([drawn.method, drawn.note, drawn.samples, drawn.points.tolist()]))
"""


@pytest.mark.skipif(find_spec("umap") is None, reason="needs umap-learn")
def test_umap_runs_once_per_features(tmp_path, monkeypatch):
    path = tmp_path / "source-test.safetensors"
    rng = np.random.default_rng(0)
    labels = np.arange(12) % 3
    features = (10 * np.eye(5)[labels] + rng.normal(size=(12, 5))).astype("f4")
    save_file({"features": features, "labels": labels}, path)
    done = subprocess.run(
        [sys.executable, "-c", DRAW, str(path)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    *said, points = json.loads(done.stdout)
    points = np.array(points, dtype=np.float32)
    assert said == ["UMAP", "", 12]
    centres = np.stack([points[labels == c].mean(0) for c in range(3)])
    nearest = np.linalg.norm(points[:, None] - centres, axis=2).argmin(1)
    assert (nearest == labels).mean() > 0.95
    saved = tmp_path / "umap-source-test.safetensors"
    np.testing.assert_array_equal(load_file(saved)["points"], points)

    calls = []
    monkeypatch.setattr(embedding, "_umap", lambda z: calls.append(len(z)) or z[:, :2])
    again = embedding.embed(path, 3)
    assert (again.method, again.note, again.samples) == ("UMAP", "", 12)
    np.testing.assert_array_equal(again.points, points)
    assert calls == []
    # Other features, a damaged file and a set larger than what is drawn are computed.
    save_file({"features": features + 1, "labels": labels}, path)
    embedding.embed(path, 3)
    saved.write_bytes(b"damaged")
    embedding.embed(path, 3)
    save_file({"features": rng.normal(size=(2500, 5)).astype("f4"), "labels": np.arange(2500) % 3}, path)
    large = embedding.embed(path, 3)
    assert calls == [12, 12, 2000]
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
