import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from cophenet.data.augmentation import BREEDS_CROP, INAT_CROP, CentreCrop, RandomCrop, colour_matrix
from cophenet.data.image_files import ImageFiles
from cophenet.data.image_folders import list_images
from data.pictures import picture, save

ROWS = np.array([0])
ALL = RandomCrop(scale=(1, 1), ratio=(4 / 3, 4 / 3))


def files(*paths, size=32, random_crop=BREEDS_CROP):
    return ImageFiles([str(path) for path in paths], CentreCrop(size, size * 8 // 7), random_crop)


def array(tensor):
    return tensor.permute(0, 2, 3, 1).numpy().astype(float)


@pytest.mark.parametrize("kind", ["jpg", "png", "bmp", "webp", "tif", "ppm"])
def test_evaluation_is_resize_and_centre_crop(tmp_path, kind):
    path = save(tmp_path / f"a.{kind}", width=640, height=500)
    got = files(path, size=224).take(ROWS)
    assert got.shape == (1, 3, 224, 224)
    assert got.dtype == torch.uint8
    with Image.open(path) as image:
        scaled = image.resize((round(640 * 256 / 500), 256), Image.Resampling.BILINEAR)
    left, top = (scaled.width - 224) / 2, (scaled.height - 224) / 2
    wanted = np.asarray(scaled.crop((round(left), round(top), round(left) + 224, round(top) + 224)))
    # Half a pixel between the crops, and the decoder's lower resolution.
    assert np.abs(array(got)[0] - wanted).mean() < 1


@pytest.mark.parametrize(
    ("mode", "kind"), [("L", "jpg"), ("CMYK", "jpg"), ("RGBA", "png"), ("LA", "png"), ("1", "png")]
)
def test_every_8_bit_mode_becomes_rgb(tmp_path, mode, kind):
    picture().convert(mode).save(tmp_path / f"a.{kind}")
    assert files(tmp_path / f"a.{kind}").take(ROWS).shape == (1, 3, 32, 32)


def test_a_palette_with_transparency(tmp_path):
    picture().convert("P").save(tmp_path / "a.png", transparency=bytes([0, 100, 200]))
    got = array(files(tmp_path / "a.png").take(ROWS))
    picture().save(tmp_path / "b.png")
    assert np.abs(got - array(files(tmp_path / "b.png").take(ROWS))).mean() < 20


def test_large_jpegs_are_decoded_small_and_look_the_same(tmp_path):
    path = save(tmp_path / "a.jpg", width=1030, height=771)
    save(tmp_path / "a.png", width=1030, height=771)
    seeds = np.arange(20)
    rows = np.zeros(20, dtype=np.int64)
    small = files(path).augmented(rows, seeds)
    full = files(tmp_path / "a.png").augmented(rows, seeds)
    assert np.abs(array(small) - array(full)).mean() < 2


def test_the_seed_alone_decides(tmp_path):
    paths = [save(tmp_path / f"{seed}.jpg", seed) for seed in range(3)]
    inputs = files(*paths)
    rows, seeds = np.array([0, 1, 2, 0, 0]), np.array([5, 6, 7, 5, -8])
    batch = inputs.augmented(rows, seeds)
    again = pickle.loads(pickle.dumps(inputs))
    for place in (4, 2, 0):
        one = again.augmented(rows[place : place + 1], seeds[place : place + 1])
        assert torch.equal(one[0], batch[place])
    assert torch.equal(batch[0], batch[3])
    assert not torch.equal(batch[0], batch[4])
    assert torch.equal(inputs.take(rows[:1]), inputs.take(rows[3:4]))
    with ThreadPoolExecutor(4) as pool:
        turns = pool.map(lambda _: inputs.augmented(rows, seeds), range(8))
        assert all(torch.equal(turn, batch) for turn in turns)


def test_no_rows(tmp_path):
    assert files(save(tmp_path / "a.jpg")).take(np.array([], dtype=np.int64)).shape == (0, 3, 32, 32)


def test_channels_are_last_in_memory(tmp_path):
    assert files(save(tmp_path / "a.jpg")).take(ROWS).is_contiguous(memory_format=torch.channels_last)


def test_half_of_the_views_are_mirrored(tmp_path):
    path = save(tmp_path / "a.png", width=64, height=48)
    inputs = files(path, random_crop=ALL)
    seeds = np.arange(400)
    mirrored = [ALL.view(64, 48, seed).mirrored for seed in seeds.tolist()]
    assert 160 < sum(mirrored) < 240
    seen = inputs.augmented(np.zeros(8, dtype=np.int64), seeds[:8])
    plain = seen[mirrored.index(False)]
    for image, turned in zip(seen, mirrored, strict=False):
        assert torch.equal(image.flip(2) if turned else image, plain)


def test_random_crops_have_the_asked_area_and_shape():
    for crop in (BREEDS_CROP, INAT_CROP):
        boxes = np.array([crop.view(500, 375, seed).box for seed in range(3000)])
        width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        share = width * height / (500 * 375)
        assert 0.075 < share.min() < 0.1
        assert share.max() > 0.95
        ratio = width / height
        assert crop.ratio[0] - 0.02 < ratio.min() < crop.ratio[0] + 0.02
        assert crop.ratio[1] - 0.02 < ratio.max() < crop.ratio[1] + 0.02
        # Small crops fit in either shape; of large ones the tall do not.
        assert abs((width < height)[share < 0.5].mean() - 0.5) < 0.05
        # Crops lie all over the picture.
        assert boxes[:, 0].min() == 0
        assert boxes[:, 2].max() == 500
        assert abs((boxes[:, 0] + boxes[:, 2]).mean() / 2 - 250) < 6


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(-(2**63), 2**63 - 1))
def test_a_view_lies_in_the_picture(width, height, seed):
    for box in (BREEDS_CROP.view(width, height, seed).box, CentreCrop().view(width, height).box):
        left, top, right, bottom = box
        assert -1e-9 <= left < right <= width + 1e-9
        assert -1e-9 <= top < bottom <= height + 1e-9


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 300), (300, 1), (2000, 8), (7, 9)])
def test_thin_and_tiny_pictures(tmp_path, width, height):
    path = save(tmp_path / "a.jpg", width=width, height=height)
    inputs = files(path)
    assert inputs.take(ROWS).shape == (1, 3, 32, 32)
    assert inputs.augmented(np.zeros(9, dtype=np.int64), np.arange(9)).shape == (9, 3, 32, 32)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_light_is_what_pillow_does_in_any_order(order):
    light = (1.08, 0.91, 1.1)
    image = picture(3).point(lambda value: 60 + value // 2)
    wanted = image
    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for step in order:
        wanted = enhancers[step](wanted).enhance(light[step])
    mean = tuple(np.asarray(image).mean((0, 1)))
    got = image.convert("RGB", colour_matrix(light, mean))
    assert np.abs(np.asarray(got).astype(int) - np.asarray(wanted)).max() <= 3


def test_jitter_stays_in_its_range():
    lights = np.array([BREEDS_CROP.view(50, 40, seed).light for seed in range(2000)])
    assert lights.min() >= 0.9
    assert lights.max() <= 1.1
    np.testing.assert_allclose(lights.mean(0), 1, atol=0.01)
    np.testing.assert_allclose(np.corrcoef(lights.T), np.eye(3), atol=0.1)
    assert INAT_CROP.view(50, 40, 1).light is None


def damaged(path):
    whole = save(path.with_name("whole.jpg"), width=300, height=200).read_bytes()
    return {
        "cut": whole[: len(whole) // 2],
        "header": whole[:30],
        "empty": b"",
        "text": b"<html>not found</html>",
        "png": b"\x89PNG\r\n\x1a\n" + whole,
    }


@pytest.mark.parametrize("how", ["cut", "header", "empty", "text", "png"])
def test_a_broken_image_is_named(tmp_path, how):
    path = tmp_path / "broken.jpg"
    path.write_bytes(damaged(path)[how])
    inputs = files(tmp_path / "whole.jpg", path)
    rows = np.array([0, 1])
    with pytest.raises(ValueError, match=r"image .*broken\.jpg cannot be read: "):
        inputs.take(rows)
    with pytest.raises(ValueError, match=r"broken\.jpg"):
        inputs.augmented(rows, rows)


def test_a_cut_png_is_named(tmp_path):
    path = save(tmp_path / "broken.png", width=300, height=200)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"broken\.png cannot be read"):
        files(path).take(ROWS)


def test_deep_pixels_are_refused_and_not_clipped(tmp_path):
    Image.fromarray(np.full((9, 9), 40000, dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match=r"deep\.png cannot be read: pixels of mode 'I;16' are not 8 bits"):
        files(tmp_path / "deep.png").take(ROWS)


def test_a_vanished_image(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.jpg is gone"):
        files(tmp_path / "gone.jpg").take(ROWS)


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    path = save(tmp_path / "a.jpg")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"cophenet\[data\]"):
        files(path).take(ROWS)


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="resize must be finite and at least 224, got 200"):
        CentreCrop(224, 200)
    with pytest.raises(ValueError, match="size must be"):
        CentreCrop(0, 200)
    for options in ({"scale": (0, 1)}, {"scale": (0.5, 0.2)}, {"ratio": (2, 1)}, {"jitter": 1.0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            RandomCrop(**options)


def test_only_images_are_listed_by_name(tmp_path):
    for name in ("b.JPEG", "a.png", "c.Jpg"):
        save(tmp_path / name)
    (tmp_path / ".hidden.jpg").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    assert list_images(tmp_path) == [str(tmp_path / name) for name in ("a.png", "b.JPEG", "c.Jpg")]


def test_problems_are_told_by_header_and_by_content(tmp_path):
    whole = save(tmp_path / "whole.jpg", width=200, height=200)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    foreign = tmp_path / "foreign.jpg"
    foreign.write_bytes(b"<html>")
    some = files(whole, cut, foreign, tmp_path / "gone.jpg")
    assert [bool(some.problem(row)) for row in range(4)] == [False, False, True, True]
    assert [bool(some.problem(row, deep=True)) for row in range(4)] == [False, True, True, True]
    assert "foreign.jpg cannot be read" in some.problem(2)
