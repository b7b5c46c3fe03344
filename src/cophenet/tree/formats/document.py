"""JSON and YAML: one flat document, so that a deep tree needs no deep nesting.

A document without ``"format": "cophenet-tree"`` is read as nested groups, see ``Hierarchy.from_nested``.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from cophenet._common import files
from cophenet._common.limits import DEPTH, NODES, TooDeepError
from cophenet._common.packages import import_optional
from cophenet.tree.build import parts_from_nested, parts_from_parents
from cophenet.tree.parts import Parts, default_level_names

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

MARK = "cophenet-tree"
# Maximum number of values in a document for each node: name, parent, weight, and class.
_VALUES = 4
_ANY_DEPTH = "newick and edges hold trees of any depth"
FIELDS = {"format", "names", "parents", "weights", "classes", "level_names"}


def _document(tree: Hierarchy) -> dict[str, Any]:
    result: dict[str, Any] = {"format": MARK, "names": list(tree.names), "parents": tree.parents.tolist()}
    if (tree.edge_weights[1:] != 1).any():
        result["weights"] = tree.edge_weights.tolist()
    result["classes"] = list(tree.classes)
    if tree.level_names != default_level_names(tree.height):
        result["level_names"] = list(tree.level_names)
    return result


def _parts(document: Any) -> Parts:
    if not isinstance(document, dict) or document.get("format") != MARK:
        return parts_from_nested(document)
    unknown = document.keys() - FIELDS
    missing = {"names", "parents", "classes"} - document.keys()
    if unknown or missing:
        raise ValueError(f"the document has unknown fields {sorted(unknown)} and lacks {sorted(missing)}")
    fields = {name: value for name, value in document.items() if name != "format"}
    for name, value in fields.items():
        if not isinstance(value, list):
            raise ValueError(f"the field {name!r} must be a list, got {value!r}")
    return parts_from_parents(**fields)


def dump_json(tree: Hierarchy) -> str:
    """Write JSON, one field per line."""
    fields = (
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in _document(tree).items()
    )
    return "{\n" + ",\n".join(fields) + "\n}\n"


def parse_json(text: str) -> Parts:
    """Read JSON."""
    try:
        document = files.parse_json(text, _unique_keys, _VALUES * NODES.value)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: not JSON: {error.msg}") from error
    except TooDeepError as error:
        raise ValueError(f"{error}; {_ANY_DEPTH}") from error
    return _parts(document)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in counts if counts[name] > 1)
        raise ValueError(f"duplicate name: {twice!r} is given twice in one group")
    return result


def dump_yaml(tree: Hierarchy) -> str:
    """Write YAML with one flow list per field."""
    _require_yaml()
    from cophenet._common import yaml_files

    return yaml_files.dump_yaml(_document(tree), width=120)


def parse_yaml(text: str) -> Parts:
    """Read YAML."""
    _require_yaml()
    from cophenet._common import yaml_files

    repeated = "duplicate name: {!r} is given twice in one group"
    try:
        most = _VALUES * NODES.value
        document = yaml_files.parse_yaml(text, "1.1", repeated=repeated, values=most, depth=DEPTH)
    except TooDeepError as error:
        raise ValueError(f"{error}; {_ANY_DEPTH}") from error
    return _parts(document)


def _require_yaml() -> None:
    import_optional("yaml", "YAML files need", "cophenet[yaml]", called="pyyaml")
