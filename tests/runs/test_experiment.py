"""Experiments of the recipes whose data can be made here."""

import numpy as np
import pytest
import torch
from PIL import Image

from cophenet.recipes import load_recipe
from cophenet.runs import Run, load_experiment, train


def own_data(name, folder):
    """Generated data for a recipe."""
    rng = np.random.default_rng(0)
    if name == "vectors":
        labels = np.array(["cat", "dog", "cup", "pen"] * 10)
        np.savez(folder / "vectors.npz", features=rng.normal(size=(40, 5)).astype(np.float32), labels=labels)
        (folder / "tree.yaml").write_text("animal: [cat, dog]\nthing: [cup, pen]\n")
    if name == "folder":
        for place in ("animal/cat", "animal/dog", "thing/cup", "thing/pen"):
            (folder / place).mkdir(parents=True)
            for index in range(5):
                pixels = rng.integers(0, 255, (70, 90, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / place / f"{index}.png")


@pytest.mark.parametrize("name", ["digits", "synthetic", "vectors", "folder"])
def test_a_recipe_and_its_data_make_batches_for_a_network(name, tmp_path):
    own_data(name, tmp_path)
    recipe = load_recipe(name, overrides=["data.workers=0", "evaluation.batch_size=7"])
    experiment = load_experiment(recipe, tmp_path)
    assert experiment.tree.num_classes == experiment.train.tree.num_classes
    inputs, labels = next(iter(experiment.training_loader(0)))
    assert tuple(inputs.shape[1:]) == experiment.input_shape
    assert len(inputs) == len(labels) == min(recipe.batch_size, len(experiment.train))
    seen = torch.cat([part for _, part in experiment.evaluation_loader(experiment.test)])
    assert seen.tolist() == experiment.test.labels.tolist()


def test_own_vectors_train(tmp_path):
    own_data("vectors", tmp_path)
    recipe = load_recipe("vectors", overrides=["epochs=1"])
    run = train(recipe, tmp_path / "run", data_dir=tmp_path, loggers=(), progress=False)
    assert run.finished
    assert run.info["data_dir"] == str(tmp_path)


def test_validation_takes_the_place_of_the_test_part():
    whole, cut = (
        load_experiment(load_recipe("digits", overrides=[f"data.validation={share}"]))
        for share in (0.0, 0.25)
    )
    assert len(cut.train) + len(cut.test) == len(whole.train)
    assert set(cut.train.rows.tolist()).isdisjoint(cut.test.rows.tolist())
    assert set(cut.test.rows.tolist()) <= set(whole.train.rows.tolist())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.validation=0.25", "data.validation 0.25 needs two training samples of every class, 'pen' has"),
        ("stopping={}", "stopping.share 0.1 needs two training samples of every class, 'pen' has one"),
    ],
)
def test_a_single_sample_cannot_be_set_aside(setting, message, tmp_path):
    own_data("vectors", tmp_path)
    labels = np.array(["cat", "dog", "cup"] * 9 + ["pen"] * 2)
    np.savez(tmp_path / "vectors.npz", features=np.ones((29, 2), np.float32), labels=labels)
    with pytest.raises(ValueError, match=message):
        load_experiment(load_recipe("vectors", overrides=[setting]), tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "recipe.yaml and run.json missing"),
        ({"run.json": '{"format": 9}', "recipe.yaml": ""}, "format 9"),
    ],
)
def test_no_run_is_an_error_that_says_why(files, message, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        Run.open(tmp_path)


def test_a_run_without_checkpoints_has_no_network(tmp_path):
    (tmp_path / "run.json").write_text('{"seed": 0}')
    with pytest.raises(ValueError, match="no checkpoint to load: there is none yet"):
        Run(tmp_path).checkpoint()


def test_several_seeds_have_neither_one_checkpoint_nor_one_table(tmp_path):
    (tmp_path / "run.json").write_text('{"seeds": [0, 1]}')
    for ask in (Run.checkpoint, lambda run: run.metrics):
        with pytest.raises(ValueError, match=r"has several seeds \(0, 1\): take one of its parts"):
            ask(Run(tmp_path))
