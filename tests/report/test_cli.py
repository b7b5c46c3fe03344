"""The commands that compare and report."""

import csv
import json
import re
import subprocess
import sys

import pytest

from cophenet.cli import main

from .made_runs import make_run


def run(capsys, *argv):
    """Exit code, output and errors of a command."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in argv])
    out, err = capsys.readouterr()
    return stopped.value.code or 0, out, err


def test_compare_prints_and_writes(tmp_path, capsys):
    runs = [make_run(tmp_path / name, objective=name) for name in ("flat", "fastft")]
    code, out, err = run(capsys, "compare", *runs)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("run ")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["flat", "fastft"]
    file = tmp_path / "table.csv"
    code, out, err = run(capsys, "compare", *runs, "-f", "csv", "-o", file, "-m", "source/severity")
    assert (code, out, err) == (0, f"wrote {file}\n", "")
    rows = list(csv.reader(file.read_text().splitlines()))
    assert rows[0] == [
        "run",
        "data",
        "objective",
        "scale",
        "seeds",
        "source/severity mean",
        "source/severity std",
    ]
    assert rows[1] == ["flat", "digits", "flat", "laptop", "0", "1.5", ""]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fastft", "flat", "table.csv"]


@pytest.mark.parametrize(
    ("format", "start"), [("markdown", "| run |"), ("latex", "% needs"), ("csv", "run,"), ("json", "{\n")]
)
def test_compare_formats(tmp_path, capsys, format, start):
    code, out, _ = run(capsys, "compare", make_run(tmp_path / "flat"), "--format", format)
    assert code == 0
    assert out.startswith(start)


def test_compare_for_machines(tmp_path, capsys):
    code, out, _ = run(capsys, "compare", make_run(tmp_path / "flat"), "--json", "-m", "source/severity")
    document = json.loads(out)
    assert code == 0
    assert document["metrics"][0]["key"] == "source/severity"
    (only,) = document["runs"]
    assert (only["run"], only["seeds"], only["metrics"]["source/severity"]["mean"]) == ("flat", [0], 1.5)


def test_compare_writes_one_format(tmp_path, capsys):
    code, out, err = run(capsys, "compare", make_run(tmp_path / "flat"), "--json", "--format", "csv")
    assert (code, out) == (2, "")
    assert err == "error: --json is --format json, got --format csv too: give one of them\n"


@pytest.mark.parametrize("command", ["compare", "report"])
def test_wrong_calls_are_one_line(tmp_path, capsys, command):
    code, _, err = run(capsys, command, tmp_path / "nowhere", *(["-o", "x.html"] * (command == "report")))
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: no run folder at")


@pytest.mark.parametrize("command", ["compare", "report"])
def test_a_folder_for_the_output_that_is_not_there(tmp_path, capsys, command):
    code, _, err = run(capsys, command, make_run(tmp_path / "a"), "-o", tmp_path / "none" / "x.html")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: output must be in a folder that exists")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("compare {run} -m source/cal", ["source/calibration/digit"]),
        (
            "compare {run} -m source/severity -m source/acc",
            ["source/accuracy/shape", "source/accuracy/digit"],
        ),
        ("compare {run} --metric ''", None),
        ("compare -m target/acc", ["target/accuracy"]),
        ("compare nowhere -m full/cpcc-", ["full/cpcc-orders", "full/cpcc-trained-tree"]),
    ],
)
def test_metrics_are_completed(tmp_path, monkeypatch, capsys, typed, expected):
    folder = make_run(tmp_path / "a")
    line = f"cophenet {typed.format(run=folder)}"
    monkeypatch.setenv("_COPHENET_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    _, out, _ = run(capsys)
    if expected is None:
        expected = list(json.loads((folder / "results.json").read_text())["metrics"])
    assert out.split() == expected


@pytest.mark.parametrize("command", ["evaluate", "compare", "report"])
def test_usage_names_runs_once(capsys, command):
    _, out, _ = run(capsys, command, "--help")
    assert re.search(r" \{?RUN\}?\.\.\.\n", out)


def test_compare_names_the_command_that_is_missing(tmp_path, capsys):
    folder = make_run(tmp_path / "fresh", evaluated=False)
    code, _, err = run(capsys, "compare", folder)
    assert code == 2
    assert err.endswith(f"`cophenet evaluate {folder}`\n")
    code, _, err = run(capsys, "compare", make_run(tmp_path / "a"), "-m", "source/accuracy")
    assert code == 2
    assert "metric must be one of" in err


@pytest.mark.parametrize("command", ["compare", "report"])
def test_help_has_an_example_and_loads_nothing(command):
    code = f"""
import sys
from cophenet.cli import main
try:
    main(["{command}", "--help"])
except SystemExit as stopped:
    print(stopped.code, [name for name in ("torch", "matplotlib", "numpy", "jinja2") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"Example: cophenet {command} runs/" in done.stdout
    assert done.stdout.rstrip().endswith("0 []")
