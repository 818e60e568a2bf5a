"""Regions of JPEG files: what the compiled loop leaves is decoded by the codec, with the same result."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import simplejpeg
from numpy.typing import NDArray

from lakebed.codecs import regions
from lakebed.codecs.jpeg import Jpeg
from lakebed.errors import SampleDecompressionError
from lakebed.native import headers
from lakebed.native import regions as native


def photo(height: int = 60, width: int = 75) -> bytes:
    y, x, c = np.mgrid[:height, :width, :3]
    pixels = (128 + 100 * np.sin(x / 5 + c) * np.cos(y / 7 - c)).astype(np.uint8)
    return bytes(simplejpeg.encode_jpeg(pixels, 90, "RGB", "420"))


def rows(*values: Any) -> tuple[NDArray[np.int32], ...]:
    return tuple(np.array(value, np.int32) for value in values)


def test_library_of_pillow_is_found() -> None:
    """Pillow's wheel has one; a system that has none says so, and everything works without."""
    path, problem = regions.library()
    assert problem == ""
    assert path is not None
    assert "libjpeg" in Path(path).name


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("flip", [False, True])
def test_both_ways_give_the_same(planar: bool, flip: bool) -> None:
    """A window that leaves the resized box, through the compiled loop and through the codec."""
    data = photo()
    box, resized, offset = rows((3, 5, 50, 61), (33, 41), (-4, 7))
    rooms = np.zeros((2, 3, 40, 37) if planar else (2, 40, 37, 3), np.uint8)
    status = regions.decode_regions(
        [data],
        headers.jpeg_headers([data])[0],
        box[np.newaxis],
        rooms[:1],
        resized[np.newaxis],
        offset[np.newaxis],
        np.array([flip], np.uint8),
        planar=planar,
        scaled=False,
    )
    assert status.tolist() == [native.DONE]
    regions.resize_region(Jpeg().decode(data), box, rooms[1], resized, offset, flip=flip, planar=planar)
    np.testing.assert_array_equal(rooms[0], rooms[1])
    assert rooms[0].any()


def test_files_of_other_kinds() -> None:
    """Grey fills three channels; CMYK fits none of them, and says so; pixels of a PNG are resized as they are."""
    room, (box,) = np.zeros((20, 30, 3), np.uint8), rows((0, 0, 20, 30))
    grey = np.arange(600, dtype=np.uint8).reshape(20, 30)
    regions.resize_region(grey, box, room)
    np.testing.assert_array_equal(room, np.repeat(grey[..., np.newaxis], 3, axis=2))
    target = io.BytesIO()
    PIL.Image.new("CMYK", (30, 20)).save(target, "JPEG")
    with pytest.raises(SampleDecompressionError, match="cannot become one of 3 channels"):
        regions.resize_region(Jpeg().decode(target.getvalue()), box, room)
    with pytest.raises(SampleDecompressionError, match="leaves the image"):
        regions.resize_region(grey[:19], box, room)
    with pytest.raises(SampleDecompressionError, match="float32"):
        regions.resize_region(grey.astype(np.float32), box, room[..., 0])


def test_damaged_files_are_told_by_the_codec() -> None:
    data = photo()
    (box,) = rows((0, 0, 8, 8))
    with pytest.raises(SampleDecompressionError):
        regions.resize_region(Jpeg().decode(data[: len(data) // 2]), box, np.zeros((8, 8, 3), np.uint8))


def test_without_a_library() -> None:
    """In a process of its own in which nothing is found: each file is left to the codec."""
    program = (
        "import sys, numpy as np\n"
        "from lakebed.codecs import regions\n"
        "from lakebed.codecs.jpeg import Jpeg\n"
        "regions._candidates = lambda: iter(['/none/libjpeg.so.62'])\n"
        "path, problem = regions.library()\n"
        "assert path is None and '/none/libjpeg.so.62' in problem, problem\n"
        "data = sys.stdin.buffer.read()\n"
        "box, room = np.array([[1, 2, 30, 40]], np.int32), np.zeros((1, 16, 16, 3), np.uint8)\n"
        "status = regions.decode_regions([data], np.array([[60, 75, 3]], np.uint32), box, room)\n"
        "assert status[0] == regions.native.LIBRARY, status\n"
        "regions.resize_region(Jpeg().decode(data), box[0], room[0])\n"
        "sys.stdout.buffer.write(room.tobytes())\n"
    )
    data = photo()
    done = subprocess.run([sys.executable, "-c", program], input=data, check=True, capture_output=True)
    room = np.zeros((16, 16, 3), np.uint8)
    regions.resize_region(Jpeg().decode(data), rows((1, 2, 30, 40))[0], room)
    assert done.stdout == room.tobytes()
