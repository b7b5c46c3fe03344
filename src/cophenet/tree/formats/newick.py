"""Newick: ``((cat:1,dog:1)animal:1,car:2)root;`` without recursion.

Names may be in single quotes; a missing length is 1. Unlike in the oldest form of the format, an underscore
is an underscore. Inner nodes without a name are named node1, node2, ...

Files of other tools are read as far as a label tree can represent them: a length of the root, which has no
edge above it, is ignored, and so are comments. Several inner nodes may have the same label, such as a
bootstrap value; only siblings with the same label get a number, as in ``100 (2)``. A zero or negative length
is an error, because edge weights are positive.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from cophenet._common.limits import NODES
from cophenet.tree.formats.notes import dump_notes, parse_note
from cophenet.tree.names import fresh_names, tell_apart
from cophenet.tree.parts import DEFAULT_ROOT, Parts, too_many_nodes

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

_TOKEN = re.compile(r"\s+|\[[^\]]*\]|'[^']*(?:''[^']*)*'|[(),:;]|[^\s()\[\]',:;]+")
_PLAIN = re.compile(r"[^\s()\[\]',:;_]+")


@dataclass
class _Reader:
    """Parser state: the nodes read so far and the current node."""

    parents: list[int] = field(default_factory=lambda: [-1])
    names: list[str] = field(default_factory=lambda: [""])
    weights: list[float] = field(default_factory=lambda: [0.0])
    lines: list[int] = field(default_factory=lambda: [1])
    inner: set[int] = field(default_factory=set)
    node: int = 0
    # What may come next: "subtree", "name", "named" (a length or structure), "number" or "structure".
    state: str = "subtree"
    most: int = field(default_factory=lambda: NODES.value)

    def add(self, parent: int, line: int) -> None:
        """Start a new child of a node."""
        self.node = len(self.names)
        if self.node >= self.most:
            raise too_many_nodes(self.most)
        self.parents.append(parent)
        self.names.append("")
        self.weights.append(1.0)
        self.lines.append(line)
        self.inner.add(parent)
        self.state = "subtree"


def parse(text: str) -> Parts:
    """Read one tree."""
    reader = _Reader()
    notes: dict[str, list[str]] = {}
    position, line, done = 0, 1, False
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"line {line}: a quote or a bracket has no partner")
        token = match[0]
        if token[0] == "[":
            note = parse_note(token[1:-1], line)
            if note is not None:
                notes[note[0]] = note[1]
        elif not token.isspace():
            if done:
                raise ValueError(f"line {line}: {token!r} after the end of the tree")
            done = _take(reader, token, line)
        line += token.count("\n")
        position = match.end()
    if not done:
        raise ValueError(f"line {line}: the tree does not end with ';'")
    _name_inner_nodes(reader)
    return Parts(
        reader.parents,
        reader.names,
        reader.weights,
        notes.get("classes"),
        notes.get("level_names"),
        reader.lines,
    )


def _take(reader: _Reader, token: str, line: int) -> bool:
    """Process one token; return whether the tree ends with it."""
    if reader.state == "number":
        length = _length(reader, token, line)
        reader.weights[reader.node] = length if reader.node else 0.0
        reader.state = "structure"
    elif token == "(":
        if reader.state != "subtree":
            _unexpected(token, line)
        reader.add(reader.node, line)
    elif token in ",)":
        _close(reader, line)
        parent = reader.parents[reader.node]
        if parent < 0:
            raise ValueError(f"line {line}: {token!r} outside of all parentheses")
        if token == ",":
            reader.add(parent, line)
        else:
            reader.node, reader.state = parent, "name"
    elif token == ";":
        _close(reader, line)
        if reader.node != 0:
            raise ValueError(f"line {line}: the tree ends inside of parentheses")
        return True
    elif token == ":":
        if reader.state == "structure":
            _unexpected(token, line)
        reader.state = "number"
    else:
        if reader.state not in ("subtree", "name"):
            _unexpected(token, line)
        reader.names[reader.node] = token[1:-1].replace("''", "'") if token[0] == "'" else token
        reader.lines[reader.node] = line
        reader.state = "named"
    return False


def _unexpected(token: str, line: int) -> NoReturn:
    raise ValueError(f"line {line}: {token!r} is not expected here; names with spaces need single quotes")


def _length(reader: _Reader, token: str, line: int) -> float:
    try:
        length = float(token)
    except ValueError:
        raise ValueError(f"line {line}: a branch length must be a number, got {token!r}") from None
    if reader.node and not 0 < length < math.inf:
        name = reader.names[reader.node]
        where = f"the branch above {name!r}" if name else "the branch above an inner node without a name"
        advice = "leave it out (1)"
        if reader.node in reader.inner:
            advice = "remove the parentheses of this node, so that its children move up"
        raise ValueError(
            f"line {line}: edge weights must be positive and finite: {where} has length {token}; "
            f"give it a small positive length, or {advice}"
        )
    return length


def _close(reader: _Reader, line: int) -> None:
    """Check that the node just left is a class with a name, or an inner node."""
    if not reader.names[reader.node] and reader.node not in reader.inner and reader.node > 0:
        raise ValueError(f"line {line}: a class has no name")


def _name_inner_nodes(reader: _Reader) -> None:
    if not reader.names[0]:
        reader.names[0] = DEFAULT_ROOT
    unnamed = [node for node, name in enumerate(reader.names) if not name]
    for node, name in zip(unnamed, fresh_names(reader.names, len(unnamed)), strict=True):
        reader.names[node] = name
    reader.names = tell_apart(reader.parents, reader.names, reader.inner)


def dump(tree: Hierarchy) -> str:
    """Write one line; label order and level names go into comments before the tree."""
    parents = tree.parents.tolist()
    weights = tree.edge_weights.tolist()
    weighted = any(weight != 1 for weight in weights[1:])
    labels = [_quoted(name) for name in tree.names]
    if weighted:
        labels[1:] = [f"{label}:{weight!r}" for label, weight in zip(labels[1:], weights[1:], strict=True)]
    is_leaf = (tree.heights == 0).tolist()
    pieces = [f"[{note}]" for note in dump_notes(tree)]
    pieces.append("(")
    open_nodes = [0]
    for node in range(1, tree.num_nodes):
        while open_nodes[-1] != parents[node]:
            pieces.append(f"){labels[open_nodes.pop()]}")
        # In depth-first order, a first child comes right after its parent.
        pieces.append("" if parents[node] == node - 1 else ",")
        if is_leaf[node]:
            pieces.append(labels[node])
        else:
            pieces.append("(")
            open_nodes.append(node)
    pieces.extend(f"){labels[node]}" for node in reversed(open_nodes))
    return "".join(pieces) + ";\n"


def _quoted(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    doubled = name.replace("'", "''")
    return f"'{doubled}'"
