"""The commands on files of vectors."""

import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import save_file

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.cli import main
from cophenet.estimator.comparison import METHODS
from cophenet.vectors import read_vectors
from estimator.vectors import TREE, clouds

ROWS, NAMES = clouds(width=3)
ROWS = ROWS.astype(np.float32)


@pytest.fixture(scope="module")
def fitted():
    embedder = HierarchicalEmbedder(TREE, max_iter=2, hidden_size=16, random_state=0)
    return embedder.fit(ROWS, NAMES).build_index(ROWS, NAMES)


@pytest.fixture
def one_epoch(monkeypatch):
    """The estimator fits for one epoch."""
    fit = HierarchicalEmbedder.fit
    monkeypatch.setattr(
        HierarchicalEmbedder, "fit", lambda self, *data: fit(self.set_params(max_iter=1), *data)
    )


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_embed_predict_and_search_from_a_shell(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    np.save(tmp_path / "new.npy", ROWS[:5])
    TREE.write(tmp_path / "tree.json")
    model = tmp_path / "model"
    code = run(
        "embed", tmp_path / "train.npz", "--tree", tmp_path / "tree.json", "--save", model,
        "-o", tmp_path / "out.parquet",
    )  # fmt: skip
    assert code == 0
    loaded = HierarchicalEmbedder.load(model)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in printed[-6:]] == [
        ["metric", "of"], ["accuracy", "kind"], ["accuracy", "group"], ["accuracy", "breed"],
        ["CPCC", "given"], ["CPCC", "reshaped"],
    ]  # fmt: skip
    assert float(printed[-1][2]) > float(printed[-2][2])
    # What embed writes, measure reads.
    measured = ["measure", tmp_path / "out.parquet", "--tree", tmp_path / "tree.json", "--distance", "l2"]
    assert run(*measured) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["CPCC", "l2", printed[-1][2]]
    features, labels = read_vectors(tmp_path / "out.parquet")
    assert_allclose(features, loaded.transform(ROWS), rtol=1e-5)
    assert labels == NAMES.tolist()
    assert run("embed", tmp_path / "new.npy", "--model", model, "-o", tmp_path / "new.csv") == 0
    assert "CPCC" not in capsys.readouterr().out  # there are no labels
    np.savez(tmp_path / "known.npz", features=ROWS[:40], labels=NAMES[:40])
    assert run("embed", tmp_path / "known.npz", "--model", model, "-o", tmp_path / "known.csv") == 0
    rate = capsys.readouterr().out.splitlines()[-3].split()
    assert rate[:2] == ["accuracy", "breed"]
    assert float(rate[2]) == pytest.approx(loaded.score(ROWS[:40], NAMES[:40]), abs=1e-4)
    assert run("predict", tmp_path / "new.npy", "--model", model, "-o", tmp_path / "answers.npz") == 0
    with np.load(tmp_path / "answers.npz") as answers:
        assert answers["prediction"].tolist() == loaded.predict(ROWS[:5]).tolist()
        assert_allclose(answers["probability"], loaded.predict_proba(ROWS[:5]).max(1), rtol=1e-5)
    found = tmp_path / "found.csv"
    gallery = ["--model", model, "--index", tmp_path / "train.npz", "-k", 3, "--level", "kind"]
    assert run("search", tmp_path / "new.npy", *gallery, "-o", found) == 0
    lines = found.read_text().splitlines()
    assert lines[0] == "row,query,rank,similarity,node,group"
    assert len(lines) == 16
    assert lines[1].startswith("0,0,1,")
    capsys.readouterr()
    assert run("search", tmp_path / "new.npy", *gallery) == 0
    assert "query 4\n" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:all pairs of classes")
@pytest.mark.usefixtures("one_epoch")
def test_a_comparison_without_groups_has_no_cpcc(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    Hierarchy.from_paths([(name,) for name in TREE.classes]).write(tmp_path / "flat.json")
    assert run("embed", tmp_path / "train.npz", "--tree", tmp_path / "flat.json", "--compare") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[-1] == "CPCC"
    assert {row.split()[-1] for row in rows} == {"-"}


@pytest.mark.usefixtures("one_epoch")
def test_compare_prints_what_the_tree_gives(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    TREE.write(tmp_path / "tree.json")
    assert run("embed", tmp_path / "train.npz", "--compare") == 2
    assert run("embed", tmp_path / "train.npz", "--tree", tmp_path / "tree.json") == 2
    capsys.readouterr()
    assert run("embed", tmp_path / "train.npz", "--tree", tmp_path / "tree.json", "--compare") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in rows[-5:]] == list(METHODS)
    assert "accuracy kind" in header
    # Every score is shown in its own unit.
    units = [re.sub("[0-9-]", "", score) for score in rows[-1].split("  ") if score][1:]
    assert [unit.strip() for unit in units] == [".%"] * 3 + ["."] + [".%"] * 4
    assert "MAP breed" in header
    assert sorted(file.name for file in tmp_path.iterdir()) == ["train.npz", "tree.json"]


def test_errors_in_a_shell_are_one_line(tmp_path, capsys):
    np.save(tmp_path / "new.npy", ROWS[:5])
    assert run("embed", tmp_path / "new.npy", "-o", tmp_path / "out.npz") == 2
    assert "has no labels to fit on" in capsys.readouterr().err
    assert run("embed", tmp_path / "new.npy", "-o", tmp_path / "out.txt") == 2
    assert run("predict", tmp_path / "new.npy", "--model", tmp_path, "-o", tmp_path / "out.csv") == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new.npy"]


EMBED, SEARCH = "embed {} -o o.npz", "search good.npz --model model {}"
PREDICT = "predict good.npz --model model -o o.csv {}"
COMPARE = "embed good.npz --tree tree.yaml --compare {}"
SURE = f"{PREDICT} --decision specific-if-confident"


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        (EMBED, "cow.npz --tree tree.yaml", "cow.npz: has labels that are not in the tree: ['cow']"),
        (EMBED, "one.npz --tree tree.yaml", "one.npz: has labels of one class only, 'cat'"),
        (EMBED, "good.npz --tree-strength 3", "--tree-strength must be a number from 0 to 1"),
        (EMBED, "good.npz --objective l3", "--objective must be one of"),
        (PREDICT, "--decision sure", "--decision must be one of"),
        (SURE, "--error-target 2", "--error-target must lie between"),
        (SURE, "--error-target 0.001", "--error-target 0.001 cannot"),
        (SEARCH, "-k 999", "-k must be at most 120"),
        (SEARCH, "--level 9", "--level must be a depth from 1 to 3"),
        (SEARCH, "--index good.npz --backend x", "--backend must be one of"),
        (SEARCH, "--backend faiss", "--backend faiss is for --index"),
        (SEARCH, "--labels names", "--labels names is for --index"),
        (SEARCH, "--index bare.npy --labels names", "--labels names is about the labels of a file, but bare"),
        (EMBED, "good.npz --model model --objective l2", "--objective l2 is for fitting: --model uses"),
        (EMBED, "good.npz --model model --tree-strength 0", "--tree-strength 0 is for fitting"),
        (EMBED, "good.npz --model model --seed 0", "--seed 0 is for fitting"),
        (EMBED, "good.npz --model model --tree tree.yaml", "--tree tree.yaml is for fitting"),
        (EMBED, "good.npz --model model --save new", "--save new is for fitting"),
        (EMBED, "good.npz --model model --compare", "--compare is for fitting"),
        (EMBED, "good.npz --trust", "--trust is for --model"),
        (EMBED, "good.npz cow.npz --model model --labels names", "--labels names is for the scores of one"),
        (EMBED, "bare.npy --model model --labels names", "--labels names is about the labels of a file"),
        (COMPARE, "--objective l2", "--objective l2 is for what -o writes"),
        (COMPARE, "--tree-strength 1", "--tree-strength 1 is for what -o writes"),
    ],
)
def test_errors_in_a_shell_speak_of_options(fitted, tmp_path, capsys, monkeypatch, command, options, message):
    monkeypatch.chdir(tmp_path)
    TREE.write("tree.yaml")
    fitted.save("model")
    np.savez("good.npz", features=ROWS, labels=NAMES)
    np.save("bare.npy", ROWS)
    np.savez("cow.npz", features=ROWS, labels=np.where(NAMES == "cat", "cow", NAMES))
    np.savez("one.npz", features=ROWS, labels=np.full(len(ROWS), "cat"))
    assert run(*command.format(options).split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("one_epoch")
def test_names_in_safetensors_are_written_read_and_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TREE.write("tree.yaml")
    np.savez("train.npz", features=ROWS, labels=NAMES)
    assert run("embed", "train.npz", "--tree", "tree.yaml", "-o", "out.safetensors") == 0
    assert read_vectors("out.safetensors")[1] == NAMES.tolist()
    capsys.readouterr()
    assert run("measure", "out.safetensors", "--tree", "tree.yaml") == 0
    assert "CPCC" in capsys.readouterr().out
    assert run("embed", "out.safetensors", "--tree", "tree.yaml", "-o", "again.npz") == 0


PERMUTED = Hierarchy.from_paths(["pet/dog/4", "pet/dog/3", "pet/2", "car/1", "car/0"], sep="/")
CODES = np.array([TREE.index(name) for name in NAMES])


def embed_and_read(tmp_path, file, tree, *options):
    """The fitted model, or the exit code of a failure."""
    tree.write(tmp_path / "tree.json")
    code = run(
        "embed", file, "--tree", tmp_path / "tree.json", "--save", tmp_path / "model",
        "-o", tmp_path / "out.npz", *options,
    )  # fmt: skip
    return code or HierarchicalEmbedder.load(tmp_path / "model")


@pytest.mark.usefixtures("one_epoch")
def test_numbers_in_a_file_are_names_or_positions_but_never_guessed(tmp_path, capsys, monkeypatch):
    given, fit = [], HierarchicalEmbedder.fit

    def noting(self, rows, labels):
        given.append((rows.dtype, labels.tolist()))
        return fit(self, rows, labels)

    monkeypatch.setattr(HierarchicalEmbedder, "fit", noting)
    plain, run_file = tmp_path / "plain.npz", tmp_path / "run.safetensors"
    np.savez(plain, features=ROWS, labels=CODES)
    tensors = {"features": torch.from_numpy(ROWS), "labels": torch.from_numpy(CODES)}
    save_file({**tensors, "logits": torch.zeros(len(ROWS), 5)}, run_file)
    # No name is a number: these are positions.
    embed_and_read(tmp_path, plain, TREE)
    assert given.pop()[1] == NAMES.tolist()
    # Names are a permutation of positions: the file of a run has positions, of others it must be said.
    embed_and_read(tmp_path, run_file, PERMUTED)
    assert given.pop()[1] == (4 - CODES).astype(str).tolist()
    capsys.readouterr()
    assert embed_and_read(tmp_path, plain, PERMUTED) == 2
    assert "may be names or positions: say which with --labels" in capsys.readouterr().err
    embed_and_read(tmp_path, plain, PERMUTED, "--labels", "names")
    assert given.pop()[1] == CODES.astype(str).tolist()
    model = embed_and_read(tmp_path, plain, PERMUTED, "--labels", "positions")
    assert given.pop()[1] == (4 - CODES).astype(str).tolist()
    # The same with a model, which counts its scores by labels.
    again = ["embed", plain, "--model", tmp_path / "model", "-o", tmp_path / "again.npz"]
    assert run(*again) == 2
    assert run(*again, "--labels", "positions") == 0
    # And when searching.
    found = ["search", plain, "--model", tmp_path / "model", "--index", plain, "-k", 1, "--level", 1]
    assert run(*found) == 2
    capsys.readouterr()
    assert run(*found, "--labels", "positions", "-o", tmp_path / "found.csv") == 0
    groups = [line.split(",")[-1] for line in (tmp_path / "found.csv").read_text().splitlines()[1:]]
    names = [PERMUTED.path(PERMUTED.leaves[code])[0] for code in CODES]
    assert groups == names
    assert model.classes_.tolist() == ["0", "1", "2", "3", "4"]
    assert embed_and_read(tmp_path, plain, TREE, "--labels", "numbers") == 2


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("out.npy", "needs 'features' in its name"),
        ("none/out.npz", "there is no folder"),
    ],
)
def test_a_wrong_output_is_reported_before_the_work(tmp_path, output, message, capsys, monkeypatch):
    monkeypatch.setattr(HierarchicalEmbedder, "fit", lambda *_: pytest.fail("has begun"))
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    assert run("embed", tmp_path / "train.npz", "-o", tmp_path / output) == 2
    assert message in capsys.readouterr().err
    (tmp_path / "notes").mkdir()
    assert run("embed", tmp_path / "train.npz", "--save", tmp_path / "notes", "-o", tmp_path / "o.npz") == 2
    assert "is no saved model" in capsys.readouterr().err


def test_several_files_are_answered_by_a_model_that_is_loaded_once(fitted, tmp_path, monkeypatch):
    loads, load = [], HierarchicalEmbedder.load
    monkeypatch.setattr(HierarchicalEmbedder, "load", lambda folder: loads.append(folder) or load(folder))
    fitted.save(tmp_path / "model")
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, ROWS[:5])
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    assert run("predict", *files, "--model", tmp_path / "model", "-o", tmp_path / "answers") == 0
    assert len(loads) == 1


def test_a_target_without_its_decision_is_refused_in_a_shell(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "model")
    np.save(tmp_path / "new.npy", ROWS[:5])
    options = ["--model", tmp_path / "model", "-o", tmp_path / "out.csv", "--error-target", 0.5]
    assert run("predict", tmp_path / "new.npy", *options) == 2
    assert "error: --error-target is for decision" in capsys.readouterr().err
