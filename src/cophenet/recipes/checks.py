"""Checks that the settings of a recipe are valid, individually and together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cophenet._common.checks import argument_of, arguments_of
from cophenet.recipes.errors import problem_at, refusal
from cophenet.recipes.options import backbone_member
from cophenet.recipes.trees import shaped_tree

if TYPE_CHECKING:
    from cophenet.data.registry import DataSource
    from cophenet.objectives import Phase
    from cophenet.recipes.recipe import Recipe
    from cophenet.tree import Hierarchy

__all__ = ["check_epochs", "check_recipe"]

_DATA = ("data.name", "data.options")
# Backbones that were already created as a check, with necks and image sizes: many recipes share them.
_MADE: set[str] = set()


def check_recipe(recipe: Recipe) -> tuple[Phase, ...]:
    """Check what no single key shows: values that a constructor rejects, and settings that are inconsistent.

    Creates the data source, the backbone (without memory for its weights), and every objective that has
    options: the chosen one with the tree of the data, if that is known before files are read.

    Returns:
        The phases of the chosen objective, for `check_epochs`; none if the tree is not known.

    Raises:
        ValidationError: With the key of the first problem in the recipe.
    """
    with _located(("data", "options"), recipe.data.options, ("data.name",)):
        source = recipe.data.create_source()
    _check_data(recipe, source)
    _check_backbone(recipe)
    _check_frozen(recipe)
    _check_batches(recipe)
    _check_one_shot(recipe, source)
    tree = source.tree()
    if tree is not None:
        with _located(("tree",), recipe.tree, _DATA):
            tree = shaped_tree(tree, recipe.tree)
    return _check_objectives(recipe, tree)


def check_epochs(recipe: Recipe, phases: tuple[Phase, ...]) -> None:
    """Raise if there are fewer epochs than phases of the objective."""
    from cophenet.objectives import phase_lengths

    if phases:
        with _located(("epochs",), recipe.epochs, ("objective.name",)):
            phase_lengths(phases, recipe.epochs)


@contextmanager
def _located(place: tuple[str, ...], given: object, depends: tuple[str, ...] = ()) -> Iterator[None]:
    """Report errors inside the context at the key that the error names, else at a given key.

    Args:
        place: The key where errors that name no key are reported.
        given: The setting at this key.
        depends: Other keys that affect whether there is an error.
    """
    depends = (*depends, ".".join(place))
    try:
        yield
    except (TypeError, AttributeError) as error:
        # For arguments without a declared type, which the model of the options did not check.
        reason = str(error).partition("\n")[0]  # torch appends the location in its own code
        text = f"has values that do not work, got {given!r}: {reason}"
        raise refusal(problem_at(place, text, depends=depends)) from error
    except ValueError as error:
        key = argument_of(error) or ""
        place = tuple(key.split(".")) if "." in key else place
        raise refusal(problem_at(place, str(error), whole=True, depends=depends)) from error


def _check_data(recipe: Recipe, source: DataSource) -> None:
    """Check that the data has the domain and supports the augmentation."""
    augment, size, key = recipe.data.augment, recipe.data.image_size, ("data", "augment")
    if source.reads_image_files and size is None:
        text = f"is missing: data {source.name!r} is image files, which have any size"
        raise refusal(problem_at(("data", "image_size"), text, depends=_DATA))
    if augment != "none" and size is None:
        text = f"{augment!r} is for images: give data.image_size too, or augment 'none'"
        raise refusal(problem_at(key, text, depends=("data.image_size",)))
    if augment not in source.augmentations:
        kind = "image files" if source.reads_image_files else "no image files"
        allowed = ", ".join(source.augmentations)
        text = f"must be one of {allowed} for data {source.name!r}, {kind}, got {augment!r}"
        raise refusal(problem_at(key, text, depends=_DATA))
    with _located(("data", "domain"), recipe.data.domain, _DATA), arguments_of("data", ["domain"]):
        source.check_domain(recipe.data.domain)


def _check_backbone(recipe: Recipe) -> None:
    """Check that the backbone accepts the inputs; those of other packages are checked only in training."""
    import torch

    from cophenet.models import create_backbone
    from cophenet.models.trunk import create_neck

    name, options, size = recipe.model.backbone, recipe.model.options, recipe.data.image_size
    made = repr((recipe.model, size))
    if ":" in name or made in _MADE:
        return
    # Channels of images and size of vectors are known only with the data; any value will do here.
    shape = (3, size, size) if size else (8,)
    with (
        _located(("model", "options"), options, ("model.backbone", "data.image_size")),
        arguments_of("model.options", backbone_member(name).options),
        torch.device("meta"),
    ):
        width = create_backbone(name, input_shape=shape, **options).num_features
    if recipe.model.neck is not None:
        neck = recipe.model.neck
        with _located(("model", "neck"), neck), arguments_of("model.neck", neck), torch.device("meta"):
            create_neck(neck, (width,))
    _MADE.add(made)


def _check_frozen(recipe: Recipe) -> None:
    """Check that a frozen backbone has images, and views if these are augmented."""
    model, augment = recipe.model, recipe.data.augment
    if model.frozen and recipe.data.image_size is None:
        text = "is for images: give data.image_size too, or set it to false"
        raise refusal(problem_at(("model", "frozen"), text, depends=("data.image_size",)))
    if model.views and not model.frozen:
        text = f"is for a frozen backbone, which sees each image once: set it to 0, got {model.views}"
        raise refusal(problem_at(("model", "views"), text, depends=("model.frozen",)))
    if model.frozen and bool(model.views) != (augment != "none"):
        text = f"{augment!r} and model.views {model.views} do not go together: a frozen backbone sees "
        text += "as many augmented views as model.views says, so set both or neither"
        raise refusal(problem_at(("data", "augment"), text, depends=("model.frozen", "model.views")))


def _check_batches(recipe: Recipe) -> None:
    sampler = recipe.data.sampler
    if sampler is not None and sampler.batch_size != recipe.batch_size:
        text = (
            f"must be {sampler.batch_size} with data.sampler, its classes_per_batch "
            f"{sampler.classes_per_batch} x samples_per_class {sampler.samples_per_class}, "
            f"got {recipe.batch_size}"
        )
        raise refusal(problem_at(("batch_size",), text, depends=("data.sampler",)))


def _check_one_shot(recipe: Recipe, source: DataSource) -> None:
    if recipe.one_shot is None or not (recipe.data.domain == "full" or source.shares_classes):
        return
    has = "data.domain 'full' has none"
    if source.shares_classes:
        has = f"source and target of data {source.name!r} have the same classes"
    text = f"needs target classes, {has}: set one_shot to null"
    raise refusal(problem_at(("one_shot",), text, depends=("data.domain", "data.name")))


def _check_objectives(recipe: Recipe, tree: Hierarchy | None) -> tuple[Phase, ...]:
    """Check that objectives accept their options, and the chosen one the tree; return its phases."""
    chosen = recipe.objective.name
    for name, options in recipe.objective.options.items():
        place = ("objective", "options", name)
        if options and (name != chosen or tree is None):
            with _located(place, options), arguments_of(".".join(place), options):
                _try_objective(name, options)
    if tree is None:
        return ()
    options = recipe.objective.options.get(chosen, {})
    with _located(("objective", "options", chosen), options, ("objective.name", "tree", *_DATA)):
        return tuple(recipe.create_objective(tree).phases)


def _try_objective(name: str, options: Mapping[str, Any]) -> None:
    """Create an objective on a small tree, without options that name levels of the real tree."""
    from cophenet.objectives.registry import create_objective, objective_class
    from cophenet.transport import create_distance
    from cophenet.tree import Hierarchy

    tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
    cls = objective_class(name)
    if cls is None:
        create_distance(name, tree, **options)
    else:
        create_objective(
            name, tree, **{option: options[option] for option in options if option not in cls.level_options}
        )
