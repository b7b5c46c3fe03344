"""What a study trains: the user's data as a recipe, objectives to try, and the runs of each stage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cophenet._common.checks import nearest_hint
from cophenet._common.shell import command
from cophenet.paper.plan import VariantRuns
from cophenet.paper.variants import Variant
from cophenet.recipes import Recipe, load_recipe, recipe_names
from cophenet.recipes.load import Override

if TYPE_CHECKING:
    from cophenet.recipes.recipe import Scale

__all__ = [
    "CANDIDATES",
    "FLAT",
    "Candidate",
    "Stage",
    "StudyData",
    "find_data",
    "stage_runs",
    "train_command",
]

# "choose" compares objectives on held-out training samples, "final" evaluates on the test part, "transfer" on
# classes that were not trained on.
Stage = Literal["choose", "final", "transfer"]
_VALIDATION = 0.2
_TREES = ("tree.yaml", "tree.yml", "tree.json", "tree.csv", "tree.tsv", "tree.nwk")


@dataclass(frozen=True)
class Candidate:
    """An objective with some settings, such as its weight.

    Attributes:
        name: Name of its runs.
        objective: Name of the objective.
        overrides: Changed settings, in the form of `--set`.
        control: Whether the tree is shuffled.
    """

    name: str
    objective: str
    overrides: tuple[str, ...] = ()
    control: bool = False

    @property
    def label(self) -> str:
        """Objective and settings in words."""
        return f"{self.objective} with {', '.join(self.overrides)}" if self.overrides else self.objective

    def shuffled(self) -> Candidate:
        """The same candidate with classes at random places of the tree."""
        return Candidate(
            f"{self.name}-shuffled", self.objective, (*self.overrides, "tree.shuffle_seed=0"), control=True
        )


FLAT = Candidate("flat", "flat")
CANDIDATES = (
    Candidate("mtl", "mtl"),
    Candidate("fastft-0.3", "fastft", ("objective.cpcc.weight=0.3",)),
    Candidate("fastft-1", "fastft", ("objective.cpcc.weight=1.0",)),
    Candidate("cosine", "cosine"),
)


@dataclass(frozen=True)
class StudyData:
    """The user's data as a recipe.

    Attributes:
        name: Name of the data.
        recipe: Name of the recipe.
        scale: Its scale; None for "laptop".
        overrides: Settings that name the files.
        data_dir: Folder of the data.
    """

    name: str
    recipe: str
    scale: Scale | None = None
    overrides: tuple[Override, ...] = ()
    data_dir: Path | None = None

    def load(self, more: Sequence[str | Override] = ()) -> Recipe:
        """Load the recipe with further settings."""
        return load_recipe(self.recipe, self.scale, [*self.overrides, *more])

    def with_tree(self, path: Path) -> StudyData:
        """The same data with the tree of a file."""
        kept = tuple(one for one in self.overrides if one.keys != ("data", "options", "tree_file"))
        return replace(self, overrides=(*kept, _option("tree_file", path)))


def find_data(
    data: str | Path,
    *,
    tree: Path | None = None,
    test: Path | None = None,
    data_dir: Path | None = None,
    overrides: Sequence[Override] = (),
) -> StudyData:
    """Find the user's data by name or path.

    Args:
        data: A folder of images, a file of vectors with labels, or the name of a recipe.
        tree: File of the tree; None for the tree of the folders, or a file tree.yaml (or .json, .csv, ...)
            beside the vectors.
        test: File of the test vectors; None to split off a share of every class.
        data_dir: Folder of the data of a recipe.
        overrides: Further settings.

    Raises:
        ValueError: If there is no such data, or an option does not apply to it.

    Example:
        >>> find_data("digits").recipe
        'digits'
        >>> find_data("digits", tree=Path("tree.yaml"))
        Traceback (most recent call last):
        ValueError: --tree is for folders of images and files of vectors, digits has a tree of its own
        >>> find_data("digit")
        Traceback (most recent call last):
        ValueError: DATA must be a folder of images, ... got 'digit'; did you mean 'digits'?
    """
    path, more = Path(data), tuple(overrides)
    for option, file in (("--tree", tree), ("--test", test)):
        if file is not None and not file.is_file() and path.exists():
            raise ValueError(f"{option} must be a file that exists, got {str(file)!r}")
    if str(data) in recipe_names() and not path.is_file():
        for option, file in (("--tree", tree), ("--test", test)):
            if file is not None:
                why = f"{data} has a {option[2:]} of its own"
                raise ValueError(f"{option} is for folders of images and files of vectors, {why}")
        return StudyData(str(data), str(data), None, more, data_dir)
    if path.is_dir():
        if test is not None:
            raise ValueError("--test is for files of vectors; a folder of images has train and test inside")
        named = [] if tree is None else [_option("tree_file", tree)]
        return StudyData(path.resolve().name, "folder", None, (*named, *more), path)
    if path.is_file():
        own = tree or next((file for name in _TREES if (file := path.with_name(name)).is_file()), None)
        files = {"train": path, "test": test, "tree_file": own}
        named = [_option(name, file) for name, file in files.items()]
        return StudyData(path.stem, "vectors", None, (*named, *more), path.parent)
    kinds = f"a folder of images, a file of vectors, or one of {', '.join(recipe_names())}"
    raise ValueError(f"DATA must be {kinds}, got {str(data)!r}{nearest_hint(str(data), recipe_names())}")


def _option(name: str, path: Path | None) -> Override:
    value = None if path is None else str(path.resolve())
    # In quotes: `--set` reads YAML, where " #" in a path would begin a comment.
    text = f"data.options.{name}={json.dumps(value, ensure_ascii=False)}"
    return Override(("data", "options", name), value, text)


def stage_runs(
    data: StudyData, stage: Stage, tried: Sequence[Candidate], seeds: Sequence[int]
) -> list[VariantRuns]:
    """The runs of a stage, for the queue.

    Args:
        data: The data.
        stage: The stage; names of runs begin with it, except for "final".
        tried: The candidates to train.
        seeds: The seeds of each.
    """
    more: list[str | Override] = []
    if stage == "choose":
        more.append(f"data.validation={_VALIDATION}")
    elif stage == "transfer":
        more.append("data.domain=source")
        if data.load().one_shot is None:
            more.append("one_shot={epochs: 50, optimizer: {name: sgd, lr: 0.1, momentum: 0.9}}")
    runs = []
    for one in tried:
        recipe = data.load([*more, f"objective.name={one.objective}", *one.overrides, "seeds=[0]"])
        name = one.name if stage == "final" else f"{stage}-{one.name}"
        variant = Variant(one.objective, overrides=one.overrides, control=one.control)
        runs.append(VariantRuns(data.recipe, variant, recipe, name, tuple(seeds)))
    return runs


def train_command(data: StudyData, chosen: Candidate) -> str:
    """The command that trains the chosen candidate."""
    words: list[str | Path] = ["train", data.recipe, "--objective", chosen.objective]
    if data.data_dir is not None:
        words += ["--data-dir", data.data_dir]
    if data.scale not in (None, "laptop"):
        words += ["--scale", str(data.scale)]
    for text in (*(one.text for one in data.overrides), *chosen.overrides):
        words += ["--set", text]
    return command(*words, "-o", Path("runs", f"{data.name}-{chosen.name}"))
