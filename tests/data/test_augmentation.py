"""The batch augmentation picks the very pixels that one image after the other would."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from cophenet.data.augmentation import PadCropFlipRotate, create_augment
from support import DEVICE


def images(count, channels=3, height=32, width=32):
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(1, 256, (count, channels, height, width), generator=generator, dtype=torch.uint8)
    return values.to(DEVICE)


def draws(count, seed=0):
    return torch.rand(count, 4, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def with_pillow(image, draw, pad=4, degrees=15.0):
    """The paper's steps one after the other."""
    down, right, flip, turn = draw.tolist()
    height, width = image.shape[1:]
    picture = Image.fromarray(image.permute(1, 2, 0).cpu().numpy())
    top, left = int(down * (2 * pad + 1)), int(right * (2 * pad + 1))
    picture = ImageOps.expand(picture, pad).crop((left, top, left + width, top + height))
    if flip < 0.5:
        picture = ImageOps.mirror(picture)
    turned = picture.rotate((2 * turn - 1) * degrees, Image.Resampling.NEAREST)
    return torch.from_numpy(np.array(turned)).permute(2, 0, 1)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 33)])
def test_equals_the_steps_of_pillow(height, width):
    batch, random = images(64, height=height, width=width), draws(64)
    ours = PadCropFlipRotate()(batch, random).cpu()
    theirs = torch.stack([with_pillow(*pair) for pair in zip(batch, random, strict=True)])
    # Pillow turns in fixed point, so that a pixel on the border between two may be the other one.
    assert (ours == theirs).all(1).double().mean() > 0.999


def test_without_rotation_equals_the_steps_exactly():
    batch, random = images(64), draws(64)
    random[:, 3] = 0.5
    ours = PadCropFlipRotate()(batch, random).cpu()
    theirs = torch.stack([with_pillow(*pair) for pair in zip(batch, random, strict=True)])
    assert torch.equal(ours, theirs)


def test_draws_are_spread_evenly():
    count = 20_000
    # The smallest image in which the places that it and its mirror image can come to do not meet.
    spot = torch.zeros(1, 1, 18, 18, dtype=torch.uint8, device=DEVICE)
    spot[..., 8, 13] = 1
    random = draws(count)
    random[:, 3] = 0.5
    seen = PadCropFlipRotate()(spot.expand(count, -1, -1, -1), random).sum(0)[0].cpu().double()
    straight, mirrored = seen[4:13, 9:18], seen[4:13, 0:9]
    assert straight.sum() + mirrored.sum() == count
    assert abs(straight.sum() / count - 0.5) < 0.02
    for part in (straight, mirrored):
        assert abs(part - part.mean()).max() < 6 * math.sqrt(part.mean())


def test_extreme_draws_stay_inside():
    random = torch.tensor([[0.0] * 4, [1 - 2**-24] * 4], device=DEVICE)
    result = PadCropFlipRotate()(images(2), random)
    assert result.shape == (2, 3, 32, 32)
    # Four rows or columns of zeros come in at the shifted side, before the turn.
    assert (result == 0).all(1).flatten(1).sum(1).min() > 4 * 32


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_type_and_other_samples_do_not_matter(dtype):
    batch, random = images(8, channels=1).to(dtype), draws(8)
    whole = create_augment("cifar")(batch, random)
    assert whole.dtype == dtype
    assert torch.equal(whole[5:6], create_augment("cifar")(batch[5:6], random[5:6]))


def test_what_is_no_image_is_refused():
    with pytest.raises(ValueError, match=r"needs images \(n, channels, height, width\)"):
        PadCropFlipRotate()(torch.zeros(4, 7), draws(4))
    with pytest.raises(ValueError, match="augment must be one of cifar, got 'cifra'; did you mean 'cifar'"):
        create_augment("cifra")
