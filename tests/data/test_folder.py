import shutil

import numpy as np
import pytest
import torch

from cophenet import Hierarchy
from cophenet.data.breeds import Living17
from cophenet.data.image_folders import ImageFolder
from cophenet.data.inat import INat21Mini
from cophenet.data.loader import Loader
from cophenet.data.registry import create_source
from data.pictures import fill

CLASSES = ("animal/cat", "animal/dog", "animal/fox", "vehicle/bus", "vehicle/car", "vehicle/van")


@pytest.fixture
def nested(tmp_path):
    for count, path in enumerate(CLASSES, start=5):
        fill(tmp_path / path, count)
    return tmp_path


def names(samples):
    return [samples.inputs.paths[row] for row in samples.rows]


def test_nested_folders_are_the_tree(nested):
    data = create_source("folder", size=16).load(nested)
    assert data.tree == Hierarchy.from_paths(CLASSES, sep="/")
    train, test = data.samples("train"), data.samples("test")
    assert train.counts().tolist() == [4, 5, 6, 6, 7, 8]
    assert test.counts().tolist() == [1, 1, 1, 2, 2, 2]
    assert not set(names(train)) & set(names(test))
    for path, label in zip(names(test), test.labels, strict=True):
        assert path.startswith(str(nested / CLASSES[label]))
    images, labels = train.take(np.array([0, 30]))
    assert images.shape == (2, 3, 16, 16)
    assert labels.tolist() == [0, 5]
    assert data.samples("train", "target").tree.classes == ("cat", "bus")
    assert data.samples("test", "source").counts().tolist() == [1, 1, 2, 2]


def test_the_draw_is_seeded(nested):
    one, same, other = (ImageFolder(seed=seed).load(nested).samples("test") for seed in (0, 0, 1))
    assert names(one) == names(same)
    assert names(one) != names(other)


def test_deeper_and_uneven_folders(tmp_path):
    for path in ("a/b/c", "a/b/d", "a/e", "f"):
        fill(tmp_path / path)
    tree = ImageFolder().load(tmp_path).tree
    assert tree == Hierarchy.from_paths(["a/b/c", "a/b/d", "a/e", "f"], sep="/")


def test_repeated_names_become_paths(tmp_path):
    for path in ("bird/other", "bird/owl", "fish/other"):
        fill(tmp_path / path)
    assert ImageFolder().load(tmp_path).tree.classes == ("bird/other", "owl", "fish/other")


@pytest.mark.parametrize("test", ["test", "val"])
def test_own_parts(tmp_path, test):
    for path in CLASSES:
        fill(tmp_path / "train" / path, 3)
        fill(tmp_path / test / path, 1)
    (tmp_path / "notes").mkdir()
    data = ImageFolder().load(tmp_path)
    assert data.tree.classes == ("cat", "dog", "fox", "bus", "car", "van")
    assert data.samples("train").counts().tolist() == [3] * 6
    assert data.samples("test").counts().tolist() == [1] * 6


def test_a_class_called_train(tmp_path):
    for name in ("bus", "train"):
        fill(tmp_path / name)
    assert ImageFolder().load(tmp_path).tree.classes == ("bus", "train")


def test_flat_folders_with_a_tree_file(tmp_path):
    tree = Hierarchy.from_nested({"vehicle": ["van", "bus"], "animal": ["fox", "cat"]})
    tree.write(tmp_path / "tree.json")
    for count, name in enumerate(("bus", "cat", "fox", "van"), start=2):
        fill(tmp_path / "train" / name, count)
        fill(tmp_path / "test" / name, 1)
    data = ImageFolder(tree_file="tree.json").load(tmp_path)
    assert data.tree == tree
    assert data.samples("train").counts().tolist() == [5, 2, 4, 3]
    assert all(needed.found for needed in ImageFolder(tree_file="tree.json").requirements(tmp_path))
    fill(tmp_path / "train" / "yak")
    fill(tmp_path / "test" / "yak")
    with pytest.raises(
        ValueError, match=r"'yak' is a folder but no class, by tree file .*tree\.json; 1 such"
    ):
        ImageFolder(tree_file="tree.json").load(tmp_path)
    for part in ("train", "test"):
        shutil.rmtree(tmp_path / part / "yak")
        shutil.rmtree(tmp_path / part / "cat")
    with pytest.raises(
        ValueError, match=r"'cat' is a class without a folder, by tree file .*tree\.json; 1 such"
    ):
        ImageFolder(tree_file="tree.json").load(tmp_path)


def test_nested_folders_with_a_tree_file_are_paths(nested):
    tree = Hierarchy.from_paths(CLASSES[::-1], sep="/")
    tree.write(nested / "tree.json")
    data = ImageFolder(tree_file="tree.json").load(nested)
    assert data.tree == tree
    assert data.samples("train").counts().tolist() == [8, 7, 6, 6, 5, 4]
    fill(nested / "cat", 2)
    with pytest.raises(ValueError, match="folders animal/cat and cat are the same class 'cat', by tree file"):
        ImageFolder(tree_file="tree.json").load(nested)
    (nested / "cat").rename(nested / "animal" / "yak")
    with pytest.raises(ValueError, match="'animal/yak' is a folder but no class, by tree file"):
        ImageFolder(tree_file="tree.json").load(nested)
    with pytest.raises(FileNotFoundError, match=r"tree file .*other\.json is missing"):
        ImageFolder(tree_file="other.json").load(nested)


def test_an_empty_class(nested):
    (nested / "animal" / "yak").mkdir()
    (nested / "animal" / "yak" / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"animal/yak holds neither images nor folders"):
        ImageFolder().load(nested)


def test_one_class_only(tmp_path):
    fill(tmp_path / "cat")
    with pytest.raises(ValueError, match="'folder' needs at least two classes, found only 'cat'"):
        ImageFolder().load(tmp_path)


def test_one_image_cannot_be_divided(nested):
    fill(nested / "animal" / "yak", 1)
    with pytest.raises(ValueError, match="class 'yak' has one image; two are needed"):
        ImageFolder().load(nested).samples("train")


def test_a_broken_image(nested):
    (nested / "animal" / "cat" / "0.jpg").write_bytes(b"no image")
    data = ImageFolder(size=16).load(nested)
    samples = data.samples("train")
    with pytest.raises(ValueError, match=r"animal/cat/0\.jpg cannot be read"):
        samples.inputs.take(np.arange(len(samples.inputs)))


def test_wrong_folders(nested, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(ValueError, match="holds no folder of images"):
        ImageFolder().load(empty)
    with pytest.raises(ValueError, match=r"animal/cat holds 5 images where only folders are wanted"):
        ImageFolder().load(nested / "animal" / "cat")
    fill(nested / "animal", 1)
    with pytest.raises(ValueError, match=r"animal holds 1 images where only folders"):
        ImageFolder().load(nested)
    with pytest.raises(
        FileNotFoundError, match=r"nowhere is not a folder; data 'folder' needs there a folder"
    ):
        ImageFolder().load(nested / "nowhere")
    with pytest.raises(ValueError, match="'folder' needs data_dir"):
        ImageFolder().load(None)


def test_parts_that_do_not_fit(tmp_path):
    fill(tmp_path / "train" / "cat")
    with pytest.raises(ValueError, match="holds train/ but no test/ or val/"):
        ImageFolder().load(tmp_path)
    fill(tmp_path / "test" / "dog")
    with pytest.raises(ValueError, match=r"class 'cat' is in .*train but not in .*test; 2 classes"):
        ImageFolder().load(tmp_path)
    fill(tmp_path / "val" / "cat")
    with pytest.raises(ValueError, match="both test/ and val/"):
        ImageFolder().load(tmp_path)


def test_wrong_options():
    for options in ({"test_fraction": 0}, {"test_fraction": 1.0}, {"seed": -1}, {"size": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            ImageFolder(**options)


def test_batches_are_the_same_with_any_number_of_workers(nested):
    train = ImageFolder(size=16).load(nested).samples("train", "source")
    kept = []
    for workers in (0, 2):
        loader = Loader(train, 8, shuffle=True, augment="views", workers=workers, seed=3)
        kept.append(list(loader.batches(epoch=1)))
    assert len(kept[0]) == 4
    for (images, labels), (same_images, same_labels) in zip(*kept, strict=True):
        assert torch.equal(images, same_images)
        assert torch.equal(labels, same_labels)
    views = [next(Loader(train, 8, augment="views").batches(epoch))[0] for epoch in (0, 1)]
    assert not torch.equal(*views)


@pytest.mark.parametrize("name", ["valid", "validation", "dev"])
def test_other_names_of_the_test_part_do_not_become_classes(tmp_path, name):
    for part in ("train", name):
        fill(tmp_path / part / "cat")
        fill(tmp_path / part / "dog")
    with pytest.raises(ValueError, match=rf"holds train/ and {name}/ but no .*; rename {name}/ to test/"):
        ImageFolder().load(tmp_path)
    (tmp_path / name).rename(tmp_path / "val")
    assert ImageFolder().load(tmp_path).tree.classes == ("cat", "dog")


@pytest.mark.parametrize("source", [ImageFolder, Living17, INat21Mini])
@pytest.mark.parametrize("size", ["abc", 1.5, None, True])
def test_sizes_are_whole_numbers(source, size):
    with pytest.raises(ValueError, match="size must be a whole number of at least 1"):
        source(size=size)


def test_options_of_wrong_types():
    with pytest.raises(ValueError, match="test_fraction must lie between 0 and 1, got 'abc'"):
        ImageFolder(test_fraction="abc")
    with pytest.raises(ValueError, match="tree_file must be the name of a file, got 3"):
        ImageFolder(tree_file=3)
    with pytest.raises(ValueError, match="mid must be true or false, got 3"):
        Living17(mid=3)
    with pytest.raises(ValueError, match=r"levels must be a list of ranks .*, got 3"):
        INat21Mini(levels=3)


def test_folders_of_the_same_name(tmp_path):
    for count, path in enumerate(("computer/hardware", "computer/mouse", "garden/hardware"), start=3):
        fill(tmp_path / path, count)
    data = ImageFolder().load(tmp_path)
    assert data.tree.classes == ("computer/hardware", "mouse", "garden/hardware")
    assert data.tree.path("garden/hardware") == ("garden", "hardware")
    tree = data.tree.reorder(["garden/hardware", "mouse", "computer/hardware"])
    tree.write(tmp_path / "tree.csv")
    data = ImageFolder(tree_file="tree.csv").load(tmp_path)
    assert data.tree == tree
    assert (data.samples("train").counts() + data.samples("test").counts()).tolist() == [5, 4, 3]
    fill(tmp_path / "hardware", 1)
    with pytest.raises(
        ValueError, match=r"folder hardware: class 'hardware' is the name of 2 classes.*garden"
    ):
        ImageFolder(tree_file="tree.csv").load(tmp_path)
