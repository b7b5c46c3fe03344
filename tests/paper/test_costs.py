"""What items cost on a laptop, as the list has it."""

import pytest

from cophenet.cli.reproduce import _hours
from cophenet.paper.costs import laptop_minutes
from cophenet.paper.items import ITEMS
from cophenet.paper.plan import Settings, wanted
from cophenet.paper.variants import PAPER_DATA, plain
from cophenet.recipes import load_recipe


@pytest.mark.parametrize("recipe", PAPER_DATA)
def test_every_recipe_of_the_paper_has_a_cost_that_grows_with_epochs_and_runs(recipe):
    (arm,) = plain(["flat"])
    one, three = (laptop_minutes([(recipe, arm, tuple(range(n)))]) for n in (1, 3))
    assert three == pytest.approx(3 * one)
    assert one > 0.1 * load_recipe(recipe, "laptop").epochs


def test_every_item_has_a_cost():
    for item in ITEMS:
        entries = wanted(item, Settings("laptop"))
        assert (laptop_minutes(entries) > 0) == bool(entries)


def test_minutes_become_hours():
    assert (_hours(119), _hours(120)) == ("119 min", "2 h")
