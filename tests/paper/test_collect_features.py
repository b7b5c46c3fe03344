"""Documents of studies on saved features: what is kept, and of which seed they are."""

import json

import numpy as np
import pytest

from cophenet.paper import collect_features, find_items
from cophenet.paper.document import read_runs
from cophenet.paper.modes import ModeCounts
from cophenet.paper.plan import Settings, arm_runs
from cophenet.report.embedding import Embedding

from .written import write_features, write_runs


@pytest.fixture
def found(tmp_path):
    """An l2 run of seed 3 with features after an epoch and at the end."""
    (item,) = find_items(("umap",))
    arms = arm_runs(item, Settings("laptop", recipes=("digits",), seeds=(3,)))[:1]
    write_runs(arms, tmp_path)
    for name in ("epoch0001-source-test", "source-test"):
        write_features(arms[0].path(tmp_path, 3), name, 6)
    return read_runs(arms, tmp_path)


def test_modes_are_kept_file_by_file(found, monkeypatch):
    calls = []

    def count(*_args, **options):
        calls.append(options)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return ModeCounts((2,), 2.0, 0)

    monkeypatch.setattr(collect_features, "count_modes", count)
    with pytest.raises(KeyboardInterrupt):
        collect_features.modes(found)
    assert list(json.loads((found[0].path() / "modes.json").read_text())) == ["0001"]
    table = collect_features.modes(found)["tables"][0]
    assert len(calls) == 5
    assert table["rows"][0][2]["mean"] == 2.0
    assert "Of the first seed." in table["notes"]


def test_maps_name_their_seed(found, monkeypatch):
    placed = Embedding(np.zeros((4, 2)), np.array([0, 1, 2, 3]), 4, "PCA", "")
    monkeypatch.setattr(collect_features, "embed", lambda _path: placed)
    (panel,) = collect_features.umap(found)["figures"]["umap"]["panels"]
    assert panel["title"] == "l2-CPCC, PCA, seed 3"
