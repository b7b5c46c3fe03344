"""Features of a run by domain and part: from their files, or else from the data through the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import torch

from cophenet._common.checks import check_choice
from cophenet.evaluation.features import (
    FeatureSet,
    extract,
    load_features,
    require_safetensors,
    save_features,
)
from cophenet.runs import load_experiment, load_network
from cophenet.runs.folder import check_same_data

if TYPE_CHECKING:
    from cophenet.data import Domain, Part, Samples
    from cophenet.models import Network
    from cophenet.runs import Experiment, Run

__all__ = ["Device", "FeatureStore", "Progress", "choose_device", "open_stores"]

Device = Literal["auto", "cpu", "cuda"]
# What is read, the samples done, and all of them.
Progress = Callable[[str, int, int], None]
Load = Callable[[Path | None], "Experiment"]


def choose_device(name: str) -> torch.device:
    """A device by name; "auto" is the GPU if there is one.

    Raises:
        ValueError: If the name is unknown or there is no such device.
    """
    check_choice("device", name, get_args(Device))
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu or auto where there is no GPU, got 'cuda'")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def open_stores(
    run: Run, data_dir: Path | None, device: torch.device, progress: Progress | None
) -> Sequence[FeatureStore]:
    """A store for every seed of a run; all read the data at most once.

    Args:
        run: The run.
        data_dir: Folder of the data, which is then checked; None for the one it was trained with.
        device: Where the networks compute.
        progress: Told how far it is.

    Raises:
        ImportError: If the package that writes features is missing.
        OSError: If the folder that is given does not hold the data.
        ValueError: If a checkpoint is damaged, or the folder that is given holds other data.
    """
    require_safetensors()

    # Seeds differ in nothing that the data depends on.
    @cache
    def load(folder: Path | None) -> Experiment:
        return load_experiment(run.recipe, folder)

    stores = [FeatureStore(part, data_dir, device, progress, load) for part in run.parts]
    if data_dir is not None:
        # Saved features would hide that the folder is not the right one.
        for store in stores:
            _ = store.experiment
    return stores


class FeatureStore:
    """The features of a run of one seed; data and network are loaded only if a file is missing.

    Args:
        run: The run.
        data_dir: Folder of the data; None for the one it was trained with.
        device: Where the network computes.
        progress: Told how far it is.
        load: Reads the data of the run in a folder.
    """

    def __init__(
        self,
        run: Run,
        data_dir: Path | None,
        device: torch.device,
        progress: Progress | None,
        load: Load,
    ) -> None:
        self.run = run
        self.device = device
        self.progress = progress
        self.checkpoint = run.checkpoint().stem
        recorded = run.info.get("data_dir")
        self.data_dir = Path(recorded) if data_dir is None and recorded is not None else data_dir
        self._load = load

    @cached_property
    def experiment(self) -> Experiment:
        """The data of the run.

        Raises:
            OSError: If it is not there.
            ValueError: If it is wrong, or not the data that the run was trained on.
        """
        experiment = self._load(self.data_dir)
        check_same_data(self.run, experiment)
        return experiment

    @cached_property
    def network(self) -> Network:
        """The trained network."""
        return load_network(self.run, self.device)

    def get(self, domain: Domain, part: Part) -> FeatureSet:
        """Features of a domain and part, read or made and saved.

        Raises:
            OSError: If they are not saved and the data is not there.
            ValueError: If the file or the data is wrong.
        """
        name = f"{domain}-{part}"
        path = self.run.features_path(name)
        kind = "validation" if part == "test" and self.run.recipe.data.validation else part
        kept = load_features(path, self.checkpoint, kind)
        if kept is None:
            kept = self._make(name, self._samples(domain, part))
            save_features(path, kept, self.checkpoint, domain, kind)
        return kept

    def _samples(self, domain: Domain, part: Part) -> Samples:
        experiment = self.experiment
        if domain == experiment.recipe.data.domain:
            return experiment.train if part == "train" else experiment.test
        return experiment.data.samples(part, domain)

    def _make(self, name: str, samples: Samples) -> FeatureSet:
        loader = self.experiment.evaluation_loader(samples, device=self.device)
        head = self.experiment.objective.finest

        def tell(done: int) -> None:
            if self.progress is not None:
                self.progress(f"{self.run.name}: features of {name}", done, len(samples))

        return extract(self.network, loader, head, samples.tree, tell)
