"""Locate and fetch the stored bytes of the flat samples of one tensor of one version (format.md 5.2, 5.3).

Rows here are flat: for a tensor of sequences they number the items of all sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.chunk import Chunk
from lakebed.chunks.image_chunk import ChunkCodec, chunk_codec
from lakebed.codecs.base import Buffer
from lakebed.codecs.registry import normalize
from lakebed.documents.layouts import Layout, layout_words
from lakebed.errors import (
    CorruptError,
    DynamicTensorNumpyError,
    FormatError,
    LakebedError,
    LimitError,
    ReadSampleFromChunkError,
    StorageError,
)
from lakebed.htypes.base import Storing
from lakebed.reading.decode import Decoder
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.open_chunk import OpenChunk
from lakebed.reading.subscripts import Rows
from lakebed.versions.state import TensorState

Shape = tuple[int, ...]
Stored = tuple[Buffer, Shape | None]

# A chunk is read as a whole if at least 1 / _WHOLE_FROM of its samples are requested.
_WHOLE_FROM = 8
# A chunk is also read as a whole if its samples have fewer bytes than _FINE_BELOW on average, the chunk has at most
# _WHOLE_BELOW bytes, and the manifest does not contain the positions of its samples.
_FINE_BELOW = 16_000
_WHOLE_BELOW = 16 << 20
# Single arrays of at least this size come from the buffer pool.
_POOLED_FROM = 1 << 20
# Largest length of the version in the header of a chunk, in characters (format.md 5.5).
_LONGEST_VERSION = 10


class Locating:
    """Context that adds dataset, tensor, row and chunk to errors; a class for speed, since every sample enters it."""

    __slots__ = ("_reader", "_row")

    def __init__(self, reader: StoredSamples, row: int) -> None:
        self._reader = reader
        self._row = row

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, FormatError | LimitError | StorageError):
            located = self._reader.located(error, self._row)
            if located is not error:  # the error did not name its place before
                raise located from error


class Detector(Protocol):
    """Observes which rows of a tensor are read over a network, and reads the following rows ahead."""

    @property
    def is_paused(self) -> bool: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def note(self, reader: StoredSamples, first: int, stop: int) -> bool: ...


class StoredSamples:
    """The stored flat samples of one tensor of one version.

    Parameters
    ----------
    name
        The tensor's name, for messages.

    Attributes
    ----------
    detector
        Observes which rows are read; None for files on this machine.
    """

    detector: Detector | None = None

    def __init__(self, name: str, state: TensorState, source: ChunkSource) -> None:
        self.name = name
        self.state = state
        self.source = source
        self.decoder = Decoder(name, state.meta)
        self.storing = self.decoder.storing
        self.is_link = state.meta.is_link
        # Row of the chunk table -> chunk that is read by range.
        self._ranged: dict[int, OpenChunk] = {}
        # Row of the chunk table -> offset of the first sample, for chunks whose layout follows from their size.
        self._starts: dict[int, int] = {}

    # -- types of values -------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of array samples; None while unknown and for text, json and list."""
        return self.decoder.dtype if self.storing is Storing.ARRAY else None

    @property
    def is_fixed(self) -> bool:
        """Return whether all samples are arrays of one shape."""
        meta = self.state.meta
        is_even = tuple(meta.min_shape) == tuple(meta.max_shape) != () and meta.length > 0
        return is_even and self.dtype is not None and self.decoder.is_as_recorded

    @cached_property
    def is_gathered(self) -> bool:
        """Return whether all samples are uncompressed arrays of one shape, so that rows are slices of chunks."""
        return self.is_fixed and self.decoder.is_plain and not self.is_link and not len(self.state.tiles)

    def known_dtype(self) -> np.dtype[Any]:
        """Dtype of array samples.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far.
        """
        return self.decoder.known_dtype()

    @cached_property
    def item(self) -> int:
        """Number of bytes of each sample, if samples are uncompressed arrays of one shape."""
        return math.prod(self.state.meta.max_shape) * self.known_dtype().itemsize

    @cached_property
    def _codec(self) -> ChunkCodec | None:
        meta = self.state.meta
        if self.is_link or self.decoder.compression is not None:
            return None
        return chunk_codec(normalize(meta.chunk_compression), meta.dtype)

    def chunk_codec(self) -> ChunkCodec | None:
        """Codec of whole chunks.

        Raises
        ------
        UnsupportedCompressionError
            If the format has no such compression.
        """
        return self._codec

    # -- positions -------------------------------------------------------------------------------------------

    @cached_property
    def _find(self) -> Callable[[int], tuple[int, int]]:
        return self.state.table.finder()

    def _place(self, row: int) -> tuple[int, int]:
        """Return the row of the chunk table of a sample, and its position in the chunk."""
        with Locating(self, row):  # a chunk table in pages may be damaged
            return self._find(row)

    @cached_property
    def tile_entries(self) -> dict[int, tuple[Shape, Shape]]:
        """Flat row -> (sample shape, tile shape) in the tile index."""
        return self.state.tiles.entries

    def locate(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of the chunk table of samples, and the samples' positions in these chunks."""
        with Locating(self, int(rows[0]) if len(rows) else 0):
            return self.state.table.locate(np.asarray(rows, dtype=np.int64))

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (row of the chunk table, first row, start, stop) for rows; the last two are positions in the chunk."""
        row, table = start, self.state.table
        while row < stop:
            ordinal, inside = self._place(row)
            end = min(stop, row - inside + table.samples(ordinal))
            yield ordinal, row, inside, inside + end - row
            row = end

    def tiles_from(self, ordinal: int) -> range:
        """Return the rows of the chunk table, from ``ordinal`` on, that belong to the same sample."""
        table, end = self.state.table, ordinal + 1
        while end < len(table) and not table.samples(end):
            end += 1
        return range(ordinal, end)

    @cached_property
    def has_tiles(self) -> bool:
        """Return whether samples may be cut into tiles."""
        return len(self.state.tiles) > 0 or self.state.table.has_tiles

    # -- errors ----------------------------------------------------------------------------------------------

    def located(self, error: LakebedError, row: int) -> LakebedError:
        """Return an error about damage, limits or the storage with tensor and row added."""
        if isinstance(error, StorageError):
            return error if error.row is not None else error.located(self.source.url, self.name, row)
        if isinstance(error, LimitError):
            if error.tensor is not None:
                return error
            text = f"tensor {self.name!r}, row {row}: {error}"
            url = self.source.url
            return LimitError(text, limit=error.limit, dataset=url, tensor=self.name, row=row)
        if isinstance(error, CorruptError) and error.tensor is not None:
            return error
        kind = type(error) if isinstance(error, CorruptError) else ReadSampleFromChunkError
        text = f"tensor {self.name!r}, row {row}: {error}"
        if not isinstance(error, CorruptError) or error.dataset is None:
            text += f" (chunk {self.state.table.key(self._place(row)[0])} of {self.source.url})"
        return kind(text, dataset=self.source.url, tensor=self.name, row=row)

    def whereabouts(self, row: int) -> tuple[str, tuple[int, int] | None]:
        """Return the chunk that holds a sample, and the sample's first byte and number of bytes in it.

        The second result is None if the chunk is compressed as a whole or too damaged, and over a network, because this
        method makes no requests.
        """
        ordinal, inside = self._place(row)
        table = self.state.table
        found = None
        if self._codec is None:
            with suppress(LakebedError):
                found = self.source.place_on_disk(table, ordinal, inside)
        return table.key(ordinal), None if found is None else (found.start, found.nbytes)

    # -- stored samples --------------------------------------------------------------------------------------

    def raw(self, row: int, *, decompress: bool = True) -> Stored:
        """Return the stored bytes and the shape of one sample that is not tiled.

        Parameters
        ----------
        decompress
            Undo a compression of bytes; files are not decoded.

        Raises
        ------
        CorruptError
            If the chunk or the sample is damaged; the error names tensor and row.
        """
        ordinal, inside = self._place(row)
        with Locating(self, row):
            data, shape = self._stored(ordinal, inside)
            return (self.decoder.decompressed(data) if decompress else data), shape

    def stored_part(self, row: int, start: int, stop: int) -> tuple[Buffer, int]:
        """Return a part of the stored bytes of one sample that is not tiled, and the total number of its bytes.

        From large chunks without compression as a whole, only the part is read, and the bytes that its checksums cover.

        Raises
        ------
        CorruptError
            If the chunk or the sample is damaged; the error names tensor and row.
        """
        ordinal, inside = self._place(row)
        with Locating(self, row):
            chunk = self.by_range(ordinal, 1)
            if chunk is None:
                data = memoryview(self._stored(ordinal, inside)[0])
                return data[start:stop], data.nbytes
            place = self.source.place(self.state.table, ordinal, inside, chunk)
            length = min(stop, place.nbytes) - start
            return self.source.piece(chunk, place.start + start, length) if length > 0 else b"", place.nbytes

    def _stored(self, ordinal: int, inside: int) -> Stored:
        table = self.state.table
        if self.source.remote is not None:
            return self._remote_stored(ordinal, inside)
        chunk = self._ranged.get(ordinal)
        if chunk is None or not chunk.is_open:
            key = table.key(ordinal)
            chunk = self.source.by_range(table, ordinal, key) if self._codec is None else None
            if chunk is None:
                return self.stored(self.source.chunk(table, ordinal, self._codec, key=key), inside)
            self._ranged[ordinal] = chunk
            if self.is_gathered and len(chunk.sums) and self._is_even(chunk, ordinal):
                self._starts[ordinal] = chunk.size - self.state.table.samples(ordinal) * self.item
        start = self._starts.get(ordinal)
        # The header need not be read, because the checksum of the block already verifies the sample.
        if start is not None:
            item = self.item
            return self.source.piece(chunk, start + inside * item, item), self.state.meta.max_shape
        if chunk.header is None:
            layout = chunk.layout
            if layout is not None and layout.sums is not None:
                return self._told(ordinal, inside, chunk, layout)
        return self._ranged_sample(ordinal, inside, chunk)

    def _remote_stored(self, ordinal: int, inside: int) -> Stored:
        """Return a sample of a chunk on a store, with one request if the manifest has the sample's position."""
        chunk = self.by_range(ordinal, 1)
        if chunk is None:
            return self.stored(self.source.chunk(self.state.table, ordinal, self._codec), inside)
        layout = chunk.layout if chunk.header is None else None
        if layout is not None:
            return self._told(ordinal, inside, chunk, layout)
        return self._ranged_sample(ordinal, inside, chunk)

    def _told(self, ordinal: int, inside: int, chunk: OpenChunk, layout: Layout) -> Stored:
        """Return a sample without reading the chunk's header, if the sample or the layout contains its shape."""
        data = self.source.told(chunk, layout, inside)
        shape = layout.shape(inside) or self.decoder.told_shape(data)
        if shape is not None:
            return data, shape
        return self._ranged_sample(ordinal, inside, chunk)

    def _ranged_sample(self, ordinal: int, inside: int, chunk: OpenChunk) -> Stored:
        data, place = self.source.sample(self.state.table, ordinal, inside, chunk)
        if not place.nbytes and place.shape and chunk.header is not None and chunk.header.is_unwritten:
            return self._unwritten(place.shape)
        return data, place.shape

    def stored(self, chunk: Chunk, inside: int) -> Stored:
        """Return the stored bytes and the shape of one sample of a chunk."""
        shape = None if chunk.ndim is None else chunk.shape(inside)
        if shape is not None and chunk.is_unwritten:
            return self._unwritten(shape)
        return chunk.sample(inside), shape

    def _unwritten(self, shape: Shape) -> Stored:
        if self.dtype is None or self.decoder.files is not None or self.is_link:
            return b"", shape
        return self.decoder.zeros(shape).tobytes(), shape

    def many(self, rows: Rows) -> Iterator[tuple[int, Buffer, Shape | None]]:
        """Yield (row, stored bytes, shape) of samples that are not tiled, in the order given.

        A chunk is read as a whole if many of its rows are requested.
        """
        table, codec = self.state.table, self._codec
        if not isinstance(rows, range) or rows.step != 1:
            ordinals, insides = self.locate(rows)
            ends = np.append(np.flatnonzero(np.diff(ordinals)) + 1, len(ordinals)).tolist()
            runs = [
                (int(ordinals[a]), np.asarray(rows[a:b]).tolist(), insides[a:b].tolist())
                for a, b in zip([0, *ends], ends, strict=False)
            ]
        else:
            runs = [
                (ordinal, range(row, row + end - inside), range(inside, end))
                for ordinal, row, inside, end in self.runs(rows.start, rows.stop)
            ]
        for ordinal, run, insides_of_run in runs:
            with Locating(self, run[0]):
                ranged = self.by_range(ordinal, len(run)) is not None
                chunk = None if ranged else self.source.chunk(table, ordinal, codec)
            for row, inside in zip(run, insides_of_run, strict=True):
                with Locating(self, row):
                    data, shape = (
                        self._stored(ordinal, inside) if chunk is None else self.stored(chunk, inside)
                    )
                yield row, data, shape

    def by_range(self, ordinal: int, count: int) -> OpenChunk | None:
        """Return a chunk for reading ``count`` samples by range; None if reading the whole is better."""
        table = self.state.table
        few = count == 1 or count * _WHOLE_FROM < table.samples(ordinal)
        if not few:
            remote = self.source.remote
            few = remote is not None and remote.is_ranged(table.key(ordinal))
        if not few or self._codec is not None:
            return None
        chunk = self.source.by_range(table, ordinal)
        if chunk is None or self.source.remote is None or chunk.starts() is not None or chunk.header_read:
            return chunk
        if self.is_gathered:
            self._lay_out(chunk, ordinal)
        # The positions of small samples are in the header only. Reading the whole chunk instead of its header costs no
        # more than another request, and neighbours of the sample are likely to be read next.
        is_fine = chunk.size < _FINE_BELOW * table.samples(ordinal) and chunk.size <= _WHOLE_BELOW
        return None if chunk.layout is None and is_fine else chunk

    def _lay_out(self, chunk: OpenChunk, ordinal: int) -> None:
        """Compute the positions of a chunk's samples, if all have one shape and the file has the matching length."""
        if not self._is_even(chunk, ordinal):
            return
        size, count = self.item, self.state.table.samples(ordinal)
        if size <= _LONGEST_VERSION and not len(chunk.sums):
            # A killed writer can leave one sample too many or too few. If samples are this short, the changed length
            # could be the length of a file whose header has a longer or shorter version string, so do not guess the
            # layout.
            return
        chunk.lay_out(layout_words(size, tuple(self.state.meta.max_shape), count), count)

    def _is_even(self, chunk: OpenChunk, ordinal: int) -> bool:
        """Return whether a file has the length of a chunk of samples of one shape, header included."""
        size = self.item
        # Prefix, counts and one row of each table (format.md 5.1, 5.5), with a version of up to ten characters.
        shortest = 13 + 4 * (len(self.state.meta.max_shape) + 1) + 12
        return (
            size > 0
            and 0 < chunk.size - self.state.table.samples(ordinal) * size - shortest <= _LONGEST_VERSION
        )

    # -- values ----------------------------------------------------------------------------------------------

    def decode(self, data: Buffer, shape: Shape | None) -> Any:
        """Decode the stored bytes of one sample; large arrays use pooled memory."""
        decoder = self.decoder
        if self.storing is not Storing.ARRAY:
            return decoder.value(data, shape)
        dtype = decoder.dtype
        is_image = decoder.traits.decodes_into and dtype is not None and dtype.kind != "O"
        if is_image and dtype is not None and len(data) and shape is not None:
            size = math.prod(shape) * dtype.itemsize
            if size > limits.FREE_BYTES:
                decoder.check_facts(data, shape)
            # Smaller arrays are allocated without checking the file: trust the recorded shape until the file is
            # decoded. For small arrays, the allocator reuses memory faster than the pool does.
            room = np.empty(shape, dtype) if size < _POOLED_FROM else self.source.pool.array(shape, dtype)
            if decoder.direct is not None and decoder.direct(data, room):
                return room
            return decoder.array(data, shape, room, checked=True)
        return decoder.array(data, shape)

    def decoded(self, rows: Rows) -> Iterator[Any]:
        """Yield the values of samples that are not tiled, in the order given; each run of rows reads its chunk once."""
        for row, data, shape in self.many(rows):
            with Locating(self, row):
                value = self.decode(data, shape)
            yield value

    def stack(self, samples: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return samples, or parts of samples, as one array.

        Raises
        ------
        DynamicTensorNumpyError
            If their shapes differ.
        """
        if len({s.shape for s in samples}) > 1:
            raise self.dynamic()
        return np.stack(samples) if samples else np.empty((0, *self.state.meta.max_shape), dtype=self.dtype)

    def dynamic(self) -> DynamicTensorNumpyError:
        """Return the error for samples that do not make one array."""
        return DynamicTensorNumpyError(
            f"tensor {self.name!r} has samples of different shapes and can not become one array; "
            "pass aslist=True to get a list of arrays"
        )
