"""Read many array samples at once: gather or cut them in compiled code, or decode them on all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import config, limits
from lakebed.chunks.chunk import Chunk
from lakebed.codecs.base import Allocate, Buffer
from lakebed.errors import FormatError
from lakebed.htypes.base import Storing
from lakebed.native import chunks as native
from lakebed.native import views
from lakebed.reading.locate import Locating, StoredSamples
from lakebed.reading.open_chunk import OpenChunk
from lakebed.reading.subscripts import Rows

Shape = tuple[int, ...]
Pending = tuple[int, int, Buffer, Shape]
_Fill = Callable[[NDArray[np.uint8]], object]

# Limits of the stored and of the decoded bytes of files that are decoded together.
_WINDOW_STORED = 1 << 25
_WINDOW_DECODED = 1 << 27
# Size of an allocation that several decoded samples share; it stays in memory as long as one of these samples does.
_ARENA = 1 << 23
_ALIGNMENT = 64
# Minimum size of arrays that several threads decode.
_THREADED_FROM = 1 << 16
# The same minimum for arrays that are only copied and verified.
_THREADED_COPY_FROM = 1 << 24
# Minimum size of buffers that are taken from the pool; allocating smaller buffers costs almost nothing.
_SHARED_ABOVE = 1 << 20


def listed(reader: StoredSamples, rows: Rows) -> list[NDArray[Any]]:
    """Return array samples, none of which is tiled, as a list of arrays."""
    if is_decoded(reader):
        return _decoded_list(reader, rows)
    if reader.decoder.is_plain and isinstance(rows, range) and rows.step == 1:
        parts = list(_views(reader, rows))
        return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))
    return list(reader.decoded(rows))


def is_decoded(reader: StoredSamples) -> bool:
    """Return whether samples are files or compressed arrays, each large enough to be decoded by a separate thread."""
    if reader.storing is not Storing.ARRAY or reader.decoder.compression is None:
        return False
    if reader.decoder.files is not None:
        return True
    # If samples are small, threads would mostly wait for each other.
    return math.prod(reader.state.meta.max_shape) * reader.known_dtype().itemsize >= _THREADED_FROM


# -- samples that are slices of the data -----------------------------------------------------------------------


def gathered(reader: StoredSamples, rows: Rows) -> NDArray[Any]:
    """Return samples that are slices of the chunks' data as one array."""
    shape = tuple(reader.state.meta.max_shape)
    if not len(rows):
        return np.empty((0, *shape), dtype=reader.dtype)
    dtype = reader.known_dtype()
    item = dtype.itemsize * math.prod(shape)
    if item == 0:
        return np.empty((len(rows), *shape), dtype=dtype)
    pieces = list(_pieces(reader, rows))
    ends = list(accumulate(len(insides) * item for _, _, insides in pieces))

    def ready(i: int) -> _Fill:
        ordinal, first, insides = pieces[i]
        with Locating(reader, first):
            return _opened(reader, ordinal, insides, item)

    # Find the first chunk before allocating memory, so that a wrong length in the metadata allocates nothing.
    opened = {0: ready(0)}
    out = reader.source.pool.take(len(rows) * item)

    def work(i: int) -> None:
        fill = opened.pop(i, None) or ready(i)
        with Locating(reader, pieces[i][1]):
            fill(out[ends[i - 1] if i else 0 : ends[i]])

    if reader.source.remote is None and len(out) >= _THREADED_COPY_FROM:
        from lakebed.reading.parallel import for_each

        for_each(len(pieces), work, threads=max(1, config.THREADS))
    else:
        for i in range(len(pieces)):
            work(i)
    return out.view(dtype).reshape(len(rows), *shape)


def _opened(reader: StoredSamples, ordinal: int, insides: range | NDArray[np.int64], item: int) -> _Fill:
    """Return a function that copies samples of one chunk into the memory that is passed to it."""
    chunk = reader.by_range(ordinal, len(insides))
    if chunk is not None:
        return partial(_pick, reader, ordinal, chunk, insides)
    if isinstance(insides, range):
        even = None
        if len(insides) * item > _SHARED_ABOVE and reader.chunk_codec() is None:
            even = reader.source.even_samples(reader.state.table, ordinal, item)
        if even is not None:
            return partial(even.copy, insides.start)
        return partial(
            np.copyto, src=whole_chunk(reader, ordinal, item)[insides.start * item : insides.stop * item]
        )
    return partial(native.gather_fixed, whole_chunk(reader, ordinal, item), item, np.asarray(insides))


def _pieces(reader: StoredSamples, rows: Rows) -> Iterator[tuple[int, int, range | NDArray[np.int64]]]:
    """Yield (row of the chunk table, first row, positions in the chunk) for each run of rows in one chunk."""
    if isinstance(rows, range) and rows.step == 1:
        for ordinal, row, inside, end in reader.runs(rows.start, rows.stop):
            yield ordinal, row, range(inside, end)
        return
    ordinals, insides = reader.locate(rows)
    ends = np.append(np.flatnonzero(np.diff(ordinals)) + 1, len(ordinals)).tolist()
    for begin, end in pairwise([0, *ends]):
        yield int(ordinals[begin]), int(rows[begin]), insides[begin:end]


def _pick(
    reader: StoredSamples,
    ordinal: int,
    chunk: OpenChunk,
    insides: range | NDArray[np.int64],
    room: NDArray[np.uint8],
) -> None:
    """Read a few samples of a large chunk into ``room``, one by one."""
    item = len(room) // len(insides)
    for i, inside in enumerate(insides):
        data, _ = reader.source.sample(reader.state.table, ordinal, int(inside), chunk)
        if len(data) == 0 and chunk.header is not None and chunk.header.is_unwritten:
            data = bytes(item)
        if len(data) != item:
            raise FormatError(f"a sample has {len(data)} bytes, its shape and dtype need {item}")
        room[i * item : (i + 1) * item] = np.frombuffer(data, np.uint8)


def whole_chunk(reader: StoredSamples, ordinal: int, item: int) -> NDArray[np.uint8]:
    """Return the data of a chunk whose samples all have ``item`` bytes."""
    chunk = reader.source.chunk(reader.state.table, ordinal, reader.chunk_codec())
    if chunk.is_unwritten:
        limits.check_sample((chunk.count, item), 1, "chunk without data")
        return np.zeros(chunk.count * item, dtype=np.uint8)
    if chunk.uniform is None or chunk.uniform[1] != item:
        raise FormatError("the shapes of the chunk's samples differ from the one in the tensor's metadata")
    return np.frombuffer(chunk.data, np.uint8)


# -- samples of any shape as views -----------------------------------------------------------------------------


def _views(reader: StoredSamples, rows: range) -> Iterator[list[NDArray[Any]]]:
    """Yield the samples of each chunk as views of one copy of the chunk's data."""
    dtype = reader.known_dtype()
    for ordinal, row, inside, end in reader.runs(rows.start, rows.stop):
        if reader.source.remote is not None and reader.by_range(ordinal, end - inside) is not None:
            yield list(reader.decoded(range(row, row + end - inside)))
            continue
        with Locating(reader, row):
            chunk = reader.source.chunk(reader.state.table, ordinal, reader.chunk_codec())
            if chunk.is_unwritten or chunk.ndim is None:
                yield [reader.decode(*reader.stored(chunk, i)) for i in range(inside, end)]
            else:
                yield cut(chunk, inside, end, dtype, reader.source.pool.take)


def cut(chunk: Chunk, start: int, stop: int, dtype: np.dtype[Any], take: Allocate) -> list[NDArray[Any]]:
    """Return samples ``start`` to ``stop`` of a chunk as writable views of a buffer; ``take`` allocates large buffers.

    Raises
    ------
    FormatError
        If the bytes of a sample do not fill its shape.
    """
    offsets = chunk.offsets()[start : stop + 1]
    size = int(offsets[-1] - offsets[0])
    data = take(size) if size > _SHARED_ABOVE else np.empty(size, dtype=np.uint8)
    data[:] = np.frombuffer(chunk.data, dtype=np.uint8)[int(offsets[0]) : int(offsets[-1])]
    try:
        return views.cut(data, dtype, offsets - offsets[0], np.ascontiguousarray(chunk.shapes()[start:stop]))
    except ValueError as error:
        raise FormatError(f"damaged chunk: {error}") from error


# -- samples that are files ------------------------------------------------------------------------------------


def decoded(reader: StoredSamples, rows: Rows, shape: Shape) -> NDArray[Any]:
    """Return files of one shape, decoded straight into one array."""
    dtype = reader.known_dtype()
    out: NDArray[Any] | None = None
    for window in _windows(reader, rows):
        if out is None:
            limits.check_sample(shape, dtype.itemsize, f"samples of tensor {reader.name!r}")
            out = reader.source.pool.array((len(rows), *shape), dtype)
        found = _decode_window(reader, window, [out[position] for position, *_ in window])
        if any(array.dtype != dtype for array in found):
            return reader.stack(_decoded_list(reader, rows))
    return np.empty((0, *shape), dtype=dtype) if out is None else out


def _decoded_list(reader: StoredSamples, rows: Rows) -> list[NDArray[Any]]:
    """Return the arrays of files of any shapes; several files are decoded into one reused buffer."""
    found: list[NDArray[Any]] = []
    for window in _windows(reader, rows):
        found.extend(_decode_window(reader, window, _rooms(reader, window)))
    return found


def _windows(reader: StoredSamples, rows: Rows) -> Iterator[list[Pending]]:
    """Yield lists of (position, row, stored bytes, shape): files to decode together, within the limits of a window."""
    dtype = reader.known_dtype()
    window: list[Pending] = []
    stored = decoded = 0
    codec, is_told = reader.decoder.files, reader.decoder.traits.decodes_into
    for position, (row, data, shape) in enumerate(_files(reader, rows)):
        size = dtype.itemsize * math.prod(shape)
        # Compare the recorded shape with the file before memory is allocated for it. Small samples of codecs that
        # decode into existing memory are not checked here: their decoding fails if the shape is wrong.
        if not is_told or size > limits.FREE_BYTES:
            with Locating(reader, row):
                if len(data) and codec is not None:
                    reader.decoder.check_facts(data, shape)
                elif len(data):
                    limits.check_sample(shape, dtype.itemsize, "compressed sample", len(data))
                else:
                    limits.check_sample(shape, dtype.itemsize, "sample without data")
        if window and (stored + len(data) > _WINDOW_STORED or decoded + size > _WINDOW_DECODED):
            yield window
            window, stored, decoded = [], 0, 0
        window.append((position, row, data, shape))
        stored += len(data)
        decoded += size
    if window:
        yield window


def _files(reader: StoredSamples, rows: Rows) -> Iterator[tuple[int, Buffer, Shape]]:
    """Yield (row, stored bytes, shape); read runs of rows, since a call per row costs as much as parsing its header."""
    if not isinstance(rows, range) or rows.step != 1 or not reader.state.meta.max_shape:
        yield from _files_of_rows(reader, rows)
        return
    for ordinal, first, inside, end in reader.runs(rows.start, rows.stop):
        with Locating(reader, first):
            found = reader.source.stretch(reader.state.table, ordinal, inside, end)
        if found is None:
            yield from _files_of_rows(reader, range(first, first + end - inside))
            continue
        data, bounds, shapes = found
        if shapes is None:
            yield from _telling(reader, first, data, bounds)
            continue
        for i, (start, stop) in enumerate(pairwise(bounds)):
            yield first + i, data[start:stop], reader.decoder.shape_of(shapes[i])


def _telling(
    reader: StoredSamples, first: int, data: Buffer, bounds: Sequence[int]
) -> Iterator[tuple[int, Buffer, Shape]]:
    """Yield (row, stored bytes, shape) of consecutive samples, whose bytes have been read.

    The shape is read from the bytes of the sample; if they do not contain it, the sample is read again with its shape.
    """
    for row, (start, stop) in enumerate(pairwise(bounds), first):
        with Locating(reader, row):
            part = data[start:stop]
            shape = reader.decoder.told_shape(part)
            if shape is None:
                part, given = reader.raw(row, decompress=False)
                shape = reader.decoder.shape_of(given)
        yield row, part, shape


def _files_of_rows(reader: StoredSamples, rows: Rows) -> Iterator[tuple[int, Buffer, Shape]]:
    for row, data, given in reader.many(rows):
        with Locating(reader, row):
            shape = reader.decoder.shape_of(given)
        yield row, data, shape


def _rooms(reader: StoredSamples, window: Sequence[Pending]) -> list[NDArray[Any] | None]:
    """Return memory for each file of a window; None for a file whose codec allocates the array itself."""
    dtype = reader.known_dtype()
    has_room = reader.decoder.files is None or reader.decoder.traits.decodes_into
    if not has_room or dtype.kind == "O":
        return [None] * len(window)
    rooms: list[NDArray[Any] | None] = []
    sizes = [-(-dtype.itemsize * math.prod(shape) // _ALIGNMENT) * _ALIGNMENT for *_, shape in window]
    arena, at = np.empty(0, dtype=np.uint8), 0
    for i, (*_, shape) in enumerate(window):
        if at + sizes[i] > len(arena):
            arena, at = reader.source.pool.take(_share(sizes, i)), 0
        stop = at + dtype.itemsize * math.prod(shape)
        rooms.append(arena[at:stop].view(dtype).reshape(shape))
        at += sizes[i]
    return rooms


def _share(sizes: Sequence[int], start: int) -> int:
    """Return the size of a buffer for the samples from ``start`` on: as many as fit into _ARENA, but at least one."""
    total = sizes[start]
    for size in sizes[start + 1 :]:
        if total + size > _ARENA:
            # Give all full buffers the same size; otherwise a buffer that is used again would often be a few bytes
            # too small.
            return max(total, _ARENA)
        total += size
    return total


def _decode_window(
    reader: StoredSamples, window: Sequence[Pending], rooms: Sequence[NDArray[Any] | None]
) -> list[NDArray[Any]]:
    from lakebed.reading.parallel import for_each

    found: list[Any] = [None] * len(window)
    array, direct = reader.decoder.array, reader.decoder.direct

    def work(i: int) -> None:
        _, row, data, shape = window[i]
        room = rooms[i]
        if direct is not None and room is not None and len(data) and direct(data, room):
            found[i] = room
            return
        with Locating(reader, row):
            if room is not None and not len(data) and reader.decoder.files is not None:
                room[...] = 0
                found[i] = room
            else:
                found[i] = array(data, shape, room, checked=direct is None)

    for_each(len(window), work, threads=max(1, config.THREADS))
    return found
