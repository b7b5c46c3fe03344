"""Save a fitted estimator as a folder: tensors in safetensors, the rest in JSON. Nothing is pickled."""

from __future__ import annotations

import json
import numbers
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet._common.files import old_or_new_folder, parse_json, read_json, replaced_folder
from cophenet._common.limits import one_line, read_text
from cophenet._common.packages import import_optional
from cophenet._common.tensor_files import dump_tensors, read_tensors
from cophenet.estimator.adapter import Adapter, VectorNetwork
from cophenet.estimator.decision_curve import DecisionCurve
from cophenet.estimator.ensemble import EnsembleNetwork
from cophenet.estimator.familiarity import Familiarity
from cophenet.estimator.labels import find_nodes
from cophenet.estimator.neighbors import Neighbors
from cophenet.estimator.samples import Scale
from cophenet.estimator.search import SearchIndex
from cophenet.estimator.training import Fitted
from cophenet.estimator.validation import check_device, check_parameters
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["FORMAT", "check_place", "load", "save"]

FORMAT = 3
# Format 1 had no ensembles, format 2 no neighbors.
_READ = (1, 2, FORMAT)
CONFIG, TENSORS, TREE, GIVEN = "config.json", "model.safetensors", "tree.json", "given_tree.json"

# Largest text length in the dtype of the classes, unless a name is longer.
_LETTERS = 1000

_Estimator = TypeVar("_Estimator", bound="HierarchicalEmbedder")


def save(estimator: HierarchicalEmbedder, path: str | os.PathLike[str]) -> None:
    """Write the folder atomically: it is written beside the target and then moved there.

    The given tree is saved in addition to the tree of the classes, so that a loaded model can be refitted
    like this one.

    Raises:
        ValueError: If the path exists and is not a saved model, or the estimator was loaded from a run.
    """
    if not isinstance(estimator.network_, VectorNetwork | EnsembleNetwork):
        raise ValueError("an estimator made from a run is saved by its run folder already")
    target = check_place(path)
    _require_safetensors()
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced_folder(target) as part:
        (part / TENSORS).write_bytes(dump_tensors(_tensors(estimator)))
        estimator.tree_.write(part / TREE)
        if estimator.given_tree_ is not None:
            estimator.given_tree_.write(part / GIVEN)
        (part / CONFIG).write_text(json.dumps(_config(estimator), indent=2) + "\n", encoding="utf-8")


def check_place(path: str | os.PathLike[str]) -> Path:
    """Raise if a path exists and is not a saved model."""
    target = Path(path)
    if os.path.lexists(target) and not _is_saved_model(target):
        raise ValueError(f"{target} exists and is no saved model; choose another folder")
    return target


def _is_saved_model(folder: Path) -> bool:
    """Whether a folder holds a saved model, of any format, and nothing else."""
    if folder.is_symlink() or not (folder / CONFIG).is_file():
        return False
    if {file.name for file in folder.iterdir()} - {CONFIG, TENSORS, TREE, GIVEN}:
        return False
    try:
        config = read_json(folder / CONFIG)
    except ValueError:
        return False
    return {"format", "cophenet"} <= config.keys()


def load(estimator: _Estimator, path: str | os.PathLike[str], device: str | None = None) -> _Estimator:
    """Load a saved model into an estimator.

    Raises:
        ValueError: If there is no model, it is damaged or of an unknown format, or `device` is invalid.
    """
    folder = old_or_new_folder(Path(path))
    config = _read_config(folder)
    _require_safetensors()
    if device is not None:
        check_device(device)
    try:
        config["params"]["device"] = device or _present(config["params"]["device"])
        tensors = read_tensors(folder / TENSORS)
        tree = Hierarchy.read(folder / TREE)
        given = None if config["inferred"] else Hierarchy.read(folder / GIVEN)
        estimator.set_params(**config["params"], tree=given)
        check_parameters(estimator)
        _fill(estimator, config, tensors, tree)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"{folder}: the saved model is damaged or incomplete: {one_line(error)}") from error
    return estimator


def _present(device: str) -> str:
    """The device that a model was saved with; the CPU, with a warning, if that is not available."""
    try:
        check_device(device)
    except ValueError as error:
        warnings.warn(f"the model is loaded on the cpu: {error}", UserWarning, stacklevel=4)
        return "cpu"
    return device


def _require_safetensors() -> None:
    import_optional("safetensors.torch", "saved models need", "cophenet[embed]")


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise ValueError(f"{folder}: no saved model there: {CONFIG} is missing")
    try:
        config = parse_json(read_text(path))
        version = config["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not the configuration of a saved model: {error}") from error
    if isinstance(version, bool) or version not in _READ:
        newer = isinstance(version, int) and version > FORMAT
        advice = "; it was saved by a newer cophenet: update cophenet to read it" if newer else ""
        raise ValueError(f"{path}: format {version!r:.200}, but this version reads format {FORMAT}{advice}")
    return dict(config)


def _tensors(estimator: HierarchicalEmbedder) -> dict[str, Tensor]:
    scale = estimator.input_scale_
    tensors = {f"network.{name}": value for name, value in estimator.network_.state_dict().items()}
    tensors["scale.mean"] = torch.from_numpy(scale.mean)
    tensors["scale.deviation"] = torch.from_numpy(scale.deviation)
    tensors["calibration.scores"] = torch.from_numpy(estimator.calibration_scores_)
    if estimator.calibration_counts_ is not None:
        tensors["calibration.counts"] = torch.from_numpy(estimator.calibration_counts_)
    if (known := estimator.familiarity_) is not None:
        tensors["familiarity.means"], tensors["familiarity.whiten"] = known.means, known.whiten
        tensors["familiarity.held_out"] = torch.from_numpy(known.held_out)
    if (near := estimator.neighbors_) is not None:
        tensors["neighbors.vectors"], tensors["neighbors.classes"] = near.vectors, near.classes
    if hasattr(estimator, "index_"):
        tensors["index.vectors"] = torch.from_numpy(estimator.index_.vectors)
        tensors["index.nodes"] = torch.from_numpy(estimator.index_.nodes)
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def _config(estimator: HierarchicalEmbedder) -> dict[str, Any]:
    from cophenet import __version__

    params = estimator.get_params(deep=False)
    del params["tree"]  # saved in its own file
    if not isinstance(params["random_state"], numbers.Integral):
        params["random_state"] = None  # a generator cannot be written as JSON
    params["device"] = str(params["device"])
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "cophenet": __version__,
        "params": {name: _plain(value) for name, value in params.items()},
        "inferred": estimator.given_tree_ is None,
        "classes": estimator.classes_.tolist(),
        "classes_dtype": estimator.classes_.dtype.str,
        "feature_names": None if names is None else names.tolist(),
        "backend": estimator.index_.backend if hasattr(estimator, "index_") else None,
        "history": [{key: _finite(value) for key, value in epoch.items()} for epoch in estimator.history_],
        "decision_report": estimator.decision_report_,
        "decision_curve": None if estimator.decision_curve_ is None else estimator.decision_curve_.to_dict(),
        "uncalibrated": estimator.uncalibrated_,
        "neighbors_share": estimator.neighbors_.share if estimator.neighbors_ else None,
    }


def _plain(value: Any) -> Any:
    """Convert numpy scalars to Python numbers, and mappings to dicts."""
    if isinstance(value, np.generic):
        return value.item()
    return {key: _plain(item) for key, item in value.items()} if hasattr(value, "items") else value


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _fill(
    estimator: HierarchicalEmbedder, config: dict[str, Any], tensors: dict[str, Tensor], tree: Hierarchy
) -> None:
    """Set the fitted state; raise if its parts are inconsistent."""
    classes = _classes(config["classes"], np.dtype(config["classes_dtype"]))
    _check_classes(classes, tree, estimator)
    scale = Scale(tensors["scale.mean"].numpy(), tensors["scale.deviation"].numpy())
    shape, names = (len(scale.mean),), config["feature_names"]
    if scale.mean.shape != shape or scale.deviation.shape != shape or not (scale.deviation > 0).all():
        raise ValueError(f"the scale needs means and positive deviations of shape {shape}")
    network = _network(estimator, tensors, len(classes))
    history = [
        {key: np.nan if value is None else value for key, value in epoch.items()}
        for epoch in config["history"]
    ]
    familiarity = _familiarity(scale, tensors, len(classes))
    neighbors = _neighbors(config.get("neighbors_share"), tensors, network, len(classes))
    rare = float(config["uncalibrated"])
    estimator._set_fitted(
        Fitted(classes, tree, estimator.tree, scale, network, history, rare, familiarity, neighbors)
    )
    _fill_calibration(estimator, config, tensors)
    if names is not None:
        if len(names) != shape[0]:
            raise ValueError(f"{len(names)} names of {shape[0]} features")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if config["backend"] is not None:
        estimator.index_ = _index(config["backend"], tensors, tree.num_nodes, network.num_features)


def _network(
    estimator: HierarchicalEmbedder, tensors: dict[str, Tensor], classes: int
) -> EnsembleNetwork | VectorNetwork:
    state = {name[8:]: value for name, value in tensors.items() if name.startswith("network.")}
    inputs, size = len(tensors["scale.mean"]), estimator.hidden_size
    network: EnsembleNetwork | VectorNetwork
    with torch.device("meta"):
        if estimator.objective == "auto":
            outputs = len(state["projection.weight"])
            state.setdefault("projection.bias", torch.zeros(outputs))  # not centred in older files
            network = EnsembleNetwork(inputs, size or inputs, outputs, classes, linear=size == 0)
        else:
            outputs = state["head.weight"].shape[1]
            network = VectorNetwork(Adapter(inputs, size, outputs), nn.Linear(outputs, classes))
    # Before memory is allocated: sizes in the configuration may differ from those of the tensors.
    if (shapes := _shapes(network.state_dict())) != _shapes(state):
        raise ValueError(f"{TENSORS} has tensors {_shapes(state)}, {CONFIG} needs {shapes}")
    network.load_state_dict(state, assign=True)
    return network.float().to(torch.device(estimator.device))


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(values.shape) for name, values in tensors.items()}


def _classes(names: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The classes in their saved dtype; its text length is checked, because every class takes that memory."""
    longest = max((len(name) for name in names if isinstance(name, str)), default=0)
    if dtype.kind in "SUV" and dtype.itemsize > 4 * max(longest, _LETTERS):
        raise ValueError(f"classes_dtype {dtype.str} is text of more than {_LETTERS} letters (limit)")
    classes: NDArray[Any] = np.array(names, dtype=dtype)
    return classes


def _check_classes(classes: NDArray[Any], tree: Hierarchy, estimator: HierarchicalEmbedder) -> None:
    whole, named = (tree, "names") if estimator.tree is None else (estimator.tree, estimator.labels)
    nodes, missing = find_nodes(classes, whole, named)
    names = [whole.names[node] for node in nodes]
    if missing or len(set(names)) < len(names) or tuple(names) != tree.classes:
        raise ValueError(f"{CONFIG} has other classes than {TREE}")


def _fill_calibration(
    estimator: HierarchicalEmbedder, config: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Set the calibration of decisions; models of earlier versions lack parts of it."""
    classes, scores = len(estimator.classes_), tensors["calibration.scores"].numpy()
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError("the scores of calibration must be finite numbers in a row")
    curve = config.get("decision_curve")
    counts = tensors["calibration.counts"].numpy() if "calibration.counts" in tensors else None
    if counts is not None and (counts.shape != (classes,) or counts.dtype.kind != "i" or (counts < 0).any()):
        raise ValueError(f"the counts of calibration must be {classes} whole numbers, at least 0")
    estimator.calibration_scores_, estimator.decision_report_ = scores, config["decision_report"]
    estimator.calibration_counts_ = counts
    estimator.decision_curve_ = None if curve is None else DecisionCurve.from_dict(curve)


def _familiarity(scale: Scale, tensors: dict[str, Tensor], classes: int) -> Familiarity | None:
    if "familiarity.means" not in tensors:
        return None
    means, whiten, held_out = (tensors[f"familiarity.{name}"] for name in ("means", "whiten", "held_out"))
    width = len(scale.mean)
    if means.shape != (classes, width) or whiten.shape not in ((width,), (width, width)):
        shapes = f"{tuple(means.shape)} and {tuple(whiten.shape)}"
        raise ValueError(f"familiarity needs means ({classes}, {width}) and their metric, got {shapes}")
    if held_out.ndim != 1 or not all(values.isfinite().all() for values in (means, whiten, held_out)):
        raise ValueError("familiarity needs finite numbers, and distances in a row")
    if any(values.dtype != torch.float32 for values in (means, whiten)) or (held_out.diff() < 0).any():
        raise ValueError("familiarity needs means and metric in float32, and ascending distances")
    return Familiarity(scale, means, whiten, held_out.numpy())


def _neighbors(
    share: Any, tensors: dict[str, Tensor], network: EnsembleNetwork | VectorNetwork, count: int
) -> Neighbors | None:
    """The training samples that vote in predictions, on the device of the network; None if there are none."""
    if share is None:
        return None
    vectors, classes = tensors["neighbors.vectors"], tensors["neighbors.classes"]
    rows = (len(vectors), network.num_features)
    if vectors.shape != rows or classes.shape != rows[:1] or not rows[0]:
        given = f"{tuple(vectors.shape)} and {tuple(classes.shape)}"
        raise ValueError(f"neighbors need vectors (m, {rows[1]}) and classes (m,), m at least 1, got {given}")
    if vectors.dtype != torch.float32 or not vectors.isfinite().all():
        raise ValueError("neighbors need finite vectors in float32")
    if classes.dtype != torch.int64 or int(classes.min()) < 0 or int(classes.max()) >= count:
        raise ValueError(f"classes of neighbors must be whole numbers from 0 to {count - 1}")
    if not isinstance(share, float) or not 0 < share < 1:
        raise ValueError(f"the share of neighbors must be a number between 0 and 1, got {share!r:.50}")
    device = next(network.parameters()).device
    return Neighbors(vectors.to(device), classes.to(device), share)


def _index(backend: str, tensors: dict[str, Tensor], num_nodes: int, width: int) -> SearchIndex:
    vectors, nodes = tensors["index.vectors"].numpy(), tensors["index.nodes"].numpy()
    rows = len(vectors)
    if vectors.shape != (rows, width) or nodes.shape != (rows,):
        given = f"{vectors.shape} and {nodes.shape}"
        raise ValueError(f"the index needs vectors (n, {width}) and nodes (n,), got {given}")
    if nodes.dtype.kind != "i" or ((nodes < 0) | (nodes >= num_nodes)).any():
        raise ValueError(f"nodes of the index must be those of the tree, from 0 to {num_nodes - 1}")
    return SearchIndex(vectors, nodes, backend, unit=True)
