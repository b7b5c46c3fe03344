"""Backbones and heads: a backbone maps inputs to features, a head features to logits.

Each family of backbones has its own module; heads are linear and built from the specification of the
objective. Training is defined elsewhere.
"""

from cophenet.models.base import Backbone
from cophenet.models.chunked_backward import cached_backward
from cophenet.models.heads import Heads, LinearHead, Network, NetworkOutput, build_heads
from cophenet.models.other_packages import backbone_function
from cophenet.models.registry import (
    backbone_names,
    create_backbone,
    image_inputs,
    register_backbone,
)
from cophenet.models.weights import load_weights

__all__ = [
    "Backbone",
    "Heads",
    "LinearHead",
    "Network",
    "NetworkOutput",
    "backbone_function",
    "backbone_names",
    "build_heads",
    "cached_backward",
    "create_backbone",
    "image_inputs",
    "load_weights",
    "register_backbone",
]
