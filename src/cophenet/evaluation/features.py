"""Features of a run by domain and part: read from files, or computed from the data by the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from cophenet._common.checks import check_choice
from cophenet._common.files import write_bytes
from cophenet._common.limits import one_line
from cophenet._common.packages import import_optional
from cophenet._common.safe_paths import make_real_folder
from cophenet._common.tensor_files import dump_tensors, read_metadata, read_tensors
from cophenet.metrics.cards import FeatureSet, Missing
from cophenet.runs import load_experiment, load_network
from cophenet.runs.folder import check_same_data
from cophenet.tree import Hierarchy
from cophenet.tree.formats.document import dump_json, parse_json

if TYPE_CHECKING:
    from cophenet.data import Domain, Part, Samples
    from cophenet.models import Network
    from cophenet.runs import Experiment, Run

__all__ = [
    "Device",
    "FeatureStore",
    "ProgressCallback",
    "choose_device",
    "load_features",
    "open_stores",
    "save_features",
]

_KEYS = ("features", "labels", "logits")
Device = Literal["auto", "cpu", "cuda"]
# Called with the name of the part, the number of samples done, and the total.
ProgressCallback = Callable[[str, int, int], None]
Load = Callable[[Path | None], "Experiment"]


def choose_device(name: str) -> torch.device:
    """Return a device by name; "auto" is the GPU if there is one.

    Raises:
        ValueError: If the name is unknown or the device is not available.
    """
    check_choice("device", name, get_args(Device))
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu or auto where there is no GPU, got 'cuda'")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def open_stores(
    run: Run, data_dir: Path | None, device: torch.device, progress: ProgressCallback | None
) -> Sequence[FeatureStore]:
    """Open a store for every seed of a run; together they read the data at most once.

    Args:
        run: The run.
        data_dir: Folder of the data, which is then checked; None for the one it was trained with.
        device: Device of the networks.
        progress: Callback for progress.

    Raises:
        ImportError: If the package that writes features is missing.
        OSError: If the given folder does not contain the data.
        ValueError: If a checkpoint is damaged, or the given folder contains other data.
    """
    import_optional("safetensors.torch", "files of features need", "cophenet[data]")

    # The data does not depend on the seed.
    @cache
    def load(folder: Path | None) -> Experiment:
        return load_experiment(run.recipe, folder, progress=None if progress is not None else False)

    stores = [FeatureStore(part, data_dir, device, progress, load) for part in run.parts]
    if data_dir is not None:
        # With saved features, a wrong folder would otherwise not be detected.
        for store in stores:
            _ = store.experiment
    return stores


class FeatureStore:
    """The features of a run of one seed; data and network are loaded only if a file is missing.

    Args:
        run: The run.
        data_dir: Folder of the data; None for the one it was trained with.
        device: Device of the network.
        progress: Callback for progress.
        load: Reads the data of the run from a folder.

    Attributes:
        samples: Number of samples in each part that was requested, by name such as "source-test".
    """

    def __init__(
        self,
        run: Run,
        data_dir: Path | None,
        device: torch.device,
        progress: ProgressCallback | None,
        load: Load,
    ) -> None:
        self.run = run
        self.device = device
        self.progress = progress
        self.checkpoint = run.checkpoint().stem
        recorded = run.info.get("data_dir")
        self.data_dir = Path(recorded) if data_dir is None and recorded is not None else data_dir
        self.samples: dict[str, int] = {}
        self._load = load

    @cached_property
    def experiment(self) -> Experiment:
        """The data of the run.

        Raises:
            OSError: If it is missing.
            ValueError: If it is invalid, or not the data that the run was trained on.
        """
        experiment = self._load(self.data_dir)
        check_same_data(self.run, experiment)
        return experiment

    @property
    def loaded(self) -> bool:
        """Whether the data was read."""
        return "experiment" in self.__dict__

    @cached_property
    def network(self) -> Network:
        """The trained network."""
        return load_network(self.run, self.device)

    def get(self, domain: Domain, part: Part) -> FeatureSet:
        """Features of a domain and part: read from their file, or computed and saved.

        Raises:
            OSError: If they are not saved and the data is missing.
            ValueError: If the file or the data is invalid.
        """
        saved = self._saved(domain, part)
        return self._make(domain, part, self._samples(domain, part)) if saved is None else saved

    def get_or_missing(self, domain: Domain, part: Part) -> FeatureSet | Missing:
        """Like `get`, but if the data is missing, return the reason."""
        saved = self._saved(domain, part)
        if saved is not None:
            return saved
        try:
            samples = self._samples(domain, part)
        except (FileNotFoundError, NotADirectoryError) as error:
            return Missing(f"the {domain} {part} data is not there: {error}")
        return self._make(domain, part, samples)

    def _kind(self, part: Part) -> str:
        return "validation" if part == "test" and self.run.recipe.data.validation else part

    def _saved(self, domain: Domain, part: Part) -> FeatureSet | None:
        name = f"{domain}-{part}"
        result = load_features(self.run.features_path(name), self.checkpoint, self._kind(part))
        if result is not None:
            self.samples[name] = len(result)
        return result

    def _samples(self, domain: Domain, part: Part) -> Samples:
        experiment = self.experiment
        if domain == experiment.recipe.data.domain:
            return experiment.train if part == "train" else experiment.test
        return experiment.data.samples(part, domain)

    def _make(self, domain: Domain, part: Part, samples: Samples) -> FeatureSet:
        """Compute features and logits of all samples with the trained network, and save them."""
        name = f"{domain}-{part}"
        loader = self.experiment.evaluation_loader(samples, device=self.device)
        head, network = self.experiment.objective.finest, self.network
        rows: list[tuple[Tensor, Tensor, Tensor]] = []
        done = 0
        with torch.inference_mode():
            for inputs, labels in loader:
                features, logits = network(inputs)
                rows.append((features.float().cpu(), labels.cpu(), logits[head].float().cpu()))
                done += len(labels)
                if self.progress is not None:
                    self.progress(f"{self.run.name}: features of {name}", done, len(samples))
        features, labels, logits = (torch.cat(column) for column in zip(*rows, strict=True))
        result = FeatureSet(features, labels, logits, samples.tree)
        save_features(self.run.features_path(name), result, self.checkpoint, domain, self._kind(part))
        self.samples[name] = len(result)
        return result


def save_features(path: Path, samples: FeatureSet, checkpoint: str, domain: str, part: str) -> None:
    """Write features to a safetensors file, atomically.

    Args:
        path: The file; its folder is created if needed.
        samples: The features to write.
        checkpoint: Name of the checkpoint that the network was loaded from, which contains its checksum.
        domain: Domain of the data.
        part: Part of the data: "train", "test" or "validation".
    """
    metadata = {"checkpoint": checkpoint, "domain": domain, "part": part, "tree": dump_json(samples.tree)}
    make_real_folder(path.parent, parents=True)
    write_bytes(path, dump_tensors({key: getattr(samples, key) for key in _KEYS}, metadata))


def load_features(path: Path, checkpoint: str, part: str) -> FeatureSet | None:
    """Read a file of `save_features`; None if it does not exist, or is of another checkpoint or part.

    Raises:
        ValueError: If the file is damaged. Changed bytes are detected by the checksum, which files of
            earlier versions do not have.
    """
    if not path.is_file():
        return None
    try:
        metadata = read_metadata(path)
        if (metadata.get("checkpoint"), metadata.get("part")) != (checkpoint, part):
            return None
        tensors = read_tensors(path)
        features, labels, logits = (tensors[key] for key in _KEYS)
        tree = Hierarchy(parse_json(metadata["tree"]))
        _check_features(features, labels, logits, tree)
        return FeatureSet(features, labels, logits, tree)
    except (MemoryError, FileNotFoundError):
        raise
    except Exception as error:  # damaged files fail in any way
        reason = one_line(error)
        raise ValueError(
            f"{path}: truncated, damaged or not a file of features ({reason}); remove it to have it made anew"
        ) from error


def _check_features(features: Tensor, labels: Tensor, logits: Tensor, tree: Hierarchy) -> None:
    """Raise if the shapes, types or labels of the tensors do not match."""
    if labels.ndim != 1 or labels.dtype != torch.int64:
        raise ValueError(f"labels must be (n,) int64, got {tuple(labels.shape)} {labels.dtype}")
    count = len(labels)
    for name, values in (("features", features), ("logits", logits)):
        if values.ndim != 2 or len(values) != count or not values.is_floating_point():
            raise ValueError(f"{name} must be ({count}, d) numbers, got {tuple(values.shape)}")
    if count and not 0 <= int(labels.min()) <= int(labels.max()) < tree.num_classes:
        raise ValueError(f"labels must be 0 to {tree.num_classes - 1}")
