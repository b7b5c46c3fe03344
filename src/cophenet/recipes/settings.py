"""The groups of settings of an experiment, with the defaults of settings that a recipe does not contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cophenet._common.checks import arguments_of, check_choice
from cophenet.recipes.errors import problem_at, refusal
from cophenet.recipes.options import (
    Member,
    backbone_member,
    check_member_options,
    data_member,
    objective_member,
)

if TYPE_CHECKING:
    from cophenet.data.registry import DataSource

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
    "StoppingSettings",
    "TreeSettings",
]

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# A list becomes a tuple, so that a recipe is immutable; its items are still strict.
Listed = BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
Counts = Annotated[tuple[Count, ...], Listed]
Names = Annotated[tuple[str, ...], Listed]
# Options are validated even if none are given, because some may be required.
Options = Annotated[dict[str, Any], Field(validate_default=True)]


class Settings(BaseModel):
    """A group of settings: immutable, without unknown keys or implicit conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_member(
    member: Member, options: dict[str, Any], info: ValidationInfo, place: tuple[str, ...] = ()
) -> None:
    """Check the options of a member, unless that would run untrusted user code."""
    if member.is_installed or not (info.context or {}).get("untrusted"):
        check_member_options(member, options, place)


class SamplerSettings(Settings):
    """Batches whose classes are chosen with the tree, see `HierarchicalBatchSampler`.

    Attributes:
        classes_per_batch: Number of different classes in a batch.
        samples_per_class: Number of samples of each class.
        parents_per_batch: Number of different parents of these classes, with equally many classes each; None
            for any.
        level: Level of the parents, by depth or name; None for the node directly above each class.
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
    """The training data.

    Attributes:
        name: Name of a data set.
        options: Its own options.
        domain: "source" to train on the source classes and test on both sides of the split, "full" for all
            classes.
        image_size: Height and width of the images that the model sees, in pixels; None for vectors.
        augment: Augmentation of training images, as for `Loader`: "none", "cifar" (pad, crop, flip and
            rotate), or "views" (the crops, flips and light changes of a data set of image files).
        validation: Fraction of the training samples of every class that is held out and replaces the test
            part, for tuning without test data; 0 for none.
        workers: Number of processes that load data; 0 to load in the main process.
        sampler: How the classes of a batch are chosen; None to draw samples regardless of their classes.
    """

    name: str
    options: Options = {}
    domain: Literal["source", "full"] = "source"
    image_size: Count | None = None
    augment: str = "none"
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    workers: Annotated[int, Field(ge=0)] = 0
    sampler: SamplerSettings | None = None

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        from cophenet.data.registry import source_names

        check_choice("data.name", name, source_names())
        return name

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "name" in info.data:
            _check_member(data_member(info.data["name"]), options, info)
        return options

    @field_validator("augment")
    @classmethod
    def _check_augment(cls, augment: str) -> str:
        from cophenet.data.augmentation import loader_augments

        check_choice("data.augment", augment, loader_augments())
        return augment

    def create_source(self) -> DataSource:
        """Create the data source, at this image size if it reads image files."""
        from cophenet.data.registry import SOURCES, create_source

        resized = self.image_size is not None and SOURCES.get(self.name).reads_image_files
        with arguments_of("data.options", self.options):
            return create_source(self.name, **self.options, **({"size": self.image_size} if resized else {}))


class TreeSettings(Settings):
    """Changes to the tree of the data before training; see `shaped_tree`.

    Attributes:
        merge_levels: Names of levels that are used in evaluation only: they are removed from the tree for
            training.
        level_weights: Weight of the edges above a level, by depth (1 below the root) or name: if all are 1,
            classes in the same group and in two groups have distances 1:2; with 2 below the root, 1:3.
        node_weights: Factor of all edges below a node, by name or path.
        shuffle_seed: Seed of a random exchange of classes in the tree, as a control; None for no exchange.
    """

    merge_levels: Names = ()
    level_weights: dict[int | str, Positive] = {}
    node_weights: dict[str, Positive] = {}
    shuffle_seed: Annotated[int, Field(ge=0)] | None = None

    @field_validator("level_weights", mode="before")
    @classmethod
    def _number_depths(cls, given: object) -> object:
        """Convert depths, which are text on the command line, to numbers."""
        if not isinstance(given, dict):
            return given
        return {int(key) if str(key).isdecimal() else key: value for key, value in given.items()}


class ModelSettings(Settings):
    """The network from inputs to features.

    Attributes:
        backbone: Name or import path of a backbone.
        options: Its own options, such as the stem of a ResNet.
        weights: File of initial parameters, or "pretrained" for the backbone's own; None for random ones.
        frozen: Whether the backbone is not trained: its vectors of all images are then computed once, and
            cached for other runs.
        neck: Options of a small network after the backbone, as for the backbone `mlp`; None for no network.
        views: Number of augmented views of each training image for a frozen backbone, in addition to the
            image.
    """

    backbone: str
    options: Options = {}
    weights: str | None = None
    frozen: bool = False
    neck: dict[str, Any] | None = None
    views: Annotated[int, Field(ge=0, le=100)] = 0

    @field_validator("backbone")
    @classmethod
    def _check_name(cls, name: str) -> str:
        with arguments_of("model", ["backbone"]):
            backbone_member(name)
        return name

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "backbone" in info.data:
            _check_member(backbone_member(info.data["backbone"]), options, info)
        return options

    @field_validator("weights")
    @classmethod
    def _check_weights(cls, weights: str | None, info: ValidationInfo) -> str | None:
        from cophenet.models.registry import PRETRAINED, check_pretrained

        if weights == PRETRAINED and "backbone" in info.data:
            with arguments_of("model", ["weights"]):
                check_pretrained(info.data["backbone"])
        return weights

    @field_validator("frozen")
    @classmethod
    def _check_frozen(cls, frozen: bool, info: ValidationInfo) -> bool:
        if frozen and info.data.get("weights", "") is None:
            text = "needs model.weights: random ones are worth no freezing"
            raise refusal(problem_at((), text, depends=(".weights",)))
        return frozen

    @field_validator("neck")
    @classmethod
    def _check_neck(cls, neck: dict[str, Any] | None, info: ValidationInfo) -> dict[str, Any] | None:
        if neck is not None:
            _check_member(backbone_member("mlp"), neck, info)
        return neck


class CpccSettings(Settings):
    """The regularizer, with the same settings for every class distance.

    Attributes:
        weight: Its weight, lambda in the paper.
        flow_weights: Masses of the samples of a class.
        gather: Use the batch of all processes ("all"), or each process's own batch ("none").
        memory: Samples of earlier batches that are included, the same number for each class; 0 for none.
        memory_age: Steps after which a sample leaves the memory.
        normalize: Whether to compare unit vectors: each feature vector divided by its norm.
        warmup: Share of all steps in which the weight rises linearly from 0 to its value.
        inside_factors: Factor of the target distances between classes below a node, by name or path of the
            node; the target is then not necessarily a tree distance.
    """

    weight: NotNegative = 1.0
    flow_weights: Literal["uniform", "distance", "inverse"] = "uniform"
    gather: Literal["all", "none"] = "all"
    memory: Annotated[int, Field(ge=0)] = 0
    memory_age: Count = 100
    normalize: bool = False
    warmup: Annotated[float, Field(ge=0, le=1)] = 0.0
    inside_factors: dict[str, Positive] = {}


class ObjectiveSettings(Settings):
    """The training objective.

    Attributes:
        name: Name of an objective; the name of a class distance means cross entropy with CPCC of that
            distance.
        cpcc: Settings of CPCC, for class distances.
        options: Own options of objectives and distances by name; only those of the chosen one are used.
    """

    name: str = "fastft"
    cpcc: CpccSettings = CpccSettings()
    options: Annotated[dict[str, dict[str, Any]], Field(validate_default=True)] = {}

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        from cophenet.objectives import objective_names

        check_choice("objective.name", name, objective_names())
        return name

    @field_validator("options")
    @classmethod
    def _check_options(cls, given: dict[str, dict[str, Any]], info: ValidationInfo) -> dict[str, Any]:
        from cophenet.objectives import objective_names

        for name in given:
            check_choice("objective.options", name, objective_names())
        for name in {info.data.get("name", "flat"): None, **given}:
            _check_member(objective_member(name), given.get(name, {}), info, (name,))
        return given


class OptimizerSettings(Settings):
    """How weights are updated.

    Attributes:
        name: The optimizer.
        lr: Initial learning rate.
        momentum: Momentum of sgd.
        weight_decay: L2 penalty (sgd) or decoupled decay (adamw).
    """

    name: Literal["sgd", "adamw"] = "sgd"
    lr: Positive
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: NotNegative = 0.0

    @field_validator("momentum")
    @classmethod
    def _check_momentum(cls, momentum: float, info: ValidationInfo) -> float:
        name = info.data.get("name", "sgd")
        if name != "sgd" and momentum:
            text = f"is for sgd: set it to 0 with {name!r}, got {momentum}"
            raise refusal(problem_at((), text, depends=(".name",)))
        return momentum


class ScheduleSettings(Settings):
    """The learning rate over the epochs: in steps, or as one cycle.

    Attributes:
        divide_by: Divisor of the learning rate at each step.
        every: Epochs between two steps.
        one_cycle: Share of the epochs in which the rate rises to that of the optimizer; in the others it
            falls to zero. Replaces steps.
    """

    divide_by: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    every: Count | None = None
    one_cycle: Annotated[float, Field(ge=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> ScheduleSettings:
        steps = {"divide_by": self.divide_by, "every": self.every}
        if self.one_cycle is None:
            missing = [name for name, value in steps.items() if value is None]
            if missing:
                raise refusal(*(problem_at((name,), "is missing") for name in missing))
        elif any(value is not None for value in steps.values()):
            text = "is in place of divide_by and every: give either"
            raise refusal(problem_at(("one_cycle",), text, depends=(".divide_by", ".every")))
        return self


class StoppingSettings(Settings):
    """Use the weights of the best epoch, by accuracy on held-out training samples.

    Attributes:
        share: Share of the training samples of every class that is held out for this.
        patience: Epochs without a better one after which the training ends; None to train all epochs.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    patience: Count | None = None


class OneShotSettings(Settings):
    """A new linear head for the target classes, on the frozen encoder.

    Attributes:
        shots: Labelled examples per class.
        epochs: Number of epochs that the head is trained.
        optimizer: As for the main training.
        schedule: As for the main training; None for a constant rate.
    """

    shots: Count = 1
    epochs: Count
    optimizer: OptimizerSettings
    schedule: ScheduleSettings | None = None


class EvaluationSettings(Settings):
    """How a trained model is evaluated.

    Attributes:
        batch_size: Samples per forward pass.
        neighbours: Values of k for hierarchical distance@k.
        calibration_bins: Number of bins of the calibration error.
        orders: Number of random sample orders, for distances that depend on the order.
        distances: Class distances to measure CPCC with, in addition to that of the training; "fastft-unit" is
            "fastft" between unit vectors.
    """

    batch_size: Count = 512
    neighbours: Counts = (1, 5, 20)
    calibration_bins: Count = 15
    orders: Count = 5
    distances: Names = ("l2",)

    @field_validator("distances")
    @classmethod
    def _check_distances(cls, distances: tuple[str, ...]) -> tuple[str, ...]:
        from cophenet.metrics.cophenetic_correlation import UNIT
        from cophenet.transport.base import DISTANCES

        for name in distances:
            check_choice("evaluation.distances", name.removesuffix(UNIT), DISTANCES.names())
        return distances
