"""What a recipe needs before it can be trained or evaluated: data, tree, objective and network."""

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
    """What comes before a trained network.

    Attributes:
        shape: Shape of one input of the data set.
        is_bytes: Whether inputs are images of uint8, which are scaled to 0..1.
        images: How they are normalized and resized then.
        size: Side to which images are resized; None for those that have it.
        trunk: The frozen backbone, which comes last; None for none.
        view: What is seen of an image file to be such an input; None if inputs are no colour images.
    """

    shape: tuple[int, ...]
    is_bytes: bool
    images: ImageInputs
    size: int | None
    trunk: Trunk | None
    view: CentreCrop | None


@dataclass(frozen=True, eq=False)
class Experiment:
    """A recipe with its data, made once and used by training and evaluation.

    Attributes:
        recipe: All settings.
        data: The data set, for other parts and domains than those trained on.
        tree: The tree that is trained on: that of the domain, as the recipe shapes it.
        objective: The loss on that tree, in its first state; training takes `fresh_objective`.
        train: What is trained on.
        test: What is tested on: the test part, or the part set aside if the recipe has `data.validation`.
        validation: By which the best epoch is chosen, if the recipe has `stopping`: a part of the training
            samples that is not trained on.
        trunk: The frozen backbone of the recipe, whose vectors the samples then are; None if the backbone is
            trained.
        images: The data set before the trunk; None if there is none.
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

    @property
    def mean(self) -> tuple[float, ...]:
        """Per channel, for normalization."""
        return self._image_inputs.mean

    @property
    def std(self) -> tuple[float, ...]:
        """Per channel, for normalization."""
        return self._image_inputs.std

    @cached_property
    def _image_inputs(self) -> ImageInputs:
        # A trunk has normalized the images.
        return ImageInputs() if self.trunk is not None else image_settings(self.recipe, self.data)

    @cached_property
    def _reading(self) -> DataSettings:
        """How the samples are read; vectors of a trunk are neither resized nor read by workers."""
        settings = self.recipe.data
        if self.trunk is None:
            return settings
        augment = "views" if self.recipe.model.views else "none"
        return settings.model_copy(update={"image_size": None, "augment": augment, "workers": 0})

    @property
    def preprocessing(self) -> Preprocessing:
        """What inputs of the data set are, and what is done to them before the network of `load_network`."""
        raw = (self.images or self.data).samples("train", self.recipe.data.domain)
        is_bytes = raw.take(np.zeros(1, dtype=np.int64))[0].dtype == torch.uint8
        if self.trunk is None:
            wanted, size = self._image_inputs, self._size(raw)
        else:
            wanted, size = self.trunk.images, self.trunk.size
        return Preprocessing(raw.inputs.shape, is_bytes, wanted, size, self.trunk, raw.inputs.file_view)

    @property
    def raw_test(self) -> Samples:
        """What is tested on as the data set has it, before any trunk, in the order of `test`."""
        return replace(self.test, inputs=self.test.inputs.originals)

    def prepare(self) -> None:
        """Compute what is computed once before any training: the vectors of a frozen backbone."""
        for samples in (self.train, self.test):
            samples.inputs.prepare()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input of the network."""
        shape = self.train.inputs.shape
        size = self._size(self.train)
        return shape if size is None else (shape[0], size, size)

    def fresh_objective(self) -> Objective:
        """The objective for one training, which may change its state.

        One with parameters of its own is made anew, so that they are drawn from torch's random state now.
        """
        if any(True for _ in self.objective.parameters()):
            return self.recipe.create_objective(self.tree)
        return copy.deepcopy(self.objective)

    def evaluation_loader(self, samples: Samples, *, device: torch.device | str = "cpu") -> Loader:
        """Samples in their order, as they are: no augmentation, every one once.

        Args:
            samples: `test`, `train`, or those of another part and domain of `data`.
            device: Where the batches are wanted.
        """
        size = self.recipe.evaluation.batch_size
        return Loader(samples, size, device=device, **self._arguments(samples))

    def training_loader(
        self, seed: int, *, device: torch.device | str = "cpu", rank: int = 0, world_size: int = 1
    ) -> Loader:
        """Batches to train on, in another order in every epoch.

        The last batch of an epoch is left out where it would give a process a single sample or none, which
        have no variance to normalize by. The loader is made once, and then the same for the same arguments.

        Args:
            seed: Decides order and augmentation.
            device: Where the inputs are wanted; labels stay on the host.
            rank: Which share of every batch.
            world_size: How many processes share a batch.
        """
        key = (seed, torch.device(device), rank, world_size)
        if key not in self._loaders:
            self._loaders[key] = self._make_training_loader(*key)
        return self._loaders[key]

    def _make_training_loader(self, seed: int, device: torch.device, rank: int, world_size: int) -> Loader:
        rest = len(self.train) % self.recipe.batch_size
        sampler = self._sampler(seed)
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

    def _sampler(self, seed: int) -> HierarchicalBatchSampler | None:
        """What chooses the batches, all of them: the loader takes the shares of them."""
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
    """Read the data of a recipe and make its tree and objective.

    Args:
        recipe: All settings.
        data_dir: Folder of the data; None for data that needs none.
        trust: Whether the recipe of a run folder may name a data set or an objective that the running program
            has registered; one from elsewhere may.
        progress: Whether to show a bar when vectors of a frozen backbone are computed: None for a bar on a
            terminal and lines elsewhere.

    Raises:
        FileNotFoundError: If files are missing.
        ImportError: If the package of the weights of a frozen backbone is not installed.
        TrustError: If it names such code and may not.
        ValueError: If the data is wrong, or the recipe does not fit it.

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
    phase_lengths(objective.phases, recipe.epochs)  # refuses too few epochs before a folder is made
    return Experiment(recipe, data, tree, objective, train, test, validation, trunk, images)


def _set_aside(samples: Samples, setting: str, share: float, seed: int) -> tuple[Samples, Samples]:
    """Training samples without a share of every class, and that share, which a setting asks for."""
    single = np.flatnonzero(samples.counts() == 1)
    if single.size:
        name = samples.tree.classes[single[0]]
        raise ValueError(f"{setting} {share:g} needs two training samples of every class, {name!r} has one")
    rest, aside = stratified_split(samples.labels, share, seed)
    return samples.subset(rest), samples.subset(aside)


def build_network(
    recipe: Recipe, objective: Objective, input_shape: Sequence[int], weights: str | Path | None = None
) -> Network:
    """What a recipe trains, with the heads of its objective, from torch's random state.

    That is the backbone with its neck; of a frozen backbone the neck alone, which takes its vectors.

    Args:
        recipe: All settings.
        objective: Says which heads.
        input_shape: Shape of one input; of one vector, if the backbone is frozen.
        weights: The backbone's parameters to begin with, as for `create_backbone`.

    Raises:
        TrustError: If the recipe names code of a user's own, and is not trusted.
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
    """The network of a run of one seed, as its newest checkpoint has it, in evaluation mode.

    The data is not needed. If the backbone is frozen, this is what was trained on its vectors.

    Args:
        run: The run, or its folder; of several seeds, that of one, such as ``"runs/x/seed0"``.
        device: Where the network shall be.
        trust: Whether code of a user's own that the run names may run, if the run was opened without.

    Raises:
        TrustError: If the run names such code and may not.
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
    """The tensors of the network in a checkpoint."""
    prefix = "network."
    state = read_checkpoint(path).get("state_dict")
    named = {str(name): value for name, value in state.items()} if isinstance(state, dict) else {}
    # Others have what is no tensor: a memory has several.
    own = {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
    if not own or not all(isinstance(value, torch.Tensor) for value in own.values()):
        raise ValueError(f"checkpoint {path} holds no tensors of a network")
    return own


def _check_shapes(path: Path, state: dict[str, torch.Tensor], recipe: Recipe, run: Run) -> None:
    """Refuse a checkpoint that is not of the recipe's network, before memory is taken for that."""
    try:
        with torch.random.fork_rng(devices=[]):
            objective = recipe.create_objective(run.tree)
            with torch.device("meta"):
                expected = build_network(recipe, objective, run.info["input_shape"]).state_dict()
    except Exception:  # a backbone that cannot be made without its numbers; or it is wrong, then that is next
        return
    for name in (*expected, *state):
        one, other = (tuple(group[name].shape) if name in group else None for group in (state, expected))
        if one != other:
            raise ValueError(
                f"checkpoint {path} does not fit the recipe of its run: {name} "
                f"{'is missing' if one is None else f'has shape {one}'}, "
                f"{'there should be none' if other is None else f'it should be {other}'}"
            )
