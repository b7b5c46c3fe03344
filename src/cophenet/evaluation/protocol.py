"""The paper's protocol: which numbers are made of which features, and where they are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.files import write_json
from cophenet._common.threads import torch_threads
from cophenet.evaluation.details import describe_test
from cophenet.evaluation.geometry import Measure, order_spread, plain_l2, trained_measure
from cophenet.evaluation.keys import metric_key
from cophenet.evaluation.numbers import Numbers
from cophenet.evaluation.one_shot import one_shot_accuracy
from cophenet.evaluation.predictions import add_predictions, add_transferred_accuracy
from cophenet.evaluation.results import run_results, seed_results
from cophenet.evaluation.retrieval import add_retrieval
from cophenet.evaluation.store import Device, FeatureStore, Progress, choose_device, open_stores
from cophenet.recipes import shaped_tree
from cophenet.runs import Run

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.data import Domain, Part
    from cophenet.evaluation.features import FeatureSet
    from cophenet.recipes import Recipe

__all__ = ["evaluate"]


def evaluate(
    run: Run | str | Path,
    *,
    data_dir: str | Path | None = None,
    device: Device = "auto",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure a finished run, and write `results.json` and what it was made of into its folder.

    Features are saved and used again as long as the checkpoint is the same, so that a second call needs
    neither the data nor the network, and gives the same numbers. Threads are those of the training.

    Args:
        run: A run, or its folder; of one seed or of several.
        data_dir: Folder of the same data; None for the one it was trained with.
        device: Where the network computes: "auto" is the GPU if there is one.
        progress: Called with what is being read, the samples done and all of them.

    Returns:
        What stands in `results.json`.

    Raises:
        ImportError: If safetensors is missing.
        OSError: If the data of the test part is missing, or there is none in `data_dir`.
        ValueError: If there is no such run, it is not finished, its newest checkpoint is damaged, or the data
            is not what it was trained on.

    Example:
        >>> import tempfile
        >>> from cophenet.recipes import load_recipe
        >>> from cophenet.runs import train
        >>> recipe = load_recipe("digits", overrides=["objective.name=flat", "epochs=1"])
        >>> run = train(recipe, Path(tempfile.mkdtemp(), "run"), progress=False)
        >>> results = evaluate(run, device="cpu")
        >>> results["levels"], results["samples"]["source-test"]
        (['shape', 'digit'], 316)
        >>> sorted(results["metrics"]["source/accuracy/digit"])
        ['mean', 'std', 'values']
    """
    run = run if isinstance(run, Run) else Run.open(run)
    if not run.finished:
        raise ValueError(f"run {run.path} is not finished: finish it with cophenet train --resume {run.path}")
    place = choose_device(device)
    folder = None if data_dir is None else Path(data_dir)
    parts = []
    for store in open_stores(run, folder, place, progress):
        with torch_threads(store.run.info["threads"]):
            parts.append(_evaluate_seed(store))
    if run.parts == (run,):
        return parts[0]
    results = run_results(run, parts)
    write_json(run.path / "results.json", results)
    return results


def _evaluate_seed(store: FeatureStore) -> dict[str, Any]:
    run, recipe, numbers = store.run, store.run.recipe, Numbers()
    domain: Domain = recipe.data.domain
    test = store.get(domain, "test")
    levels = test.tree.level_names
    samples = {f"{domain}-test": len(test)}
    add_predictions(numbers, test, domain, recipe.evaluation)
    train = _or_reason(store, domain, "train")
    if isinstance(train, str):
        numbers.lack([metric_key(domain, "map", level) for level in levels], train)
    else:
        samples[f"{domain}-train"] = len(train)
        add_retrieval(numbers, train, test, domain, levels)
    if domain == "source":
        samples.update(_add_target(store, numbers, test, train))
    distances = _add_cpcc(numbers, recipe, run, test)
    write_json(run.path / "details.json", describe_test(test, distances))
    results = seed_results(run, levels, samples, numbers)
    write_json(run.path / "results.json", results)
    return results


def _or_reason(store: FeatureStore, domain: Domain, part: Part) -> FeatureSet | str:
    try:
        return store.get(domain, part)
    except OSError as error:
        return f"the {domain} {part} data is not there: {error}"


def _add_target(
    store: FeatureStore, numbers: Numbers, source: FeatureSet, train: FeatureSet | str
) -> dict[str, int]:
    """Accuracy and MAP on the target; how many samples it has."""
    levels = source.tree.level_names
    accuracy, retrieval = (
        [metric_key("target", metric, level) for level in levels] for metric in ("accuracy", "map")
    )
    if store.run.recipe.data.validation:
        numbers.lack([*accuracy, *retrieval], "data.validation keeps the test part, and the target, unseen")
        return {}
    test = _or_reason(store, "target", "test")
    if isinstance(test, str):
        numbers.lack([*accuracy, *retrieval], test)
        return {}
    samples = {"target-test": len(test)}
    shared = test.tree.classes == source.tree.classes
    add_transferred_accuracy(numbers, test, source.tree, levels if shared else levels[:-1])
    if not shared:
        samples.update(_add_one_shot(store, numbers, test, accuracy[-1]))
    if isinstance(train, str):
        numbers.lack(retrieval if shared else retrieval[:-1], train)
    else:
        add_retrieval(numbers, train, test, "target", levels if shared else levels[:-1])
    return samples


def _add_one_shot(store: FeatureStore, numbers: Numbers, test: FeatureSet, key: str) -> dict[str, int]:
    settings = store.run.recipe.one_shot
    if settings is None:
        numbers.lack([key], "the recipe has no one_shot")
        return {}
    train = _or_reason(store, "target", "train")
    if isinstance(train, str):
        numbers.lack([key], train)
        return {}
    with numbers.found() as found:
        found[key] = one_shot_accuracy(train, test, settings, store.run.seed)
    return {"target-train": len(train)}


def _add_cpcc(
    numbers: Numbers, recipe: Recipe, run: Run, test: FeatureSet
) -> dict[str, tuple[Tensor, Tensor]]:
    """TestCPCC by the trained distance and by l2; the distances of the classes themselves."""
    # The shuffled tree of a control is what was trained on, but not what is true.
    true = shaped_tree(test.tree, recipe.tree.model_copy(update={"shuffle_seed": None}))
    distances: dict[str, tuple[Tensor, Tensor]] = {}
    domain = recipe.data.domain
    trees = (
        {"cpcc": true} if recipe.tree.shuffle_seed is None else {"cpcc": true, "cpcc-trained-tree": run.tree}
    )
    for metric, tree in trees.items():
        measures = [trained_measure(recipe.create_objective(tree)), plain_l2(tree)]
        for measure in {m.name: m for m in measures if m is not None}.values():
            classes, rho = measure.distances(test.features, test.labels)
            with numbers.found() as found:
                found[metric_key(domain, metric, measure.name)] = measure.correlate(classes, rho)
            if metric == "cpcc":
                _add_spread(numbers, recipe, measure, test)
                if measure.level is None:
                    distances[measure.name] = classes, rho
    return distances


def _add_spread(numbers: Numbers, recipe: Recipe, measure: Measure, test: FeatureSet) -> None:
    if not measure.distance.order_dependent:
        return

    def make() -> Measure:
        made = trained_measure(recipe.create_objective(measure.tree))
        assert made is not None
        return made

    key = metric_key(recipe.data.domain, "cpcc-orders", measure.name)
    if recipe.evaluation.orders < 2:
        numbers.lack([key], "evaluation.orders is 1, and a spread needs two")
        return
    with numbers.found() as found:
        found[key] = order_spread(make, test.features, test.labels, recipe.evaluation.orders)
