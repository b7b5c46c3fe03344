import pytest

from cophenet.data import DataSource, create_source, register_source, source_names, source_summaries
from cophenet.data.registry import SOURCES


@pytest.fixture
def needy(monkeypatch):
    """A source with an option that has no default, gone after the test."""
    SOURCES.names()
    monkeypatch.setattr(SOURCES, "_members", dict(SOURCES._members))

    @register_source
    class Needy(DataSource):
        name = "needy"
        summary = "for this test"

        def __init__(self, path):
            self.path = path

        requirements = load = None

    return Needy


def test_every_source_has_a_name_and_a_line():
    assert set(source_summaries()) == set(source_names())
    assert all(source_summaries().values())
    assert {"digits", "cifar10", "cifar100", "fashion-mnist", "folder", "vectors", "synthetic"} < set(
        source_names()
    )
    assert {"living17", "nonliving26", "entity13", "entity30", "inat21-mini"} < set(source_names())


def test_options_are_checked(needy):
    assert create_source("needy", path="x").path == "x"
    with pytest.raises(ValueError, match="data 'needy' needs the option path"):
        create_source("needy")
    with pytest.raises(ValueError, match=r"data 'needy' has no option 'pth'.*did you mean 'path'"):
        create_source("needy", pth="x")
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        create_source("digit")
    with pytest.raises(ValueError, match="a data set named 'needy' exists already"):
        register_source(needy)
