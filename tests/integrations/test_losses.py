"""The losses for trainers of other packages, called as those call them."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cophenet import CPCCLoss, Hierarchy
from cophenet.integrations import LayerInput, MetricLearningCPCC, SentenceCPCC, TrainerCPCC

TREE = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
LABELS = torch.arange(12) % 4


@pytest.fixture
def inputs():
    return torch.randn(12, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 4))


def expected(features, logits, labels=LABELS, weight=0.5):
    return cross_entropy(logits, labels) + CPCCLoss(TREE, weight=weight)(features, labels)


def test_the_input_of_a_layer_is_taken_once(network, inputs):
    features = LayerInput(network[1])
    network(inputs)
    torch.testing.assert_close(features.take(), network[0](inputs))
    with pytest.raises(ValueError, match="layer Linear was given no tensor"):
        features.take()
    network(inputs[None])
    with pytest.raises(ValueError, match=r"must be given features \(B, d\), got \(1, 12, 6\)"):
        features.take()
    features.close()
    network(inputs)
    with pytest.raises(ValueError, match="no tensor"):
        features.take()


@pytest.mark.parametrize("layer", [True, False])
def test_loss_of_a_trainer(network, inputs, layer):
    chosen = network[1] if layer else (lambda outputs: outputs.hidden_states[-1])
    loss = TrainerCPCC(TREE, chosen, weight=0.5)
    logits = network(inputs)
    outputs = SimpleNamespace(logits=logits, hidden_states=(inputs, network[0](inputs)))
    torch.testing.assert_close(loss(outputs, LABELS), expected(network[0](inputs), logits))


def test_parts_of_a_step_add_up(network, inputs):
    loss = TrainerCPCC(TREE, network[1], weight=0.5)
    parts = []
    for rows in (slice(0, 4), slice(4, 12)):
        outputs = {"logits": network(inputs[rows])}
        parts.append(loss(outputs, LABELS[rows], num_items_in_batch=torch.tensor(12)))
    one, two = (
        expected(network[0](x), network(x), y)
        for x, y in ((inputs[:4], LABELS[:4]), (inputs[4:], LABELS[4:]))
    )
    torch.testing.assert_close(parts[0] + parts[1], one / 3 + two * 2 / 3)


def test_features_must_be_a_layer_or_a_function():
    with pytest.raises(ValueError, match="features must be a layer or a function, got str"):
        TrainerCPCC(TREE, "classifier")


class Encoder(nn.Module):
    """What a SentenceTransformer looks like from a loss."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def get_sentence_embedding_dimension(self):
        return 6

    def forward(self, tokens):
        return {"sentence_embedding": self.layer(tokens["x"])}


def test_loss_of_sentences(inputs):
    model = Encoder()
    loss = SentenceCPCC(model, TREE, weight=0.5, classification=2.0)
    embeddings = model.layer(inputs)
    by_hand = 2 * cross_entropy(loss.head(embeddings), LABELS)
    by_hand = by_hand + CPCCLoss(TREE, weight=0.5, normalize=True)(embeddings, LABELS)
    torch.testing.assert_close(loss([{"x": inputs}], LABELS), by_hand)
    alone = SentenceCPCC(model, TREE, classification=0)
    assert [name for name, _ in alone.named_parameters()] == ["model.layer.weight", "model.layer.bias"]
    assert loss.get_config_dict() == {"distance": "fastft", "weight": 0.5, "classification": 2.0}
    with pytest.raises(ValueError, match="one column of texts, got 2"):
        loss([{"x": inputs}] * 2, LABELS)
    with pytest.raises(ValueError, match="model must be a SentenceTransformer, got Linear"):
        SentenceCPCC(nn.Linear(2, 2), TREE)


def test_loss_called_as_in_metric_learning(inputs):
    loss = MetricLearningCPCC(TREE, distance="emd", weight=2.0)
    plain = CPCCLoss(TREE, distance="emd", weight=2.0, normalize=True)
    torch.testing.assert_close(loss(inputs, LABELS, (None, None, None)), plain(inputs, LABELS))
    with pytest.raises(ValueError, match="ref_emb must be None"):
        loss(inputs, LABELS, None, inputs, LABELS)
