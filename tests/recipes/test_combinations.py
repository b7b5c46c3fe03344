"""Options of a wrong kind, and settings that cannot go together, are refused when a recipe is read."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, create_model

from cophenet._common.checks import check_whole
from cophenet.data.digits import Digits
from cophenet.data.registry import SOURCES, create_source, source_names
from cophenet.recipes import load_recipe
from cophenet.recipes.errors import recipe_error
from cophenet.recipes.options import Member, check_member_options


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
        ("fashion-mnist", "model.options.stem=[1]"),
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


class Declared:
    def __init__(
        self,
        needed: int,
        share: float = 0.1,
        sizes: "list[int] | None" = None,
        made: Fragile | None = None,
        either: int | str | None = None,
    ): ...


def problems_with(made, options) -> str:
    """What is wrong with the options of a class, with the places of all problems in front."""
    try:
        check_member_options(Member("data", "toy", made), options)
    except ValidationError as error:
        places = [".".join(map(str, problem["loc"])) for problem in error.errors()]
        return str(recipe_error(error, BaseModel, ", ".join(places)))
    return ""


@dataclass
class Point:
    x: float


def test_values_of_declared_types_pass():
    assert problems_with(Declared, {"needed": 3, "share": 1, "sizes": [2], "made": Fragile()}) == ""
    assert problems_with(Fragile, {"label": 3, "sizes": 3}) == ""  # no type is known


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({"needed": 3, "made": 3}, "made: made must be an instance of Fragile, got 3"),
        ({"needed": 3.0}, "needed: needed must be an integer, got 3.0"),
        ({"needed": 3, "sizes": [1, "x"]}, "sizes.1: sizes.1 must be an integer, got 'x'"),
        ({"needed": 3, "either": [1]}, "either: either must be an integer or a string, got [1]"),
        ({}, "needed: data 'toy' needs the option needed"),
        (
            {"needed": 1, "siz": 2},
            "siz: data 'toy' has no option 'siz'; its options are needed, share, sizes, made, either; "
            "did you mean 'sizes'?",
        ),
        (
            {"needed": "x", "share": "x", "y": 1},
            "needed, share, y: needed must be an integer, got 'x' (and 2 more)",
        ),
    ],
)
def test_every_wrong_option_is_reported_at_its_place(options, problems):
    assert problems_with(Declared, options) == problems


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (Sequence[int], 3, "a list"),
        (Sequence[str], "ab", "a list"),
        (list[int], 3, "a list"),
        (set[int], 3, "a set"),
        (Iterable[int], 3, "iterable"),
        (Mapping[str, int], 3, "a mapping of keys to values"),
        (Callable[[], int], 3, "callable"),
        (bool, 1, "a boolean"),
        (None, 1, "None"),
        (type[Fragile], int, "a subclass of Fragile"),
        (Path | bool, 1, "an instance of Path or a boolean"),
        (Literal["a", 3], 4, "'a' or 3"),
        (date, "x", "a valid date"),
        (datetime, "x", "a valid date and time"),
        (time, "x", "a valid time"),
        (timedelta, "x", "a valid time span"),
        (bytes, 3, "bytes"),
        (Point, 3, "an instance of Point"),
        (Point | int, "x", "an instance of Point or an integer"),
        (re.Pattern, "(", "a valid regular expression"),  # not in the table: pydantic's message
    ],
)
def test_what_a_value_must_be(kind, given, problem):
    def make(value): ...

    make.__annotations__ = {"value": kind}
    assert problems_with(make, {"value": given}) == f"value: value must be {problem}, got {given!r}"


@pytest.mark.parametrize(
    ("limits", "given", "problem"),
    [
        ({"gt": 0.5}, 0.5, "greater than 0.5"),
        ({"ge": 1.0}, 0.5, "greater than or equal to 1"),
        ({"lt": 2}, 2.5, "less than 2"),
        ({"le": 2.0}, 2.5, "less than or equal to 2"),
        ({"multiple_of": 2.0}, 2.5, "a multiple of 2"),
        ({"allow_inf_nan": False}, math.inf, "a finite number"),
    ],
)
def test_what_a_number_must_be(limits, given, problem):
    model = create_model("Limited", value=(float, Field(**limits)))
    with pytest.raises(ValidationError) as caught:
        model(value=given)
    assert (
        str(recipe_error(caught.value, model, "my.yaml")) == f"my.yaml: value must be {problem}, got {given}"
    )


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (list[int], [1, 2, 3], "a list of at most 2"),
        (str, "abc", "valid: String should have at most 2 characters"),  # not in the table
    ],
)
def test_how_long_a_value_may_be(kind, given, problem):
    model = create_model("Limited", value=(kind, Field(max_length=2)))
    with pytest.raises(ValidationError) as caught:
        model(value=given)
    error = recipe_error(caught.value, model, "my.yaml")
    assert str(error) == f"my.yaml: value must be {problem}, got {given!r}"


@pytest.fixture
def toy_source(monkeypatch):
    """A data set that is registered while the program runs, with an option of a type that is not declared."""

    class Toy(Digits):
        name = "toy"

        def __init__(self, sizes=(1,), count: int = 1):
            check_whole("count", count, 1)
            if count > 9:
                raise ValueError("the toy is too small for so much")
            self.total = sum(sizes) * count

    monkeypatch.setitem(SOURCES._members, "toy", Toy)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("data.options.count=x", "data.options.count must be an integer, got 'x'"),
        ("data.options.count=0", "data.options.count must be a whole number of at least 1, got 0"),
        (
            "data.options.cout=1",
            "data 'toy' has no option 'cout'; its options are sizes, count; did you mean",
        ),
        ("data.options.count=12", "the toy is too small for so much"),
        ("data.options.sizes=3", "data.options has values that do not work, got {'sizes': 3}: 'int' object"),
    ],
)
@pytest.mark.usefixtures("toy_source")
def test_a_member_registered_later_has_its_options_checked(override, told):
    assert load_recipe("digits", None, ["data.name=toy", "data.options.sizes=[2, 3]"]).data.options
    text = refusal("digits", "epochs=3", "data.name=toy", override)
    assert f"{override}: {told}" in text
    assert "epochs=3" not in text


def test_trees_that_need_no_files_are_known():
    unknown = {name for name in source_names() if create_source(name).tree() is None}
    assert unknown == {"folder", "glosses", "inat21-mini", "vectors"}
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
    for backbone in ("resnet18", "my.module:Net"):
        given = (f"model.backbone={backbone}", f"model.options.{option}=[3]")
        assert f"model.options.{option} is set by {place}" in refusal("cifar100", *given)


def test_the_last_level_stays():
    told = "tree.merge_levels must leave the classes, the only level, got 'coarse'"
    assert told in refusal("cifar100", "tree.merge_levels=[coarse, coarse]")


def test_a_tree_that_cannot_be_split_has_no_source_classes():
    given = ["data.options.branching=[1, 1]", "data.domain=source"]
    assert "data.domain must be full, got 'source': " in refusal("synthetic", *given)
