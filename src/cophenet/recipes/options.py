"""Models of options: one pydantic model for each data set, objective and backbone that a recipe names.

Data sets, objectives and backbones declare their options as typed arguments of their constructors. The model
is created from them when a recipe first names the member, so that members of other packages, or registered
later, have a model too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic_core import InitErrorDetails

from cophenet._common.checks import unknown_option
from cophenet.recipes.errors import problem_at, refusal, wording, wording_of_several

__all__ = ["Member", "backbone_member", "check_member_options", "data_member", "objective_member"]

_CONFIG = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Member:
    """A data set, an objective or a backbone with its options.

    Attributes:
        kind: Its kind, in messages.
        name: Its name.
        make: Its class or factory, whose arguments are the options; None if they cannot be known.
        unlisted: A function with further options, which messages do not list.
        fixed: Arguments that are not options.
        elsewhere: Names that look like options but are set by another key of the recipe -> that key.
        named_by: The key of a recipe that names the member, if its options are in the same group.
        is_installed: Whether it comes with the library or another package, not registered by the running
            program.
    """

    kind: str
    name: str
    make: Callable[..., object] | None
    unlisted: Callable[..., object] | None = None
    fixed: frozenset[str] = frozenset()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    named_by: tuple[str, ...] = ()
    is_installed: bool = True

    @property
    def model(self) -> type[BaseModel]:
        """The pydantic model of its options."""
        makers = tuple(make for make in (self.make, self.unlisted) if make is not None)
        return _option_model(makers, self.fixed.union(self.elsewhere))

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(str(option.alias) for option in self.model.model_fields.values())


def data_member(name: str) -> Member:
    """A data set by name.

    Example:
        >>> data_member("folder").options
        ('tree_file', 'test_fraction', 'seed')
    """
    from cophenet.data.registry import SOURCES

    elsewhere = {"size": "data.image_size"}
    return Member(
        "data",
        name,
        SOURCES.get(name),
        elsewhere=elsewhere,
        named_by=("data.name",),
        is_installed=name not in SOURCES.added(),
    )


def objective_member(name: str) -> Member:
    """An objective by name, including class distances.

    Example:
        >>> objective_member("sinkhorn").options[:2], objective_member("soft").options
        (('reg', 'relative'), ('beta', 'cpcc', 'gather'))
    """
    from cophenet.objectives.registry import OBJECTIVES, create_objective, objective_class
    from cophenet.transport.base import DISTANCES

    cls = objective_class(name)
    fixed = frozenset({"name", "tree"})
    installed = name not in (*OBJECTIVES.added(), *DISTANCES.added())
    if cls is None:
        return Member("objective", name, DISTANCES.get(name), fixed=fixed, is_installed=installed)
    return Member("objective", name, cls, create_objective, fixed, is_installed=installed)


def backbone_member(name: str) -> Member:
    """A backbone by name; options of other packages' backbones, such as `timm:NAME`, cannot be known.

    Example:
        >>> backbone_member("resnet10-w24").options
        ('stem', 'norm')
    """
    from cophenet.models.registry import BACKBONES, backbone_maker

    make, sizes = (None, frozenset[str]()) if ":" in name else backbone_maker(name)
    elsewhere = {"weights": "model.weights", "input_shape": "data.image_size"}
    return Member(
        "backbone",
        name,
        make,
        fixed=sizes,
        elsewhere=elsewhere,
        named_by=("model.backbone",),
        is_installed=name not in BACKBONES.added(),
    )


def check_member_options(member: Member, options: Mapping[str, Any], place: tuple[str, ...] = ()) -> None:
    """Raise for unknown options, missing options, and values of a wrong type.

    Args:
        member: The member with the options.
        options: The options given.
        place: Their key, relative to what is validated.

    Raises:
        ValidationError: With the key of every problem.

    Example:
        >>> from cophenet.recipes.errors import recipe_error
        >>> try:
        ...     check_member_options(data_member("living17"), {"mid": "yes"})
        ... except ValidationError as error:
        ...     print(recipe_error(error, BaseModel, "my.yaml"))
        my.yaml: mid must be a boolean, got 'yes'
    """
    for name in member.elsewhere.keys() & options.keys():
        text = f"is set by {member.elsewhere[name]}: give that instead"
        raise refusal(problem_at((*place, name), text))
    if member.make is None:
        return
    try:
        member.model.model_validate(options)
    except ValidationError as error:
        problems: dict[str, list[Any]] = {}
        for problem in error.errors(include_url=False):
            problems.setdefault(str(problem["loc"][0]), []).append(problem)
        raise refusal(*(_problem(member, place, *item, options) for item in problems.items())) from error


def _problem(
    member: Member, place: tuple[str, ...], name: str, problems: list[Any], options: Mapping[str, Any]
) -> InitErrorDetails:
    """The problem with one option, from pydantic's errors about it."""
    what, (first, *more) = f"{member.kind} {member.name!r}", problems
    key, depends = (*place, name), member.named_by
    if first["type"] == "missing":
        return problem_at(key, f"{what} needs the option {name}", whole=True, depends=depends)
    if first["type"] == "extra_forbidden" and member.make is not None:
        unknown = unknown_option(what, member.make, name, fixed=member.fixed.union(member.elsewhere))
        if unknown:
            return problem_at(key, unknown, whole=True, depends=depends)
    if more:
        return problem_at(key, wording_of_several(problems, options[name]), depends=depends)
    return problem_at((*place, *map(str, first["loc"])), wording(first, member.model), depends=depends)


@cache
def _option_model(makers: tuple[Callable[..., object], ...], fixed: frozenset[str]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for make in makers:
        types = _declared_types(make)
        for argument in inspect.signature(make).parameters.values():
            if argument.kind in _KINDS and argument.name not in fixed:
                declared = types.get(argument.name, Any)
                default = ... if argument.default is argument.empty else argument.default
                # By alias, because an option may have the same name as a method of pydantic's models.
                option = Field(default, alias=argument.name)
                fields[f"option{len(fields)}"] = (declared if _is_known(declared) else Any, option)
    model: type[BaseModel] = create_model("Options", __config__=_CONFIG, **fields)
    return model


def _is_known(kind: Any) -> bool:
    """Whether pydantic can validate a type, which may come from another package."""
    try:
        create_model("Known", __config__=_CONFIG, value=(kind, ...))
    except (PydanticUserError, NameError):
        return False
    return True


def _declared_types(make: Callable[..., object]) -> dict[str, Any]:
    """The types of the arguments, as far as they are known."""
    function = make.func if isinstance(make, partial) else make
    try:
        return get_type_hints(
            inspect.getattr_static(function, "__init__") if isinstance(function, type) else function
        )
    except (NameError, TypeError):
        return {}
