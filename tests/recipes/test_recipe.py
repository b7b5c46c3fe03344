"""Recipes as files: read, refused, replaced, written."""

import re

import pytest
from pydantic import ValidationError

from cophenet import Hierarchy
from cophenet.objectives import objective_names
from cophenet.recipes import Recipe, list_recipes, load_recipe, recipe_names
from cophenet.recipes.load import Override, apply_overrides

LINES = [(line.name, line.scale) for line in list_recipes()]
TREE = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
OWN = """\
data: {name: digits, image_size: 8}
model: {backbone: mlp}
optimizer: {lr: 1e-2}
epochs: 3
batch_size: 32
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return path


def refused(path, text, *overrides) -> str:
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        load_recipe(path, None, overrides)
    return str(error.value)


@pytest.mark.parametrize(("name", "scale"), LINES)
def test_every_recipe_is_valid_and_survives_its_file(name, scale, tmp_path):
    recipe = load_recipe(name, scale)
    assert (recipe.name, recipe.scale, recipe.data.name) == (name, scale, name)
    path = tmp_path / "copy.yaml"
    path.write_text(recipe.to_yaml())
    assert load_recipe(path) == load_recipe(path, scale) == recipe


def test_the_list_says_what_the_recipes_say():
    assert {name for name, _ in LINES} == set(recipe_names())
    for line in list_recipes():
        recipe = load_recipe(line.name, line.scale)
        assert (line.backbone, line.epochs) == (recipe.model.backbone, recipe.epochs)
        assert line.summary == recipe.summary != ""


def test_a_file_of_ones_own_needs_only_what_has_no_default(own):
    recipe = load_recipe(own)
    assert (recipe.name, recipe.scale, recipe.objective.name) == ("own", "laptop", "fastft")
    assert recipe.optimizer.lr == 0.01
    assert load_recipe(str(own), "paper").scale == "paper"


def test_scales_of_a_file_are_merged_over_what_they_share(own):
    own.write_text(OWN + "paper: {epochs: 90, data: {validation: 0.1}}\nlaptop: {epochs: 2}\n")
    assert [load_recipe(own, scale).epochs for scale in ("paper", "laptop", None)] == [90, 2, 2]
    assert load_recipe(own, "laptop").data.validation == 0.1
    own.write_text(OWN + "paper: {epochs: 90, data: {validation: 0.1}}\nlaptop: {data: {validation: null}}\n")
    assert load_recipe(own, "laptop").data.validation == 0
    own.write_text(OWN + "paper: {epochs: 90}\nscratch: {batch_size: 4}\nlaptop: {epochs: 2}\n")
    assert [(r.epochs, r.batch_size == 4) for r in (load_recipe(own, s) for s in ("scratch", "laptop"))] == [
        (90, True),
        (2, False),
    ]


def test_too_few_epochs_for_the_phases_are_refused_whatever_was_read_before(own):
    curriculum = ["objective.name=curriculum", "objective.options.curriculum.epochs=[1, 2]"]
    assert load_recipe(own, overrides=[*curriculum, "epochs=3"]).epochs == 3
    with pytest.raises(ValueError, match="epochs"):
        load_recipe(own, overrides=[*curriculum, "epochs=1"])


def test_a_recipe_cannot_change(own):
    recipe = load_recipe(own)
    with pytest.raises(ValidationError):
        recipe.epochs = 4


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('name: "a\\x1bb"', r"name must be text without control characters, got 'a.x1bb'"),
        ("epoch: 3", "unknown key 'epoch'; allowed: name,.*did you mean 'epochs'"),
        ("optimizer: {lr: 0.1, momentun: 0.9}", "'optimizer.momentun'.*did you mean 'momentum'"),
        ("one_shot: {epocs: 3}", "'one_shot.epocs'; allowed: shots, epochs.*did you mean 'epochs'"),
        ("epochs: many", "epochs must be an integer, got 'many'"),
        ("epochs: 3.0", "epochs must be an integer, got 3.0"),
        ("epochs: true", "epochs must be an integer, got True"),
        ("epochs: 0", "epochs must be greater than or equal to 1, got 0"),
        ("epochs: null", "epochs must be an integer, got None"),
        ("batch_size: 1", "batch_size must be greater"),
        ("optimizer: {lr: '0.1'}", "optimizer.lr must be a number, got '0.1'"),
        ("optimizer: {lr: -0.1}", "optimizer.lr must be greater than 0, got -0.1"),
        ("optimizer: {lr: .inf}", "optimizer.lr must be a finite number"),
        ("optimizer: {}", "optimizer.lr is missing"),
        ("optimizer: {name: sgdd, lr: 1}", "'sgd' or 'adamw', got 'sgdd'; did you mean 'sgd'"),
        ("optimizer: {name: adamw, lr: 1, momentum: 0.9}", "momentum is for sgd"),
        ("data: {name: digit, image_size: 8}", "got 'digit'; did you mean 'digits'"),
        ("data: {name: digits, options: {size: 8}}", "give that instead"),
        ("data: {name: digits, options: {colour: 1}}", "data 'digits' has no option 'colour'"),
        ("data: {name: digits, augment: cifa, image_size: 8}", "did you mean 'cifar'"),
        ("data: {name: digits, augment: cifar}", "augment 'cifar' is for images"),
        (
            "data: {name: digits, augment: views, image_size: 8}",
            "must be one of none, cifar for data 'digits'",
        ),
        (
            "data: {name: folder, augment: cifar, image_size: 64}",
            "must be one of none, views for data 'folder'",
        ),
        ("data: {name: folder}", "image_size is missing"),
        (
            "data: {name: digits, domain: full}\none_shot: {epochs: 1, optimizer: {lr: 1}}",
            "set one_shot to null",
        ),
        ("data: digits", "data must be a mapping of keys to values, got 'digits'"),
        ("model: {backbone: resnet81}", "did you mean 'resnet18'"),
        ("model: {backbone: resnet18}", "stem 'imagenet' needs images of at least 32"),
        ("model: {backbone: mlp, options: {stem: cifar}}", "'mlp' has no option 'stem'"),
        ("data: {name: digits}\nmodel: {backbone: resnet18}", "takes images"),
        ("objective: {name: fastfd}", "did you mean 'fastft'"),
        ("objective: {options: {hxe: {alfa: 1}}}", "objective 'hxe' has no option 'alfa'"),
        ("objective: {options: {sinkhorn: {rg: 1}}}", "did you mean 'reg'"),
        ("objective: {cpcc: {flow_weights: unifrm}}", "did you mean 'uniform'"),
        ("tree: {level_weights: {1: 0}}", "tree.level_weights.1 must be greater than 0, got 0"),
        ("tree: {merge_levels: mid}", "tree.merge_levels must be a list, got 'mid'"),
        ("seeds: [0, 0]", r"seeds must differ, got \[0, 0\]"),
        ("seeds: []", "seeds must not be empty"),
        ("seeds: 3", "seeds must be a list, got 3"),
        ("seeds: [0, -1]", "seeds.1 must be greater than or equal to 0, got -1"),
        ("precision: bf16", "precision must be '32-true', 'bf16-mixed' or '16-mixed', got 'bf16'"),
        ("scale: big", "scale must be 'paper', 'scratch' or 'laptop', got 'big'"),
        (
            "laptp: {epochs: 3}",
            "unknown key 'laptp'; allowed: name,.*, paper, scratch, laptop; did you mean 'laptop'",
        ),
        ("laptop: 3", "laptop must be a mapping of keys to values, got 3"),
    ],
)
def test_wrong_settings_are_refused_with_file_key_and_hint(own, change, told):
    keys = [line.partition(":")[0] for line in change.splitlines()]
    kept = [line for line in OWN.splitlines() if line.partition(":")[0] not in keys]
    text = refused(own, "\n".join([*kept, change]))
    assert text.startswith(f"{own}: ")
    assert "\n" not in text
    assert re.search(told, text)


# Lists of nine aliases each to the one before.
LAUGHS = "x0: &x0 [1]\n" + "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 9)}]\n" for i in range(1, 9))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("epochs: [1", "line 1: not YAML"),
        ("- 1", "must be a mapping of keys to values"),
        ("", "must be a mapping of keys to values"),
        ("epochs: 1\nepochs: 2", "line 2: key 'epochs' is given twice"),
        ("\x00", "not YAML"),
        ("[" * 40_000, "line 1: nested deeper than 50 levels (limit)"),
        ("a: !!python/object:os.system {}", "not YAML"),
        ("a: !!bool maybe", "not YAML: a value does not fit its tag"),
        ("a: &a [*a]", "line 1: 'a' contains itself"),
        ("# " + "x" * (1 << 20), "larger than 1.05 MB (limit)"),
        (LAUGHS, "aliases add more than 100,000 values (limit)"),
    ],
)
def test_files_that_are_no_recipes(own, text, told):
    assert told in refused(own, text)


def test_other_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no file; recipes by name: cifar10"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(ValueError, match=r"latin.yaml: line 1: not UTF-8"):
        load_recipe(tmp_path / "latin.yaml")


def test_names_and_scales_are_checked(own):
    with pytest.raises(ValueError, match=r"recipe must be one of .*got 'cifr100'; did you mean 'cifar100'"):
        load_recipe("cifr100")
    with pytest.raises(ValueError, match="scale must be one of paper, scratch, laptop, got 'huge'"):
        load_recipe("cifar100", "huge")
    with pytest.raises(ValueError, match=r"digits.yaml: there is no 'paper' scale, only laptop"):
        load_recipe("digits", "paper")
    own.write_text(OWN + "scale: laptop\n")
    with pytest.raises(ValueError, match="has scale 'laptop', not 'paper'"):
        load_recipe(own, "paper")


def test_an_override_of_a_part_does_not_reach_the_next_use_of_the_whole():
    whole, part = "data={workers: 1}", "data.workers=2"
    assert apply_overrides({}, [whole, part]) == {"data": {"workers": 2}}
    assert apply_overrides({}, [whole]) == {"data": {"workers": 1}}


def test_overrides_have_the_types_of_yaml():
    recipe = load_recipe(
        "cifar100",
        "paper",
        [
            "optimizer.lr=5e-2",
            "seeds=[3, 4]",
            "one_shot=null",
            "data.domain=full",
            "data.options.depth=5",
            "tree.level_weights.1=2",
            "tree.level_weights.fine=3",
            "tree.node_weights={aquatic_mammals: 4}",
            "objective.name=sinkhorn",
            "objective.options.sinkhorn.reg=1",
            "objective.options.sinkhorn.reg=2.5",
        ],
    )
    assert (recipe.optimizer.lr, recipe.seeds, recipe.one_shot) == (0.05, (3, 4), None)
    assert recipe.data.options == {"depth": 5}
    assert recipe.tree.level_weights == {1: 2, "fine": 3}
    assert recipe.tree.node_weights == {"aquatic_mammals": 4}
    assert recipe.objective.options["sinkhorn"] == {"reg": 2.5}


def test_a_group_that_is_off_can_be_given():
    given = ["data.domain=source", "one_shot.epochs=5", "one_shot.optimizer.lr=0.1"]
    assert load_recipe("fashion-mnist", "paper", given).one_shot.optimizer.lr == 0.1


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("optimizer.lrr=0.05", "--set optimizer.lrr=0.05: unknown key 'optimizer.lrr'.*did you mean 'lr'"),
        ("optimzer.lr=0.05", "unknown key 'optimzer'.*did you mean 'optimizer'"),
        ("optimizer.lr=fast", "--set optimizer.lr=fast: optimizer.lr must be a number, got 'fast'"),
        ("optimizer.lr.x=1", "optimizer.lr is one value, it has no keys"),
        ("optimizer.lr", "must read key=value"),
        ("scale=laptop", "give --scale instead"),
        ("=3", "must read key=value"),
        ("a..b=3", "must read key=value"),
        ("seeds=[1", "the value is no YAML"),
        ("data.domain=full", "one_shot needs target classes"),
        ("model.backbone=vit_b_16", "'vit_b_16' has no option 'stem'"),
    ],
)
def test_wrong_overrides_are_named(override, told):
    with pytest.raises(ValueError, match=told):
        load_recipe("cifar100", "paper", ["epochs=7", override])


def test_the_wrong_one_of_several_overrides_is_named():
    with pytest.raises(ValueError) as error:
        load_recipe("cifar100", "paper", ["epochs=7", "optimizer.lrr=1"])
    assert str(error.value).startswith("--set optimizer.lrr=1: ")


@pytest.mark.parametrize(
    ("overrides", "blamed"),
    [
        (["epochs=7", "data.domain=full"], "--set data.domain=full: one_shot needs"),
        (["epochs=7", "optimizer.name=adamw"], "--set optimizer.name=adamw: optimizer.momentum is for sgd"),
        (
            ["one_shot.optimizer.name=adamw"],
            "--set one_shot.optimizer.name=adamw: one_shot.optimizer.momentum",
        ),
        (["epochs=7", "model.backbone=mlp"], "--set model.backbone=mlp: backbone 'mlp' has no option 'stem'"),
        (
            ["data.image_size=20", "model.options.stem=imagenet"],
            "--set data.image_size=20 model.options.stem=",
        ),
        (
            ["batch_size=64", "data.sampler={classes_per_batch: 2, samples_per_class: 2}"],
            "--set batch_size=64 d",
        ),
        (
            [Override(("objective", "name"), "emt", "emt", "--objective"), "epochs=7"],
            "--objective emt: objective.name must be one of",
        ),
    ],
)
def test_overrides_that_cause_a_problem_elsewhere_are_named(overrides, blamed):
    with pytest.raises(ValueError) as error:
        load_recipe("cifar100", "paper", overrides)
    assert str(error.value).startswith(blamed)


def test_the_file_is_named_if_no_override_has_to_do_with_the_problem(own):
    assert refused(own, OWN.replace("1e-2", "-1"), "seeds=[4]").startswith(f"{own}: optimizer.lr must be")


def test_vision_transformers_of_the_backbone_study():
    given = ["model={backbone: vit_b_16, weights: vit_b_16.pth}", "data.image_size=224"]
    assert load_recipe("cifar100", "paper", given).model.weights == "vit_b_16.pth"
    with pytest.raises(ValueError, match="16"):
        load_recipe("cifar100", "paper", [given[0], "data.image_size=225"])


@pytest.mark.parametrize("name", objective_names())
def test_any_objective_goes_with_any_recipe(name):
    recipe = load_recipe("inat21-mini", "laptop", [f"objective.name={name}"])
    assert recipe.create_objective(TREE).name == name


def test_flow_weights_of_the_ablation():
    recipe = load_recipe("cifar100", "paper", ["objective.cpcc={weight: 0.5, flow_weights: inverse}"])
    criterion = recipe.create_objective(TREE).criterion
    assert (criterion.weight, criterion.flow_weights) == (0.5, "inverse")


def test_backbones_of_other_packages_are_left_to_the_training(own):
    assert load_recipe(own, None, ["model.backbone=my.module:Net"]).model.backbone == "my.module:Net"


def test_the_schema_describes_every_field():
    documented = Recipe.__doc__
    assert all(f"        {field}: " in documented for field in Recipe.model_fields)
