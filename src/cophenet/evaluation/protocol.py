"""The paper's protocol: selects the samples of a run, and computes all metrics that have a card."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cophenet._common.files import write_json
from cophenet._common.processes import torch_threads
from cophenet._common.shell import command
from cophenet.data import ArrayInputs, Samples, k_shot
from cophenet.evaluation.details import describe_test, show_inputs
from cophenet.evaluation.features import Device, FeatureStore, ProgressCallback, choose_device, open_stores
from cophenet.evaluation.results import Numbers, run_results, seed_results
from cophenet.metrics.cards import EvaluationData, FeatureSet, Missing, metric_cards
from cophenet.metrics.cophenetic_correlation import UNIT, ClassGeometry
from cophenet.recipes import shaped_tree
from cophenet.runs import Run
from cophenet.runs.optimizers import create_optimizer, learning_rate, set_learning_rate
from cophenet.transport import create_distance

if TYPE_CHECKING:
    from cophenet.recipes import Recipe
    from cophenet.recipes.settings import OneShotSettings
    from cophenet.tree import Hierarchy

__all__ = ["evaluate"]


def evaluate(
    run: Run | str | Path,
    *,
    data_dir: str | Path | None = None,
    device: Device = "auto",
    progress: ProgressCallback | None = None,
    trust: bool = False,
) -> dict[str, Any]:
    """Compute all metrics of a finished run, and write `results.json`, details and features to its folder.

    Saved features are reused as long as the checkpoint is the same, so that a second call needs neither the
    data nor the network, and returns the same numbers. The number of threads is that of the training.

    Args:
        run: A run, or its folder; of one seed or of several.
        data_dir: Folder of the same data; None for the one it was trained with.
        device: Device of the network; "auto" is the GPU if there is one.
        progress: Called with the name of the part being read, the number of samples done, and the total.
        trust: Whether custom code that the folder names may run, such as a backbone by import path; a run
            returned by `train` is already trusted.

    Returns:
        The content of `results.json`.

    Raises:
        ImportError: If safetensors is missing.
        OSError: If the data of the test part is missing, or there is none in `data_dir`.
        TrustError: If the folder names custom code and is not trusted.
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
    if not isinstance(run, Run) or (trust and not run.trust):
        run = Run.open(run.path if isinstance(run, Run) else run, trust=trust)
    if not run.finished:
        going_on = command("train", "--resume", run.path)
        raise ValueError(f"run {run.path} is not finished: finish it with {going_on}")
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
    run, numbers, own = store.run, Numbers(), _own_data(store)
    cards = metric_cards().values()
    for card in (card for card in cards if card.by != "distance"):
        numbers.measure(card, own)
    if own.domain == "source":
        target = _target_data(store, own)
        for card in (card for card in cards if card.target):
            if isinstance(target, Missing):
                numbers.add_missing(card, "target", own.levels, target)
            else:
                numbers.measure(card, target)
    # These come last because class distances take longest.
    distances = {geometry.name: geometry.distances for geometry in own.geometry if geometry.level is None}
    for card in (card for card in cards if card.by == "distance"):
        numbers.measure(card, own)
    details = describe_test(own.test, distances)
    _show_mistakes(store, details["worst_mistakes"])
    write_json(run.path / "details.json", details)
    results = seed_results(run, own.levels, store.samples, numbers)
    write_json(run.path / "results.json", results)
    return results


def _show_mistakes(store: FeatureStore, mistakes: list[dict[str, Any]]) -> None:
    """Add images and file names to mistakes: from the data if it was read, else from the old details."""
    if store.loaded:
        show_inputs(mistakes, store.experiment.raw_test)
        return
    before: dict[int, dict[str, Any]] = {}
    with suppress(ValueError):  # a damaged file is about to be replaced
        if (last := store.run.details) is not None:
            before = {one["index"]: one for one in last["worst_mistakes"]}
    for one in mistakes:
        shown = before.get(one["index"], {})
        one.update({key: shown[key] for key in ("file", "image") if key in shown})


def _own_data(store: FeatureStore) -> EvaluationData:
    """The test samples of the classes that the network was trained on."""
    run, recipe = store.run, store.run.recipe
    domain = recipe.data.domain
    test = store.get(domain, "test")
    # A control is trained on a shuffled tree, which is not the true one.
    true = shaped_tree(test.tree, recipe.tree.model_copy(update={"shuffle_seed": None}))
    shuffled = recipe.tree.shuffle_seed is not None
    return EvaluationData(
        domain=domain,
        test=test,
        trained_tree=test.tree,
        load_training=partial(store.get_or_missing, domain, "train"),
        few_shot_scores=lambda: Missing("the head was trained on these classes"),
        geometry=_class_geometry(recipe, true, test),
        shuffled_geometry=_class_geometry(recipe, run.tree, test) if shuffled else (),
        settings=recipe.evaluation,
    )


def _target_data(store: FeatureStore, source: EvaluationData) -> EvaluationData | Missing:
    """The test samples of the target domain, for a network trained on the source domain."""
    if store.run.recipe.data.validation:
        return Missing("data.validation keeps the test part, and the target, unseen")
    test = store.get_or_missing("target", "test")
    if isinstance(test, Missing):
        return test
    return EvaluationData(
        domain="target",
        test=test,
        trained_tree=source.test.tree,
        load_training=lambda: source.training,
        few_shot_scores=partial(_one_shot_scores, store, test),
        geometry=(),
        shuffled_geometry=(),
        settings=source.settings,
    )


def _one_shot_scores(store: FeatureStore, test: FeatureSet) -> Tensor | Missing:
    """Scores (N, classes) of the target classes, from a new head trained on a few samples of each.

    The seed of the run determines the samples and the head's initial weights.
    """
    settings = store.run.recipe.one_shot
    if settings is None:
        return Missing("the recipe has no one_shot")
    train = store.get_or_missing("target", "train")
    if isinstance(train, Missing):
        return train
    rows = np.arange(len(train))
    samples = Samples(ArrayInputs(train.features), rows, train.labels.numpy(), train.tree)
    try:
        drawn = k_shot(samples, settings.shots, store.run.seed)
    except ValueError as error:
        return Missing(f"one_shot.shots: {error}")
    head = _train_head(*drawn.take(np.arange(len(drawn))), train.tree.num_classes, settings, store.run.seed)
    with torch.no_grad():
        scores: Tensor = head(test.features)
    return scores


def _train_head(
    features: Tensor, labels: Tensor, classes: int, settings: OneShotSettings, seed: int
) -> nn.Linear:
    """Train a linear classifier of features; all samples are one batch, so an epoch is one step.

    Args:
        features: (n, d) of the frozen encoder.
        labels: (n,) from 0.
        classes: Number of classes.
        settings: Training settings.
        seed: Determines the initial weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = nn.Linear(features.shape[1], classes)
    optimizer = create_optimizer(head.parameters(), settings.optimizer)
    for epoch in range(settings.epochs):
        rate = learning_rate(settings.optimizer, settings.schedule, epoch, settings.epochs)
        set_learning_rate(optimizer, rate)
        optimizer.zero_grad()
        cross_entropy(head(features), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return head


def _class_geometry(recipe: Recipe, tree: Hierarchy, test: FeatureSet) -> tuple[ClassGeometry, ...]:
    """The class distances to compare with a tree: those of the recipe, and that of a CPCC objective first.

    A distance of unit vectors has the suffix "-unit". If the objective's distance is also one of the recipe's
    `evaluation.distances`, such as "l2", but has flow weights, a level or a target, it is named "l2-trained",
    because "l2" is the plain distance, by which all objectives are compared.
    """
    measure = partial(ClassGeometry, features=test.features, labels=test.labels, tree=tree)
    geometries = {}
    for name in recipe.evaluation.distances:
        plain, unit, _ = name.partition(UNIT)
        geometries[name] = measure(name, distance=create_distance(plain, tree), normalize=bool(unit))
    trained = recipe.create_objective(tree).cpcc
    if trained is not None:
        distance, weights, level = trained.distance, trained.flow_weights, trained.level
        name = distance.name + UNIT * trained.normalize
        if name in geometries and not (weights == "uniform" and level is None and trained.target is None):
            name = f"{name}-trained"
        if name not in geometries:
            own = measure(
                name,
                distance=distance,
                flow_weights=weights,
                level=level,
                normalize=trained.normalize,
                target=trained.target,
            )
            geometries = {name: own, **geometries}
    return tuple(geometries.values())
