"""The parts of a recipe. What is not written in a recipe has the value that stands here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from cophenet.recipes.names import check_augment, check_objective
from cophenet.recipes.options import build

if TYPE_CHECKING:
    from cophenet.data.source import DataSource

__all__ = [
    "CpccSettings",
    "DataSettings",
    "EvaluationSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "OneShotSettings",
    "OptimizerSettings",
    "SamplerSettings",
    "ScheduleSettings",
    "Settings",
    "TreeSettings",
]

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# A list becomes a tuple, so that a recipe cannot change; its items stay strict.
Listed = BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
Counts = Annotated[tuple[Count, ...], Listed]
Names = Annotated[tuple[str, ...], Listed]


class Settings(BaseModel):
    """A group of settings: immutable, without unknown keys, and nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SamplerSettings(Settings):
    """Batches whose classes are chosen on the tree, see `HierarchicalBatchSampler`.

    Attributes:
        classes_per_batch: Different classes in a batch.
        samples_per_class: Samples of each of them.
        parents_per_batch: Different parents of these classes, with equally many each; None for any.
        level: What a parent is, by depth or name; None for the node right above each class.
    """

    classes_per_batch: Annotated[int, Field(ge=2)]
    samples_per_class: Count
    parents_per_batch: Count | None = None
    level: int | str | None = None

    @property
    def batch_size(self) -> int:
        """Samples of a batch."""
        return self.classes_per_batch * self.samples_per_class


class DataSettings(Settings):
    """What is trained on.

    Attributes:
        name: A data set by name.
        options: Its own options.
        domain: Train on the source classes and test on both sides of the split, or on all classes.
        image_size: Height and width of the images that the model sees, in pixels; None for vectors.
        augment: How training images vary, as the argument of `Loader`: "none", "cifar" (pad, crop, flip and
            rotate), or "views" (the crops, flips and light that belong to a data set of image files).
        validation: Fraction of the training samples of every class that is kept apart and stands in for
            the test part, to tune without looking at it; 0 for none.
        workers: Processes that load data; 0 for none.
        sampler: How the classes of a batch are chosen; None for samples as they come.
    """

    name: str
    options: dict[str, Any] = {}
    domain: Literal["source", "full"] = "source"
    image_size: Count | None = None
    augment: str = "none"
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    workers: Annotated[int, Field(ge=0)] = 0
    sampler: SamplerSettings | None = None

    @model_validator(mode="after")
    def _check(self) -> DataSettings:
        source = self.create_source()
        check_augment(self.augment, source, self.image_size)
        try:
            source.check_domain(self.domain)
        except ValueError as error:
            raise ValueError(f"data.{error}") from error
        return self

    def create_source(self) -> DataSource:
        """The data source, at this image size if it is one that can choose."""
        from cophenet.data.source import create_source

        if "size" in self.options:
            raise ValueError("options.size is set by image_size: give that instead")
        source = build("data.options", partial(create_source, self.name), self.options)
        if self.image_size is None or not source.reads_image_files:
            return source
        return create_source(self.name, **self.options, size=self.image_size)


class TreeSettings(Settings):
    """How the tree of the data is changed before training; see `shaped_tree`.

    Attributes:
        merge_levels: Levels by name that are for evaluation only: training sees the tree without them.
        level_weights: Weight of the edges above a level, by depth (1 below the root) or name: with all 1,
            classes of one group and of two are at distances 1:2; with 2 below the root, 1:3.
        node_weights: Factor of all edges below a node, by name.
        shuffle_seed: Let classes change places in the tree at random, as a control; None not to.
    """

    merge_levels: Names = ()
    level_weights: dict[int | str, Positive] = {}
    node_weights: dict[str, Positive] = {}
    shuffle_seed: Annotated[int, Field(ge=0)] | None = None

    @field_validator("level_weights", mode="before")
    @classmethod
    def _number_depths(cls, given: object) -> object:
        """Depths come as text from the command line."""
        if not isinstance(given, dict):
            return given
        return {int(key) if str(key).isdecimal() else key: value for key, value in given.items()}


class ModelSettings(Settings):
    """What maps inputs to features.

    Attributes:
        backbone: A backbone by name, or by import path.
        options: Its own options, such as the stem of a ResNet.
        weights: File of parameters to begin with; None for random ones.
    """

    backbone: str
    options: dict[str, Any] = {}
    weights: str | None = None


class CpccSettings(Settings):
    """The regularizer, the same for every class distance.

    Attributes:
        weight: The paper's lambda.
        flow_weights: Masses of the samples of a class.
        gather: Take the batch of all processes ("all"), or each process's own ("none").
        memory: Samples of earlier batches that count as well, the same number for each class; 0 for none.
        memory_age: Steps after which a sample leaves the memory.
    """

    weight: NotNegative = 1.0
    flow_weights: Literal["uniform", "distance", "inverse"] = "uniform"
    gather: Literal["all", "none"] = "all"
    memory: Annotated[int, Field(ge=0)] = 0
    memory_age: Count = 100


class ObjectiveSettings(Settings):
    """What is minimised.

    Attributes:
        name: An objective by name; the name of a class distance is cross entropy with CPCC on it.
        cpcc: For class distances.
        options: Own options of objectives and distances, by name, used when that one is chosen.
    """

    name: str = "fastft"
    cpcc: CpccSettings = CpccSettings()
    options: dict[str, dict[str, Any]] = {}

    @model_validator(mode="after")
    def _check(self) -> ObjectiveSettings:
        for name in (self.name, *self.options):
            check_objective(name, self.options.get(name, {}))
        return self


class OptimizerSettings(Settings):
    """How weights are updated.

    Attributes:
        name: The method.
        lr: Learning rate at the start.
        momentum: Of sgd.
        weight_decay: L2 penalty (sgd) or decoupled decay (adamw).
    """

    name: Literal["sgd", "adamw"] = "sgd"
    lr: Positive
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: NotNegative = 0.0

    @model_validator(mode="after")
    def _check(self) -> OptimizerSettings:
        if self.name != "sgd" and self.momentum:
            raise ValueError(f"momentum is for sgd: set it to 0 with {self.name!r}, got {self.momentum}")
        return self


class ScheduleSettings(Settings):
    """The learning rate in steps.

    Attributes:
        divide_by: What it is divided by at each step.
        every: Epochs between two steps.
    """

    divide_by: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    every: Count


class OneShotSettings(Settings):
    """A new linear head for the target classes, on the frozen encoder.

    Attributes:
        shots: Labelled examples of every class.
        epochs: How long the head is trained.
        optimizer: As for the training.
        schedule: As for the training; None for a constant rate.
    """

    shots: Count = 1
    epochs: Count
    optimizer: OptimizerSettings
    schedule: ScheduleSettings | None = None


class EvaluationSettings(Settings):
    """How a trained model is measured.

    Attributes:
        batch_size: Samples per forward pass.
        neighbours: The k of hierarchical distance@k.
        calibration_bins: Bins of the calibration error.
        orders: Random orders of the samples, for distances that depend on it.
    """

    batch_size: Count = 512
    neighbours: Counts = (1, 5, 20)
    calibration_bins: Count = 15
    orders: Count = 5
