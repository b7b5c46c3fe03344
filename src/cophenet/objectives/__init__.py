"""Training objectives, one module per objective: the CPCC family and the baselines it is compared with.

An objective maps the output of a forward pass (`StepOutput`) to named loss terms whose sum is the loss, and
defines the heads and phases that it needs. The formula of each objective is a separate function of tensors in
its module; shared code is in `base` and `paths` (the ancestors of each class).
"""

from typing import TYPE_CHECKING

from cophenet._common.lazy import moved_names
from cophenet.objectives.base import HeadSpec, Objective, Phase, StepOutput, level_heads, phase_lengths
from cophenet.objectives.cosine import Cosine
from cophenet.objectives.cpcc import WithCPCC
from cophenet.objectives.curriculum import Curriculum
from cophenet.objectives.flat import Flat
from cophenet.objectives.gc import GC, geometric_consistency
from cophenet.objectives.hxe import HXE, hierarchical_cross_entropy
from cophenet.objectives.mtl import MTL
from cophenet.objectives.paths import LevelMaps, TreePaths
from cophenet.objectives.quadruplet import Quadruplet, quadruplet_loss
from cophenet.objectives.rank import Rank, rank_loss
from cophenet.objectives.registry import create_objective, objective_names, register_objective
from cophenet.objectives.shc import SHC, soft_consistency
from cophenet.objectives.soft import SoftLabels, soft_label_loss
from cophenet.objectives.sumloss import SumLoss, level_cross_entropies

__all__ = [
    "GC",
    "HXE",
    "MTL",
    "SHC",
    "Cosine",
    "Curriculum",
    "Flat",
    "HeadSpec",
    "LevelMaps",
    "Objective",
    "Phase",
    "Quadruplet",
    "Rank",
    "SoftLabels",
    "StepOutput",
    "SumLoss",
    "TreePaths",
    "WithCPCC",
    "create_objective",
    "geometric_consistency",
    "hierarchical_cross_entropy",
    "level_cross_entropies",
    "level_heads",
    "objective_names",
    "phase_lengths",
    "quadruplet_loss",
    "rank_loss",
    "register_objective",
    "soft_consistency",
    "soft_label_loss",
]

if not TYPE_CHECKING:  # an error to type checkers, as any other name that is not here
    __getattr__ = moved_names(
        __name__, {__name__: {"create": "create_objective", "register": "register_objective"}}
    )
