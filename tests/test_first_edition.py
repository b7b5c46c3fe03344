"""Files that version 0.1.0 wrote, before the package was rearranged, are read as they were then."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cophenet import HierarchicalEmbedder
from cophenet.evaluation import evaluate
from cophenet.recipes import load_recipe
from cophenet.report import compare
from cophenet.runs import Run, load_network, resume

FILES = Path(__file__).parent / "first_edition"


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FILES / "run", tmp_path / "run"))


def test_a_recipe_with_all_its_settings_is_that_of_today() -> None:
    assert load_recipe(FILES / "recipe.yaml") == load_recipe("cifar100", "paper")


def test_a_finished_run_is_evaluated_to_the_same_numbers(finished: Path) -> None:
    before = json.loads((finished / "results.json").read_text())["metrics"]
    (finished / "results.json").unlink()
    after = evaluate(Run.open(finished))["metrics"]
    assert after.keys() >= before.keys()
    for key, value in before.items():
        assert after[key]["mean"] == pytest.approx(value["mean"], abs=2e-3), key


def test_results_are_compared(finished: Path) -> None:
    results = json.loads((finished / "results.json").read_text())
    assert str(results["metrics"]["source/accuracy/shape"]["mean"]) in compare([finished]).to_csv()


def test_an_interrupted_run_ends_with_the_weights_it_would_have_had(tmp_path: Path) -> None:
    folder = shutil.copytree(FILES / "interrupted", tmp_path / "run")
    network = load_network(resume(folder, loggers=(), progress=False))
    with np.load(FILES / "resumed.npz") as expected:
        for name, value in network.state_dict().items():
            np.testing.assert_allclose(value.numpy(), expected[name], atol=1e-3, err_msg=name)


def test_a_saved_estimator_answers_as_before() -> None:
    embedder = HierarchicalEmbedder.load(FILES / "embedder")
    expected = json.loads((FILES / "embedder.json").read_text())
    vectors = np.array(expected["vectors"])
    np.testing.assert_allclose(embedder.transform(vectors), expected["transformed"], atol=1e-5)
    np.testing.assert_allclose(embedder.predict_proba(vectors), expected["probabilities"], atol=1e-5)
    assert embedder.predict(vectors).tolist() == expected["decisions"]
