"""Training samples that have a say in answers."""

import numpy as np
import pytest
import torch

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.estimator import neighbors
from cophenet.estimator.ensemble import MEMBERS

TREE = Hierarchy.from_paths(["a/b", "a/c", "d/e", "d/f"], sep="/")


def islands(count=1200, seed=0):
    """Vectors of a hundred small clouds, each of a random class: only a sample nearby tells the class."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(5)
    centres, classes = fixed.normal(size=(100, 6)), fixed.integers(4, size=100)
    cloud = rng.integers(100, size=count)
    return (centres[cloud] + 0.05 * rng.normal(size=(count, 6))).astype(np.float32), classes[cloud]


@pytest.fixture(scope="module")
def fitted():
    embedder = HierarchicalEmbedder(TREE, labels="positions", max_iter=3, random_state=0)
    return embedder.fit(*islands())


def test_neighbors_help_where_only_a_sample_nearby_tells_the_class(fitted):
    rows, labels = islands(800, seed=1)
    assert fitted.neighbors_.share >= 0.3
    assert torch.allclose(fitted.neighbors_.vectors.norm(dim=1), torch.ones(1200), atol=1e-5)
    with_them, own = fitted.score(rows, labels), fitted.network_(fitted.input_scale_(rows, torch.float32))[1]
    assert with_them > (own.argmax(1).numpy() == labels).mean() + 0.1
    # Samples left out are answered without their own neighbor, so that the promise holds on new ones.
    assert abs(fitted.decision_report_["accuracy"]["level2"] - with_them) < 0.1
    assert fitted.decision_report(rows, labels)["error"] < 0.07


def test_blending_is_the_slow_loop(fitted):
    known, rows = fitted.neighbors_, islands(20, seed=2)[0]
    features, logits = fitted.network_(fitted.input_scale_(rows, torch.float32))
    for at, answer in enumerate(fitted.predict_proba(rows)):
        cosines = torch.nn.functional.cosine_similarity(features[at], known.vectors)
        nearest = cosines.argsort(descending=True)[: neighbors.NEAREST]
        votes = torch.zeros(4)
        for place, share in zip(nearest, (10 * cosines[nearest]).softmax(0), strict=True):
            votes[known.classes[place]] += share
        own = logits[at].softmax(0)
        assert answer == pytest.approx((own + known.share * (votes - own)).numpy(), abs=1e-5)
        assert answer.sum() == pytest.approx(1, abs=1e-6)


def test_left_out_samples_are_answered_by_what_their_member_has_seen():
    generator = torch.Generator().manual_seed(0)
    units = torch.nn.functional.normalize(torch.randn(MEMBERS, 40, 5, generator=generator), dim=2)
    labels = torch.randint(3, (40,), generator=generator)
    left_out_by = torch.arange(40) % 8
    left_out_by[left_out_by >= MEMBERS] = -1
    votes = neighbors._left_out_votes(units, labels, left_out_by, 3)
    for vote, sample in zip(votes, np.flatnonzero(left_out_by >= 0), strict=True):
        member = int(left_out_by[sample])
        seen = [other for other in range(40) if left_out_by[other] != member]
        centred = units[member] - units[member][seen].mean(0)
        cosines = torch.nn.functional.cosine_similarity(centred[sample], centred[seen])
        near = cosines.topk(neighbors.NEAREST)
        shares = (10 * near.values).softmax(0)
        wanted = [float(shares[labels[seen][near.indices] == name].sum()) for name in range(3)]
        assert vote.tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("case", ["weights", "few left out", "nothing left out", "too many numbers"])
def test_without_neighbors(case, monkeypatch):
    rows, labels = islands()
    shares = {"few left out": 0.05, "nothing left out": 0.0}
    if case == "too many numbers":
        monkeypatch.setattr(neighbors, "_MOST_NUMBERS", 1000)
    embedder = HierarchicalEmbedder(
        TREE, labels="positions", max_iter=1, random_state=0, calibration_fraction=shares.get(case, 0.1)
    )
    embedder.fit(rows, labels, sample_weight=np.arange(1, 1201) if case == "weights" else None)
    assert embedder.neighbors_ is None


def test_neighbors_that_guess_have_no_say(monkeypatch):
    def guesses(_units, _labels, left_out_by, count):
        return torch.full((int((left_out_by >= 0).sum()), count), 1 / count)

    monkeypatch.setattr(neighbors, "_left_out_votes", guesses)
    labels = np.arange(1200) % 4
    rows = 6 * np.eye(4, 6, dtype=np.float32)[labels]
    embedder = HierarchicalEmbedder(TREE, labels="positions", max_iter=3, random_state=0).fit(rows, labels)
    assert embedder.neighbors_ is None


def test_a_saved_model_answers_the_same(fitted, tmp_path):
    rows = islands(50, seed=3)[0]
    fitted.save(tmp_path / "model")
    loaded = HierarchicalEmbedder.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows), fitted.predict_proba(rows))
    assert loaded.neighbors_.share == fitted.neighbors_.share


def test_an_onnx_file_answers_the_same(fitted, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    rows = islands(50, seed=3)[0]
    fitted.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (answers,) = session.run(["probabilities"], {"vectors": rows})
    np.testing.assert_allclose(answers, fitted.predict_proba(rows), atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vectors": torch.zeros(1200, 3)}, r"neighbors need vectors \(m, 64\)"),
        ({"vectors": torch.full((1200, 64), torch.nan)}, "finite vectors"),
        ({"classes": torch.full((1200,), 4)}, "from 0 to 3"),
        ({"classes": torch.zeros(7, dtype=torch.int64)}, r"classes \(m,\)"),
        ({"share": 1.5}, "between 0 and 1"),
    ],
)
def test_damaged_neighbors_are_refused(fitted, tmp_path, change, message, monkeypatch):
    known = fitted.neighbors_
    parts = {"vectors": known.vectors, "classes": known.classes, "share": known.share, **change}
    monkeypatch.setattr(fitted, "neighbors_", neighbors.Neighbors(**parts))
    fitted.save(tmp_path / "model")
    with pytest.raises(ValueError, match=f"damaged or incomplete: .*{message}"):
        HierarchicalEmbedder.load(tmp_path / "model")
