"""Images as arrays."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lakebed.codecs.images import pil_array
from lakebed.codecs.sample import Sample
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import SampleHtypeMismatchError
from lakebed.htypes.images import converted, converted_file, is_pil, padded, pads_rank

COLOURS = np.arange(60, dtype="u1").reshape(4, 5, 3)


@pytest.mark.parametrize(
    ("settings", "pads"),
    [
        ({"htype": "image", "sample_compression": "png"}, True),
        ({"htype": "image"}, True),
        ({"htype": "image", "chunk_compression": "lz4"}, True),
        ({"htype": "image", "chunk_compression": "png"}, False),
        ({"htype": "image", "max_shape": (4, 5)}, False),
        ({"htype": "image", "max_shape": (4, 5, 3)}, True),
        ({"htype": "generic", "sample_compression": "jpeg"}, True),
        ({"htype": "generic", "sample_compression": "lz4"}, False),
        ({"htype": "image.gray"}, False),
        ({"htype": "image.gray", "sample_compression": "png"}, True),
        ({"htype": "segment_mask"}, False),
        ({"htype": "audio", "sample_compression": "wav"}, False),
    ],
    ids=str,
)
def test_grey_images_get_a_third_axis_where_3_9_52_gives_them_one(
    settings: dict[str, Any], pads: bool
) -> None:
    """In image tensors and wherever samples are image files, unless the tensor's rank is another already."""
    assert pads_rank(TensorMeta(**settings)) is pads


def test_ranks_are_padded_at_the_end() -> None:
    """Three axes stay as they are."""
    assert [padded(np.zeros(s)).shape for s in ((5,), (4, 5), (4, 5, 3), (2, 3, 4, 5))] == [
        (5, 1, 1), (4, 5, 1), (4, 5, 3), (2, 3, 4, 5),
    ]  # fmt: skip


def test_rgb_repeats_grey_and_drops_opacity() -> None:
    """Any 8-bit image becomes three channels."""
    grey = COLOURS[:, :, 0]
    for image in (grey, grey[:, :, np.newaxis], np.stack([grey, grey], axis=2)):
        assert np.array_equal(converted(image, "image.rgb"), np.stack([grey] * 3, axis=2))
    four = np.concatenate([COLOURS, COLOURS[:, :, :1]], axis=2)
    assert np.array_equal(converted(four, "image.rgb"), COLOURS)
    assert converted(COLOURS, "image.rgb") is COLOURS
    assert converted(np.zeros((0, 5), "u1"), "image.rgb").shape == (0, 5, 3)


def test_grey_of_arrays_is_cut_off_per_channel() -> None:
    """The first values that 3.9.52 stored of this array."""
    assert converted(COLOURS, "image.gray").ravel()[:6].tolist() == [0, 2, 5, 8, 11, 14]
    assert converted(COLOURS, "image.gray").shape == (4, 5)
    assert np.array_equal(converted(COLOURS[:, :, :1], "image.gray"), COLOURS[:, :, 0])


def test_grey_of_files_is_that_of_pillow() -> None:
    """Files are converted by Pillow's weights."""
    out = io.BytesIO()
    Image.fromarray(COLOURS).save(out, "PNG")
    sample = Sample(buffer=out.getvalue(), compression="png")
    assert np.array_equal(
        converted_file(sample, "image.gray"), np.asarray(Image.fromarray(COLOURS).convert("L"))
    )


@pytest.mark.parametrize(
    "wrong", [np.zeros((4, 5)), np.zeros(5, "u1"), np.zeros((4, 5, 5), "u1"), np.zeros((2, 4, 5, 3), "u1")]
)
def test_what_is_no_8_bit_image_is_refused(wrong: Any) -> None:
    """The message says what was given."""
    for htype in ("image.rgb", "image.gray"):
        with pytest.raises(SampleHtypeMismatchError, match="uint8"):
            converted(wrong, htype)


def test_pillow_images_are_arrays() -> None:
    """Palettes become their colours."""
    image = Image.fromarray(COLOURS)
    assert is_pil(image)
    assert not is_pil(COLOURS)
    assert np.array_equal(pil_array(image), COLOURS)
    assert pil_array(image.convert("P")).shape == (4, 5, 3)
    assert pil_array(image.convert("1")).dtype == np.bool_
