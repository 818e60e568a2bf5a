"""JPEG and PNG headers read by compiled code, against Pillow and byte by byte."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.native import headers as native
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(40))
SIDES = st.integers(1, 70)


def picture(height: int, width: int, mode: str, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    PIL.Image.new(mode, (width, height)).save(target, kind, **options)
    return target.getvalue()


def png(width: int, height: int, depth: int, kind: int, extra: bytes = b"") -> bytes:
    """Return a PNG of zeros in any depth and colour type, which Pillow cannot all write."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    row = b"\0" * (1 + -(-width * channels * depth // 8))
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    palette = chunk(b"PLTE", bytes(48)) if kind == 3 else b""
    body = chunk(b"IDAT", zlib.compress(row * height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + palette + extra + body + chunk(b"IEND", b"")


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


EXIF = PIL.Image.Exif()
EXIF[271] = "Maker"


@SMALL
@given(SIDES, SIDES, st.sampled_from(["L", "RGB", "CMYK"]), st.booleans(), st.sampled_from([0, 1, 2]))
def test_jpeg_header_agrees_with_pillow(
    height: int, width: int, mode: str, progressive: bool, subsampling: int
) -> None:
    """Extents and channels are Pillow's for baseline and progressive files; only CMYK asks for a closer look."""
    data = picture(height, width, mode, "JPEG", progressive=progressive, subsampling=subsampling)
    found = native.jpeg_header(data)
    assert found[:4] == (height, width, len(mode), 8)
    assert found[4] == (2 if progressive else 0)
    assert found[5] == (0 if mode == "CMYK" else native.PLAIN)


def test_exif_is_seen() -> None:
    """APP1 with EXIF and an eXIf chunk set the flag, a file without them does not."""
    with_exif = picture(3, 4, "RGB", "JPEG", exif=EXIF), picture(3, 4, "RGB", "PNG", exif=EXIF)
    assert native.jpeg_header(with_exif[0])[5] & native.EXIF
    assert native.png_header(with_exif[1])[5] & native.EXIF
    late = png(4, 3, 8, 2)
    late = late[:-12] + chunk(b"eXIf", EXIF.tobytes()) + late[-12:]
    assert native.png_header(late)[5] & native.EXIF
    profile = chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b"exif"))
    assert native.png_header(png(4, 3, 8, 2, profile))[5] & native.EXIF
    assert not native.png_header(png(4, 3, 8, 2))[5] & native.EXIF


@pytest.mark.parametrize(
    ("depth", "kind"),
    [(d, k) for k in (0, 2, 3, 4, 6) for d in (1, 2, 4, 8, 16) if d == 8 or k == 0 or (k == 3) == (d < 8)],
)
def test_png_header_agrees_with_pillow(depth: int, kind: int) -> None:
    """Channels are those that Pillow decodes to, for every depth and colour type."""
    data = png(5, 3, depth, kind)
    with PIL.Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image)
    height, width, channels, bits, colour, flags = native.png_header(data)
    assert (height, width, bits, colour) == (3, 5, depth, kind)
    assert pixels.shape == ((3, 5) if channels == 1 else (3, 5, channels))
    assert bool(flags & native.PLAIN) == (depth == 8)


@pytest.mark.parametrize(("depth", "kind"), [(3, 0), (16, 3), (4, 2), (1, 6), (8, 1), (8, 5), (0, 0), (8, 7)])
def test_png_depths_that_do_not_exist_are_refused(depth: int, kind: int) -> None:
    """A depth that does not go with its colour type is damage."""
    data = bytearray(png(5, 3, 8, 0))
    data[24:26] = bytes([depth, kind])
    with pytest.raises(ValueError, match="does not exist"):
        native.png_header(bytes(data))


def segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(payload) + 2) + payload


FRAME = segment(0xC0, struct.pack(">BHHB", 8, 3, 4, 1) + b"\1\x11\0")
SCAN = segment(0xDA, b"\1\1\0\0\x3f\0")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "start"),
        (b"\xff\xd8\xff", "start"),
        (b"\x89PNG1234", "start"),
        (b"\xff\xd8" + FRAME, "before the first scan"),
        (b"\xff\xd8" + SCAN, "no frame header"),
        (b"\xff\xd8" + FRAME + FRAME + SCAN, "two frame headers"),
        (b"\xff\xd8" + FRAME[:-1], "inside a marker segment"),
        (b"\xff\xd8\xff\xe0\0\1" + FRAME + SCAN, "inside a marker segment"),
        (b"\xff\xd8" + segment(0xC0, b"\x08\0\3\0\4\3" + b"\1\x11\0") + SCAN, "wrong length"),
        (b"\xff\xd8" + segment(0xC0, b"\x08\0\0\0\4\1\1\x11\0") + SCAN, "empty"),
        (b"\xff\xd8\xff\xd9" + FRAME + SCAN, "no scan"),
    ],
)
def test_damaged_jpeg_headers_are_refused_with_a_reason(data: bytes, why: str) -> None:
    """Every way in which the marker segments can be wrong is named."""
    with pytest.raises(ValueError, match=why):
        native.jpeg_header(data)


def test_a_frame_header_behind_other_segments_and_fill_bytes_is_found() -> None:
    """Fill bytes, restart markers, bytes between segments and a table in front do not hide the frame."""
    data = b"\xff\xd8\xff\xff\xff\xd0junk\xff\0" + segment(0xC4, b"x" * 40) + b"\xff\xff" + FRAME + SCAN
    assert native.jpeg_header(data)[:3] == (3, 4, 1)


@SMALL
@given(st.data())
def test_batches_agree_with_single_files(data: st.DataObject) -> None:
    """A list, and files in one buffer, give what each file alone gives; damaged files are zeros with a flag."""
    kinds = [
        picture(3, 4, "L", "JPEG"), picture(30, 4, "RGB", "JPEG", exif=EXIF), picture(9, 9, "RGB", "PNG"),
        png(7, 5, 16, 0), b"", b"\xff\xd8",
    ]  # fmt: skip
    files = data.draw(st.lists(st.sampled_from(kinds), max_size=12))
    offsets = np.cumsum([0, *map(len, files)], dtype=np.int64)
    buffer = b"".join(files)
    for single, many, packed in (
        (native.jpeg_header, native.jpeg_headers, native.packed_jpeg_headers),
        (native.png_header, native.png_headers, native.packed_png_headers),
    ):
        shapes, flags = many([memoryview(file) for file in files])
        assert [x.tolist() for x in packed(buffer, offsets)] == [shapes.tolist(), flags.tolist()]
        for file, shape, flag in zip(files, shapes.tolist(), flags.tolist(), strict=True):
            try:
                found = single(file)
            except ValueError:
                assert (shape, flag) == ([0, 0, 0], native.DAMAGED)
            else:
                assert (tuple(shape), flag) == (found[:3], found[5])


def test_offsets_that_leave_the_buffer_are_refused() -> None:
    """No file is read outside the buffer."""
    for offsets in ([0, 5], [3, 1], [-1, 2], [0, 2, 1]):
        with pytest.raises(ValueError, match="leaves the buffer"):
            native.packed_jpeg_headers(b"1234", np.array(offsets, dtype=np.int64))
    with pytest.raises(ValueError, match="offsets"):
        native.packed_png_headers(b"1234", np.array([], dtype=np.int64))


@SMALL
@given(st.data())
def test_mutated_headers_never_do_more_than_fail(data: st.DataObject) -> None:
    """Cut or changed anywhere, a header is read or refused."""
    for file, read in (
        (picture(9, 8, "RGB", "JPEG", exif=EXIF), native.jpeg_header),
        (png(9, 8, 8, 2), native.png_header),
    ):
        changed = bytearray(file[: data.draw(st.integers(0, len(file)))])
        for place in data.draw(st.lists(st.integers(0, max(len(changed) - 1, 0)), max_size=8)):
            if changed:
                changed[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0xC0, 0xDA, 0xE1, 0xFF]))
        try:
            height, width, channels, *_ = read(bytes(changed))
        except ValueError:
            continue
        assert height > 0
        assert width > 0
        assert channels > 0
