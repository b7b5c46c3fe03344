import numpy as np
import pytest

from cophenet import Hierarchy
from cophenet.data.vectors import Vectors
from cophenet.evaluation.details import show_inputs
from vectors.written_vectors import (
    FEATURES,
    LABELS,
    NAMES,
    TREE,
    WRITERS,
    as_names,
    write_csv,
    write_npz,
    write_parquet,
    write_safetensors,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tree.json").write_text(TREE)
    return tmp_path


# Tensors hold no names.
@pytest.mark.parametrize(
    ("write", "named"),
    [
        (write, named)
        for write in WRITERS
        for named in (False, True)
        if not (named and write is write_safetensors)
    ],
)
def test_every_format_loads(folder, write, named):
    labels = as_names(LABELS) if named else LABELS
    train = write(folder / "train", FEATURES, labels)
    test = write(folder / "test", FEATURES[:20], labels[:20])
    source = Vectors(train, test, tree_file="tree.json", labels="names" if named else "positions")
    assert all(need.found for need in source.requirements(folder))
    data = source.load(folder)
    assert data.tree.classes == tuple(NAMES)
    inputs, given = data.samples("train").take(np.arange(50))
    np.testing.assert_array_equal(inputs.numpy(), FEATURES)
    assert given.tolist() == LABELS
    assert len(data.samples("test")) == 20
    assert data.samples("test", "target").tree.classes == ("cod",)
    assert (data.mean, data.std) == ((), ())


def test_split_without_a_test_file_is_stratified_and_repeatable(folder):
    train = write_npz(folder / "all", FEATURES, LABELS)
    data, same, other = (Vectors(train, seed=seed, test_share=0.3).load(folder) for seed in (0, 0, 1))
    assert set(data.samples("test").counts()) == {3}
    assert set(data.samples("train").counts()) == {7}
    np.testing.assert_array_equal(data.samples("test").rows, same.samples("test").rows)
    assert data.samples("test").rows.tolist() != other.samples("test").rows.tolist()


def test_texts_are_those_of_the_test_rows(folder):
    train = write_npz(folder / "all", FEATURES, LABELS)
    (folder / "texts.txt").write_text("".join(f"sample {row}\n" for row in range(50)))
    drawn = Vectors(train, texts="texts.txt").load(folder).samples("test")
    assert drawn.inputs.names(drawn.rows) == [f"sample {row}" for row in drawn.rows]
    mistakes = [{"index": 3}]
    show_inputs(mistakes, drawn)
    assert mistakes == [{"index": 3, "file": f"sample {drawn.rows[3]}"}]
    own = Vectors(train, write_npz(folder / "test", FEATURES[:20], LABELS[:20]), texts="texts.txt")
    with pytest.raises(ValueError, match=r"texts\.txt has 50 lines, but .*test\.npz has 20 rows"):
        own.load(folder)


def test_without_a_tree_the_classes_make_a_star(folder):
    data = Vectors(write_csv(folder / "a", FEATURES, as_names(LABELS))).load(folder)
    assert data.tree.classes == ("cod", "eel", "gar", "jay", "owl")
    assert data.tree.height == 1
    with pytest.raises(ValueError, match="domain must be 'full' without a tree to split by: give tree_file"):
        data.samples("train", "source")


def test_whole_numbers_are_names_unless_positions_are_asked_for(folder):
    (folder / "tree.nwk").write_text("((7,3)odd,(2,4)even);")
    path = write_npz(folder / "a", FEATURES[:8], [7, 3, 2, 4, 7, 3, 2, 4])
    data = Vectors(path, path, tree_file="tree.nwk").load(folder)
    assert data.tree.classes == ("7", "3", "2", "4")
    assert data.samples("train").labels.tolist() == [0, 1, 2, 3] * 2
    counted = write_csv(folder / "b", FEATURES[:8], [2, 3, 2, 3, 0, 1, 0, 1])
    data = Vectors(counted, counted, tree_file="tree.nwk", labels="positions").load(folder)
    assert data.samples("train").labels.tolist() == [2, 3, 2, 3, 0, 1, 0, 1]


@pytest.mark.parametrize("write", [write_npz, write_csv])
def test_numbers_that_are_no_names_are_never_guessed_to_be_positions(folder, write):
    (folder / "tree.nwk").write_text("((1,2)low,(3,4)high);")
    named = write(folder / "named", FEATURES[:8], [1, 2, 3, 4] * 2)
    counted = write(folder / "counted", FEATURES[:8], [0, 1, 2, 3] * 2)
    for train, test in ((counted, None), (named, counted), (counted, named)):
        with pytest.raises(
            ValueError,
            match=r"counted.*: 1 labels are not in the tree, e.g. \['0'\].* pass labels='positions'",
        ):
            Vectors(train, test, tree_file="tree.nwk").load(folder)


def test_leading_zeros_are_part_of_a_name(folder):
    labels = ["00", "0", "01", "1"] * 2
    data = Vectors(write_csv(folder / "a", FEATURES[:8], labels)).load(folder)
    assert data.tree.classes == ("0", "00", "01", "1")
    (folder / "zeros.nwk").write_text("((00,01)a,(0,1)b);")
    data = Vectors("a.csv", "a.csv", tree_file="zeros.nwk").load(folder)
    assert data.samples("test").labels.tolist() == [0, 2, 1, 3] * 2
    with pytest.raises(
        ValueError, match=r"a.csv: 2 labels are not positions, e.g. \['00', '01'\].* allows 0 to 3"
    ):
        Vectors("a.csv", tree_file="zeros.nwk", labels="positions").load(folder)


def test_positions_outside_the_tree_are_refused(folder):
    for shift, wrong in ((1, "5"), (-1, "-1")):
        path = write_npz(folder / "a", FEATURES, np.array(LABELS) + shift)
        with pytest.raises(ValueError, match=rf"1 labels are not positions, e.g. \['{wrong}'\]"):
            Vectors(path, tree_file="tree.json", labels="positions").load(folder)


def test_stars_sort_numbers_as_numbers_in_every_format(folder):
    for write in (write_npz, write_csv, write_parquet):
        data = Vectors(write(folder / "a", FEATURES[:6], [10, 9, -1] * 2)).load(folder)
        assert data.tree.classes == ("-1", "9", "10")
    big = np.array([2**63, 2**63 + 1] * 2, dtype=np.uint64)
    data = Vectors(write_npz(folder / "big", FEATURES[:4], big)).load(folder)
    assert data.tree.classes == ("9223372036854775808", "9223372036854775809")


def test_star_refuses_classes_that_only_the_test_part_has(folder):
    train = write_npz(folder / "train", FEATURES[:4], [3, 5, 3, 5])
    test = write_npz(folder / "test", FEATURES[:4], [0, 1, 3, 5])
    with pytest.raises(
        ValueError,
        match=r"test.npz: 2 labels are not in the training part train.npz, e.g. \['0', '1'\]",
    ) as caught:
        Vectors(train, test).load(folder)
    assert "positions" not in str(caught.value)


def test_classes_too_small_are_named_with_their_file(folder):
    path = write_npz(folder / "a", FEATURES[:3], ["owl", "jay", "owl"])
    for tree_file in (None, "tree.json"):
        with pytest.raises(ValueError, match=r"a.npz: class 'jay' has a single sample; two are needed"):
            Vectors(path, tree_file=tree_file).load(folder)
    assert len(Vectors(path, path).load(folder).samples("train")) == 3
    path = write_npz(folder / "one", FEATURES[:3], ["owl"] * 3)
    for tree_file in (None, "tree.json"):
        with pytest.raises(
            ValueError, match=r"one.npz: data 'vectors' needs at least two classes, found only 'owl'"
        ):
            Vectors(path, tree_file=tree_file).load(folder)


def test_blank_lines_are_passed_over(folder):
    (folder / "a.csv").write_text("\nlabel,x\nowl,1\n\njay,2\r\n\r\nowl,3\njay,4\n\n\n")
    data = Vectors("a.csv", "a.csv").load(folder)
    inputs, labels = data.samples("train").take(np.arange(4))
    assert inputs.flatten().tolist() == [1, 2, 3, 4]
    assert labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("missing", ["", " ", "nan", "NaN"])
def test_missing_labels_are_refused(folder, missing):
    labels = ["owl", "jay", missing, "owl"]
    write_csv(folder / "a", FEATURES[:4], labels)
    with pytest.raises(ValueError, match=rf"a.csv: line 4 has no label but '{missing}'"):
        Vectors("a.csv").load(folder)
    for write in (write_npz, write_parquet):
        path = write(folder / "a", FEATURES[:4], labels)
        with pytest.raises(ValueError, match=rf"{path}: row 2 has no label but '{missing}'"):
            Vectors(path).load(folder)


def test_names_as_bytes_must_be_utf8(folder):
    path = write_npz(folder / "a", FEATURES[:4], np.array(["öl".encode(), b"owl"] * 2))
    assert Vectors(path).load(folder).tree.classes == ("owl", "öl")
    path = write_npz(folder / "a", FEATURES[:4], np.array([b"\xff", b"owl"] * 2))
    with pytest.raises(ValueError, match=r"a.npz: labels must be names in UTF-8"):
        Vectors(path).load(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 3}, "train must be the name of a file, got 3"),
        ({"train": None}, "train must be the name of a file, got None"),
        ({"test": ["a.csv"]}, r"test must be the name of a file, got \['a.csv'\]"),
        ({"tree_file": 3}, "tree_file must be the name of a file, got 3"),
        ({"tree_file": ""}, "tree_file must be the name of a file, got ''"),
        ({"test_share": "abc"}, "test_share must lie between 0 and 1, got 'abc'"),
        ({"test_share": None}, "test_share must lie between 0 and 1, got None"),
        ({"seed": "a"}, "seed must be a whole number of at least 0, got 'a'"),
        ({"labels": "position"}, "labels must be one of names, positions, got 'position'"),
        ({"labels": 3}, "labels must be one of names, positions, got 3"),
        ({"labels": "positions"}, "labels 'positions' needs a tree to count classes in: give tree_file"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Vectors(**options)


def test_labels_are_paths_where_names_are_not_enough(folder):
    tree = Hierarchy.from_paths([("computer", "hardware"), ("computer", "mouse"), ("garden", "hardware")])
    tree.write(folder / "tree.csv")
    labels = ["garden/hardware", "computer/mouse", "computer/hardware", "mouse"] * 2
    np.savez(folder / "shop.npz", features=np.eye(8), labels=labels)
    data = Vectors("shop.npz", test="shop.npz", tree_file="tree.csv").load(folder)
    assert data.samples("train").labels.tolist() == [2, 1, 0, 1] * 2
    np.savez(folder / "shop.npz", features=np.eye(8), labels=["hardware", "mouse"] * 4)
    with pytest.raises(
        ValueError, match=r"shop.npz: class 'hardware' is the name of 2 classes; .*'garden/hard"
    ):
        Vectors("shop.npz", tree_file="tree.csv").load(folder)
