"""The loss of n processes is that of one process with all their samples. Real gloo processes."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import distributed_cases as cases
from cophenet import CPCCLoss
from cophenet.cpcc.exchange import process_count, share_of
from cophenet.objectives import StepOutput, create_objective, objective_names
from cophenet.transport import distance_names
from distributed_cases import TREE
from ranks import process_group

# Uneven shards, an empty one, classes missing on some, and one class that only the last has.
SHARDS = {2: (9, 14), 3: (15, 0, 8)}
DISTANCES = [
    *((name, {}) for name in distance_names()),
    ("fastft", {"order": "principal", "n_orders": 2}),
    ("twd", {"fit": "pair"}),
    ("sinkhorn", {"reg": 0.5, "differentiate": "through", "relative": True}),
    ("swd", {"p": 1.0, "flow_weights": "distance"}),
    ("emd", {"flow_weights": "inverse", "level": 1}),
    ("bures", {"flow_weights": "distance"}),
]
BASELINES = [(name, {}) for name in objective_names() if name not in distance_names()] + [
    ("quadruplet", {"cpcc": "emd"}),
    ("rank", {"cpcc": {"distance": "swd"}, "target": "published"}),
    ("gc", {"variant": "haf", "cpcc": "l2"}),
]


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request):
    with process_group(request.param) as group:
        group.count = request.param
        yield group


def whole_batch(seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    y = torch.tensor([*rng.integers(0, 8, 20), 8, 8, 0])
    x = torch.tensor(rng.normal(size=(len(y), 7)) + 3 * rng.normal(size=(9, 7))[y.numpy()], dtype=dtype)
    return x, y


def cut(batch, count):
    x, y = batch
    return list(zip(x.split(SHARDS[count]), y.split(SHARDS[count]), strict=True))


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize(
    ("name", "options"), DISTANCES + BASELINES, ids=lambda v: v if isinstance(v, str) else "-".join(v)
)
def test_gradients_are_those_of_one_process(ranks, name, options):
    batch = whole_batch()
    expected, gradient = cases.objective_step(name, options, *batch, parallel=False)
    assert gradient.norm() > 1e-6
    answers = ranks(cases.objective_case, name, options, cut(batch, ranks.count))
    for terms, found in answers:
        assert relative(found, gradient) < 1e-10
        assert list(terms) == list(expected)
    for key, value in expected.items():
        values = [terms[key] for terms, _ in answers]
        # Terms that compare samples are those of the whole batch on each process, means on their average.
        if key in ("cpcc", "quadruplet", "rank"):
            assert values == pytest.approx([value] * ranks.count, rel=1e-10, abs=1e-12)
        assert np.mean(values) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("name", ["l2", "fastft"])
def test_gradients_in_single_precision(ranks, name):
    batch = whole_batch(dtype=torch.float32)
    _, gradient = cases.objective_step(name, {}, *batch, parallel=False)
    for _, found in ranks(cases.objective_case, name, {}, cut(batch, ranks.count)):
        assert relative(found, gradient) < 1e-5


@pytest.mark.parametrize("name", ["l2", "fastft", "emd"])
def test_given_weights_are_gathered_too(ranks, name):
    batches = [whole_batch(seed) for seed in range(2)]
    masses = [torch.rand(23, generator=torch.Generator().manual_seed(seed)) + 0.1 for seed in range(2)]
    expected = cases.loss_steps(CPCCLoss(TREE, name), batches, False, masses)
    parts = [mass.split(SHARDS[ranks.count]) for mass in masses]
    for seen in ranks(cases.loss_case, {"distance": name}, [cut(b, ranks.count) for b in batches], parts):
        for (value, gradient), (loss, found) in zip(expected, seen, strict=True):
            assert loss == pytest.approx(value, rel=1e-10)
            assert relative(found, gradient) < 1e-10


@pytest.mark.parametrize("name", ["swd", "ft"])
def test_random_numbers_are_those_of_the_first_process(ranks, name):
    batch = whole_batch()
    criterion = CPCCLoss(TREE, name, generator=torch.Generator().manual_seed(5))
    expected = cases.loss_steps(criterion, [batch] * 2, False, [None] * 2)
    for seen in ranks(cases.seeded_case, name, cut(batch, ranks.count)):
        for (value, gradient), (loss, found) in zip(expected, seen, strict=True):
            assert loss == pytest.approx(value, rel=1e-10)
            assert relative(found, gradient) < 1e-10


@pytest.mark.parametrize("name", ["l2", "swd"])
def test_random_numbers_of_an_objective_and_of_its_distance(ranks, name):
    batch = whole_batch()
    expected = cases.two_generators_case(0, name, [batch])
    for wanted, *seen in zip(
        expected, *ranks(cases.two_generators_case, name, cut(batch, ranks.count)), strict=True
    ):
        for term in ("cpcc", "noise"):
            assert np.mean([terms[term] for terms in seen]) == pytest.approx(wanted[term], rel=1e-10)


@pytest.mark.parametrize("name", ["l2", "fastft", "swd"])
def test_undefined_loss(ranks, name):
    x, y = whole_batch()
    parts = cut((x, y * 0 + 2), ranks.count)
    for (loss, gradient), *_ in ranks(cases.loss_case, {"distance": name, "weight": 0.7}, [parts], [None]):
        assert loss == 0.7
        assert not gradient.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("width", "features must have one width on all processes, got 3, "),
        ("dtype", "features must have one dtype on all processes, got torch.float32, "),
        ("nan", "features must be finite, got NaN or inf in 1 of 8 samples (first: sample 5)"),
        ("label", "labels must lie in 0..8, the classes of the tree, got 9"),
        ("float8", "process 1: features must be "),
        ("float labels", "process 1: labels must be integers, got torch.float32"),
        ("no rows", "the batch is empty on all processes"),
    ],
)
@pytest.mark.parametrize("name", ["l2", "emd"])
def test_every_process_raises_the_same_error(ranks, change, message, name):
    sizes = [4, 4, *[0] * (ranks.count - 2)]
    if change == "no rows":
        sizes = [0] * ranks.count
    parts = [(torch.randn(size, 3), torch.arange(size) * 2) for size in sizes]
    x, y = parts[1]
    if change == "width":
        parts[1] = (torch.randn(4, 5), y)
    elif change == "dtype":
        parts[1] = (x.double(), y)
    elif change == "nan":
        x[1, 0] = torch.nan
    elif change == "label":
        y[2] = 9
    elif change == "float8":
        parts[1] = (x.to(torch.float8_e5m2), y)
    elif change == "float labels":
        parts[1] = (x, y.float())
    loss, objective, after = zip(*ranks(cases.error_case, name, parts), strict=True)
    for told in (loss, objective):
        assert set(told) == {told[0]}
        assert told[0].startswith(message)
    assert set(after) == {"no error"}


def test_errors_of_objectives_without_cpcc(ranks):
    parts = [(torch.randn(3, 3), torch.tensor([0, 1, 2])) for _ in range(ranks.count)]
    parts[1][1][0] = -3
    told = ranks(cases.objective_error_case, "hxe", parts)
    assert set(told) == {"labels must lie in 0..8, the classes of the tree, got -3"}
    parts[1] = (torch.full((3, 3), torch.inf), torch.tensor([0, 1, 2]))
    told = ranks(cases.objective_error_case, "rank", parts)
    assert set(told) == {f"features must be finite, got NaN or inf in 3 of {3 * ranks.count} samples"}


@pytest.mark.parametrize("options", [{}, {"cpcc": "l2"}])
def test_a_missing_head_on_one_process(ranks, options):
    told = ranks(cases.heads_error_case, options)
    assert set(told) == {"process 1: heads must hold a module with a weight for 'level1', got None"}


def test_an_error_in_one_share_of_the_pairs_reaches_all(ranks):
    assert set(ranks(cases.share_error_case, "emd")) == {"process 1: these pairs have no distance"}


@pytest.mark.parametrize("name", ["l2", "swd", "bures", "emd"])
def test_collapsed_features_are_undefined_for_all(ranks, name):
    """Each process has its share of the classes, all of them in one place."""
    y = torch.arange(40) * 7 % 9
    z = torch.randn(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).repeat(40, 1)
    parts = [(z[y % ranks.count == rank], y[y % ranks.count == rank]) for rank in range(ranks.count)]
    for loss, gradient in ranks(cases.collapsed_case, name, parts):
        assert loss == 1
        assert not gradient.any()


@pytest.mark.parametrize(
    ("where", "kind", "message"),
    [
        ("forward", "KeyError", "KeyError: 'a key'"),
        ("backward", "OutOfMemoryError", "OutOfMemoryError: no memory for "),
        ("terms", "IndexError", "IndexError: list index out of range"),
        ("checks", "ZeroDivisionError", "ZeroDivisionError: no labels"),
    ],
)
def test_any_error_of_one_process_is_raised_by_all_at_once(ranks, where, kind, message):
    """The process itself raises what it has, the others say whose it is; and all can go on."""
    parts = [(torch.randn(6, 3), torch.arange(6)) for _ in range(ranks.count)]
    seen, after = zip(*ranks(cases.any_error_case, where, parts), strict=True)
    assert seen[1][0] == kind
    for rank, (other, text) in enumerate(seen):
        if rank != 1:
            assert other == "RuntimeError"
            assert text.startswith(f"process 1: {message}")
    assert {one[0] for one in after} == {"none"}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("tree", r"tree is a tree of 9 classes \(digest \w{8}\) on process 0 and a tree of 9 classes .* on "),
        ("distance", 'distance.class is "?EMD"? on process 0 and "?L2"? on '),
        ("option", r"distance.reg is 5 on process 0 and 3 on "),
        ("weight", r"weight is 1 on process 0 and 0.5 on "),
        ("memory", r"memory.shared_state is "),
        ("objective", r"\w+ is .* on "),
        ("objective's option", r"criterion.weight is 1 on process 0 and 2 on "),
    ],
)
def test_losses_made_otherwise_are_noticed_at_the_first_step(ranks, kind, message):
    parts = [(torch.randn(6, 3), torch.arange(6)) for _ in range(ranks.count)]
    seen, after = zip(*ranks(cases.difference_case, kind, parts), strict=True)
    assert {one[0] for one in seen} == {"ValueError"}
    assert len({one[1] for one in seen}) == 1
    assert re.fullmatch(f"all processes must be set up alike, but {message}.*process 1", seen[0][1])
    assert {one[0] for one in after} == {"none"}


def test_equal_losses_written_otherwise_are_the_same(ranks):
    parts = [(torch.randn(6, 3), torch.arange(6)) for _ in range(ranks.count)]
    for now, after in ranks(cases.difference_case, "the same", parts):
        assert now[0] == after[0] == "none"


def test_a_step_has_four_exchanges_and_the_first_has_no_more(ranks):
    """Shapes, rows, distances and gradients; with the digest of the setup among the shapes."""
    parts = [(torch.randn(6, 3), torch.arange(6)) for _ in range(ranks.count)]
    for sent in ranks(cases.exchange_case, 3, parts):
        assert sent == sent[:4] * 3
        assert sent[0] == 11


def test_wrong_flow_weights_on_one_process(ranks):
    some, bad = zip(*ranks(cases.weights_error_case), strict=True)
    assert set(some) == {some[0]}
    assert some[0].startswith("flow_weights must be given on all processes or on none, got True, False")
    assert set(bad) == {"flow_weights must be finite, not negative, and positive for a sample of every class"}


def test_gather_none_keeps_to_the_shard(ranks):
    parts = [part for part in cut(whole_batch(), ranks.count) if len(part[1])]
    parts += parts[: ranks.count - len(parts)]
    for (x, y), (loss, gradient, flat) in zip(parts, ranks(cases.shard_case, parts), strict=True):
        z = x.clone().requires_grad_()
        own = CPCCLoss(TREE, "fastft")(z, y)
        own.backward()
        assert loss == own.item()
        assert torch.equal(gradient, z.grad)
        step = StepOutput(z, {"level2": x @ torch.ones(7, 9).to(x)}, y)
        assert flat == create_objective("flat", TREE)(step)["cross_entropy"].item()


@pytest.mark.parametrize("name", ["emd", "fastft", "swd", "l2"])
def test_processes_share_the_pairs(ranks, name):
    batch = whole_batch()
    asked = np.array(ranks(cases.work_case, name, cut(batch, ranks.count)))
    classes = len(batch[1].unique())
    whole = classes * (classes - 1) // 2
    if name == "l2":
        assert (asked == whole).all()
    else:
        assert asked.sum() == whole
        assert asked.max() <= 1.5 * whole / ranks.count


def test_fewer_pairs_than_processes(ranks):
    """With classes of unequal size a process may have no pair, and draws all the same."""
    rng = np.random.default_rng(0)
    y = torch.tensor([0] * 21 + [1, 3])
    batch = torch.tensor(rng.normal(size=(23, 7))), y
    expected = cases.loss_steps(CPCCLoss(TREE, "swd"), [batch] * 2, False, [None] * 2)
    parts = [cut(batch, ranks.count)] * 2
    for seen in ranks(cases.loss_case, {"distance": "swd"}, parts, [None] * 2):
        assert [loss for loss, _ in seen] == pytest.approx([loss for loss, _ in expected], rel=1e-10)


@pytest.mark.parametrize("name", ["l2", "fastft"])
def test_without_gradients_and_in_half_precision(ranks, name):
    x, y = whole_batch(dtype=torch.float32)
    parts = cut((x, y), ranks.count)
    expected = CPCCLoss(TREE, name)(x, y).item()
    assert ranks(cases.no_grad_case, name, parts) == pytest.approx([expected] * ranks.count, rel=1e-5)
    z = x.bfloat16().requires_grad_()
    loss = CPCCLoss(TREE, name)(z, y)
    loss.backward()
    answers = ranks(cases.half_case, name, parts)
    for value, dtype, _ in answers:
        assert dtype == torch.float32
        assert value == pytest.approx(loss.item(), rel=1e-5)
    found = torch.cat([gradient for *_, gradient in answers]).float() / ranks.count
    torch.testing.assert_close(found, z.grad.float(), rtol=0.02, atol=1e-5)


def test_processes_remember_the_whole_batch(ranks):
    """Losses, gradients and memory are those of one process, step after step."""
    options = {"distance": "fastft", "memory": 30, "memory_age": 2}
    criterion, steps = CPCCLoss(TREE, **options), [whole_batch(seed) for seed in range(4)]
    expected = cases.loss_steps(criterion, steps, False, [None] * 4)
    for seen, state in ranks(cases.memory_case, options, [cut(step, ranks.count) for step in steps]):
        for (value, gradient), (loss, found) in zip(expected, seen, strict=True):
            assert loss == pytest.approx(value, rel=1e-9)
            assert relative(found, gradient) < 1e-8
        for key, part in criterion.state_dict()["memory._extra_state"].items():
            torch.testing.assert_close(state["memory._extra_state"][key], part)


@pytest.mark.parametrize("options", [{"distance": "l2"}, {"distance": "fastft", "memory": 30}])
def test_with_labels_on_the_host_no_process_waits_for_its_device(ranks, options):
    """Two steps on devices that are none, of processes that can also exchange from host to host."""
    steps = [cut(whole_batch(seed), ranks.count) for seed in range(2)]
    criterion = CPCCLoss(TREE, **options)
    expected = [criterion(*whole_batch(seed)).item() for seed in range(2)]
    there, here = (ranks(cases.device_case, options, steps, on_host) for on_host in (False, True))
    for one, other in zip(there, here, strict=True):
        assert [loss for loss, *_ in other] == pytest.approx(expected, rel=1e-9)
        assert "download" in one[1][3]
        assert other[1][3] == []
        for left, right in zip(one, other, strict=True):
            assert (left[0], left[2]) == (right[0], right[2])
            assert torch.equal(left[1], right[1])


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 7))
def test_shares_cover_the_pairs_once_and_evenly(costs, count):
    costs = np.array(costs, dtype=np.int64)
    shares = [share_of(costs, rank, count) for rank in range(count)]
    assert np.array_equal(
        np.concatenate([np.arange(len(costs))[share] for share in shares]), np.arange(len(costs))
    )
    largest = max((costs[share].sum() for share in shares), default=0)
    assert largest <= costs.sum() / count + (costs.max() if len(costs) else 0)


def test_one_process_gathers_nothing():
    assert process_count("all") == process_count("none") == 1


@pytest.mark.parametrize("name", ["fastft", "emd"])
def test_ten_steps_of_a_residual_network_are_those_of_one_process(ranks, name):
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(10):
        labels = torch.randint(9, (23,), generator=generator)
        images = torch.randn(23, 1, 8, 8, generator=generator, dtype=torch.float64)
        batches.append((images + labels[:, None, None, None] / 4, labels))
    expected = cases.resnet_steps(name, batches, parallel=False)
    assert expected[0] - expected[-1] > 0.05  # it learns, so the steps matter
    for found in ranks(cases.resnet_case, name, [cut(batch, ranks.count) for batch in batches]):
        assert found == pytest.approx(expected, rel=1e-9)
