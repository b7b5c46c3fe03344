"""The answer in sentences."""

from types import SimpleNamespace

import numpy as np
import pytest

from cophenet.report.answer import EvaluatedRun, _slower, answer, aspects, find_gaps
from cophenet.report.noise import Measured
from cophenet.tree import Hierarchy

TREE = Hierarchy.from_paths([("a", "1"), ("a", "2"), ("b", "3")], level_names=("coarse", "fine"))
NAMED = aspects("full", TREE)


def candidate(name, objective="fastft", *, fine=0.8, map_=0.5, severity=1.5, control=False, seeds=(0, 1, 2)):
    """A run whose seeds differ a little, in the same way as those of the others."""
    means = {"full/accuracy/fine": fine, "full/map/coarse": map_, "full/severity": severity}
    metrics = {
        key: {
            "mean": mean,
            "values": [mean + 0.01 * (seed % 3) + 1e-6 * (seed == 1) * sum(name.encode()) for seed in seeds],
        }
        for key, mean in means.items()
    }
    results = {"objective": objective, "seeds": list(seeds), "metrics": metrics, "seconds_per_epoch": 1.0}
    return EvaluatedRun(name, Measured(results), control)


def said(*candidates):
    return answer(candidates, NAMED, {"chance": 0.25, "majority": 0.3})


FLAT = candidate("flat", "flat")


def test_a_gain_beyond_noise_with_its_price():
    result = said(FLAT, candidate("tree", map_=0.6, severity=1.2, fine=0.79))
    assert (result.verdict, result.chosen) == ("helps", "tree")
    text = " ".join(result.sentences)
    assert "retrieval at coarse (MAP) +10.0 points [+10.0, +10.0]" in text
    assert "distance of mistakes -0.30 levels" in text
    assert "The price: accuracy of classes -1.0 points" in text
    assert "Guessing is right for 25.0% of the samples, always answering the largest class for 30.0%" in text


def test_no_gain_is_an_answer():
    result = said(FLAT, candidate("tree", fine=0.7))
    assert (result.verdict, result.chosen) == ("does not help", "")
    assert result.sentences[0].startswith("The tree does not help here")
    assert "tree against Flat: worse at accuracy of classes -10.0 points" in result.sentences[1]


@pytest.mark.parametrize(("shuffled", "words"), [(0.5, "It is this tree"), (0.6, "It is not the tree")])
def test_a_control_tells_whether_it_is_the_tree(shuffled, words):
    control = candidate("tree-shuffled", map_=shuffled, control=True)
    result = said(FLAT, candidate("tree", map_=0.6), control)
    assert any(words in sentence for sentence in result.sentences)
    assert (result.verdict, result.chosen) == ("helps" if shuffled == 0.5 else "does not help", "tree")


def test_a_gain_that_a_shuffled_tree_has_too_is_not_the_trees():
    control = candidate("tree-shuffled", map_=0.5, severity=1.2, control=True)
    result = said(FLAT, candidate("tree", map_=0.6, severity=1.2), control)
    assert result.verdict == "helps"
    assert any("shuffled one is as good at it: distance of mistakes." in text for text in result.sentences)


def test_what_cannot_be_told():
    one = candidate("tree", seeds=(0,))
    assert said(candidate("flat", "flat", seeds=(0,)), one).verdict == "cannot be told"
    alone = said(one)
    assert alone.verdict == ""
    assert "There is no run without a tree" in alone.sentences[-1]


def test_new_classes_are_aspects_of_a_source():
    assert "target/accuracy/coarse" in aspects("source", TREE)
    assert not any(key.startswith("target") for key in aspects("full", TREE))


def test_a_deep_tree_is_asked_at_two_levels():
    tree = Hierarchy.from_paths([f"{n // 16}/{n // 8}/{n // 4}/{n // 2}/{n}" for n in range(32)], sep="/")
    levels = [key.rpartition("/")[2] for key in aspects("full", tree) if "/map/" in key]
    assert levels == ["level2", "level4"]
    assert aspects("full", tree).keys() >= {f"full/accuracy/{level}" for level in (*levels, "level5")}


def test_a_busy_machine_is_no_price():
    def run(*seconds):
        parts = [SimpleNamespace(info={"seconds_per_epoch": list(each)}) for each in seconds]
        return Measured({"seconds_per_epoch": 99.0}, SimpleNamespace(parts=parts))

    flat = run((1.0, 1.1), (1.2, None))
    assert _slower(run((9.0, 1.05), (30.0, 20.0)), flat) == ""
    assert _slower(run((9.0, 1.5), (30.0, 20.0)), flat) == "an epoch takes 1.5 times as long"


def test_what_rounds_to_zero_has_no_sign():
    gap = find_gaps(candidate("tree", fine=0.79999).measured, FLAT.measured, NAMED)[0]
    assert "accuracy of classes 0.0 points" in gap.text


def test_equal_differences_of_seeds_are_no_certainty():
    one, other = (candidate("same", fine=fine, seeds=(0, 1)).measured for fine in (0.82, 0.8))
    gap = find_gaps(one, other, NAMED)[0]
    assert (gap.better, gap.text) == (0, "accuracy of classes +2.0 points (noise not known)")


def test_equal_differences_of_seeds_are_no_certainty_on_few_test_samples():
    gap = find_gaps(candidate("tree", fine=0.82).measured, FLAT.measured, NAMED)[0]
    assert gap.better == 1
    one, other = candidate("tree", fine=0.82).measured, candidate("flat", "flat").measured
    draws = np.random.default_rng(0).normal(size=(2, 401)) * 0.02
    one.__dict__["resampled"] = {"full/accuracy/fine": 0.82 + draws[0]}
    other.__dict__["resampled"] = {"full/accuracy/fine": 0.8 + draws[1]}
    wide = find_gaps(one, other, NAMED)[0]
    assert wide.better == 0
    assert wide.gap.high - wide.gap.low == pytest.approx(4 * 0.02 * 2**0.5, rel=0.2)
