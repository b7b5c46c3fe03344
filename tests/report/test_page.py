"""The page about runs, without a browser."""

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from cophenet._common.tensor_files import dump_tensors
from cophenet.cli import main
from cophenet.report import embedding, render_report, write_report
from cophenet.report.answer import Command, Detail
from cophenet.report.names import short_names
from cophenet.report.page import mistake_paths
from cophenet.report.page_data import training_curves
from cophenet.runs import Run
from cophenet.tree import Hierarchy

from .made_runs import DIGITS, make_run

EVIL = '<script>document.title="owned"</script>'


@pytest.fixture(autouse=True, scope="module")
def _without_umap():
    """Layouts take their time, and are tested by themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "umap", None)
        patch.setitem(sys.modules, "sklearn.manifold", None)
        yield


@pytest.fixture(scope="module")
def pair(_without_umap, tmp_path_factory):
    """Two runs of two seeds, and the page about them."""
    folder = tmp_path_factory.mktemp("pair")
    runs = [make_run(folder / name, objective=name, seeds=(0, 1)) for name in ("flat", "fastft")]
    return runs, render_report(runs)


class Page(HTMLParser):
    """Tags, ids, headings and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.text, self.open, self.scripts = [], [], "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]
        if tag in ("ul", "li", "details", "section", "table", "figure", "fieldset", "div"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("ul", "li", "details", "section", "table", "figure", "fieldset", "div"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.lasttag == "script":
            self.scripts.append(data)
        else:
            self.text += data

    @property
    def charts(self):
        """What the charts of each comparison are drawn from."""
        return json.loads(self.scripts[0])["comparisons"]

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def test_everything_is_on_the_page(pair):
    page = Page(pair[1])
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for words in (
        "All runs",
        "against Flat",
        "by chance",
        "always the largest",
        "Worst mistakes",
        "The runs",
    ):
        assert words in page.text
    targets = [a["href"][1:] for a in page.all("a")]
    assert set(targets) <= set(page.ids)
    drawn = [div["data-kind"] for div in page.all("div") if div.get("class") == "chart"]
    assert drawn == ["levels", "metric", "curves", "tree", "matrix", "map"]
    plots = [div for div in page.all("div") if div.get("class") == "plot"]
    assert all(len(plot["aria-label"]) > 20 for plot in plots)


def test_the_answer_comes_first(pair):
    text = Page(pair[1]).text
    assert text.index("against Flat") < text.index("All runs")
    assert "Flat reaches" in text


def test_sentences_are_shown_by_their_type(tmp_path):
    run = make_run(tmp_path / "run", evaluated=False)
    sentences = ["cophenet has two notes:", Detail("one."), " Another.", Command("cophenet train digits")]
    text = render_report([run], answer=sentences)
    shown = re.search('<div class="answer">(.*?)</div>', text, re.DOTALL)[1]
    own = '<p>cophenet has two notes:</p><p class="item">one.</p><p> Another.</p>'
    assert shown == f"{own}<pre>cophenet train digits</pre>"


def test_better_is_what_the_metric_says(tmp_path):
    """Whatever the levels are called."""
    tree = DIGITS.with_level_names(("↑ shape", "digit"))
    runs = [make_run(tmp_path / name, objective=name, seeds=(0, 1), tree=tree) for name in ("flat", "fastft")]
    for run, values in zip(runs, ([0.05, 0.06], [0.03, 0.0401]), strict=True):
        results = json.loads((run / "results.json").read_text())
        own = {"mean": float(np.mean(values)), "std": None, "values": values}
        results["metrics"]["source/calibration/↑ shape"] = own
        (run / "results.json").write_text(json.dumps(results))
    text = render_report(runs)
    assert "calibration error at ↑ shape ↓<small>" in text
    assert '<span class="gap better">-2.0 [' in text
    # The best of the headline is said to screen readers, too.
    assert text.count('class="star"') == text.count('<span class="unseen"> best</span>') > 1


def test_charts_have_every_run_level_and_node(pair):
    runs, text = pair
    (charts,) = Page(text).charts.values()
    assert [run["name"] for run in charts["runs"]] == ["flat", "fastft"]
    assert [run["color"] for run in charts["runs"]] == [0, 1]
    assert [level["groups"] for level in charts["levels"]] == [3, 7]
    assert charts["levels"][0]["chance"] == pytest.approx(1 / 3)
    assert charts["levels"][0]["majority"] == pytest.approx(3 / 7, abs=1e-4)
    assert charts["reference"] == 0
    key = "source/accuracy/digit"
    values = [json.loads((run / "results.json").read_text())["metrics"][key]["values"] for run in runs]
    mean, low, high = charts["values"]["1"][key]
    assert low <= mean <= high
    assert mean == pytest.approx(np.mean(values[1]), abs=1e-5)
    assert charts["against"]["1"][key][0] == pytest.approx(np.mean(values[1]) - np.mean(values[0]), abs=1e-4)
    assert len(charts["nodes"]["1"]) == DIGITS.num_nodes == len(charts["tree"]["names"])
    assert [(matrix["run"], matrix["name"]) for matrix in charts["matrices"]] == [
        (None, "the tree's own"),
        (0, "l2"),
        (1, "fastft"),
        (1, "l2"),
    ]
    assert [(one["run"], one["method"], one["shown"]) for one in charts["maps"]] == [
        (0, "PCA", 210),
        (1, "PCA", 210),
    ]


def test_packed_distances_are_the_distances(pair):
    runs, text = pair
    (charts,) = Page(text).charts.values()
    packed = charts["matrices"][1]
    codes = np.frombuffer(base64.b64decode(packed["data"]), "<u2")
    details = json.loads((runs[0] / "seed0" / "details.json").read_text())
    expected = details["class_distances"]["l2"]
    np.testing.assert_allclose(packed["low"] + packed["step"] * codes, expected, atol=packed["step"])


def test_runs_on_different_trees_are_not_in_one_comparison(tmp_path):
    other = Hierarchy.from_paths(
        [("odd" if i % 2 else "even", name) for i, name in enumerate(DIGITS.classes)]
    )
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", tree=other)]
    charts = Page(render_report(runs)).charts
    assert [[run["name"] for run in one["runs"]] for one in charts.values()] == [["a"], ["b"]]


def test_long_names_are_shortened_but_never_equal():
    names = [f"a-name-that-goes-on-and-on-{i}-and-ends-alike" for i in range(3)]
    shorts = short_names([*names, "short"], 16)
    assert len(set(shorts)) == 4
    assert shorts[-1] == "short"
    assert max(map(len, short_names([names[0]], 16))) == 16


def test_mistakes_show_files_and_images(tmp_path):
    run = make_run(tmp_path / "run", objective="flat")
    details = json.loads((run / "details.json").read_text())
    details["worst_mistakes"][0] |= {"file": "six/one.png", "image": "iVBORw0KGgo="}
    (run / "details.json").write_text(json.dumps(details))
    page = Page(render_report([run]))
    assert "six/one.png" in page.text
    assert [image["src"] for image in page.all("img")] == ["data:image/png;base64,iVBORw0KGgo="]
    details["worst_mistakes"][0]["image"] = "https://example.org/x.png"
    (run / "details.json").write_text(json.dumps(details))
    with pytest.raises(ValueError, match="must be a PNG file as base64"):
        render_report([run])


def test_mistakes_lead_through_the_group_that_holds_both():
    tree = Hierarchy.from_paths([("a", "b", "1"), ("a", "c", "2"), ("d", "3")])
    shape = {"names": list(tree.names), "parents": tree.parents.tolist()}
    pairs = [{"true": 0, "predicted": 1}, {"true": 2, "predicted": 0}]
    found = mistake_paths(
        {"tree": shape, "classes": tree.classes, "levels": tree.level_names, "worst_mistakes": pairs}
    )
    assert [one["way"] for one in found] == ["1 ↑ b ↑ a ↓ c ↓ 2", "3 ↑ d ↑ root ↓ a ↓ b ↓ 1"]
    assert (found[1]["up"], found[1]["meeting"], found[1]["down"]) == (("d",), "root", ("a", "b"))


def test_nodes_of_an_older_version_are_said(tmp_path):
    run = make_run(tmp_path / "run")
    details = json.loads((run / "details.json").read_text())
    del details["node_prediction"]
    (run / "details.json").write_text(json.dumps(details))
    assert "Evaluate it again" in Page(render_report([run])).text


def test_nothing_is_loaded_from_elsewhere(pair):
    text = re.sub("<script>.*?</script>", "", pair[1], flags=re.DOTALL)
    page = Page(text)
    for _, attrs in page.tags:
        for key in ("src", "href", "xlink:href", "srcset", "action"):
            assert attrs.get(key, "#").startswith(("#", "data:"))
    assert re.findall(r"url\((?!#)|@import", text) == []
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_same_runs_give_the_same_bytes(pair, tmp_path):
    runs, text = pair
    assert write_report(runs, tmp_path / "again.html").read_bytes() == text.encode()


def test_data_of_one_name_is_compared_apart(tmp_path):
    where = {"a": ("/pets", "1"), "b": ("/pets", "1"), "c": ("/cars", "2")}
    runs = [
        make_run(tmp_path / name, epochs=0, evaluated=False, data_dir=folder, checksum=checksum)
        for name, (folder, checksum) in where.items()
    ]
    text = render_report(runs)
    assert re.findall(r"<h2>(.*)</h2>", text) == ["digits in /pets", "digits in /cars"]


def test_paper_numbers_stand_beside_ours(tmp_path):
    tree = DIGITS.with_level_names(("coarse", "fine"))
    runs = [make_run(tmp_path / name, objective=name, data="cifar100", tree=tree) for name in ("l2", "emd")]
    text = render_report(runs)
    assert "paper 81.32 (0.19)" in text  # EMD, fine sAcc
    assert "paper 83.08 (0.11)" in text  # l2, TestCPCC
    assert "tab:fine-detail" in text


def test_names_are_text_wherever_they_stand(tmp_path):
    tree = Hierarchy.from_paths(
        [(EVIL, EVIL + "a"), (EVIL, "$b_1$ & 'c'"), ("g", '"><img src=x onerror=alert(1)>'), ("g", "d")],
        level_names=('<b onclick="x">', "fine"),
    )
    page = Page(render_report([make_run(tmp_path / "<i>run<", tree=tree, samples=60)]))
    assert len(page.all("script")) == 3
    assert not page.all("img")
    assert not page.all("b")
    (charts,) = page.charts.values()
    assert EVIL + "a" in charts["tree"]["names"]
    assert "$b_1$ & 'c'" in charts["tree"]["names"]


def test_a_run_that_lost_its_details_is_not_evaluated(tmp_path):
    lost, whole = (make_run(tmp_path / name, objective=name) for name in ("flat", "fastft"))
    (lost / "details.json").unlink()
    page = Page(render_report([lost, whole]))
    assert "This run was not evaluated: run" in page.text
    assert f"cophenet evaluate {lost}" in page.text


def test_missing_pieces_are_said(tmp_path):
    fresh = make_run(tmp_path / "fresh", evaluated=False, epochs=0)
    bare = make_run(tmp_path / "bare", features=False)
    text = Page(render_report([fresh, bare])).text
    assert f"cophenet evaluate {fresh}" in text
    assert "no metrics.csv with finished epochs" in text
    assert "source-test.safetensors is not there" in text


def test_broken_features_and_absent_classes_are_said(tmp_path):
    run = make_run(tmp_path / "run")
    features = run / "features" / "source-test.safetensors"
    save_file({"features": np.full((9, 2), np.nan, "f4"), "labels": np.arange(9) % 7}, features)
    details = json.loads((run / "details.json").read_text())
    details["class_distances"] = {"l2": [None] * 6 + details["class_distances"]["l2"][6:]}
    details["node_accuracy"]["2"] = {"accuracy": None, "samples": 0}
    details["worst_mistakes"] = []
    (run / "details.json").write_text(json.dumps(details))
    page = Page(render_report([run]))
    (charts,) = page.charts.values()
    assert "features that are not finite" in page.text
    assert charts["nodes"]["0"][2] is None
    codes = np.frombuffer(base64.b64decode(charts["matrices"][1]["data"]), "<u2")
    assert (codes == 65535).tolist() == [True] * 6 + [False] * 15 or 65535 not in codes
    assert "There are no mistakes" in page.text
    features.write_bytes(b"nothing")
    assert "is no file of features" in Page(render_report([run])).text


def test_a_deep_tree_needs_no_deep_stack(tmp_path):
    nested = "leaf"
    for depth in range(120):
        nested = {f"n{depth}": [nested, f"c{depth}"]} if depth % 2 else [nested, f"c{depth}"]
    tree = Hierarchy.from_nested(nested)
    page = Page(render_report([make_run(tmp_path / "deep", tree=tree, samples=242)]))
    assert page.open == []
    (charts,) = page.charts.values()
    assert len(charts["levels"]) == tree.num_levels


def test_twenty_runs(tmp_path):
    """All in one comparison; maps of a few, which take their time, and it says so."""
    runs = [
        make_run(tmp_path / f"run{i}", objective="flat", samples=14, epochs=2 * (i < 3), evaluated=i < 8)
        for i in range(20)
    ]
    page = Page(render_report(runs))
    (charts,) = page.charts.values()
    assert [run["color"] for run in charts["runs"]] == list(range(20))
    assert len(charts["maps"]) == 6
    assert page.text.count("make a page about fewer runs") == 2
    assert len(page.ids) == len(set(page.ids))


def test_only_the_page_is_written(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(run), "-o", str(tmp_path / "out.html")])
    assert not stopped.value.code
    assert capsys.readouterr().out == f"wrote {tmp_path / 'out.html'}\n"
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.html", "run"]


def test_wrong_outputs_are_refused(tmp_path):
    run = make_run(tmp_path / "run", evaluated=False)
    with pytest.raises(ValueError, match=r"output must end in \.html or \.htm, got 'page.pdf'"):
        write_report([run], "page.pdf")
    with pytest.raises(ValueError, match="output must be in a folder that exists"):
        write_report([run], tmp_path / "none" / "page.html")


def test_missing_packages_name_the_extra(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", evaluated=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"reports need jinja2: pip install 'cophenet\[report\]'"):
        render_report([run])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_samples_are_drawn_by_pca(tmp_path, count):
    path = tmp_path / "f.safetensors"
    features = np.eye(4, dtype="f4")[:count]
    save_file({"features": features, "labels": np.arange(count)}, path)
    drawn = embedding.embed(path, 4)
    assert (drawn.points.shape, drawn.method) == ((count, 2), "PCA")
    assert "UMAP needs 5 samples" in drawn.note


def test_pca_keeps_distances_in_the_plane(tmp_path):
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(40, 2)) @ np.linalg.qr(rng.normal(size=(6, 6)))[0][:2]
    path = tmp_path / "f.safetensors"
    save_file({"features": flat.astype("f4"), "labels": np.zeros(40, "i8")}, path)
    points = embedding.embed(path, 4).points
    gaps = [np.linalg.norm(x[:, None] - x, axis=2) for x in (flat, points)]
    np.testing.assert_allclose(*gaps, atol=1e-4)
    assert list(tmp_path.iterdir()) == [path]  # only UMAP is worth keeping


@pytest.mark.parametrize("labels", [[0, 1, 2, 4], [0, 1, 2, -1], [0.0, 1.0, 2.0, 3.0]])
def test_labels_that_are_no_classes_are_refused(labels, tmp_path):
    path = tmp_path / "f.safetensors"
    save_file({"features": np.eye(4, dtype="f4"), "labels": np.array(labels)}, path)
    with pytest.raises(ValueError, match=r"f.safetensors holds labels that are no classes from 0 to 3"):
        embedding.embed(path, 4)


@pytest.mark.parametrize("wrong", [np.full((9, 2), np.nan, "f4"), np.zeros((9, 2), "i8"), np.zeros(9, "f4")])
def test_saved_layouts_that_cannot_be_drawn_are_made_again(wrong, tmp_path, monkeypatch):
    path = tmp_path / "f.safetensors"
    save_file({"features": np.eye(9, dtype="f4"), "labels": np.zeros(9, "i8")}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    save_file({"points": wrong}, tmp_path / "umap-f.safetensors", metadata={"features": digest})
    monkeypatch.setattr(embedding, "_umap", lambda z: z[:, :2])
    np.testing.assert_array_equal(embedding.embed(path, 1).points, np.eye(9, dtype="f4")[:, :2])


def test_a_file_of_features_is_not_read_whole_to_be_told_from_others(tmp_path, monkeypatch):
    path, made = tmp_path / "f.safetensors", []
    monkeypatch.setattr(embedding, "_umap", lambda z: made.append(1) or z[:, :2])
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read into memory"))
    for value in (1.0, 1.0, 2.0):
        features = torch.full((9, 3), value)
        path.write_bytes(dump_tensors({"features": features, "labels": torch.zeros(9, dtype=torch.int64)}))
        embedding.embed(path, 1)
    assert len(made) == 2


def test_numbers_too_large_for_a_picture_name_their_file(tmp_path):
    run = make_run(tmp_path / "run")
    rows = [f"{epoch},train,{loss}" for epoch, loss in ((1, 2.0), (2, 1e308))]
    (run / "metrics.csv").write_text("\n".join(["epoch,phase,train/loss", *rows]) + "\n")
    with pytest.raises(ValueError, match=r"metrics.csv: train/loss is 1e\+308 in epoch 2, too large to be"):
        training_curves(Run.open(run))
