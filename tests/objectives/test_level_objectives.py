"""Multi-task learning, curriculum, and CPCC added to anything."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from cophenet import CPCCLoss
from cophenet.objectives import Phase
from support import DEVICE

from .steps import DEEP, FLAT_TREE, make, make_step

LABELS = [0, 3, 6, 8, 5, 2]


def level_loss(step, depth):
    targets = torch.tensor(DEEP.cut(depth)[1], device=DEVICE)[step.labels]
    return cross_entropy(step.logits[DEEP.level_names[depth - 1]], targets)


def test_mtl_has_a_head_and_a_cross_entropy_per_level():
    objective = make("mtl")
    assert [(h.name, h.num_outputs) for h in objective.heads] == [("kingdom", 3), ("group", 6), ("kind", 9)]
    step = make_step(objective, LABELS)
    terms = objective(step)
    assert list(terms) == ["cross_entropy", "cross_entropy/kingdom", "cross_entropy/group"]
    for name, depth in zip(terms, (3, 1, 2), strict=True):
        torch.testing.assert_close(terms[name], level_loss(step, depth))


def test_curriculum_trains_one_head_after_the_other():
    objective = make("curriculum")
    assert objective.phases == (Phase("kingdom", ("kingdom",), 50), Phase("kind", ("kind",), 200))
    step = make_step(objective, LABELS)
    first, second = objective(step), objective(replace(step, phase=1))
    assert (list(first), list(second)) == (["cross_entropy/kingdom"], ["cross_entropy"])
    torch.testing.assert_close(first["cross_entropy/kingdom"], level_loss(step, 1))
    torch.testing.assert_close(second["cross_entropy"], level_loss(step, 3))
    # The head of the other phase need not exist yet, or any more.
    objective(replace(step, logits={"kingdom": step.logits["kingdom"]}))
    objective(replace(step, logits={"kind": step.logits["kind"]}, phase=1))


def test_curriculum_options():
    objective = make("curriculum", level="group", epochs=[3, 4])
    assert [(p.name, p.epochs) for p in objective.phases] == [("group", 3), ("kind", 4)]
    for epochs in ((50,), (0, 1), (1.5, 2)):
        with pytest.raises(ValueError, match="epochs must be two positive integers"):
            make("curriculum", epochs=epochs)
    with pytest.raises(ValueError, match="level must be coarser than the classes, depth 1 to 2, got 'kind'"):
        make("curriculum", level="kind")


@pytest.mark.parametrize("name", ["mtl", "curriculum", "sumloss"])
def test_a_tree_of_one_level_is_refused(name):
    with pytest.raises(ValueError, match=f"objective '{name}' cannot use a tree of one level: there is no"):
        make(name, FLAT_TREE)


def test_the_cpcc_family_is_cross_entropy_and_cpcc():
    objective = make("emd", weight=0.1, level="group", flow_weights="distance")
    step = make_step(objective, LABELS)
    terms = objective(step)
    criterion = CPCCLoss(DEEP, "emd", weight=0.1, level="group", flow_weights="distance").to(DEVICE)
    torch.testing.assert_close(terms["cross_entropy"], cross_entropy(step.logits["kind"], step.labels))
    torch.testing.assert_close(terms["cpcc"], criterion(step.features, step.labels))


@pytest.mark.parametrize("cpcc", ["l2", {"distance": "fastft", "weight": 0.5, "order": "principal"}])
@pytest.mark.parametrize("name", ["hxe", "mtl", "curriculum", "quadruplet"])
def test_cpcc_is_added_to_any_baseline(name, cpcc):
    plain, both = make(name), make(name, cpcc=cpcc)
    assert (both.heads, both.phases) == (plain.heads, plain.phases)
    step = make_step(both, LABELS)
    terms = both(step)
    options = {"distance": cpcc} if isinstance(cpcc, str) else cpcc
    expected = CPCCLoss(DEEP, **options).to(DEVICE)(step.features, step.labels)
    torch.testing.assert_close(terms.pop("cpcc"), expected)
    torch.testing.assert_close(terms, plain(step))


def test_order_dependence_comes_from_the_distance():
    assert make("hxe", cpcc="fastft").order_dependent
    assert not make("hxe", cpcc="l2").order_dependent


def test_names_say_what_was_added():
    assert [make(n).name for n in ("hxe", "fastft")] == ["hxe", "fastft"]
    assert make("hxe", cpcc="fastft").name == "hxe+fastft"
    assert make("flat", cpcc="emd").name == "emd"
