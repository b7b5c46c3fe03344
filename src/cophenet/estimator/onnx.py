"""The fitted network as an ONNX graph, written node by node and compared before it takes its place."""

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

# The first one with Gelu, which the adapter has.
_OPSET = 20


def write_onnx(estimator: HierarchicalEmbedder, path: str | os.PathLike[str]) -> None:
    """Write "vectors" (n, d) float32 -> "embedding" (n, n_components), "probabilities" (n, C).

    Raises:
        ImportError: If onnx or onnxruntime is missing.
        ValueError: If the estimator was made from a run.
        RuntimeError: If onnxruntime computes something else than the estimator.
    """
    onnx, runtime = _packages()
    if not isinstance(estimator.network_, VectorNetwork | EnsembleNetwork):
        raise ValueError("only an estimator that was fitted on vectors can be exported, not one from a run")
    with replaced_file(Path(path)) as part:
        part.write_bytes(_model(onnx, estimator).SerializeToString())
        _compare(runtime, part, estimator)


def _packages() -> tuple[Any, Any]:
    both = "onnx and onnxruntime"
    onnx, runtime = (
        import_optional(package, "ONNX files need", "cophenet[onnx]", called=both)
        for package in ("onnx", "onnxruntime")
    )
    return onnx, runtime


class _Graph:
    """Nodes and constants of a graph; a method adds a node and returns the name of its output."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, [], []  # type: Any, list[Any], list[Any]

    def constant(self, name: str, values: Any) -> str:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def step(self, kind: str, inputs: list[str], output: str, **options: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **options))
        return output

    def linear(self, layer: nn.Linear, value: str, name: str, output: str) -> str:
        weights = [self.constant(f"{name}.{key}", item) for key, item in layer.named_parameters()]
        return self.step("Gemm", [value, *weights], output, transB=1)


def _model(onnx: Any, estimator: HierarchicalEmbedder) -> Any:
    make, graph, scale = onnx.helper, _Graph(onnx), estimator.input_scale_
    # In float64, as the estimator does it, so that a large offset costs no digits.
    exact = graph.step("Cast", ["vectors"], "exact", to=onnx.TensorProto.DOUBLE)
    centered = graph.step("Sub", [exact, graph.constant("mean", scale.mean)], "centered")
    scaled = graph.step("Div", [centered, graph.constant("deviation", scale.deviation)], "scaled")
    graph.step("Cast", [scaled], "inputs", to=onnx.TensorProto.FLOAT)
    add = _add_adapter if isinstance(estimator.network_, VectorNetwork) else _add_ensemble
    add(graph, estimator.network_)
    if estimator.neighbors_ is None:
        graph.step("Identity", ["own"], "probabilities")
    else:
        _add_neighbors(graph, estimator.neighbors_, len(estimator.classes_))
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


def _add_adapter(graph: _Graph, network: VectorNetwork) -> None:
    adapter, inputs = network.adapter, "inputs"
    if adapter.down is None or adapter.up is None:
        graph.linear(adapter.skip, inputs, "skip", "embedding")  # type: ignore[arg-type]
    else:
        straight = isinstance(adapter.skip, nn.Linear)
        skipped = graph.linear(adapter.skip, inputs, "skip", "skipped") if straight else inputs  # type: ignore[arg-type]
        hidden = graph.step("Gelu", [graph.linear(adapter.down, inputs, "down", "low")], "hidden")
        graph.step("Add", [skipped, graph.linear(adapter.up, hidden, "up", "high")], "embedding")
    logits = graph.linear(network.head, "embedding", "head", "logits")
    graph.step("Softmax", [logits], "own", axis=1)


def _add_ensemble(graph: _Graph, network: EnsembleNetwork) -> None:
    value = graph.linear(network.hidden, "inputs", "hidden", "low")
    value = value if network.is_linear else graph.step("Relu", [value], "high")
    members = graph.constant("members", np.array([-1, MEMBERS, network.size], dtype=np.int64))
    value = graph.step("Reshape", [value, members], "split")
    last = graph.constant("last", np.array([2], dtype=np.int64))
    norms = graph.step("ReduceL2", [value, last], "norms", keepdims=1)
    smallest = graph.constant("smallest", np.float32(1e-12))
    value = graph.step("Div", [value, graph.step("Max", [norms, smallest], "bounded")], "units")
    row = graph.constant("row", np.array([-1, MEMBERS * network.size], dtype=np.int64))
    projection = graph.constant("projection", network.projection.weight.T * MEMBERS**-0.5)
    value = graph.step("MatMul", [graph.step("Reshape", [value, row], "rows"), projection], "projected")
    graph.step("Add", [value, graph.constant("offset", network.projection.bias)], "embedding")
    prototypes = network.prototypes.transpose(1, 2).reshape(-1, network.prototypes.shape[1])
    weights = graph.constant("prototypes", prototypes * (SCALE / MEMBERS))
    logits = graph.step("MatMul", ["rows", weights], "logits")
    graph.step("Softmax", [logits], "own", axis=1)


def _add_neighbors(graph: _Graph, neighbors: Neighbors, classes: int) -> None:
    axis = graph.constant("row_axis", np.array([1], dtype=np.int64))
    norms = graph.step("ReduceL2", ["embedding", axis], "length", keepdims=1)
    least = graph.constant("least", np.float32(1e-12))
    units = graph.step("Div", ["embedding", graph.step("Max", [norms, least], "lengths")], "unit_rows")
    near = graph.step("MatMul", [units, graph.constant("neighbors", neighbors.vectors.T)], "cosines")
    count = graph.constant("count", np.array([min(NEAREST, len(neighbors.classes))], dtype=np.int64))
    graph.nodes.append(graph.onnx.helper.make_node("TopK", [near, count], ["nearest", "places"], axis=1))
    sharp = graph.step("Mul", ["nearest", graph.constant("sharpness", np.float32(SHARPNESS))], "sharp")
    shares = graph.step("Softmax", [sharp], "shares", axis=1)
    labels = graph.step("Gather", [graph.constant("labels", neighbors.classes), "places"], "near_labels")
    values = graph.constant("values", np.array([0, 1], dtype=np.float32))
    marks = graph.step(
        "OneHot", [labels, graph.constant("classes", np.int64(classes)), values], "marks", axis=1
    )
    # (n, C, nearest) times (n, nearest, 1), which loses its last place.
    last = graph.constant("column", np.array([2], dtype=np.int64))
    column = graph.step("Unsqueeze", [shares, last], "share_column")
    votes = graph.step("Squeeze", [graph.step("MatMul", [marks, column], "vote_column"), last], "votes")
    share = np.float32(neighbors.share)
    voted = graph.step("Mul", [votes, graph.constant("share", share)], "voted")
    kept = graph.step("Mul", ["own", graph.constant("rest", 1 - share)], "kept")
    graph.step("Add", [kept, voted], "probabilities")


def _compare(runtime: Any, path: Path, estimator: HierarchicalEmbedder) -> None:
    """Run the file on vectors like those of training, and compare with the estimator."""
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
