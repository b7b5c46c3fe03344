"""Some changed files for every reader, the same ones every time, and all that ever failed."""

import pytest

from . import data_readers, readers
from .harness import CORPUS, valid_input

TARGETS = [*readers.TARGETS, *data_readers.TARGETS]
# More by `make fuzz`.
INPUTS = 15


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_changed_files_give_a_result_or_one_sentence(target, tmp_path):
    for seed in range(INPUTS):
        target.run(seed, tmp_path)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_failed_before(target, tmp_path):
    for path in sorted((CORPUS / target.name).glob("*")):
        target.check(path.read_bytes(), tmp_path)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_valid_files_are_read(target, tmp_path):
    for content in target.seeds():
        with valid_input():
            target.check(content if target.wrap is None else target.wrap(content), tmp_path)
