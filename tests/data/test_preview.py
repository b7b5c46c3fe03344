"""What a data set looks like, in numbers and in pictures."""

import numpy as np
import pytest
import torch
from PIL import Image

from cophenet import Hierarchy
from cophenet.data.dataset import ArrayInputs, DataSet, Samples, count_samples
from cophenet.data.digits import Digits
from cophenet.data.image_folders import ImageFolder, check_files
from cophenet.data.preview import contact_sheet, write_sheet
from data.pictures import fill

TREE = Hierarchy.from_paths([("warm", "red"), ("cold", "blue"), ("warm", "orange"), ("cold", "green")])
COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "orange": (255, 128, 0), "green": (0, 128, 0)}


def coloured(tree: Hierarchy = TREE, per_class: int = 4, size: int = 32) -> Samples:
    """Images of one colour, which is their class."""
    labels = np.tile(np.arange(tree.num_classes), per_class)
    pixels = torch.tensor([COLOURS.get(name, (9, 9, 9)) for name in tree.classes], dtype=torch.uint8)
    images = pixels[torch.from_numpy(labels)][:, :, None, None].expand(-1, 3, size, size)
    return Samples(ArrayInputs(images.contiguous()), np.arange(len(labels)), labels, tree)


def count_colour(sheet: Image.Image, colour) -> int:
    return int((np.asarray(sheet) == colour).all(-1).sum())


def test_every_class_shows_as_many_images_as_asked_for():
    sheet = contact_sheet(coloured(), per_class=2)
    assert [count_colour(sheet, colour) for colour in COLOURS.values()] == [2 * 64 * 64] * 4


def test_images_stand_below_the_group_of_their_class():
    pixels = np.asarray(contact_sheet(coloured(), per_class=1))
    top = {name: np.argwhere((pixels == colour).all(-1)).min(0)[0] for name, colour in COLOURS.items()}
    assert top["red"] == top["orange"] < top["blue"] == top["green"]


def test_few_images_leave_a_gap_and_none_leave_an_empty_place():
    samples = coloured(per_class=2)
    without_red = samples.subset(np.flatnonzero(samples.labels != 0))
    sheet = contact_sheet(without_red, per_class=3)
    assert count_colour(sheet, COLOURS["red"]) == 0
    assert count_colour(sheet, COLOURS["blue"]) == 2 * 64 * 64


def test_long_names_are_cut_and_do_not_reach_the_next_class():
    tree = Hierarchy.from_paths([("g" * 500, "x" * 300), ("g" * 500, "b")])
    pixels = np.asarray(contact_sheet(coloured(tree), per_class=1)).min(-1)
    between = 16 + 1 * 66 + 2
    assert (pixels[42:60, between : between + 6] == 255).all()


def test_classes_beyond_the_limit_are_left_out_and_counted():
    tree = Hierarchy.from_paths([(f"group {i // 10}", f"class {i}") for i in range(40)])
    small, large = (contact_sheet(coloured(tree), per_class=1, max_classes=n) for n in (10, 40))
    assert small.height < large.height / 3


def test_trees_of_one_and_three_levels():
    for paths in ([("red",), ("blue",)], [("all", "warm", "red"), ("all", "cold", "blue")]):
        sheet = contact_sheet(coloured(Hierarchy.from_paths(paths)))
        assert count_colour(sheet, COLOURS["blue"]) == 3 * 64 * 64


def test_grey_images():
    assert contact_sheet(Digits().load(None).samples("test")).width > 480


def test_vectors_are_refused():
    vectors = Samples(ArrayInputs(torch.zeros(4, 7)), np.arange(4), np.arange(4), TREE)
    with pytest.raises(ValueError, match=r"shows images .* inputs of shape \(7,\)"):
        contact_sheet(vectors)


@pytest.mark.parametrize("option", ["per_class", "max_classes"])
def test_counts_must_be_positive(option):
    with pytest.raises(ValueError, match=option):
        contact_sheet(coloured(), **{option: 0})


def test_the_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "sheet.png"
    write_sheet(coloured(), path, title="colours")
    before = path.read_bytes()
    with Image.open(path) as image:
        assert image.format == "PNG"

    def full(_image, file, **_):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(OSError, match="No space"):
        write_sheet(coloured(), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["sheet.png"]


def test_only_png_in_a_folder_that_exists(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .*none of the sheet sheet.png does not exist"):
        write_sheet(coloured(), tmp_path / "none" / "sheet.png")
    with pytest.raises(ValueError, match=r"must end in .png, got .*sheet.gif"):
        write_sheet(coloured(), tmp_path / "sheet.gif")


def test_counts_of_parts_and_domains():
    counts = {(one.part, one.domain): one for one in count_samples(Digits().load(None))}
    assert len(counts) == 6
    full, source, target = (counts["test", domain] for domain in ("full", "source", "target"))
    assert full.samples == source.samples + target.samples
    assert (full.classes, source.classes, target.classes) == (10, 7, 3)
    assert full.least <= full.most


def test_a_domain_that_cannot_be_says_why():
    def make(_part, domain):
        if domain != "full":
            raise ValueError("no split")
        return coloured()

    counts = count_samples(DataSet("colours", TREE, make))
    assert [one.missing for one in counts] == ["", "no split", "no split"] * 2

    def broken(_part, _domain):
        raise ValueError("bad file")

    with pytest.raises(ValueError, match="bad file"):
        count_samples(DataSet("colours", TREE, broken))


def test_files_are_checked_once_and_others_counted(tmp_path):
    for name in ("cat", "dog"):
        fill(tmp_path / name, 4)
    (tmp_path / "cat" / "1.jpg").write_bytes(b"no image")
    for name in ("cat/a.gif", "dog/b.GIF", "dog/notes", "dog/.hidden", "tree.json"):
        (tmp_path / name).write_bytes(b"")
    report = check_files(ImageFolder().load(tmp_path))
    assert report.images == 8
    assert len(report.broken) == 1
    assert "cat/1.jpg cannot be read" in report.broken[0]
    assert report.passed_over == {".gif": 2, "": 1}


def test_only_image_files_are_checked():
    assert check_files(Digits().load(None)) is None
