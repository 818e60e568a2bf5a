"""Chunks of images on one canvas look like chunks of raw images to everybody else (format.md 5.4)."""

from __future__ import annotations

import io
import struct

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakebed.chunks.chunk import Chunk, parse_chunk
from lakebed.chunks.image_chunk import ImageChunkCodec, chunk_codec
from lakebed.chunks.pack import PackedChunk, groups, pack, pack_tile
from lakebed.codecs.block import Block, empty_block, join_samples
from lakebed.codecs.images import Image
from lakebed.codecs.lz4_block import Lz4
from lakebed.errors import FormatError, LimitError, SampleCompressionError, UnsupportedCompressionError
from unit_tests.effort import examples

Images = list[NDArray[np.generic]]


def canvas(name: str = "png", dtype: str = "uint8") -> ImageChunkCodec:
    codec = chunk_codec(name, dtype)
    assert isinstance(codec, ImageChunkCodec)
    return codec


def images(shapes: list[tuple[int, ...]], dtype: str = "uint8", seed: int = 0) -> Images:
    random = np.random.default_rng(seed)
    return [random.integers(0, 2 if dtype == "bool" else 251, shape).astype(dtype) for shape in shapes]


def block(arrays: Images) -> Block:
    shapes = np.array([a.shape for a in arrays], dtype=np.uint32).reshape(len(arrays), arrays[0].ndim)
    return join_samples([a.tobytes() for a in arrays], shapes)


def file_of(chunk: PackedChunk) -> bytes:
    return b"".join(bytes(piece) for piece in chunk.pieces)


def header_length(data: bytes) -> int:
    rows, columns = struct.unpack_from("<ii", data, 1 + data[0])
    return 1 + data[0] + 8 + 4 * rows * columns + 4


def assert_holds(chunk: Chunk, arrays: Images) -> None:
    assert chunk.count == len(arrays)
    for i, array in enumerate(arrays):
        assert chunk.shape(i) == array.shape
        assert bytes(chunk.sample(i)) == array.tobytes()


SIDES = st.integers(0, 9)


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=8),
    st.sampled_from([("png", "uint8", 3), ("png", "uint8", 4), ("png", "bool", 0), ("png", "uint16", 1),
                     ("tiff", "float32", 0), ("bmp", "uint8", 1), ("tiff", "int32", 1), ("im", "uint8", 2)]),
    st.integers(0, 9),
)  # fmt: skip
def test_images_come_back_as_they_went_in(
    sides: list[tuple[int, int]], kind: tuple[str, str, int], seed: int
) -> None:
    """All extents, empty ones too; rank 2 stays rank 2; absent samples take no place."""
    name, dtype, channels = kind
    shapes = [(h, w, channels) if channels else (h, w) for h, w in sides]
    arrays = images(shapes, dtype, seed)
    absent = empty_block(2, len(shapes[0]))
    codec = canvas(name, dtype)
    data = file_of(pack([absent, block(arrays), absent], codec))
    none = [np.zeros((0,) * len(shapes[0]), dtype)] * 2
    assert_holds(parse_chunk(data, len(arrays) + 4, codec), [*none, *arrays, *none])


def test_the_file_is_a_picture_of_all_images_side_by_side() -> None:
    """Top-aligned, left to right, zeros elsewhere; no byte positions."""
    arrays = images([(3, 4, 3), (5, 2, 3), (1, 1, 3)])
    data = file_of(pack([block(arrays)], canvas()))
    end = header_length(data)
    assert data[end - 4 : end] == b"\0\0\0\0"
    with PIL.Image.open(io.BytesIO(data[end:]), formats=["PNG"]) as image:
        pixels = np.asarray(image)
    expected = np.zeros((5, 7, 3), np.uint8)
    expected[:3, :4], expected[:5, 4:6], expected[:1, 6:7] = arrays
    assert np.array_equal(pixels, expected)


def test_images_in_buffers_of_their_own_are_taken_from_there() -> None:
    """As from one buffer."""
    arrays = images([(3, 4, 3), (5, 2, 3), (1, 1, 3)])
    shapes = np.array([a.shape for a in arrays], dtype=np.uint32)
    separate = Block.of_buffers([a.tobytes() for a in arrays], shapes)
    assert file_of(pack([separate], canvas())) == file_of(pack([block(arrays)], canvas()))
    assert [sum(b.count for b in run) for run in groups([separate], 95, canvas())] == [2, 1]


def test_equal_images_make_a_uniform_chunk() -> None:
    """Readers take their fast path, as for uncompressed chunks."""
    array = images([(4, 5, 3)])[0]
    pixels = np.stack([array, array + 1])
    data = file_of(pack([Block(memoryview(pixels.tobytes()), 2, 60, (4, 5, 3))], canvas()))
    chunk = parse_chunk(data, 2, canvas())
    assert chunk.uniform == ((4, 5, 3), 60)
    assert bytes(chunk.data) == pixels.tobytes()


def test_lossy_formats_come_back_close() -> None:
    """JPEG puts the images on one canvas, so that neighbours bleed a little."""
    y, x = np.mgrid[:40, :32]
    array = (128 + 60 * np.sin(x / 9) * np.cos(y / 7)).astype(np.uint8)
    codec = canvas("jpeg")
    chunk = parse_chunk(file_of(pack([block([array, array])], codec)), 2, codec)
    back = np.frombuffer(chunk.sample(1), np.uint8).reshape(40, 32)
    assert np.abs(back.astype(int) - array).mean() < 4


def test_chunks_without_pixels_have_no_data() -> None:
    """Absent samples, images without extent, and samples of unknown rank."""
    for blocks, count, shape in (
        ([empty_block(3, 3)], 3, (0, 0, 0)),
        ([block(images([(0, 5, 3), (0, 2, 3)]))], 2, (0, 5, 3)),
    ):
        data = file_of(pack(blocks, canvas()))
        assert len(data) == header_length(data)
        chunk = parse_chunk(data, count, canvas())
        assert chunk.shape(0) == shape
        assert bytes(chunk.sample(count - 1)) == b""
    chunk = parse_chunk(file_of(pack([empty_block(3, None)], canvas())), 3, canvas())
    assert chunk.ndim is None
    assert bytes(chunk.sample(1)) == b""


def test_a_tile_that_was_never_written_stays_unwritten() -> None:
    """It reads as zeros, which is the reader's matter."""
    assert parse_chunk(file_of(pack_tile((4, 5, 3), b"")), 1, canvas()).is_unwritten
    array = images([(4, 5, 3)])[0]
    tile = parse_chunk(file_of(pack_tile((4, 5, 3), canvas().encode([block([array])]))), 1, canvas())
    assert not tile.is_unwritten
    assert bytes(tile.sample(0)) == array.tobytes()


def test_other_compressions_are_byte_codecs() -> None:
    """lz4 works on bytes, none is none, and files that are no images cannot hold a chunk."""
    assert chunk_codec(None, "uint8") is None
    assert isinstance(chunk_codec("lz4", None), Lz4)
    for name in ("dcm", "mp4", "nii"):
        with pytest.raises(UnsupportedCompressionError):
            chunk_codec(name, "uint8")


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("png", (5,), "uint8"), ("png", (2, 4, 5, 3), "uint8"), ("png", (4, 5, 5), "uint8"),
        ("jpeg", (4, 5, 4), "uint8"),
        ("png", (4, 5), "float32"), ("jpeg", (4, 5), "uint16"), ("webp", (4, 5), "uint8"), ("fli", (4, 5), "uint8"),
        ("jpeg", (1, 65501), "uint8"),
    ],
)  # fmt: skip
def test_samples_that_cannot_go_onto_a_canvas_are_refused(
    name: str, shape: tuple[int, ...], dtype: str
) -> None:
    """Beforehand by the check, and when the chunk is packed."""
    array = np.ones(shape, dtype=dtype)
    with pytest.raises(SampleCompressionError):
        canvas(name, dtype).check(array)
    with pytest.raises(SampleCompressionError):
        pack([block([array])], canvas(name, dtype))


def test_the_check_lets_good_samples_pass() -> None:
    """Empty ones among them."""
    for shape in ((4, 5), (4, 5, 1), (1, 5, 3), (0, 5, 3), (0, 0)):
        canvas().check(np.zeros(shape, np.uint8))


def test_runs_end_where_one_canvas_does_not_do() -> None:
    """At another number of channels, at the byte limit, at the widest canvas and when most would be blank."""
    codec = canvas("webp")

    def counts(shapes: list[tuple[int, ...]], limit: int = 1 << 30) -> list[int]:
        runs = groups([block([np.zeros(s, np.uint8) for s in shapes])], limit, codec)
        return [sum(b.count for b in run) for run in runs]

    assert counts([(4, 5, 3)] * 3) == [3]
    assert counts([(4, 5, 3), (4, 5, 3), (4, 5, 4), (0, 0, 0), (4, 5, 4), (4, 5, 3)]) == [2, 3, 1]
    assert counts([(0, 0, 0), (4, 5, 3), (0, 0, 0)]) == [3]
    assert counts([(2, 10_000, 3), (2, 6_000, 3), (2, 383, 3), (2, 1, 3)]) == [3, 1]
    assert counts([(2, 5000, 3), (1000, 300, 3), (2, 5000, 3), (2, 50, 3)]) == [1, 1, 2]
    assert counts([(10, 10, 3)] * 7, limit=700) == [2, 2, 2, 1]
    assert counts([(100, 100, 3), (1, 1, 3)], limit=1000) == [1, 1]


@settings(max_examples=examples(40))
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from([0, 1, 3, 4])),
        min_size=1,
        max_size=30,
    ),
    st.integers(200, 5000),
)
def test_runs_keep_every_sample_in_order(shapes: list[tuple[int, int, int]], limit: int) -> None:
    """Whatever the cuts are, all samples come back, and every run can be packed."""
    arrays = images([s if s[2] else (0, 0, 0) for s in shapes])
    half = len(arrays) // 2
    blocks = [block(part) for part in (arrays[:half], arrays[half:]) if part]
    codec = canvas()
    back: list[bytes] = []
    for run in groups(blocks, limit, codec):
        count = sum(b.count for b in run)
        chunk = parse_chunk(file_of(pack(run, codec)), count, codec)
        back.extend(bytes(chunk.sample(i)) for i in range(count))
    assert back == [array.tobytes() for array in arrays]


def test_mixed_channels_in_one_chunk_are_refused() -> None:
    """Who packs without cutting runs learns why."""
    with pytest.raises(SampleCompressionError, match="3 and 4 channels"):
        pack([block(images([(4, 5, 3)])), block(images([(4, 5, 4)]))], canvas())


def changed(data: bytes, row: int, column: int, value: int) -> bytes:
    """Return a chunk file with another value in its shape table of rank 3."""
    at = 1 + data[0] + 8 + 16 * row + 4 * column
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


@pytest.mark.parametrize(
    ("column", "value"), [(0, 9), (1, 50), (1, 4_000_000_000), (2, 4), (2, 0xFFFFFFFF), (0, 1 << 31)]
)
def test_shapes_that_leave_the_canvas_are_damage(column: int, value: int) -> None:
    """The shape table is compared with the file's header before anything is allocated."""
    data = file_of(pack([block(images([(3, 4, 3), (5, 2, 3)]))], canvas()))
    with pytest.raises((FormatError, LimitError)):
        parse_chunk(changed(data, 0, column, value), 2, canvas())


def test_the_header_is_compared_before_the_file_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape table that cannot be right costs no decoding."""
    data = file_of(pack([block(images([(3, 4, 3), (5, 2, 3)]))], canvas()))
    monkeypatch.setattr(Image, "decode", lambda *_: pytest.fail("decoded"))
    with pytest.raises(FormatError, match="its images, the first of shape"):
        parse_chunk(changed(data, 0, 1, 50), 2, canvas())


def test_damaged_files_are_damage() -> None:
    """Cut, or of another format; a canvas of flat samples is none."""
    data = file_of(pack([block(images([(30, 40, 3), (5, 2, 3)]))], canvas()))
    for wrong in (data[:-80], data[: header_length(data)] + b"no image at all, but some bytes"):
        with pytest.raises(FormatError):
            parse_chunk(wrong, 2, canvas())
    with pytest.raises(FormatError):
        parse_chunk(data, 2, canvas("jpeg"))
    flat = file_of(pack([Block(memoryview(bytes(10)), 2, 5, (5,))]))
    with pytest.raises(FormatError, match="rank 1"):
        parse_chunk(flat, 2, canvas())
