"""Run folders as training and evaluation leave them, with made-up numbers."""

import json
import zlib

import numpy as np
from safetensors.numpy import save_file

from cophenet.data.registry import create_source
from cophenet.paper import find_items, reproduce
from cophenet.paper.documents import Document
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.pipeline import observe
from cophenet.paper.plan import plan_runs
from cophenet.paper.tables import item_tables
from cophenet.recipes.trees import shaped_tree
from cophenet.transport import distance_names

_NAMES = ("recipe.yaml", "run.json", "tree.json", "results.json", "details.json")
# Texts of these files by run: many tests have the same runs, and a recipe takes long to be written as YAML.
_WRITTEN = {}


def write_runs(planned, folder):
    """Finished runs, numbers different in each; results.json contents by run name."""
    found = {}
    for runs in planned:
        for seed in runs.seeds:
            path = runs.path(folder, seed)
            path.mkdir(parents=True, exist_ok=True)
            found[f"{runs.name}/seed{seed}"] = _write_run(runs, seed, path)
    return found


def write_items(names, folder, settings):
    """The documents of items in `out`, from the runs in `runs`."""
    outcome = reproduce(
        names, folder / "runs", folder / "out", settings=settings, only_finished=True, tell=lambda _: None
    )
    assert outcome.failed == {}


def _write_run(runs, seed, path):
    recipe = runs.of_seed(seed)
    key = runs.name, repr(recipe)
    if key not in _WRITTEN:
        _make_run(runs.name, recipe, seed, path)
        _WRITTEN[key] = {name: (path / name).read_text() for name in _NAMES}
    for name, text in _WRITTEN[key].items():
        (path / name).write_text(text)
    return json.loads(_WRITTEN[key]["results.json"])


def _make_run(name, recipe, seed, path):
    (path / "recipe.yaml").write_text(recipe.to_yaml())
    info = {"format": 1, "seed": seed, "finished": True, "seconds_per_epoch": [1.0]}
    (path / "run.json").write_text(json.dumps(info))
    full = create_source(recipe.data.name, **recipe.data.options).tree()
    tree = full if recipe.data.domain == "full" else full.source_target_split(0.4).source
    shaped_tree(tree, recipe.tree).write(path / "tree.json")
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    (path / "results.json").write_text(json.dumps(_results(recipe, seed, tree, rng)))
    size = tree.num_classes * (tree.num_classes - 1) // 2
    distances = {key: rng.uniform(1, 2, size).tolist() for key in sorted({"l2", recipe.objective.name})}
    details = {
        "tree": {"names": list(tree.names), "parents": tree.parents.tolist()},
        "classes": list(tree.classes),
        "levels": list(tree.level_names),
        "class_distances": distances,
        "confusion": [],
        "node_accuracy": {str(node): {"accuracy": None, "samples": 0} for node in range(tree.num_nodes)},
        "worst_mistakes": [],
    }
    (path / "details.json").write_text(json.dumps(details))


def _results(recipe, seed, tree, rng):
    domain = recipe.data.domain
    sides = (domain, "target") if domain == "source" else (domain,)
    keys = [
        f"{side}/{m}/{level}" for side in sides for m in ("accuracy", "map") for level in tree.level_names
    ]
    name = recipe.objective.name
    kinds = {"l2", name} & set(distance_names()) or {"l2"}
    for kind in sorted({"l2", *kinds}):
        keys.append(f"{domain}/cpcc/{kind}")
        if recipe.tree.shuffle_seed is not None:
            keys.append(f"{domain}/cpcc-trained-tree/{kind}")
    if name == "fastft":
        keys.append(f"{domain}/cpcc-orders/fastft")
    values = {key: float(rng.uniform(0.1, 0.9)) for key in keys}
    return {
        "name": "run",
        "data": recipe.data.name,
        "objective": name,
        "scale": recipe.scale,
        "seeds": [seed],
        "levels": list(tree.level_names),
        "threads": 1,
        "seconds_per_epoch": float(rng.uniform(1, 2)),
        "metrics": {key: {"mean": v, "std": None, "values": [v]} for key, v in values.items()},
        "missing": {},
    }


def write_features(path, name, classes, per_class=12, width=3, seed=0):
    """Test features in a run folder: one cloud for each class."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), per_class)
    features = (rng.normal(size=(classes, width)) * 5)[labels] + rng.normal(size=(len(labels), width))
    (path / "features").mkdir(exist_ok=True)
    tensors = {"features": features.astype(np.float32), "labels": labels}
    save_file(tensors, path / "features" / f"{name}.safetensors")


class Made:
    """The document of an item, some of whose runs are there, and what stands in those runs."""

    def __init__(self, folder, name, settings, there=lambda _variant: True):
        (item,) = find_items((name,))
        self.planned = plan_runs(item, settings)
        self.results = write_runs([runs for runs in self.planned if there(runs.variant)], folder)
        self.folder = folder
        self.read(name)

    def read(self, name):
        """Read the runs again."""
        (item,) = find_items((name,))
        observations, arrays = observe(item, self.planned, self.folder)
        self.document = Document(name, observations=observations, arrays=tuple(arrays))
        self.tables = item_tables(self.document)
        self.table = next(iter(self.tables.values()), None)

    @property
    def columns(self):
        return [column.name for column in self.table.columns]

    @property
    def rows(self):
        return rows_of(self.table)

    def metric(self, key, objective, setting=None, control=False):
        wanted = (objective, setting or {}, control)
        (name,) = {
            runs.name
            for runs in self.planned
            if (runs.variant.objective, runs.variant.setting, runs.variant.control) == wanted
        }
        return self.results[f"{name}/seed0"]["metrics"][key]["mean"]


def rows_of(table):
    """Rows of a table by heading; texts as they are, empty cells as None."""
    names = [column.name for column in table.columns]
    cells = ([c.label if c.unit is None else c for c in row.cells] for row in table.rows)
    return [dict(zip(names, row, strict=True)) for row in cells]


def observed(*entries):
    """Observations of made-up numbers: recipe, objective, metric, values by seed, and what else is known."""
    conditions, rows = {}, []
    for recipe, objective, metric, values, *more in entries:
        options = dict(more[0]) if more else {}
        doubt = options.pop("doubt", "")
        options.setdefault("scale", "laptop" if recipe else "")
        condition = Condition(recipe, recipe, objective, **options)
        condition = conditions.setdefault(condition.key, condition)
        rows += [Observation(condition, seed, metric, value, doubt) for seed, value in enumerate(values)]
    return Observations(tuple(conditions.values()), tuple(rows))
