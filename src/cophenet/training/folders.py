"""Making run folders, and never writing over one."""

from __future__ import annotations

import hashlib
import platform
import time
from dataclasses import asdict, dataclass
from importlib.metadata import distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet.training.checkpoints import list_checkpoints
from cophenet.training.files import write_bytes, write_json
from cophenet.training.run import FORMAT, Run

if TYPE_CHECKING:
    from cophenet.training.experiment import Experiment
    from cophenet.training.recipe import Recipe

__all__ = ["Machine", "check_free", "check_same_data", "describe_data", "prepare", "wait_for"]

_PACKAGES = ("cophenet", "torch", "lightning", "numpy", "scipy", "POT", "numba")
# What a run has written before it counts as one.
_FIRST_FILES = {"lock", "run.json", "tree.json"}


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


def check_free(recipe: Recipe, output: Path) -> None:
    """Refuse to write over something.

    A run of the same recipe that has no checkpoint yet has nothing to lose, and may begin again.

    Raises:
        ValueError: If the folder holds a run, or anything else; says what to do.
    """
    if not output.exists():
        return
    if not output.is_dir():
        raise ValueError(f"output {output} is a file, a folder is needed: give another with -o")
    if not (output / "recipe.yaml").is_file():
        others = sorted(path.name for path in output.iterdir() if not _is_first(path, recipe))
        if others:
            raise ValueError(f"output {output} holds other files ({others[0]}): give another folder with -o")
        return
    run = Run.open(output)
    if run.recipe != recipe:
        raise ValueError(
            f"output {output} holds a run with other settings ({_difference(run.recipe, recipe)}): "
            "give another folder with -o, or remove it"
        )
    if run.finished:
        raise ValueError(
            f"output {output} holds this run already, finished: evaluate it, or give another folder with -o"
        )
    if any(list_checkpoints(part.path / "checkpoints") for part in run.parts):
        raise ValueError(
            f"output {output} holds this run, unfinished: continue it with cophenet train --resume {output}, "
            "or give another folder with -o"
        )


def _is_first(path: Path, recipe: Recipe) -> bool:
    seeds = {f"seed{seed}" for seed in recipe.seeds}
    return path.name in _FIRST_FILES or path.name.endswith(".tmp") or path.name in seeds


def _difference(old: Recipe, new: Recipe) -> str:
    """The first setting that is another."""
    before, after = _flat(old.model_dump()), _flat(new.model_dump())
    key = next(key for key in [*after, *before] if before.get(key) != after.get(key))
    return f"{key} is {before.get(key)!r} there and {after.get(key)!r} here"


def _flat(settings: dict[Any, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        inner = (
            _flat(value, f"{above}{key}.") if isinstance(value, dict) and value else {f"{above}{key}": value}
        )
        flat.update(inner)
    return flat


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
        one = recipe.model_copy(update={"seeds": (seed,)})
        folder = output / f"seed{seed}"
        folder.mkdir(exist_ok=True)
        _write(folder, one, {**info, "seed": seed}, experiment)
    write_json(output / "run.json", {**info, "seeds": list(recipe.seeds)})
    write_bytes(output / "recipe.yaml", recipe.to_yaml().encode())
    return Run.open(output)


def wait_for(output: Path, recipe: Recipe, seconds: float = 600.0) -> Run:
    """The run that the first process makes, for others which a cluster starts at the same time.

    Raises:
        ValueError: If there is none after the time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            run = Run.open(output)
            if run.recipe == recipe:
                return run
        except ValueError:  # not there, or not yet whole
            pass
        if time.monotonic() >= end:
            raise ValueError(f"the first process has made no run folder at {output} in {seconds:.0f} s")
        time.sleep(0.05)


def _write(folder: Path, recipe: Recipe, info: dict[str, Any], experiment: Experiment) -> None:
    write_json(folder / "run.json", {**info, "finished": False, "seconds_per_epoch": []})
    experiment.tree.write(folder / "tree.json")
    write_bytes(folder / "recipe.yaml", recipe.to_yaml().encode())


def describe_data(experiment: Experiment) -> dict[str, Any]:
    """How many samples there are, and a checksum of their labels."""
    described: dict[str, Any] = {}
    for part, samples in (("train", experiment.train), ("test", experiment.test)):
        digest = hashlib.sha256(samples.labels.tobytes()).hexdigest()[:16]
        described[part] = {"count": len(samples), "labels": digest}
    return described


def check_same_data(run: Run, experiment: Experiment) -> None:
    """Refuse to go on with other data than the run began with.

    Raises:
        ValueError: If samples were added, removed or labelled otherwise.
    """
    before, now = run.info["samples"], describe_data(experiment)
    if before == now and experiment.tree == run.tree:
        return
    counts = ", ".join(f"{part} {before[part]['count']} then, {now[part]['count']} now" for part in now)
    raise ValueError(
        f"the data is not what run {run.path} began with ({counts}): restore it, or begin another run"
    )


def _versions() -> dict[str, str]:
    installed = {dist.name: dist.version for dist in distributions() if dist.name in _PACKAGES}
    return {"python": platform.python_version(), **{name: installed[name] for name in sorted(installed)}}
