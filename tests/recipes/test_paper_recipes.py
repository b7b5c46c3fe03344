"""The paper's settings, one by one, as its section "Training Hyperparameters" prints them."""

from functools import cache
from itertools import product

import pytest

from cophenet import Hierarchy
from cophenet.data.augmentation import BREEDS_CROP, INAT_CROP, RandomCrop
from cophenet.data.breeds import Breeds
from cophenet.objectives import phase_lengths
from cophenet.recipes import list_recipes, load_recipe, shaped_tree

CIFAR = ("cifar10", "cifar100")
LONG, SHORT = ("living17", "nonliving26"), ("entity13", "entity30")
BREEDS = LONG + SHORT
PAPER = (*CIFAR, *BREEDS, "inat21-mini")
TREE = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])


@cache
def paper(name: str):
    return load_recipe(name, "paper")


def per_name(*groups):
    """Parameters from (names, value) pairs; every recipe of the paper must have one."""
    pairs = [
        (name, value) for names, value in groups for name in ([names] if isinstance(names, str) else names)
    ]
    assert sorted(name for name, _ in pairs) == sorted(PAPER)
    return pytest.mark.parametrize(("name", "value"), pairs)


@per_name(("cifar10", 100), ("cifar100", 200), (SHORT, 300), (LONG, 450), ("inat21-mini", 120))
def test_epochs(name, value):
    assert paper(name).epochs == value


@per_name(("cifar10", 64), ("cifar100", 128), (BREEDS, 128), ("inat21-mini", 1024))
def test_batch_size(name, value):
    assert paper(name).batch_size == value


@per_name(("cifar10", 0.01), ("cifar100", 0.1), (BREEDS, 0.1), ("inat21-mini", 0.1))
def test_learning_rate(name, value):
    assert paper(name).optimizer.lr == value


@per_name(
    ("cifar10", (10, 60)),
    ("cifar100", (5, 60)),
    (SHORT, (10, 100)),
    (LONG, (10, 150)),
    ("inat21-mini", (5, 60)),
)
def test_schedule(name, value):
    schedule = paper(name).schedule
    assert (schedule.divide_by, schedule.every) == value


@per_name((CIFAR, 5e-4), (BREEDS, 1e-4), ("inat21-mini", 5e-4))
def test_weight_decay(name, value):
    assert paper(name).optimizer.weight_decay == value


@pytest.mark.parametrize("name", PAPER)
def test_sgd_with_momentum(name):
    optimizer = paper(name).optimizer
    assert (optimizer.name, optimizer.momentum) == ("sgd", 0.9)


@per_name((CIFAR, 1.0), (BREEDS, 1.0), ("inat21-mini", 0.1))
def test_lambda(name, value):
    recipe = paper(name)
    assert recipe.objective.cpcc.weight == value
    assert recipe.create_objective(TREE).criterion.weight == value


@per_name((CIFAR, 2.0), (BREEDS, 2.0), ("inat21-mini", 3.0))
def test_ratio_of_distances(name, value):
    settings = paper(name).tree.model_copy(update={"merge_levels": ()})
    distances = shaped_tree(TREE, settings).condensed()
    assert distances.max() / distances.min() == value


@per_name((CIFAR, ("cifar", 32)), ((*BREEDS, "inat21-mini"), ("views", 224)))
def test_augmentation_and_image_size(name, value):
    data = paper(name).data
    assert (data.augment, data.image_size) == value


@pytest.mark.parametrize("name", BREEDS)
def test_breeds_views_jitter_the_light_and_test_crops_the_centre_of_256(name):
    source = paper(name).data.create_source()
    assert isinstance(source, Breeds)
    assert (source.crop.size, source.crop.resize) == (224, 256)
    assert RandomCrop(jitter=0.1) == BREEDS_CROP


def test_inat_views_have_the_scale_and_ratio_of_the_paper():
    assert RandomCrop(scale=(0.08, 1.0), ratio=(0.75, 1.33)) == INAT_CROP


@per_name((CIFAR, ("resnet18", "cifar")), ((*BREEDS, "inat21-mini"), ("resnet18", "imagenet")))
def test_backbone_and_stem(name, value):
    model = paper(name).model
    assert (model.backbone, model.options["stem"]) == value


@per_name((CIFAR, False), (BREEDS, False), ("inat21-mini", True))
def test_only_inat_begins_with_a_checkpoint(name, value):
    assert (paper(name).model.weights is not None) == value


@per_name((CIFAR, (1, 100, 0.1, 10, 60)), (BREEDS, None), ("inat21-mini", (1, 60, 0.05, 10, 15)))
def test_one_shot(name, value):
    shot = paper(name).one_shot
    given = shot and (
        shot.shots,
        shot.epochs,
        shot.optimizer.lr,
        shot.schedule.divide_by,
        shot.schedule.every,
    )
    assert given == value


@pytest.mark.parametrize("name", PAPER)
def test_source_classes_and_three_seeds(name):
    recipe = paper(name)
    assert recipe.data.domain == "source"
    assert len(recipe.seeds) == 3


@pytest.mark.parametrize("name", BREEDS)
def test_breeds_trains_on_coarse_and_fine_and_keeps_mid_for_evaluation(name):
    recipe = paper(name)
    tree = recipe.data.create_source().tree()
    assert tree.level_names == ("coarse", "mid", "fine")
    assert shaped_tree(tree, recipe.tree).level_names == ("coarse", "fine")


@pytest.mark.parametrize("name", [line.name for line in list_recipes() if line.scale == "paper"])
def test_curriculum_of_the_baselines(name):
    recipe = load_recipe(name, "paper", ["objective.name=curriculum"])
    phases = recipe.create_objective(TREE).phases
    assert [phase.epochs for phase in phases] == [50, 200]
    assert phase_lengths(phases, recipe.epochs) == (recipe.epochs // 5, recipe.epochs - recipe.epochs // 5)


def test_every_other_recipe_is_smaller_and_of_the_same_structure():
    scales = {name: {line.scale for line in list_recipes() if line.name == name} for name in PAPER}
    assert all(found == {"paper", "scratch", "laptop"} for found in scales.values())
    for name, scale in product(PAPER, ("scratch", "laptop")):
        large, small = paper(name), load_recipe(name, scale)
        assert small.epochs <= 30 < large.epochs
        if scale == "scratch":
            assert small.model.backbone.startswith("resnet1")
            assert "-w" in small.model.backbone
        else:
            assert (small.model.frozen, small.model.weights) == (True, "pretrained")
            assert load_recipe(name) == small
        assert (small.data.name, small.data.domain, small.tree) == (
            large.data.name,
            large.data.domain,
            large.tree,
        )
        assert (small.one_shot is None) == (large.one_shot is None)
        # The weight alone is tuned, and on CIFAR-100 from scratch only.
        weight = 2.0 if (name, scale) == ("cifar100", "scratch") else large.objective.cpcc.weight
        assert small.objective.cpcc == large.objective.cpcc.model_copy(update={"weight": weight})
