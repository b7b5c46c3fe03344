"""Trainings of seconds: what they leave, that they repeat, and what stops them."""

import json
import math
import signal
import threading

import pytest
import torch
from safetensors.torch import load_file

from cophenet._common import packages as packages_module
from cophenet.objectives import objective_names
from cophenet.recipes import load_recipe
from cophenet.runs import Run, load_experiment, load_network, resume, train
from cophenet.runs import training as training_module
from cophenet.runs.checkpoints import list_checkpoints, newest_good, read_checkpoint
from cophenet.runs.lightning_trainer import _make_loggers, build_module

from .small_runs import SMALL, assert_same, quick, weights

WEIGHT = "network.backbone.layers.0.weight"
CURRICULUM = ["objective.name=curriculum", "objective.options.curriculum.epochs=[1, 2]", "epochs=3"]


@pytest.mark.parametrize("objective", objective_names())
def test_every_objective_trains(objective, tmp_path):
    settings = CURRICULUM if objective == "curriculum" else [f"objective.name={objective}"]
    run = quick(tmp_path / "run", *settings)
    assert run.finished
    rows = run.metrics
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == (3 if objective == "curriculum" else 2)
    assert 0 <= rows[-1]["test/accuracy"] <= 1
    initial = build_module(run, load_experiment(run.recipe), fresh=True).state_dict()
    assert not torch.equal(weights(run)[WEIGHT], initial[WEIGHT])


def test_the_folder_holds_what_others_read(tmp_path):
    run = quick(tmp_path / "run", "save_features_every=2", "epochs=4", loggers=("csv", "tensorboard"))
    names = {path.name for path in run.path.iterdir()}
    assert names == {
        *("recipe.yaml", "run.json", "tree.json", "metrics.csv", "log.txt", "lock"),
        *("checkpoints", "tensorboard", "features"),
    }
    assert len(list_checkpoints(run.path / "checkpoints")) == 2
    assert len(run.info["seconds_per_epoch"]) == 4
    assert run.recipe == load_recipe("digits", overrides=[*SMALL, "save_features_every=2", "epochs=4"])
    experiment = load_experiment(run.recipe)
    assert run.tree == experiment.tree
    assert len((run.path / "log.txt").read_text().splitlines()) == 5
    row = run.metrics[-1]
    assert row["train/loss"] == pytest.approx(row["train/cross_entropy"] + row["train/cpcc_loss"])
    assert row["train/cpcc"] == pytest.approx(1 - row["train/cpcc_loss"])
    assert sorted(path.name for path in (run.path / "features").iterdir()) == [
        "epoch0002-source-test.safetensors",
        "epoch0004-source-test.safetensors",
    ]
    network, saved = load_network(run), load_file(run.features_path("source-test", 4))
    inputs, labels = next(iter(experiment.evaluation_loader(experiment.test)))
    with torch.no_grad():
        features, logits = network(inputs)
    assert torch.equal(saved["labels"], labels)
    torch.testing.assert_close(saved["features"], features)
    torch.testing.assert_close(saved["logits"], logits[experiment.objective.finest])
    assert row["test/accuracy"] == pytest.approx((saved["logits"].argmax(1) == labels).float().mean().item())


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path):
    one, two, other = (
        weights(quick(tmp_path / name, f"seeds=[{seed}]")) for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert_same(one, two)
    assert not torch.equal(one[WEIGHT], other[WEIGHT])


def test_several_seeds_are_folders_that_equal_single_runs(tmp_path):
    run = quick(tmp_path / "run", "seeds=[0, 2]")
    assert [part.name for part in run.parts] == ["run/seed0", "run/seed2"]
    assert [part.seed for part in run.parts] == [0, 2]
    with pytest.raises(ValueError, match="several seeds"):
        _ = run.seed
    assert_same(weights(run.parts[1]), weights(quick(tmp_path / "alone", "seeds=[2]")))


def test_training_leaves_the_callers_random_state_and_threads(tmp_path):
    torch.set_num_threads(1)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    quick(tmp_path / "run", threads=2)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == 1


def test_a_phase_trains_its_own_heads_with_a_fresh_optimizer(tmp_path):
    settings = [*CURRICULUM, "schedule={divide_by: 10, every: 1}", "optimizer.momentum=0.9"]
    run = quick(tmp_path / "run", *settings)
    assert [row["lr"] for row in run.metrics] == pytest.approx([0.05, 0.05, 0.005])
    assert [row["test/accuracy"] is None for row in run.metrics] == [True, False, False]
    coarse, fine = (f"network.heads.head_{name}.weight" for name in run.tree.level_names)
    initial = build_module(run, load_experiment(run.recipe), fresh=True).state_dict()
    newest, before = (
        read_checkpoint(path)["state_dict"] for path in list_checkpoints(run.path / "checkpoints")
    )
    assert torch.equal(newest[coarse], before[coarse])
    assert not torch.equal(newest[coarse], initial[coarse])
    assert not torch.equal(newest[fine], before[fine])
    # Without momentum for the coarse head: the second phase began with nothing.
    states = read_checkpoint(run.checkpoint())["optimizer_states"][0]["state"]
    assert len(states) == len(list(load_network(run).parameters())) - 2


class StopAt:
    """Asks to stop in a step, as Ctrl-C would."""

    def __init__(self, monkeypatch, step):
        from cophenet.runs.lightning_module import TrainingModule

        original = TrainingModule.training_step

        def training_step(module, batch, batch_idx):
            if module.total_step == step:
                signal.raise_signal(signal.SIGINT)
            return original(module, batch, batch_idx)

        monkeypatch.setattr(TrainingModule, "training_step", training_step)


SAMPLER = "data.sampler={classes_per_batch: 4, samples_per_class: 16, parents_per_batch: 2}"


@pytest.mark.parametrize(
    ("step", "settings"),
    [(1, []), (6, []), (9, [SAMPLER, "batch_size=64"]), (2, ["chunk_size=100"])],
    ids=["early", "second epoch", "sampler", "chunks"],
)
def test_ctrl_c_saves_and_the_resumed_run_ends_the_same(step, settings, tmp_path, monkeypatch):
    settings = ["objective.name=swd", *settings]
    alone = quick(tmp_path / "alone", *settings)
    with monkeypatch.context() as patch:
        StopAt(patch, step)
        with pytest.raises(KeyboardInterrupt, match="--resume"):
            quick(tmp_path / "run", *settings)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run = resume(tmp_path / "run", loggers=(), progress=False)
    assert_same(weights(run), weights(alone))
    assert [{**row, "seconds": 0} for row in run.metrics] == [{**row, "seconds": 0} for row in alone.metrics]


@pytest.mark.parametrize("settings", [[], CURRICULUM, ["optimizer={name: adamw, lr: 1e-3}"]])
def test_chunks_give_the_weights_of_the_plain_step(settings, tmp_path):
    settings = [*settings, "schedule={divide_by: 10, every: 1}"]
    plain, chunked = (
        quick(tmp_path / name, *settings, *more)
        for name, more in (("plain", []), ("chunked", ["chunk_size=60"]))
    )
    one, other = (dict(load_network(run).state_dict()) for run in (plain, chunked))
    for name in one:
        torch.testing.assert_close(other[name], one[name], rtol=0, atol=1e-6)
    for row, same in zip(plain.metrics, chunked.metrics, strict=True):
        assert same["train/loss"] == pytest.approx(row["train/loss"], rel=1e-5)
        assert (same["lr"], same["test/accuracy"]) == (row["lr"], row["test/accuracy"])


def test_chunks_are_each_counted_once_by_batch_normalization(tmp_path):
    settings = ("model.options.norm=batch", "epochs=1", "batch_size=256", "chunk_size=128")
    run = quick(tmp_path / "run", *settings)
    batches = math.ceil(len(load_experiment(run.recipe).train) / 256)
    assert weights(run)["network.backbone.layers.1.num_batches_tracked"] == 2 * batches


def test_chunks_that_diverge_are_reported(tmp_path):
    with pytest.raises(ArithmeticError, match="step"):
        quick(tmp_path / "run", "chunk_size=60", "optimizer.lr=1e30", "epochs=6")


def test_chunks_need_a_strategy_that_knows_them(tmp_path):
    with pytest.raises(ValueError, match="chunk_size needs strategy ddp or auto, got 'fsdp'"):
        quick(tmp_path / "run", "chunk_size=60", strategy="fsdp")
    assert not (tmp_path / "run").exists()


def test_batches_are_chosen_on_the_tree():
    recipe = load_recipe("digits", overrides=[SAMPLER, "batch_size=64"])
    experiment = load_experiment(recipe)
    parents = experiment.tree.parents[experiment.tree.leaves]
    loader = experiment.training_loader(3)
    epoch = [labels for _, labels in loader.batches(1)]
    for labels in epoch:
        classes, counts = labels.unique(return_counts=True)
        assert counts.tolist() == [16] * 4
        assert len(set(parents[classes].tolist())) == 2
    for step, rank in ((0, 0), (4, 1)):
        shares = experiment.training_loader(3, rank=rank, world_size=2).batches(1, step)
        for whole, (_, share) in zip(epoch[step:], shares, strict=True):
            assert torch.equal(share, whole.chunk(2)[rank])
    other = [labels for _, labels in experiment.training_loader(4).batches(1)]
    assert not torch.equal(epoch[0], other[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([], "batch_size must be 64 with data.sampler, .* 4 x samples_per_class 16, got 256"),
        (["batch_size=200", "data.sampler.samples_per_class=50"], None),
        (["batch_size=800", "data.sampler.samples_per_class=200"], "data.sampler.samples_per_class must not"),
        (["batch_size=64", "data.sampler.level=nowhere"], "nowhere"),
        (["batch_size=144", "data.sampler.classes_per_batch=9"], "data.sampler.classes_per_batch must not"),
    ],
)
def test_batches_that_cannot_be_are_refused(settings, message, tmp_path):
    if message is None:
        assert quick(tmp_path / "run", "epochs=1", SAMPLER, *settings).finished
        return
    with pytest.raises(ValueError, match=message):
        quick(tmp_path / "run", "epochs=1", SAMPLER, *settings)
    assert not (tmp_path / "run").exists()


def test_resume_continues_with_the_unfinished_seeds(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        StopAt(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            quick(tmp_path / "run", "seeds=[0, 1]")
    run = resume(tmp_path / "run", loggers=(), progress=False)
    assert run.finished
    assert_same(weights(run.parts[1]), weights(quick(tmp_path / "one", "seeds=[1]")))


def test_other_threads_can_train(tmp_path):
    thread = threading.Thread(target=lambda: quick(tmp_path / "run"))
    thread.start()
    thread.join()
    assert Run.open(tmp_path / "run").finished


def test_resume_of_a_finished_run_changes_nothing(tmp_path):
    run = quick(tmp_path / "run")
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    assert resume(run.path).finished
    assert before == {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


def test_a_damaged_checkpoint_is_reported_and_the_one_before_used(tmp_path, capsys):
    run = quick(tmp_path / "run")
    expected = weights(run)
    newest, before = list_checkpoints(run.path / "checkpoints")
    newest.write_bytes(newest.read_bytes()[:-7])
    info = run.info
    (run.path / "run.json").write_text(json.dumps({**info, "finished": False}))
    resume(run.path, loggers=())
    assert f"checkpoint {newest.name} is damaged: using {before.name}" in capsys.readouterr().out
    assert newest_good(run.path / "checkpoints")[1] == []
    assert_same(weights(run), expected)


def test_a_run_is_not_written_over(tmp_path, monkeypatch):
    run = quick(tmp_path / "run")
    with pytest.raises(ValueError, match="holds this run already, finished"):
        quick(tmp_path / "run")
    with pytest.raises(ValueError, match=r"other settings \(optimizer.lr is 0.05 there and 0.1 here\)"):
        quick(tmp_path / "run", "optimizer.lr=0.1")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match=r"holds other files \(thesis.tex\)"):
        quick(tmp_path / "mine")
    assert run.finished
    with monkeypatch.context() as patch:
        StopAt(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            quick(tmp_path / "stopped")
    with pytest.raises(ValueError, match="unfinished: continue it with cophenet train --resume"):
        quick(tmp_path / "stopped")


def test_an_empty_folder_and_a_run_without_checkpoint_may_be_used(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(training_module, "train_seeds", lambda *_: None)
        assert not quick(tmp_path / "run").finished
    assert quick(tmp_path / "run").finished


def test_a_diverging_loss_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    settings = ["objective.name=flat", "optimizer.lr=1e30", "epochs=5", "optimizer.momentum=0"]
    with pytest.raises(ArithmeticError, match=r"in step \d+: .*optimizer.lr"):
        quick(tmp_path / "run", *settings, checkpoint_minutes=0)
    for path in list_checkpoints(tmp_path / "run" / "checkpoints"):
        state = read_checkpoint(path)
        assert all(torch.isfinite(torch.tensor(float(value.sum()))) for value in [state["meter"]["sums"]])


@pytest.mark.parametrize("objective", ["fastft", "rank"])
def test_features_that_overflow_are_a_divergence_too(objective, tmp_path):
    with pytest.raises(ArithmeticError, match="step"):
        quick(tmp_path / "run", f"objective.name={objective}", "optimizer.lr=1e30", "epochs=6")


def test_changed_data_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        StopAt(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            quick(tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    info["samples"]["train"]["count"] = 7
    (tmp_path / "run" / "run.json").write_text(json.dumps(info))
    with pytest.raises(ValueError, match="train 7 then, 944 now"):
        resume(tmp_path / "run")


def test_weights_are_looked_for_in_the_data_folder_or_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for data_dir, place in ((None, tmp_path), (tmp_path / "data", tmp_path / "data")):
        with pytest.raises(FileNotFoundError, match=f"looked for {place / 'net.pth'}"):
            quick(tmp_path / "run", "model.weights=net.pth", data_dir=data_dir)
    backbone = load_network(quick(tmp_path / "first")).backbone.state_dict()
    (tmp_path / "data").mkdir()
    torch.save(backbone, tmp_path / "data" / "net.pth")
    run = quick(tmp_path / "run", "model.weights=net.pth", "optimizer.lr=1e-30", data_dir=tmp_path / "data")
    assert_same(dict(load_network(run).backbone.state_dict()), dict(backbone))


def test_settings_reach_the_training(tmp_path):
    run = quick(
        tmp_path / "run", "optimizer={name: adamw, lr: 1e-3, weight_decay: 0.1}", "precision=bf16-mixed"
    )
    group = read_checkpoint(run.checkpoint())["optimizer_states"][0]["param_groups"][0]
    assert (group["lr"], group["weight_decay"], "betas" in group) == (1e-3, 0.1, True)
    images = ["data.image_size=12", "data.validation=0.25", "data.augment=cifar"]
    run = quick(tmp_path / "large", *images, "tree.level_weights={1: 2.0}")
    assert run.info["input_shape"] == [1, 12, 12]
    assert run.info["samples"]["train"]["count"] + run.info["samples"]["test"]["count"] == 944
    assert sorted(set(run.tree.condensed(range(run.tree.num_classes)).tolist())) == [2.0, 6.0]


def test_no_batch_of_one_sample(tmp_path):
    recipe = load_recipe("digits", overrides=["batch_size=41"])
    experiment = load_experiment(recipe)
    assert len(experiment.train) % 41 == 1
    assert len(experiment.training_loader(0)) == len(experiment.train) // 41
    assert len(experiment.training_loader(0, world_size=1).samples) == len(experiment.train)
    assert train(
        recipe.model_copy(update={"epochs": 1}), tmp_path / "run", loggers=(), progress=False
    ).finished


@pytest.mark.parametrize("name", ["wandb", ".wandb"])
def test_settings_of_wandb_in_a_run_folder_are_refused(name, tmp_path):
    """They may name the server that is sent the user's key."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "settings").write_text("[default]\nbase_url = https://evil.example\n")
    with pytest.raises(ValueError, match=r"settings would decide where wandb sends your account"):
        _make_loggers(Run(tmp_path), ["wandb"], 0)


def test_wandb_must_be_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(
        packages_module.importlib.util, "find_spec", lambda name: None if name == "wandb" else name
    )
    with pytest.raises(ImportError, match="pip install 'wandb'"):
        quick(tmp_path / "run", loggers=("wandb",))
    assert not (tmp_path / "run").exists()


def test_the_network_of_a_run_that_remembers_features_is_read(tmp_path):
    run = quick(tmp_path / "run", "objective.cpcc={memory: 140}", "epochs=1")
    assert torch.equal(load_network(run).state_dict()[WEIGHT.removeprefix("network.")], weights(run)[WEIGHT])
