"""The command about recipes."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from cophenet.cli.options import OptionalScale, Scale, complete_recipes
from cophenet.cli.printing import print_table

__all__ = ["recipes"]


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Recipe by name, or a YAML file.", autocompletion=complete_recipes
        ),
    ] = None,
    scale: OptionalScale = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting.")
    ] = None,
) -> None:
    """List the recipes, or print one with all its settings.

    Example: cophenet recipes cifar100 --scale paper --set optimizer.lr=0.05
    """
    from cophenet.recipes.load import list_recipes, load_recipe

    if name is not None:
        recipe = load_recipe(name, scale, settings or ())
        typer.echo(recipe.to_yaml(), nl=False)
        return
    if settings:
        raise typer.BadParameter("--set needs the NAME of a recipe")
    rows: dict[str, dict[str, str]] = {}
    for line in list_recipes():
        row = rows.setdefault(line.name, {"recipe": line.name})
        row |= {line.scale: f"{line.backbone}, {line.epochs}", "about": line.summary}
    scales = [known for known in get_args(Scale) if scale in (None, known)]
    columns = ("recipe", *scales, "about")
    shown = [row for row in rows.values() if scale is None or scale in row]
    print_table(columns, [[row.get(column, "-") for column in columns] for row in shown])
    typer.echo("\nby scale: backbone and epochs")
