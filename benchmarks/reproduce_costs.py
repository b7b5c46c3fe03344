"""Minutes of an epoch and of an evaluation of the paper's recipes from scratch, on one core.

For `cophenet reproduce --list`. Training steps and evaluated batches of each recipe are timed on made-up
images of its size: loading with augmentation, forward, objective, backward, update. Data sets of files are
read from JPEG files of 500 x 375 pixels. The best step times the number of samples is the estimate. Processor
time counts, on one thread, so that other programs matter little. The numbers go by hand into
`cophenet/paper/plan.py`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from cophenet import Hierarchy
from cophenet.data.augmentation import BREEDS_CROP, INAT_CROP, CentreCrop
from cophenet.data.breeds import breeds_classes
from cophenet.data.dataset import ArrayInputs, DataSet, Inputs, Samples
from cophenet.data.image_files import ImageFiles
from cophenet.data.image_folders import IMAGENET_MEAN, IMAGENET_STD
from cophenet.models import Network
from cophenet.objectives import StepOutput
from cophenet.paper.variants import BREEDS, PAPER_DATA
from cophenet.recipes import load_recipe
from cophenet.recipes.trees import shaped_tree
from cophenet.runs.experiment import Experiment, build_network
from decoding import photograph
from timing import table, write_json

FILES, STEPS = 64, 8
# ImageNet has about 1300 training images of a class and 50 validation images.
TRAIN_IMAGES, TEST_IMAGES = 1300, 50


def counts(name: str) -> tuple[int, int]:
    """Samples of the source's training part, and of the test parts of both domains."""
    if name in BREEDS:
        source, target = (
            sum(len(one[side]) for one in breeds_classes(name)) for side in ("source", "target")
        )
        return TRAIN_IMAGES * source, TEST_IMAGES * (source + target)
    # Of iNaturalist the source has most: all are counted. Of the others it has six classes of ten.
    return (500_000, 100_000) if name == "inat21-mini" else (30_000, 10_000)


def made_up(name: str, folder: Path) -> Experiment:
    """A recipe on images of its size that show nothing."""
    recipe = load_recipe(name, "scratch", ("data.workers=0",))
    known = recipe.data.create_source().tree()
    # The tree of iNaturalist is read from its folders: phyla and classes, as many as the source has.
    tree = known or Hierarchy.from_paths([(f"p{c % 9}", f"c{c}") for c in range(32)])
    if name.startswith("cifar"):
        tree = tree.source_target_split(0.4).source
    size = recipe.data.image_size
    assert size is not None
    inputs: Inputs
    if name.startswith("cifar"):
        pixels = np.random.default_rng(0).integers(0, 256, (2048, 3, size, size), dtype=np.uint8)
        inputs = ArrayInputs(torch.from_numpy(pixels))
    else:
        crop = INAT_CROP if name == "inat21-mini" else BREEDS_CROP
        paths = sorted(str(path) for path in folder.glob("*.jpg"))
        inputs = ImageFiles(paths, CentreCrop(size, round(size * 256 / 224)), crop)
    rows = np.tile(np.arange(len(inputs)), -(-recipe.batch_size * (STEPS + 1) // len(inputs)))
    samples = Samples(inputs, rows, np.arange(len(rows)) % tree.num_classes, tree)
    data = DataSet(name, tree, lambda _part, _domain: samples, IMAGENET_MEAN, IMAGENET_STD)
    shaped = shaped_tree(tree, recipe.tree)
    return Experiment(recipe, data, shaped, recipe.create_objective(shaped), samples, samples)


def seconds_per_image(batches: Iterable[int]) -> float:
    """Of the fastest batch; the first one is left out, as it sets things up."""
    best, start = float("inf"), None
    for size in batches:
        now = time.process_time()
        if start is not None:
            best = min(best, (now - start) / size)
        start = now
    return best


def training(experiment: Experiment, network: Network) -> Iterable[int]:
    """Sizes of batches, each after its step."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    network.train()
    for inputs, labels in experiment.training_loader(0):
        features, logits = network(inputs)
        terms = experiment.objective(StepOutput(features, logits, labels, network.heads, 0))
        optimizer.zero_grad()
        torch.stack(tuple(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield len(labels)


def evaluating(experiment: Experiment, network: Network) -> Iterable[int]:
    """Sizes of batches, each after it went through the network."""
    network.eval()
    with torch.no_grad():
        for inputs, labels in experiment.evaluation_loader(experiment.test):
            network(inputs)
            yield len(labels)


def measure(name: str, folder: Path) -> dict[str, float]:
    """Minutes of an epoch and of an evaluation of a recipe."""
    torch.manual_seed(0)
    experiment = made_up(name, folder)
    network = build_network(experiment.recipe, experiment.objective, experiment.input_shape)
    step = seconds_per_image(training(experiment, network))
    look = seconds_per_image(evaluating(experiment, network))
    train, test = counts(name)
    return {
        "training images per second": 1 / step,
        "evaluated images per second": 1 / look,
        "minutes per epoch": train * step / 60,
        "minutes to evaluate": (train + test) * look / 60,
    }


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        draw = np.random.default_rng(0)
        for number in range(FILES):
            photograph(draw).save(folder / f"{number:04d}.jpg", quality=95)
        results = {name: measure(name, folder) for name in PAPER_DATA}
    header = ("recipe", *next(iter(results.values())))
    rows = [[name, *(f"{value:.3g}" for value in found.values())] for name, found in results.items()]
    print(table("Recipes from scratch, one thread", header, rows))
    write_json("reproduce_costs", results)


if __name__ == "__main__":
    main()
