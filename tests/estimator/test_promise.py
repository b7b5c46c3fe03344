"""What the error target rests on: calibrating samples, familiar inputs, and what certainty costs."""

import json
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.spatial.distance import cdist
from sklearn.covariance import OAS

from cophenet import HierarchicalEmbedder
from cophenet.cli import main
from cophenet.estimator import decisions, familiarity
from cophenet.estimator.decision_curve import DecisionCurve, decision_curve
from cophenet.estimator.familiarity import fit_familiarity
from cophenet.estimator.samples import fit_scale
from estimator.vectors import TREE, clouds

ROWS, NAMES = clouds(per_class=120, spread=1.5)
CODES = np.array([TREE.index(name) for name in NAMES])
NEW, TRUTH = clouds(per_class=60, spread=1.5, seed=3)
QUICK = {"max_iter": 6, "hidden_size": 16, "random_state": 0, "error_target": 0.2}


@pytest.fixture(scope="module")
def fitted():
    return HierarchicalEmbedder(TREE, calibration_fraction=0.3, **QUICK).fit(ROWS, NAMES)


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_distances_are_those_in_the_shrunk_metric_within_classes():
    scale = fit_scale(ROWS, np.arange(len(ROWS)))
    z = (ROWS - scale.mean) / scale.deviation
    means = np.stack([z[c == CODES].mean(0) for c in range(5)])
    inner = z - means[CODES]
    slow = OAS(assume_centered=True).fit(inner)  # divides by n, not by n - C
    found = fit_familiarity(ROWS, CODES, np.arange(len(ROWS)), scale).distances(NEW)
    new = (NEW - scale.mean) / scale.deviation
    wanted = cdist(new, means, "mahalanobis", VI=slow.precision_).min(1)
    np.testing.assert_allclose(found, wanted, rtol=0.01)


def test_of_wide_vectors_variances_are_taken(monkeypatch):
    monkeypatch.setattr(familiarity, "_WIDEST", 3)
    fitted = fit_familiarity(ROWS, CODES, np.arange(len(ROWS)), fit_scale(ROWS, np.arange(len(ROWS))))
    assert fitted.whiten.shape == (6,)
    near, far = fitted.distances(np.stack([ROWS[CODES == 0].mean(0), ROWS[0] + 100]))
    assert near < 0.2 < 10 < far


def test_what_does_not_vary_has_no_metric():
    rows = np.repeat(np.eye(3), 4, axis=0)
    scale = fit_scale(rows, np.arange(12))
    assert fit_familiarity(rows, np.repeat(np.arange(3), 4), np.arange(12), scale) is None


def test_samples_of_the_same_kind_are_rarely_called_a_shift():
    """P-values at most 0.05 in 5 % of cases, and a warning in far less than one of a hundred."""
    rng, shares, shifts = np.random.default_rng(0), [], 0
    known = fit_familiarity(ROWS, CODES, np.arange(len(ROWS)), fit_scale(ROWS, np.arange(len(ROWS))))
    for _ in range(300):
        distances = rng.chisquare(6, size=160)
        held = familiarity.Familiarity(known.scale, known.means, known.whiten, np.sort(distances[:60]))
        unlike = int((held.p_values(distances[60:]) <= 0.05).sum())
        judged = held.judge(unlike, 100)
        shares.append(judged.share)
        shifts += judged.is_shift
    assert 0.04 < np.mean(shares) < 0.06
    assert shifts <= 2


def test_a_shift_is_a_warning_in_python(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = fitted.decision_report(NEW, TRUTH)
        fitted.predict(NEW, "specific-if-confident")
        fitted.predict(NEW + 3)  # promises nothing
    assert report["unlike"] < 0.15
    assert report["is_shift"] is False
    p = fitted.familiarity(NEW)
    assert p.min() > 0
    assert p.max() <= 1
    assert (p <= 0.05).mean() == report["unlike"]
    with pytest.warns(UserWarning, match=r"% of the samples are unlike the training data, where 5% are exp"):
        report = fitted.decision_report(NEW + 3, TRUTH)
    assert report["is_shift"]
    for method in (fitted.predict, fitted.predict_path):
        with pytest.warns(UserWarning, match="unlike the training data"):
            method(NEW + 3, "specific-if-confident")


def test_the_report_says_what_the_promise_rests_on(fitted):
    report = fitted.decision_report(NEW, TRUTH)
    assert report["calibration_samples"] == len(fitted.calibration_scores_) == 180
    assert report["uncovered_classes"] == []
    answers = fitted.predict(NEW, "specific-if-confident")
    assert report["root"] == np.mean(answers == "root") == report["depths"][0]
    some = np.isin(TRUTH, ["cat", "van", "bus"])
    other = HierarchicalEmbedder(TREE, **QUICK).fit(ROWS, NAMES).calibrate(NEW[some], TRUTH[some])
    assert other.decision_report_["uncovered_classes"] == ["husky", "poodle"]
    assert other.decision_report_["calibration_samples"] == some.sum()


def test_without_samples_to_calibrate_on_nothing_is_known():
    embedder = HierarchicalEmbedder(TREE, calibration_fraction=0, **QUICK).fit(ROWS, NAMES)
    assert embedder.decision_curve_ is None
    with pytest.raises(ValueError, match="familiarity needs an estimator fitted on vectors"):
        embedder.familiarity(NEW)


def test_the_curve_against_decisions_one_by_one():
    rng = np.random.default_rng(1)
    p = torch.from_numpy(rng.dirichlet(np.full(5, 0.4), size=200))
    labels = torch.from_numpy(rng.integers(5, size=200))
    curve = decision_curve(decisions.walk_down(p, TREE), labels, TREE)
    for at in range(0, len(curve.thresholds), 9):
        nodes = decisions.decide(p, TREE, "specific-if-confident", float(curve.thresholds[at]))
        slow = decisions.report(nodes, labels, TREE)
        found = (curve.errors[at], curve.depths[at], curve.classes[at], curve.roots[at])
        np.testing.assert_allclose(found, [slow[key] for key in ("error", "depth", "coverage", "root")])
    assert DecisionCurve.from_dict(curve.to_dict()).to_dict() == curve.to_dict()


def test_the_curve_of_the_estimator_is_drawn(fitted, tmp_path):
    curve = fitted.decision_curve(NEW, TRUTH)
    assert curve.errors[0] == pytest.approx(1 - fitted.score(NEW, TRUTH), abs=0.02)
    fitted.decision_curve_.draw(tmp_path / "curve.svg", 0.05)
    fitted.decision_curve_.draw(tmp_path / "again.svg", 0.05)
    drawn = (tmp_path / "curve.svg").read_bytes()
    assert drawn.startswith(b"<?xml")
    assert drawn == (tmp_path / "again.svg").read_bytes()
    with pytest.raises(ValueError, match=r"must end with .svg, .png or .pdf, got 'curve.txt'"):
        curve.draw("curve.txt")


def test_a_saved_model_knows_what_its_promise_rests_on(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = HierarchicalEmbedder.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.familiarity(NEW), fitted.familiarity(NEW))
    assert loaded.decision_report(NEW, TRUTH) == fitted.decision_report(NEW, TRUTH)
    assert loaded.decision_curve_.to_dict() == fitted.decision_curve_.to_dict()


def test_a_model_saved_before_there_was_such_a_check_is_read(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    file, text = tmp_path / "model" / "model.safetensors", tmp_path / "model" / "config.json"
    tensors = load_file(file)
    new = ("familiarity.means", "familiarity.whiten", "familiarity.held_out", "calibration.counts")
    save_file({name: values for name, values in tensors.items() if name not in new}, file)
    config = json.loads(text.read_text())
    del config["decision_curve"]
    text.write_text(json.dumps(config))
    loaded = HierarchicalEmbedder.load(tmp_path / "model")
    report = loaded.decision_report(NEW, TRUTH)
    assert report["unlike"] is report["is_shift"] is report["uncovered_classes"] is None
    np.testing.assert_array_equal(loaded.predict(NEW), fitted.predict(NEW))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("familiarity.means", lambda x: x[:, 1:].clone()),
        ("familiarity.whiten", lambda x: x * np.nan),
        ("familiarity.held_out", lambda x: x.flip(0)),
        ("calibration.counts", lambda x: x[1:].clone()),
    ],
)
def test_a_damaged_check_is_refused(fitted, tmp_path, name, change):
    fitted.save(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, name: change(tensors[name]).contiguous()}, file)
    with pytest.raises(ValueError, match=r"damaged or incomplete: (familiarity needs|the counts of)"):
        HierarchicalEmbedder.load(tmp_path / "model")


@pytest.mark.filterwarnings("default")
def test_predict_in_a_shell_says_what_answers_are_worth(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "model")
    np.save(tmp_path / "new.npy", NEW)
    np.save(tmp_path / "far.npy", NEW + 3)
    command = ["--model", tmp_path / "model", "--decision", "specific-if-confident", "-o", tmp_path / "a.csv"]
    assert run("predict", tmp_path / "new.npy", *command) == 0
    printed = capsys.readouterr()
    assert "the error target rests on 180 samples\n" in printed.out
    assert "% of the answers are the root, which says nothing" in printed.out
    assert "% of the inputs are unlike the training data, as 5% always are" in printed.out
    assert not printed.err
    assert run("predict", tmp_path / "far.npy", *command) == 0
    assert capsys.readouterr().err.startswith("warning: ")


def test_embed_draws_the_curve(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", features=ROWS[:120], labels=NAMES[:120])
    TREE.write(tmp_path / "tree.yaml")
    command = ["embed", tmp_path / "train.npz", "--tree", tmp_path / "tree.yaml", "-o", tmp_path / "out.npz"]
    assert run(*command, "--curve", tmp_path / "curve.gif") == 2
    assert not (tmp_path / "out.npz").exists()
    assert run(*command, "--curve", tmp_path / "curve.svg") == 0
    assert (tmp_path / "curve.svg").is_file()
    assert "wrote" in capsys.readouterr().out
