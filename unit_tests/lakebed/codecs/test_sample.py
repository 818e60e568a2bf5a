"""Samples: lazy files and arrays, with the members and answers of the 3.x API."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import PIL.Image
import pytest

from lakebed.codecs.base import FileFacts
from lakebed.codecs.sample import Sample
from lakebed.errors import (
    CorruptedSampleError,
    FormatError,
    InvalidInputError,
    SampleCompressionError,
    SampleDecompressionError,
    UnsupportedCompressionError,
)

RGB = (np.arange(16 * 24 * 3) * 37 % 251).astype(np.uint8).reshape(16, 24, 3)


def saved(kind: str, array: np.ndarray[Any, Any] = RGB) -> bytes:
    target = io.BytesIO()
    PIL.Image.fromarray(array).save(target, kind)
    return target.getvalue()


class Disk:
    """A file that counts how often it is read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads = 0

    def __call__(self) -> bytes:
        self.reads += 1
        return self.content


def test_a_file_is_read_once_and_only_when_it_is_looked_at() -> None:
    """Making a sample reads nothing; its header tells shape and dtype without decoding."""
    disk = Disk(saved("PNG"))
    sample = Sample(path="dir/rgb.png", fetch=disk)
    assert repr(sample) == "Sample(is_lazy=True, path=dir/rgb.png)"
    assert disk.reads == 0
    assert (sample.compression, sample.shape, sample.dtype) == ("png", (16, 24, 3), "uint8")
    assert sample.is_lazy
    assert not sample.is_empty
    assert np.array_equal(sample.array, RGB)
    assert not sample.is_lazy
    assert sample.compression == "png"
    assert disk.reads == 1
    assert repr(sample).startswith(
        "Sample(is_lazy=False, shape=(16, 24, 3), compression='png', dtype='uint8'"
    )


def test_meta_is_what_the_info_tensor_records() -> None:
    """Facts of the file, then shape, format and, if there is a path, filename."""
    png, jpeg = saved("PNG"), saved("JPEG", RGB[..., 0])
    assert Sample(path="a.png", fetch=lambda: png).meta == {
        "exif": {}, "shape": (16, 24, 3), "format": "png", "filename": "a.png",
    }  # fmt: skip
    assert Sample(buffer=jpeg).meta == {"exif": {}, "shape": (16, 24), "format": "jpeg"}
    assert Sample(array=RGB).meta == {"shape": (16, 24, 3), "format": None}


def test_bytes_in_its_own_kind_are_the_file_itself() -> None:
    """Every other kind is encoded from the values."""
    png = saved("PNG")
    sample = Sample(buffer=png)
    assert sample.compressed_bytes("png") == png
    assert sample.is_lazy
    assert sample.compressed_bytes(None) == sample.uncompressed_bytes() == RGB.tobytes()
    assert Sample(buffer=sample.compressed_bytes("bmp")).compression == "bmp"
    assert Sample(buffer=sample.compressed_bytes("jpg")).compression == "jpeg"
    packed = sample.compressed_bytes("lz4")
    assert np.array_equal(Sample(buffer=packed, compression="lz4", shape=RGB.shape, dtype="uint8").array, RGB)
    with pytest.raises(SampleCompressionError):
        sample.compressed_bytes("xbm")
    with pytest.raises(UnsupportedCompressionError):
        sample.compressed_bytes("zip")


def test_an_array_is_never_lazy() -> None:
    """It has no compression, and its bytes are its buffer."""
    sample = Sample(array=RGB)
    assert (sample.compression, sample.shape, sample.dtype, sample.is_lazy) == (
        None,
        RGB.shape,
        "uint8",
        False,
    )
    assert sample.buffer == RGB.tobytes()
    assert sample.path is None
    assert Sample(array=np.zeros((0, 5))).is_empty
    assert np.array_equal(np.array(sample), RGB)
    assert np.asarray(sample, dtype=np.float32).dtype == np.float32
    copied = np.array(sample, copy=True)
    copied[:] = 0
    assert np.array_equal(sample.array, RGB)


def test_raw_values_need_their_shape_and_dtype() -> None:
    """Bytes with a shape and without a compression are values."""
    sample = Sample(buffer=RGB.tobytes(), shape=RGB.shape, dtype="uint8")
    assert sample.compression is None
    assert np.array_equal(sample.array, RGB)
    with pytest.raises(FormatError, match="expected"):
        _ = Sample(buffer=b"123", shape=(4,), dtype="int32").array
    with pytest.raises(InvalidInputError, match="not a dtype"):
        _ = Sample(buffer=b"1234", shape=(1,), dtype="what").array
    with pytest.raises(InvalidInputError, match="shape and dtype"):
        _ = Sample(buffer=b"1234", compression="lz4").shape
    with pytest.raises(InvalidInputError, match="needs an array"):
        Sample()


def test_facts_that_are_known_are_not_read_again() -> None:
    """Who parsed the headers of a batch hands them over."""
    disk = Disk(saved("PNG"))
    sample = Sample(fetch=disk, compression="png", facts=FileFacts((16, 24, 3), "uint8"))
    assert (sample.shape, sample.dtype, disk.reads) == ((16, 24, 3), "uint8", 0)


def test_a_local_file_tells_its_path_until_it_is_read() -> None:
    """A copy may be read while the sample stays unread."""
    disk = Disk(saved("PNG"))
    sample = Sample(path="a.png", fetch=disk, local="a.png")
    assert sample.copy().shape == (16, 24, 3)
    assert sample.unread_path == "a.png"
    assert (sample.shape, disk.reads) == ((16, 24, 3), 2)
    assert sample.unread_path is None
    assert Sample(array=RGB).unread_path is None
    assert Sample(path="http://a/b.png", fetch=disk).unread_path is None


def test_damage_names_the_file() -> None:
    """Unknown content, another kind than was said, and a file that is cut."""
    with pytest.raises(CorruptedSampleError, match=r"x\.jpg.*not a known kind"):
        _ = Sample(path="x.jpg", fetch=lambda: b"hello world").shape
    with pytest.raises(CorruptedSampleError, match=r"x\.jpg.*not in the format jpeg"):
        _ = Sample(path="x.jpg", compression="jpeg", fetch=lambda: saved("PNG")).dtype
    cut = saved("PNG")[:-60]
    with pytest.raises(SampleDecompressionError, match=r"x\.png.*damaged png"):
        _ = Sample(path="x.png", fetch=lambda: cut).array


def test_samples_are_equal_by_path_or_content() -> None:
    """Two files of one path are the same without reading them; other samples compare their bytes."""
    one, two = Sample(path="a", fetch=Disk(b"1")), Sample(path="a", fetch=Disk(b"2"))
    assert one == two
    assert Sample(path="b", fetch=Disk(b"1")) != one
    assert Sample(array=RGB) == Sample(array=RGB.copy())
    assert Sample(array=RGB) != Sample(array=RGB + 1)
    assert Sample(array=RGB) != RGB.tobytes()
    assert Sample(array=RGB).copy() == Sample(array=RGB)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_images_come_as_pillow_images() -> None:
    """Values that are no image do not."""
    assert Sample(buffer=saved("PNG")).pil.size == (24, 16)
    with pytest.raises(InvalidInputError, match="not an image"):
        _ = Sample(array=np.zeros((2, 3, 4, 5))).pil


def test_text_likeness_is_for_others_to_say() -> None:
    """False until it is set."""
    sample = Sample(array=RGB)
    assert not sample.is_text_like
    sample.is_text_like = True
    assert sample.is_text_like
