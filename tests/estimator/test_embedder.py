"""What the estimator learns, decides, finds and refuses."""

import numpy as np
import pytest
import torch

from cophenet import HierarchicalEmbedder, Hierarchy, class_distances, cpcc
from cophenet.estimator import decisions, labels
from cophenet.estimator.labels import to_tree
from cophenet.objectives import objective_names
from estimator.vectors import TREE, clouds

ROWS, NAMES = clouds()
QUICK = {"max_iter": 30, "hidden_size": 32, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return HierarchicalEmbedder(TREE, max_iter=60, random_state=0).fit(*clouds(per_class=60))


def test_vectors_follow_the_tree_more_than_before(fitted):
    rows, names = clouds(seed=5)
    codes = torch.from_numpy(np.searchsorted(fitted.classes_, names))
    tree = torch.tensor(fitted.tree_.condensed())
    before, after = (
        cpcc(class_distances(torch.from_numpy(z), codes, distance="l2")[1], tree).item()
        for z in (rows, fitted.transform(rows))
    )
    assert after > max(0.95, before + 0.1)
    assert fitted.score(rows, names) > 0.95


@pytest.mark.parametrize("objective", sorted(set(objective_names()) - {"cosine"}))
def test_every_objective_trains(objective):
    options = {"epochs": (1, 2)} if objective == "curriculum" else {}
    embedder = HierarchicalEmbedder(
        TREE, objective, objective_options=options, max_iter=3, hidden_size=8, random_state=0
    ).fit(ROWS, NAMES)
    assert embedder.history_[-1]["loss"] < embedder.history_[-2]["loss"]
    np.testing.assert_allclose(embedder.predict_proba(ROWS).sum(1), 1)


def test_cosine_heads_are_those_of_the_default():
    with pytest.raises(ValueError, match="'cosine' has cosine heads, which objective='auto' trains"):
        HierarchicalEmbedder(TREE, "cosine", max_iter=3).fit(ROWS, NAMES)


def test_levels_are_sums_of_classes(fitted):
    probabilities = fitted.predict_proba(ROWS)
    coarse, place = fitted.tree_.cut("kind")
    slow = np.stack([probabilities[:, place == g].sum(1) for g in range(coarse.num_classes)], 1)
    np.testing.assert_allclose(fitted.predict_proba(ROWS, level="kind"), slow, rtol=1e-12)
    assert fitted.predict_path(ROWS[:1])[0][-1] == fitted.predict(ROWS[:1])[0]


def test_a_sample_known_as_dog_trains_the_levels_it_knows():
    rows, names = clouds(per_class=40)
    dog = np.isin(names, ["husky", "poodle"])
    coarse = np.where(dog & (np.arange(len(names)) % 10 > 0), "dog", names)
    embedder = HierarchicalEmbedder(TREE, random_state=0).fit(rows, coarse)
    new, truth = clouds(seed=9)
    dogs = np.isin(truth, ["husky", "poodle"])
    group = list(embedder.tree_.cut("group")[0].classes).index("dog")
    assert (embedder.predict_proba(new, level="group").argmax(1)[dogs] == group).mean() > 0.95
    assert embedder.score(new, np.where(dogs, "dog", truth)) >= embedder.score(new, truth)
    # The loss of such a sample, one class at a time.
    from cophenet.estimator.adapter import AdapterTrainer
    from cophenet.estimator.samples import Split, TrainingSet, fit_scale
    from cophenet.objectives import create_objective

    every, inner = np.arange(len(rows)), np.array([TREE.node("dog")])
    scale, split = fit_scale(rows, every), Split(every, every[:0], every[:0])
    samples = TrainingSet(rows, np.array([5, 2] * 100), inner, TREE, scale, split)
    trainer = AdapterTrainer(samples, HierarchicalEmbedder(hidden_size=8), create_objective("flat", TREE), 0)
    p = trainer.network(samples.inputs(every[:2], trainer.device)).logits["breed"].softmax(1)
    slow = -(p[0, TREE.index("husky")] + p[0, TREE.index("poodle")]).log() - p[1, 2].log()
    torch.testing.assert_close(trainer.loss(np.array([0, 1]), 0), slow / 2)


@pytest.mark.parametrize(
    "tree",
    [
        {"pet": {"dog": ["husky", "poodle"], "cat": None}, "car": ["van", "bus"]},
        ["pet/dog/husky", "pet/dog/poodle", "pet/cat", "car/van", "car/bus"],
        [("pet", "dog", "husky"), ("pet", "dog", "poodle"), ("pet", "cat"), ("car", "van"), ("car", "bus")],
    ],
)
def test_trees_of_all_kinds(tree, tmp_path):
    plain = TREE.with_level_names(None)
    assert to_tree(tree) == plain
    plain.write(tmp_path / "tree.yaml")
    assert to_tree(tmp_path / "tree.yaml") == plain


def test_the_tree_is_inferred_and_kept():
    embedder = HierarchicalEmbedder(**QUICK).fit(ROWS, NAMES)
    assert sorted(embedder.tree_.classes) == sorted(TREE.classes)
    assert embedder.tree_.height > 1


def test_two_classes_are_a_star_and_that_is_said():
    two = np.isin(NAMES, ["cat", "bus"])
    with pytest.warns(UserWarning, match="CPCC is undefined and its term of the loss inactive"):
        embedder = HierarchicalEmbedder(**QUICK).fit(ROWS[two], NAMES[two])
    assert embedder.tree_.height == 1
    assert embedder.score(ROWS[two], NAMES[two]) > 0.9


def test_numbers_are_names_or_positions():
    codes = np.array([TREE.index(name) for name in NAMES])
    by_place = HierarchicalEmbedder(TREE, labels="positions", **QUICK).fit(ROWS, codes)
    assert set(by_place.predict(ROWS)) <= set(range(5))
    assert by_place.score(ROWS, codes) > 0.9
    with pytest.raises(ValueError, match=r"not in the tree: \[0, 1, 2, 3, 4\]; labels='positions' if"):
        HierarchicalEmbedder(TREE).fit(ROWS, codes)
    numbered = Hierarchy.from_paths(["a/10", "a/9", "b/7", "b/8", "b/11"], sep="/")
    by_name = HierarchicalEmbedder(numbered, **QUICK).fit(ROWS, codes + 7)
    assert by_name.classes_.tolist() == [7, 8, 9, 10, 11]
    assert by_name.tree_.classes == ("7", "8", "9", "10", "11")


def test_walk_down_against_a_loop():
    rng = np.random.default_rng(0)
    p = torch.from_numpy(rng.dirichlet(np.ones(5) * 0.5, size=50))
    nodes, masses = decisions.walk_down(p, TREE)
    below = [
        [c for c, leaf in enumerate(TREE.leaves) if n <= leaf < n + TREE.sizes[n]]
        for n in range(TREE.num_nodes)
    ]
    for row in range(len(p)):
        at, way = 0, []
        while TREE.heights[at]:
            children = np.flatnonzero(TREE.parents == at)
            at = max(children, key=lambda n: p[row, below[n]].sum().item())
            way.append(at)
        assert list(dict.fromkeys(nodes[row].tolist())) == way
        assert masses[row, -1].item() == pytest.approx(p[row, below[at]].sum().item())


@pytest.mark.parametrize("target", [0.05, 0.1, 0.3])
def test_the_error_target_is_kept_on_average(target):
    """Over many draws of calibration and test samples, from probabilities that are far too sure."""
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(60):
        p = rng.dirichlet(np.ones(5) * 0.4, size=300)
        labels = torch.from_numpy(np.array([rng.choice(5, p=0.6 * row + 0.08) for row in p]))
        q = torch.from_numpy(p)
        walk = decisions.walk_down(q[:100], TREE)
        limit = decisions.threshold(decisions.first_wrong(walk, labels[:100], TREE).numpy(), target)
        nodes = decisions.decide(q[100:], TREE, "specific-if-confident", limit)
        errors.append(decisions.report(nodes, labels[100:], TREE)["error"])
    assert target - 0.05 < np.mean(errors) < target + 0.01


def test_decisions_of_the_estimator(fitted):
    errors = []
    for seed in range(10, 40, 2):
        fitted.calibrate(*clouds(per_class=60, spread=2.5, seed=seed))
        assert fitted.decision_report_["threshold"] > 0
        new, truth = clouds(per_class=60, spread=2.5, seed=seed + 1)
        strict, loose = (fitted.decision_report(new, truth, error_target=t) for t in (0.02, 0.3))
        errors.append((strict["error"], loose["error"]))
    # On average over draws, each of which has its own luck.
    assert np.mean(errors, axis=0)[0] < 0.03 < 0.2 < np.mean(errors, axis=0)[1] < 0.35
    assert strict["coverage"] < loose["coverage"]
    assert strict["depth"] < loose["depth"]
    answers = fitted.predict(new, "specific-if-confident")
    assert {"pet", "root"} & set(answers)
    assert set(fitted.predict(new, "expected-cost")) <= set(TREE.classes)
    with pytest.raises(ValueError, match=r"cannot be promised with 300 samples .* it needs 999"):
        fitted.predict(new, "specific-if-confident", error_target=0.001)


@pytest.mark.parametrize("backend", ["exact", "faiss", "hnswlib"])
def test_search_is_grouped_by_the_tree(fitted, backend):
    if backend != "exact":
        pytest.importorskip(backend)
    rows, names = clouds(seed=3)
    found = fitted.build_index(rows, names, backend=backend).search(rows[:7], k=20, level="kind")
    z = fitted.transform(rows)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    slow = np.sort(z[:7] @ z.T, axis=1)[:, ::-1][:, :20]
    np.testing.assert_allclose(found.similarities, slow, atol=1e-5)
    for query, groups in enumerate(found):
        assert groups[0].rows[0] == query
        assert sum(len(group.rows) for group in groups) == 20
        assert {group.path for group in groups} <= {("pet",), ("car",)}
        for group in groups:
            assert all(TREE.path(TREE.leaves[TREE.index(names[row])])[0] == group.name for row in group.rows)


BAD = {
    "NaN": (lambda r, n: (np.where(r > 3, np.nan, r), n), "contains NaN"),
    "not in the tree": (lambda r, n: (r, np.where(n == "cat", "cow", n)), r"not in the tree: \['cow'\]"),
    "one class": (lambda r, n: (r, np.full(len(n), "cat")), "one class: 'cat'"),
    "few samples": (
        lambda r, _: (r[:3], np.array(["pet", "car", "car"])),
        "n_samples=3 should be >= n_classes=5",
    ),
    "lengths": (lambda r, n: (r, n[1:]), "inconsistent numbers of samples"),
    "numbers": (lambda r, _: (r, r[:, 0]), "Unknown label type: continuous"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_reported_as_scikit_learn_does(case):
    change, message = BAD[case]
    rows, names = change(ROWS, NAMES)
    with pytest.raises(ValueError, match=message):
        HierarchicalEmbedder(TREE).fit(rows, names)


def test_bad_data_after_fitting(fitted):
    with pytest.raises(ValueError, match="X has 5 features, but HierarchicalEmbedder is expecting 6"):
        fitted.transform(ROWS[:, :5])
    with pytest.raises(ValueError, match=r"y contains previously unseen labels: \['cow'\]"):
        fitted.score(ROWS[:1], ["cow"])
    with pytest.raises(ValueError, match="y must be labels, got None"):
        fitted.score(ROWS, None)
    with pytest.raises(ValueError, match="y must hold names or numbers"):
        fitted.score(ROWS[:2], np.array(["cat", None], dtype=object))
    with pytest.raises(ValueError, match="labels of inner nodes only"):
        fitted.decision_report(ROWS[:2], ["pet", "dog"])
    with pytest.raises(
        ValueError, match=r"error_target is for decision 'specific-if-confident', got .*argmax"
    ):
        fitted.predict(ROWS, error_target=0.1)
    for wrong in ([1.0], np.full(len(ROWS), -1.0), np.zeros(len(ROWS))):
        with pytest.raises(ValueError, match="sample_weight must"):
            fitted.score(ROWS, NAMES, wrong)
    with pytest.raises(ValueError, match="decision must be one of argmax"):
        fitted.predict(ROWS, "best")
    with pytest.raises(ValueError, match="level must be one of"):
        fitted.predict_proba(ROWS, level="order")


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("objective", "fast"),
        ("labels", "text"),
        ("n_components", 0),
        ("learning_rate", 0.0),
        ("batch_size", 0),
        ("validation_fraction", 1.0),
        ("error_target", 0),
        ("tree", 3),
        ("objective_options", 3),
        ("error_target", True),
        ("device", "foo"),
        ("device", None),
        ("device", "meta"),
    ],
)
def test_wrong_parameters_are_named(parameter, value):
    with pytest.raises(ValueError, match=parameter):
        HierarchicalEmbedder(**{"tree": TREE, parameter: value}).fit(ROWS, NAMES)


def test_a_refit_forgets_what_belongs_to_the_old_network():
    embedder = HierarchicalEmbedder(TREE, **QUICK).fit(ROWS, NAMES).build_index(ROWS, NAMES)
    embedder.fit(ROWS[:, :5], NAMES)
    with pytest.raises(ValueError, match="there is no index"):
        embedder.search(ROWS[:1, :5])


@pytest.mark.parametrize("objective", ["fastft", "gc", "quadruplet"])
def test_a_fit_beside_other_processes_exchanges_nothing(objective, monkeypatch):
    """As in one process of two: an exchange would wait for the other, here it fails."""
    import torch.distributed as dist

    def fail(*_, **__):
        raise AssertionError("an exchange")

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    for name in ("all_gather", "all_reduce", "broadcast"):
        monkeypatch.setattr(dist, name, fail)
    HierarchicalEmbedder(TREE, objective, max_iter=1, hidden_size=8, random_state=0).fit(ROWS, NAMES)


def test_score_weighs_samples(fitted):
    rows, names = clouds(spread=3.0, seed=8)
    right = fitted.predict(rows) == names
    weights = np.arange(len(rows)) % 5
    assert fitted.score(rows, names, sample_weight=weights) == pytest.approx(
        weights[right].sum() / weights.sum()
    )
    assert fitted.score(rows, names) == pytest.approx(right.mean())


def test_an_unseen_position_is_no_name():
    numbered = Hierarchy.from_paths(["a/4", "a/3", "b/2", "b/1", "b/0"], sep="/")
    codes = np.array([TREE.index(name) for name in NAMES])
    kept = codes != 1
    embedder = HierarchicalEmbedder(numbered, labels="positions", **QUICK).fit(ROWS[kept], codes[kept])
    with pytest.raises(ValueError, match=r"unseen labels: \[1\]"):
        embedder.score(ROWS, codes)
    assert embedder.score(ROWS[kept], np.full(kept.sum(), "root")) == 1


def test_every_node_is_written_as_a_label_of_its_own():
    tree = Hierarchy.from_paths(["a/b", "b/c", "b/d/e", "a/d/f", "a/root"], sep="/")
    written = labels.node_labels(tree, np.array(tree.classes))
    assert len(set(written)) == tree.num_nodes
    assert written[tree.node(("b",))] == "b/"
    assert written[0] == "/"
    found, missing = labels.find_nodes(written, tree, "names")
    assert not missing
    assert found.tolist() == list(range(tree.num_nodes))


def test_samples_that_cannot_calibrate_count_as_errors():
    rows, names = clouds(per_class=200, spread=3.0)
    tree = [*("/".join(path) for path in map(TREE.path, TREE.leaves)), *(f"rare/{i}" for i in range(20))]
    rare = np.random.default_rng(0).normal(size=(20, 6)) * 5
    x, y = np.concatenate([rows, rare]), np.concatenate([names, np.arange(20).astype(str)])
    embedder = HierarchicalEmbedder(tree, max_iter=3, random_state=0, error_target=np.float32(0.1)).fit(x, y)
    share = 20 / 1020
    assert embedder.decision_report_["uncalibrated"] == pytest.approx(share)
    scores = embedder.calibration_scores_
    limit = embedder.decision_report_["threshold"]
    assert ((scores >= limit).sum() + 1) / (len(scores) + 1) * (1 - share) + share <= 0.1
    with pytest.raises(ValueError, match=r"2.0% of the samples are the only one of their class"):
        embedder.predict(x, "specific-if-confident", error_target=0.015)
    embedder.calibrate(rows, names).predict(x, "specific-if-confident", error_target=0.015)
