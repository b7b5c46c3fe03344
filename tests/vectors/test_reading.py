import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from cophenet.data.vectors import Vectors

from .written_vectors import (
    FEATURES,
    LABELS,
    TREE,
    as_names,
    write_csv,
    write_npy,
    write_npz,
    write_parquet,
    write_safetensors,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tree.json").write_text(TREE)
    return tmp_path


def with_value(value, dtype=np.float32):
    features = FEATURES.astype(dtype)
    features[4, 1] = value
    return features


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (with_value(np.nan), LABELS, "1 features are not finite in float32, first in row 4, column 1: nan"),
        (with_value(1e300, np.float64), LABELS, "not finite in float32, first in row 4, column 1: 1e"),
        (FEATURES[:, 0], LABELS, r"features must be \(n, d\) and not empty, got shape \(50,\)"),
        (FEATURES[:0], [], "not empty"),
        (FEATURES > 0, LABELS, "features must be real numbers, got bool"),
        (FEATURES, LABELS[:-1], "50 rows of features, but 49 labels"),
        (FEATURES, np.array(LABELS) + 0.5, "labels must be whole numbers or names, got float64"),
        (FEATURES, np.array(LABELS)[:, None], r"labels must be \(n,\)"),
        (FEATURES, np.array(LABELS) + 1, "5 labels are not in the tree"),
        (FEATURES, np.array(LABELS) - 1, "are not in the tree"),
        (
            FEATURES,
            ["hen", *as_names(LABELS)[1:]],
            r"1 labels are not in the tree, e.g. \['hen'\]; the tree has 5",
        ),
    ],
)
def test_wrong_arrays_are_refused(folder, features, labels, message):
    path = write_npz(folder / "a", features, labels)
    with pytest.raises(ValueError, match=message):
        Vectors(path, tree_file="tree.json").load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,x\n\nowl,1\njay,1,2\n", "line 4 has 3 cells, the first line has 2"),
        ("label,x\nowl,1\njay\n", "line 3 has 1 cells, the first line has 2"),
        ("label,x\nowl,1\njay,tall\n", "line 3: 'tall' is not a number"),
        ("label,x\nowl,\n", "line 2: '' is not a number"),
        ("label,x\nowl,nan\n", "not finite"),
        ("name,x\nowl,1\n", r"needs one column called 'label' .* got \['name', 'x'\]"),
        ("label\nowl\n", "needs one column called 'label' and columns of features"),
        ("", "needs one column called 'label'"),
        ("label,x\n", "not empty"),
        ('label,x\n"owl,1\n', "not a CSV file"),
    ],
)
def test_wrong_tables_are_refused(folder, text, message):
    (folder / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        Vectors("a.csv", tree_file="tree.json").load(folder)


def test_ragged_and_empty_cells_of_parquet_are_refused(folder):
    for content, message in (
        ([[1.0, 2.0], [3.0]], r"column 'x' is ragged, with lists of \[1, 2\] numbers"),
        ([1.0, None], "column 'x' has 1 empty cells"),
        (["a", "b"], "column 'x' must hold numbers"),
    ):
        pq.write_table(pa.table({"x": content, "label": ["owl", "jay"]}), folder / "a.parquet")
        with pytest.raises(ValueError, match=message):
            Vectors("a.parquet", tree_file="tree.json").load(folder)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".safetensors", ".parquet", ".csv"])
def test_foreign_and_truncated_files_are_refused(folder, suffix):
    writer = {".npz": write_npz, ".npy": write_npy, ".safetensors": write_safetensors}.get(
        suffix, write_parquet
    )
    name = writer(folder / "a", FEATURES, LABELS)
    whole = (folder / name).read_bytes()
    name = name if suffix != ".csv" else "a.csv"
    for content in (whole[:-60], b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b""):
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=name):
            Vectors(name, tree_file="tree.json").load(folder)


def test_half_precision_features_are_read_and_such_labels_refused(folder):
    features, halves = torch.ones(4, 2).bfloat16(), torch.tensor([0, 1, 0, 1])
    path = write_safetensors(folder / "a", features, halves)
    assert len(Vectors(path).load(folder).samples("train")) == 2
    path = write_safetensors(folder / "a", features, halves.bfloat16())
    with pytest.raises(ValueError, match="labels must be whole numbers or names, got float32"):
        Vectors(path).load(folder)


def test_arrays_of_objects_are_never_unpickled(folder):
    np.savez(folder / "a.npz", features=FEATURES, labels=np.array([print] * 50, dtype=object))
    with pytest.raises(ValueError, match="without objects"):
        Vectors("a.npz").load(folder)


def test_missing_files_and_names_are_reported(folder):
    with pytest.raises(FileNotFoundError, match=r"vectors.npz is missing; put"):
        Vectors().load(folder)
    with pytest.raises(FileNotFoundError, match=r"tree file .*no.json is missing; put it there"):
        Vectors(write_csv(folder / "b", FEATURES, LABELS), tree_file="no.json").load(folder)
    with pytest.raises(
        ValueError, match=r"extension must be one of .npz, .npy, .safetensors, .parquet, .csv"
    ):
        Vectors("a.pkl").load(folder)
    np.savez(folder / "a.npz", x=FEATURES, labels=LABELS)
    with pytest.raises(ValueError, match=r"has no array 'features', only \['labels', 'x'\]"):
        Vectors("a.npz").load(folder)
    np.save(folder / "x.npy", FEATURES)
    with pytest.raises(ValueError, match="needs 'features' in its name"):
        Vectors("x.npy").load(folder)
    np.save(folder / "features.npy", FEATURES)
    with pytest.raises(
        FileNotFoundError, match=r"labels.npy is missing; put the labels of features.npy there"
    ):
        Vectors("features.npy").load(folder)


def test_test_part_must_fit_the_training_part(folder):
    train = write_npz(folder / "train", FEATURES, LABELS)
    test = write_npz(folder / "test", FEATURES[:, :2], LABELS)
    with pytest.raises(ValueError, match=r"test.npz: has 2 features, the training part has 3"):
        Vectors(train, test).load(folder)
    with pytest.raises(ValueError, match=r"test_share must lie between 0 and 1, got 1.0"):
        Vectors(train, test_share=1.0)
