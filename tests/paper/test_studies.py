import sys

import numpy as np
import pytest
import torch

from cophenet import Hierarchy, class_distances
from cophenet.paper import (
    StudySettings,
    draw_clouds,
    isolated,
    order_study,
    run_isolated,
    synthetic_study,
    variants,
)
from cophenet.paper.synthetic import synthetic_observations
from cophenet.paper.timing import VARIANTS, DistanceVariant, dense_bures
from support import random_batch


def test_dense_bures_is_bures():
    features, labels = random_batch(0, [6, 9, 12], width=4)
    expected = class_distances(features, labels, "bures")[1]
    torch.testing.assert_close(dense_bures(features, labels), expected, rtol=1e-6, atol=1e-8)
    assert len(dense_bures(features, labels, pairs=2)) == 2


def test_modes_of_clouds_have_equal_shares_and_the_order_they_say():
    generator = torch.Generator().manual_seed(0)
    z, y = draw_clouds("mixture, mode by mode", 100, 16, generator)
    first = z[y == 0].mean(1)
    assert (first[:50] < 2.5).all()
    assert (first[50:] > 2.5).all()
    z, y = draw_clouds("mixture", 100, 16, generator)
    first = z[y == 0].mean(1)
    assert (first < 2.5).sum() == 50
    assert (first[:50] < 2.5).any()
    assert (first[:50] > 2.5).any()


def test_errors_are_those_of_a_loop_and_greedy_order_decides():
    settings = StudySettings(64, 2, sizes=(8,), error_sizes=(40,), widths=(4,), classes=(2,))
    found = synthetic_study(settings, (DistanceVariant("fastft"), DistanceVariant("l2")))
    generator = torch.Generator().manual_seed(0)
    errors = []
    for _ in range(2):
        z, y = draw_clouds("mixture", 40, 64, generator)
        exact, fast = (class_distances(z, y, name)[1].item() for name in ("emd", "fastft"))
        errors.append(fast / exact - 1)
    assert found["errors"]["mixture"]["fastft"]["mean"][0] == pytest.approx(np.mean(errors), rel=1e-4)
    lucky = found["errors"]["mixture, mode by mode"]["fastft"]["mean"][0]
    assert 0 <= lucky < found["errors"]["mixture"]["fastft"]["mean"][0] / 2
    assert found["times"]["l2"]["exponent"] is None
    assert found["build"] == []


def test_times_by_dimension_and_number_of_classes_and_the_share_of_the_tree():
    settings = StudySettings(4, 2, sizes=(8, 64), error_sizes=(), widths=(4, 8), classes=(2, 4), fixed=5)
    study = synthetic_study(settings, (DistanceVariant("ft"), DistanceVariant("l2")))
    for part, sizes in (("widths", [4, 8]), ("classes", [2, 4])):
        assert [study[part][name]["sizes"] for name in ("ft", "l2")] == [sizes, sizes]
    assert len(study["build"]) == 2
    assert all(share > 0 for share in study["build"])
    found = synthetic_observations(study)
    tree = found.find("", "ft")
    assert found.values(tree, "build-share") == dict(enumerate(study["build"]))
    seconds = np.array(study["classes"]["ft"]["seconds"])
    expected = np.log2(seconds[1] / seconds[0])
    np.testing.assert_allclose(list(found.values(tree, "power-k").values()), expected)


@pytest.mark.parametrize(("noise", "doubt"), [(0.01, ""), (0.5, "times vary by 25 %: the machine was busy")])
def test_powers_from_a_busy_machine_are_doubtful(noise, doubt):
    sizes = [8, 16, 32]
    entry = {"sizes": sizes, "seconds": [[n, n * (1 + noise), n] for n in sizes], "exponent": 1.0}
    study = {
        "times": {"FastFT": entry},
        "widths": {"FastFT": entry},
        "classes": {},
        "errors": {},
        "build": [],
    }
    rows = synthetic_observations(study).rows
    assert {row.doubt for row in rows if row.metric in ("power", "power-d")} == {doubt}
    assert {row.doubt for row in rows if row.metric.startswith("seconds")} == {""}


def test_a_study_is_read_by_names_whatever_the_labels_are_now(monkeypatch):
    """Documents of earlier versions have the labels of that time."""
    monkeypatch.setitem(variants._LABELS, "fastft", "Fast")
    settings = StudySettings(4, 2, sizes=(8, 16), error_sizes=(8,), widths=(4,), classes=(2,))
    study = synthetic_study(settings, (DistanceVariant("fastft"), DistanceVariant("l2")))
    found = synthetic_observations(study)
    assert found.values(found.find("", "fastft"), "times-fastft") == {0: 1.0, 1: 1.0}
    parts = ("times", "widths", "classes")
    former = {part: {"FastFT": study[part]["fastft"], "l2": study[part]["l2"]} for part in parts}
    labels = {"emd": "EMD", "fastft": "FastFT", "l2": "l2"}
    errors = {
        kind: {labels[name]: entry for name, entry in by_name.items()}
        for kind, by_name in study["errors"].items()
    }
    earlier = synthetic_observations({**study, **former, "errors": errors})
    assert earlier.to_json() == found.to_json()


def test_a_distance_stops_before_it_takes_too_long():
    settings = StudySettings(4, 3, sizes=(16, 1024), error_sizes=(), widths=(4,), classes=(2,), budget=1e-6)
    assert synthetic_study(settings, (DistanceVariant("emd"),))["times"]["emd"]["sizes"] == [16]


def test_a_distance_that_is_too_large_at_every_size_has_no_times_and_its_errors():
    settings = StudySettings(4, 2, sizes=(16,), error_sizes=(8,), widths=(4,), classes=(2,))
    lines = []
    study = synthetic_study(settings, (DistanceVariant("ft", largest=8), DistanceVariant("l2")), lines.append)
    assert [line for line in lines if ": times" in line] == [
        "time of FT: times not measured, every size is too large",
        "time of l2: times up to 16",
    ]
    assert study["times"]["ft"]["sizes"] == study["build"] == []
    found = synthetic_observations(study)
    metrics = {row.metric for row in found.rows if row.condition.objective == "ft"}
    assert "error/gaussian@8" in metrics
    assert not any(metric.startswith(("seconds", "build")) for metric in metrics)


def test_every_variant_measures_two_clouds():
    z, y = draw_clouds("gaussian", 12, 5, torch.Generator().manual_seed(0))
    tree = Hierarchy.from_paths([("a",), ("b",)])
    for variant in VARIANTS:
        assert variant.measure(z, y, tree).shape == (1,), variant.label


def test_orders_against_emd():
    features, labels = random_batch(1, [12, 12, 12], width=3)
    tree = Hierarchy.from_paths([("g", "a"), ("g", "b"), ("h", "c")])
    found = order_study(features, labels, tree)
    assert found["batch order"]["error"] > found["principal order"]["error"] >= 0
    assert found["batch order"]["spread"] > 1e-4 > found["principal order"]["spread"]


def test_isolated_study_and_its_failure(monkeypatch):
    told = []
    settings = {
        "batch_size": 8,
        "classes": 3,
        "width": 3,
        "distances": ["fastft"],
        "repeats": 2,
        "dense_pairs": 0,
    }
    # As a package that warns while the process ends.
    monkeypatch.setattr(isolated, "_START", isolated._START + "; print('a warning', file=sys.stderr)")
    found = run_isolated("steps", settings, told.append)
    assert len(found["seconds"]["fastft"]) == 2
    assert [line.startswith("step with fastft: ") for line in told] == [True]
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="'steps' failed: it said nothing"):
        run_isolated("steps")
