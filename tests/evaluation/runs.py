"""Run folders as training leaves them, made without training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from cophenet._common.files import write_json
from cophenet.recipes import Recipe, load_recipe
from cophenet.runs import Run, load_experiment
from cophenet.runs.checkpoints import write_checkpoint
from cophenet.runs.experiment import build_network
from cophenet.runs.folder import describe_data

TINY = (
    "data.options={branching: [2, 5], dims: 8, samples_per_class: 12, spread: 0.7}",
    "data.domain=source",
    "model.options={hidden: [48]}",
    "evaluation={neighbours: [1, 3, 20], batch_size: 16}",
)
ONE_SHOT = "one_shot={epochs: 20, optimizer: {lr: 0.1, momentum: 0.9}, schedule: {divide_by: 10, every: 15}}"


def make_run(
    path: Path,
    settings: Sequence[str] = (*TINY, ONE_SHOT),
    *,
    recipe: str = "synthetic",
    data_dir: Path | None = None,
    finished: bool = True,
) -> Run:
    """A run whose networks have random weights; a folder for each seed if there are several."""
    made = load_recipe(recipe, None, settings)
    path.mkdir(parents=True)
    (path / "recipe.yaml").write_text(made.to_yaml())
    if len(made.seeds) == 1:
        _fill(path, made, data_dir, finished)
    else:
        write_json(path / "run.json", {"format": 1, "seeds": list(made.seeds)})
        for seed in made.seeds:
            (path / f"seed{seed}").mkdir()
            alone = made.model_copy(update={"seeds": (seed,)})
            (path / f"seed{seed}" / "recipe.yaml").write_text(alone.to_yaml())
            _fill(path / f"seed{seed}", alone, data_dir, finished)
    return Run.open(path)


def _fill(path: Path, recipe: Recipe, data_dir: Path | None, finished: bool) -> None:
    experiment = load_experiment(recipe, data_dir)
    experiment.tree.write(path / "tree.json")
    seed = recipe.seeds[0]
    info = {
        "format": 1,
        "cophenet": "0",
        "seed": seed,
        "data_dir": None if data_dir is None else str(data_dir),
        "threads": 1,
        "versions": {"torch": "2"},
        "input_shape": list(experiment.input_shape),
        "samples": describe_data(experiment),
        "finished": finished,
        "seconds_per_epoch": [0.5 + seed, 1.5 + seed],
    }
    write_json(path / "run.json", info)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_network(recipe, experiment.objective, experiment.input_shape)
    # Four times the weights, so that features tell samples apart although nothing was learned.
    state = {
        f"network.{name}": value * 4 if value.ndim == 2 else value
        for name, value in network.state_dict().items()
    }
    write_checkpoint(path / "checkpoints", 2, {"state_dict": state})
