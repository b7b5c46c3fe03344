"""Files that ask for more than any real tree: refused at once, with the limit in the error."""

import time
from itertools import count

import pytest

from cophenet.tree import Hierarchy
from cophenet.tree.build import parts_from_paths


def aliases(count, first, line):
    """Lists of nine aliases each to the one before."""
    lines = [first.format("a0")]
    for number in range(1, count):
        above = ", ".join([f"*a{number - 1}"] * 9)
        lines.append(line.format(f"a{number}", above))
    return "\n".join(lines)


LAUGHS = aliases(20, "a0: &{0} [x, x]", "{0}: &{0} [{1}]")
KEYS = aliases(20, "? &{0} [x, x]", "? &{0} [{1}]")
MERGES = aliases(40, "- &{0} {{k: }}", "- &{0} {{<<: [{1}]}}")
CHAIN = "\n".join(["- &a0 {k: }", *(f"- &a{i + 1} {{<<: *a{i}}}" for i in range(450))])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "deep.yaml",
            "[" * 40_000,
            r"line 1: nested deeper than 500 levels \(limit\); newick and edges hold",
        ),
        ("deep.yaml", "\n".join(" " * i + "a:" for i in range(600)), "line 501: nested deeper than 500"),
        ("deep.json", '{"a":' * 40_000, r"nested deeper than 500 levels \(limit\)"),
        ("laughs.yaml", LAUGHS, r"line 6: aliases add more than 100,000 values \(limit\)"),
        ("keys.yaml", KEYS, r"line 6: aliases add more than 100,000 values \(limit\)"),
        ("keys.yaml", "? &a [x, x]\n? *a", "line 1: a key must be a single value"),
        ("merges.yaml", MERGES, r"line 6: aliases add more than 100,000 values \(limit\)"),
        ("chain.yaml", CHAIN, "line 3.*: aliases add more than 100,000 values"),
        ("itself.yaml", "a: &a [b, *a]", "line 1: 'a' contains itself"),
        ("other.yaml", "a: [*b]", "line 1: not YAML: found undefined alias 'b'"),
        ("twice.yaml", "[&a b, &a c]", "line 1: not YAML: found duplicate anchor 'a'"),
        ("two.yaml", "a: [b]\n--- c\n", "line 2: not YAML: but found another document"),
        ("tag.yaml", "!!bool maybe: [a]", "not YAML: a value does not fit its tag"),
        ("int.yaml", "a: [!!int '']", "not YAML: a value does not fit its tag"),
        ("time.yaml", "a: [!!timestamp never]", "not YAML: a value does not fit its tag"),
        ("root.csv", "# root: " + "[" * 5000 + "\n", "line 1: the root must be named in double quotes"),
        ("note.txt", "# classes: " + "[" * 5000 + "\n", "nested deeper than 500 levels"),
    ],
)
def test_bombs_are_refused(name, text, message, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{name}: {message}") as caught:
        Hierarchy.read(path)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("same.json", "{" + ",".join(f'"k{i}": null' for i in range(200_000)) + ', "k199999": null}'),
        ("quotes.json", "[]" * 600 + '"' + '\\"' * 1_000_000),
        ("quotes.nwk", "('" + "''" * 1_000_000),
        ("quotes.txt", 'a "' + '\\"' * 1_000_000),
    ],
)
def test_time_grows_with_the_size_of_a_file_only(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(ValueError, match=name):
        Hierarchy.read(path)
    assert time.process_time() - start < 20


NESTED = '{"a": ["b", "c"], "d": ["e", "f"]}'
FILES = {
    "t.json": NESTED,
    "t.yaml": NESTED,
    "t.csv": "x,y\na,b\na,c\nd,e\nd,f\n",
    "t.txt": "r a\na b\na c\nr d\nd e\nd f\n",
    "t.nwk": "((b,c)a,(e,f)d);",
}


@pytest.mark.parametrize("name", FILES)
def test_nodes_and_bytes_are_limited_and_the_limits_can_be_set(name, tmp_path, monkeypatch):
    path = tmp_path / name
    path.write_text(FILES[name])
    header = True if name == "t.csv" else None
    assert Hierarchy.read(path, header=header).num_nodes == 7
    monkeypatch.setenv("COPHENET_MAX_NODES", "6")
    message = rf"{name}: the tree has more than 6 nodes \(limit; COPHENET_MAX_NODES sets another\)"
    with pytest.raises(ValueError, match=message):
        Hierarchy.read(path, header=header)
    monkeypatch.setenv("COPHENET_MAX_NODES", "7")
    assert Hierarchy.read(path, header=header).num_nodes == 7
    monkeypatch.setenv("COPHENET_MAX_TEXT_BYTES", "10")
    with pytest.raises(ValueError, match=rf"{name}: larger than 10 bytes \(limit; COPHENET_MAX_TEXT_BYTES"):
        Hierarchy.read(path, header=header)
    monkeypatch.setenv("COPHENET_MAX_TEXT_BYTES", "many")
    with pytest.raises(ValueError, match="COPHENET_MAX_TEXT_BYTES must be a whole number, got 'many'"):
        Hierarchy.read(path, header=header)


def test_paths_without_end_are_read_to_the_limit(monkeypatch):
    monkeypatch.setenv("COPHENET_MAX_NODES", "100")
    with pytest.raises(ValueError, match="more than 100 nodes"):
        parts_from_paths((f"class{number}",) for number in count())


def test_values_of_a_document_are_limited(tmp_path, monkeypatch):
    monkeypatch.setenv("COPHENET_MAX_NODES", "10")
    for name in ("t.json", "t.yaml"):
        (tmp_path / name).write_text("[" + ",".join(["[1]"] * 30) + "]")
        with pytest.raises(ValueError, match="more than 40 values"):
            Hierarchy.read(tmp_path / name)


def test_a_file_without_end_is_read_to_the_limit(monkeypatch):
    monkeypatch.setenv("COPHENET_MAX_TEXT_BYTES", "100000")
    with pytest.raises(ValueError, match="/dev/zero: larger than 100 kB"):
        Hierarchy.read("/dev/zero", format="json")


def test_aliases_of_single_names_are_fine(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("animal: [&cat cat, dog]\ntoy: [*cat]\n")
    assert Hierarchy.read(path).classes == ("animal/cat", "dog", "toy/cat")
    path.write_text("&x x: [a, b]\ny: {*x : [c]}\n")
    assert Hierarchy.read(path).classes == ("a", "b", "c")


@pytest.mark.parametrize("sign", list("\0\t\n\x1b\x7f\x85\u2028\u202e\ud800\uffff"))
def test_names_that_cannot_be_drawn_are_refused(sign):
    for make in (
        lambda name: Hierarchy.from_paths([("animal", name)]),
        lambda name: Hierarchy.from_nested({name: ["cat"]}),
        lambda name: Hierarchy.from_edges([("root", name)]),
        lambda name: Hierarchy.from_parents([-1, 0], ["root", name]),
        lambda name: Hierarchy.from_paths([("animal", "cat")], root=name),
        lambda name: Hierarchy.from_paths([("cat",)], level_names=[name]),
        lambda name: Hierarchy.from_paths([("cat",)]).with_level_names([name]),
    ):
        with pytest.raises(ValueError, match="without control characters, got 'a"):
            make(f"a{sign}b")


def test_a_table_of_a_deep_tree_is_refused_before_it_is_made(tmp_path):
    spine = 40_000
    parents = [-1, *range(spine), *range(spine)]
    tree = Hierarchy.from_parents(parents)
    with pytest.raises(ValueError, match=r"more than 1,000,000,000 cells \(limit\); use json"):
        tree.write(tmp_path / "t.csv")
