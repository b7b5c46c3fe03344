"""Distances between the classes of a batch, one file per distance.

A distance maps a `ClassBatch` to the distances of all its class pairs. Most combine a *plan* (which sample
is matched with which) and a *ground cost* (the distance between two samples). Shared code is in `batch`,
`plan`, `ground` and `base`; each distance has its own file.

In all formulas class u has the samples z_i with masses a_i, class v the samples z'_j with masses b_j, masses
of a class adding up to one (1/m and 1/n unless given). D_ij = |z_i - z'_j|_2 is their ground cost, and a plan
P has the marginals a and b. "The OT-CPCC paper" is Zeng, Du, Yamada and Zhao, "Learning Structured
Representations by Embedding Class Hierarchy with Fast Optimal Transport", ICLR 2025, arXiv:2410.03052.
"""

from cophenet.transport.base import (
    ClassDistance,
    PlanDistance,
    SeededDistance,
    class_distances,
    create_distance,
    distance_names,
    register_distance,
)
from cophenet.transport.batch import ClassBatch
from cophenet.transport.bottom_up_flow import bottom_up_flow
from cophenet.transport.bures import Bures
from cophenet.transport.centroid import L1, L2, Poincare
from cophenet.transport.emd import EMD
from cophenet.transport.fastft import FastFlowTree
from cophenet.transport.flowtree import FlowTree
from cophenet.transport.grouping import FlowWeights, group_by_class
from cophenet.transport.plan import TransportPlan
from cophenet.transport.sinkhorn import Sinkhorn
from cophenet.transport.swd import SlicedWasserstein
from cophenet.transport.twd import TreeWasserstein, tree_wasserstein

__all__ = [
    "EMD",
    "L1",
    "L2",
    "Bures",
    "ClassBatch",
    "ClassDistance",
    "FastFlowTree",
    "FlowTree",
    "FlowWeights",
    "PlanDistance",
    "Poincare",
    "SeededDistance",
    "Sinkhorn",
    "SlicedWasserstein",
    "TransportPlan",
    "TreeWasserstein",
    "bottom_up_flow",
    "class_distances",
    "create_distance",
    "distance_names",
    "group_by_class",
    "register_distance",
    "tree_wasserstein",
]
