"""The default's networks: what they are trained by, who has seen what, and what the dial does."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from cophenet import HierarchicalEmbedder, Hierarchy, class_distances, cpcc
from cophenet.estimator.ensemble import MEMBERS, final_ensemble
from cophenet.estimator.ensemble_training import EnsembleTrainer, side_by_side
from cophenet.estimator.one_cycle import OneCycle
from cophenet.estimator.samples import Split, TrainingSet, fit_scale
from estimator.vectors import TREE, clouds

ROWS, NAMES = clouds()
CODES = np.array([TREE.index(name) for name in NAMES])


_SCALE = 16.0


def start(targets=CODES, held_out=(), tree_strength="auto", inner=()):
    """A trainer, and all members as one team that leaves nothing out at random."""
    every = np.arange(len(ROWS))
    split = Split(every, every[:0], np.array(held_out, dtype=np.int64))
    nodes = np.array(inner, dtype=np.int64)
    samples = TrainingSet(ROWS, targets, nodes, TREE, fit_scale(ROWS, every), split)
    trainer = EnsembleTrainer(samples, HierarchicalEmbedder(hidden_size=8, tree_strength=tree_strength), 0)
    team = trainer.team(0, 10, MEMBERS)
    team.members.dropout = 0.0
    return trainer, team


def loss_of(trainer, team, chosen):
    """The loss of samples into which nothing is mixed."""
    return trainer.loss(team, chosen, np.arange(len(chosen)), 1.0)


def slow_loss(inputs, members, labels):
    """One member, sample, level and pair at a time; labels are classes or names of inner nodes.

    Rows of prototypes are the classes, pet, car and dog.
    """
    vectors, total = members(inputs), 0.0
    depths = range(1, TREE.height + 1)
    for m in range(MEMBERS):
        for depth in depths:
            level, place = TREE.cut(depth)
            rows = [[*TREE.classes, "pet", "car", "dog"].index(name) for name in level.classes]
            p = (_SCALE * vectors[m] @ normalize(members.prototypes[m, rows], dim=1).T).softmax(1)
            paid = []
            for i, label in enumerate(labels):
                below = [c for c, leaf in enumerate(TREE.leaves) if label in TREE.path(leaf)]
                nodes = {place[c] for c in below}
                if depth == TREE.height:
                    paid.append(-p[i, below].sum().log())
                elif len(nodes) == 1:
                    paid.append(-p[i, nodes.pop()].log())
            share = 1 if depth == TREE.height else 0.5 / (len(depths) - 1) ** 0.5
            total = total + share * torch.stack(paid).mean()
        known = [i for i, label in enumerate(labels) if label in TREE.classes]
        codes = torch.tensor([TREE.index(labels[i]) for i in known])
        present, rho = class_distances(vectors[m][known], codes, distance="l2")
        total = total + 0.1 * (1 - cpcc(rho, torch.tensor(TREE.condensed(present.tolist())).float()))
    return total


def test_the_loss_against_a_loop():
    inner = [TREE.node("pet"), TREE.node("dog")]
    targets = np.where(np.arange(len(CODES)) % 5 == 0, 5 + np.arange(len(CODES)) % 2, CODES)
    trainer, team = start(targets, inner=inner)
    chosen = np.arange(40)
    labels = [TREE.classes[t] if t < 5 else ("pet", "dog")[t - 5] for t in targets[chosen]]
    # CPCC is part of every second step.
    wanted = slow_loss(trainer._inputs(chosen), team.members, labels)
    mean = loss_of(trainer, team, chosen) / 2
    team.steps.done = 1
    mean = mean + loss_of(trainer, team, chosen) / 2
    torch.testing.assert_close(mean, wanted, rtol=1e-4, atol=1e-4)
    parameters = list(team.members.parameters())
    gradients = (torch.autograd.grad(loss, parameters) for loss in (mean, wanted))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_of_a_sample_that_it_leaves_out_a_member_learns_nothing():
    trainer, team = start(held_out=np.arange(8), tree_strength=0)
    members = team.members
    assert np.bincount(trainer.left_out_by[:8]).tolist() == [2] * MEMBERS
    for sample in range(MEMBERS):
        members.norm.eval()  # of one sample there are no statistics
        learned = learning(loss_of(trainer, team, np.array([sample])), members)
        assert learned == [member != sample for member in range(MEMBERS)]
    # Of a team of its own the second pair is the third and fourth member.
    pair = trainer.team(2, 10, 2)
    pair.members.norm.eval()
    assert learning(loss_of(trainer, pair, np.array([2])), pair.members) == [False, True]


def learning(loss, members):
    """Which members a loss teaches anything."""
    (gradient,) = torch.autograd.grad(loss, [members.prototypes])
    return (gradient.abs().sum((1, 2)) > 0).tolist()


def test_mixed_samples_pay_for_both_labels_and_are_left_out_where_one_of_them_is():
    trainer, team = start(held_out=np.arange(MEMBERS), tree_strength=0)
    members = team.members
    chosen, order = np.arange(4, 24), np.roll(np.arange(20), 3)
    inputs, codes = trainer._inputs(chosen), torch.from_numpy(CODES[chosen])
    logits = members.logits(members(0.7 * inputs + 0.3 * inputs[order]))
    wanted = sum(0.7 * cross_entropy(one, codes) + 0.3 * cross_entropy(one, codes[order]) for one in logits)
    torch.testing.assert_close(trainer.loss(team, chosen, order, 0.7), wanted)
    learned = learning(trainer.loss(team, np.array([0, 9]), np.array([1, 0]), 0.7), members)
    assert learned == [False] + [True] * (MEMBERS - 1)


def test_the_final_network_computes_what_the_members_do():
    trainer, team = start()
    members = team.members
    members(trainer._inputs(np.arange(60)))  # moves the statistics of batch norm
    members.eval()
    inputs = trainer._inputs(np.arange(10))
    vectors = members(inputs)
    mean = torch.arange(32.0)
    rows = trainer._class_rows(members.unit_prototypes(), torch.zeros(MEMBERS, 5, 8))
    network = final_ensemble([members], rows, mean, torch.eye(32))
    features, logits = network(inputs)
    torch.testing.assert_close((features * 2 + mean).view(10, MEMBERS, 8).transpose(0, 1), vectors)
    # A quarter of the mean logit of a class's ancestors counts too; rows are the classes, pet, car and dog.
    every, names = members.logits(vectors), [*TREE.classes, "pet", "car", "dog"]
    wanted = every[:, :, :5].clone()
    for c, leaf in enumerate(TREE.leaves):
        path = TREE.path(leaf)
        above = [path[min(depth, len(path)) - 1] for depth in range(1, TREE.height)]
        wanted[:, :, c] += 0.25 * every[:, :, [names.index(name) for name in above]].mean(2)
    wanted /= 1.125
    torch.testing.assert_close(logits, wanted.mean(0))
    member = torch.arange(10) % MEMBERS
    expected = wanted[member, torch.arange(10)]
    torch.testing.assert_close(network.held_out(inputs, member), expected)


def test_with_few_samples_class_means_have_a_say_but_not_of_samples_left_out():
    trainer, team = start(held_out=np.arange(8))
    members = team.members
    trainer.is_few, count = True, len(ROWS)
    members.eval()
    vectors = members(trainer._inputs(np.arange(count))).detach()
    sums = torch.zeros(MEMBERS, 5, 8)
    trainer._add_to_classes(sums, vectors, np.arange(count))
    rows = trainer._class_rows(members.unit_prototypes(), sums)
    for m in range(MEMBERS):
        for c in range(5):
            own = [i for i in range(count) if CODES[i] == c and not (i < 8 and i % MEMBERS == m)]
            both = normalize(vectors[m, own].sum(0), dim=0) + members.unit_prototypes()[m, c]
            torch.testing.assert_close(rows[m, c], both / 2)
    # Without samples of its own a class has its prototype.
    rows = trainer._class_rows(members.unit_prototypes(), torch.zeros(MEMBERS, 5, 8))
    torch.testing.assert_close(rows, members.unit_prototypes()[:, :5])


@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_optimizer_is_torch_s_adamw_through_one_cycle(count):
    torch.manual_seed(0)
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())
    steps = OneCycle(one, 0.1, 0.3, count)
    groups = [
        {"params": [other.weight], "weight_decay": 0.3},
        {"params": [other.bias], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=count)
    for _ in range(count):
        inputs = torch.randn(5, 3)
        steps.step(one(inputs).square().mean())
        optimizer.zero_grad()
        other(inputs).square().mean().backward()
        optimizer.step()
        schedule.step()
        torch.testing.assert_close(dict(one.named_parameters()), dict(other.named_parameters()))


def test_the_number_of_threads_changes_nothing_and_is_left_as_it_was(monkeypatch):
    monkeypatch.setattr("cophenet.estimator.ensemble_training._PAIRS", 0)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            model = HierarchicalEmbedder(TREE, max_iter=3, hidden_size=8, random_state=0).fit(ROWS, NAMES)
            found.append((model.predict_proba(ROWS), model.history_))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4, atol=1e-6)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def test_what_a_thread_raises_is_raised():
    with pytest.raises(ZeroDivisionError), side_by_side(2) as each:
        each(lambda value: 1 / value, [1, 0])


def test_the_dial_goes_from_no_tree_to_distances_that_follow_it():
    rows, names = clouds(seed=5)
    found = []
    for strength in (0, "auto", 1):
        model = HierarchicalEmbedder(
            TREE, tree_strength=strength, max_iter=40, hidden_size=64, random_state=0
        )
        model.fit(ROWS, NAMES)
        codes = torch.from_numpy(np.searchsorted(model.classes_, names))
        present, rho = class_distances(torch.from_numpy(model.transform(rows)), codes, distance="fastft")
        found.append(cpcc(rho, torch.tensor(model.tree_.condensed(present.tolist()))).item())
        assert model.score(rows, names) > 0.95
    assert found[0] + 0.1 < found[1] < found[2]
    assert found[2] > 0.95


def test_without_the_tree_it_makes_no_difference():
    other = Hierarchy.from_paths(["a/husky", "a/van", "a/bus", "b/cat", "b/poodle"], sep="/")
    options = {"tree_strength": 0, "max_iter": 3, "hidden_size": 8, "random_state": 0}
    one, same = (HierarchicalEmbedder(tree, **options).fit(ROWS, NAMES) for tree in (TREE, other))
    np.testing.assert_array_equal(one.predict_proba(ROWS), same.predict_proba(ROWS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree_strength": 1.5}, "tree_strength must be a number from 0 to 1 or 'auto', got 1.5"),
        ({"tree_strength": 0.5, "objective": "l2"}, "tree_strength is for objective 'auto'"),
        ({"objective_options": {"weight": 1}}, "objective_options are for a named objective"),
        ({"n_components": 33, "hidden_size": 8}, "n_components must be at most 4 \\* hidden_size = 32"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalEmbedder(TREE, **options).fit(ROWS, NAMES)


def test_a_reshaped_vector_has_as_many_numbers_as_there_are_classes_or_64():
    rng = np.random.default_rng(0)
    rows, names = rng.normal(size=(200, 100)), np.arange(200) % 70
    options = {"max_iter": 1, "hidden_size": 32, "random_state": 0}
    assert HierarchicalEmbedder(**options).fit(rows, names).transform(rows).shape == (200, 70)
    assert HierarchicalEmbedder(**options).fit(rows, names % 3).transform(rows).shape == (200, 64)
    assert HierarchicalEmbedder(**options).fit(rows[:, :65], names).transform(rows[:, :65]).shape == (200, 65)
    assert HierarchicalEmbedder(**options, n_components=90).fit(rows, names).transform(rows).shape[1] == 90


def test_reshaped_vectors_of_the_training_samples_have_mean_zero():
    model = HierarchicalEmbedder(TREE, max_iter=2, hidden_size=8, random_state=0).fit(ROWS, NAMES)
    np.testing.assert_allclose(model.transform(ROWS).mean(0), 0, atol=1e-6)
