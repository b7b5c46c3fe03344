"""The command line, in this process and as real ones."""

import contextlib
import io
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from cophenet import Hierarchy
from cophenet.cli import main
from cophenet.recipes import load_recipe
from forked import call_forked, show_warnings

WEIGHTED = (
    "{format: cophenet-tree, names: [r, a, b], parents: [-1, 0, 0], weights: [0, 1, 2], classes: [a, b]}"
)
TREE = "animal: [cat, dog]\nvehicle: [car, bus]\n"


@pytest.fixture
def run(capsys):
    """Runs a command and gives its exit code, output and error text."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return int(done.value.code or 0), output.out, output.err

    return call


@pytest.fixture
def tree_file(tmp_path):
    path = tmp_path / "tree.yaml"
    path.write_text(TREE)
    return path


@pytest.fixture
def photos(tmp_path):
    """A folder of images in two groups of two classes."""
    for place, name in enumerate(("animal/cat", "animal/dog", "vehicle/bus", "vehicle/car")):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(5):
            colour = tuple(np.random.default_rng([place, number]).integers(0, 255, 3).tolist())
            Image.new("RGB", (40, 30), colour).save(folder / f"{number}.png")
    return tmp_path / "photos"


COMMANDS = (
    ["recipes"],
    ["evaluate"],
    ["measure"],
    ["warm-up"],
    ["data", "list"],
    ["data", "check"],
    ["data", "preview"],
    ["tree", "show"],
    ["tree", "check"],
    ["tree", "convert"],
    ["tree", "review"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(run, command):
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert f"Example: cophenet {' '.join(command)}" in out


@pytest.mark.parametrize("group", [[], ["data"], ["tree"]])
def test_groups_have_an_example_in_a_line_of_its_own(run, group):
    lines = run(*group, "--help")[1].splitlines()
    assert any(line.strip().startswith(" ".join(["Example: cophenet", *group])) for line in lines)


@pytest.mark.parametrize("command", [[], ["data"], ["tree"]])
def test_no_command_shows_the_help(run, command):
    assert run(*command)[0] == 2


def test_version(run):
    assert run("--version")[:2] == (0, "cophenet 0.1.0\n")


def test_recipes_are_listed_one_line_each(run):
    code, out, _ = run("recipes")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["recipe", "paper", "scratch", "laptop", "about"]
    cifar = next(line for line in lines if line.startswith("cifar100 "))
    assert "resnet18, 200 " in cifar
    assert max(len(line) for line in lines) < 120
    assert "digits" not in run("recipes", "--scale", "paper")[1]


def test_a_recipe_is_printed_as_a_file_that_loads(run, tmp_path):
    code, out, _ = run(
        "recipes", "cifar100", "--scale", "paper", "--set", "optimizer.lr=0.05", "--set", "epochs=9"
    )
    (tmp_path / "own.yaml").write_text(out)
    assert code == 0
    expected = load_recipe("cifar100", "paper", ["optimizer.lr=0.05", "epochs=9"])
    assert load_recipe(tmp_path / "own.yaml") == expected
    assert run("recipes", tmp_path / "own.yaml")[1] == out


def test_errors_are_one_line_with_a_hint(run):
    code, out, err = run("recipes", "cifr100")
    assert (code, out) == (2, "")
    assert err.startswith("error: recipe must be one of ")
    assert err.endswith("did you mean 'cifar100'?\n")
    assert err.count("\n") == 1
    assert "did you mean 'lr'?" in run("recipes", "cifar100", "--set", "optimizer.lrr=3")[2]


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="cifr100"):
        main(["recipes", "cifr100", "--debug"])


def test_unexpected_errors_are_named_too(run, monkeypatch):
    monkeypatch.setattr(Hierarchy, "read", lambda *_, **__: 1 / 0)
    code, _, err = run("tree", "show", "any.yaml")
    assert code == 1
    assert err == "error: unexpected ZeroDivisionError: division by zero (--debug shows where)\n"


@pytest.mark.parametrize(
    "wrong",
    [
        ["recipe"],
        ["recipes", "--scale", "huge"],
        ["recipes", "--set", "epochs=3"],
        ["data", "preview", "digits"],
        ["data", "check"],
        ["tree", "show"],
        ["data", "preview", "digits", "-o", "x.png", "--per-class", "0"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2(run, wrong):
    code, _, err = run(*wrong)
    assert code == 2
    assert "Usage: cophenet" in err


def test_data_sets_are_listed(run):
    code, out, _ = run("data", "list")
    named = {line.split()[0] for line in out.splitlines()[1:]}
    assert code == 0
    assert {"digits", "cifar100", "living17", "inat21-mini", "folder", "vectors", "synthetic"} <= named


def test_data_that_needs_no_files_is_counted(run):
    code, out, _ = run("data", "check", "digits")
    assert code == 0
    assert "data 'digits' needs no files" in out
    assert ["train", "full", "1347", "10", "130", "to", "137"] in [line.split() for line in out.splitlines()]
    assert "loops" in out


def test_what_is_missing_is_told(run, tmp_path):
    code, out, err = run("data", "check", "cifar100", "--data-dir", tmp_path)
    assert code == 2
    assert "MISSING" in out
    assert str(tmp_path / "cifar-100-python") in out
    assert err == f"error: files of data 'cifar100' are missing: put them into {tmp_path}\n"
    assert "give --data-dir" in run("data", "check", "cifar100")[2]


def test_a_folder_of_images_is_counted_and_drawn(run, photos, tmp_path):
    code, out, _ = run("data", "check", "folder", "--data-dir", photos)
    assert code == 0
    assert ["train", "full", "16", "4", "4"] in [line.split() for line in out.splitlines()]
    assert "└── vehicle" in out
    sheet = tmp_path / "sheet.png"
    code, out, _ = run("data", "preview", "folder", "--data-dir", photos, "-o", sheet, "--set", "size=48")
    assert (code, out) == (0, f"wrote {sheet}\n")
    with Image.open(sheet) as image:
        assert image.width > 400


def test_vectors_are_checked_as_train_reads_them(run, tmp_path):
    rows = np.repeat(np.eye(4), 5, axis=0)
    np.savez(tmp_path / "vectors.npz", features=rows, labels=np.repeat(["cat", "dog", "bus", "van"], 5))
    code, out, err = run("data", "check", "vectors", "--data-dir", tmp_path)
    assert code == 2
    assert ["MISSING", str(tmp_path / "tree.yaml")] == out.splitlines()[2].split()[:2]
    Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus", "car/van"], sep="/").write(tmp_path / "tree.yaml")
    code, out, err = run("data", "check", "vectors", "--data-dir", tmp_path)
    assert (code, err) == (0, "")
    assert "├── pet" in out
    assert run("data", "check", "vectors", "--data-dir", tmp_path, "--set", "tree_file=null")[0] == 0


def test_broken_images_are_listed_and_others_counted(run, photos):
    for name in ("a.gif", "b.gif", "c.GIF", "notes.txt"):
        (photos / "animal" / "cat" / name).write_bytes(b"")
    code, out, _ = run("data", "check", "folder", "--data-dir", photos)
    assert code == 0
    assert "20 images opened, 0 broken\n3 .gif files passed over\n1 .txt file passed over\n" in out
    cut = photos / "vehicle" / "bus" / "0.png"
    cut.write_bytes(cut.read_bytes()[:45])
    assert run("data", "check", "folder", "--data-dir", photos)[0] == 0
    code, out, err = run("data", "check", "folder", "--data-dir", photos, "--deep")
    assert code == 1
    assert f"image {cut} cannot be read" in out
    assert err.startswith("error: 1 of 20 images of data 'folder' cannot be read; ")
    for number in range(5):
        for name in ("dog", "cat"):
            (photos / "animal" / name / f"{number}.png").write_bytes(b"none")
    code, out, err = run("data", "check", "folder", "--data-dir", photos)
    assert code == 1
    assert out.count("cannot be read") == 5
    assert err.startswith("error: 10 of 20 images of data 'folder' cannot be read (the first 5 are listed)")


def test_options_of_data_are_checked(run):
    assert "has no option 'colour'" in run("data", "check", "digits", "--set", "colour=1")[2]
    assert "did you mean 'digits'?" in run("data", "check", "digit")[2]


def test_a_sheet_of_vectors_is_refused(run, tmp_path):
    code, _, err = run("data", "preview", "synthetic", "-o", tmp_path / "sheet.png")
    assert code == 2
    assert "a sheet shows images" in err
    assert not (tmp_path / "sheet.png").exists()


def test_downloads_need_a_folder_and_a_known_data_set(run, tmp_path, monkeypatch):
    assert "--download needs --data-dir" in run("data", "check", "cifar100", "--download")[2]
    asked = []
    monkeypatch.setattr("cophenet.data.download", lambda *given: asked.append(given))
    code, _, err = run("data", "check", "cifar100", "--download", "--data-dir", tmp_path)
    assert asked == [("cifar100", tmp_path)]
    assert code == 2
    assert "missing" in err


def test_trees_are_drawn(run, tree_file):
    code, out, _ = run("tree", "show", tree_file)
    assert code == 0
    assert out.splitlines()[0] == "4 classes, 7 nodes, height 2 (level1 2, level2 4)"
    assert out.splitlines()[1:] == str(Hierarchy.read(tree_file)).splitlines()
    for lines in (2, 4, 6):  # below the sizes
        assert len(run("tree", "show", tree_file, "--lines", lines)[1].splitlines()) == 1 + lines
    error = "error: --lines must be at least 2, or 0 for all, got 1\n"
    assert run("tree", "show", tree_file, "--lines", 1)[2] == error


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("[cat, dog]", "CPCC is undefined"),
        ("{animal: [cat, dog], car: null}", "classes lie at depths 1 to 2"),
        (WEIGHTED, "edge weights range from 1 to 2"),
        ("{animal: [cat, dog], vehicle: [car]}", "1 of the inner nodes have a single child"),
    ],
)
def test_what_is_unusual_about_a_tree_is_noted(run, tree_file, text, note):
    assert "note:" not in run("tree", "check", tree_file)[1]
    tree_file.write_text(text)
    code, out, _ = run("tree", "check", tree_file)
    assert code == 0
    assert note in out


def test_a_bad_tree_is_an_error_that_names_the_file(run, tree_file):
    tree_file.write_text("{a: [x, x]}")
    code, _, err = run("tree", "check", tree_file)
    assert code == 2
    assert err.startswith(f"error: {tree_file}: ")
    assert run("tree", "show", tree_file.with_name("no.yaml"))[2].endswith(
        "no.yaml: No such file or directory\n"
    )


def test_the_header_of_a_table_is_said(run, tmp_path):
    table = tmp_path / "tree.csv"
    table.write_text("kind,name\nanimal,cat\nanimal,dog\n")
    assert "(kind 1, name 2)" in run("tree", "check", table, "--header")[1]
    assert "3 classes" in run("tree", "check", table, "--no-header")[1]
    assert run("tree", "check", table)[0] == 2


def test_files_of_other_programs_are_read_by_their_format(run, tmp_path):
    file, other = tmp_path / "taxonomy.txt", tmp_path / "tree.json"
    file.write_text("1 - Pets\n2 - Pets > Toys\n3 - Games\n4 - Games > Toys\n")
    assert run("tree", "convert", file, other, "--format", "google")[0] == 0
    assert Hierarchy.read(other).classes == ("Pets/Toys", "Games/Toys")
    assert run("tree", "check", file)[0] == 2


def test_trees_are_reviewed_and_drawn_as_pictures(run, tree_file, tmp_path):
    assert run("tree", "review", tree_file)[:2] == (0, "Nothing is odd in this tree.\n")
    picture = tmp_path / "tree.svg"
    assert run("tree", "show", tree_file, "--svg", picture)[1] == f"wrote {picture}\n"
    assert picture.read_text() == Hierarchy.read(tree_file).to_svg()
    tree_file.write_text("{animal: [cat, dog], vehicle: [car]}")
    assert "1 group has a single child" in run("tree", "review", tree_file)[1]


@pytest.mark.parametrize("ending", ["nwk", "json", "csv", "txt"])
def test_trees_are_converted(run, tree_file, ending):
    other = tree_file.with_suffix(f".{ending}")
    assert run("tree", "convert", tree_file, other)[:2] == (0, f"wrote {other}\n")
    assert Hierarchy.read(other) == Hierarchy.read(tree_file)


def embed(folder, *options):
    """The command in a process that shows warnings; its exit code and error text."""
    os.chdir(folder)
    show_warnings()
    with contextlib.redirect_stderr(io.StringIO()) as err, pytest.raises(SystemExit) as done:
        main(["embed", "v.npz", "--tree", "flat.yaml", "-o", "o.npz", *options])
    return done.value.code, err.getvalue()


@pytest.mark.parametrize("debug", [False, True])
def test_a_warning_is_one_line(debug, tmp_path):
    np.savez(tmp_path / "v.npz", features=np.repeat(np.eye(3), 12, axis=0), labels=np.repeat(list("abc"), 12))
    (tmp_path / "flat.yaml").write_text("[a, b, c]")
    code, err = call_forked(embed, tmp_path, *["--debug"] * debug)
    line = "warning: all pairs of classes are equally far apart in the tree, "
    assert code == 0
    assert (err.startswith(line) and err.count("\n") == 1) is not debug
    assert ("files.py:" in err) is debug


def test_help_imports_little():
    code = "import sys; sys.argv = ['cophenet', '--help']; import runpy\n"
    code += "try: runpy.run_module('cophenet', run_name='__main__')\n"
    code += "except SystemExit: print(len(sys.modules), *{'torch', 'numpy', 'pydantic'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    count, *heavy = out.splitlines()[-1].split()
    assert not heavy
    assert int(count) < 300


def test_the_module_is_a_command(tree_file):
    command = [sys.executable, "-m", "cophenet", "tree", "check", str(tree_file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    wrong = subprocess.run([*command[:-1], "no.yaml"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (2, "error: no.yaml: No such file or directory\n")


def test_without_the_extra_the_command_is_one_line_that_names_it():
    code = "import sys, runpy; sys.modules['typer'] = None; sys.argv = ['cophenet', '--help']\n"
    code += "runpy.run_module('cophenet', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = "error: the command line needs typer: pip install 'cophenet[cli]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


@pytest.mark.parametrize("package", ["pydantic", "yaml"])
def test_without_the_extra_recipes_name_it(package):
    code = f"import sys; sys.modules[{package!r}] = None; import cophenet.recipes"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = f"ImportError: recipes are read with {package}: pip install 'cophenet[cli]'\n"
    assert done.stderr.endswith(told)


@pytest.mark.parametrize(
    ("function", "given"),
    [("options import complete_recipes", ""), ("data import complete_names", "'cifar'")],
)
def test_names_complete_in_a_shell_without_torch(function, given):
    code = f"import sys; from cophenet.cli.{function} as names\n"
    code += f"print('cifar100' in names({given}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
