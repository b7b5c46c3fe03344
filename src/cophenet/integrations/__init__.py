"""Integrations of other frameworks, one file for each.

`LayerInput` captures features as the input of a network's last layer, so that no network has to be changed to
return them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names

if TYPE_CHECKING:
    from cophenet.integrations.layer_input import LayerInput
    from cophenet.integrations.lightning import CPCCCallback
    from cophenet.integrations.metric_learning import MetricLearningCPCC
    from cophenet.integrations.ray import RayModel, map_files, ray_passes
    from cophenet.integrations.sentence_transformers import SentenceCPCC
    from cophenet.integrations.transformers import TrainerCPCC

__all__ = [
    "CPCCCallback",
    "LayerInput",
    "MetricLearningCPCC",
    "RayModel",
    "SentenceCPCC",
    "TrainerCPCC",
    "map_files",
    "ray_passes",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "layer_input": ["LayerInput"],
        "lightning": ["CPCCCallback"],
        "metric_learning": ["MetricLearningCPCC"],
        "ray": ["RayModel", "map_files", "ray_passes"],
        "sentence_transformers": ["SentenceCPCC"],
        "transformers": ["TrainerCPCC"],
    },
)
