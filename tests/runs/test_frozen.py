"""A frozen backbone from training to prediction; a trained one with a neck."""

import csv
import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from cophenet.cli import main
from cophenet.data import ImageFiles
from cophenet.data.augmentation import CentreCrop, RandomCrop
from cophenet.estimator import HierarchicalEmbedder
from cophenet.evaluation import evaluate
from cophenet.models.efficientnet import EfficientNetLite
from cophenet.recipes import load_recipe
from cophenet.runs import load_experiment, load_network, resume, train
from cophenet.runs.checkpoints import read_checkpoint
from cophenet.runs.lightning_module import TrainingModule

COLOURS = {
    "warm/red": (220, 30, 30),
    "warm/sand": (220, 180, 90),
    "cold/sea": (20, 120, 160),
    "cold/ice": (190, 220, 240),
}
RECIPE = """
name: colours
data: {name: folder, domain: full, image_size: 32, augment: none}
model:
  backbone: efficientnet-lite0
  weights: pretrained
  frozen: true
  neck: {hidden: [16], norm: batch, dropout: 0.2}
objective: {name: flat}
optimizer: {name: adamw, lr: 0.01}
schedule: {one_cycle: 0.3}
epochs: 3
batch_size: 8
"""
OPTIONS = {"loggers": (), "progress": False}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Four classes of six images each, noise around a colour."""
    folder, rng = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for index in range(6):
            pixels = np.clip(rng.normal(colour, 25, (40, 44, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "colours.yaml"
    path.write_text(RECIPE)
    return lambda *settings: load_recipe(path, overrides=settings)


@pytest.fixture(scope="module")
def run(photos, recipe, tmp_path_factory):
    return train(recipe(), tmp_path_factory.mktemp("runs") / "run", data_dir=photos, threads=1, **OPTIONS)


def state(run):
    return read_checkpoint(run.checkpoint())["state_dict"]


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_only_the_neck_and_the_heads_are_trained_and_saved(run):
    assert run.info["input_shape"] == [1280]
    assert state(run)["network.backbone.layers.0.weight"].shape == (16, 1280)
    assert not any("_blocks" in name for name in state(run))
    assert [row["lr"] for row in run.metrics] == pytest.approx([0.00586824, 0.00811745, 0.00133474], rel=1e-4)
    assert load_network(run)(torch.zeros(2, 1280)).features.shape == (2, 16)


def test_a_second_run_reads_the_vectors_of_the_first(run, photos, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(EfficientNetLite, "forward_features", lambda *_: pytest.fail("computed again"))
    assert_same(state(train(recipe(), tmp_path / "again", data_dir=photos, threads=1, **OPTIONS)), state(run))


def test_an_interrupted_run_ends_the_same(run, photos, recipe, tmp_path, monkeypatch):
    training_step = TrainingModule.training_step

    def stop(module, batch, batch_idx):
        if module.total_step == 4:
            raise RuntimeError("lost")
        return training_step(module, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "training_step", stop)
        with pytest.raises(RuntimeError, match="lost"):
            train(recipe(), tmp_path / "run", data_dir=photos, threads=1, **OPTIONS)
    assert_same(state(resume(tmp_path / "run", **OPTIONS)), state(run))


def test_changed_weights_are_changed_data(run, photos, monkeypatch):
    experiment = load_experiment(run.recipe, photos)
    monkeypatch.setattr(type(experiment.trunk), "digest", "other")
    assert experiment.train.fingerprint() != run.info["samples"]["train"]["inputs"]


def test_evaluation_and_prediction_agree(run, photos):
    results = evaluate(run, device="cpu")
    embedder = HierarchicalEmbedder.from_run(run.path)
    experiment = load_experiment(run.recipe, photos)
    test = experiment.images.samples("test")
    images, labels = test.take(np.arange(len(test)))
    assert images.shape == (len(test), 3, 32, 32)
    loader = experiment.evaluation_loader(experiment.test)
    features = torch.cat([load_network(run)(inputs).features for inputs, _ in loader])
    torch.testing.assert_close(
        torch.from_numpy(embedder.transform(images.float())), features, rtol=1e-4, atol=1e-4
    )
    right = embedder.predict(images) == np.array(test.tree.classes)[labels]
    assert results["metrics"]["full/accuracy/level2"]["mean"] == right.mean() >= 0.5


@pytest.mark.parametrize(
    "change", [lambda x: x / 255, lambda x: x - 1, lambda x: x * 2, lambda x: (x > 9).int()]
)
def test_other_numbers_than_bytes_are_refused(run, change):
    embedder = HierarchicalEmbedder.from_run(run.path)
    images = torch.arange(3 * 32 * 32).reshape(1, 3, 32, 32) % 256
    with pytest.raises(
        ValueError, match=r"inputs must be bytes, 0 to 255, .*got \w+ from .* multiplied by 255"
    ):
        embedder.predict(change(images.float()))
    for bytes_ in (images, images.to(torch.uint8), torch.zeros(1, 3, 32, 32)):
        assert len(embedder.predict(bytes_)) == 1


def command(*words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return ended.value.code


def test_image_files_and_folders_are_predicted(run, photos, tmp_path, capsys):
    (tmp_path / "new/inner").mkdir(parents=True)
    for number, colour in enumerate(COLOURS.values()):
        Image.new("RGB", (50, 30), colour).save(tmp_path / "new/inner" / f"{number}.png")
    (tmp_path / "new/notes.txt").write_text("no image")
    one = photos / "warm/red/0.png"
    output = tmp_path / "answers.csv"
    assert command("predict", one, tmp_path / "new", "--model", run.path, "-o", output) == 0
    assert capsys.readouterr().out == f"wrote {output}: 5 answers\n"
    rows = list(csv.DictReader(output.read_text().splitlines()))
    assert [row["file"] for row in rows] == [
        str(one),
        *(str(tmp_path / f"new/inner/{n}.png") for n in range(4)),
    ]
    embedder = HierarchicalEmbedder.from_run(run.path)
    files = ImageFiles([row["file"] for row in rows], CentreCrop(32, 37), RandomCrop())
    images = files.take(np.arange(5))
    assert [row["path"] for row in rows] == ["/".join(path) for path in embedder.predict_path(images)]
    assert [float(row["probability"]) for row in rows] == pytest.approx(embedder.predict_proba(images).max(1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nowhere.png"], "image nowhere.png not found"),
        (["empty"], "folder empty holds no images"),
        (["notes.txt", "empty"], "notes.txt is no image: files .bmp"),
    ],
)
def test_what_is_no_image_is_not_predicted(run, tmp_path, monkeypatch, capsys, given, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no image")
    assert command("predict", *given, "--model", run.path, "-o", "answers.csv") == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not (tmp_path / "answers.csv").exists()


def test_a_folder_that_cannot_be_read_is_not_passed_over(run, photos, tmp_path, monkeypatch, capsys):
    new, scan = shutil.copytree(photos, tmp_path / "new"), os.scandir
    closed = new / "warm"

    def scandir(path):
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert command("predict", new, "--model", run.path, "-o", tmp_path / "answers.csv") == 1
    assert capsys.readouterr().err == f"error: {closed}: Permission denied\n"
    assert not (tmp_path / "answers.csv").exists()


def test_a_model_of_vectors_takes_no_images(photos, tmp_path, capsys):
    vectors, names = np.random.default_rng(0).normal(size=(40, 3)), np.repeat(["a", "b", "c", "d"], 10)
    tree = {"one": ["a", "b"], "two": ["c", "d"]}
    HierarchicalEmbedder(tree, max_iter=1).fit(vectors, names).save(tmp_path / "model")
    assert command("predict", photos, "--model", tmp_path / "model", "-o", tmp_path / "answers.csv") == 2
    assert "only one of a run on colour images does" in capsys.readouterr().err


def test_augmented_views(photos, recipe, tmp_path):
    made = recipe("data.augment=views", "model.views=2", "epochs=2")
    run = train(made, tmp_path / "views", data_dir=photos, threads=1, **OPTIONS)
    experiment = load_experiment(made, photos)
    epochs = [torch.cat([x for x, _ in experiment.training_loader(0).batches(epoch)]) for epoch in (0, 1)]
    plain, _ = experiment.train.take(np.arange(len(experiment.train)))
    known = {tuple(row.tolist()) for row in plain}
    seen = [sum(tuple(row.tolist()) in known for row in rows) for rows in epochs]
    assert all(0 < count < len(plain) for count in seen)
    assert run.finished


def test_all_layers_are_trained_unless_frozen(photos, recipe, tmp_path):
    made = recipe("model={backbone: resnet10-w8, neck: {hidden: [6]}}", "epochs=1")
    run = train(made, tmp_path / "run", data_dir=photos, threads=1, **OPTIONS)
    torch.manual_seed(0)
    names = state(run).keys()
    assert "network.backbone.trunk.conv1.weight" in names
    assert run.info["input_shape"] == [3, 32, 32]
    assert load_network(run).backbone.num_features == 6
    optimizer = read_checkpoint(run.checkpoint())["optimizer_states"][0]["state"]
    assert len(optimizer) == sum(1 for _ in load_network(run).parameters())
    images = torch.randint(256, (2, 3, 32, 32))
    assert len(HierarchicalEmbedder.from_run(run.path).predict(images)) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.weights=null"], r"model\.frozen needs model\.weights"),
        (["model.neck={hidden: 3}"], r"model\.neck\.hidden must be a list, got 3"),
        (["model.neck={hiden: [3]}"], r"'mlp' has no option 'hiden'; .*did you mean 'hidden'"),
        (["model.neck.dropout=1.5"], r"model\.neck\.dropout must be at least 0 and below 1, got 1.5"),
        (["model.views=2"], r"data\.augment 'none' and model\.views 2 do not go together"),
        (["data.augment=views"], r"data\.augment 'views' and model\.views 0 do not go together"),
        (
            ["model.views=2", "model.frozen=false", "data.augment=views"],
            r"model\.views is for a frozen backbone",
        ),
        (["schedule.every=3"], r"schedule\.one_cycle is in place of divide_by and every"),
        (["schedule={every: 3}"], r"schedule\.divide_by is missing"),
        (["schedule={one_cycle: 1}"], r"schedule\.one_cycle must be less than 1"),
    ],
)
def test_settings_that_do_not_go_together(recipe, settings, message):
    with pytest.raises(ValueError, match=message):
        recipe(*settings)


def test_vectors_have_nothing_to_freeze():
    model = "model={backbone: mlp, weights: net.pth, frozen: true}"
    with pytest.raises(ValueError, match=r"model\.frozen is for images"):
        load_recipe("vectors", overrides=[model])
