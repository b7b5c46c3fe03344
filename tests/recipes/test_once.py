"""On the way from a recipe to its training nothing is validated or made more often than needed."""

from functools import wraps
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from cophenet.data import HierarchicalBatchSampler, Loader
from cophenet.models import Network
from cophenet.models.mlp import MLP
from cophenet.objectives import SoftLabels
from cophenet.recipes import checks, load, load_recipe, recipe
from cophenet.recipes.recipe import Recipe
from cophenet.runs import experiment, train
from cophenet.runs.experiment import load_experiment
from cophenet.runs.lightning_module import TrainingModule

SOFT = ("objective.name=soft", "objective.options.soft.beta=3")


@pytest.fixture
def counted(monkeypatch):
    """Counts the calls of methods by class; no recipe and no backbone counts as checked already."""
    monkeypatch.setattr(recipe, "_CHECKED", {})
    monkeypatch.setattr(checks, "_MADE", set())
    counts = {}

    def count(cls, method="__init__"):
        original = getattr(cls, method)

        @wraps(original)
        def counting(*arguments, **options):
            counts[cls.__name__] += 1
            return original(*arguments, **options)

        counts[cls.__name__] = 0
        monkeypatch.setattr(cls, method, counting)
        return counts

    return count


def test_a_recipe_is_validated_once_with_its_overrides(monkeypatch):
    calls = []

    class Counted(Recipe):
        @classmethod
        def model_validate(cls, given, **options):
            calls.append(given["epochs"])
            return Recipe.model_validate(given, **options)

    monkeypatch.setattr(load, "Recipe", Counted)
    load_recipe("digits", None, ["epochs=2", "seeds=[4]", *SOFT])
    assert calls == [2]


def test_a_recipe_needs_one_objective_to_be_checked_and_its_training_another(counted, tmp_path):
    counts = counted(SoftLabels)
    recipe = load_recipe("digits", None, [*SOFT, "epochs=2", "seeds=[3, 4]"])
    assert counts["SoftLabels"] == 1  # on the tree that is known before files are read
    train(recipe, tmp_path / "run", loggers=(), progress=False)
    assert counts["SoftLabels"] == 2  # on the tree of the classes that are trained


def test_options_of_other_objectives_are_tried_once_each(counted):
    counts = counted(SoftLabels)
    load_recipe("digits", None, ["objective.options.soft.beta=3", "objective.name=hxe"])
    assert counts["SoftLabels"] == 1
    load_recipe("digits", None, ["objective.options.soft.beta=3", "objective.name=hxe", "epochs=2"])
    assert counts["SoftLabels"] == 1


def test_a_backbone_is_made_once_to_be_checked_and_once_for_each_seed(counted, tmp_path):
    counts = counted(MLP)
    recipe = load_recipe("digits", None, ["model={backbone: mlp}", "epochs=1", "seeds=[3, 4]"])
    assert counts["MLP"] == 1
    train(recipe, tmp_path / "run", loggers=(), progress=False)
    assert counts["MLP"] == 3


def test_a_training_has_one_loader_of_its_batches(monkeypatch, tmp_path):
    shuffled = []

    class Counted(experiment.Loader):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            shuffled.append(options.get("shuffle", False))

    monkeypatch.setattr(experiment, "Loader", Counted)
    recipe = load_recipe("digits", None, ["epochs=3"])
    train(recipe, tmp_path / "run", accelerator="cpu", loggers=(), progress=False)
    assert sum(shuffled) == 1


@pytest.mark.parametrize("sampler", [False, True])
def test_a_process_with_a_device_has_one_loader_and_the_sampler_of_the_check(sampler, counted, monkeypatch):
    counts = counted(HierarchicalBatchSampler)
    settings = ["batch_size=64", "data.sampler={classes_per_batch: 4, samples_per_class: 16}"]
    made = load_experiment(load_recipe("digits", None, settings if sampler else []))
    check = made.training_loader(3)
    place = SimpleNamespace(
        strategy=SimpleNamespace(root_device=torch.device("meta")), global_rank=1, world_size=2
    )
    module = TrainingModule(made, Mock(spec=Network), made.fresh_objective(), 3)
    monkeypatch.setattr(TrainingModule, "trainer", place)
    counted(Loader)
    assert module.steps_per_epoch == len(check)
    rest = module.train_dataloader()
    assert (rest.loader.device.type, rest.loader.rank, rest.loader.world_size) == ("meta", 1, 2)
    assert counts == {"HierarchicalBatchSampler": int(sampler), "Loader": 1}


def test_every_training_has_an_objective_of_its_own():
    made = load_experiment(load_recipe("digits", None, ["objective.name=swd"]))
    first, second = made.fresh_objective(), made.fresh_objective()
    first.criterion.distance.draw(3)
    states = [o.criterion.distance.generator.get_state().tolist() for o in (first, second, made.objective)]
    assert states[1] == states[2] != states[0]
