"""Some batches for every distance, the same ones every time; more by `make fuzz`."""

import pytest

from cophenet.transport import distance_names

from .distances import TARGETS
from .harness import CORPUS

INPUTS = 10


def test_every_distance_has_a_target():
    assert {target.distance for target in TARGETS} == set(distance_names())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_random_batches(target, tmp_path):
    for seed in range(INPUTS):
        target.run(seed, tmp_path)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_failed_before(target, tmp_path):
    for path in sorted((CORPUS / target.name).glob("*")):
        target.check(path.read_bytes(), tmp_path)
