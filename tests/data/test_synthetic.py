import numpy as np
import pytest
import torch

from cophenet.data.synthetic import Synthetic


def points(samples):
    return samples.take(np.arange(len(samples)))


def test_shapes_counts_and_domains():
    data = Synthetic(branching=(3, 2, 5), dims=7, samples_per_class=6).load(None)
    assert data.tree.num_classes == 30
    assert data.tree.path("3.2.5") == ("3", "3.2", "3.2.5")
    inputs, labels = points(data.samples("train"))
    assert (inputs.shape, inputs.dtype) == ((180, 7), torch.float32)
    assert set(data.samples("test").counts()) == {6}
    assert labels.max() == 29
    assert data.samples("train", "source").tree.num_classes == 18
    assert data.samples("train", "target").tree.num_classes == 12


def test_same_seed_same_clouds_and_parts_differ():
    first, same = (points(Synthetic(seed=3).load(None).samples("train"))[0] for _ in range(2))
    assert torch.equal(first, same)
    assert not torch.equal(first, points(Synthetic(seed=4).load(None).samples("train"))[0])
    assert not torch.equal(first, points(Synthetic(seed=3).load(None).samples("test"))[0])


@pytest.mark.parametrize("modes", [1, 3])
def test_distances_are_those_of_the_tree(modes):
    data = Synthetic(dims=8000, samples_per_class=6, modes=modes, mode_distance=2.0, spread=0.5).load(None)
    inputs = points(data.samples("train"))[0].view(20, 6, -1).double()
    modes_of = torch.stack([inputs[:, i::modes].mean(1) for i in range(modes)], 1)
    spread = (inputs - modes_of.repeat(1, 6 // modes, 1)).square().sum(-1).mean()
    # A mean of n samples keeps 1 - 1/n of their square distance.
    assert spread.item() == pytest.approx(0.25 * (1 - modes / 6), rel=0.05)
    centres = modes_of.mean(1)
    expected = torch.from_numpy(data.tree.distances()) + (1 - torch.eye(20)) * 2 * (
        0.25 / 6 + 4 * (modes > 1) / modes
    )
    torch.testing.assert_close(
        torch.cdist(centres, centres).square(), expected.double(), rtol=0.08, atol=1e-3
    )


def test_tree_from_a_file_even_one_that_cannot_be_split(tmp_path):
    (tmp_path / "tree.nwk").write_text("(cat,dog);")
    source = Synthetic(tree_file="tree.nwk", samples_per_class=2)
    assert source.requirements(tmp_path)[0].found
    data = source.load(tmp_path)
    assert data.tree.classes == ("cat", "dog")
    assert len(data.samples("train")) == 4
    with pytest.raises(ValueError, match="leaves no coarse class"):
        data.samples("train", "source")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": 0}, "dims must be a whole number of at least 1, got 0"),
        ({"modes": 1.5}, "modes must be a whole number"),
        ({"branching": ()}, "branching must list"),
        ({"branching": 3}, "branching must list .* got 3"),
        ({"branching": "45"}, "branching must list .* got '45'"),
        ({"branching": ("a",)}, "branching must be a whole number of at least 1, got 'a'"),
        ({"dims": "a"}, "dims must be a whole number of at least 1, got 'a'"),
        ({"spread": "x"}, "spread must be finite and at least 0.0, got 'x'"),
        ({"seed": None}, "seed must be a whole number of at least 0, got None"),
        ({"tree_file": 3}, "tree_file must be the name of a file, got 3"),
        ({"branching": (2, 0)}, "branching must be a whole number of at least 1, got 0"),
        ({"spread": -1.0}, "spread must be finite and at least 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Synthetic(**options)
