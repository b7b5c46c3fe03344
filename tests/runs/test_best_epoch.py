"""The weights of the best epoch are kept, and the weight of CPCC rises."""

import pytest

from cophenet.evaluation import evaluate
from cophenet.recipes import load_recipe
from cophenet.runs import load_experiment, resume
from cophenet.runs.lightning_module import TrainingModule
from cophenet.runs.loss_meter import Meter

from .small_runs import assert_same, quick, weights
from .test_training import StopAt


@pytest.fixture
def epochs(monkeypatch):
    """Epochs of a given accuracy; the weights after each."""
    accuracies, states = [0.2, 0.9, 0.5, 0.9, 0.4, 0.95], []
    watch, record = TrainingModule.on_validation_epoch_end, TrainingModule.on_train_epoch_end

    def watched(module):
        watch(module)
        module.accuracy = accuracies[module.epoch]

    def recorded(module):
        states.append({name: value.clone() for name, value in module.state_dict().items()})
        record(module)

    monkeypatch.setattr(TrainingModule, "on_validation_epoch_end", watched)
    monkeypatch.setattr(TrainingModule, "on_train_epoch_end", recorded)
    return states


@pytest.mark.parametrize(
    ("stopping", "trained", "kept"),
    [("{}", 6, 6), ("{patience: 3}", 5, 2), ("{patience: 1, share: 0.5}", 3, 2)],
)
def test_the_first_best_epoch_is_kept(stopping, trained, kept, epochs, tmp_path):
    run = quick(tmp_path / "run", f"stopping={stopping}", "epochs=6")
    assert len(run.metrics) == len(epochs) == trained
    assert run.finished
    assert run.info["kept"] == {
        "epoch": kept,
        "validation_accuracy": run.metrics[kept - 1]["validation/accuracy"],
    }
    assert_same(weights(run), epochs[kept - 1])
    assert f"kept the weights of epoch {kept}" in (run.path / "log.txt").read_text()


@pytest.mark.usefixtures("epochs")
def test_an_interrupted_run_keeps_the_same_epoch(tmp_path, monkeypatch):
    settings = ("stopping={patience: 3}", "epochs=6")
    alone = quick(tmp_path / "alone", *settings)
    with monkeypatch.context() as patch:
        StopAt(patch, 3 * 4 + 1)  # in the fourth epoch, after the best
        with pytest.raises(KeyboardInterrupt, match="--resume"):
            quick(tmp_path / "run", *settings)
    run = resume(tmp_path / "run", loggers=(), progress=False)
    assert run.info["kept"] == alone.info["kept"] == {"epoch": 2, "validation_accuracy": 0.9}
    assert_same(weights(run), weights(alone))
    assert len(run.metrics) == len(alone.metrics) == 5


def test_a_kill_before_the_end_is_noted_trains_no_further(epochs, tmp_path, monkeypatch):
    settings = ("stopping={patience: 1}", "epochs=6")
    with monkeypatch.context() as patch:
        patch.setattr("cophenet.runs.lightning_trainer.write_json", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            quick(tmp_path / "run", *settings)
    run = resume(tmp_path / "run", loggers=(), progress=False)
    assert len(epochs) == 3
    assert run.info["kept"] == {"epoch": 2, "validation_accuracy": 0.9}
    assert_same(weights(run), epochs[1])


def test_results_say_which_epoch_it_was_and_the_test_part_is_not_looked_at(tmp_path):
    run = quick(tmp_path / "run", "stopping={}", "one_shot.epochs=1")
    assert "test/accuracy" not in run.metrics[0]
    results = evaluate(run)
    assert results["kept"] == [run.info["kept"]]
    experiment = load_experiment(run.recipe)
    rows = [set(part.rows.tolist()) for part in (experiment.train, experiment.validation)]
    whole = load_experiment(load_recipe("digits"))
    assert rows[0].isdisjoint(rows[1])
    assert rows[0] | rows[1] == set(whole.train.rows.tolist())
    assert len(experiment.test) == len(whole.test)


def test_features_of_the_test_part_are_not_for_it(tmp_path):
    with pytest.raises(ValueError, match=r"stopping looks at no test samples .* save_features_every"):
        quick(tmp_path / "run", "stopping={}", "save_features_every=1")


def test_the_weight_rises_in_its_share_of_the_steps(tmp_path, monkeypatch):
    shares, whole, step, add = [], [], TrainingModule._terms, Meter.add

    def terms(module, *outputs):
        made = step(module, *outputs)
        shares.append((made["cpcc"] / whole[-1]).item())
        return made

    def added(meter, place, terms, samples):
        whole.append(terms["cpcc"])
        add(meter, place, terms, samples)

    monkeypatch.setattr(TrainingModule, "_terms", terms)
    monkeypatch.setattr(Meter, "add", added)
    quick(tmp_path / "run", "objective.cpcc.warmup=0.5")
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0])
