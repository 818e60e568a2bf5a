"""JPEG: the pixels that Pillow gives, straight into the array that they are for."""

from __future__ import annotations

import io
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL.TiffImagePlugin import IFDRational

from lakebed import limits
from lakebed.codecs.jpeg import Jpeg
from lakebed.errors import (
    CorruptedSampleError,
    LakebedError,
    LimitError,
    SampleCompressionError,
    SampleDecompressionError,
)
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(40))
JPEG = Jpeg()


def smooth(height: int, width: int, channels: int = 3) -> NDArray[np.uint8]:
    """Return an image that survives lossy compression: gradients with a little of everything."""
    y, x, c = np.mgrid[:height, :width, :channels]
    pixels = (128 + 100 * np.sin(x / 5 + c) * np.cos(y / 7 - c)).astype(np.uint8)
    return pixels if channels > 1 else pixels[..., 0]


def saved(array: NDArray[Any], **options: Any) -> bytes:
    target = io.BytesIO()
    image = PIL.Image.fromarray(array)
    (image.convert("CMYK") if options.pop("cmyk", False) else image).save(target, "JPEG", **options)
    return target.getvalue()


def by_pillow(data: bytes) -> NDArray[Any]:
    with PIL.Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
        return np.asarray(image)


@SMALL
@given(
    st.integers(1, 60), st.integers(1, 60), st.sampled_from([1, 3]), st.sampled_from([0, 1, 2]),
    st.integers(1, 98), st.booleans(),
)  # fmt: skip
def test_pixels_are_those_of_pillow(
    height: int, width: int, channels: int, subsampling: int, quality: int, progressive: bool
) -> None:
    """Bit by bit, for every subsampling, odd extents, baseline and progressive, grey and colour."""
    array = smooth(height, width, channels)
    data = saved(array, subsampling=subsampling, quality=quality, progressive=progressive)
    expected = by_pillow(data)
    facts = JPEG.facts(data)
    assert (facts.shape, facts.dtype) == (array.shape, "uint8")
    assert np.array_equal(JPEG.decode(data), expected)
    out = np.empty((height, width, channels), dtype=np.uint8)
    assert JPEG.decode(data, out) is out
    assert np.array_equal(out.reshape(expected.shape), expected)


def test_cmyk_comes_as_four_channels() -> None:
    """Kinds that libjpeg-turbo's simple interface does not decode exactly go through Pillow."""
    data = saved(smooth(12, 17), cmyk=True)
    out = np.empty((12, 17, 4), dtype=np.uint8)
    assert JPEG.facts(data).shape == (12, 17, 4)
    assert JPEG.decode(data, out) is out
    assert np.array_equal(out, by_pillow(data))


def test_other_dtypes_and_layouts_of_the_target_are_filled_by_a_copy() -> None:
    """A target of another dtype, or one that is no block of memory, is filled; one of another shape is not."""
    data = saved(smooth(8, 9))
    expected = by_pillow(data)
    wide = np.empty((8, 9, 3), dtype=np.int64)
    assert JPEG.decode(data, wide) is wide
    assert np.array_equal(wide, expected)
    strided = np.empty((8, 18, 3), dtype=np.uint8)[:, ::2]
    assert JPEG.decode(data, strided) is strided
    assert np.array_equal(strided, expected)
    other = np.zeros((9, 8, 3), dtype=np.uint8)
    assert np.array_equal(JPEG.decode(data, other), expected)
    assert not other.any()
    frozen = np.zeros((8, 9, 3), dtype=np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        JPEG.decode(data, frozen)


@pytest.mark.parametrize(
    "shape", [(40, 50, 3), (40, 50), (40, 50, 1), (1, 30, 3), (30, 1), (1, 30, 1), (1, 1, 1), (7,)]
)
def test_arrays_come_back_close(shape: tuple[int, ...]) -> None:
    """Encoding is Pillow's default: quality 75, chroma halved; grey stays grey, also with one row."""
    height, width = shape[:2] if len(shape) > 1 else (shape[0], 1)
    array = smooth(height, width, shape[2] if len(shape) == 3 else 1).reshape(shape)
    data = JPEG.encode(array)
    assert JPEG.facts(data).shape == ((height, width, 3) if shape[2:] == (3,) else (height, width))
    back = JPEG.decode(data).reshape(shape)
    assert np.abs(back.astype(int) - array).mean() < 6
    plain = array.reshape(height, width) if array.size == height * width else array
    with PIL.Image.open(io.BytesIO(data)) as image, PIL.Image.open(io.BytesIO(saved(plain))) as other:
        assert image.quantization == other.quantization  # type: ignore[attr-defined]
        assert image.info["jfif"] == other.info["jfif"]


def test_masks_are_stored_black_and_white() -> None:
    """A bool array becomes 0 and 255, as 3.9.52 has it."""
    mask = np.zeros((16, 16), dtype=bool)
    mask[:8] = True
    assert np.array_equal(JPEG.decode(JPEG.encode(mask)) > 127, mask)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 5, 4), np.uint8), np.zeros((4, 5, 2), np.uint8), np.zeros((4, 5), np.uint16),
        np.zeros((4, 5), np.float32), np.zeros((4, 5, 3), bool), np.zeros((2, 4, 5, 3), np.uint8),
        np.zeros((65501, 1), np.uint8),
    ],
)  # fmt: skip
def test_what_jpeg_cannot_hold_is_refused(array: NDArray[Any]) -> None:
    """The refusal comes from a check beforehand, too."""
    with pytest.raises(SampleCompressionError):
        JPEG.encode(array)
    with pytest.raises(SampleCompressionError):
        JPEG.check(array)


def test_no_values_are_no_bytes() -> None:
    """An empty array of any rank is stored as nothing."""
    assert JPEG.encode(np.zeros((0, 5, 3), np.uint8)) == b""
    JPEG.check(np.zeros((0, 5, 3), np.uint8))


def test_cut_files_are_damaged() -> None:
    """A file without its end is an error, as in 3.9.52; bytes behind the end are not."""
    data = saved(smooth(40, 50))
    assert np.array_equal(JPEG.decode(data + b"more"), by_pillow(data))
    for end in (len(data) - 2, len(data) - 60):
        with pytest.raises(SampleDecompressionError, match="damaged jpeg"):
            JPEG.decode(data[:end])
    for wrong in (b"", b"\xff\xd8\xff", b"no image at all", data[:100]):
        with pytest.raises(CorruptedSampleError):
            JPEG.facts(wrong)


def test_large_promises_are_refused_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header of 60000 x 60000 pixels in a small file is an error of the limit that it exceeds."""
    data = saved(smooth(40, 50))
    at = data.index(b"\xff\xc0") + 5
    huge = data[:at] + b"\xea\x60\xea\x60" + data[at + 4 :]
    for step in (JPEG.facts, JPEG.decode, JPEG.metadata):
        with pytest.raises(LimitError, match="MAX_IMAGE_PIXELS"):
            step(huge)
    dense = data[:at] + b"\x20\0\x20\0" + data[at + 4 :]
    with pytest.raises(LimitError, match="MAX_RATIO"):
        JPEG.decode(dense)
    monkeypatch.setattr(limits, "MAX_IMAGE_PIXELS", 1999)
    with pytest.raises(LimitError, match="MAX_IMAGE_PIXELS"):
        JPEG.facts(data)


def test_exif_takes_the_forms_of_3x() -> None:
    """Numbers are floats, resolutions whole, short bytes text, long ones a mark; the directory inside is not read."""
    exif = PIL.Image.Exif()
    exif.update(
        {
            271: "MakerX",
            274: 6,
            282: 72.5,
            33434: (1, 50),
            37500: b"x" * 15,
            700: b"x" * 16,
            65000: 7,
            65001: IFDRational(1, 0),
            65002: (IFDRational(1, 2), IFDRational(0, 0)),
        }
    )
    exif.get_ifd(0x8769)[36867] = "2020:01:01 00:00:00"
    data = saved(smooth(8, 8), exif=exif)
    found = JPEG.metadata(data)
    assert found["format"] == "jpeg"
    assert found["exif"].pop("ExifOffset") > 0
    assert found["exif"] == {
        "Make": "MakerX", "Orientation": 6.0, "XResolution": 72, "ExposureTime": (1.0, 50.0), "65000": 7.0,
        "MakerNote": f"b'{'x' * 15}'", "XMLPacket": "<bytes>", "65001": 0, "65002": (0.5, 0),
    }  # fmt: skip
    assert JPEG.metadata(saved(smooth(8, 8))) == {"format": "jpeg", "exif": {}}


def test_damaged_exif_is_no_reason_to_refuse_an_image() -> None:
    """What can be read of it is recorded, also where warnings are errors."""
    exif = PIL.Image.Exif()
    exif.update({271: "MakerX", 274: 6, 315: "somebody"})
    data = saved(smooth(8, 8), exif=exif)
    at = data.index(b"Exif\0\0")
    for place in range(6, 60):
        damaged = bytearray(data)
        damaged[at + place : at + place + 4] = b"\xff\xff\xff\xff"
        found = JPEG.metadata(bytes(damaged))["exif"]
        assert isinstance(found, dict)


def test_parts_are_slices_of_the_image() -> None:
    """Rows of the first axis."""
    data = saved(smooth(8, 9))
    assert np.array_equal(JPEG.part(data, slice(2, 5)), by_pillow(data)[2:5])
    assert np.array_equal(JPEG.part(data, 3), by_pillow(data)[3])


def test_decoding_leaves_other_threads_running() -> None:
    """While one thread decodes a large image, another one goes on."""
    data = saved(np.tile(smooth(500, 500), (6, 6, 1)))
    started, done, ticks = threading.Event(), threading.Event(), 0

    def decode() -> None:
        started.set()
        JPEG.decode(data)
        done.set()

    thread = threading.Thread(target=decode)
    thread.start()
    started.wait()
    while not done.wait(0.0005):
        ticks += 1
    thread.join()
    assert ticks >= 3


@SMALL
@given(st.data())
def test_mutated_files_only_raise_our_errors(data: st.DataObject) -> None:
    """Whatever is changed or cut."""
    file = bytearray(saved(smooth(16, 24), progressive=data.draw(st.booleans())))
    for place in data.draw(st.lists(st.integers(0, len(file) - 1), max_size=6)):
        file[place] = data.draw(st.integers(0, 255))
    cut = bytes(file[: data.draw(st.integers(0, len(file)))]) if data.draw(st.booleans()) else bytes(file)
    for step in (JPEG.facts, JPEG.decode, JPEG.metadata):
        with suppress(LakebedError):
            step(cut)


def test_decoding_in_place_says_whether_it_could() -> None:
    """Common kinds of the target's shape are decoded; others, and damage, are left to `decode`."""
    data = saved(smooth(8, 9))
    out = np.empty((8, 9, 3), dtype=np.uint8)
    assert JPEG.decode_as(data, out)
    assert np.array_equal(out, by_pillow(data))
    grey = np.empty((8, 9, 1), dtype=np.uint8)
    assert JPEG.decode_as(saved(smooth(8, 9, 1)), grey)
    for wrong in (
        saved(smooth(9, 8)),
        saved(smooth(8, 9), cmyk=True),
        saved(smooth(8, 9, 1)),
        data[:-60],
        b"no image",
    ):
        assert not JPEG.decode_as(wrong, out)
    assert not JPEG.decode_as(data, out[::-1])
