"""Build the data, tree, objective and network of a recipe, for training and evaluation."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from cophenet._common.checks import arguments_of
from cophenet.data import DataSet, HierarchicalBatchSampler, Loader, Samples, stratified_split
from cophenet.data.augmentation import CentreCrop
from cophenet.models import Network, build_heads, create_backbone
from cophenet.models.base import ImageInputs
from cophenet.models.trunk import Necked, Trunk, create_neck
from cophenet.objectives import Objective, phase_lengths
from cophenet.recipes import Recipe, shaped_tree
from cophenet.recipes.own_code import check_trust
from cophenet.runs.checkpoints import read_checkpoint
from cophenet.runs.loaded_data import image_settings, load_data, resized_to
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.recipes.settings import DataSettings
    from cophenet.runs.run import Run

__all__ = ["Experiment", "build_network", "load_experiment", "load_network"]

_VALIDATION_SEED, _STOPPING_SEED = 0, 1


class Preprocessing(NamedTuple):
    """The preprocessing from raw inputs of the data set to inputs of a trained network.

    Attributes:
        shape: Shape of one input of the data set.
        is_bytes: Whether inputs are uint8 images, which are scaled to 0..1.
        images: How the images are then normalized and resized.
        size: Side length to which images are resized; None if no resizing is needed.
        trunk: The frozen backbone, applied last; None if there is none.
        view: The crop that turns an image file into such an input; None if inputs are not colour images.
    """

    shape: tuple[int, ...]
    is_bytes: bool
    images: ImageInputs
    size: int | None
    trunk: Trunk | None
    view: CentreCrop | None


@dataclass(frozen=True, eq=False)
class Experiment:
    """A recipe with its data, shared by training and evaluation.

    Attributes:
        recipe: All settings.
        data: The data set, with all parts and domains.
        tree: The tree used in training: the tree of the domain, modified by the tree settings of the recipe.
        objective: The loss on that tree, in its initial state; training uses `fresh_objective`.
        train: The training samples.
        test: The test samples, or the held-out training samples if the recipe has `data.validation`.
        validation: Held-out training samples by which the best epoch is chosen, if the recipe has `stopping`;
            else None.
        trunk: The frozen backbone of the recipe, whose output vectors are then the inputs of the samples;
            None if the backbone is trained.
        images: The data set before the trunk; None without a trunk.
    """

    recipe: Recipe
    data: DataSet
    tree: Hierarchy
    objective: Objective
    train: Samples
    test: Samples
    validation: Samples | None = None
    trunk: Trunk | None = None
    images: DataSet | None = None
    _loaders: dict[Any, Loader] = field(default_factory=dict, init=False, repr=False)
    _samplers: dict[int, HierarchicalBatchSampler | None] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean per channel, for normalization."""
        return self._image_inputs.mean

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation per channel, for normalization."""
        return self._image_inputs.std

    @cached_property
    def _image_inputs(self) -> ImageInputs:
        # With a trunk, the inputs are vectors: the trunk normalizes the images.
        return ImageInputs() if self.trunk is not None else image_settings(self.recipe, self.data)

    @cached_property
    def _reading(self) -> DataSettings:
        """The data settings of the loaders; vectors of a trunk are neither resized nor loaded by workers."""
        settings = self.recipe.data
        if self.trunk is None:
            return settings
        augment = "views" if self.recipe.model.views else "none"
        return settings.model_copy(update={"image_size": None, "augment": augment, "workers": 0})

    @property
    def preprocessing(self) -> Preprocessing:
        """The preprocessing from inputs of the data set to inputs of the network of `load_network`."""
        raw = (self.images or self.data).samples("train", self.recipe.data.domain)
        is_bytes = raw.take(np.zeros(1, dtype=np.int64))[0].dtype == torch.uint8
        if self.trunk is None:
            wanted, size = self._image_inputs, self._size(raw)
        else:
            wanted, size = self.trunk.images, self.trunk.size
        return Preprocessing(raw.inputs.shape, is_bytes, wanted, size, self.trunk, raw.inputs.file_view)

    @property
    def raw_test(self) -> Samples:
        """The test samples before any trunk, in the order of `test`."""
        return replace(self.test, inputs=self.test.inputs.originals)

    def prepare(self) -> None:
        """Compute the vectors of a frozen backbone, once before any training."""
        for samples in (self.train, self.test):
            samples.inputs.prepare()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input of the network."""
        shape = self.train.inputs.shape
        size = self._size(self.train)
        return shape if size is None else (shape[0], size, size)

    def fresh_objective(self) -> Objective:
        """Return an independent objective for one training, which may change its state.

        An objective with parameters is created anew, so that they are drawn from the current random state.
        """
        if any(True for _ in self.objective.parameters()):
            return self.recipe.create_objective(self.tree)
        return copy.deepcopy(self.objective)

    def evaluation_loader(self, samples: Samples, *, device: torch.device | str = "cpu") -> Loader:
        """Return a loader of all samples in order, without augmentation.

        Args:
            samples: `test`, `train`, or samples of another part or domain of `data`.
            device: Device of the batches.
        """
        size = self.recipe.evaluation.batch_size
        return Loader(samples, size, device=device, **self._arguments(samples))

    def training_loader(
        self, seed: int, *, device: torch.device | str = "cpu", rank: int = 0, world_size: int = 1
    ) -> Loader:
        """Return a loader of training batches, in a different order in every epoch.

        The last batch of an epoch is dropped if a process would get less than two samples of it, because
        batch normalization needs two. The loader is cached by its arguments, its sampler by the seed: all
        devices and ranks share one.

        Args:
            seed: Seed of order and augmentation.
            device: Device of the inputs; labels stay on the CPU.
            rank: Rank of the process, which gets its share of every batch.
            world_size: Number of processes that share a batch.
        """
        key = (seed, torch.device(device), rank, world_size)
        if key not in self._loaders:
            self._loaders[key] = self._make_training_loader(*key)
        return self._loaders[key]

    def _make_training_loader(self, seed: int, device: torch.device, rank: int, world_size: int) -> Loader:
        rest = len(self.train) % self.recipe.batch_size
        if seed not in self._samplers:
            self._samplers[seed] = self._make_sampler(seed)
        sampler = self._samplers[seed]
        return Loader(
            self.train,
            self.recipe.batch_size,
            seed=seed,
            shuffle=sampler is None,
            augment=self._reading.augment,
            drop_last=sampler is None and 0 < rest < 2 * world_size,
            sampler=sampler,
            device=device,
            host_labels=True,
            rank=rank,
            world_size=world_size,
            **self._arguments(self.train),
        )

    def _make_sampler(self, seed: int) -> HierarchicalBatchSampler | None:
        """Create the sampler of whole batches, which the loader divides among the processes."""
        if self.recipe.data.sampler is None:
            return None
        options = self.recipe.data.sampler.model_dump()
        with arguments_of("data.sampler", options):
            return HierarchicalBatchSampler(
                self.train.labels, self.tree, **options, seed=seed, rank=0, world_size=1
            )

    def _arguments(self, samples: Samples) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "std": self.std,
            "size": self._size(samples),
            "interpolation": self._image_inputs.interpolation,
            "workers": self._reading.workers,
        }

    def _size(self, samples: Samples) -> int | None:
        return resized_to(self._reading.image_size, samples.inputs.shape)


def load_experiment(
    recipe: Recipe,
    data_dir: str | Path | None = None,
    *,
    trust: bool = False,
    progress: bool | None = None,
) -> Experiment:
    """Load the data of a recipe and create its tree and objective.

    Args:
        recipe: All settings.
        data_dir: Folder of the data; None for data that needs none.
        trust: Whether the recipe of a run folder may name a data set or an objective that the running program
            has registered; recipes from elsewhere are always trusted.
        progress: Whether to show a bar while vectors of a frozen backbone are computed: None for a bar on a
            terminal and lines elsewhere.

    Raises:
        FileNotFoundError: If files are missing.
        ImportError: If the package of the weights of a frozen backbone is not installed.
        TrustError: If the recipe names such code and is not trusted.
        ValueError: If the data is invalid, or the recipe does not match it.

    Example:
        >>> from cophenet.recipes import load_recipe
        >>> experiment = load_experiment(load_recipe("digits"))
        >>> experiment.tree.num_classes, experiment.objective.name, experiment.input_shape
        (7, 'fastft', (1, 8, 8))
    """
    recipe = recipe.with_trust() if trust else recipe
    data, images, trunk = load_data(recipe, None if data_dir is None else Path(data_dir), progress)
    train = data.samples("train", recipe.data.domain)
    if recipe.data.validation:
        train, test = _set_aside(train, "data.validation", recipe.data.validation, _VALIDATION_SEED)
    else:
        test = data.samples("test", recipe.data.domain)
    validation = None
    if recipe.stopping is not None:
        train, validation = _set_aside(train, "stopping.share", recipe.stopping.share, _STOPPING_SEED)
    tree = shaped_tree(train.tree, recipe.tree)
    objective = recipe.create_objective(tree)
    phase_lengths(objective.phases, recipe.epochs)  # raises if epochs are too few, before there is a folder
    return Experiment(recipe, data, tree, objective, train, test, validation, trunk, images)


def _set_aside(samples: Samples, setting: str, share: float, seed: int) -> tuple[Samples, Samples]:
    """Split training samples into the rest and a held-out share of every class; `setting` is for messages."""
    single = np.flatnonzero(samples.counts() == 1)
    if single.size:
        name = samples.tree.classes[single[0]]
        raise ValueError(f"{setting} {share:g} needs two training samples of every class, {name!r} has one")
    rest, aside = stratified_split(samples.labels, share, seed)
    return samples.subset(rest), samples.subset(aside)


def build_network(
    recipe: Recipe, objective: Objective, input_shape: Sequence[int], weights: str | Path | None = None
) -> Network:
    """Create the trainable network of a recipe with the heads of its objective, from torch's random state.

    It is the backbone with its neck; if the backbone is frozen, only the neck, which takes its vectors.

    Args:
        recipe: All settings.
        objective: The objective, which defines the heads.
        input_shape: Shape of one input; of one vector, if the backbone is frozen.
        weights: Initial weights of the backbone, as for `create_backbone`.

    Raises:
        TrustError: If the recipe names custom code and is not trusted.
    """
    check_trust(recipe)
    settings, shape, trust = recipe.model, tuple(input_shape), recipe.untrusted is None
    if settings.frozen:
        backbone = create_neck(settings.neck, shape)
    else:
        name = settings.backbone
        backbone = create_backbone(name, input_shape=shape, weights=weights, trust=trust, **settings.options)
        if settings.neck is not None:
            backbone = Necked(backbone, create_neck(settings.neck, (backbone.num_features,)))
    return Network(backbone, build_heads(objective.heads, backbone.num_features))


def load_network(
    run: Run | str | Path, device: torch.device | str = "cpu", *, trust: bool = False
) -> Network:
    """Load the network of a single-seed run from its newest checkpoint, in evaluation mode.

    The data is not needed. If the backbone is frozen, this is the network that was trained on its vectors.

    Args:
        run: The run, or its folder; for a run of several seeds the folder of one, such as ``"runs/x/seed0"``.
        device: Device of the network.
        trust: Whether custom code that the run names may run, even if the run was opened without trust.

    Raises:
        TrustError: If the run names custom code and is not trusted.
        ValueError: If there is no run, or it has several seeds, no checkpoint, or a damaged one.

    Example:
        >>> load_network("/nowhere")
        Traceback (most recent call last):
        ValueError: no run folder at /nowhere: it does not exist
    """
    from cophenet.runs.run import Run

    run = run if isinstance(run, Run) else Run.open(run, trust=trust)
    seed, recipe = run.seed, run.recipe.with_trust() if trust else run.recipe
    check_trust(recipe)
    path = run.checkpoint()
    state = _network_state(path)
    _check_shapes(path, state, recipe, run)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        objective = recipe.create_objective(run.tree)
        network = build_network(recipe, objective, run.info["input_shape"])
    network.load_state_dict(state)
    return network.to(device).eval()


def _network_state(path: Path) -> dict[str, torch.Tensor]:
    """Read the state dict of the network from a checkpoint."""
    prefix = "network."
    state = read_checkpoint(path).get("state_dict")
    named = {str(name): value for name, value in state.items()} if isinstance(state, dict) else {}
    # Only entries of the network: others need not be tensors, such as the state of a sample memory.
    own = {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
    if not own or not all(isinstance(value, torch.Tensor) for value in own.values()):
        raise ValueError(f"checkpoint {path} holds no tensors of a network")
    return own


def _check_shapes(path: Path, state: dict[str, torch.Tensor], recipe: Recipe, run: Run) -> None:
    """Raise if a checkpoint does not match the network of the recipe, before allocating that network."""
    try:
        with torch.random.fork_rng(devices=[]):
            objective = recipe.create_objective(run.tree)
            with torch.device("meta"):
                expected = build_network(recipe, objective, run.info["input_shape"]).state_dict()
    except Exception:  # not possible on "meta", or invalid: then building it raises
        return
    for name in (*expected, *state):
        one, other = (tuple(group[name].shape) if name in group else None for group in (state, expected))
        if one != other:
            raise ValueError(
                f"checkpoint {path} does not fit the recipe of its run: {name} "
                f"{'is missing' if one is None else f'has shape {one}'}, "
                f"{'there should be none' if other is None else f'it should be {other}'}"
            )
