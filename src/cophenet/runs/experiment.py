"""What a recipe needs before it can be trained or evaluated: data, tree, objective and network."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cophenet._common.checks import arguments_of
from cophenet.data import DataSet, HierarchicalBatchSampler, Loader, Samples, stratified_split
from cophenet.models import Network, build_heads, create_backbone, input_normalization
from cophenet.models.registry import PRETRAINED
from cophenet.objectives import Objective
from cophenet.recipes import Recipe, shaped_tree
from cophenet.recipes.own_code import check_trust
from cophenet.runs.checkpoints import read_checkpoint
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.runs.run import Run

__all__ = ["Experiment", "build_network", "find_weights", "load_experiment", "load_network"]

_VALIDATION_SEED = 0


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
    """

    recipe: Recipe
    data: DataSet
    tree: Hierarchy
    objective: Objective
    train: Samples
    test: Samples
    _loaders: dict[Any, Loader] = field(default_factory=dict, init=False, repr=False)

    @property
    def mean(self) -> tuple[float, ...]:
        """Per channel, for normalization."""
        return self._normalization[0]

    @property
    def std(self) -> tuple[float, ...]:
        """Per channel, for normalization."""
        return self._normalization[1]

    @cached_property
    def _normalization(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """As the weights of the backbone want images, or else as the data does."""
        mean, std = input_normalization(self.recipe.model.backbone, self.recipe.model.weights)
        return (mean, std) if mean else (self.data.mean, self.data.std)

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

    def evaluation_loader(
        self, samples: Samples, *, batch_size: int | None = None, device: torch.device | str = "cpu"
    ) -> Loader:
        """Samples in their order, as they are: no augmentation, every one once.

        Args:
            samples: `test`, `train`, or those of another part and domain of `data`.
            batch_size: Samples per batch; None for the recipe's `evaluation.batch_size`.
            device: Where the batches are wanted.
        """
        size = batch_size or self.recipe.evaluation.batch_size
        return Loader(samples, size, device=device, **self._reading(samples))

    def training_loader(
        self, seed: int, *, device: torch.device | str = "cpu", rank: int = 0, world_size: int = 1
    ) -> Loader:
        """Batches to train on, in another order in every epoch.

        The last batch of an epoch is left out where it would give a process a single sample or none, which
        have no variance to normalize by. The loader is made once, and then the same for the same arguments.

        Args:
            seed: Decides order and augmentation.
            device: Where the batches are wanted.
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
            augment=self.recipe.data.augment,
            drop_last=sampler is None and 0 < rest < 2 * world_size,
            sampler=sampler,
            device=device,
            rank=rank,
            world_size=world_size,
            **self._reading(self.train),
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

    def _reading(self, samples: Samples) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "std": self.std,
            "size": self._size(samples),
            "workers": self.recipe.data.workers,
        }

    def _size(self, samples: Samples) -> int | None:
        """The side that images in memory are resized to; None for those that have it, files and vectors."""
        size = self.recipe.data.image_size
        return None if size is None or samples.inputs.shape[1:] == (size, size) else size


def load_experiment(recipe: Recipe, data_dir: str | Path | None = None, *, trust: bool = False) -> Experiment:
    """Read the data of a recipe and make its tree and objective.

    Args:
        recipe: All settings.
        data_dir: Folder of the data; None for data that needs none.
        trust: Whether the recipe of a run folder may name a data set or an objective that the running program
            has registered; one from elsewhere may.

    Raises:
        FileNotFoundError: If files are missing.
        TrustError: If it names such code and may not.
        ValueError: If the data is wrong, or the recipe does not fit it.

    Example:
        >>> from cophenet.recipes import load_recipe
        >>> experiment = load_experiment(load_recipe("digits"))
        >>> experiment.tree.num_classes, experiment.objective.name, experiment.input_shape
        (7, 'fastft', (1, 8, 8))
    """
    recipe = recipe.with_trust() if trust else recipe
    source = recipe.create_source()
    data = source.load(None if data_dir is None else Path(data_dir))
    train = data.samples("train", recipe.data.domain)
    if recipe.data.validation:
        rest, aside = stratified_split(train.labels, recipe.data.validation, _VALIDATION_SEED)
        train, test = train.subset(rest), train.subset(aside)
    else:
        test = data.samples("test", recipe.data.domain)
    tree = shaped_tree(train.tree, recipe.tree)
    return Experiment(recipe, data, tree, recipe.create_objective(tree), train, test)


def build_network(
    recipe: Recipe, objective: Objective, input_shape: Sequence[int], weights: str | Path | None = None
) -> Network:
    """The backbone of a recipe with the heads of its objective, from torch's random state.

    Args:
        recipe: All settings.
        objective: Says which heads.
        input_shape: Shape of one input.
        weights: The backbone's parameters to begin with, as for `create_backbone`.

    Raises:
        TrustError: If the recipe names code of a user's own, and is not trusted.
    """
    check_trust(recipe)
    name, options = recipe.model.backbone, recipe.model.options
    trust, shape = recipe.untrusted is None, tuple(input_shape)
    backbone = create_backbone(name, input_shape=shape, weights=weights, trust=trust, **options)
    return Network(backbone, build_heads(objective.heads, backbone.num_features))


def find_weights(recipe: Recipe, data_dir: str | Path | None) -> str | Path | None:
    """The file of `model.weights`, in the data folder if there is one, else in the current folder.

    Pretrained weights are no such file, and returned by that name.

    Raises:
        FileNotFoundError: If it is not there; says where it was looked for.
    """
    if recipe.model.weights in (None, PRETRAINED):
        return recipe.model.weights
    path = Path(data_dir or Path.cwd()) / Path(recipe.model.weights).expanduser()
    if not path.is_file():
        base = "data_dir" if data_dir is not None else "the current folder"
        raise FileNotFoundError(
            f"model.weights {recipe.model.weights!r} not found: looked for {path}, relative to {base}"
        )
    return path


def load_network(run: Run, device: torch.device | str = "cpu", *, trust: bool = False) -> Network:
    """The network of a run of one seed, as its newest checkpoint has it, in evaluation mode.

    The data is not needed.

    Args:
        run: The run.
        device: Where the network shall be.
        trust: Whether code of a user's own that the run names may run, if the run was opened without.

    Raises:
        TrustError: If the run names such code and may not.
        ValueError: If the run has several seeds, no checkpoint, or a damaged one.
    """
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
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"checkpoint {path} holds no tensors of a network")
    named = {str(name): value for name, value in state.items()}
    return {name.removeprefix(prefix): named[name] for name in named if name.startswith(prefix)}


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
