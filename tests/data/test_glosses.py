"""Vectors and the paths of their classes in one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cophenet.data import Glosses, create_source
from cophenet.recipes import load_recipe
from cophenet.runs import train
from support import SHARED, needs_shared

PATHS = np.array(
    ["food.1/pie.2", "food.1/jam.3", "drink.4/wine.5/port.6", "drink.4/wine.5/sherry.7", "drink.4/tea.8"]
)


def arrays(**changes: object) -> dict[str, object]:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 8)
    x = (rng.normal(size=(40, 6)) + 3 * np.eye(5, 6)[y]).astype(np.float16)
    return {"x_train": x, "y_train": y, "x_test": x[::2], "y_test": y[::2], "paths": PATHS, **changes}


def written(folder: Path, **changes: object) -> Path:
    np.savez(folder / "glosses.npz", **arrays(**changes))
    return folder


def test_classes_are_in_the_order_of_the_paths(tmp_path: Path) -> None:
    data = create_source("glosses").load(written(tmp_path))
    assert data.tree.classes == ("pie.2", "jam.3", "port.6", "sherry.7", "tea.8")
    assert data.tree.path("sherry.7") == ("drink.4", "wine.5", "sherry.7")
    samples = data.samples("test")
    values, labels = samples.take(np.arange(20))
    assert values.dtype.is_floating_point
    assert np.array_equal(values.numpy(), arrays()["x_test"].astype(np.float32))
    assert labels.tolist() == arrays()["y_test"].tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_test": np.zeros((20, 5))}, "x_test has 5 numbers per vector, x_train has 6"),
        ({"x_train": np.zeros(40)}, r"features must be \(n, d\) real numbers"),
        ({"y_train": np.zeros(39, dtype=int)}, "y_train must be 40 whole numbers"),
        ({"y_test": np.zeros(20)}, "y_test must be 20 whole numbers, got float64"),
        ({"y_test": np.full(20, 5)}, "y_test must be 0 to 4, as there are paths, got 5 to 5"),
        ({"x_test": np.full((20, 6), np.nan)}, "x_test must be finite numbers"),
        ({"paths": np.arange(5)}, "paths must be texts in a row, got int64"),
        ({"paths": np.array([{}] * 5)}, "not an npz|damaged|cannot be read|Object arrays"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Glosses().load(written(tmp_path, **changes))
    assert str(caught.value).startswith(f"{tmp_path / 'glosses.npz'}: ")


def test_missing_files_and_arrays(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"put glosses.npz at .*glosses.npz"):
        Glosses().load(tmp_path)
    np.savez(tmp_path / "glosses.npz", x_train=np.eye(2))
    with pytest.raises(ValueError, match="has no array 'y_train', only"):
        Glosses().load(tmp_path)


def test_the_recipe_trains(tmp_path: Path) -> None:
    recipe = load_recipe("glosses", overrides=["epochs=1", "batch_size=16"])
    run = train(recipe, tmp_path / "run", data_dir=written(tmp_path), loggers=(), progress=False)
    assert run.tree.height == 3
    assert run.finished


@needs_shared
def test_the_real_file() -> None:
    data = Glosses().load(SHARED / "data")
    assert (data.tree.num_classes, data.tree.height) == (192, 9)
    assert [len(data.samples(part)) for part in ("train", "test")] == [18229, 9142]
