"""Making run folders, and noticing that their data has changed."""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.files import is_temporary, rank_variables, write_bytes, write_json
from cophenet.runs.data_fingerprint import fingerprint
from cophenet.runs.run import FORMAT, Run
from cophenet.runs.taken import check_unbegun, recipe_of_seed

if TYPE_CHECKING:
    from cophenet.recipes.recipe import Recipe
    from cophenet.runs.experiment import Experiment

__all__ = [
    "Machine",
    "check_same_data",
    "describe_data",
    "move_data",
    "prepare",
    "remove_rests",
    "restore_seeds",
    "wait_for",
]

_PACKAGES = ("cophenet", "torch", "lightning", "numpy", "scipy", "POT", "numba")


@dataclass(frozen=True)
class Machine:
    """What a run is computed on.

    Attributes:
        accelerator: Lightning's name, such as "cpu" or "gpu".
        devices: How many, or which.
        strategy: How they work together, by Lightning's name.
        num_nodes: How many machines.
        threads: Of torch on the CPU; part of the result, because sums depend on it in their last digits.
    """

    accelerator: str = "auto"
    devices: int | str = 1
    strategy: str = "auto"
    num_nodes: int = 1
    threads: int = 1


def prepare(experiment: Experiment, output: Path, data_dir: Path | None, machine: Machine) -> Run:
    """Write the folder of a run, of one seed or of several; the recipe last, which makes it a run.

    Args:
        experiment: What is to be trained.
        output: The folder.
        data_dir: Where the data is.
        machine: What it will be computed on.
    """
    recipe = experiment.recipe
    info: dict[str, Any] = {
        "format": FORMAT,
        "cophenet": version("cophenet"),
        "data_dir": None if data_dir is None else str(data_dir.resolve()),
        "versions": _versions(),
        **asdict(machine),
        "input_shape": list(experiment.input_shape),
        "samples": describe_data(experiment),
    }
    output.mkdir(parents=True, exist_ok=True)
    if len(recipe.seeds) == 1:
        _write(output, recipe, {**info, "seed": recipe.seeds[0]}, experiment)
        return Run.open(output)
    for seed in recipe.seeds:
        _write_seed(output, recipe, seed, info, experiment)
    write_json(output / "run.json", {**info, "seeds": list(recipe.seeds)})
    write_bytes(output / "recipe.yaml", recipe.to_yaml().encode())
    return Run.open(output)


def restore_seeds(run: Run, experiment: Experiment) -> None:
    """Make the folders of seeds anew that were lost from a run of several.

    Raises:
        ValueError: If something else lies there.
    """
    info = {key: value for key, value in run.info.items() if key != "seeds"}
    for seed in run.missing_seeds:
        check_unbegun(recipe_of_seed(run.recipe, seed), run.path / f"seed{seed}")
        _write_seed(run.path, run.recipe, seed, info, experiment)


def move_data(run: Run, data_dir: Path) -> None:
    """Record that the data is in another folder now."""
    folders = [run.path] if run.is_single else [run.path, *(part.path for part in run.parts)]
    for folder in folders:
        info = Run(folder).info
        if info["data_dir"] != str(data_dir.resolve()):
            write_json(folder / "run.json", {**info, "data_dir": str(data_dir.resolve())})


def remove_rests(folder: Path) -> None:
    """Remove temporary files that a killed training left; only while the folder is locked."""
    for place in (folder, folder / "checkpoints", folder / "features"):
        for path in place.glob(".*.tmp"):
            if is_temporary(path.name):
                path.unlink(missing_ok=True)


def wait_for(output: Path, recipe: Recipe, seconds: float = 600.0, told_after: float = 3.0) -> Run:
    """The run that the first process makes, for others which a cluster starts at the same time.

    Args:
        output: Where it will be.
        recipe: Its settings.
        seconds: How long to wait.
        told_after: Seconds after which it is said on stderr what is waited for.

    Raises:
        ValueError: If there is none after the time.
    """
    began = time.monotonic()
    end, told = began + seconds, False
    while True:
        try:
            run = Run.open(output)
            if run.recipe == recipe:
                return run
        except ValueError:  # not there, or not yet whole
            pass
        if time.monotonic() >= end:
            raise ValueError(
                f"the first process has made no run folder at {output} in {seconds:.0f} s "
                f"({rank_variables()} in the environment says that this is another)"
            )
        if not told and time.monotonic() - began >= told_after:
            told = True
            print(
                f"waiting up to {seconds:.0f} s for the first process to make {output}: {rank_variables()} "
                "in the environment says that this is another; unset it to train with this process alone",
                file=sys.stderr,
                flush=True,
            )
        time.sleep(0.05)


def _write_seed(
    output: Path, recipe: Recipe, seed: int, info: dict[str, Any], experiment: Experiment
) -> None:
    folder = output / f"seed{seed}"
    folder.mkdir(exist_ok=True)
    _write(folder, recipe_of_seed(recipe, seed), {**info, "seed": seed}, experiment)


def _write(folder: Path, recipe: Recipe, info: dict[str, Any], experiment: Experiment) -> None:
    write_json(folder / "run.json", {**info, "finished": False, "seconds_per_epoch": []})
    experiment.tree.write(folder / "tree.json")
    write_bytes(folder / "recipe.yaml", recipe.to_yaml().encode())


def describe_data(experiment: Experiment) -> dict[str, Any]:
    """How many samples there are, and checksums of their labels and inputs."""
    described: dict[str, Any] = {}
    for part, samples in (("train", experiment.train), ("test", experiment.test)):
        digest = hashlib.sha256(samples.labels.tobytes()).hexdigest()[:16]
        described[part] = {"count": len(samples), "labels": digest, "inputs": fingerprint(samples)}
    return described


def check_same_data(run: Run, experiment: Experiment) -> None:
    """Refuse to go on with other data than the run began with.

    Raises:
        ValueError: If samples were added, removed, replaced or labelled otherwise, or the tree is another.
    """
    before, now = run.info["samples"], describe_data(experiment)
    # What was not recorded, by an earlier version, is not compared.
    changed = [(part, key) for part in before for key in before[part] if before[part][key] != now[part][key]]
    if not changed and experiment.tree == run.tree:
        return
    told = "another tree"
    if changed:
        part, key = changed[0]
        was, is_now = before[part][key], now[part][key]
        other = {"labels": "other labels", "inputs": "other files or values"}
        told = f"{part} {was} then, {is_now} now" if key == "count" else f"{part} has {other[key]}"
    raise ValueError(
        f"the data is not what run {run.path} began with ({told}): restore it, or begin another run"
    )


def _versions() -> dict[str, str]:
    installed = {dist.name: dist.version for dist in distributions() if dist.name in _PACKAGES}
    return {"python": platform.python_version(), **{name: installed[name] for name in sorted(installed)}}
