"""Making objectives by name, registering one's own, and what the documentation shows."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from cophenet.objectives import Objective, WithCPCC, create_objective, objective_names, register_objective
from cophenet.objectives.registry import OBJECTIVES
from support import DEVICE

from .steps import DEEP, make, make_step

PAGE = Path(__file__).parents[2] / "docs" / "objectives.md"


@pytest.fixture
def restored(monkeypatch):
    """Objectives registered in a test are forgotten after it."""
    monkeypatch.setattr(OBJECTIVES, "_members", OBJECTIVES.members())


@pytest.mark.usefixtures("restored")
def test_the_examples_of_the_documentation_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) >= 2
    assert "smooth" in objective_names()


def test_the_documentation_names_every_objective():
    text = PAGE.read_text()
    assert [name for name in objective_names() if f"`{name}`" not in text] == []


@pytest.mark.parametrize("cls", [*OBJECTIVES.members().values(), WithCPCC])
def test_the_docstring_has_a_formula_and_a_source(cls):
    assert re.search(r"\.\. math::\n\n +[^\n]*loss[^\0]*arXiv:\d{4}\.\d{5}", cls.__doc__)


@pytest.mark.usefixtures("restored")
def test_an_objective_of_ones_own_takes_cpcc_too():
    @register_objective
    class Smooth(Objective):
        name = "smooth"

        def __init__(self, tree, amount=0.1):
            super().__init__(tree)
            self.amount = amount

        def terms(self, step):
            return {
                "smooth": cross_entropy(step.logits[self.finest], step.labels, label_smoothing=self.amount)
            }

    objective = make("smooth", amount=0.2, cpcc="l2")
    assert set(objective(make_step(objective, [0, 1, 2]))) == {"smooth", "cpcc"}
    with pytest.raises(
        ValueError, match="objective 'smooth' has no option 'amont'; its options are amount; did you"
    ):
        make("smooth", amont=0.2)
    for taken in ("smooth", "fastft", "flat"):
        with pytest.raises(ValueError, match=f"an objective named '{taken}' exists already"):
            register_objective(type("Other", (Smooth,), {"name": taken}))


@pytest.mark.usefixtures("restored")
def test_a_term_called_cpcc_is_not_overwritten():
    @register_objective
    class Own(Objective):
        name = "own"

        def terms(self, step):
            return {"cpcc": step.features.sum()}

    objective = make("own", cpcc="l2")
    with pytest.raises(ValueError, match="objective 'own' has a term 'cpcc' of its own"):
        objective(make_step(objective, [0, 1]))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "fastflt",
            {},
            "objective must be one of cosine, curriculum, .*got 'fastflt'; did you mean 'fastft'?",
        ),
        (
            "hxe",
            {"alfa": 1},
            "objective 'hxe' has no option 'alfa'; its options are alpha, normalize; did you mean 'alpha'",
        ),
        ("flat", {"weight": 1}, "objective 'flat' has no option 'weight'; it has none"),
        ("fastft", {"reg": 1}, "distance 'fastft' has no option 'reg'"),
        ("fastft", {"weight": -1}, "weight must be finite and .*, got -1"),
        ("fastft", {"cpcc": "l2"}, "objective 'fastft' is CPCC already"),
        ("fastft", {"distance": "emd"}, "objective 'fastft' has no option 'distance', .*; got 'emd'"),
        ("fastft", {"wieght": 1}, "has no option 'wieght'; .*weight, .*; did you mean 'weight'"),
        ("hxe", {"cpcc": {"dist": "emd"}}, "has no option 'dist'; .*weight, "),
        ("hxe", {"cpcc": {"tree": DEEP}}, "cpcc must not hold 'tree'"),
        ("hxe", {"cpcc": {1: "emd"}}, "cpcc must have option names as keys, got 1"),
        ("hxe", {"normalize": "no"}, "normalize must be True or False, got 'no'"),
        ("curriculum", {"epochs": 50}, "epochs must be two positive integers, one per phase, got 50"),
        ("curriculum", {"epochs": "50"}, "epochs must be two positive integers, one per phase, got '50'"),
        ("curriculum", {"epochs": (5, 0)}, "epochs must be two positive integers, one per phase"),
        ("hxe", {"cpcc": "l3"}, "distance must be one of"),
        ("hxe", {"cpcc": 0.5}, "cpcc must be a distance name or a mapping of options, got 0.5"),
        ("hxe", {"cpcc": {"distance": "l2", "reg": 1}}, "distance 'l2' has no option 'reg'"),
    ],
)
def test_wrong_names_and_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        create_objective(name, DEEP, **options)


def test_the_tree_must_be_a_tree():
    with pytest.raises(ValueError, match=r"tree must be a cophenet.Hierarchy, got dict"):
        create_objective("flat", {"a": ["b"]})


def test_moves_to_a_device_and_saves_nothing_that_the_tree_knows():
    for name in objective_names():
        objective = make(name)
        assert all(buffer.device.type == DEVICE.type for buffer in objective.buffers())
        assert all("generator" in key or "extra" in key for key in objective.state_dict())
        assert not list(objective.parameters())


def test_labels_of_any_integer_type():
    objective = make("hxe")
    step = make_step(objective, [0, 1, 2])
    for dtype in (torch.int32, torch.uint8, torch.uint16):
        small = replace(step, labels=step.labels.to(dtype))
        torch.testing.assert_close(objective(small), objective(step))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16])
@pytest.mark.parametrize("cpcc", [None, "l2"])
def test_wrong_labels_of_small_types(dtype, cpcc):
    objective = make("hxe", cpcc=cpcc)
    step = make_step(objective, [0, 1, 2])
    labels = torch.tensor([0, 1, 200], device=DEVICE).to(dtype)
    with pytest.raises(ValueError, match=r"labels must lie in 0..8, the classes of the tree, got 200"):
        objective(replace(step, labels=labels))


def test_many_bad_rows_are_counted_whatever_the_type_of_the_labels():
    objective = make("rank")
    step = make_step(objective, [0, 1] * 128)
    step.features.data[:] = torch.nan
    with pytest.raises(ValueError, match="features must be finite, got NaN or inf in 256 of 256 samples"):
        objective(replace(step, labels=step.labels.to(torch.uint8)))


@pytest.mark.parametrize("cpcc", [None, "l2"])
def test_what_is_no_tensor_is_named(cpcc):
    objective = make("mtl", cpcc=cpcc)
    step = make_step(objective, [0, 1, 2])
    array = step.features.detach().cpu().numpy()
    arrays = {name: values.detach().cpu().numpy() for name, values in step.logits.items()}
    for wrong, message in (
        ({"labels": [0, 1, 2]}, "labels must be a torch tensor, got list"),
        ({"features": array}, "features must be a torch tensor, got ndarray"),
        ({"logits": arrays}, "logits of head 'kingdom' must be a torch tensor, got ndarray"),
        ({"logits": step.logits["kind"]}, "logits must be tensors by head name, got Tensor"),
        ({"phase": "train"}, "phase must be from 0 to 0, got 'train'"),
    ):
        with pytest.raises(ValueError, match=message):
            objective(replace(step, **wrong))
    with pytest.raises(ValueError, match="step must be a StepOutput, got Tensor"):
        objective(step.features)


def test_cpcc_is_added_to_an_objective():
    with pytest.raises(ValueError, match="base must be an objective, got str"):
        WithCPCC("flat", "l2")


@pytest.mark.parametrize("cast", ["float", "half", "bfloat16"])
def test_casting_changes_nothing(cast):
    for name in ("hxe", "soft", "quadruplet", "sumloss", "rank"):
        objective = make(name)
        step = make_step(objective, [0, 2, 1, 5, 4, 7])
        expected = objective(step)
        torch.testing.assert_close(getattr(objective, cast)()(step), expected, rtol=0, atol=0)
