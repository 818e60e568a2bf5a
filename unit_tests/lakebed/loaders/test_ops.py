"""Declared crops and resizes: the boxes that torchvision's transforms of the same names would take.

torchvision is not installed here. What it does with images of Pillow is written down below, one image at a time.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError
from lakebed.loaders import ops
from lakebed.loaders.draws import draws
from lakebed.native import regions as native
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(100))
BILINEAR = PIL.Image.Resampling.BILINEAR

Pixels = NDArray[np.uint8]


def picture(height: int, width: int) -> Pixels:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), np.uint8)


def index(draw: float, count: int) -> int:
    return min(int(draw * count), count - 1)


def cut(image: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    """Cut a box, zeros outside of the image."""
    far = 2 * max(image.shape[:2]) + 2 * max(height, width)
    canvas = np.zeros((image.shape[0] + 2 * far, image.shape[1] + 2 * far, 3), np.uint8)
    canvas[far : far + image.shape[0], far : far + image.shape[1]] = image
    return canvas[far + top : far + top + height, far + left : far + left + width]


def resize(image: Pixels, height: int, width: int) -> Pixels:
    if image.shape[:2] == (height, width):
        return image
    return np.asarray(PIL.Image.fromarray(image).resize((width, height), BILINEAR))


def random_resized_crop(step: ops.RandomResizedCrop, image: Pixels, u: list[float]) -> Pixels:
    height, width = image.shape[:2]
    for i in range(10):
        area = height * width * (step.scale[0] + (step.scale[1] - step.scale[0]) * u[2 * i])
        low, high = math.log(step.ratio[0]), math.log(step.ratio[1])
        ratio = math.exp(low + (high - low) * u[2 * i + 1])
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top, left = index(u[20], height - h + 1), index(u[21], width - w + 1)
            break
    else:
        w, h = width, height
        if width / height < step.ratio[0]:
            h = max(round(width / step.ratio[0]), 1)
        elif width / height > step.ratio[1]:
            w = max(round(height * step.ratio[1]), 1)
        top, left = (height - h) // 2, (width - w) // 2
    made = resize(cut(image, top, left, h, w), *step.size)
    return made[:, ::-1] if step.flip and u[22] < step.flip else made


def center_crop(step: ops.CenterCrop, image: Pixels, u: list[float]) -> Pixels:
    (height, width), (h, w) = image.shape[:2], step.size
    if w > width or h > height:
        top, left = (h - height) // 2 if h > height else 0, (w - width) // 2 if w > width else 0
        image = cut(image, -top, -left, max(height, h), max(width, w))
        height, width = image.shape[:2]
    return cut(image, round((height - h) / 2.0), round((width - w) / 2.0), h, w)


def random_crop(step: ops.RandomCrop, image: Pixels, u: list[float]) -> Pixels:
    left, top, right, bottom = step.padding
    height, width = image.shape[0] + top + bottom, image.shape[1] + left + right
    if step.pad_if_needed and height < step.size[0]:
        missing = step.size[0] - height
        top, height = top + missing, height + 2 * missing
    if step.pad_if_needed and width < step.size[1]:
        missing = step.size[1] - width
        left, width = left + missing, width + 2 * missing
    image = cut(image, -top, -left, height, width)
    return cut(
        image, index(u[0], height - step.size[0] + 1), index(u[1], width - step.size[1] + 1), *step.size
    )


def resized(step: ops.Resize, image: Pixels, u: list[float]) -> Pixels:
    height, width = image.shape[:2]
    if not isinstance(step.size, int):
        return resize(image, *step.size)
    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = step.size, int(step.size * long / short)
    if step.max_size is not None and new_long > step.max_size:
        new_short, new_long = int(step.max_size * new_short / new_long), step.max_size
    new_short = max(new_short, 1)
    return resize(image, *((new_long, new_short) if width <= height else (new_short, new_long)))


def flip(step: ops.HorizontalFlip, image: Pixels, u: list[float]) -> Pixels:
    return image[:, ::-1] if u[0] < step.p else image


ORACLES: dict[type, Any] = {
    ops.RandomResizedCrop: random_resized_crop,
    ops.CenterCrop: center_crop,
    ops.RandomCrop: random_crop,
    ops.Resize: resized,
    ops.HorizontalFlip: flip,
}


def by_oracle(compose: ops.Compose, image: Pixels, u: list[float]) -> Pixels:
    at = 0
    for step in compose.geometric:
        image = ORACLES[type(step)](step, image, u[at : at + step.draws])
        at += step.draws
    return image


def by_regions(compose: ops.Compose, images: list[Pixels], u: NDArray[np.float64]) -> list[Pixels]:
    extents = np.array([image.shape[:2] for image in images])
    found = images
    for geometry in compose.geometries(extents, u):
        assert geometry.boxes.dtype == geometry.resized.dtype == geometry.offsets.dtype == np.int32
        rooms = [np.empty((*room, 3), np.uint8) for room in geometry.rooms.tolist()]
        status = native.resize_regions(
            found, geometry.boxes, rooms, geometry.resized, geometry.offsets, geometry.flips
        )
        shrunk = (geometry.boxes[:, 2:] / geometry.resized).max()
        assume(shrunk < 249)
        assert not status.any()
        found = rooms
    return found


SIZES = st.one_of(st.integers(1, 40), st.tuples(st.integers(1, 40), st.integers(1, 40)))
RATIOS = st.sampled_from([(3 / 4, 4 / 3), (0.2, 0.3), (4.0, 9.0), (1.0, 1.0)])
STEPS = st.one_of(
    st.builds(
        ops.RandomResizedCrop,
        SIZES,
        st.sampled_from([(0.08, 1.0), (0.9, 1.0), (0.01, 0.02), (1.0, 3.0)]),
        RATIOS,
        st.sampled_from([0.0, 0.5]),
    ),
    st.builds(ops.CenterCrop, SIZES),
    st.builds(
        ops.RandomCrop, SIZES, st.sampled_from([None, 3, (2, 5), (1, 2, 3, 4)]), pad_if_needed=st.just(True)
    ),
    st.builds(ops.Resize, SIZES),
    st.builds(lambda size: ops.Resize(size, size + 7), st.integers(1, 40)),
    st.builds(ops.HorizontalFlip, st.sampled_from([0.0, 0.5, 1.0])),
)


@SMALL
@given(
    st.lists(STEPS, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=4),
    st.integers(0, 1000),
)
def test_boxes_are_those_of_torchvision(steps: list[Any], sides: list[tuple[int, int]], seed: int) -> None:
    """Any operations in any order, on images of all shapes, each with its own numbers."""
    compose = ops.Compose(steps)
    images = [picture(*side) for side in sides]
    u = draws(seed, 0, np.arange(len(images)), compose.draws)
    for image, row, found in zip(images, u.tolist(), by_regions(compose, images, u), strict=True):
        expected = by_oracle(compose, image, row)
        assert found.shape == expected.shape
        assert compose.output in (None, found.shape[:2])
        # Each interpolation is rounded once, and the next one may carry that on.
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= len(compose.stages)


def test_usual_transforms_take_one_pass() -> None:
    """Training and evaluation of classifiers are one stage; a second interpolation is one of its own."""
    assert len(ops.Compose([ops.RandomResizedCrop(224), ops.HorizontalFlip()]).stages) == 1
    assert len(ops.Compose([ops.Resize(256), ops.CenterCrop(224)]).stages) == 1
    assert len(ops.Compose([ops.RandomCrop(32, 4), ops.HorizontalFlip()]).stages) == 1
    assert len(ops.Compose([ops.RandomCrop(200), ops.HorizontalFlip(), ops.Resize(100)]).stages) == 1
    assert len(ops.Compose([ops.Resize(256), ops.RandomResizedCrop(224)]).stages) == 2
    assert len(ops.Compose([ops.CenterCrop(5), ops.CenterCrop(9)]).stages) == 2
    assert len(ops.Compose([ops.RandomCrop(32, 4), ops.Resize(16)]).stages) == 2
    assert ops.Compose([]).stages == ((),)


def test_boxes_of_a_random_crop_are_spread() -> None:
    """Area, shape and place are distributed as they should be, and a flip comes as often as it should."""
    compose = ops.Compose([ops.RandomResizedCrop(224, flip=0.25)])
    (made,) = compose.geometries(
        np.tile([[375, 500]], (20_000, 1)), draws(1, 2, np.arange(20_000), compose.draws)
    )
    top, left, height, width = made.boxes.T
    area = height * width / (375 * 500)
    assert area.min() >= 0.079
    assert area.max() <= 1
    # Below the middle: boxes that do not fit, large ones above all, are drawn again.
    assert 0.42 < area.mean() < 0.45
    shape = np.log(width / height)
    assert np.abs(shape).max() <= math.log(4 / 3) + 0.03
    assert abs(np.median(shape)) < 0.05
    inside = height < 375
    assert 0.47 < (top[inside] / (375 - height[inside])).mean() < 0.53
    assert top.min() == left.min() == 0
    assert (top + height).max() == 375
    assert (left + width).max() == 500
    assert 0.235 < made.flips.mean() < 0.265


def test_a_sample_has_its_own_numbers() -> None:
    """What a sample gets does not depend on the batch that it comes in."""
    compose = ops.Compose([ops.RandomResizedCrop(64), ops.HorizontalFlip()])
    extents = np.array([[100 + i, 200 - i] for i in range(50)])
    (whole,) = compose.geometries(extents, draws(3, 4, np.arange(50), compose.draws))
    for some in ([7], [49, 3, 20]):
        (part,) = compose.geometries(extents[some], draws(3, 4, np.array(some), compose.draws))
        np.testing.assert_array_equal(part.boxes, whole.boxes[some])
        np.testing.assert_array_equal(part.flips, whole.flips[some])


def test_factors_of_floats() -> None:
    """Values are divided by 255, then normalised by channel."""
    values = np.arange(256)[:, np.newaxis]
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    scale, shift = ops.Compose([ops.ToFloat(), ops.Normalize(mean, std)]).factors(3)
    np.testing.assert_allclose(values * scale + shift, (values / 255 - mean) / std, atol=2e-6)
    scale, shift = ops.Compose([ops.ToFloat()]).factors(1)
    np.testing.assert_allclose(values * scale + shift, values / 255, atol=1e-7)
    with pytest.raises(InvalidInputError, match="for 2 channels, not for 3"):
        ops.Compose([ops.ToFloat(), ops.Normalize((0, 0), (1, 1))]).factors(3)


def test_operations_are_values() -> None:
    """They can be compared, pickled, and not changed."""
    steps: list[Any] = [
        ops.RandomResizedCrop(224, (0.3, 1), flip=0.5),
        ops.CenterCrop((3, 4)),
        ops.RandomCrop(5, (1, 2)),
        ops.Resize(7, 9),
        ops.HorizontalFlip(0.1),
        ops.ToFloat(),
        ops.Normalize([1], [2]),
    ]
    compose = ops.Compose(steps)
    assert pickle.loads(pickle.dumps(compose)) == compose
    assert ops.CenterCrop(3) == ops.CenterCrop((3, 3)) == ops.CenterCrop([3])
    assert ops.RandomCrop(5, (1, 2)).padding == (1, 2, 1, 2)
    with pytest.raises(AttributeError):
        steps[0].size = (1, 1)


def test_evaluation_is_exact_and_training_may_scale() -> None:
    assert not ops.Compose([ops.Resize(256), ops.CenterCrop(224)]).scaled
    assert ops.Compose([ops.Resize(256), ops.CenterCrop(224)], scaled=True).scaled
    assert ops.Compose([ops.RandomResizedCrop(224)]).scaled
    assert not ops.Compose([ops.RandomResizedCrop(224)], scaled=False).scaled


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ops.CenterCrop(0),
        lambda: ops.CenterCrop((1, 2, 3)),
        lambda: ops.RandomResizedCrop(5, scale=(0, 1)),
        lambda: ops.RandomResizedCrop(5, ratio=(2, 1)),
        lambda: ops.HorizontalFlip(1.5),
        lambda: ops.RandomCrop(5, (1, 2, 3)),
        lambda: ops.RandomCrop(5, -1),
        lambda: ops.Resize((5, 6), 9),
        lambda: ops.Resize(5, 5),
        lambda: ops.Normalize((1, 2), (1,)),
        lambda: ops.Normalize((1, 2), (1, 0)),
        lambda: ops.Compose([ops.Normalize((1,), (1,))]),
        lambda: ops.Compose([ops.ToFloat(), ops.CenterCrop(5)]),
        lambda: ops.Compose([len]),
    ],
)
def test_parameters_that_mean_nothing(wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        wrong()


def test_images_too_small_for_a_crop_are_told() -> None:
    compose = ops.Compose([ops.RandomCrop(50)])
    with pytest.raises(
        InvalidInputError, match="an image of 49 x 60 pixels is smaller than a crop of 50 x 50"
    ):
        compose.geometries(np.array([[50, 60], [49, 60]]), np.zeros((2, 2)))
