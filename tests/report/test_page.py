"""The page about runs, without a browser."""

import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import save_file

from cophenet.cli import main
from cophenet.report import embedding, render_report, write_report
from cophenet.report.curves import Curve, curves_figure, training_curves
from cophenet.report.style import as_svg
from cophenet.runs import Run
from cophenet.tree import Hierarchy

from .made_runs import DIGITS, even_tree, make_run

EVIL = '<script>document.title="owned"</script>'


@pytest.fixture(autouse=True, scope="module")
def _without_umap():
    """UMAP takes seconds to load, and is tested by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "umap", None)
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
        self.tags, self.ids, self.text, self.open = [], [], "", []
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
        self.text += data

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
        "Overview",
        "Training",
        "Distances between classes",
        "Worst mistakes",
        "PCA of 210 test samples",
    ):
        assert words in page.text
    targets = [a["href"][1:] for a in page.all("a")]
    assert set(targets) <= set(page.ids)
    pictures = [svg for svg in page.all("svg") if "role" in svg]
    # Two to compare; accuracy, loss (and CPCC), distances, the tree's own, and two levels for each run.
    assert len(pictures) == 1 + (2 + 1 + 1 + 2) + (3 + 2 + 1 + 2)
    assert all(len(svg["aria-label"]) > 20 for svg in pictures)
    checked = [box["id"] for box in page.all("input") if "checked" in box]
    assert checked == ["run1-level-1", "run2-distance-1", "run2-level-1"]


def test_nothing_is_loaded_from_elsewhere(pair):
    text = pair[1]
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
    text = Page(render_report(runs)).text
    assert re.findall(r"(.*): runs side by side", text) == ["digits in /pets", "digits in /cars"]


def test_paper_numbers_stand_beside_ours(tmp_path):
    tree = DIGITS.with_level_names(("coarse", "fine"))
    runs = [make_run(tmp_path / name, objective=name, data="cifar100", tree=tree) for name in ("l2", "emd")]
    text = Page(render_report(runs)).text
    assert "paper 81.32 (0.19)" in text  # EMD, fine sAcc
    assert "paper 83.08 (0.11)" in text  # l2, TestCPCC
    assert "tab:fine-detail" in text


def test_names_are_text_wherever_they_stand(tmp_path):
    tree = Hierarchy.from_paths(
        [(EVIL, EVIL + "a"), (EVIL, "$b_1$ & 'c'"), ("g", '"><img src=x onerror=alert(1)>'), ("g", "d")],
        level_names=('<b onclick="x">', "fine"),
    )
    page = Page(render_report([make_run(tmp_path / "<i>run<", tree=tree, samples=60)]))
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not page.all("b")
    assert EVIL + "a" in page.text
    assert "$b_1$ & 'c'" in page.text


def test_any_script_is_left_to_the_browser(tmp_path):
    """Matplotlib warns of signs that its font lacks, and warnings are errors here."""
    tree = Hierarchy.from_paths([("動物", "猫"), ("動物", "कुत्ता"), ("車", "バス"), ("車", "버스")])
    text = render_report([make_run(tmp_path / "run", tree=tree, samples=40)])
    assert re.search(r"<text[^>]*>कुत्ता</text>", text)


def test_missing_pieces_are_said(tmp_path):
    fresh = make_run(tmp_path / "fresh", evaluated=False, epochs=0)
    bare = make_run(tmp_path / "bare", features=False)
    text = Page(render_report([fresh, bare])).text
    assert text.count(f"cophenet evaluate {fresh}") >= 3
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
    text = Page(render_report([run])).text
    assert "features that are not finite" in text
    assert "no samples" in text
    assert "There are no mistakes" in text
    features.write_bytes(b"nothing")
    assert "is no file of features" in Page(render_report([run])).text


def test_large_trees_are_closed_and_their_labels_thinned(tmp_path):
    run = make_run(tmp_path / "big", tree=even_tree(60, 6), samples=720)
    text = render_report([run])
    page = Page(text)
    branches = [d for d in page.all("details") if "class" not in d]
    assert len(branches) == 1 + 60 + 180
    assert [("open" in branch) for branch in branches] == [True] + [False] * 240
    names = re.findall(r"<text[^>]*>(group \d+)</text>", text)
    assert 0 < len(set(names)) <= 26
    assert len(text) < 3_000_000


def test_a_deep_tree_needs_no_deep_stack(tmp_path):
    nested = "leaf"
    for depth in range(120):
        nested = {f"n{depth}": [nested, f"c{depth}"]} if depth % 2 else [nested, f"c{depth}"]
    tree = Hierarchy.from_nested(nested)
    page = Page(render_report([make_run(tmp_path / "deep", tree=tree, samples=242)]))
    assert page.open == []
    assert len([box for box in page.all("input") if box["name"] == "run1-level"]) == 8


def test_twenty_runs(tmp_path):
    """All in one picture; few have pictures of their own, which take their time."""
    runs = [
        make_run(tmp_path / f"run{i}", objective="flat", samples=14, epochs=2 * (i < 3), evaluated=i < 2)
        for i in range(20)
    ]
    page = Page(render_report(runs))
    assert len([s for s in page.all("section") if s.get("class") == "run"]) == 20
    assert len(page.ids) == len(set(page.ids))
    curves = [Curve(f"run{i}", np.array([[0.1, i / 20]])) for i in range(20)]
    drawn = as_svg(curves_figure(curves, "accuracy", percent=True), "all", "twenty runs")
    assert [drawn.count(f">{curve.name}<") for curve in curves] == [1] * 20


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


def test_numbers_too_large_for_a_picture_name_their_file(tmp_path):
    run = make_run(tmp_path / "run")
    rows = [f"{epoch},train,{loss}" for epoch, loss in ((1, 2.0), (2, 1e308))]
    (run / "metrics.csv").write_text("\n".join(["epoch,phase,train/loss", *rows]) + "\n")
    with pytest.raises(ValueError, match=r"metrics.csv: train/loss is 1e\+308 in epoch 2, too large to be"):
        training_curves(Run.open(run))
