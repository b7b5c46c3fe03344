"""Tables in every format."""

import csv
import io
import re
from dataclasses import replace

import pytest

from cophenet.report import Cell, Published, Table, make_table

from .made_runs import accuracies, result

ACC, SEV = "source/accuracy/fine", "source/severity"


def test_tables_become_data_frames():
    table = make_table(
        ["a", "=b"], [result(seeds=(0, 1), source_severity=(1.5, 0.1)), result(source_severity=(2.0, None))]
    )
    for package in ("pandas", "polars"):
        frame = pytest.importorskip(package).DataFrame(table.to_columns())
        assert list(frame["run"]) == ["a", "=b"]
        assert list(frame["source/severity mean"]) == [1.5, 2.0]
        assert frame.shape[0] == 2


def test_terminal_marks_spreads_and_published_numbers():
    runs = [
        result("fastft", "cifar100", (0, 1), source_accuracy_fine=(0.8, 0.01), source_severity=(2.0, 0.5)),
        result("flat", "cifar100", (0, 1), source_accuracy_fine=(0.7, None)),
    ]
    text = make_table(["ours", "base"], runs).to_terminal()
    assert re.search(
        r"^ours +80\.00 \(1\.00\)\* \[81\.09 \(0\.18\)\] +2\.000 \(0\.500\)$", text, re.MULTILINE
    )
    assert re.search(r"^base +70\.00 \[80\.53 \(0\.31\)\] +-$", text, re.MULTILINE)
    assert "* best of the data set, by more than noise" in text
    assert "[] as published" in text


def test_terminal_breaks_columns_to_the_width():
    run = result()
    run["metrics"] = {
        f"source/accuracy/level{i}": {"mean": i / 10, "std": None, "values": [i / 10]} for i in range(8)
    }
    table = make_table(["a-run"], [run])
    text = table.to_terminal(60)
    tables = text.rsplit("\n\n", 1)[0]
    assert all(len(line) <= 60 for line in tables.splitlines())
    assert [f"{i * 10}.00" in tables for i in range(8)] == [True] * 8
    assert tables.count("a-run") == tables.count("\n\n") + 1 > 1
    assert "\n\n" not in table.to_terminal().rsplit("\n\n", 1)[0]


def test_csv_has_every_digit():
    runs = [
        result("fastft", "cifar100", (0, 1), source_accuracy_fine=(1 / 3, 0.1 + 0.2)),
        result("hxe", 'da"ta,', (4,), source_severity=(2 / 3, None)),
    ]
    rows = list(csv.DictReader(io.StringIO(make_table(['odd, "name"', "b"], runs).to_csv())))
    assert float(rows[0][f"{ACC} mean"]) == 1 / 3
    assert float(rows[0][f"{ACC} std"]) == 0.1 + 0.2
    assert (rows[0][f"{ACC} paper mean"], rows[0][f"{ACC} paper std"]) == ("0.8109", "0.0018")
    assert rows[1][f"{ACC} paper mean"] == rows[1][f"{ACC} mean"] == rows[1][f"{SEV} std"] == ""
    assert (rows[0]["run"], rows[0]["seeds"], rows[1]["data"]) == ('odd, "name"', "0 1", 'da"ta,')
    assert f"{SEV} paper mean" not in rows[0]


def test_csv_holds_no_formulas():
    """Run names and keys of metrics come from folders of others."""
    runs = [result("fastft", "=data", source_severity=(-2 / 3, None)), result("hxe", "+1+1")]
    rows = list(csv.reader(io.StringIO(make_table(["=1+1", "-a"], runs).to_csv())))
    texts = [cell for row in rows for cell in row]
    assert {"'=1+1", "'-a", "'=data", "'+1+1"} <= set(texts)
    assert "-0.6666666666666666" in texts
    assert not [cell for cell in texts if re.match(r"[=+@]|-\D", cell)]


def test_latex_is_escaped_and_balanced():
    names = [r"50%_{a}\b~^&#$", "[b]"]
    text = make_table(names, accuracies(0.9, 0.8)).to_latex()
    assert text.isascii()
    body = re.sub(r"^%.*$", "", text, flags=re.MULTILINE)
    assert (
        r"{50\%\_\{a\}\textbackslash{}b\textasciitilde{}\textasciicircum{}\&\#\$} & \textbf{90.00} \\" in body
    )
    assert "\n{[b]} & 80.00 \\\\" in body
    bare = re.sub(r"\\[{}%&#$_]", "", body)
    assert bare.count("{") == bare.count("}")
    assert all(line.count("&") == 1 for line in bare.splitlines() if line.endswith(r"\\"))


def test_markdown_is_escaped():
    text = make_table(["a|b*c", "d\n_e"], accuracies(0.9, 0.8)).to_markdown()
    lines = text.splitlines()
    assert lines[0] == "| run | fine sAcc ↑ |"
    assert lines[2] == r"| a\|b\*c | **90.00** |"
    assert lines[3] == r"| d \_e | 80.00 |"


def test_undefined_numbers_say_why():
    key = "source/cpcc/l2"
    run = result(missing={key: "one side is constant"})
    run["metrics"] = {key: {"mean": None, "std": None, "values": [None]}}
    table = make_table(["a"], [run])
    assert table.rows[0].cells[0].text == "-"
    assert table.notes == ("a, CPCC l2: one side is constant",)
    for text in (table.to_terminal(), table.to_markdown(), table.to_latex()):
        assert "one side is constant" in text


def document(**options):
    """A table with texts, integers, an unmeasured number and two remarks on published ones."""
    wrong = Published(0.5, 0.01, "tab:a", "contradicts <tab:b>")
    rows = [
        ["fl|at", 3, Cell(0.123456, 0.01, "percent", wrong), Cell(12345.0, None, "count"), "yes"],
        ["[fast]", 12, Cell(None, None, "percent", replace(wrong, note=None)), None, None],
    ]
    return Table.from_rows(["objective_", "seeds", "Acc", "samples", "ok"], rows, **options)


def test_a_document_has_published_numbers_in_a_column():
    table = document(title="Accuracy", notes=["a note"])
    assert table.to_terminal().splitlines() == [
        "Accuracy",
        "",
        "objective_  seeds           Acc             paper  samples  ok",
        "fl|at           3  12.35 (1.00)  50.00 (1.00) [1]   12,345  yes",
        "[fast]         12             -      50.00 (1.00)        -  -",
        "",
        "a note",
        "[1] contradicts <tab:b>",
    ]
    assert table.to_markdown().splitlines() == [
        "**Accuracy**",
        "",
        r"| objective\_ | seeds | Acc | paper | samples | ok |",
        "|:--|:--|--:|--:|--:|:--|",
        r"| fl\|at | 3 | 12.35 (1.00) | 50.00 (1.00) \[1\] | 12,345 | yes |",
        r"| \[fast\] | 12 | - | 50.00 (1.00) | - | - |",
        "",
        "a note",
        "",
        r"\[1\] contradicts \<tab:b\>",
    ]
    assert table.to_csv().splitlines() == [
        "objective_,seeds,Acc,Acc std,Acc paper,samples,samples std,samples paper,ok",
        "fl|at,3,0.123456,0.01,0.5,12345.0,,,yes",
        "[fast],12,,,0.5,,,,",
    ]
    latex = table.to_latex().splitlines()
    assert latex[:3] == ["% Accuracy", "% a note", "% [1] contradicts <tab:b>"]
    assert latex[3:6] == [
        r"\begin{tabular}{lrrrrr}",
        r"\toprule",
        r"objective\_ & seeds & Acc & paper & samples & ok \\ \midrule",
    ]
    assert latex[6] == r"fl\textbar{}at & 3 & 12.35 (1.00) & 50.00 (1.00) [1] & 12,345 & yes \\"


def test_html_is_escaped_and_names_its_rows():
    names = ["<b>&", '"']
    text = make_table(names, accuracies(0.9, 0.8)).to_html()
    assert text.startswith('<table>\n<thead><tr><th scope="col">run</th><th scope="col" title="fine accuracy')
    assert '<tr><th scope="row">&lt;b&gt;&amp;</th><td class="best">90.00<span class="star"' in text
    assert '<tr><th scope="row">&quot;</th><td>80.00</td></tr>' in text
    text = document().to_html("long")
    assert text.startswith('<table class="long">')
    assert '<tr><th scope="row">fl|at</th><td>3</td><td>12.35 (1.00)</td>' in text
    assert "<td>50.00 (1.00)<small>tab:a</small></td>" in text


def test_a_published_number_stands_below_ours_in_html():
    run = result("fastft", "cifar100", source_accuracy_fine=(0.8, 0.01))
    text = make_table(["a"], [run]).to_html()
    assert re.search(r'<small title="tab:[a-z-]+">paper 81\.09 \(0\.18\)</small></td>', text)


def test_a_table_without_rows():
    table = Table.from_rows(["data", "about"], [])
    assert table.to_terminal() == "data  about"
    assert table.to_markdown() == "| data | about |\n|:--|:--|"
    assert table.to_csv() == "data,about"
