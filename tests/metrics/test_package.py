"""What importing the package costs and needs."""

import subprocess
import sys

import pytest

from cophenet import metrics

WITHOUT = """
import sys
sys.modules["torchmetrics"] = None
import torch
from cophenet import Hierarchy, metrics
tree = Hierarchy.from_paths(["pet/cat", "pet/dog"], sep="/")
print(metrics.mistake_severity(torch.eye(2), torch.tensor([1, 0]), tree).item())
try:
    metrics.LevelAccuracy
except ImportError as error:
    print(error)
"""


def test_functions_need_no_torchmetrics_and_classes_say_what_is_missing():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    value, message = done.stdout.splitlines()
    assert value == "1.0"
    assert message == "cophenet.metrics.LevelAccuracy needs torchmetrics: pip install cophenet[metrics]"


def test_every_public_name_is_there():
    assert dir(metrics) == sorted(metrics.__all__)
    for name in metrics.__all__:
        assert getattr(metrics, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'accuracy_of_levels'"):
        _ = metrics.accuracy_of_levels
