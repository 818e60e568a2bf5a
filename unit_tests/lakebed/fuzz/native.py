"""Fuzz targets: the compiled functions, called with buffers, offsets and counts that contradict each other.

They run in the suite, and under AddressSanitizer and UndefinedBehaviorSanitizer (ext/fuzz/run.py), which see a read or
write outside a buffer even where nothing comes of it.
"""

from __future__ import annotations

import os
import random
import tempfile
from array import array
from collections.abc import Callable
from typing import Any

import lz4.block
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from lakebed.codecs import regions as region_codecs
from lakebed.loaders.order import Order, Spans
from lakebed.native import (
    chunks,
    disk,
    equals,
    gather,
    headers,
    json_arrays,
    merge,
    order,
    regions,
    views,
)
from lakebed.native import lz4 as native_lz4

REFUSALS = (ValueError, IndexError, OverflowError)
"""What a compiled function raises when its arguments do not fit together."""

EDGES = [
    0,
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    12,
    13,
    100,
    -1,
    -2,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**62,
    -(2**63),
    2**63 - 1,
]


def _size(rng: random.Random) -> int:
    return rng.choice((0, 1, 2, 3, 7, 8, 9, 12, 13, 24, 40, rng.randrange(200)))


def _bytes(rng: random.Random, size: int | None = None) -> NDArray[np.uint8]:
    """Bytes in memory of exactly their size; a ``bytes`` object has one more."""
    size = _size(rng) if size is None else size
    if rng.random() < 0.3:
        return np.full(size, rng.choice((0, 1, 0xFF)), np.uint8)
    return np.frombuffer(rng.randbytes(size), np.uint8).copy()


def _numbers(rng: random.Random, dtype: Any, size: int | None = None) -> NDArray[Any]:
    """Rising small numbers, as in a table, with an impossible one here and there."""
    size = _size(rng) % 20 if size is None else size
    values = np.cumsum([rng.choice((0, 1, 1, 2, 3, 8)) for _ in range(size)], dtype=np.int64) - rng.choice(
        (0, 1)
    )
    if size and rng.random() < 0.3:
        values[rng.randrange(size)] = rng.choice(EDGES)
    return values.astype(dtype)


def _count(rng: random.Random) -> int:
    return rng.choice(EDGES) if rng.random() < 0.5 else rng.randrange(12)


def _shape_rows(rng: random.Random) -> None:
    count, ndim = _size(rng) % 20, rng.randrange(5)
    shapes = np.array([[rng.choice((0, 1, 2**32 - 1)) for _ in range(ndim)] for _ in range(count)], np.uint32)
    rows = chunks.shape_rows(shapes.reshape(count, ndim))
    assert rows.shape == (len(rows), ndim + 1)
    assert len(rows) <= count


def _position_rows(rng: random.Random) -> None:
    chunks.position_rows(_numbers(rng, np.uint32))


def _header(rng: random.Random) -> None:
    """Parse a header, and what it says of its tables."""
    version = b"\x063.9.52" if rng.random() < 0.8 else rng.randbytes(rng.randrange(9))
    rows, columns, positions = (rng.choice((0, 1, 2, 3, _count(rng))) for _ in range(3))
    tables = [
        rows.to_bytes(9, "little", signed=True)[:4] + columns.to_bytes(9, "little", signed=True)[:4],
        rng.randbytes(4 * max(0, min(rows * columns, 40)) - rng.choice((0, 0, 0, 1)))
        if rows * columns > 0
        else b"",
        positions.to_bytes(9, "little", signed=True)[:4],
        rng.randbytes(max(12 * max(0, min(positions, 20)) - rng.choice((0, 0, 1, 12)), 0)),
    ]
    buffer = np.frombuffer(version + b"".join(tables) + rng.randbytes(rng.choice((0, 0, 5))), np.uint8).copy()
    _, r, c, shapes_at, b, positions_at, data_at = chunks.parse_header(buffer)
    assert (
        0
        <= shapes_at
        <= shapes_at + 4 * r * c
        <= positions_at
        <= positions_at + 12 * b
        == data_at
        <= len(buffer)
    )
    chunks.last_column(buffer, shapes_at, r, max(c, 1))
    chunks.last_column(buffer, positions_at, b, 3)


def _last_column(rng: random.Random) -> None:
    table = _numbers(rng, np.uint32).view(np.uint8)
    chunks.last_column(table, _count(rng), _count(rng), _count(rng))


def _expand(rng: random.Random) -> None:
    """Expand position rows that are sound as often as not."""
    sizes = [rng.choice((0, 1, 3, 8)) for _ in range(rng.randrange(6))]
    runs = [rng.choice((1, 1, 2, 5)) for _ in sizes]
    ends = np.cumsum([s * n for s, n in zip(sizes, runs, strict=True)], dtype=np.int64)
    lasts = np.cumsum(runs, dtype=np.int64) - 1
    starts = ends - np.array([s * n for s, n in zip(sizes, runs, strict=True)], np.int64)
    table = np.stack([np.array(sizes, np.int64), starts, lasts], axis=1).astype(np.uint32)
    if len(table) and rng.random() < 0.5:
        table[rng.randrange(len(table)), rng.randrange(3)] = rng.choice(EDGES) % 2**32
    count = int(sum(runs)) + rng.choice((0, 0, 0, 1, -1))
    room = max(count + 1 + rng.choice((0, 0, 0, 1, -1)), 0)
    buffer = np.ascontiguousarray(table).view(np.uint8).reshape(-1)
    at, rows = rng.choice((0, 0, 0, _count(rng))), rng.choice((len(table), len(table), _count(rng)))
    out = np.zeros(room, rng.choice((np.int32, np.int64)))
    data = int(ends[-1]) if len(ends) else 0
    chunks.expand_positions(buffer, at, rows, count, rng.choice((data, data, 0, 2**40)), out)
    assert np.all(np.diff(out) >= 0)


def _gather_fixed(rng: random.Random) -> None:
    item = rng.choice((1, 3, 8, _count(rng)))
    chunks.gather_fixed(_bytes(rng), item, _numbers(rng, np.int64), _bytes(rng))


def _gather_variable(rng: random.Random) -> None:
    source, out = _bytes(rng), _bytes(rng)
    written = chunks.gather_variable(source, _numbers(rng, np.int64), _numbers(rng, np.int64), out)
    assert 0 <= written <= len(out)


def _write_new_files(rng: random.Random) -> None:
    """Files that cannot be made, with too many and too few pieces of all kinds."""
    paths = [
        rng.choice((__file__, "/none/x", "", "/dev/null", "a\0b", "/none/\udcff"))
        for _ in range(rng.randrange(4))
    ]
    counts = array("i", [rng.choice((0, 1, 1, 2, -1)) for _ in paths[: rng.choice((3, 3, 1))]])
    total = max(sum(counts), 0) + rng.choice((0, 0, 0, 1))
    pieces = [rng.choice((b"", b"abc", memoryview(bytes(7)), _bytes(rng))) for _ in range(total)]
    opened = array("i", bytes(4 * rng.choice((0, len(paths), 2))))
    made, problem = disk.write_new_files(paths, pieces, counts, opened)
    assert (made, problem == 0) in ((0, not paths), (len(paths), True))


def _resident(rng: random.Random) -> None:
    """This very file, a folder, a device, and what is not open."""
    size = rng.choice((-1, 0, 1, 100, 1 << 16, 1 << 62))
    fd = os.open(rng.choice((__file__, "/", "/dev/null")), os.O_RDONLY)
    try:
        assert 0 <= disk.resident(rng.choice((fd, -1)), size) <= 1
    finally:
        os.close(fd)


def _fill_variable(rng: random.Random) -> None:
    count = _size(rng) % 10
    offsets = _numbers(rng, np.int64, max(count + rng.choice((1, 1, 1, 0, 2)), 0))
    gone, out = (_bytes(rng, count) & 1), _bytes(rng)
    written = chunks.fill_variable(_bytes(rng), offsets, gone, rng.randbytes(rng.randrange(4)), out)
    assert 0 <= written <= len(out)


def _scatter_fixed(rng: random.Random) -> None:
    chunks.scatter_fixed(_bytes(rng), rng.choice((1, 3, 8, _count(rng))), _bytes(rng) & 1, _bytes(rng))


def _locate(rng: random.Random) -> None:
    last, rows = _numbers(rng, np.uint64), _numbers(rng, np.int64)
    room = len(rows) + rng.choice((0, 0, 0, -1, 1))
    chunks.locate_rows(last, rows, *(np.zeros(max(room, 0), np.int64) for _ in range(2)))


def _images(rng: random.Random) -> list[NDArray[np.uint8]]:
    """Files that begin like JPEG or PNG and go on with likely markers."""
    jpeg = b"".join(
        b"\xff"
        + bytes([rng.choice((0xC0, 0xC2, 0xC4, 0xD8, 0xDA, 0xE1, 0xFF, rng.randrange(256)))])
        + rng.choice((0, 2, 8, 11, 17, 65535, rng.randrange(30))).to_bytes(2, "big")
        + rng.choice((b"Exif\0\0", b"\x08\0\x10\0\x10\x01", b"\x08\0\x10\0\x10\x03", b""))
        + rng.randbytes(rng.randrange(12))
        for _ in range(rng.randrange(5))
    )
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + rng.randbytes(8) + bytes([8, 2, 0, 0, 0]) + rng.randbytes(4)
    png += b"".join(
        rng.choice((0, 4, 21, 2**31, rng.randrange(40))).to_bytes(4, "big")
        + rng.choice((b"IDAT", b"eXIf", b"zTXtRaw profile type exif", b"tEXt", b"IEND"))
        + rng.randbytes(rng.randrange(30))
        for _ in range(rng.randrange(4))
    )
    whole = rng.choice((b"\xff\xd8" + jpeg, png, rng.randbytes(40)))
    return [np.frombuffer(whole[: rng.randrange(len(whole) + 1)], np.uint8).copy() for _ in range(3)]


def _image_headers(rng: random.Random) -> None:
    files = _images(rng)
    for batch in (headers.jpeg_headers, headers.png_headers):
        shapes, flags = batch(files)
        assert len(shapes) == len(flags) == len(files)
    data = np.concatenate(files)
    ends = [0, *np.cumsum([len(file) for file in files]).tolist()]
    if rng.random() < 0.5:
        ends[rng.randrange(len(ends))] = rng.choice((-1, 0, len(data), len(data) + 1, 2**62))
    rng.choice((headers.packed_jpeg_headers, headers.packed_png_headers))(data, np.array(ends, np.int64))
    rng.choice((headers.jpeg_header, headers.png_header))(files[0])


def _gather_arrays(rng: random.Random) -> None:
    """Arrays of one kind, with strangers among them."""
    dtype, ndim = np.dtype(rng.choice(("u1", "<i4", "<f8"))), rng.choice((0, 1, 2, 3))
    values: list[Any] = []
    for _ in range(rng.randrange(6)):
        shape = tuple(rng.choice((0, 1, 3)) for _ in range(ndim))
        array = np.full(shape, 7, dtype)
        odd = (
            None,
            array.astype(">i4"),
            array.reshape(-1),
            array[..., ::2],
            array.tolist(),
            b"x",
            np.float32(1),
        )
        values.append(rng.choice(odd) if rng.random() < 0.1 else array)
    found = gather.gather_arrays(values, dtype, ndim)
    if found is not None:
        data, shapes, sizes = found
        assert len(data) == int(sizes.sum()) == sum(v.nbytes for v in values if v is not None)
        assert len(shapes) == len(values)


def _copy_samples(rng: random.Random) -> None:
    """Samples somewhere in buffers, at their ends and beyond them, to places that are aligned or not."""
    count, size, at = rng.randrange(5), rng.choice((0, 1, 63, 64, 200)), rng.randrange(70)
    sources = [rng.randbytes(size + rng.choice((0, 1, 100))) for _ in range(count + rng.choice((0, 0, 0, 1)))]
    starts = [rng.choice((0, 1, len(one) - size, *EDGES)) for one in sources]
    out = np.zeros(at + count * size, np.uint8)[at:].reshape(count, size)
    gather.copy_samples(sources, np.array(starts, np.int64), out, rng.random() < 0.5)
    for sample, source, start in zip(out, sources, starts, strict=True):
        assert sample.tobytes() == source[start : start + size]


def _somewhere(rng: random.Random, size: int) -> NDArray[np.uint8]:
    """Bytes that begin anywhere in a page, and end where their memory does."""
    before = rng.choice((0, 1, 39, 40, 100))
    return np.frombuffer(rng.randbytes(before + size), np.uint8).copy()[before:]


def _copy_bytes(rng: random.Random) -> None:
    source, out = _somewhere(rng, _size(rng)), _somewhere(rng, _size(rng))
    behind = out[len(source) :].tobytes()
    gather.copy_bytes(out, source)
    assert out.tobytes() == source.tobytes() + behind


def _fill(rng: random.Random) -> None:
    pieces = [_somewhere(rng, _size(rng)) for _ in range(rng.randrange(4))]
    out = _somewhere(rng, rng.choice((sum(map(len, pieces)), _size(rng))))
    written = disk.fill(out, list(pieces))
    assert out[:written].tobytes() == b"".join(piece.tobytes() for piece in pieces)


def _mapped(rng: random.Random) -> None:
    """A range of a file, which is written to, so that a sanitizer sees where it lies."""
    size = _size(rng)
    with tempfile.TemporaryFile() as file:
        file.write(bytes(size))
        file.flush()
        start, length = (rng.choice((*EDGES, rng.randrange(size + 1))) for _ in range(2))
        try:
            found = disk.mapped(file.fileno(), start, length)
        except OSError as error:
            raise ValueError("the file is too short") from error
    assert len(found) == length <= size - start
    found[:] = b"x" * length


def _slow_bytes(rng: random.Random) -> None:
    pieces = [_somewhere(rng, _size(rng)) for _ in range(rng.randrange(4))]
    assert 0 <= disk.slow_bytes(list(pieces)) <= sum(map(len, pieces))


def _cut(rng: random.Random) -> None:
    """Arrays cut from a buffer; what comes back is written to, so that a sanitizer sees where it lies."""
    base = np.zeros(_size(rng), np.uint8)
    dtype, axes = np.dtype(rng.choice(("u1", "<u2", "<f8", "V3"))), rng.randrange(4)
    count, offsets, shapes = rng.randrange(5), [0], []
    for _ in range(count):
        shape = [rng.choice((0, 1, 2, 3)) for _ in range(axes)]
        offsets.append(offsets[-1] + int(np.prod(shape)) * dtype.itemsize)
        shapes.append(shape)
    if count and rng.random() < 0.4:
        offsets[rng.randrange(count + 1)] = rng.choice(EDGES)
    if count and axes and rng.random() < 0.4:
        shapes[rng.randrange(count)][rng.randrange(axes)] = rng.choice((2**32 - 1, 2**31, 70))
    table = np.array(shapes, np.int64).astype(np.uint32).reshape(count, axes)
    for cut in views.cut(base, dtype, np.array(offsets, np.int64), table):
        if dtype.kind != "V":
            cut[...] = 1


def _put_fixed(rng: random.Random) -> None:
    item = rng.choice((1, 3, 8, _count(rng)))
    merge.put_fixed(
        np.frombuffer(bytearray(_bytes(rng)), np.uint8), item, _numbers(rng, np.int64), _bytes(rng)
    )


def _same_fixed(rng: random.Random) -> None:
    item = rng.choice((1, 3, 8, _count(rng)))
    assert merge.same_fixed(_bytes(rng), item, _numbers(rng, np.int64), _bytes(rng)) in (True, False)


def _same_items(rng: random.Random) -> None:
    found = merge.same_items(
        _bytes(rng), _numbers(rng, np.int64), _numbers(rng, np.int64), _bytes(rng), _numbers(rng, np.int64)
    )
    assert found in (True, False)


def _replace_items(rng: random.Random) -> None:
    out = np.zeros(rng.choice((0, 7, 4000)), np.uint8)
    written = merge.replace_items(
        _bytes(rng),
        _numbers(rng, np.int64),
        _numbers(rng, np.int64),
        _bytes(rng),
        _numbers(rng, np.int64),
        out,
    )
    assert 0 <= written <= len(out)


def _side(rng: random.Random) -> int:
    """Return a small extent, or one that cannot be."""
    return (
        rng.randrange(1, 40)
        if rng.random() < 0.95
        else rng.choice((0, -1, 65535, 65536, 2**31 - 1, -(2**31)))
    )


def _placed(rng: random.Random, count: int, shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    """Boxes, rooms and windows of samples; as often as not in their images."""
    boxes = []
    for height, width, *_ in shapes:
        top, left = rng.randrange(max(height, 1)), rng.randrange(max(width, 1))
        box = [
            top,
            left,
            rng.randrange(1, max(height - top, 1) + 1),
            rng.randrange(1, max(width - left, 1) + 1),
        ]
        if rng.random() < 0.1:
            box[rng.randrange(4)] = _side(rng)
        boxes.append(box)
    planar, channels = rng.random() < 0.5, rng.choice((1, 3, 3, 3, 4, 5))
    size = (rng.randrange(1, 40), rng.randrange(1, 40))
    shape = (channels, *size) if planar else (*size, channels)
    is_float = rng.random() < 0.3
    out: Any = np.zeros((count, *shape), np.float32 if is_float else np.uint8)
    out = [array.copy() for array in out] if rng.random() < 0.3 else out
    sides = np.array([[_side(rng), _side(rng)] for _ in range(count)], np.int64).astype(np.int32)
    starts = np.array([[rng.randrange(-40, 40)] * 2 for _ in range(count)], np.int32)
    return {
        "boxes": np.array(boxes, np.int64).astype(np.int32).reshape(-1, 4),
        "out": out,
        "resized": rng.choice((None, sides.reshape(-1, 2))),
        "offsets": rng.choice((None, starts.reshape(-1, 2))),
        "flips": rng.choice((None, _bytes(rng, count + rng.choice((0, 0, 0, 1))))),
        "factors": np.ones((2, channels), np.float32) if is_float else None,
        "planar": planar,
        "variant": rng.choice((-1, 0, 1, 2)),
    }


def _decode_regions(rng: random.Random) -> None:
    """JPEG files, some of them damaged, whose headers may say something else than the caller."""
    region_codecs.library()
    files: list[Any] = []
    shapes: list[tuple[int, ...]] = []
    for _ in range(rng.randrange(1, 4)):
        height, width = rng.randrange(1, 50), rng.randrange(1, 50)
        pixels = np.frombuffer(rng.randbytes(height * width * 3), np.uint8).reshape(height, width, 3)
        data = bytearray(
            simplejpeg.encode_jpeg(pixels, rng.randrange(20, 99), "RGB", rng.choice(("444", "420", "411")))
        )
        while rng.random() < 0.4:
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.1:
            data = data[: rng.randrange(len(data) + 1)]
        files.append(np.frombuffer(bytes(data), np.uint8).copy())
        shapes.append((height, width, 3) if rng.random() < 0.9 else tuple(abs(_side(rng)) for _ in range(3)))
    rows = np.array(shapes, np.int64).astype(np.uint32)
    status = regions.decode_regions(
        files, rows, **_placed(rng, len(files), shapes), scaled=rng.random() < 0.5
    )
    assert len(status) == len(files)


def _resize_regions(rng: random.Random) -> None:
    shapes = [
        (rng.randrange(50), rng.randrange(1, 50), *rng.choice(((), (1,), (3,), (3,))))
        for _ in range(rng.randrange(1, 4))
    ]
    images = [
        np.frombuffer(rng.randbytes(int(np.prod(shape))), np.uint8).reshape(shape).copy() for shape in shapes
    ]
    assert len(regions.resize_regions(images, **_placed(rng, len(images), shapes))) == len(images)


def _permuted(rng: random.Random) -> None:
    n = rng.choice((0, 1, 2, 63, 64, 65, -1, -(2**63), rng.randrange(3000)))
    assert np.array_equal(np.sort(order.permuted(n, rng.randrange(2**64))), np.arange(n))


def _distinct(rng: random.Random) -> None:
    n = rng.choice((0, 1, 2, 65, -1, -(2**63), rng.randrange(3000)))
    numbers = order.distinct(n, rng.choice((0, 2**64 - 1, rng.randrange(2**64))), rng.randrange(2**64))
    assert len(np.unique(numbers)) == n


def _samples_at(rng: random.Random) -> None:
    """Epochs of spans as chunks and manifests may have them, empty ones among them; positions may lie outside.

    What else the function is given is what :class:`Order` makes of these.
    """
    count = rng.choice((0, 1, 2, rng.randrange(100)))
    most = rng.choice((1, 2, 50))
    counts = np.array([rng.choice((0, 1, rng.randrange(most + 1))) for _ in range(count)], np.int64)
    nbytes = np.array([rng.choice((0, 1, 1000, rng.randrange(10**6))) for _ in range(count)], np.int64)
    chunk = np.cumsum([rng.choice((0, 1)) for _ in range(count)], dtype=np.int64)
    epochs = Order(
        Spans(counts, nbytes, chunk),
        mode=rng.choice(("none", "chunk", "window", "window", "exact")),
        seed=rng.choice(EDGES),
        window=rng.choice((1, 1000, 10**6, 10**9)),
        lanes=rng.choice((None, 1, 2, 8, 300)),
    )
    epoch = rng.choice((0, 1, 2**40))
    every = np.arange(len(epochs), dtype=np.int64)
    assert np.array_equal(np.sort(epochs.samples(epoch, every)), every)
    epochs.samples(epoch, _numbers(rng, np.int64))


def _lz4_block(rng: random.Random) -> tuple[NDArray[np.uint8], int]:
    """A block of what repeats itself at some distances, as often as not damaged, and the size that is told of it."""
    raw = b""
    for _ in range(rng.randrange(8)):
        pattern = rng.randbytes(rng.choice((1, 2, 3, 5, 7, 8, 12, 16, 31, 40, 300)))
        raw += (pattern * rng.choice((1, 1, 2, 9, 60)))[: rng.choice((4, 19, 64, 600, 5000))]
    block, size = bytearray(lz4.block.compress(raw, store_size=False)), len(raw)
    while rng.random() < 0.4:
        block[rng.randrange(len(block))] = rng.choice((0, 0x0F, 0xF0, 0xFF, rng.randrange(256)))
    if rng.random() < 0.1:
        del block[rng.randrange(len(block)) :]
    if rng.random() < 0.1:
        size = max(0, size + rng.choice((-300, -33, -5, -1, 1, 5, 300)))
    return np.frombuffer(bytes(block), np.uint8).copy(), size


def _decompress(rng: random.Random) -> None:
    block, size = _lz4_block(rng)
    assert len(native_lz4.decompress(block, -1 if rng.random() < 0.01 else size)) == size


def _decompress_into(rng: random.Random) -> None:
    block, size = _lz4_block(rng)
    native_lz4.decompress_into(block, np.zeros(size, np.uint8))


_PIECES = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"0",
        b"1",
        b"-",
        b".",
        b"e",
        b"E",
        b"null",
        b"true",
        b"NaN",
    ),
    *(b"Infinity", b'"a"', b'"b":', rb'"\u00e9"', b"12.5", b"-7", b"1e300", b"[1,2]", b'{"a":1}'),
)


def _json_text(rng: random.Random) -> NDArray[np.uint8]:
    """An array of objects, with pieces of JSON where they do not belong, in memory of exactly its size."""
    objects = [
        b'{"a": [%d, %s], "b": [[1, 2.5, 3, 4]], "c": "x"}' % (rng.randrange(99), rng.choice(_PIECES))
        for _ in range(rng.randrange(4))
    ]
    text = bytearray(b"[" + b", ".join(objects) + b"]")
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.randrange(3)] = rng.choice(_PIECES)
    return np.frombuffer(
        bytes(text[: rng.randrange(len(text) + 1)] if rng.random() < 0.3 else text), np.uint8
    ).copy()


def _json_values(rng: random.Random) -> None:
    text = _json_text(rng)
    scanner = json_arrays.ArrayScanner(text, rng.choice((0, 0, 0, _count(rng))), ("a", "c"))
    while not scanner.is_over:
        starts, ends, shapes, places = scanner.next(rng.choice((1, 2, 100)))
        assert len(starts) == len(ends) == len(shapes) == len(places)
        json_arrays.values(text, places[:, 0, 0].copy(), places[:, 0, 1].copy())


def _json_columns(rng: random.Random) -> None:
    text, count = _json_text(rng), rng.randrange(3)
    bounds = [sorted(rng.randrange(len(text) + 2) for _ in range(2)) for _ in range(count)]
    starts, ends = np.array(bounds, np.int64).reshape(count, 2).T.copy()
    kinds = bytes(rng.choice(b"ifIFPv") for _ in range(rng.randrange(4)))
    if rng.random() < 0.2:
        starts = _numbers(rng, np.int64, count)
    members = np.array([[rng.choice((-1, 0, 1, 2, 99)) for _ in kinds] for _ in range(2)], np.int64).reshape(
        2, -1
    )
    shapes = np.array([rng.choice((0, 0, 1, 1, 2, -1)) for _ in range(count)], np.int64)
    found, odd = json_arrays.columns(text, starts, ends, shapes, members, kinds)
    assert len(found) == len(kinds)
    assert len(odd) == count


def _value_span(rng: random.Random) -> None:
    text = _json_text(rng)
    start, end = json_arrays.value_span(text, _count(rng))
    assert 0 <= start < end <= len(text)


def _keys(rng: random.Random, count: int | None = None) -> NDArray[Any]:
    """Keys that repeat, close together or far apart; now and then of another dtype."""
    count = rng.choice((0, 1, 5, 40)) if count is None else count
    near = [rng.randrange(-4, 9) for _ in range(count)]
    keys = [rng.choice(EDGES) % 2**64 - 2**63 for _ in near] if rng.random() < 0.4 else near
    return np.array(keys, np.int64 if rng.random() < 0.9 else np.int32)


def _numbered(rng: random.Random) -> None:
    keys = _keys(rng)
    numbers, firsts = equals.numbered(keys, rng.getrandbits(64))
    assert keys[firsts][numbers].tolist() == keys.tolist()
    assert len(set(keys.tolist())) == len(firsts)


def _matched(rng: random.Random) -> None:
    keys, asked = _keys(rng), _keys(rng)
    numbers, found, count = equals.matched(keys, asked, rng.getrandbits(64))
    known = dict(zip(keys.tolist(), numbers.tolist(), strict=True))
    assert found.tolist() == [known.get(key, -1) for key in asked.tolist()]
    assert count == len(known)


def _gathered(rng: random.Random) -> None:
    numbers = _keys(rng)
    rows, ends = equals.gathered(numbers, rng.choice((-1, 0, 1, 5, 9, 9, 9, 100, -(2**63))))
    assert rows.tolist() == [r for n in range(len(ends) - 1) for r in np.flatnonzero(numbers == n).tolist()]


def _pairs(rng: random.Random) -> None:
    numbers, rows, ends = _keys(rng), _keys(rng), _numbers(rng, np.int64)
    if rng.random() < 0.7 and rows.dtype == np.int64:
        ends = np.sort(np.clip(ends, 0, len(rows)))
    total = equals.count_pairs(numbers, rows, ends)
    lefts, rights = equals.pairs(numbers, rows, ends)
    assert len(lefts) == len(rights) == total


CALLS: dict[str, Callable[[random.Random], None]] = {
    "values": _json_values,
    "columns": _json_columns,
    "value_span": _value_span,
    "shape_rows": _shape_rows,
    "position_rows": _position_rows,
    "parse_header": _header,
    "last_column": _last_column,
    "expand_positions": _expand,
    "gather_fixed": _gather_fixed,
    "gather_variable": _gather_variable,
    "put_fixed": _put_fixed,
    "same_fixed": _same_fixed,
    "same_items": _same_items,
    "replace_items": _replace_items,
    "resident": _resident,
    "write_new_files": _write_new_files,
    "fill_variable": _fill_variable,
    "scatter_fixed": _scatter_fixed,
    "locate_rows": _locate,
    "image headers": _image_headers,
    "gather_arrays": _gather_arrays,
    "copy_samples": _copy_samples,
    "copy_bytes": _copy_bytes,
    "fill": _fill,
    "mapped": _mapped,
    "slow_bytes": _slow_bytes,
    "cut": _cut,
    "decode_regions": _decode_regions,
    "resize_regions": _resize_regions,
    "permuted": _permuted,
    "distinct": _distinct,
    "samples_at": _samples_at,
    "decompress": _decompress,
    "decompress_into": _decompress_into,
    "numbered": _numbered,
    "matched": _matched,
    "gathered": _gathered,
    "count_pairs": _pairs,
    "pairs": _pairs,
}


def call(name: str, number: int) -> bool:
    """Make call ``number`` of a function, always the same one; return whether it was accepted."""
    try:
        CALLS[name](random.Random(f"{name} {number}"))
    except REFUSALS:
        return False
    return True
