"""The groups of settings of an experiment. What a recipe does not write has the default given here."""

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
    "StoppingSettings",
    "TreeSettings",
]

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# A list becomes a tuple, so that a recipe cannot change; its items stay strict.
Listed = BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
Counts = Annotated[tuple[Count, ...], Listed]
Names = Annotated[tuple[str, ...], Listed]
# Options are validated also if none are given, because a member may need some.
Options = Annotated[dict[str, Any], Field(validate_default=True)]


class Settings(BaseModel):
    """A group of settings: immutable, without unknown keys, and nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_member(
    member: Member, options: dict[str, Any], info: ValidationInfo, place: tuple[str, ...] = ()
) -> None:
    """Check the options of a member, except by code of a user's own that is not trusted."""
    if member.is_installed or not (info.context or {}).get("untrusted"):
        check_member_options(member, options, place)


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
        validation: Fraction of the training samples of every class that is put aside and used in place of
            the test part, to tune without looking at it; 0 for none.
        workers: Processes that load data; 0 for none.
        sampler: How the classes of a batch are chosen; None for samples as they come.
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
        from cophenet.data.source import source_names

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
        """The data source, at this image size if it is one that can choose."""
        from cophenet.data.source import SOURCES, create_source

        resized = self.image_size is not None and SOURCES.get(self.name).reads_image_files
        with arguments_of("data.options", self.options):
            return create_source(self.name, **self.options, **({"size": self.image_size} if resized else {}))


class TreeSettings(Settings):
    """How the tree of the data is changed before training; see `shaped_tree`.

    Attributes:
        merge_levels: Levels by name that are for evaluation only: training sees the tree without them.
        level_weights: Weight of the edges above a level, by depth (1 below the root) or name: with all 1,
            classes of one group and of two are at distances 1:2; with 2 below the root, 1:3.
        node_weights: Factor of all edges below a node, by name or path.
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
        weights: File of parameters to begin with, or "pretrained" for those that belong to the backbone; None
            for random ones.
        frozen: Whether the backbone keeps its weights: its vectors of all images are then computed once, and
            kept for other runs.
        neck: Options of a small network after the backbone, as those of the backbone `mlp`; None for none.
        views: How many augmented views of each training image a frozen backbone sees, beside the image.
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
    """The regularizer, the same for every class distance.

    Attributes:
        weight: The paper's lambda.
        flow_weights: Masses of the samples of a class.
        gather: Take the batch of all processes ("all"), or each process's own ("none").
        memory: Samples of earlier batches that count as well, the same number for each class; 0 for none.
        memory_age: Steps after which a sample leaves the memory.
        normalize: Compare unit vectors: each feature vector divided by its norm.
        warmup: Share of all steps in which the weight rises from 0 to its value, in a straight line.
        inside_factors: Factor of the distances that classes below a node shall have from each other, by name
            or path of the node; what is asked for is then no distance in a tree.
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
    """What is minimised.

    Attributes:
        name: An objective by name; the name of a class distance is cross entropy with CPCC on it.
        cpcc: For class distances.
        options: Own options of objectives and distances, by name, used when that one is chosen.
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
        name: The method.
        lr: Learning rate at the start.
        momentum: Of sgd.
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
        divide_by: What it is divided by at each step.
        every: Epochs between two steps.
        one_cycle: Share of the epochs in which it rises to that of the optimizer; in the others it falls to
            zero. In place of steps.
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
    """The weights of the best epoch are kept, by the accuracy on a part of the training samples.

    Attributes:
        share: Of the training samples of every class, which is put aside for it.
        patience: Epochs without a better one after which the training ends; None to train all of them.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    patience: Count | None = None


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
        distances: By which CPCC is measured, besides the one trained with; "fastft-unit" is "fastft" between
            unit vectors.
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
