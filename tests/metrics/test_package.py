"""What importing the package costs and needs."""

import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

from cophenet import Hierarchy, metrics


def test_every_public_name_is_there():
    assert dir(metrics) == sorted(metrics.__all__)
    for name in metrics.__all__:
        assert getattr(metrics, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'accuracy_of_levels'"):
        _ = metrics.accuracy_of_levels


def test_type_checkers_are_told_of_every_module():
    modules = (module.name for module in pkgutil.iter_modules(metrics.__path__) if not module.ispkg)
    listed = re.findall(
        r"^    from cophenet\.metrics\.(\w+) import \*$", inspect.getsource(metrics), re.MULTILINE
    )
    assert listed == sorted(name for name in modules if not name.startswith("_"))


def test_what_a_comparison_must_know_of_metrics_needs_no_torch():
    code = """
import sys
from cophenet import metrics
from cophenet.evaluation import metric_info
print(metric_info("source/map/fine").short, len(metrics.metric_names()), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"fine sMAP {len(metrics.metric_names())} False\n"


def test_a_class_is_made_by_the_name_the_package_has_for_it():
    from cophenet.metrics.accuracy import LevelAccuracy

    assert issubclass(metrics.LevelAccuracy, LevelAccuracy)
    assert list(inspect.signature(metrics.LevelAccuracy).parameters) == ["tree", "by", "top_k", "kwargs"]
    with pytest.raises(TypeError, match=r"make it as cophenet\.metrics\.LevelAccuracy"):
        LevelAccuracy(Hierarchy.from_paths(["pet/cat", "pet/dog"], sep="/"))
