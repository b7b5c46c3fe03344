"""A fuzz target for each reader of files but those of data sets, and valid files to begin with."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
import torch

from cophenet import Hierarchy
from cophenet.estimator import HierarchicalEmbedder
from cophenet.evaluation.features import load_features
from cophenet.models.weights import read_state
from cophenet.recipes import load_recipe
from cophenet.report import compare
from cophenet.report.comparison import make_table, results_of
from cophenet.report.embedding import embed
from cophenet.report.page import mistake_paths
from cophenet.report.page_data import level_chances, training_curves
from cophenet.runs import Run
from cophenet.runs.checkpoints import read_checkpoint
from cophenet.runs.json_files import details_tree
from cophenet.vectors import label_facts, map_arrays, map_rows, read_parts, read_vectors

from .harness import FileTarget, all_of, saved

EARLIER = Path(__file__).parents[1] / "first_edition"
TREE = Hierarchy.from_paths(
    [("pet", "dog", "husky"), ("pet", "dog", "poodle"), ("pet", "cat"), ("car", "van"), ("car", "bus")],
    level_names=["kind", "group", "breed"],
).with_level_weights({"kind": 2.0})
FEATURES = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
NAMES = np.array(["owl", "jay", "cod", "eel", "owl", "jay", "cod"])


# Trees.


def _tree_text(extension):
    path = Path(f"/tree.{extension}")
    from cophenet.tree.formats import FORMATS, _format_name

    return [FORMATS[_format_name(path, None)].dump(tree).encode() for tree in (TREE, TREE.cut("kind")[0])]


def _read_tree(path):
    tree = Hierarchy.read(path, header=True if path.suffix in (".csv", ".tsv") else None)
    return str(tree), tree.classes, tree.depths


NESTED = [
    b'{"animal": ["cat", "dog", ["cow", "pig"]], "car": null, "boat": {"raft": {}, "ship": ["a", "b"]}}',
    b"animal: &a [cat, 'dog']\ncar:\n  - van\n  - [bus, tram]\nboat: {<<: {x: }, raft: }\n",
]
YAML_TOKENS = (
    b"&b ",
    b"*b",
    b"!!binary ",
    b"!!set ",
    b"!!timestamp ",
    b"? ",
    b"- ",
    b"--- ",
    b"%YAML 1.1\n",
    b"|\n ",
)


def _nested_seeds(extension):
    return [*_tree_text(extension), *NESTED[: 2 if extension == "yaml" else 1]]


TREES = [
    FileTarget(f"tree-{extension}", seeds, _read_tree, f"tree.{extension}", tokens=tokens)
    for extension, seeds, tokens in (
        ("json", partial(_nested_seeds, "json"), ()),
        ("yaml", partial(_nested_seeds, "yaml"), YAML_TOKENS),
        ("csv", partial(_tree_text, "csv"), (b"weight:kind", b"# root: ")),
        ("tsv", partial(_tree_text, "tsv"), (b"\t",)),
        ("edges", partial(_tree_text, "edges"), (b"# classes: ", b"# level_names: ")),
        ("nwk", partial(_tree_text, "nwk"), (b"''", b"[classes: ", b":", b";", b")x:1")),
    )
]


def _read_foreign_tree(path, form):
    tree = Hierarchy.read(path, format=form)
    return str(tree), tree.classes, tree.depths


FOREIGN = {
    "google": ((b"# Version\n1 - Pets\n2 - Pets > Cats\n3 - Food > Cats\n", b"Pets\nPets > Cats\n"), b" > "),
    "parents": (
        (
            b"id,parent,name,rank\n1,,life,\n2,1,cats,genus\n3,1,dogs,genus\n",
            b"taxID\tparentID\tname\n1\t1\tx\n2\t1\ty\n",
        ),
        b"\n2,2,",
    ),
    "darwin-core": ((b"kingdom,genus,specificEpithet\nAnimalia,Felis,catus\nAnimalia,Canis,\n",), b",,"),
    "skos": (
        (
            b"@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n<u:a> s:narrower <u:b> , <u:c> .\n",
            b'{"@id": "u:a", "http://www.w3.org/2004/02/skos/core#narrower": [{"@id": "u:b"}, {"@id": "c"}]}',
        ),
        b"s:broader",
    ),
    "codes": ((b"code,name\n10000000,pets\n10100000,cats\n10200000,dogs\n", b"code\nA\nA1\nA2\n"), b"00"),
}
TREES += [
    FileTarget(
        f"tree-{form}",
        partial(list, seeds),
        partial(_read_foreign_tree, form=form),
        "tree.txt",
        tokens=(token,),
    )
    for form, (seeds, token) in FOREIGN.items()
]

NOUNS = (
    b"00000000 03 n 01 entity 0 000 | all\n00000036 03 n 01 cat 0 001 @ 00000000 n 0000 | purrs\n"
    b"00000089 03 n 02 dog 0 hound 0 001 @ 00000000 n 0000 | barks\n"
)


def _write_index(folder):
    (folder / "index.noun").write_bytes(b"cat n 1 1 @ 1 0 00000036\ndog n 1 1 @ 1 0 00000089\n")


def _read_wordnet(path):
    for hypernyms in ("first", "shortest", "all"):
        str(Hierarchy.wordnet(["cat", "dog"], path.parent, hypernyms=hypernyms))


TREES.append(
    FileTarget(
        "wordnet", lambda: [NOUNS], _read_wordnet, "data.noun", _write_index, tokens=(b"@", b"00000036")
    )
)


# Recipes and run folders.


def _copy_run(folder):
    shutil.copytree(EARLIER / "run", folder, dirs_exist_ok=True)


def _read_info(path):
    run = Run.open(path.parent)
    all_of(
        path,
        lambda _: (run.recipe, run.tree, run.finished, run.seed, run.name),
        lambda _: compare([path.parent]).to_markdown(),
    )


def _read_results(path):
    results = results_of(Run.open(path.parent))
    all_of(
        path, lambda _: make_table(["a"], [results]).to_html(), lambda _: compare([path.parent]).to_markdown()
    )


def _results():
    """Also of a run that the paper has numbers of, with which its settings are compared."""
    own = (EARLIER / "run" / "results.json").read_bytes()
    return [own, json.dumps({**json.loads(own), "data": "cifar100"}, indent=1).encode()]


def _read_details(path):
    details = Run.open(path.parent).details
    return [*level_chances(details_tree(details), details), *mistake_paths(details)]


def _run_file(name, read, seeds=None):
    return FileTarget(
        name, seeds or (lambda: [(EARLIER / "run" / name).read_bytes()]), read, name, prepare=_copy_run
    )


RUNS = [
    FileTarget(
        "recipe",
        lambda: [(EARLIER / "recipe.yaml").read_bytes(), (EARLIER / "run" / "recipe.yaml").read_bytes()],
        load_recipe,
        "recipe.yaml",
        tokens=(*YAML_TOKENS, b"paper: ", b"laptop: ", b"os:system", b"options: {"),
    ),
    _run_file("run.json", _read_info),
    _run_file("results.json", _read_results, _results),
    _run_file("details.json", _read_details),
    _run_file("metrics.csv", lambda path: training_curves(Run.open(path.parent))),
    FileTarget(
        "report-features",
        lambda: [safetensors.numpy.save({"features": FEATURES[:4], "labels": np.arange(4)})],
        lambda path: embed(path, 4),
        "a.safetensors",
    ),
]


# Vectors.


def _npz_seeds():
    numbers = np.arange(7)
    return [
        saved(np.savez, features=FEATURES, labels=NAMES),
        saved(np.savez_compressed, features=FEATURES.astype(np.float16), labels=numbers, logits=FEATURES),
    ]


def _as_npz(array):
    """An npy file as the features of an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", array)
        archive.writestr("labels.npy", saved(np.save, NAMES))
    return buffer.getvalue()


def _parquet_seeds():
    lists = pa.array(FEATURES.astype(float).tolist())
    tables = (
        pa.table({**{f"x{i}": FEATURES[:, i] for i in range(3)}, "label": NAMES}),
        pa.table({"embedding": lists, "label": np.arange(7)}),
    )
    return [
        saved(lambda buffer, table=table, packed=packed: pq.write_table(table, buffer, compression=packed))
        for table in tables
        for packed in ("none", "snappy")
    ]


def _safetensors_seeds():
    tensors = {"features": FEATURES, "labels": np.arange(7), "logits": FEATURES}
    return [safetensors.numpy.save(tensors), safetensors.numpy.save(tensors, {"a": "b"})]


def _csv_seeds():
    rows = [",".join([name, *map(str, row)]) for name, row in zip(NAMES, FEATURES.tolist(), strict=True)]
    return ["\n".join(["label,x0,x1,x2", *rows]).encode(), b'x,"label"\r\n1,"a ""b"""\r\n2,c\r\n']


def _read_all(path):
    mapped = (map_arrays,) if path.suffix in (".npy", ".safetensors") else ()
    all_of(path, read_vectors, lambda file: list(read_parts(file, rows=3)), map_rows, label_facts, *mapped)


def _write_labels(folder):
    np.save(folder / "labels.npy", np.arange(len(NAMES)))


def _npy_seeds():
    return [saved(np.save, FEATURES), saved(np.save, FEATURES.astype(np.float16))]


HEADERS = (b"'descr': '<U100000000'", b"'|O'", b"'shape': (10000000000, 512)", b"'<U0'", b"True", b"<f4")
VECTORS = [
    FileTarget("npz", _npz_seeds, _read_all, "a.npz"),
    FileTarget("npz-inside", _npy_seeds, _read_all, "a.npz", wrap=_as_npz, tokens=HEADERS),
    FileTarget("npy", _npy_seeds, _read_all, "features.npy", _write_labels, tokens=HEADERS),
    FileTarget("safetensors", _safetensors_seeds, _read_all, "a.safetensors", tokens=(b'"BF16"', b'"U8"')),
    FileTarget("parquet", _parquet_seeds, _read_all, "a.parquet"),
    FileTarget("csv", _csv_seeds, _read_all, "a.csv"),
]


# Networks: checkpoints, weights, features, saved estimators.


def _checkpoints():
    return [path.read_bytes() for path in sorted((EARLIER / "run" / "checkpoints").iterdir())[:1]]


def _pickle_of(checkpoint):
    with zipfile.ZipFile(io.BytesIO(checkpoint)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))


def _as_checkpoint(content):
    """The checkpoint with another pickle inside."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_checkpoints()[0])) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name.endswith("data.pkl") else old.read(name))
    return buffer.getvalue()


def _legacy_weights():
    state = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.zeros(2)}
    return [saved(lambda file: torch.save(state, file, _use_new_zipfile_serialization=False))]


def _read_features(path):
    metadata = {"checkpoint": "step00000024-cdb806360b86c9a2", "part": "test"}
    load_features(path, **metadata)


def _copy_estimator(folder):
    shutil.copytree(EARLIER / "embedder", folder, dirs_exist_ok=True)


def _load_estimator(path):
    estimator = HierarchicalEmbedder.load(path.parent)
    estimator.predict(np.zeros((2, estimator.n_features_in_)))


NETWORKS = [
    FileTarget("checkpoint", _checkpoints, read_checkpoint, "a.ckpt"),
    FileTarget(
        "checkpoint-inside",
        lambda: [_pickle_of(content) for content in _checkpoints()],
        read_checkpoint,
        "a.ckpt",
        wrap=_as_checkpoint,
    ),
    FileTarget("weights", _legacy_weights, read_state, "a.pth"),
    FileTarget("weights-safetensors", _safetensors_seeds, read_state, "a.safetensors"),
    FileTarget(
        "features",
        lambda: [(EARLIER / "run" / "features" / "source-test.safetensors").read_bytes()],
        _read_features,
        "a.safetensors",
    ),
    *(
        FileTarget(
            f"estimator-{name}",
            lambda name=name: [(EARLIER / "embedder" / name).read_bytes()],
            _load_estimator,
            name,
            _copy_estimator,
            tokens=(b'"<U100000000"', b'"|O"', b'"classes_dtype": "'),
        )
        for name in ("config.json", "model.safetensors", "tree.json")
    ),
]

TARGETS = [*TREES, *RUNS, *VECTORS, *NETWORKS]
