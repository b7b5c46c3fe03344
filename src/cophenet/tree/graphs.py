"""Trees as graphs of networkx, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cophenet._common.packages import import_optional
from cophenet.tree.parts import Parts

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


def to_graph(tree: Hierarchy) -> Any:
    """See `Hierarchy.to_networkx`."""
    networkx = import_optional("networkx", "graphs need", "networkx")
    graph = networkx.DiGraph()
    parents, weights = tree.parents.tolist(), tree.edge_weights.tolist()
    labels = {leaf: label for label, leaf in enumerate(tree.leaves.tolist())}
    for node, name in enumerate(tree.names):
        label = {"label": labels[node]} if node in labels else {}
        graph.add_node(node, name=name, path=tree.path(node), **label)
        if node:
            graph.add_edge(parents[node], node, weight=weights[node])
    return graph


def parts_from_graph(graph: Any, *, level_names: Sequence[str] | None = None) -> Parts:
    """See `Hierarchy.from_networkx`."""
    if not (hasattr(graph, "is_directed") and graph.is_directed() and not graph.is_multigraph()):
        raise ValueError(f"graph must be a networkx.DiGraph, edges from parents to children, got {graph!r}")
    attributes = dict(graph.nodes(data=True))
    names = {node: given.get("name", node) for node, given in attributes.items()}
    for node in attributes:
        if graph.in_degree(node) > 1:
            several = [names[above] for above in graph.predecessors(node)]
            raise ValueError(f"graph: {names[node]!r} has {len(several)} parents: {several[:3]}")
    leaves = [node for node in attributes if graph.out_degree(node) == 0]
    labels = [attributes[leaf].get("label") for leaf in leaves]
    if any(label is not None for label in labels):
        if sorted(labels, key=str) != sorted(range(len(leaves)), key=str):
            raise ValueError(
                f"graph: the labels of leaves must be 0 to {len(leaves) - 1}, got {labels!r:.200}"
            )
        leaves = [leaf for _, leaf in sorted(zip(labels, leaves, strict=True), key=lambda pair: pair[0])]
    chosen = set(leaves)
    order = [*(node for node in attributes if node not in chosen), *leaves]
    place = {node: new for new, node in enumerate(order)}
    above = {child: (parent, given.get("weight", 1.0)) for parent, child, given in graph.edges(data=True)}
    return Parts(
        parents=[place[above[node][0]] if node in above else -1 for node in order],
        names=[names[node] for node in order],
        weights=[above[node][1] if node in above else 0.0 for node in order],
        level_names=level_names,
    )
