"""Feature vectors written in every format that can be read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

NAMES = ["owl", "jay", "cod", "eel", "gar"]
FEATURES = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
ROWS = np.random.default_rng(1).normal(size=(120, 3)).astype(np.float32)
LABELS = [i % 5 for i in range(50)]
TREE = '{"bird": ["owl", "jay"], "fish": ["cod", "eel", "gar"]}'


def as_names(labels):
    return [NAMES[label] for label in labels]


def write_npz(path, features, labels):
    np.savez(path.with_suffix(".npz"), features=features, labels=labels)
    return path.name + ".npz"


def write_npy(path, features, labels):
    np.save(path.with_name(f"{path.name}_features.npy"), features)
    np.save(path.with_name(f"{path.name}_labels.npy"), labels)
    return f"{path.name}_features.npy"


def write_safetensors(path, features, labels):
    tensors = {"features": torch.as_tensor(features), "labels": torch.as_tensor(labels)}
    save_file(tensors, path.with_suffix(".safetensors"))
    return path.name + ".safetensors"


def write_parquet(path, features, labels):
    columns = {f"x{i}": column for i, column in enumerate(np.asarray(features).T)}
    pq.write_table(pa.table({**columns, "label": labels}), path.with_suffix(".parquet"))
    return path.name + ".parquet"


def write_parquet_lists(path, features, labels):
    table = {"label": labels, "embedding": [list(map(float, row)) for row in features]}
    pq.write_table(pa.table(table), path.with_suffix(".parquet"))
    return path.name + ".parquet"


def write_csv(path, features, labels):
    rows = [
        ",".join([str(label), *map(repr, map(float, row))])
        for row, label in zip(features, labels, strict=True)
    ]
    path.with_suffix(".csv").write_text("\n".join(["label,x0,x1,x2", *rows]) + "\n")
    return path.name + ".csv"


WRITERS = [write_npz, write_npy, write_safetensors, write_parquet, write_parquet_lists, write_csv]
