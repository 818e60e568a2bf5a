"""Image files other than JPEG: what each kind holds, in the shapes and dtypes of 3.9.52, and what it refuses."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakebed import limits
from lakebed.codecs.images import Image
from lakebed.errors import (
    CorruptedSampleError,
    LakebedError,
    LimitError,
    SampleCompressionError,
    SampleDecompressionError,
)
from unit_tests.effort import examples

# What 3.9.52 stores and reads back unchanged: compression -> array kinds. JPEG and WebP change values.
HOLDS = {
    "bmp": "b8 u8 rgb", "dib": "b8 u8 rgb", "eps": "u8 rgb", "gif": "u8", "ico": "b8 u8 u16 la rgb rgba",
    "im": "b8 u8 u16 i32 f32 la rgb rgba", "jpeg2000": "u8 u16 la rgb rgba", "msp": "b8", "pcx": "b8 u8 rgb",
    "png": "b8 u8 u16 la rgb rgba", "ppm": "b8 u8 f32 rgb", "sgi": "u8 rgb rgba", "tga": "b8 u8 la rgb rgba",
    "tiff": "b8 u8 u16 i32 f32 la rgb rgba", "webp": "", "xbm": "b8",
}  # fmt: skip
KINDS = {
    "b8": (1, "bool"), "u8": (1, "uint8"), "u16": (1, "uint16"), "i32": (1, "int32"), "f32": (1, "float32"),
    "la": (2, "uint8"), "rgb": (3, "uint8"), "rgba": (4, "uint8"),
}  # fmt: skip
EVERY = [(name, kind) for name, kinds in HOLDS.items() for kind in KINDS if kind in kinds.split()]
OTHER = [(name, kind) for name, kinds in HOLDS.items() for kind in KINDS if kind not in kinds.split()]
# Not lossless, but taken: values are changed, or the dtype is another one.
ALSO = {("gif", "b8"), ("gif", "u16"), ("gif", "i32"), ("png", "i32"), ("ico", "i32"), ("ppm", "u16"), ("ppm", "i32"),
        ("webp", "rgb"), ("webp", "rgba")}  # fmt: skip


def pixels(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray[Any]:
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0, 250, shape).astype(dtype)


def shaped(height: int, width: int, channels: int) -> tuple[int, ...]:
    return (height, width) if channels == 1 else (height, width, channels)


@pytest.mark.parametrize(("name", "kind"), EVERY)
@settings(max_examples=examples(8))
@given(height=st.integers(1, 40), width=st.integers(1, 40), seed=st.integers(0, 99))
def test_lossless_kinds_come_back_unchanged(name: str, kind: str, height: int, width: int, seed: int) -> None:
    """Also with one row or column, and with a last axis of one."""
    channels, dtype = KINDS[kind]
    array = pixels(shaped(height, width, channels), dtype, seed)
    codec = Image(name)
    data = codec.encode(array)
    facts = codec.facts(data)
    back = codec.decode(data)
    assert facts.shape == array.shape
    assert facts.dtype == ("int32" if (name, kind) == ("png", "u16") else dtype)
    assert back.dtype == dtype
    assert back.tobytes() == array.tobytes()
    if channels == 1:
        out = np.empty((height, width, 1), dtype=dtype)
        assert codec.decode(codec.encode(array[..., np.newaxis]), out) is out
        assert np.array_equal(out[..., 0], array)
    assert codec.metadata(data)["format"] == name


@pytest.mark.parametrize(("name", "kind"), [pair for pair in OTHER if pair not in ALSO])
def test_what_a_kind_cannot_hold_is_refused(name: str, kind: str) -> None:
    """The message says what it can hold; the check beforehand agrees."""
    channels, dtype = KINDS[kind]
    array = pixels(shaped(4, 5, channels), dtype)
    for step in (Image(name).encode, Image(name).check):
        with pytest.raises(SampleCompressionError, match=f"{name} takes"):
            step(array)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float16", "complex64"])
def test_dtypes_without_a_mode_are_refused_by_every_kind(dtype: str) -> None:
    """No kind of image holds them, whatever the values are."""
    for name in HOLDS:
        with pytest.raises(SampleCompressionError):
            Image(name).encode(np.zeros((4, 5), dtype=dtype))


@pytest.mark.parametrize("name", ["fli", "wmf"])
def test_kinds_that_only_files_can_have(name: str) -> None:
    """There is no way from an array to such a file."""
    assert not Image(name).can_encode
    with pytest.raises(SampleCompressionError, match="only files"):
        Image(name).encode(np.zeros((4, 5), np.uint8))


def test_integers_go_into_narrower_modes_if_they_fit() -> None:
    """3.9.52 clips what does not fit; here it is an error."""
    for name, dtype, top in (
        ("png", "int32", 65535),
        ("ico", "uint32", 65535),
        ("gif", "int16", 255),
        ("ppm", "int32", 65535),
    ):
        array = np.array([[0, 7], [top, 1]], dtype=dtype)
        assert np.array_equal(Image(name).decode(Image(name).encode(array)), array)
        for bad in (-1, top + 1):
            if dtype == "uint32" and bad < 0:
                continue
            array[0, 0] = bad
            with pytest.raises(SampleCompressionError, match=str(top)):
                Image(name).encode(array)
    assert np.array_equal(Image("ppm").decode(Image("ppm").encode(np.array([[65535]], np.uint16))), [[65535]])


def test_gif_keeps_grey_values() -> None:
    """An image of few grey levels is not renumbered."""
    array = np.array([[200, 3], [3, 77]], dtype=np.uint8)
    assert np.array_equal(Image("gif").decode(Image("gif").encode(array)), array)


@pytest.mark.parametrize(("name", "side"), [("ico", 257), ("webp", 16384), ("gif", 65536)])
def test_sides_that_a_kind_cannot_state_are_refused(name: str, side: int) -> None:
    """An icon, for one, would be written without its image."""
    shape = (1, side, 3) if name == "webp" else (1, side)
    with pytest.raises(SampleCompressionError, match=f"{side - 1} pixels"):
        Image(name).encode(np.zeros(shape, np.uint8))


def saved(kind: str, image: PIL.Image.Image, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def test_palettes_come_as_their_indices() -> None:
    """As in 3.9.52: a palette image is one channel of uint8."""
    image = PIL.Image.fromarray(pixels((9, 8, 3), "uint8")).quantize(7)
    for name in ("png", "gif", "bmp"):
        data = saved(name, image)
        assert Image(name).facts(data).shape == (9, 8)
        assert Image(name).decode(data).max() < 16


def test_the_first_picture_of_several_is_the_image() -> None:
    """Animations and documents of several pages are read as their first image."""
    first, second = (PIL.Image.fromarray(pixels((9, 8, 3), "uint8", seed)) for seed in (1, 2))
    data = saved("TIFF", first, save_all=True, append_images=[second])
    assert np.array_equal(Image("tiff").decode(data), np.asarray(first))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_tiff_images_keep_the_shape_that_is_stored(orientation: int) -> None:
    """3.9.52 registers the extents before a quarter turn; facts and pixels agree with that."""
    array = pixels((4, 6, 3), "uint8")
    exif = PIL.Image.Exif()
    exif[274] = orientation
    data = saved("TIFF", PIL.Image.fromarray(array), exif=exif)
    assert Image("tiff").facts(data).shape == (4, 6, 3)
    back = Image("tiff").decode(data)
    assert back.shape == (4, 6, 3)
    turns = {2: array[:, ::-1], 3: array[::-1, ::-1], 4: array[::-1]}
    assert np.array_equal(back, turns.get(orientation, array))
    assert Image("tiff").metadata(data)["exif"]["ImageWidth"] == 6.0


def test_exif_of_png_and_webp_is_recorded() -> None:
    """The same forms as for JPEG; files without it are not opened for it."""
    exif = PIL.Image.Exif()
    exif[271] = "MakerX"
    image = PIL.Image.fromarray(pixels((9, 8, 3), "uint8"))
    for name in ("png", "webp"):
        assert Image(name).metadata(saved(name, image, exif=exif))["exif"] == {"Make": "MakerX"}
        assert Image(name).metadata(saved(name, image))["exif"] == {}


@pytest.mark.parametrize("name", [name for name in HOLDS if name != "eps"])
def test_files_of_another_kind_are_refused(name: str) -> None:
    """Pillow is never left to guess: a codec reads its own kind only."""
    other = (
        saved("PNG", PIL.Image.new("RGB", (5, 4)))
        if name != "png"
        else saved("GIF", PIL.Image.new("L", (5, 4)))
    )
    for data in (other, b"", b"no image at all, really not", b"\0" * 100):
        with pytest.raises((CorruptedSampleError, LimitError)):
            Image(name).facts(data)
        with pytest.raises((SampleDecompressionError, LimitError)):
            Image(name).decode(data)


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_cut_files_are_damaged(name: str, kind: str) -> None:
    """Half a file never reads as an image."""
    channels, dtype = KINDS[kind]
    data = Image(name).encode(pixels(shaped(30, 40, channels), dtype))
    with pytest.raises(SampleDecompressionError):
        Image(name).decode(data[: len(data) // 2])


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, body: bytes = b"") -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


def test_large_promises_are_refused_before_anything_is_allocated() -> None:
    """By the header alone, by the ratio to the file, and inside an icon."""
    with pytest.raises(LimitError, match="MAX_IMAGE_PIXELS"):
        Image("png").decode(png(70_000, 70_000))
    with pytest.raises(LimitError, match="MAX_RATIO"):
        Image("png").decode(png(5_000, 5_000))
    inner = png(70_000, 70_000)
    icon = (
        struct.pack("<HHH", 0, 1, 1) + struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 32, len(inner), 22) + inner
    )
    with pytest.raises(LimitError, match="MAX_IMAGE_PIXELS"):
        Image("ico").decode(icon)
    gif = bytearray(Image("gif").encode(pixels((4, 5), "uint8")))
    gif[6:10] = b"\xff\xff\xff\xff"
    with pytest.raises(LimitError):
        Image("gif").facts(bytes(gif))


def test_the_limit_is_looked_up_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that sets it lower gets it lower."""
    data = saved("PNG", PIL.Image.new("RGB", (5, 4)))
    monkeypatch.setattr(limits, "MAX_IMAGE_PIXELS", 19)
    with pytest.raises(LimitError, match="MAX_IMAGE_PIXELS"):
        Image("png").facts(data)


def test_a_jpeg2000_file_without_room_for_its_tiles_is_damaged() -> None:
    """Each tile costs the decoder some kilobytes, whatever it holds."""
    data = bytearray(Image("jpeg2000").encode(pixels((16, 24), "uint8")))
    at = data.index(b"\xff\x4f\xff\x51") + 8
    data[at : at + 4] = (500_000).to_bytes(4, "big")
    with pytest.raises(CorruptedSampleError, match="does not fit"):
        Image("jpeg2000").decode(bytes(data))


def test_eps_programs_are_not_run() -> None:
    """Only the pixels that Pillow writes in hexadecimal are read."""
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 3\n%%EndComments\n(x) print\n%%EOF\n"
    with pytest.raises(SampleDecompressionError, match="not run"):
        Image("eps").decode(program)


@pytest.mark.parametrize("name", sorted(HOLDS))
@settings(max_examples=examples(60))
@given(data=st.data())
def test_mutated_files_only_raise_our_errors(name: str, data: st.DataObject) -> None:
    """Whatever is changed or cut, mostly in the header."""
    array = pixels((16, 24), "bool") if name in ("msp", "xbm") else pixels((16, 24, 3), "uint8")
    file = bytearray(Image(name).encode(array[..., 0] if name == "gif" else array))
    for place in data.draw(
        st.lists(st.one_of(st.integers(0, 90), st.integers(0, len(file) - 1)), max_size=6)
    ):
        file[place % len(file)] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]))
    cut = bytes(file[: data.draw(st.integers(0, len(file)))]) if data.draw(st.booleans()) else bytes(file)
    for step in (Image(name).facts, Image(name).decode, Image(name).metadata):
        with suppress(LakebedError):
            step(cut)
