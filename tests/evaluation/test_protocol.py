"""Which numbers a run gets, and what happens where something is missing, shared, shuffled or undefined."""

import errno
import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from cophenet import class_distances, cpcc
from cophenet._common.files import write_json
from cophenet.data import create_source
from cophenet.data.breeds import breeds_classes
from cophenet.evaluation import evaluate, features, metric_info
from cophenet.recipes import load_recipe
from cophenet.runs import load_network
from cophenet.runs.checkpoints import write_checkpoint
from data.pictures import fill
from evaluation.runs import ONE_SHOT, TINY, make_run

VECTORS = (
    "data.options={train: train.npz, test: test.npz, tree_file: tree.txt}",
    "data.domain=source",
    "model.options={hidden: [24]}",
    "evaluation={neighbours: [1]}",
    ONE_SHOT,
)


@pytest.fixture
def data_dir(tmp_path):
    """Vectors in files, of two groups of five classes."""
    folder = tmp_path / "data"
    folder.mkdir()
    clouds = create_source("synthetic", branching=(2, 5), dims=4, samples_per_class=5).load(None)
    clouds.tree.write(folder / "tree.txt")
    for part in ("train", "test"):
        inputs, labels = clouds.samples(part).take(np.arange(50))
        names = np.array(clouds.tree.classes)[labels.numpy()]
        np.savez(folder / f"{part}.npz", features=inputs.numpy(), labels=names)
    return folder


def means(results):
    return {key: metric["mean"] for key, metric in results["metrics"].items()}


def files(run):
    return {path.name: path.read_bytes() for path in run.path.iterdir() if path.suffix == ".json"}


def test_repeating_gives_the_same_files_and_needs_no_data(tmp_path, data_dir):
    run = make_run(tmp_path / "run", VECTORS, recipe="vectors", data_dir=data_dir)
    calls = []
    evaluate(run, progress=lambda *progress: calls.append(progress))
    first = files(run)
    assert calls[0] == ("run: features of source-test", 30, 30)
    shutil.rmtree(data_dir)
    calls.clear()
    again = evaluate(run, progress=lambda *progress: calls.append(progress))
    assert calls == []
    assert files(run) == first
    assert again == json.loads(first["results.json"])
    assert not [path for path in run.path.rglob("*") if path.name.endswith(".tmp")]


def test_anew_from_the_data_gives_the_same_files(tmp_path):
    run = make_run(tmp_path / "run")
    evaluate(run)
    first = files(run)
    shutil.rmtree(run.path / "features")
    evaluate(run)
    assert files(run) == first


def test_without_the_training_data_what_needs_it_has_a_reason(tmp_path, data_dir):
    run = make_run(tmp_path / "run", VECTORS, recipe="vectors", data_dir=data_dir)
    whole = means(evaluate(run))
    for name in ("source-train", "target-train"):
        run.features_path(name).unlink()
    shutil.rmtree(data_dir)
    results = evaluate(run)
    lacking = {"source/map/level1", "source/map/level2", "target/map/level1", "target/accuracy/level2"}
    assert {key for key, value in means(results).items() if value is None} == lacking
    assert set(results["missing"]) == lacking
    assert "the source train data is not there: " in results["missing"]["source/map/level1"]
    assert "the target train data is not there: " in results["missing"]["target/accuracy/level2"]
    rest = {key: value for key, value in means(results).items() if key not in lacking}
    assert rest == {key: value for key, value in whole.items() if key not in lacking}
    assert results["samples"] == {"source-test": 30, "target-test": 20}


def test_too_few_target_samples_leave_out_one_number(tmp_path, data_dir):
    shots = "one_shot.shots=9"
    run = make_run(tmp_path / "run", (*VECTORS, shots), recipe="vectors", data_dir=data_dir)
    results = evaluate(run)
    assert list(results["missing"]) == ["target/accuracy/level2"]
    reason = results["missing"]["target/accuracy/level2"]
    assert re.fullmatch(r"one_shot\.shots: .* got 9, but class '.*' has 5", reason)


def test_a_full_disk_is_no_missing_data(tmp_path, data_dir, monkeypatch):
    run = make_run(tmp_path / "run", VECTORS, recipe="vectors", data_dir=data_dir)
    save = features.save_features

    def full(path, *rest):
        if path.stem == "target-train":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        save(path, *rest)

    monkeypatch.setattr(features, "save_features", full)
    with pytest.raises(OSError, match="No space left on device"):
        evaluate(run)
    assert not (run.path / "results.json").exists()


def test_without_the_target_the_source_is_measured(tmp_path, data_dir):
    run = make_run(tmp_path / "run", VECTORS, recipe="vectors", data_dir=data_dir)
    evaluate(run)
    run.features_path("target-test").unlink()
    shutil.rmtree(data_dir)
    results = evaluate(run)
    assert all(("target/" in key) == (value is None) for key, value in means(results).items())


def test_no_data_and_no_features(tmp_path, data_dir):
    run = make_run(tmp_path / "run", VECTORS, recipe="vectors", data_dir=data_dir)
    moved = data_dir.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match="data"):
        evaluate(run)
    assert not (run.path / "results.json").exists()
    assert means(evaluate(run, data_dir=moved))["source/map/level2"] > 0


def test_other_data_than_the_run_was_trained_on(tmp_path, data_dir):
    run = make_run(tmp_path / "run", VECTORS, recipe="vectors", data_dir=data_dir)
    tree = (data_dir / "tree.txt").read_text()
    (data_dir / "tree.txt").write_text(tree.replace("root 2", "root 1b").replace("\n2 2", "\n1b 2"))
    with pytest.raises(ValueError, match=r"the data is not what run .* began with"):
        evaluate(run)


def test_a_folder_that_is_given_is_checked_although_features_are_saved(tmp_path, data_dir):
    run = make_run(tmp_path / "run", VECTORS, recipe="vectors", data_dir=data_dir)
    first = evaluate(run)
    moved = data_dir.rename(tmp_path / "moved")
    assert evaluate(run, data_dir=moved) == first
    with pytest.raises(FileNotFoundError):
        evaluate(run, data_dir=tmp_path)
    with np.load(moved / "test.npz") as whole:
        half = {name: whole[name][:40] for name in whole}
    np.savez(moved / "test.npz", **half)
    with pytest.raises(ValueError, match=r"the data is not what run .* began with"):
        evaluate(run, data_dir=moved)


def test_seeds_share_the_data(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "seeds=[0, 1]"))
    loads, load = [], features.load_experiment
    monkeypatch.setattr(
        features, "load_experiment", lambda *given, **more: loads.append(given) or load(*given, **more)
    )
    evaluate(run)
    assert loads == [(run.recipe, None)]


def test_threads_are_those_of_the_training(tmp_path):
    run = make_run(tmp_path / "run")
    before, seen = torch.get_num_threads(), []
    write_json(run.path / "run.json", {**run.info, "threads": before + 1})
    results = evaluate(run, progress=lambda *_: seen.append(torch.get_num_threads()))
    assert set(seen) == {results["threads"]} == {before + 1}
    assert torch.get_num_threads() == before


def test_without_safetensors_nothing_is_computed(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setattr(features, "load_experiment", None)
    with pytest.raises(ImportError, match=r"need safetensors: pip install 'cophenet\[data\]'"):
        evaluate(run)


def test_several_seeds(tmp_path):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "seeds=[0, 4, 7]"))
    results = evaluate(run)
    assert results == json.loads((run.path / "results.json").read_text())
    alone = [json.loads((run.path / f"seed{s}" / "results.json").read_text()) for s in (0, 4, 7)]
    assert [one["name"] for one in alone] == ["run/seed0", "run/seed4", "run/seed7"]
    for key, metric in results["metrics"].items():
        values = [one["metrics"][key]["mean"] for one in alone]
        assert metric["values"] == values
        if None not in values:
            assert metric["mean"] == pytest.approx(np.mean(values))
            assert metric["std"] == pytest.approx(np.std(values, ddof=1))
    # Each seed has an encoder and examples of its own.
    assert len(set(results["metrics"]["target/map/level1"]["values"])) == 3
    assert results["seeds"] == results["recipe"]["seeds"] == [0, 4, 7]
    assert results["seconds_per_epoch"] == pytest.approx(np.mean([1.0, 5.0, 8.0]))
    assert results["missing"] == alone[0]["missing"]
    assert list(results) == list(alone[0])
    assert not (run.path / "details.json").exists()
    assert (run.path / "seed4" / "details.json").exists()


def test_a_number_that_one_seed_lacks_has_no_mean(tmp_path):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "seeds=[0, 1]"))
    part = run.parts[1]
    state = {f"network.{name}": value * 0 for name, value in load_network(part).state_dict().items()}
    write_checkpoint(part.path / "checkpoints", 3, {"state_dict": state})
    results = evaluate(run)
    metric = results["metrics"]["source/cpcc/l2"]
    assert metric["values"][0] is not None
    assert metric == {"mean": None, "std": None, "values": [metric["values"][0], None]}
    assert results["missing"]["source/cpcc/l2"] == "seed 1: one side is constant"
    assert "NaN" not in (run.path / "results.json").read_text()
    assert part.results["metrics"]["source/cpcc-orders/fastft"]["mean"] is None


def test_a_shuffled_tree_is_measured_against_both_trees(tmp_path):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "tree.shuffle_seed=3"))
    plain = make_run(tmp_path / "plain")
    measured, wanted = means(evaluate(run)), means(evaluate(plain))
    assert run.tree.condensed().tolist() != plain.tree.condensed().tolist()
    part = load_file(run.features_path("source-test"))
    for distance in ("fastft", "l2"):
        _, rho = class_distances(part["features"], part["labels"], distance)
        assert measured[f"source/cpcc/{distance}"] == cpcc(rho, plain.tree.condensed()).item()
        assert measured[f"source/cpcc-trained-tree/{distance}"] == cpcc(rho, run.tree.condensed()).item()
    # All else is measured with the true tree: the same network has the same numbers.
    trained = {key for key in measured if "cpcc-trained-tree" in key}
    assert {key: value for key, value in measured.items() if key not in trained} == wanted
    assert run.details["tree"] == plain.details["tree"]


def test_weights_of_the_tree_count_in_cpcc_and_merged_levels_in_the_rest(tmp_path):
    deep = "data.options={branching: [2, 2, 5], dims: 8, samples_per_class: 6}"
    shape = "tree={merge_levels: [level2], level_weights: {1: 3.0}}"
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, deep, shape))
    results = evaluate(run)
    assert results["levels"] == ["level1", "level2", "level3"]
    assert run.tree.height == 2
    part = load_file(run.features_path("source-test"))
    _, rho = class_distances(part["features"], part["labels"], "l2")
    assert sorted(set(run.tree.condensed())) == [2, 8]
    assert means(results)["source/cpcc/l2"] == cpcc(rho, run.tree.condensed()).item()
    for level in results["levels"]:
        for metric in ("source/accuracy", "source/map", "source/calibration", "target/accuracy"):
            assert means(results)[f"{metric}/{level}"] is not None
    assert means(results)["source/severity"] > 2


def test_cpcc_of_a_target_that_is_no_tree(tmp_path):
    run = make_run(
        tmp_path / "run", (*TINY, "objective.name=emd", "objective.cpcc.inside_factors={'1': 3.0}")
    )
    metrics = means(evaluate(run))
    part = load_file(run.features_path("source-test"))
    target = run.recipe.create_objective(run.tree).cpcc.target
    assert (target != run.tree.distances()).any()
    upper = np.triu_indices(run.tree.num_classes, 1)
    for name, t in (("emd", target[upper]), ("l2", run.tree.condensed())):
        _, rho = class_distances(part["features"], part["labels"], name)
        assert metrics[f"source/cpcc/{name}"] == pytest.approx(cpcc(rho.double(), t).item(), abs=1e-6)


def test_a_level_that_source_and_target_do_not_share(tmp_path):
    """Classes 6 to 10 lie above the others: at that level they are groups of their own."""
    tree = tmp_path / "tree.edges"
    pairs = [("a", "x"), *(("x", f"{n}") for n in range(1, 6)), *(("a", f"{n}") for n in range(6, 11))]
    edges = [("root", "a"), ("root", "b"), *pairs, *((f"b{above}", f"b{below}") for above, below in pairs)]
    tree.write_text("\n".join(" ".join(edge) for edge in edges).replace("ba ", "b "))
    data = f"data.options={{tree_file: {tree}, dims: 8, samples_per_class: 6}}"
    results = evaluate(make_run(tmp_path / "run", (*TINY, ONE_SHOT, data)))
    reason = "not all groups of level 'level2' in the target are in the source"
    lacking = {"target/accuracy/level2", "target/map/level2"}
    assert {key for key, given in results["missing"].items() if given == reason} == lacking
    for key in ("target/accuracy/level1", "target/map/level1", "target/accuracy/level3"):
        assert means(results)[key] is not None


def test_a_validation_part_stands_in_for_the_test_part(tmp_path):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "data.validation=0.25"))
    results = evaluate(run)
    assert results["samples"] == {"source-test": 18, "source-train": 54}
    target = [key for key in results["metrics"] if key.startswith("target/")]
    assert len(target) == 4
    assert all("data.validation" in results["missing"][key] for key in target)
    with safe_open(run.features_path("source-test"), framework="pt") as file:
        assert file.metadata()["part"] == "validation"
    assert means(results)["source/map/level2"] is not None


def test_the_full_domain_has_no_target(tmp_path):
    run = make_run(tmp_path / "run", (*TINY, "data.domain=full"))
    results = evaluate(run)
    assert {key.split("/")[0] for key in results["metrics"]} == {"full"}
    assert results["samples"] == {"full-test": 120, "full-train": 120}
    assert sorted(path.name for path in (run.path / "features").iterdir()) == [
        "full-test.safetensors",
        "full-train.safetensors",
    ]


def test_without_one_shot_the_target_classes_have_a_reason(tmp_path):
    results = evaluate(make_run(tmp_path / "run", TINY))
    assert results["missing"]["target/accuracy/level2"] == "the recipe has no one_shot"
    assert "target-train" not in results["samples"]


def test_domains_that_share_their_classes_need_no_new_head(tmp_path):
    images = tmp_path / "imagenet"
    for one in breeds_classes("living17"):
        for wnid in one["source"] + one["target"]:
            fill(images / "train" / wnid, 1, wnid + "_{}.JPEG")
            fill(images / "val" / wnid, 1, "val_{}.JPEG")
    settings = ("data.image_size=16", "data.workers=0", "model={backbone: mlp, options: {hidden: [32]}}")
    run = make_run(tmp_path / "run", settings, recipe="living17", data_dir=images)
    results = evaluate(run)
    assert results["levels"] == ["coarse", "mid", "fine"]
    part = load_file(run.features_path("target-test"))
    right = (part["logits"].argmax(1) == part["labels"]).double().mean().item()
    assert means(results)["target/accuracy/fine"] == right
    for level in results["levels"]:
        assert means(results)[f"target/map/{level}"] > 0
    assert not run.features_path("target-train").exists()


@pytest.mark.parametrize(
    ("objective", "distances"),
    [
        ("{name: flat}", {"l2"}),
        ("{name: mtl}", {"l2"}),
        ("{name: curriculum}", {"l2"}),
        ("{name: l2}", {"l2"}),
        ("{name: l2, cpcc: {flow_weights: distance}}", {"l2", "l2-trained"}),
        ("{name: l2, cpcc: {normalize: true}}", {"l2", "l2-unit"}),
        ("{name: ft}", {"l2", "ft"}),
        ("{name: hxe, options: {hxe: {cpcc: emd}}}", {"l2", "emd"}),
        ("{name: sinkhorn, options: {sinkhorn: {reg: 1.0}}}", {"l2", "sinkhorn"}),
    ],
)
def test_objectives(tmp_path, objective, distances):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, f"objective={objective}"))
    measured = means(evaluate(run))
    assert {key.split("/")[2] for key in measured if key.startswith("source/cpcc/")} == distances
    orders = {key.split("/")[2] for key in measured if key.startswith("source/cpcc-orders/")}
    assert orders == distances & {"ft"}
    assert set(run.details["class_distances"]) == distances


def test_other_yardsticks(tmp_path):
    yardsticks = "evaluation.distances=[emd, emd-unit]"
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "objective={name: flat}", yardsticks))
    measured = means(evaluate(run))
    part = load_file(run.features_path("source-test"))
    z = part["features"]
    for name, rows in (("emd", z), ("emd-unit", z / z.norm(dim=1, keepdim=True))):
        _, rho = class_distances(rows, part["labels"], "emd")
        expected = cpcc(rho, run.tree.condensed()).item()
        assert measured[f"source/cpcc/{name}"] == pytest.approx(expected, abs=1e-5)
    assert "source/cpcc/l2" not in measured


def test_an_unknown_yardstick_is_refused():
    with pytest.raises(ValueError, match=r"evaluation\.distances must be one of .*, got 'cosine'"):
        load_recipe("digits", overrides=["evaluation.distances=[cosine]"])


def test_cpcc_at_a_coarser_level(tmp_path):
    deep = "data.options={branching: [2, 2, 4], dims: 8, samples_per_class: 6}"
    objective = "objective={name: hxe, options: {hxe: {cpcc: {distance: l2, level: 2}}}}"
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, deep, objective))
    measured = means(evaluate(run))
    part = load_file(run.features_path("source-test"))
    tree, groups = run.tree.cut(2)
    _, rho = class_distances(part["features"], torch.tensor(groups)[part["labels"]], "l2")
    assert measured["source/cpcc/l2-trained"] == cpcc(rho, tree.condensed()).item()
    # Distances of groups are not distances of classes.
    assert set(run.details["class_distances"]) == {"l2"}


def test_one_order_has_no_spread(tmp_path):
    results = evaluate(make_run(tmp_path / "run", (*TINY, ONE_SHOT, "evaluation.orders=1")))
    assert "orders" in results["missing"]["source/cpcc-orders/fastft"]


def test_an_unfinished_run_is_refused(tmp_path):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "seeds=[0, 1]"), finished=False)
    with pytest.raises(ValueError, match=f"is not finished: .* train --resume {re.escape(str(run.path))}"):
        evaluate(run)
    assert not list(run.path.rglob("features"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="device must be cpu or auto where there is no GPU"):
        evaluate(make_run(tmp_path / "run"), device="cuda")


def test_every_key_is_described(tmp_path):
    run = make_run(tmp_path / "run", (*TINY, ONE_SHOT, "tree.shuffle_seed=1"))
    infos = {key: metric_info(key) for key in evaluate(run)["metrics"]}
    assert len({info.title for info in infos.values()}) == len(infos)
    assert len({info.short for info in infos.values()}) == len(infos)
    assert infos["source/accuracy/level1"].higher_is_better
    assert not infos["source/calibration/level1"].higher_is_better
    with pytest.raises(ValueError, match="key must be DOMAIN/METRIC"):
        metric_info("source/speed")
