"""Export of a fitted network as an ONNX graph, built node by node and checked before it is saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from cophenet._common.files import replaced_file
from cophenet._common.packages import import_optional
from cophenet.estimator.adapter import VectorNetwork
from cophenet.estimator.ensemble import MEMBERS, SCALE, EnsembleNetwork
from cophenet.estimator.neighbors import NEAREST, SHARPNESS, Neighbors

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["write_onnx"]

# The first opset with Gelu, which the adapter uses.
_OPSET = 20


def write_onnx(estimator: HierarchicalEmbedder, path: str | os.PathLike[str]) -> None:
    """Write "vectors" (n, d) float32 -> "embedding" (n, n_components), "probabilities" (n, C).

    Raises:
        ImportError: If onnx or onnxruntime is missing.
        ValueError: If the estimator was loaded from a run.
        RuntimeError: If the outputs of onnxruntime differ from those of the estimator.
    """
    onnx, runtime = (
        import_optional(package, "ONNX files need", "cophenet[onnx]", called="onnx and onnxruntime")
        for package in ("onnx", "onnxruntime")
    )
    if not isinstance(estimator.network_, VectorNetwork | EnsembleNetwork):
        raise ValueError("only an estimator that was fitted on vectors can be exported, not one from a run")
    with replaced_file(Path(path)) as part:
        part.write_bytes(_model(onnx, estimator).SerializeToString())
        _compare(runtime, part, estimator)


class _Graph:
    """Nodes and constants of a graph; a call adds a node and returns the name of its first output."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, [], []  # type: Any, list[Any], list[Any]

    def __call__(self, kind: str, *inputs: Any, outputs: tuple[str, ...] = (), **options: Any) -> str:
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        outputs = outputs or (f"{kind}_{len(self.nodes)}",)
        self.nodes.append(self.onnx.helper.make_node(kind, names, outputs, **options))
        return outputs[0]

    def _constant(self, values: Any) -> str:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        array = array.astype(np.int64) if array.dtype.kind == "i" else array
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def linear(self, layer: nn.Linear, value: str, outputs: tuple[str, ...] = ()) -> str:
        return self("Gemm", value, *layer.parameters(), outputs=outputs, transB=1)

    def unit(self, value: str, axis: int) -> str:
        norms = self("ReduceL2", value, np.array([axis]), keepdims=1)
        return self("Div", value, self("Max", norms, np.float32(1e-12)))


def _model(onnx: Any, estimator: HierarchicalEmbedder) -> Any:
    make, graph, scale = onnx.helper, _Graph(onnx), estimator.input_scale_
    # In float64, as in the estimator, so that a large offset does not cost precision.
    centered = graph("Sub", graph("Cast", "vectors", to=onnx.TensorProto.DOUBLE), scale.mean)
    inputs = graph("Cast", graph("Div", centered, scale.deviation), to=onnx.TensorProto.FLOAT)
    add = _add_adapter if isinstance(estimator.network_, VectorNetwork) else _add_ensemble
    own = graph("Softmax", add(graph, estimator.network_, inputs), axis=1)
    if estimator.neighbors_ is None:
        graph("Identity", own, outputs=("probabilities",))
    else:
        _add_neighbors(graph, estimator.neighbors_, own, len(estimator.classes_))
    sizes = {"embedding": estimator._n_features_out, "probabilities": len(estimator.classes_)}
    number = onnx.TensorProto.FLOAT
    model_graph = make.make_graph(
        graph.nodes,
        "cophenet",
        [make.make_tensor_value_info("vectors", number, ["n", estimator.n_features_in_])],
        [make.make_tensor_value_info(name, number, ["n", size]) for name, size in sizes.items()],
        graph.constants,
    )
    model = make.make_model(model_graph, opset_imports=[make.make_opsetid("", _OPSET)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def _add_adapter(graph: _Graph, network: VectorNetwork, inputs: str) -> str:
    """Add the embedding; return the name of the logits."""
    adapter = network.adapter
    skipped = graph.linear(adapter.skip, inputs) if isinstance(adapter.skip, nn.Linear) else inputs
    if adapter.down is None or adapter.up is None:
        graph("Identity", skipped, outputs=("embedding",))
    else:
        hidden = graph("Gelu", graph.linear(adapter.down, inputs))
        graph("Add", skipped, graph.linear(adapter.up, hidden), outputs=("embedding",))
    return graph.linear(network.head, "embedding")


def _add_ensemble(graph: _Graph, network: EnsembleNetwork, inputs: str) -> str:
    """Add the embedding; return the name of the logits."""
    value = graph.linear(network.hidden, inputs)
    value = value if network.is_linear else graph("Relu", value)
    units = graph.unit(graph("Reshape", value, np.array([-1, MEMBERS, network.size])), axis=2)
    rows = graph("Reshape", units, np.array([-1, MEMBERS * network.size]))
    projected = graph("MatMul", rows, network.projection.weight.T * MEMBERS**-0.5)
    graph("Add", projected, network.projection.bias, outputs=("embedding",))
    prototypes = network.prototypes.transpose(1, 2).reshape(-1, network.prototypes.shape[1])
    return graph("MatMul", rows, prototypes * (SCALE / MEMBERS))


def _add_neighbors(graph: _Graph, neighbors: Neighbors, own: str, classes: int) -> None:
    cosines = graph("MatMul", graph.unit("embedding", axis=1), neighbors.vectors.T)
    count = np.array([min(NEAREST, len(neighbors.classes))])
    graph("TopK", cosines, count, outputs=("nearest", "places"), axis=1)
    shares = graph("Softmax", graph("Mul", "nearest", np.float32(SHARPNESS)), axis=1)
    labels = graph("Gather", neighbors.classes, "places")
    marks = graph("OneHot", labels, np.int64(classes), np.array([0, 1], dtype=np.float32), axis=1)
    # (n, C, nearest) times (n, nearest, 1), whose last dimension is then removed.
    last = np.array([2])
    votes = graph("Squeeze", graph("MatMul", marks, graph("Unsqueeze", shares, last)), last)
    share = np.float32(neighbors.share)
    graph("Add", graph("Mul", own, 1 - share), graph("Mul", votes, share), outputs=("probabilities",))


def _compare(runtime: Any, path: Path, estimator: HierarchicalEmbedder) -> None:
    """Run the file on random vectors of the training data's scale, and compare with the estimator."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(16, estimator.n_features_in_, generator=generator).double().numpy()
    scale = estimator.input_scale_
    rows = (scale.mean + drawn * scale.deviation).astype(np.float32)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = session.run(["embedding", "probabilities"], {"vectors": rows})
    wanted = estimator._embed(rows), estimator._proba(rows)
    for name, one, other in zip(("embedding", "probabilities"), outputs, wanted, strict=True):
        gap = float(np.abs(one - other).max())
        if not gap <= 1e-3 * max(1.0, float(np.abs(other).max())):
            raise RuntimeError(f"the ONNX file computes another {name} than the estimator, off by {gap}")
