"""A recipe: all settings of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from cophenet._common.checks import arguments_of, check_text
from cophenet._common.yaml_files import dump_yaml
from cophenet.recipes.checks import check_epochs, check_recipe
from cophenet.recipes.errors import problem_at, refusal
from cophenet.recipes.own_code import added_member, check_trust
from cophenet.recipes.settings import (
    Count,
    DataSettings,
    EvaluationSettings,
    Listed,
    ModelSettings,
    ObjectiveSettings,
    OneShotSettings,
    OptimizerSettings,
    ScheduleSettings,
    Settings,
    StoppingSettings,
    TreeSettings,
)

if TYPE_CHECKING:
    from cophenet.data.registry import DataSource
    from cophenet.objectives import Objective, Phase
    from cophenet.tree import Hierarchy

__all__ = ["SCALES", "Recipe", "Scale"]

Scale = Literal["paper", "scratch", "laptop"]
SCALES: tuple[Scale, ...] = get_args(Scale)

Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), Listed]

# Phases of recipes that were checked as a whole: recipes are read often, and creating their members is slow.
_CHECKED: dict[str, tuple[Phase, ...]] = {}


class Recipe(Settings):
    """All settings of an experiment, immutable.

    Attributes:
        name: Name of the experiment.
        scale: "paper"; or for a laptop, with a pretrained backbone ("laptop") or from scratch ("scratch").
        summary: One line about it.
        data: The training data.
        tree: Changes to the tree.
        model: The backbone.
        objective: The loss.
        optimizer: How weights are updated.
        schedule: The learning rate over the epochs; None for a constant one.
        epochs: Passes over the training data, in all phases of the objective together.
        batch_size: Samples per step, on all devices together.
        chunk_size: Samples whose graph is in memory at a time, on each device; None for the whole batch.
        precision: Number format of the training, in Lightning's notation.
        one_shot: The transfer to the target classes; None for data whose domains share their classes.
        evaluation: How the trained model is evaluated.
        save_features_every: Epochs between two saves of the test features; 0 to save them only at the end.
        stopping: Which epoch's weights are used, and when the training ends; None for the last of all epochs.
        seeds: Seeds, with one run for each.
    """

    name: str
    scale: Scale = "laptop"
    summary: str = ""
    data: DataSettings
    tree: TreeSettings = TreeSettings()
    model: ModelSettings
    objective: ObjectiveSettings = Field(default_factory=ObjectiveSettings)
    optimizer: OptimizerSettings
    schedule: ScheduleSettings | None = None
    epochs: Count
    batch_size: Annotated[int, Field(ge=2)]
    chunk_size: Count | None = None
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    one_shot: OneShotSettings | None = None
    evaluation: EvaluationSettings = EvaluationSettings()
    save_features_every: Annotated[int, Field(ge=0)] = 0
    stopping: StoppingSettings | None = None
    seeds: Seeds = (0,)
    # The folder it was read from, if its content is from somebody else.
    _untrusted: Path | None = PrivateAttr(None)

    @field_validator("name", "summary")
    @classmethod
    def _check_text(cls, text: str, info: ValidationInfo) -> str:
        check_text(str(info.field_name), text)
        return text

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise refusal(problem_at((), f"must differ, got {list(seeds)}"))
        return seeds

    @field_validator("stopping")
    @classmethod
    def _check_stopping(cls, given: StoppingSettings | None, info: ValidationInfo) -> StoppingSettings | None:
        if given is not None and info.data.get("save_features_every"):
            text = "looks at no test samples during training: set save_features_every to 0"
            raise refusal(problem_at((), text, depends=("save_features_every",)))
        return given

    @model_validator(mode="after")
    def _check(self) -> Recipe:
        settings = (self.data, self.tree, self.model, self.objective, self.one_shot, self.batch_size)
        if self.untrusted is None or added_member(self) is None:
            if repr(settings) not in _CHECKED:
                _CHECKED[repr(settings)] = check_recipe(self)
            check_epochs(self, _CHECKED[repr(settings)])
        return self

    def model_post_init(self, context: Any) -> None:
        """Store whether the recipe is trusted."""
        self._untrusted = (context or {}).get("untrusted")

    def __eq__(self, other: object) -> bool:
        """Whether all settings are equal, regardless of trust."""
        return isinstance(other, Recipe) and dict(self) == dict(other)

    @property
    def untrusted(self) -> Path | None:
        """The untrusted folder that it was read from; None if it is the user's own, or trusted."""
        return self._untrusted

    def with_trust(self) -> Recipe:
        """The same recipe, but trusted."""
        recipe = self.model_copy()
        recipe._untrusted = None
        return recipe

    def create_source(self) -> DataSource:
        """The data source.

        Raises:
            TrustError: If it is registered by the running program, and the recipe is not trusted.
        """
        check_trust(self, network=False)
        return self.data.create_source()

    def to_yaml(self) -> str:
        """Write all settings, including defaults, as a file that `load_recipe` reads."""
        return dump_yaml(self.model_dump())

    def create_objective(self, tree: Hierarchy) -> Objective:
        """Create the objective on a tree.

        Raises:
            TrustError: If it is registered by the running program, and the recipe is not trusted.

        Example:
            >>> from cophenet import Hierarchy
            >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
            >>> from cophenet.recipes import load_recipe
            >>> load_recipe("cifar100", "paper").create_objective(tree).criterion.weight
            1.0
        """
        from cophenet.objectives import create_objective
        from cophenet.objectives.registry import objective_class
        from cophenet.recipes.trees import target_distances

        check_trust(self, network=False)
        name, options = self.objective.name, self.objective.options.get(self.objective.name, {})
        shared: dict[str, Any] = {}
        if objective_class(name) is None:
            shared = self.objective.cpcc.model_dump(exclude={"inside_factors", "warmup"})
            shared["target"] = target_distances(tree, self.objective.cpcc.inside_factors)
        with arguments_of(f"objective.options.{name}", options):
            return create_objective(name, tree, **shared, **options)
