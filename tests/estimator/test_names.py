"""Labels of classes that share their last name."""

import numpy as np
import pytest

from cophenet import HierarchicalEmbedder, Hierarchy

TREE = Hierarchy.from_paths(
    ["computer/hardware", "computer/mouse", "garden/hardware", "garden/hose", "food"], sep="/"
)


def test_labels_by_path(tmp_path):
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(5), 8)
    vectors = (10 * np.eye(5, 6)[places] + rng.normal(size=(40, 6))).astype(np.float32)
    labels = np.array(TREE.classes)[places]
    embedder = HierarchicalEmbedder(TREE, max_iter=30, random_state=0).fit(vectors, labels)
    assert embedder.classes_.tolist() == sorted(TREE.classes)
    assert (embedder.predict(vectors) == labels).mean() > 0.5
    embedder.save(tmp_path / "model")
    loaded = HierarchicalEmbedder.load(tmp_path / "model")
    assert loaded.predict(vectors).tolist() == embedder.predict(vectors).tolist()
    labels[0] = "hardware"
    with pytest.raises(ValueError, match=r"y: node 'hardware' is the name of 2 nodes; .*'garden/hardware'"):
        embedder.fit(vectors, labels)
