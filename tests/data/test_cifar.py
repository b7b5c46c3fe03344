"""CIFAR: the paper's tables, both formats in all places, and what is refused."""

import pickle
import shutil

import numpy as np
import pytest

from cophenet._common.pickles import read_plain_pickle
from cophenet.data.cifar import CIFAR100, Cifar10, Cifar100, cifar10_split, cifar100_split, cifar100_tree
from support import SHARED, needs_shared

from . import written

# The paper's tables, in the official spelling of the names.
CIFAR10_TABLE = {
    "animal": ({"deer", "dog", "frog", "horse"}, {"bird", "cat"}),
    "transportation": ({"ship", "truck"}, {"airplane", "automobile"}),
}
CIFAR100_TARGET = (
    "beaver dolphin aquarium_fish flatfish orchid poppy bottle bowl "
    "apple mushroom clock keyboard bed chair bee beetle "
    "bear leopard bridge castle cloud forest camel cattle "
    "fox porcupine crab lobster baby boy crocodile dinosaur "
    "hamster mouse maple_tree oak_tree bicycle bus lawn_mower rocket "
)

WRITERS = {
    "cifar-10-batches-py": (Cifar10, written.write_cifar10_python, "cifar-10-python.tar.gz"),
    "cifar-10-batches-bin": (Cifar10, written.write_cifar10_binary, "cifar-10-binary.tar.gz"),
    "cifar-100-python": (Cifar100, written.write_cifar100_python, "cifar-100-python.tar.gz"),
    "cifar-100-binary": (Cifar100, written.write_cifar100_binary, "cifar-100-binary.tar.gz"),
}


def groups(tree):
    coarse, ancestors = tree.cut("coarse")
    return {
        name: {tree.classes[i] for i in np.flatnonzero(ancestors == at)}
        for at, name in enumerate(coarse.classes)
    }


def test_cifar10_split_is_the_papers():
    split = cifar10_split()
    source, target = groups(split.source), groups(split.target)
    assert {name: (source[name], target[name]) for name in source} == CIFAR10_TABLE


def test_cifar100_split_is_the_papers():
    split = cifar100_split()
    assert (split.source.num_classes, split.target.num_classes) == (60, 40)
    assert set(split.target.classes) == set(CIFAR100_TARGET.split())
    source, target = groups(split.source), groups(split.target)
    assert {name: source[name] | target[name] for name in source} == {k: set(v) for k, v in CIFAR100.items()}
    assert {len(names) for names in source.values()} == {3}


def test_deeper_trees_of_cifar100():
    sizes = {depth: [len(cifar100_tree(depth).nodes_at(i)) for i in range(1, depth)] for depth in (3, 4, 5)}
    assert sizes == {3: [20, 100], 4: [20, 40, 100], 5: [10, 20, 40, 100]}
    tree = cifar100_tree(5)
    assert tree.path("poppy") == ("flowers+food_containers", "flowers", "orchid+poppy", "poppy")
    assert tree.classes == tuple(sorted(tree.classes))
    assert cifar100_split(5).target.classes == cifar100_split().target.classes
    with pytest.raises(ValueError, match=r"depth must be one of \(3, 4, 5\), got 6"):
        Cifar100(depth=6)


def test_coarse_classes_of_cifar100_are_those_of_its_images(tmp_path):
    _, write, _ = WRITERS["cifar-100-python"]
    made = write(tmp_path / "cifar-100-python")
    fine, coarse = (Cifar100(classes=name).load(made).samples("train", "full") for name in ("fine", "coarse"))
    assert (coarse.tree.num_classes, len(coarse.tree.nodes_at(1))) == (20, 10)
    group = {name: key for key, names in CIFAR100.items() for name in names}
    names = [coarse.tree.classes[label] for label in coarse.labels]
    assert names == [group[fine.tree.classes[label]] for label in fine.labels]
    split = Cifar100(classes="coarse").split
    assert (split.source.num_classes, split.target.num_classes) == (10, 10)
    with pytest.raises(ValueError, match="classes must be one of fine, coarse, got 'mid'"):
        Cifar100(classes="mid")


@pytest.mark.parametrize("folder", WRITERS)
@pytest.mark.parametrize("place", ["inside", "itself", "renamed", "archive", "archive itself"])
def test_both_formats_in_all_places(tmp_path, folder, place):
    source, write, archive = WRITERS[folder]
    data_dir = tmp_path / "data"
    made = write({"renamed": tmp_path / "other"}.get(place, data_dir / folder))
    if place.startswith("archive"):
        written.pack(made, data_dir / archive)
        shutil.rmtree(made)
    given = {"inside": data_dir, "archive": data_dir, "archive itself": data_dir / archive}.get(place, made)
    data = source().load(given)
    assert all(need.found for need in source().requirements(given))
    train, test = data.samples("train"), data.samples("test")
    assert (len(train), len(test)) == ((100, 20) if source is Cifar10 else (200, 100))
    images, labels = train.take(np.arange(len(train)))
    expected = [written.pixels(20, seed) for seed in range(5)] if source is Cifar10 else [written.pixels(200)]
    np.testing.assert_array_equal(images.flatten(1).numpy(), np.concatenate(expected))
    official = [(3 * i) % 10 for i in range(20)] if source is Cifar10 else written.cifar100_labels(20)[0]
    assert labels[:20].tolist() == official
    halves = [data.samples("train", domain) for domain in ("source", "target")]
    assert sum(map(len, halves)) == len(train)
    assert halves[0].tree == (cifar10_split() if source is Cifar10 else cifar100_split()).source


@needs_shared
@pytest.mark.parametrize("data_dir", ["data", "data/cifar-100-python"])
def test_the_real_files_load(data_dir):
    data = Cifar100().load(SHARED / data_dir)
    for part, per_class in (("train", 150), ("test", 50)):
        assert set(data.samples(part).counts()) == {per_class}
        assert len(data.samples(part, "source")) == 60 * per_class
        assert len(data.samples(part, "target")) == 40 * per_class
    images = data.samples("train").inputs.values
    assert images.shape == (15000, 3, 32, 32)
    scaled = images[::3].numpy().astype(np.float64) / 255
    np.testing.assert_allclose(scaled.mean((0, 2, 3)), data.mean, atol=3e-3)
    np.testing.assert_allclose(scaled.std((0, 2, 3)), data.std, atol=3e-3)
    assert set(data.samples("test").level_labels("coarse")) == set(range(20))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"put it at .*cifar-100-python .*cifar-100-binary.*data_dir"):
        Cifar100().load(tmp_path)
    with pytest.raises(FileNotFoundError, match="'cifar10' was not found"):
        Cifar10().load(None)
    made = written.write_cifar10_python(tmp_path / "cifar-10-batches-py")
    (made / "data_batch_3").unlink()
    (made / "batches.meta").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks data_batch_3, batches.meta of cifar-10-batches-py"):
        Cifar10().load(tmp_path)
    assert [need.path.name for need in Cifar10().requirements(tmp_path) if not need.found] == [
        "data_batch_3",
        "batches.meta",
    ]


def rewrite(folder, name, **changes):
    fine, coarse = written.cifar100_labels(4)
    content = {"data": written.pixels(4), "fine_labels": fine, "coarse_labels": coarse, **changes}
    content = {key: value for key, value in content.items() if value is not None}
    (folder / name).write_bytes(written.python2_pickle(content))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"coarse_labels": [4, 8, 7, 11]},
            "1 coarse labels do not fit the tree; image 1 is 'beetle'.*is 7, not 8",
        ),
        ({"fine_labels": [0, 7, 14, 100]}, "labels reach from 0 to 100, allowed are 0 to 99"),
        ({"fine_labels": [0, 7, 14]}, "fine_labels has 3 labels for 4 images"),
        ({"fine_labels": ["a", "b", "c", "d"]}, "fine_labels must be a list of numbers"),
        ({"fine_labels": None}, "not a file of this data set, it has no 'fine_labels'"),
        ({"data": written.pixels(4)[:, :100]}, r"data must be \(n, 3072\) bytes, got \(4, 100\)"),
        ({"data": "text"}, r"data must be \(n, 3072\) bytes, got bytes"),
        ({"data": written.pixels(0), "fine_labels": [], "coarse_labels": []}, "holds no images"),
    ],
)
def test_wrong_content_is_refused(tmp_path, changes, message):
    folder = written.write_cifar100_python(tmp_path / "cifar-100-python")
    rewrite(folder, "test", **changes)
    with pytest.raises(ValueError, match=f"test: .*{message}"):
        Cifar100().load(tmp_path)


def test_wrong_names_are_refused(tmp_path):
    folder = written.write_cifar100_binary(tmp_path / "cifar-100-binary")
    (folder / "fine_label_names.txt").write_text("apple pear")
    with pytest.raises(ValueError, match="class names are not the official ones"):
        Cifar100().load(tmp_path)
    (folder / "fine_label_names.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"fine_label_names.txt: not a list of class names"):
        Cifar100().load(tmp_path)


def test_truncated_and_foreign_files_are_refused(tmp_path):
    python = written.write_cifar100_python(tmp_path / "a" / "cifar-100-python")
    whole = (python / "train").read_bytes()
    for content in (whole[:-1000], b"", b"<html>not found</html>", b"\x89PNG\r\n"):
        (python / "train").write_bytes(content)
        with pytest.raises(ValueError, match="train: truncated, damaged or not a pickle"):
            Cifar100().load(tmp_path / "a")
    binary = written.write_cifar100_binary(tmp_path / "b" / "cifar-100-binary")
    (binary / "train.bin").write_bytes((binary / "train.bin").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"train.bin: 614799 bytes are not a whole number of images of 3074"):
        Cifar100().load(tmp_path / "b")


def test_damaged_archives_are_refused(tmp_path):
    folder = written.write_cifar100_python(tmp_path / "cifar-100-python")
    archive = written.pack(folder, tmp_path / "data" / "cifar-100-python.tar.gz")
    whole = archive.read_bytes()
    for content in (whole[: len(whole) // 2], b"<html>", b""):
        archive.write_bytes(content)
        with pytest.raises(ValueError, match=r"cifar-100-python.tar.gz\S*: truncated, damaged"):
            Cifar100().load(archive.parent)
    (folder / "meta").unlink()
    written.pack(folder, archive)
    with pytest.raises(FileNotFoundError, match=r"cifar-100-python.tar.gz lacks meta"):
        Cifar100().load(archive.parent)


@pytest.mark.parametrize(
    ("other", "packed"),
    [("cifar-10-batches-py", True), ("cifar-10-batches-bin", True), ("cifar-10-batches-bin", False)],
)
def test_parts_of_a_folder_do_not_hide_what_is_complete(tmp_path, other, packed):
    _, write, archive = WRITERS[other]
    made = write(tmp_path / "elsewhere" / other)
    if packed:
        written.pack(made, tmp_path / "data" / archive)
    else:
        shutil.copytree(made, tmp_path / "data" / other)
    partial = tmp_path / "data" / "cifar-10-batches-py"
    partial.mkdir()
    assert len(Cifar10().load(tmp_path / "data").samples("train")) == 100
    (partial / "data_batch_1").write_bytes(b"half")
    assert len(Cifar10().load(tmp_path / "data").samples("train")) == 100
    assert all(need.found for need in Cifar10().requirements(tmp_path / "data"))


def test_odd_labels_and_names_name_the_file(tmp_path):
    folder = tmp_path / "cifar-100-python"
    written.write_cifar100_python(folder)
    whole = (folder / "meta").read_bytes()
    for names in (3, "apple", None):
        content = {"fine_label_names": names, "coarse_label_names": list(CIFAR100)}
        (folder / "meta").write_bytes(pickle.dumps(content))
        with pytest.raises(ValueError, match=r"meta: fine_label_names must be a list of names, got"):
            Cifar100().load(tmp_path)
    (folder / "meta").write_bytes(whole)
    fine, coarse = written.cifar100_labels(4)
    content = {"data": written.pixels(4), "fine_labels": [2**70, *fine[1:]], "coarse_labels": coarse}
    (folder / "test").write_bytes(pickle.dumps(content, 4))
    with pytest.raises(ValueError, match=r"test: fine_labels must be small numbers from 0 on, got 1180591"):
        Cifar100().load(tmp_path)


@pytest.mark.parametrize("depth", ["x", [3], None, 2.5])
def test_wrong_types_of_depth(depth):
    with pytest.raises(ValueError, match="depth must be one of"):
        Cifar100(depth=depth)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_files_that_were_saved_again_are_read(tmp_path, protocol):
    folder = written.write_cifar100_python(tmp_path / "cifar-100-python")
    for file in folder.iterdir():
        with file.open("rb") as stream:
            content = read_plain_pickle(stream, file.name)
        file.write_bytes(pickle.dumps(content, protocol))
    images = Cifar100().load(tmp_path).samples("train").inputs.values
    np.testing.assert_array_equal(images.flatten(1).numpy(), written.pixels(200))
