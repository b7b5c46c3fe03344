"""Names from files in CSV: a spreadsheet does not run them, and our readers give them back."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cophenet import Hierarchy
from cophenet._common.csv_cells import from_cell, to_cell
from cophenet.cli import main
from cophenet.runs.callbacks import _write_rows
from cophenet.runs.run import Run
from cophenet.vectors import read_vectors, write_vectors

HOSTILE = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "'=1", "''-x", "－1+1"]  # noqa: RUF001
STARTS = tuple("=+-@\t\r\n")


def harmless(cell):
    """What a spreadsheet shows and does not run."""
    try:
        float(cell)
    except ValueError:
        return not cell.startswith(STARTS) or len(cell) < 2
    return True


def cells(text, delimiter=","):
    return [cell for row in csv.reader(io.StringIO(text), delimiter=delimiter) for cell in row]


@given(st.text("=+-@\t\r\n'1e.a"))
def test_every_text_is_harmless_and_comes_back(text):
    cell = to_cell(text)
    assert harmless(cell)
    assert from_cell(cell) == text


def test_numbers_and_plain_names_stay():
    plain = [-1.5, 3, None, "-7", "+1e-3", "owl", "-", "'quoted'", "a=b"]
    assert [to_cell(value) for value in plain] == plain


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_trees(ending, tmp_path):
    tree = Hierarchy.from_paths([("=kind", name) for name in HOSTILE], level_names=["@a", "-b"])
    weighted = Hierarchy.from_parents(
        tree.parents, tree.names, tree.edge_weights * 2, level_names=["@a", "-b"]
    )
    for one in (tree, weighted):
        path = tmp_path / f"tree.{ending}"
        one.write(path)
        assert Hierarchy.read(path) == one
        first, _, rest = path.read_text().partition("\n")
        assert first.startswith("# root")
        assert all(map(harmless, cells(rest, "\t" if ending == "tsv" else ",")))


def test_vectors_and_predictions(tmp_path):
    rows, labels = np.tile(np.eye(len(HOSTILE)), (4, 1)), np.tile(HOSTILE, 4)
    path = tmp_path / "vectors.csv"
    write_vectors(path, [{"features": -rows, "labels": labels}])
    assert all(map(harmless, cells(path.read_text())))
    features, texts = read_vectors(path)
    assert texts == labels.tolist()
    assert (features == -rows).all()
    with pytest.raises(SystemExit) as end:
        main(["embed", str(path), "-o", str(tmp_path / "out.csv"), "--save", str(tmp_path / "model")])
    assert end.value.code == 0
    assert read_vectors(tmp_path / "out.csv")[1] == labels.tolist()
    with pytest.raises(SystemExit) as end:
        main(["predict", str(path), "--model", str(tmp_path / "model"), "-o", str(tmp_path / "p.csv")])
    assert end.value.code == 0
    answers = cells((tmp_path / "p.csv").read_text())
    assert all(map(harmless, answers))
    assert {from_cell(cell) for cell in answers} >= set(HOSTILE)


def test_metrics_of_a_training(tmp_path):
    rows = [{"epoch": 1.0, "phase": "=level", "train/-x": -0.5}]
    _write_rows(tmp_path / "metrics.csv", rows)
    assert all(map(harmless, cells((tmp_path / "metrics.csv").read_text())))
    (tmp_path / "run.json").write_text('{"seed": 0}')
    assert Run(tmp_path).metrics == rows
