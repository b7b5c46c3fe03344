import json
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cophenet._common.checks import is_plain_text
from cophenet._common.yaml_files import parse_yaml
from cophenet.tree import Hierarchy

from .trees import animals, cifar100, there_and_back, trees

EXTENSIONS = ["json", "yaml", "csv", "tsv", "txt", "nwk"]

AWKWARD = [
    "a b",
    "a,b",
    'say "hi"',
    "it's",
    "zero\u200bwidth",
    "soft\xadhyphen",
    "no\xa0break",
    "(x)",
    "[y]",
    "back\\slash",
    "#hash",
    "a:b;c",
    "漢字",
    "é",
    " lead",
    "trail ",
    "null",
    "1",
    "true",
    "a_b",
    "\ufeffmark",
    "😀",
    "\u3000",
    "\u200e",
    "weight:a",
    "\\u005b",
    "# root: x",
    "-",
    "~",
    "{}",
]


@pytest.mark.parametrize("extension", EXTENSIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tree=trees(
        names=st.one_of(
            st.sampled_from(AWKWARD), st.text(st.characters(codec="utf-8"), min_size=1).filter(is_plain_text)
        )
    )
)
@example(tree=animals())
@example(tree=cifar100())
def test_round_trip(tree, extension, tmp_path):
    assert there_and_back(tree, tmp_path, extension) == tree


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_awkward_name(extension, tmp_path):
    tree = Hierarchy.from_paths([(f"group {name}", name) for name in AWKWARD], level_names=["[x]", "y, z"])
    tree = tree.with_weights("root", 1 / 3).reorder(AWKWARD[::-1])
    assert there_and_back(tree, tmp_path, extension) == tree


@pytest.mark.parametrize("extension", ["json", "yaml", "csv", "tsv", "nwk"])
def test_namesakes(extension, tmp_path):
    tree = Hierarchy.from_paths([("a", "other", "x"), ("b", "other", "y"), ("z", "z")])
    assert there_and_back(tree, tmp_path, extension) == tree


def test_names_in_yaml_are_text_in_both_versions_of_yaml(tmp_path):
    names = ["5e-4", "no", "1:2", "07", "null", "+.5e3"]
    Hierarchy.from_paths([("a", name) for name in names]).write(tmp_path / "tree.yaml")
    text = (tmp_path / "tree.yaml").read_text()
    assert parse_yaml(text)["classes"] == parse_yaml(text, "1.1")["classes"] == names


def test_edges_cannot_hold_namesakes(tmp_path):
    tree = Hierarchy.from_paths([("a", "other", "x"), ("b", "other", "y")])
    with pytest.raises(ValueError, match=r"edges cannot hold 2 nodes called 'other'.* use json"):
        tree.write(tmp_path / "tree.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("extension", ["csv", "tsv"])
def test_level_names_that_look_like_weights(extension, tmp_path):
    tree = Hierarchy.from_paths([("a", "b")], level_names=["x", "weight:x"])
    assert there_and_back(tree, tmp_path, extension) == tree


@pytest.mark.parametrize("extension", ["json", "yaml", "csv", "tsv", "txt", "nwk"])
def test_deep_chain(extension, tmp_path):
    # Newick is the one with brackets to nest; the others are long rather than deep.
    depth = 100_000 if extension == "nwk" else 5_000
    tree = Hierarchy.from_parents(np.arange(-1, depth))
    assert there_and_back(tree, tmp_path, extension) == tree


# A table by hand does not say whether its first row is a header.
HEADER = {"t.csv": True, "t.tsv": True}


def test_what_files_look_like(tmp_path):
    tree = Hierarchy.from_paths(
        [("sea animal", "cat"), ("car",), ("sea animal", "dog")], level_names=["p", "q"]
    )
    tree = tree.with_level_weights({"p": 2.0})
    seen = {}
    for extension in ("csv", "txt", "nwk"):
        tree.write(tmp_path / f"tree.{extension}")
        seen[extension] = (tmp_path / f"tree.{extension}").read_text()
    assert seen["csv"] == (
        '# root: "root"\np,q,weight:p,weight:q\nsea animal,cat,2.0,1.0\ncar,,2.0,\nsea animal,dog,2.0,1.0\n'
    )
    assert seen["txt"] == (
        '# classes: "cat", "car", "dog"\n# level_names: "p", "q"\n'
        'root "sea animal" 2.0\n"sea animal" cat\n"sea animal" dog\nroot car 2.0\n'
    )
    assert seen["nwk"] == (
        '[classes: "cat", "car", "dog"][level_names: "p", "q"]'
        "((cat:1.0,dog:1.0)'sea animal':2.0,car:2.0)root;\n"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", '{"animal": ["cat", "dog"], "car": null}'),
        ("t.yaml", "animal: [cat, dog]\ncar:\n"),
        ("t.yml", "animal:\n  - cat\n  - dog\ncar: {}\n"),
        ("t.csv", "level1,level2\nanimal,cat\nanimal,dog\n\ncar,\n"),
        ("t.csv", "\ufefflevel1,level2\r\nanimal,cat\r\nanimal,dog\r\ncar\r\n"),
        ("t.tsv", "level1\tlevel2\nanimal\tcat\nanimal\tdog\ncar\n"),
        ("t.txt", "# a comment\nroot animal\n\n animal  cat 1\nanimal\tdog 1e0\nroot car\n"),
        ("t.edges", 'root animal\r\nanimal "cat"\r\nanimal dog\r\nroot car'),
        ("t.nwk", "((cat,dog)animal,car);"),
        ("t.tree", "[&R] ( ( cat:1 , 'dog' )\nanimal:1.0, car)root:0;\n[end]"),
    ],
)
def test_files_by_hand(name, text, tmp_path):
    (tmp_path / name).write_bytes(text.encode())
    assert Hierarchy.read(tmp_path / name, header=HEADER.get(name)) == Hierarchy.from_nested(
        {"animal": ["cat", "dog"], "car": None}
    )


def test_tables_without_header(tmp_path):
    (tmp_path / "t.csv").write_text("animal,cat\ncar\nanimal,dog\n")
    tree = Hierarchy.read(tmp_path / "t.csv", header=False)
    assert tree.classes == ("cat", "car", "dog")
    with pytest.raises(ValueError, match=r"line 1: \['animal', 'cat'\] may be a header or a class"):
        Hierarchy.read(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="csv and tsv files only"):
        Hierarchy.read(tmp_path / "t.csv", format="json", header=False)


MARK = '"format": "cophenet-tree"'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.json", '{\n"a": [,]}', "line 2: not JSON"),
        ("t.json", "[" * 200_000, r"nested deeper than 500 levels \(limit\); newick and edges hold trees"),
        ("t.json", '{"a": ["b"], "a": ["c"]}', "duplicate name: 'a'"),
        ("t.json", '"cat"', "must be a dict or a list"),
        ("t.json", f'{{{MARK}, "names": []}}', "lacks .'classes', 'parents'"),
        ("t.json", f'{{{MARK}, "names": [], "parents": [], "classes": [], "x": 1}}', "unknown fields .'x'"),
        ("t.json", f'{{{MARK}, "names": "a", "parents": [], "classes": []}}', "'names' must be a list"),
        ("t.json", f'{{{MARK}, "names": ["r", "a"], "parents": [1, 0], "classes": ["a"]}}', "cycle"),
        ("t.yaml", "a: [b\nc: d", "line 2: not YAML"),
        ("t.yaml", "a: \x07", "line 1: not YAML"),
        ("t.yaml", "a: [b]\na: [c]", "line 2: duplicate name: 'a'"),
        ("t.yaml", "a: [no]", "got False"),
        ("t.yaml", "", "must be a dict or a list"),
        ("t.csv", "", "empty"),
        ("t.csv", "x,y\n", "empty"),
        ("t.csv", "x,y\n,cat\n", "line 2: an empty name"),
        ("t.csv", "x,y\na,b\n,\n", "line 3: an empty name"),
        ("t.csv", "x,y\na,b,c\n", "line 2: 3 cells in a table with 2 levels"),
        ("t.csv", 'x,y\na,"b"c\n', "line 2: malformed row"),
        ("t.csv", 'x,y\na,"b\n', "line 3: malformed row|line 2: malformed row"),
        ("t.csv", "x,y\na,b\n\n\na,d\na,d\n", "line 6: duplicate class name: 'd'"),
        ("t.csv", 'x,y\na,d\na,"b\nc"\n', r"line 3: a name must be .*, got 'b\\nc'"),
        ("t.csv", "x,y\na,b\na,\n", "line 3: class 'a' is also an inner node"),
        ("t.csv", "x,weight:x\na,2\nb,0\n", "line 3: edge weights must be positive"),
        ("t.csv", "x,weight:x\na,2\nb,\n", "line 3: weights must be numbers"),
        ("t.csv", "x,y,weight:x,weight:y\na,b,2,1\na,c,3,1\n", "line 3: the edge above 'a' has two weights"),
        ("t.csv", "x,y,weight:x,weight:y\na,,2,1\n", "line 2: more weights than names"),
        ("t.csv", "x,y\na\n", "level_names must name 1 levels"),
        ("t.csv", "# root: top\nx\na\n", "line 1: the root must be named in double quotes"),
        ("t.csv", '# root: "top"\nx\na\na\n', "line 4: duplicate"),
        ("t.txt", "a b\nb\n", "line 2: expected 'parent child .weight.', got 1 fields"),
        ("t.txt", "a sea lion 2\n", "line 1: .* got 4 fields; put names with spaces in double quotes"),
        ("t.txt", "a b\na c x\n", "line 2: the weight must be a number, got 'x'"),
        ("t.txt", "a b\n\na c -1\n", "line 3: edge weights must be positive"),
        ("t.txt", "a b\nc b\n", "line 2: the node 'b' has two parents"),
        ("t.txt", "a b\nc d\n", "line 2: the tree has 2 roots"),
        ("t.txt", "a b\nc d\nd c\n", "line [23]: the tree has a cycle"),
        ("t.txt", 'a "b\n', "line 1: unfinished quotes"),
        ("t.txt", 'a "\\x"\n', "line 1: wrong escape"),
        ("t.txt", "# classes: b\na b\n", "line 1: the note 'classes' must list names"),
        ("t.txt", '# classes: "x"\na b\n', "class 'x' is not in the tree"),
        ("t.txt", 'a ""\n', "line 1: a name must be a non-empty string"),
        ("t.txt", "# nothing\n", "empty"),
        ("t.nwk", "(a,b)", "line 1: the tree does not end with ';'"),
        ("t.nwk", "", "does not end with ';'"),
        ("t.nwk", "a;", "empty"),
        ("t.nwk", "((a,b);", "ends inside of parentheses"),
        ("t.nwk", "(a,\nb));", r"line 2: '\)' outside of all parentheses"),
        ("t.nwk", "(a,,b);", "a class has no name"),
        ("t.nwk", "(a,\nb c);", "line 2: 'c' is not expected here"),
        ("t.nwk", "(a:1:2);", "':' is not expected"),
        ("t.nwk", "(a(b));", r"'\(' is not expected"),
        ("t.nwk", "(a:x);", "branch length must be a number, got 'x'"),
        (
            "t.nwk",
            "(a:1,\nb:0);",
            r"line 2: edge weights must be positive .*'b' has length 0; .*leave it out",
        ),
        ("t.nwk", "(a:-1);", "the branch above 'a' has length -1; give it a small positive length"),
        ("t.nwk", "(a:1,\n(b,c)\nx:0.0);", "line 3: .* above 'x' has length 0.0; .*remove the parentheses"),
        ("t.nwk", "((b,c):nan);", "line 1: .* above an inner node without a name has length nan"),
        ("t.nwk", "(a,b):x;", "branch length must be a number, got 'x'"),
        ("t.nwk", "(a,\n'b);", "line 2: a quote or a bracket has no partner"),
        ("t.nwk", "(a,b];", "line 1: a quote or a bracket"),
        ("t.nwk", "(a,b);(c,d);", "after the end of the tree"),
        ("t.nwk", "(a,\na);", "line 2: duplicate name"),
    ],
)
def test_bad_files(name, text, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(text.encode())
    with pytest.raises(ValueError, match=f"{name}: .*({message})"):
        Hierarchy.read(path, header=HEADER.get(name))


def test_not_utf8(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"a b\na \xff\n")
    with pytest.raises(ValueError, match=r"t.txt: line 2: not UTF-8"):
        Hierarchy.read(tmp_path / "t.txt")


def test_formats_by_name(tmp_path):
    animals().write(tmp_path / "tree.dat", format="json")
    assert json.loads((tmp_path / "tree.dat").read_text())["classes"] == ["cat", "car", "dog", "boat"]
    assert Hierarchy.read(tmp_path / "tree.dat", format="json") == animals()
    with pytest.raises(ValueError, match="no known extension: say its format, one of json, yaml"):
        Hierarchy.read(tmp_path / "tree.dat")
    with pytest.raises(ValueError, match=r"format must be one of .* got 'xml'"):
        animals().write(tmp_path / "tree.dat", format="xml")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tree.json"
    animals().write(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        cifar100().write(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["tree.json"]


def test_yaml_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"pip install 'cophenet\[yaml\]'"):
        animals().write(tmp_path / "tree.yaml")
