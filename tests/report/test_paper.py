"""The paper's numbers as data."""

import re

import pytest

from cophenet.evaluation import metric_info
from cophenet.objectives import objective_names
from cophenet.report import published, published_tables
from support import SHARED, needs_shared

BREEDS = ("living17", "nonliving26", "entity13", "entity30")
# Table, what identifies the row, key, and a piece of the paper's source with the cell in its place.
CELLS = [
    ("tab:testcpcc", ("cifar100", "emd", {}), "source/cpcc/emd", "& EMD       & 89.60 (0.34) "),
    ("tab:testcpcc", ("entity30", "l2", {}), "source/cpcc/l2", r"& $\ell_2$        & \textbf{93.37 (0.19)}"),
    ("tab:fine-detail", ("inat21-mini", "sinkhorn", {}), "source/map/class", "& 51.56 (0.04) "),
    ("tab:coarse-detail", ("cifar10", "swd", {}), "target/map/coarse", "& 90.12 (0.43)  "),
    ("tab:breeds-coarse", ("nonliving26", "flat", {}), "source/map/coarse", "& 61.20 (1.01) "),
    ("tab:coarse", ("cifar100", "flat", {}), "target/accuracy/coarse", "43.09 &"),
    ("tab:rank", ("cifar100", "rank", {}), "target/map/coarse", r"& 24.31\\"),
    (
        "fig:hierarchical-baselines",
        ("cifar100", "soft", {}),
        "source/cpcc/l2",
        r"Soft & \cellcolor{tgreen!40}{50.90}",
    ),
    (
        "tab:comparison_colored_normalized",
        ("cifar100", "emd", {"flow_weights": "inverse"}),
        "source/cpcc/emd",
        "& inv  & 98.13 ",
    ),
    (
        "tab:tree-depth-tab",
        ("cifar100", "emd", {"depth": 4, "batch_size": 128}),
        "full/accuracy/fine",
        "& depth = 4      & 85.09         & 72.59 ",
    ),
    (
        "tab:tree-weight-tab",
        ("cifar100", "fastft", {"weight": 2, "batch_size": 1024}),
        "full/accuracy/coarse",
        "& 75.38            & 85.10 ",
    ),
    (
        "tab:ot-wallclock",
        ("inat21-mini", "emd", {"batch_size": 1024}),
        "seconds_per_epoch",
        "& 234.68 (4.40) ",
    ),
    ("tab:bures-others", ("cifar100", "bures", {"batch_size": 128}), "seconds_per_batch", "& 33.77 (4.73) "),
    ("fig:CIFAR100-gmm_comparison", ("cifar10", "l2", {}), "components", "CIFAR10}  & 9.90 "),
]


def row(label, data, objective, setting):
    rows = published_tables()[label].rows
    matching = [r for r in rows if (r.data, r.objective, dict(r.setting)) == (data, objective, setting)]
    assert len(matching) == 1
    return matching[0]


@needs_shared
@pytest.mark.parametrize(("label", "where", "key", "printed"), CELLS, ids=[cell[0] for cell in CELLS])
def test_cells_are_as_printed(label, where, key, printed):
    text = (SHARED / "paper" / "otcpcc.tex").read_text()
    assert printed in text
    mean, std = re.findall(r"(\d+\.\d+)(?: \((\d+\.\d+)\))?", printed)[-1]
    cell = row(label, *where).values[key]
    scale = 100 if published_tables()[label].unit == "percent" else 1
    assert cell.value * scale == pytest.approx(float(mean), abs=1e-9)
    assert (cell.std is None) == (not std)
    assert not std or cell.std * scale == pytest.approx(float(std), abs=1e-9)


@needs_shared
def test_every_numeric_table_is_there():
    text = (SHARED / "paper" / "otcpcc.tex").read_text()
    labels = set(re.findall(r"\\label\{(tab:[^}]*)\}", text))
    words = {"tab:ot_comparison"} | {label for label in labels if label.endswith("_hierarchy")}
    assert labels - words == {label for label in published_tables() if label.startswith("tab:")}


def test_tables_have_all_their_cells():
    sizes = {label: sum(len(r.values) for r in t.rows) for label, t in published_tables().items()}
    # 18 with EMD and 20 of BREEDS, which has no EMD in the tables of generalisation either.
    assert sizes["tab:testcpcc"] == 38
    assert sizes["tab:fine-detail"] == 23 * 3
    assert sizes["tab:coarse-detail"] == 23 * 4
    assert sizes["tab:breeds-fine"] == 20 * 3
    assert sizes["tab:breeds-coarse"] == 20 * 4
    assert sizes["tab:comparison_colored_normalized"] == 6 * 8


def test_names_and_keys_are_ours():
    for table in published_tables().values():
        for r in table.rows:
            assert r.objective is None or r.objective in objective_names()
            for key, cell in r.values.items():
                if table.unit == "percent":
                    assert metric_info(key).percent
                    assert 0 < cell.value <= 1
                assert cell.std is None or 0 <= cell.std < cell.value


def test_summaries_agree_with_details():
    tables = published_tables()
    for summary, detail in (("tab:fine", "tab:fine-detail"), ("tab:coarse", "tab:coarse-detail")):
        for r in tables[summary].rows:
            wide = row(detail, r.data, r.objective, {})
            assert {k: c.value for k, c in r.values.items()} == {k: c.value for k, c in wide.values.items()}


def test_breeds_is_the_mean_of_its_settings():
    for level in ("fine", "coarse"):
        for r in published_tables()[f"tab:{level}-detail"].rows:
            if r.data != "breeds":
                continue
            for key, cell in r.values.items():
                parts = [row(f"tab:breeds-{level}", data, r.objective, {}).values[key] for data in BREEDS]
                assert sum(part.value for part in parts) / 4 == pytest.approx(cell.value, abs=1.1e-4)


def test_contradictions_carry_a_note():
    main = {"flow_weights": "uniform"}
    label = "tab:comparison_colored_normalized"
    for objective, other in (("fastft", "emd"), ("emd", "sinkhorn")):
        for key, cell in row(label, "cifar100", objective, main).values.items():
            ours = published("cifar100", objective, key)
            if cell.value == ours.value:
                assert cell.note is None
            else:
                assert "other rows" in cell.note
                assert cell.value == published("cifar100", other, key).value
    assert published("cifar100", "fastft", "source/accuracy/fine").note is None


def test_lookup_prefers_the_table_with_a_spread():
    cell = published("cifar100", "flat", "source/accuracy/fine")
    assert (cell.value, cell.std, cell.source) == (0.8053, 0.0031, "tab:fine-detail")
    assert published("cifar100", "rank", "source/accuracy/fine").std is None
    assert published("cifar100", "emd", "full/cpcc/emd") is None  # only studies have it
    assert published("nothing", "emd", "source/cpcc/emd") is None
