"""The command `cophenet measure` on small files."""

import warnings

import numpy as np
import pytest
import torch

from cophenet import Hierarchy, class_distances, cpcc
from cophenet.cli import main
from cophenet.metrics import class_prototypes, level_accuracy, level_labels, prototype_map

TREE = Hierarchy.from_paths([(f"p{c // 2}", f"c{c}") for c in range(6)])


@pytest.fixture
def files(tmp_path):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 6
    features = torch.randn(60, 5, generator=generator) + 2 * labels[:, None]
    logits = torch.randn(60, 6, generator=generator)
    for name, values in (("features", features), ("labels", labels), ("logits", logits)):
        np.save(tmp_path / f"a-{name}.npy", values[:25].numpy())
        np.save(tmp_path / f"b-{name}.npy", values[25:].numpy())
    TREE.write(tmp_path / "tree.json")
    return tmp_path, features, labels, logits


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["measure", *map(str, arguments)])
    return stop.value.code or 0, capsys.readouterr()


def test_the_numbers_are_those_of_the_functions(files, capsys):
    folder, features, labels, logits = files
    parts = [folder / "a-features.npy", folder / "b-features.npy"]
    options = ["--tree", folder / "tree.json", "--train", parts[0]]
    code, printed = run(capsys, *parts, *options)
    assert (code, printed.err) == (0, "")
    table = {tuple(line.split()[:2]): line.split()[2] for line in printed.out.splitlines()[1:]}
    expected = {
        ("CPCC", name): cpcc(class_distances(features, labels, name)[1], TREE.condensed())
        for name in ("l2", "fastft")
    }
    for level, rate in level_accuracy(logits.softmax(1), labels, TREE).items():
        expected["accuracy", level] = rate
        own = level_labels(labels, TREE, level)
        classes, means = class_prototypes(features[:25], own[:25])
        expected["MAP", level] = prototype_map(features, own, means, classes)
    assert table == {key: f"{value:.4f}" for key, value in expected.items()}


def test_one_distance_and_nothing_else(files, capsys):
    folder = files[0]
    for part in "ab":
        (folder / f"{part}-logits.npy").unlink()
    options = ["--tree", folder / "tree.json", "--distance", "l2"]
    _, printed = run(capsys, folder / "a-features.npy", *options)
    assert [line.split()[:2] for line in printed.out.splitlines()] == [["metric", "of"], ["CPCC", "l2"]]


def test_wrong_input_is_one_line(files, capsys):
    folder = files[0]
    small = folder / "small.json"
    Hierarchy.from_paths([("a",), ("b",)]).write(small)
    code, printed = run(capsys, folder / "a-features.npy", "--tree", small)
    assert (code, printed.err) == (2, f"error: {folder}/a-features.npy: labels must lie in 0..1, got 5\n")
    wrong = np.load(folder / "b-features.npy")
    wrong[3] = np.nan
    np.save(folder / "b-features.npy", wrong)
    both = [folder / "a-features.npy", folder / "b-features.npy"]
    code, printed = run(capsys, *both, "--tree", folder / "tree.json")
    assert (code, printed.err.count("\n")) == (2, 1)
    assert f"{folder}/b-features.npy: features must be finite" in printed.err
    np.save(folder / "a-labels.npy", np.zeros(25, dtype=bool))
    code, printed = run(capsys, both[0], "--tree", folder / "tree.json")
    assert code == 2
    assert "a-features.npy: labels must be integers" in printed.err
    code, printed = run(capsys, folder / "none-features.npy", "--tree", folder / "tree.json")
    assert code == 2
    assert printed.err.count("\n") == 1
    assert "is missing" in printed.err


def test_what_is_undefined_says_why(files, capsys):
    folder = files[0]
    np.save(folder / "a-labels.npy", np.zeros(25, dtype=np.int64))
    code, printed = run(capsys, folder / "a-features.npy", "--tree", folder / "tree.json", "--distance", "l2")
    assert (code, printed.err) == (0, "")
    assert "undefined: " in printed.out.splitlines()[1]
    assert "nan" not in printed.out


@pytest.mark.filterwarnings("default")
def test_warnings_that_are_no_reasons_are_shown(files, capsys, monkeypatch):
    def odd(*_, **__):
        warnings.warn("something is odd", UserWarning, stacklevel=2)
        return 0.5

    monkeypatch.setattr("cophenet.metrics.streaming.stream_cpcc", odd)
    folder = files[0]
    code, printed = run(capsys, folder / "a-features.npy", "--tree", folder / "tree.json", "--distance", "l2")
    assert (code, printed.err) == (0, "warning: something is odd\n")
    assert "0.5000" in printed.out
