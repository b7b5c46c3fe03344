"""Run folders on disk: check that a folder is free, create, restore and lock it, and detect changed data."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.files import read_json, write_json, write_text
from cophenet._common.locks import locked
from cophenet._common.processes import rank_variables
from cophenet._common.safe_paths import check_file_place, check_real_folder, is_temporary, make_real_folder
from cophenet._common.shell import command
from cophenet.recipes.load import flatten
from cophenet.runs.checkpoints import list_checkpoints
from cophenet.runs.run import FORMAT, Run

if TYPE_CHECKING:
    from cophenet.recipes import Recipe
    from cophenet.runs.experiment import Experiment

__all__ = [
    "Machine",
    "check_free",
    "check_same_data",
    "check_wandb_settings",
    "describe_data",
    "lock_run_folder",
    "make_run_folder",
    "recipe_of_seed",
    "record_data_dir",
    "restore_seed_folders",
    "wait_for_run",
]

# wandb writes into .wandb if it exists.
_FOLDERS = ("checkpoints", "features", "tensorboard", "wandb", ".wandb")
_PACKAGES = ("cophenet", "torch", "lightning", "numpy", "scipy", "POT", "numba")


@dataclass(frozen=True)
class Machine:
    """The hardware settings of a run.

    Attributes:
        accelerator: Lightning's name of the accelerator, such as "cpu" or "gpu".
        devices: Number of devices, or which ones.
        strategy: Lightning's name of the strategy.
        num_nodes: Number of machines.
        threads: Number of torch's CPU threads; recorded because it changes the last digits of sums.
    """

    accelerator: str = "auto"
    devices: int | str = 1
    strategy: str = "auto"
    num_nodes: int = 1
    threads: int = 1


def check_free(recipe: Recipe, output: Path, data_dir: Path | None = None) -> None:
    """Raise if a new run would overwrite something.

    A run of the same recipe and data folder that has no checkpoint yet may be started again.

    Args:
        recipe: All settings.
        output: The folder.
        data_dir: Folder of the data.

    Raises:
        ValueError: If the folder holds a run or other files; the message says what to do.
    """
    if not output.exists():
        return
    if not output.is_dir():
        raise ValueError(f"output {output} is a file, a folder is needed: give another with -o")
    if (output / "recipe.yaml").is_file():
        _check_run(recipe, output, data_dir)
        return
    seeds = recipe.seeds if len(recipe.seeds) > 1 else ()
    parts = {f"seed{seed}": seed for seed in seeds}
    _check_entries(output, {path.name for path in output.iterdir()} - set(parts))
    for name, seed in parts.items():
        _check_seed_free(recipe_of_seed(recipe, seed), output / name)


def _check_seed_free(recipe: Recipe, folder: Path) -> None:
    """Raise if the folder of one seed holds a started training or other files.

    Raises:
        ValueError: If it does; the message says what to do.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file where a folder is needed: give another folder with -o")
    _check_entries(folder, {path.name for path in folder.iterdir()} - {"recipe.yaml"})
    if (folder / "recipe.yaml").is_file():
        _check_equal(recipe, Run.open(folder))


def recipe_of_seed(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe with a single seed."""
    return recipe.model_copy(update={"seeds": (seed,)})


def _check_run(recipe: Recipe, output: Path, data_dir: Path | None) -> None:
    run = Run.open(output)
    _check_equal(recipe, run)
    _check_place_of_data(run, data_dir)
    for seed in run.missing_seeds:
        _check_seed_free(recipe_of_seed(recipe, seed), output / f"seed{seed}")
    expected = [run] if run.is_single else [Run(output / f"seed{seed}") for seed in recipe.seeds]
    parts = [part for part in expected if (part.path / "recipe.yaml").is_file()]
    for part in parts:
        _check_equal(recipe_of_seed(recipe, part.seed), part)
    ended = [bool(part.info.get("finished")) for part in parts]
    if all(ended) and len(parts) == len(expected):
        raise ValueError(
            f"output {output} holds this run already, finished: evaluate it, or give another folder with -o"
        )
    if any(ended) or any(list_checkpoints(part.path / "checkpoints") for part in parts):
        raise ValueError(
            f"output {output} holds this run, unfinished: continue it with "
            f"{command('train', '--resume', output)}, or give another folder with -o"
        )


def _check_equal(recipe: Recipe, run: Run) -> None:
    if run.recipe != recipe:
        raise ValueError(
            f"output {run.path} holds a run with other settings ({_difference(run.recipe, recipe)}): "
            "give another folder with -o, or remove it"
        )


def _check_place_of_data(run: Run, data_dir: Path | None) -> None:
    """Raise if the run used another data folder: the settings do not show whether the data is the same."""
    now, before = None if data_dir is None else str(data_dir.resolve()), run.info["data_dir"]
    if before != now:
        places = f"in {before or 'no folder'}, not in {now or 'none'}"
        moved = command("train", "--resume", run.path, *(() if now is None else ("--data-dir", now)))
        raise ValueError(
            f"output {run.path} holds a run on other data ({places}): give another folder with -o; "
            f"if the data has moved, continue with {moved}"
        )


def _check_entries(folder: Path, names: set[str]) -> None:
    """Raise if there are files other than those of a run interrupted while its folder was created."""
    first = {"lock"}
    if _is_new(folder / "run.json"):
        first |= {"run.json", "tree.json"}  # written in this order
    others = sorted(name for name in names - first if not is_temporary(name))
    if others:
        raise ValueError(f"output {folder} holds other files ({others[0]}): give another folder with -o")


def _is_new(path: Path) -> bool:
    """Return whether a file is the run.json of an unfinished run."""
    try:
        info = read_json(path)
    except (OSError, ValueError):
        return False
    return info.get("format") == FORMAT and not info.get("finished")


def _difference(old: Recipe, new: Recipe) -> str:
    """Describe the first setting that differs."""
    before, after = flatten(old.model_dump()), flatten(new.model_dump())
    key = next(key for key in [*after, *before] if before.get(key) != after.get(key))
    return f"{key} is {before.get(key)!r} there and {after.get(key)!r} here"


def make_run_folder(experiment: Experiment, output: Path, data_dir: Path | None, machine: Machine) -> None:
    """Create a run folder for one seed or several; the recipe is written last and marks it as complete.

    Args:
        experiment: Data and settings.
        output: The folder.
        data_dir: Folder of the data.
        machine: The hardware settings.
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
        return
    for seed in recipe.seeds:
        _write_seed(output, recipe, seed, info, experiment)
    write_json(output / "run.json", {**info, "seeds": list(recipe.seeds)})
    write_text(output / "recipe.yaml", recipe.to_yaml())


def restore_seed_folders(run: Run, experiment: Experiment) -> None:
    """Create the missing seed folders of a run of several seeds.

    Raises:
        ValueError: If other files are in their place.
    """
    info = {key: value for key, value in run.info.items() if key != "seeds"}
    for seed in run.missing_seeds:
        _check_seed_free(recipe_of_seed(run.recipe, seed), run.path / f"seed{seed}")
        _write_seed(run.path, run.recipe, seed, info, experiment)


def record_data_dir(run: Run, data_dir: Path) -> None:
    """Record the current folder of the data."""
    folders = [run.path] if run.is_single else [run.path, *(part.path for part in run.parts)]
    for folder in folders:
        info = Run(folder).info
        if info["data_dir"] != str(data_dir.resolve()):
            write_json(folder / "run.json", {**info, "data_dir": str(data_dir.resolve())})


@contextmanager
def lock_run_folder(folder: Path) -> Iterator[None]:
    """Lock a run folder for this process and thread; remove temporary files of a killed training.

    Raises:
        InUseError: If another process or thread trains there.
        ValueError: If lock, log or a subfolder is a link: nothing outside the folder is written or removed.
    """
    with locked(folder, what="run folder"):
        for name in _FOLDERS:
            check_real_folder(folder / name)
        # Lightning writes into the tensorboard folder and would follow links there.
        for path in (folder / "log.txt", *(folder / "tensorboard").glob("*")):
            check_file_place(path)
        for place in (folder, folder / "checkpoints", folder / "features"):
            for path in place.glob(".*.tmp"):
                if is_temporary(path.name):
                    path.unlink(missing_ok=True)
        yield


def check_wandb_settings(folder: Path) -> None:
    """Raise if a run folder holds wandb settings: they may send the user's API key to another server.

    Raises:
        ValueError: If there is a settings file.

    Example:
        >>> check_wandb_settings(Path("runs/mine"))
    """
    for name in ("wandb", ".wandb"):
        path = folder / name / "settings"
        if os.path.lexists(path):
            advice = "remove it, or log without wandb"
            raise ValueError(f"{path} would decide where wandb sends your account and data: {advice}")


def wait_for_run(output: Path, recipe: Recipe, seconds: float = 600.0, notice_after: float = 3.0) -> Run:
    """Wait for the run folder created by the first process, in the other processes of a distributed run.

    Args:
        output: Folder of the run.
        recipe: Settings of the run.
        seconds: How long to wait.
        notice_after: Seconds after which a line on stderr explains the wait.

    Raises:
        ValueError: If there is no run after this time; at once if the folder is occupied, so that the first
            process will not create it.
    """
    began = time.monotonic()
    end, noticed, refused = began + seconds, False, False
    while True:
        try:
            run = Run.open(output, trust=recipe.untrusted is None)
        except ValueError:  # missing, or not yet complete
            refused = _is_refused(recipe, output, again=refused)
        else:
            _check_equal(recipe, run)
            return run
        if time.monotonic() >= end:
            raise ValueError(
                f"the first process has made no run folder at {output} in {seconds:.0f} s "
                f"({rank_variables()} in the environment says that this is another)"
            )
        if not noticed and time.monotonic() - began >= notice_after:
            noticed = True
            print(
                f"waiting up to {seconds:.0f} s for the first process to make {output}: {rank_variables()} "
                "in the environment says that this is another; unset it to train with this process alone",
                file=sys.stderr,
                flush=True,
            )
        time.sleep(0.05)


def _is_refused(recipe: Recipe, output: Path, again: bool) -> bool:
    """Return whether the folder is occupied; raise at the second time: at first it may be half written."""
    try:
        check_free(recipe, output)
    except ValueError:
        if again:
            raise
        return True
    return False


def _write_seed(
    output: Path, recipe: Recipe, seed: int, info: dict[str, Any], experiment: Experiment
) -> None:
    folder = make_real_folder(output / f"seed{seed}")
    _write(folder, recipe_of_seed(recipe, seed), {**info, "seed": seed}, experiment)


def _write(folder: Path, recipe: Recipe, info: dict[str, Any], experiment: Experiment) -> None:
    write_json(folder / "run.json", {**info, "finished": False, "seconds_per_epoch": []})
    experiment.tree.write(folder / "tree.json")
    write_text(folder / "recipe.yaml", recipe.to_yaml())


def describe_data(experiment: Experiment) -> dict[str, Any]:
    """Return sample counts, and checksums of labels and inputs, for the training and test part."""
    described: dict[str, Any] = {}
    for part, samples in (("train", experiment.train), ("test", experiment.test)):
        digest = hashlib.sha256(samples.labels.tobytes()).hexdigest()[:16]
        described[part] = {"count": len(samples), "labels": digest, "inputs": samples.fingerprint()}
    return described


def check_same_data(run: Run, experiment: Experiment) -> None:
    """Raise if the data differs from the data at the start of the run.

    Raises:
        ValueError: If samples were added, removed, replaced or relabelled, or the tree differs.
    """
    before, now = run.info["samples"], describe_data(experiment)
    # Values that an earlier version did not record are not compared.
    changed = [(part, key) for part in before for key in before[part] if before[part][key] != now[part][key]]
    if not changed and experiment.tree == run.tree:
        return
    change = "another tree"
    if changed:
        part, key = changed[0]
        was, is_now = before[part][key], now[part][key]
        other = {"labels": "other labels", "inputs": "other files or values"}
        change = f"{part} {was} then, {is_now} now" if key == "count" else f"{part} has {other[key]}"
    raise ValueError(
        f"the data is not what run {run.path} began with ({change}): restore it, or begin another run"
    )


@cache
def _versions() -> dict[str, str]:
    installed = {dist.name: dist.version for dist in distributions() if dist.name in _PACKAGES}
    return {"python": platform.python_version(), **{name: installed[name] for name in sorted(installed)}}
