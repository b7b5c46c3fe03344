"""What every metric class must do."""

import copy
import pickle
import warnings

import pytest
import torch
from torchmetrics import MetricCollection

from cophenet import Hierarchy, metrics
from metrics.cases import CASES, PATHS, TREE, make, run_rank, samples
from ranks import process_group
from support import DEVICE

NAMES = sorted(metrics.metric_names())
every_metric = pytest.mark.parametrize("name", NAMES)
ONE_CLASS = {"CPCC": "at least two class pairs"}


def fed(name, x, y):
    metric = make(name).to(DEVICE)
    metric.update(x.to(DEVICE), y.to(DEVICE))
    return metric


def flat(value):
    """A metric's value as one vector."""
    parts = value.values() if isinstance(value, dict) else [value]
    return torch.stack([part.double() for part in parts])


def same(one, other, **tolerance):
    torch.testing.assert_close(flat(one), flat(other), **tolerance)


def test_every_metric_has_a_case():
    assert set(NAMES) == set(CASES)
    assert set(NAMES) <= set(metrics.__all__)


@every_metric
def test_class_and_function_agree(name):
    x, y = (part.to(DEVICE) for part in samples(CASES[name].kind))
    metric = make(name).to(DEVICE)
    first = metric(x, y)
    expected = CASES[name].function(x, y)
    same(first, expected)
    same(metric.compute(), expected)
    assert flat(expected).device.type == DEVICE.type
    assert all(torch.isfinite(flat(expected)))
    assert flat(expected).abs().sum() > 0


@every_metric
def test_values_are_drawn(name):
    figures = pytest.importorskip("matplotlib.figure")
    axes = figures.Figure().subplots()  # as nothing global
    metric = fed(name, *samples(CASES[name].kind))
    figure, drawn = metric.plot(ax=axes)
    assert (figure, drawn) == (None, axes) or figure is axes.figure
    assert axes.lines
    metric.plot([metric.compute()] * 3, ax=axes)


@every_metric
def test_batches_equal_the_whole(name):
    x, y = samples(CASES[name].kind)
    metric = make(name).to(DEVICE)
    for xs, ys in zip(x.split(10), y.split(10), strict=True):
        metric.update(xs.to(DEVICE), ys.to(DEVICE))
    metric.update(x[:0].to(DEVICE), y[:0].to(DEVICE))
    same(metric.compute(), fed(name, x, y).compute())


@every_metric
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision(name, dtype):
    """The same rounded numbers, computed in at least float32, give what float64 gives."""
    x, y = samples(CASES[name].kind)
    if x.is_floating_point():
        x = x.to(dtype)
    exact = x.double() if x.is_floating_point() else x
    same(fed(name, x, y.int()).compute(), fed(name, exact, y).compute(), rtol=1e-4, atol=1e-5)


@every_metric
def test_autocast_changes_nothing(name):
    x, y = samples(CASES[name].kind)
    x = x.float() if x.is_floating_point() else x
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        mixed = fed(name, x, y).compute()
    same(mixed, fed(name, x, y).compute(), rtol=0, atol=0)


@every_metric
def test_gradients_are_not_kept(name):
    x, y = samples(CASES[name].kind)
    if x.is_floating_point():
        x.requires_grad_()
    assert not flat(fed(name, x, y).compute()).requires_grad
    assert not flat(CASES[name].function(x.detach(), y)).requires_grad


@every_metric
def test_pickle_and_copy_carry_the_state(name):
    x, y = samples(CASES[name].kind)
    metric = fed(name, x[:20], y[:20])
    for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        twin.update(x[20:].to(DEVICE), y[20:].to(DEVICE))
        same(twin.compute(), fed(name, x, y).compute())


@every_metric
def test_reset_forgets(name):
    x, y = samples(CASES[name].kind)
    metric = fed(name, x[:9], y[:9])
    metric.reset()
    metric.update(x.to(DEVICE), y.to(DEVICE))
    same(metric.compute(), fed(name, x, y).compute())


@every_metric
def test_order_of_samples(name):
    x, y = samples(CASES[name].kind)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    same(fed(name, x[order], y[order]).compute(), fed(name, x, y).compute())


@every_metric
def test_numbering_of_classes(name):
    """The same tree with its classes in another order: new class c is old class `renamed[c]`."""
    x, y = samples(CASES[name].kind)
    renamed = torch.randperm(len(PATHS), generator=torch.Generator().manual_seed(3))
    new_number = renamed.argsort()
    tree = Hierarchy.from_paths([PATHS[old] for old in renamed])
    metric = CASES[name].make(tree, renamed).to(DEVICE)
    turned = {"probabilities": lambda: x[:, renamed], "classes": lambda: new_number[x], "features": lambda: x}
    metric.update(turned[CASES[name].kind]().to(DEVICE), new_number[y].to(DEVICE))
    same(metric.compute(), fed(name, x, y).compute())


@every_metric
def test_no_samples_is_said(name):
    x, y = samples(CASES[name].kind)
    metric = fed(name, x[:0], y[:0])
    with pytest.warns(RuntimeWarning, match="undefined, returning NaN"):
        value = metric.compute()
    assert flat(value).isnan().all()


@every_metric
def test_scalars_are_float64_whatever_goes_in(name):
    x, y = samples(CASES[name].kind)
    x = x.float() if x.is_floating_point() else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in (0, 1, len(y)):
            value = fed(name, x[:count], y[:count]).compute()
            parts = value.values() if isinstance(value, dict) else [value]
            assert all(part.dtype == torch.float64 for part in parts)


@every_metric
@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16])
def test_labels_of_small_types(name, dtype):
    x, y = samples(CASES[name].kind)
    same(fed(name, x, y.to(dtype)).compute(), fed(name, x, y).compute())


@every_metric
@pytest.mark.parametrize("tree", [{"a": ["b"]}, None], ids=["dict", "none"])
def test_what_is_no_tree_is_named(name, tree):
    if name == "MAPAtR":
        pytest.skip("it needs no tree")
    options = {"HierarchicalPrecisionAtK": {"k": 1}, "PrototypeMAP": {"prototypes": torch.eye(2), "level": 1}}
    with pytest.raises(
        ValueError, match=r"tree must be a cophenet.Hierarchy, got|tree and level go together"
    ):
        getattr(metrics, name)(tree=tree, **options.get(name, {}))


@pytest.mark.parametrize("tree", [{"a": ["b"]}, None], ids=["dict", "none"])
def test_functions_name_what_is_no_tree(tree):
    p, y = samples("probabilities")
    guesses, features = samples("classes")[0], samples("features")[0]
    for call in (
        lambda: metrics.level_accuracy(p, y, tree),
        lambda: metrics.full_path_accuracy(p, y, tree),
        lambda: metrics.level_calibration_error(p, y, tree),
        lambda: metrics.expected_cost(p, tree),
        lambda: metrics.decision_cost(p, y, tree),
        lambda: metrics.hierarchical_distance(p, y, tree),
        lambda: metrics.mistake_severity(p, y, tree),
        lambda: metrics.hierarchical_precision_recall(guesses, y, tree),
        lambda: metrics.hierarchical_precision_at_k(features, y, tree, k=1),
        lambda: metrics.average_hierarchical_precision(features, y, tree),
        lambda: metrics.level_labels(y, tree, 1),
    ):
        with pytest.raises(ValueError, match=r"tree must be a cophenet.Hierarchy, got (dict|NoneType)"):
            call()


def test_a_wrong_word_has_a_hint():
    with pytest.raises(ValueError, match="by must be one of sum, argmax, got 'argmx'; did you mean 'argmax'"):
        metrics.LevelAccuracy(TREE, by="argmx")


@every_metric
def test_one_class(name):
    x, y = samples(CASES[name].kind, classes=1)
    metric = fed(name, x, y)
    if name in ONE_CLASS:
        with pytest.warns(RuntimeWarning, match=ONE_CLASS[name]):
            assert flat(metric.compute()).isnan().all()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.isfinite(flat(metric.compute())).all()


@every_metric
def test_one_sample(name):
    x, y = samples(CASES[name].kind)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = flat(fed(name, x[:1], y[:1]).compute())
    assert value.isnan().all() if seen else torch.isfinite(value).all()


@every_metric
def test_wrong_labels_are_named(name):
    x, y = samples(CASES[name].kind)
    with pytest.raises(ValueError, match=r"labels must have shape \(45,\), got \(44,\)"):
        fed(name, x, y[1:])
    with pytest.raises(ValueError, match="labels must be integers"):
        fed(name, x, y.double())
    if name not in ("MAPAtR", "PrototypeMAP"):
        with pytest.raises(ValueError, match=rf"labels must lie in 0..{TREE.num_classes - 1}, got 99"):
            fed(name, x, torch.where(y == 1, 99, y))


@every_metric
def test_nan_is_an_error(name):
    x, y = samples(CASES[name].kind)
    if not x.is_floating_point():
        return
    x[3, 2] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        fed(name, x, y)


def test_a_collection_keeps_metrics_apart_whose_first_batch_agrees():
    """All is right in the first batch, so that many sums are equal; torchmetrics joins equal states."""
    p, y = (part.to(DEVICE) for part in samples("probabilities"))
    right = torch.eye(len(PATHS), dtype=p.dtype, device=DEVICE)
    parts = {
        "distance": metrics.HierarchicalDistance(TREE),
        "best of three": metrics.HierarchicalDistance(TREE, k=3, best=True),
        "cost": metrics.DecisionCost(TREE),
        "path cost": metrics.DecisionCost(TREE, kind="path"),
        "sum": metrics.LevelAccuracy(TREE),
        "argmax": metrics.LevelAccuracy(TREE, by="argmax"),
    }
    together, alone = (
        MetricCollection(copy.deepcopy(parts)).to(DEVICE),
        MetricCollection(parts, compute_groups=False),
    )
    for collection in (together, alone.to(DEVICE)):
        collection.update(right, torch.arange(len(PATHS), device=DEVICE))
        collection.update(p, y)
    assert together.compute() == alone.compute()


@pytest.fixture(scope="module")
def results_of_ranks():
    with process_group(2) as ranks:
        return ranks(run_rank)


@every_metric
def test_two_processes_equal_one(name, results_of_ranks):
    expected = CASES[name].function(*samples(CASES[name].kind))
    for results in results_of_ranks:
        same(results[name], expected)
        same(results[f"{name}, one rank empty"], expected)
