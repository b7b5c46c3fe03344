"""Taxonomies as other programs write them."""

import pytest

from cophenet.tree import Hierarchy

GOOGLE = """\
# Google_Product_Taxonomy_Version: 2021-09-21
1 - Animals & Pet Supplies
3237 - Animals & Pet Supplies > Live Animals
2 - Animals & Pet Supplies > Pet Supplies
5 - Animals & Pet Supplies > Pet Supplies > Toys
1239 - Toys & Games
1253 - Toys & Games > Toys
"""
GBIF = """\
taxonID\tparentNameUsageID\ttaxonRank\tcanonicalName\tremarks
6\t\tkingdom\tPlantae\t"a
1\t\tkingdom\tAnimalia\t
44\t1\tphylum\tChordata\t
7\t6\tphylum\tTracheophyta\t
"""
NCBI = """\
tax_id,parent_tax_id,rank,name
1,1,no rank,life
9,2,species,E. coli
2,1,domain,Bacteria
3,1,species,X
"""
DARWIN = """\
occurrenceID,kingdom,phylum,genus,specificEpithet,order
a,Animalia,Chordata,Felis,catus,
b,Animalia,Chordata,Felis,,
c,Animalia,Chordata,Felis,catus,
d,Plantae,,,,
e,Animalia,Chordata,Canis,lupus,
"""
UNSPSC = "Code,Title\n43000000,IT\n43210000,Computers\n43211500,Servers\n43211503,Notebooks\n10000000,Life\n"
ICD = "code,name\nA00.1,classical\nA00.10,mild\nA00,Cholera\nB,Viral\n"


def read(text, form, tmp_path):
    (tmp_path / "file.txt").write_text(text)
    return Hierarchy.read(tmp_path / "file.txt", format=form)


@pytest.mark.parametrize(
    ("form", "text", "paths", "levels"),
    [
        (
            "google",
            GOOGLE,
            [
                ("Animals & Pet Supplies", "Live Animals"),
                ("Animals & Pet Supplies", "Pet Supplies", "Toys"),
                ("Toys & Games", "Toys"),
            ],
            None,
        ),
        ("google", "A\nA > B - 2\n7 - C > D\n", [("A", "B - 2"), ("7 - C", "D")], None),
        (
            "parents",
            GBIF,
            [("Animalia", "Chordata"), ("Plantae", "Tracheophyta")],
            ["kingdom", "phylum"],
        ),
        ("parents", NCBI, [("Bacteria", "E. coli"), ("X",)], None),
        (
            "darwin-core",
            DARWIN,
            [
                ("Animalia", "Chordata", "Felis", "Felis catus"),
                ("Plantae",),
                ("Animalia", "Chordata", "Canis", "Canis lupus"),
            ],
            ["kingdom", "phylum", "genus", "species"],
        ),
        ("codes", UNSPSC, [("IT", "Computers", "Servers", "Notebooks"), ("Life",)], None),
        ("codes", ICD, [("Cholera", "classical", "mild"), ("Viral",)], None),
        ("codes", "code\n1\n11\n12\n", [("1", "11"), ("1", "12")], None),
    ],
)
def test_what_is_read(form, text, paths, levels, tmp_path):
    tree = read(text, form, tmp_path)
    root = "life" if "life" in tree.names else "root"
    expected = Hierarchy.from_paths(paths, root=root, level_names=levels)
    assert tree.reorder([expected.path(leaf) for leaf in expected.leaves]) == expected


def test_classes_are_in_the_order_of_the_file(tmp_path):
    tree = read(GOOGLE, "google", tmp_path)
    assert tree.classes == ("Live Animals", "Animals & Pet Supplies/Pet Supplies/Toys", "Toys & Games/Toys")
    assert read(GBIF, "parents", tmp_path).classes == ("Chordata", "Tracheophyta")


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("google", "1 - A\nB > C\n", "line 2: expected 'number - A > B > C', got 'B > C'"),
        ("google", "A > B\nA > B\n", "line 2: duplicate class name: 'B' has the same path twice"),
        ("google", "A >  > B\n", "line 1: a name must be"),
        ("google", "# nothing\n", "empty"),
        ("parents", "", "the table is empty"),
        ("parents", "id,parent\n1,\n", "line 1: no column for the name: one of name, .*the table has"),
        ("parents", "id,parent,name\n1,,a\n1,,b\n", "line 3: the id '1' is given twice"),
        ("parents", "id,parent,name\n,,a\n", "line 2: the id '' is empty"),
        ("parents", "id,parent,name\n1,7,a\n", "line 2: the parent '7' of '1' is not in the table"),
        ("parents", "id,parent,name\n1,2,a\n2,1,b\n", "cycle"),
        ("parents", "id,parent,name\n1,,a\n2,1,\n", "line 3: a name must be"),
        ("parents", "id,parent,name\n1,,a\n2,1\n", "line 3: 2 cells in a table of 3 columns"),
        ("parents", "id,ID,name\n", "line 1: two columns have the same name"),
        ("parents", 'id,parent,name\n1,,"a\n', "malformed row"),
        ("darwin-core", "a,b\n1,2\n", "line 1: no column with names of kingdom"),
        ("darwin-core", "kingdom,order\nx,\n,y\n", "line 3: kingdom is empty above other ranks; fill it in"),
        ("codes", "code\n1\n1\n", "line 3: the code '1' is given twice"),
        ("codes", "code,name\n,x\n", r"line 2: a code must have 1 to 100 signs \(limit\), got ''"),
        ("codes", f"code\n{'1' * 101}\n", r"1 to 100 signs \(limit\)"),
    ],
)
def test_bad_files(form, text, message, tmp_path):
    with pytest.raises(ValueError, match=f"file.txt: .*{message}"):
        read(text, form, tmp_path)


@pytest.mark.parametrize(("form", "text"), [("google", GOOGLE), ("parents", GBIF), ("codes", UNSPSC)])
def test_nodes_are_limited(form, text, tmp_path, monkeypatch):
    monkeypatch.setenv("COPHENET_MAX_NODES", "3")
    with pytest.raises(ValueError, match="more than 3 nodes"):
        read(text, form, tmp_path)


def test_deep_files(tmp_path):
    depth = 20_000
    path = " > ".join(f"n{step}" for step in range(depth))
    assert read(path + "\n", "google", tmp_path).height == depth
    rows = "".join(f"{node},{node - 1},n{node},r{node}\n" for node in range(1, depth))
    tree = read(f"id,parent,name,rank\n0,,n0,\n{rows}", "parents", tmp_path)
    assert tree.level_names[-1] == f"r{depth - 1}"


def test_foreign_formats_are_not_written(tmp_path):
    with pytest.raises(
        ValueError, match=r"'google' can only be read; to write, it must be one of \('json', "
    ):
        read(GOOGLE, "google", tmp_path).write(tmp_path / "tree.txt", format="google")
