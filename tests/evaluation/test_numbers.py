"""Every number of a run against a slow computation of its own, from the saved features."""

import itertools
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import softmax
from scipy.stats import pearsonr
from sklearn.metrics import average_precision_score
from sklearn.metrics.pairwise import cosine_similarity

from cophenet import class_distances, cpcc
from cophenet.data import k_shot
from cophenet.evaluation import evaluate
from cophenet.runs import Run, load_experiment, load_network
from evaluation.runs import ONE_SHOT, TINY, make_run
from support import greedy_cost, pair_loop


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    made = make_run(tmp_path_factory.mktemp("runs") / "tiny")
    evaluate(made, device="cpu")
    return made


@pytest.fixture(scope="module")
def parts(run):
    names = ("source-train", "source-test", "target-train", "target-test")
    return {name: load_file(run.features_path(name)) for name in names}


@pytest.fixture(scope="module")
def trees(run):
    data = load_experiment(run.recipe).data
    return {domain: data.samples("test", domain).tree for domain in ("source", "target")}


def mean(run, key):
    return run.results["metrics"][key]["mean"]


def coarse(tree, label):
    return tree.path(tree.leaves[label])[0]


def arrays(part):
    return part["features"].numpy(), part["labels"].numpy(), softmax(part["logits"].double().numpy(), axis=1)


def test_the_features_are_those_of_the_network_in_the_order_of_the_data(run, parts):
    network = load_network(run)
    for name, part in parts.items():
        domain, _, which = name.partition("-")
        samples = load_experiment(run.recipe).data.samples(which, domain)
        inputs, labels = samples.take(np.arange(len(samples)))
        with torch.no_grad():
            features, logits = network(inputs)
        torch.testing.assert_close(part["features"], features)
        torch.testing.assert_close(part["logits"], logits["level2"])
        assert torch.equal(part["labels"], labels)
        assert part["features"].dtype == torch.float32


def coarse_hits(part, head_tree, own_tree):
    _, labels, probabilities = arrays(part)
    hits = []
    for label, row in zip(labels, probabilities, strict=True):
        sums = {}
        for c, p in enumerate(row):
            sums[coarse(head_tree, c)] = sums.get(coarse(head_tree, c), 0) + p
        hits.append(max(sums, key=sums.get) == coarse(own_tree, label))
    return np.mean(hits)


def test_accuracy(run, parts, trees):
    _, labels, probabilities = arrays(parts["source-test"])
    assert mean(run, "source/accuracy/level2") == np.mean(probabilities.argmax(1) == labels)
    for domain in ("source", "target"):
        expected = coarse_hits(parts[f"{domain}-test"], trees["source"], trees[domain])
        assert mean(run, f"{domain}/accuracy/level1") == expected


def test_one_shot_accuracy(run, parts, trees):
    target = load_experiment(run.recipe).data.samples("train", "target")
    rows = [np.flatnonzero(target.rows == row)[0] for row in k_shot(target, 1, seed=run.seed).rows]
    features, labels = parts["target-train"]["features"][rows], parts["target-train"]["labels"][rows]
    torch.manual_seed(run.seed)
    head = torch.nn.Linear(48, trees["target"].num_classes)
    optimizer = torch.optim.SGD(head.parameters(), 0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 15, 0.1)
    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(head(features), labels).backward()
        optimizer.step()
        schedule.step()
    right = head(parts["target-test"]["features"]).argmax(1) == parts["target-test"]["labels"]
    assert mean(run, "target/accuracy/level2") == right.double().mean().item()


def average_precision(train, test, train_names, test_names):
    scores = []
    for name in sorted(set(train_names) & set(test_names)):
        prototype = train[np.array(train_names) == name].astype(np.float64).mean(0, keepdims=True)
        cosines = cosine_similarity(test, prototype)[:, 0]
        scores.append(average_precision_score(np.array(test_names) == name, cosines))
    return np.mean(scores)


def test_mean_average_precision(run, parts, trees):
    train, train_labels, _ = arrays(parts["source-train"])
    for domain, level in (("source", 1), ("source", 2), ("target", 1)):
        test, labels, _ = arrays(parts[f"{domain}-test"])
        names = [
            ["/".join(tree.path(tree.leaves[label])[:level]) for label in given]
            for tree, given in ((trees["source"], train_labels), (trees[domain], labels))
        ]
        expected = average_precision(train, test, *names)
        assert mean(run, f"{domain}/map/level{level}") == pytest.approx(expected, abs=1e-6)
    assert "target/map/level2" not in run.results["metrics"]


def test_mistakes(run, parts, trees):
    _, labels, probabilities = arrays(parts["source-test"])
    tree = trees["source"]

    def height(a, b):
        return 0 if a == b else 1 if coarse(tree, a) == coarse(tree, b) else 2

    wrong = [(a, b) for a, b in zip(labels, probabilities.argmax(1), strict=True) if a != b]
    assert mean(run, "source/severity") == pytest.approx(np.mean([height(*pair) for pair in wrong]))
    for k in (1, 3):
        best = np.argsort(-probabilities, axis=1)[:, :k]
        far = [height(a, b) for a, row in zip(labels, best, strict=True) for b in row]
        assert mean(run, f"source/hierarchical-distance@{k}") == pytest.approx(np.mean(far))
    assert mean(run, "source/hierarchical-distance@20") is None
    assert run.results["missing"]["source/hierarchical-distance@20"] == "there are only 6 classes"


def test_calibration(run, parts):
    _, labels, probabilities = arrays(parts["source-test"])
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    error = 0.0
    for low in range(15):
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        error += abs(confidence[inside].sum() - right[inside].sum())
    assert mean(run, "source/calibration/level2") == pytest.approx(error / len(labels))


def tree_distances(tree, classes):
    return [2 if coarse(tree, a) == coarse(tree, b) else 4 for a, b in itertools.combinations(classes, 2)]


def test_cpcc_by_the_means_and_by_the_trained_distance_in_the_order_of_the_data(run, parts, trees):
    z, y = parts["source-test"]["features"].double(), parts["source-test"]["labels"]
    means = [z[y == c].mean(0) for c in range(6)]
    by_name = {
        "l2": [(a - b).norm().item() for a, b in itertools.combinations(means, 2)],
        "fastft": pair_loop(z, y, greedy_cost).tolist(),
    }
    t = tree_distances(trees["source"], range(6))
    for name, rho in by_name.items():
        assert mean(run, f"source/cpcc/{name}") == pytest.approx(pearsonr(rho, t).statistic, abs=1e-5)
        assert run.details["class_distances"][name] == pytest.approx(rho, rel=1e-5)
    values = []
    for seed in range(5):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
        values.append(pearsonr(pair_loop(z[order], y[order], greedy_cost).tolist(), t).statistic)
    assert mean(run, "source/cpcc-orders/fastft") == pytest.approx(np.std(values, ddof=1), rel=1e-3)
    assert np.std(values) > 1e-4


def test_details(run, parts, trees):
    _, labels, probabilities = arrays(parts["source-test"])
    predicted, tree, details = probabilities.argmax(1), trees["source"], run.details
    assert details["classes"] == list(tree.classes)
    assert details["tree"] == {"names": list(tree.names), "parents": tree.parents.tolist()}
    counts = {(a, b): n for a, b, n in details["confusion"]}
    assert sum(counts.values()) == len(labels)
    for (a, b), n in counts.items():
        assert n == np.sum((labels == a) & (predicted == b)) > 0
    for node in range(tree.num_nodes):
        below = [c for c in range(6) if tree.path(tree.leaves[c])[: tree.depths[node]] == tree.path(node)]
        inside = np.isin(labels, below)
        # As the accuracy of its level: the node with the largest summed probability is predicted.
        peers = tree.ancestors(int(tree.depths[node])) if node else np.zeros(6, dtype=int)
        nodes = np.unique(peers)
        sums = np.stack([probabilities[:, peers == one].sum(1) for one in nodes], 1)
        right = nodes[sums[inside].argmax(1)] == node
        rate = details["node_accuracy"][str(node)]
        assert rate == {"accuracy": right.mean(), "samples": inside.sum()}
    worst = details["worst_mistakes"]
    mistakes = [
        (-tree.distances()[a, b], -probabilities[i, b], i)
        for i, (a, b) in enumerate(zip(labels, predicted, strict=True))
        if a != b
    ]
    assert [w["index"] for w in worst] == [i for _, _, i in sorted(mistakes)[:20]]
    assert worst[0]["tree_distance"] == 4
    first = worst[0]["index"]
    assert (worst[0]["true"], worst[0]["predicted"]) == (labels[first], predicted[first])
    assert worst[0]["probability"] == pytest.approx(probabilities[first].max())


def test_what_else_the_results_say(run):
    results = json.loads((run.path / "results.json").read_text())
    assert results["name"] == "tiny"
    assert (results["recipe_name"], results["scale"]) == ("synthetic", "laptop")
    assert (results["data"], results["objective"]) == ("synthetic", "fastft")
    assert results["recipe"]["one_shot"]["epochs"] == 20
    assert results["seeds"] == [0]
    assert results["levels"] == ["level1", "level2"]
    assert results["versions"] == {"torch": "2"}
    assert (results["threads"], results["seconds_per_epoch"], results["epochs"]) == (1, 1.0, 2)
    assert results["samples"] == {
        "source-test": 72,
        "source-train": 72,
        "target-test": 48,
        "target-train": 48,
    }
    for metric in results["metrics"].values():
        assert metric["std"] is None
        assert metric["values"] == [metric["mean"]]


@pytest.mark.parametrize("distance", ["emd", "swd", "bures", "twd"])
def test_the_trained_distance_has_its_options_and_flow_weights(tmp_path, distance):
    options = {"swd": "{n_projections: 3}", "emd": "{}", "bures": "{}", "twd": "{}"}[distance]
    settings = (
        f"objective={{name: {distance}, cpcc: {{flow_weights: inverse}}, options: {{{distance}: {options}}}}}"
    )
    made = make_run(tmp_path / "run", (*TINY, ONE_SHOT, settings))
    results = evaluate(made, device="cpu")
    part = load_file(made.features_path("source-test"))
    arguments = {"n_projections": 3} if distance == "swd" else {}
    _, rho = class_distances(
        part["features"], part["labels"], distance, flow_weights="inverse", tree=made.tree, **arguments
    )
    expected = cpcc(rho, made.tree.condensed()).item()
    assert results["metrics"][f"source/cpcc/{distance}"]["mean"] == pytest.approx(expected, abs=1e-6)
    assert f"source/cpcc-orders/{distance}" not in results["metrics"]
    assert set(made.details["class_distances"]) == {distance, "l2"}
