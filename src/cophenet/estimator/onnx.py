"""The fitted network as an ONNX graph, written node by node and compared before it takes its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cophenet._common.files import replaced_file
from cophenet._common.packages import import_optional
from cophenet.estimator.network import VectorNetwork

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
    if not isinstance(estimator.network_, VectorNetwork):
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


def _model(onnx: Any, estimator: HierarchicalEmbedder) -> Any:
    make, constants, nodes = onnx.helper, [], []

    def constant(name: str, values: NDArray[Any]) -> str:
        constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def step(kind: str, inputs: list[str], output: str, **options: Any) -> str:
        nodes.append(make.make_node(kind, inputs, [output], **options))
        return output

    def linear(layer: nn.Linear, value: str, name: str, output: str) -> str:
        weights = [constant(f"{name}.{key}", item.cpu().numpy()) for key, item in layer.named_parameters()]
        return step("Gemm", [value, *weights], output, transB=1)

    network = estimator.network_
    adapter, scale = network.adapter, estimator.input_scale_
    # In float64, as the estimator does it, so that a large offset costs no digits.
    exact = step("Cast", ["vectors"], "exact", to=onnx.TensorProto.DOUBLE)
    centered = step("Sub", [exact, constant("mean", scale.mean)], "centered")
    scaled = step("Div", [centered, constant("deviation", scale.deviation)], "scaled")
    inputs = step("Cast", [scaled], "inputs", to=onnx.TensorProto.FLOAT)
    straight = isinstance(adapter.skip, nn.Linear)
    if adapter.down is None or adapter.up is None:
        linear(adapter.skip, inputs, "skip", "embedding")
    else:
        skipped = linear(adapter.skip, inputs, "skip", "skipped") if straight else inputs
        hidden = step("Gelu", [linear(adapter.down, inputs, "down", "low")], "hidden")
        step("Add", [skipped, linear(adapter.up, hidden, "up", "high")], "embedding")
    logits = linear(network.head, "embedding", "head", "logits")
    step("Softmax", [logits], "probabilities", axis=1)
    sizes = {"embedding": estimator._n_features_out, "probabilities": len(estimator.classes_)}
    number = onnx.TensorProto.FLOAT
    graph = make.make_graph(
        nodes,
        "cophenet",
        [make.make_tensor_value_info("vectors", number, ["n", estimator.n_features_in_])],
        [make.make_tensor_value_info(name, number, ["n", size]) for name, size in sizes.items()],
        constants,
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", _OPSET)], ir_version=9)
    onnx.checker.check_model(model)
    return model


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
