"""What documents say was trained."""

import json

import pytest

from cophenet.paper.documents import read_document
from cophenet.paper.items import find_items
from cophenet.paper.plan import Settings, plan_runs
from cophenet.paper.tables import item_tables

from .written import write_items, write_runs

pytestmark = pytest.mark.usefixtures("undrawn")


def made(tmp_path, name, settings):
    (item,) = find_items((name,))
    planned = plan_runs(item, settings)
    write_runs(planned, tmp_path / "runs")
    for runs in planned:
        for seed in runs.seeds:
            path = runs.path(tmp_path / "runs", seed) / "run.json"
            info = {**json.loads(path.read_text()), "samples": {"train": {"count": 9000}}}
            path.write_text(json.dumps(info))
    write_items([name], tmp_path, settings)
    return json.loads((tmp_path / "out" / name / f"{name}.json").read_text())


def test_the_setup_stands_beside_that_of_the_paper(tmp_path):
    document = made(tmp_path, "rank", Settings("scratch", seeds=(0,)))
    sentence = (
        "cifar100: resnet10-w24, 20 epochs, batch 128, 9,000 training samples "
        "(paper: resnet18, 200 epochs, batch 128)."
    )
    assert document["setup"] == {"cifar100": sentence}
    assert f"\n\n{sentence}\n" in (tmp_path / "out/rank/README.md").read_text()
    for table in item_tables(read_document(tmp_path / "out", "rank")).values():
        assert table.has_published == (sentence in table.notes)


def test_what_an_item_varies_is_listed(tmp_path):
    document = made(tmp_path, "flow-weights", Settings("scratch", ("cifar100",), (0,), ("batch_size=64",)))
    assert document["setup"]["cifar100"] == (
        "cifar100: resnet10-w24, 20 epochs, batch 64, weight 2, 9,000 training samples "
        "(paper: resnet18, 200 epochs, batch 128, weight 1)."
    )
    (table,) = item_tables(read_document(tmp_path / "out", "flow-weights")).values()
    assert document["setup"]["cifar100"] in table.notes


def test_data_that_the_paper_does_not_have_stands_alone(tmp_path):
    document = made(tmp_path, "batch-size", Settings("laptop", ("digits",), (0,)))
    (sentence,) = document["setup"].values()
    assert "batch 64, 128, 512 and 1024" in sentence
    assert "paper" not in sentence
