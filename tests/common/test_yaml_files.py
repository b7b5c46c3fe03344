"""YAML as recipes are written in it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cophenet._common.yaml_files import dump_yaml, parse_yaml

# Control characters and odd line ends are not for recipes.
TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(DOCUMENTS)
@example({"text": ["5e-4", "1e3", "010", "no", "1:2", "null", ""], "5e4": 1e-5})
def test_documents_survive(document):
    assert parse_yaml(dump_yaml(document)) == document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-4", 5e-4),
        ("5E4", 5e4),
        ("-.5", -0.5),
        ("1.", 1.0),
        (".inf", float("inf")),
        ("010", "010"),
        ("-3", -3),
        ("1:2", "1:2"),
        ("no", "no"),
        ("yes", "yes"),
        ("2024-01-01", "2024-01-01"),
        ("true", True),
        ("null", None),
        ("", None),
        ("~", None),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
    ],
)
def test_scalars_mean_what_they_look_like(text, value):
    parsed = parse_yaml(text)
    assert parsed == value
    assert type(parsed) is type(value)
