"""Options of a wrong kind, and settings that cannot go together, are refused when a recipe is read."""

import re

import pytest

from cophenet.data.source import create_source, source_names
from cophenet.recipes import load_recipe
from cophenet.recipes.options import build, check_types


def refusal(name, *overrides) -> str:
    with pytest.raises(ValueError) as error:
        load_recipe(name, None, overrides)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("folder", "data.options.test_fraction=abc"),
        ("folder", "data.options.seed=1.5"),
        ("synthetic", "data.options.branching=3"),
        ("synthetic", "data.options.branching=[3, x]"),
        ("synthetic", "data.options.tree_file=[5]"),
        ("vectors", "data.options.train=5"),
        ("vectors", "data.options.test_share=abc"),
        ("living17", "data.options.mid=abc"),
        ("inat21-mini", "data.options.levels=5"),
        ("synthetic", "model.options.hidden=5"),
        ("synthetic", "model.options.hidden=[5, x]"),
        ("cifar100", "model.options.stem=[1]"),
        ("cifar100", "objective.options.soft.beta=abc"),
        ("cifar100", "objective.options.soft.beta=-1"),
        ("cifar100", "objective.options.hxe.normalize=3"),
        ("cifar100", "objective.options.gc.variant=hafe"),
        ("cifar100", "objective.options.quadruplet.margins=3"),
        ("cifar100", "objective.options.sinkhorn.reg=abc"),
        ("cifar100", "objective.options.curriculum.epochs=5"),
        ("cifar100", "objective.options.curriculum.epochs=[9]"),
        ("cifar100", "objective.options.curriculum.epochs=[9, 5, 3]"),
        ("cifar100", "objective.options.curriculum.epochs=[9, x]"),
        ("cifar100", "objective.options.curriculum.level=[1]"),
    ],
)
def test_options_of_a_wrong_kind_are_refused_by_key_and_value(name, override):
    key = override.partition("=")[0]
    told = refusal(name, override)
    assert told.startswith(f"--set {override}: {key}")
    assert ", got " in told


class Fragile:
    def __init__(self, sizes=(1,), label: "Unknown" = ""):  # noqa: F821
        self.total, self.label = sum(sizes), label.upper()


def test_the_option_that_breaks_an_undeclared_type_is_named():
    assert build("model.options", Fragile, {"sizes": [2, 3]}).total == 5
    with pytest.raises(
        ValueError, match=re.escape("model.options.sizes has a value that does not work, got 3")
    ):
        build("model.options", Fragile, {"label": "a", "sizes": 3})
    with pytest.raises(ValueError, match=r"model.options has values that do not work"):
        build("model.options", Fragile, {"label": 2, "sizes": 3})


def test_values_of_declared_types_pass():
    class Declared:
        def __init__(self, share: float = 0.1, sizes: "list[int] | None" = None, made: Fragile = None): ...

    check_types("k", Declared, {"share": 1, "sizes": [2], "unknown": 3, "made": Fragile()})
    with pytest.raises(ValueError, match=r"k\.made must be"):
        check_types("k", Declared, {"made": 3})


def test_trees_that_need_no_files_are_known():
    unknown = {name for name in source_names() if create_source(name).tree() is None}
    assert unknown == {"folder", "inat21-mini", "vectors"}
    assert create_source("synthetic", tree_file="tree.yaml").tree() is None


@pytest.mark.parametrize(
    "name",
    ["cifar10", "cifar100", "digits", "fashion-mnist", "living17", "nonliving26", "entity13", "entity30"],
)
@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("tree.merge_levels=[foo]", "tree.merge_levels must be one of .*, got 'foo'"),
        ("tree.level_weights.7=2", "tree.level_weights must be by depth, 1 to 2, .*, got 7"),
        ("tree.level_weights.nosuch=2", "tree.level_weights must be by .*, got 'nosuch'"),
        ("tree.node_weights.nosuch=2", "tree.node_weights must be by .*, got 'nosuch'"),
    ],
)
def test_trees_cannot_change_where_they_have_nothing(name, override, told):
    text = refusal(name, "epochs=3", override)
    assert text.startswith(f"--set {override}: ")
    assert re.search(told, text)


@pytest.mark.parametrize(
    ("name", "override", "near"),
    [
        ("cifar100", "tree.level_weights.corse=2", "coarse"),
        ("cifar100", "tree.node_weights.aquatic_mamals=2", "aquatic_mammals"),
        ("cifar100", "tree.merge_levels=[corse]", "coarse"),
        ("synthetic", "tree.level_weights.levl1=2", "level1"),
        ("cifar100", "objective={name: curriculum, options: {curriculum: {level: corse}}}", "coarse"),
    ],
)
def test_the_nearest_name_of_the_tree_is_told(name, override, near):
    assert refusal(name, override).endswith(f"; did you mean {near!r}?")


def test_levels_that_the_data_leave_out_cannot_be_merged():
    told = "tree.merge_levels must be one of coarse, got 'mid'"
    assert told in refusal("living17", "data.options.mid=false")


def test_classes_have_no_edges_below_them():
    assert "others below it" in refusal("cifar100", "tree.node_weights.apple=2")


def test_an_objective_must_fit_the_tree():
    override = "objective={name: curriculum, options: {curriculum: {level: 2}}}"
    assert "objective.options.curriculum.level must be coarser" in refusal("cifar100", override)
    given = ["data.options.branching=[5]", "objective.name=mtl"]
    assert "one level" in refusal("synthetic", *given)


@pytest.mark.parametrize("name", ["living17", "nonliving26", "entity13", "entity30"])
def test_domains_with_the_same_classes_have_no_transfer(name):
    told = refusal(name, "one_shot={epochs: 1, optimizer: {lr: 1}}")
    assert f"one_shot needs target classes, source and target of data {name!r} have the same" in told


def test_vectors_without_a_tree_have_no_source_classes():
    given = ["data.options.tree_file=null", "data.domain=source"]
    assert "data.domain must be full for data 'vectors'" in refusal("vectors", *given)
    assert load_recipe("vectors", None, given[:1]).data.domain == "full"
    assert load_recipe("vectors", None, given[1:]).data.domain == "source"


@pytest.mark.parametrize(
    ("option", "place"), [("weights", "model.weights"), ("input_shape", "data.image_size")]
)
def test_what_has_a_key_of_its_own_is_no_option_of_a_backbone(option, place):
    assert f"model.options.{option} is set by {place}" in refusal("cifar100", f"model.options.{option}=[3]")


def test_the_last_level_stays():
    told = "tree.merge_levels must leave the classes, the only level, got 'coarse'"
    assert told in refusal("cifar100", "tree.merge_levels=[coarse, coarse]")


def test_a_tree_that_cannot_be_split_has_no_source_classes():
    given = ["data.options.branching=[1, 1]", "data.domain=source"]
    assert "data.domain must be full, got 'source': " in refusal("synthetic", *given)
