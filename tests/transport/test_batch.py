import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import group_by_class
from support import DEVICE, random_batch, random_weights


def test_rows_stand_class_by_class_in_batch_order():
    z, y = random_batch(0, [3, 1, 4])
    batch = group_by_class(z, y)
    assert batch.classes.tolist() == [0, 1, 2]
    assert batch.counts.tolist() == [3, 1, 4]
    assert batch.offsets.tolist() == [0, 3, 4, 8]
    for c in range(3):
        rows = slice(batch.offsets[c], batch.offsets[c + 1])
        assert torch.equal(batch.features[rows], z[y == c])
    assert torch.equal(batch.features, z[batch.order])
    assert list(zip(batch.first, batch.second, strict=True)) == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("labels", [[0, 1, 2], [-5, 0, 70_000], [-(2**63), 0, 2**63 - 1]])
def test_labels_may_leave_gaps_and_be_of_any_size(labels):
    z, y = random_batch(0, [3, 1, 4])
    batch, expected = group_by_class(z, torch.tensor(labels, device=DEVICE)[y]), group_by_class(z, y)
    assert batch.classes.tolist() == labels
    assert batch.counts.tolist() == [3, 1, 4]
    assert torch.equal(batch.order, expected.order)
    assert torch.equal(batch.means(), expected.means())


def test_means_and_masses():
    z, y = random_batch(1, [3, 1, 4])
    batch = group_by_class(z, y)
    expected = torch.stack([z[y == c].mean(0) for c in range(3)])
    torch.testing.assert_close(batch.means(), expected)
    torch.testing.assert_close(
        batch.mass, (1 / torch.tensor([3.0, 1, 4])).double().to(DEVICE)[batch.segments]
    )


@pytest.mark.parametrize(("scheme", "sign"), [("distance", 1), ("inverse", -1)])
def test_softmax_weights(scheme, sign):
    z, y = random_batch(2, [3, 1, 4])
    batch = group_by_class(z, y, flow_weights=scheme)
    for c in range(3):
        cloud = z[y == c]
        expected = torch.softmax(sign * (cloud - cloud.mean(0)).norm(dim=1), 0)
        torch.testing.assert_close(batch.weights[batch.segments == c], expected)


@given(st.integers(0, 100), st.floats(1e-200, 1e200))
@settings(max_examples=20, deadline=None)
def test_given_weights_are_scaled_within_each_class(seed, scale):
    z, y = random_batch(seed, [2, 3])
    weights = random_weights(seed, 5)
    batch = group_by_class(z, y, flow_weights=weights * scale)
    for c in range(2):
        expected = weights[y == c] / weights[y == c].sum()
        torch.testing.assert_close(batch.weights[batch.segments == c], expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_computed_in_float32(dtype):
    z, y = random_batch(0, [2, 2])
    assert group_by_class(z.to(dtype), y).features.dtype == torch.float32


def test_a_finite_batch_whose_sum_overflows_is_accepted():
    z = torch.full((4, 2), 3e38, device=DEVICE)
    assert group_by_class(z, torch.tensor([0, 0, 1, 1], device=DEVICE)).num_classes == 2


def test_sort_within_classes():
    z, y = random_batch(3, [4, 3, 5])
    batch = group_by_class(z, y)
    scores = torch.cat((batch.features.T, torch.zeros_like(batch.features.T[:1])))
    for score, order in zip(scores, batch.sort_within_classes(scores), strict=True):
        assert torch.equal(batch.segments[order], batch.segments)
        for c in range(3):
            values = score[order][batch.segments == c]
            assert torch.equal(values, values.sort().values)


Z, Y = torch.zeros(4, 3, device=DEVICE), torch.tensor([0, 0, 1, 2], device=DEVICE)
NAN = Z.clone()
NAN[2, 1] = torch.nan


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        (Z.cpu().numpy(), Y, {}, "must be torch tensors, got ndarray and Tensor"),
        (Z[0], Y, {}, r"shape \(B, d\), got \(3,\)"),
        (Z.long(), Y, {}, "floating-point"),
        (Z, Y[:3], {}, r"labels must have shape \(4,\), got \(3,\)"),
        (Z, Y.float(), {}, "labels must be integers, got torch.float32"),
        (Z, Y.bool(), {}, "labels must be integers, got torch.bool"),
        (Z[:0], Y[:0], {}, "at least one sample"),
        (Z[:, :0], Y, {}, "at least one sample"),
        (NAN, Y, {}, r"NaN or inf in 1 of 4 samples \(first: sample 2\)"),
        (Z / 0 + torch.inf, Y, {}, "NaN or inf in 4 of 4"),
        (Z, Y, {"num_classes": 2}, r"labels must lie in 0..1, the classes of the tree, got 2"),
        (Z, Y - 1, {"num_classes": 3}, "got -1"),
        (Z, Y, {"flow_weights": "even"}, "one of uniform, distance, inverse or a tensor, got 'even'"),
        (Z, Y, {"flow_weights": Z}, r"shape \(4,\), got \(4, 3\)"),
        (Z, Y, {"flow_weights": Y}, "floating-point"),
        (Z, Y, {"flow_weights": Z[:, 0]}, "positive for a sample of every class"),
        (Z, Y, {"flow_weights": Z[:, 0] - 1}, "not negative"),
        (Z, Y, {"flow_weights": NAN[:, 1]}, "must be finite"),
    ],
)
def test_bad_input_is_named(features, labels, options, message):
    with pytest.raises(ValueError, match=message):
        group_by_class(features, labels, **options)


def test_regrouping_by_an_ancestor():
    z, y = random_batch(0, [2, 3, 1])
    ancestor = np.array([1, 0, 1])
    batch = group_by_class(z, y, num_classes=3, regroup=ancestor)
    assert batch.classes.tolist() == [0, 1]
    assert batch.counts.tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"0\.\.2, the classes of the tree, got 7"):
        group_by_class(z, torch.where(y == 2, 7, y), num_classes=3, regroup=ancestor)


def test_large_labels_are_only_names():
    z, y = random_batch(0, [2, 2])
    batch = group_by_class(z, y * 10**12)
    assert np.array_equal(batch.classes, [0, 10**12])
