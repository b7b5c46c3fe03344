"""Classes that look misplaced by their features."""

import numpy as np
import pytest

from cophenet.cli import main
from cophenet.tree import Hierarchy
from cophenet.tree.review import misplaced_classes


def blobs(groups, samples=12, noise=0.5, seed=0):
    """Features of classes around the centres of groups, and their labels."""
    rng = np.random.default_rng(seed)
    centres = 10 * np.eye(8)[np.asarray(groups)] + rng.normal(size=(len(groups), 8))
    labels = np.repeat(np.arange(len(groups)), samples)
    return centres[labels] + noise * rng.normal(size=(len(labels), 8)), labels


def tree(groups):
    return Hierarchy.from_paths([(f"g{group}", f"c{label}") for label, group in enumerate(groups)])


def test_a_moved_class_is_found_with_its_evidence():
    features, labels = blobs([0, 0, 0, 1, 1, 1, 2, 2])
    (found,) = misplaced_classes(features, labels, tree([0, 0, 0, 1, 1, 2, 2, 2]))
    assert (found.name, found.group, found.better) == ("c5", "g2", "g1")
    assert found.other < found.own
    assert set(found.nearest[:2]) == {"c3", "c4"}
    means = np.stack([features[labels == label].mean(0) for label in range(8)])
    assert found.own == pytest.approx(np.linalg.norm(means[[6, 7]] - means[5], axis=1).mean())
    assert found.other == pytest.approx(np.linalg.norm(means[[3, 4]] - means[5], axis=1).mean())


def test_nothing_is_found_in_the_right_tree_or_in_noise():
    groups = [0, 0, 0, 1, 1, 1]
    features, labels = blobs(groups)
    assert misplaced_classes(features, labels, tree(groups)) == []
    noise = np.random.default_rng(1).normal(size=(len(labels), 64))
    assert len(misplaced_classes(noise, labels, tree(groups))) <= 2


def test_single_samples_and_stars_are_not_judged():
    features, labels = blobs([0, 0, 1, 1], samples=1)
    assert misplaced_classes(features, labels, tree([0, 1, 0, 1])) == []
    features, labels = blobs([0, 0, 1])
    assert misplaced_classes(features, labels, Hierarchy.from_paths([("a",), ("b",), ("c",)])) == []


def test_the_command_says_it(tmp_path, capsys):
    features, labels = blobs([0, 0, 0, 1, 1, 1, 2, 2])
    own = tree([0, 0, 0, 1, 1, 2, 2, 2])
    own.write(tmp_path / "tree.json")
    names = np.array(own.classes)[labels]
    np.savez(tmp_path / "v.npz", features=features, labels=names)
    with pytest.raises(SystemExit):
        main(["tree", "review", str(tmp_path / "tree.json"), "--features", str(tmp_path / "v.npz")])
    out = capsys.readouterr().out
    assert "One class looks misplaced:\n  c5 is in g2, but looks like g1: mean distance" in out


def test_the_tree_is_read_once_as_its_format_says(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, labels = blobs([0, 0, 0, 1, 1, 1, 2, 2])
    own = tree([0, 0, 0, 1, 1, 2, 2, 2])
    own.write(tmp_path / "tree.json")
    (tmp_path / "tree.json").rename("tree.txt")
    numbers = Hierarchy.from_paths([("g", str(7 - label)) for label in range(8)])
    numbers.write(tmp_path / "numbers.json")
    np.savez("v.npz", features=features, labels=labels)

    def review(*options):
        with pytest.raises(SystemExit) as end:
            main(["tree", "review", *options])
        return end.value.code, "".join(capsys.readouterr())

    code, text = review("tree.txt", "--format", "json", "--features", "v.npz")
    assert code == 0, text
    assert "c5 is in g2, but looks like g1" in text
    # Numbers that may be names or positions are not guessed; the option named is one of this command.
    code, text = review("numbers.json", "--features", "v.npz")
    assert code == 2
    assert "say which with --labels" in text
    assert review("numbers.json", "--features", "v.npz", "--labels", "names")[0] == 0
    code, text = review("numbers.json", "--labels", "names")
    assert code == 2
    assert "got 'names' without --features" in text
