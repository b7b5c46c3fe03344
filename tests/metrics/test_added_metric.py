"""A metric is one file in `metrics/`, or an entry point of another package: all else asks its card."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands import copy_library, run_commands
from cophenet.evaluation import metric_info
from cophenet.evaluation.intervals import Interval
from cophenet.evaluation.keys import key_order
from cophenet.evaluation.results import Numbers
from cophenet.metrics import Card, Group, cards, metric_cards, register_metric
from cophenet.report.answer import Finding, aspects
from cophenet.report.comparison import make_table
from cophenet.report.noise import Measured
from cophenet.report.page import _blocks
from cophenet.report.page_data import metric_infos
from cophenet.study.pipeline import mean_gain
from cophenet.tree import Hierarchy
from evaluation.runs import ONE_SHOT, TINY, make_run

METRIC = '''
"""How long feature vectors are."""

from cophenet.metrics.cards import Card, Group, register_metric

__all__ = ["feature_norm"]


def feature_norm(features):
    """Mean norm of the features."""
    return features.norm(dim=1).mean()


def measure(data):
    return {"norm": feature_norm(data.test.features), "norm@2": float("nan")}


CARD = register_metric(
    Card(
        key="norm",
        title="mean norm",
        short="Norm",
        higher_is_better=False,
        percent=False,
        group=Group("Lengths", "How long feature vectors are."),
        measure=measure,
        target=True,
        headline="length of features",
    )
)
'''


def as_file_of_the_room(folder: Path) -> None:
    (copy_library(folder) / "metrics" / "feature_norm.py").write_text(METRIC)


def as_package(folder: Path) -> None:
    """What pip leaves of an installed package: its module, and metadata with entry points."""
    (folder / "lengths.py").write_text(METRIC)
    info = folder / "lengths-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lengths\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cophenet.metrics]\nnorm = lengths:CARD\n")


@pytest.mark.parametrize("install", [as_file_of_the_room, as_package])
def test_it_is_measured_compared_and_reported(tmp_path, install):
    run = make_run(tmp_path / "tiny", (*TINY, ONE_SHOT)).path
    modules = tmp_path / "modules"
    modules.mkdir()
    install(modules)
    commands = [
        ["evaluate", str(run)],
        ["compare", str(run), "--format", "markdown"],
        ["compare", str(run), "-m", "source/norm"],
        ["compare", str(run), "-m", "source/nrm"],
        ["report", str(run), "-o", str(tmp_path / "page.html")],
    ]
    (evaluated, compared, chosen, wrong, reported), _ = run_commands(modules, commands)
    assert [code for code, _ in (evaluated, compared, chosen, wrong, reported)] == [0, 0, 0, 2, 0]
    results = json.loads((run / "results.json").read_text())
    keys = list(results["metrics"])
    assert keys[-4:] == ["source/norm", "source/norm@2", "target/norm", "target/norm@2"]
    assert results["metrics"]["source/norm"]["mean"] > 0
    assert results["missing"]["target/norm@2"] == "not finite"
    assert "mean norm@2, source test" in evaluated[1]
    assert "| sNorm ↓ |" in compared[1]
    assert "all but Sev, HD and Norm in percent" in compared[1]
    assert "sNorm ↓" in chosen[1]
    assert "did you mean 'source/norm'" in wrong[1]
    page = (tmp_path / "page.html").read_text()
    assert '<th scope="col" title="mean norm, source test">length of features ↓</th>' in page
    assert "but mistakes in levels of the tree and length of features in units of their own;" in page
    assert "<strong>Lengths.</strong> How long feature vectors are." in page


@pytest.fixture
def card():
    group = Group("Lengths", "How long feature vectors are.")
    yield Card("norm", "mean norm", "Norm", False, False, group, lambda _: {"length": 1.0})
    cards.METRICS._members.pop("norm", None)


def test_its_key_is_described_and_named_in_errors(card):
    with pytest.raises(ValueError, match=r"with a metric of accuracy, .*, calibration, got 'source/norm'"):
        metric_info("source/norm")
    with pytest.raises(ValueError, match=r"with a metric of accuracy, .*, calibration, got 'source/norm'"):
        key_order("source/norm")
    assert register_metric(card) is metric_cards()["norm"]
    info = metric_info("target/norm@3")
    assert (info.title, info.short, info.higher_is_better) == ("mean norm@3, target test", "tNorm@3", False)
    assert info.group.title == "Lengths"
    assert sorted(["target/norm", "source/severity", "source/norm"], key=key_order)[0] == "source/severity"
    with pytest.raises(ValueError, match=r"with a metric of accuracy, .*, calibration, norm, got"):
        metric_info("source/nrm")
    with pytest.raises(ValueError, match="a metric named 'norm' exists already"):
        register_metric(card)


def test_a_report_has_a_table_for_its_group(card):
    register_metric(card)
    numbers = {key: {"mean": 0.5, "std": None, "values": [0.5]} for key in ("source/norm", "source/severity")}
    results = {"data": "digits", "objective": "l2", "scale": "laptop", "seeds": [0], "missing": {}}
    blocks = _blocks(make_table(["mine"], [{**results, "metrics": numbers}]))
    assert [group.title for group, _ in blocks] == ["Mistakes", "Lengths"]
    assert blocks[1][0].about == "How long feature vectors are."


def test_what_guessing_gives_is_on_its_card(card):
    wrong = r"guesses of 'norm', which is not by level, must be empty, got \('chance',\)"
    with pytest.raises(ValueError, match=wrong):
        register_metric(replace(card, guesses=("chance",)))
    register_metric(replace(card, by="level", guesses=("chance",)))
    wanted = {
        "source/norm/a": ("chance",),
        "target/norm/a": (),
        "source/accuracy/a": ("chance", "majority"),
        "source/map/a": ("chance",),
        "source/severity": (),
    }
    infos = metric_infos([Measured({"metrics": wanted})])
    assert {key: info["guesses"] for key, info in infos.items()} == wanted


def test_a_headline_makes_it_decide(card):
    tree = Hierarchy.from_paths([f"{n // 4}/{n // 2}/{n}" for n in range(8)], sep="/")
    register_metric(replace(card, by="level", headline="length at {}", headline_levels=1))
    named = aspects("full", tree)
    assert named["full/norm/level1"] == "length at level1"
    assert "full/norm/level2" not in named
    assert next(iter(named.values())) == "accuracy of classes"


@pytest.mark.parametrize(
    "headline", ["size {mm}", "size", "{} of {}", "{} of {0}", "{:d} {}", "{{}}", "{} {"]
)
def test_a_headline_by_level_names_the_level(card, headline):
    wrong = f"headline of 'norm' must have '{{}}' for the level and no other braces, got {headline!r}"
    with pytest.raises(ValueError, match=re.escape(wrong)):
        register_metric(replace(card, by="level", headline=headline))


@pytest.mark.parametrize(
    ("by", "headline", "demand"),
    [
        ("distance", "length", "which is by class distance, must be empty, got 'length'"),
        (None, "length at {}", "which is not by level, must have no '{}', got 'length at {}'"),
    ],
)
def test_a_headline_that_would_be_ignored_or_shown_raw_is_refused(card, by, headline, demand):
    with pytest.raises(ValueError, match=re.escape(f"headline of 'norm', {demand}")):
        register_metric(replace(card, by=by, headline=headline))


@pytest.mark.parametrize(
    ("in_levels", "text", "gain"),
    [
        (True, "length of features -3.10 levels [-4.00, -2.20]", 1.55),
        (False, "length of features -3.10 [-4.00, -2.20]", 0),
    ],
)
def test_only_a_number_of_levels_is_stated_and_averaged_in_levels(card, in_levels, text, gain):
    register_metric(replace(card, in_levels=in_levels))
    finding = Finding("length of features", "source/norm", Interval(-3.1, -4.0, -2.2), 1)
    assert finding.text == text
    one, other = ({"metrics": {"source/norm": {"mean": mean}}} for mean in (2.0, 5.1))
    assert mean_gain(one, other, ["source/norm"], height=2) == pytest.approx(gain)


def test_percent_is_not_in_levels(card):
    with pytest.raises(ValueError, match="in_levels of 'norm', which is in percent, must be False, got True"):
        register_metric(replace(card, percent=True, in_levels=True))


def test_numbers_are_named_by_the_key(card):
    with pytest.raises(ValueError, match="names of metric 'norm' must begin with its key, got 'length'"):
        Numbers().measure(card, SimpleNamespace(domain="source"))


@pytest.mark.parametrize("key", ["a/b", "a@b", ""])
def test_a_key_is_a_name(key):
    group = Group("Lengths", "How long feature vectors are.")
    with pytest.raises(ValueError, match="key must be a name without '/' and '@', got"):
        register_metric(Card(key, "mean norm", "Norm", False, False, group, lambda _: {}))
