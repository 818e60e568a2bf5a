"""Flat samples of one tensor of one version: located, fetched, decoded; one, many, or parts (FORMAT.md 5.2, 5.3).

Rows here are flat: for a tensor of sequences they number the items of all sequences.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.canvas import ChunkCodec, chunk_codec
from lakebed.chunks.chunk import Chunk
from lakebed.codecs.base import Buffer
from lakebed.codecs.registry import normalize
from lakebed.errors import (
    CorruptError,
    DynamicTensorNumpyError,
    FormatError,
    LakebedError,
    LimitError,
    ReadSampleFromChunkError,
)
from lakebed.htypes.base import Storing
from lakebed.native import chunks as native
from lakebed.reading.bulk import listed, stacked
from lakebed.reading.decode import PARTS, Decoder, file_part
from lakebed.reading.fetch import ChunkSource, OpenChunk
from lakebed.reading.linked import Credentials, Links
from lakebed.reading.locating import Locating
from lakebed.reading.raw_parts import plain_part
from lakebed.reading.select import Rows
from lakebed.reading.tiles import TiledSample
from lakebed.versions.state import TensorState

Value = Any
Shape = tuple[int, ...]
Stored = tuple[Buffer, Shape | None]

# Rows of one chunk that are worth reading the whole chunk for: one in so many of its samples.
_WHOLE_FROM = 8
# Single arrays of so many bytes come from the pool.
_POOLED_FROM = 1 << 20


class SampleReader:
    """Reads the flat samples of one tensor of one version.

    Parameters
    ----------
    name
        The tensor's name, for messages.
    credentials
        Credentials for links, by code.
    """

    # Files that are decoded straight into an array of the shape on record; others give an array of their own.
    rooms = frozenset({"jpeg", "png"})

    def __init__(
        self,
        name: str,
        state: TensorState,
        source: ChunkSource,
        credentials: Credentials | None = None,
    ) -> None:
        self.name = name
        self.state = state
        self.source = source
        self.decoder = Decoder(name, state.meta)
        self.htype = self.decoder.htype
        self.is_link = state.meta.is_link
        # Chunks that are read by range, by row of the chunk table.
        self._ranged: dict[int, OpenChunk] = {}
        self._credentials = credentials
        self.lease: object = None  # keeps the version from being collected while this lives

    @property
    def links(self) -> Links:
        """What follows the links of a tensor of links; made anew, since reader and links would be a cycle."""
        return Links(self, self._credentials)

    # -- what kind of values ---------------------------------------------------------------------------------

    @property
    def storing(self) -> Storing:
        return self.decoder.storing

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of array samples; None while unknown and for text, json and list."""
        return self.decoder.dtype if self.storing is Storing.ARRAY else None

    @property
    def is_fixed(self) -> bool:
        """Whether all samples are arrays of one shape."""
        meta = self.state.meta
        is_even = tuple(meta.min_shape) == tuple(meta.max_shape) != () and meta.length > 0
        return is_even and self.dtype is not None and self.decoder.is_as_recorded

    @property
    def is_gathered(self) -> bool:
        """Whether all samples are arrays of one shape that lie in the chunks as they are, so that rows are slices."""
        return self.is_fixed and self.decoder.is_plain and not self.is_link and not len(self.state.tiles)

    def known_dtype(self) -> np.dtype[Any]:
        """Dtype of array samples.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far.
        """
        return self.decoder.known_dtype()

    @property
    def came_as_list(self) -> str | None:
        """``list`` or ``fixed_size_list`` if the tensor was filled from an Arrow column of that type, else None."""
        kind = str(self.state.info.get("logical_type", "")).partition("<")[0]
        return kind if kind in ("list", "fixed_size_list") else None

    @property
    def is_scalar(self) -> bool:
        """Whether samples are single numbers, some of which may be absent."""
        return list(self.state.meta.max_shape) in ([1], [0]) and self.came_as_list is None

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
            If the format knows no such compression.
        """
        return self._codec

    # -- places ----------------------------------------------------------------------------------------------

    @cached_property
    def _last(self) -> list[int]:
        last: list[int] = self.state.table.ids.last.tolist()
        return last

    @cached_property
    def tile_entries(self) -> dict[int, tuple[Shape, Shape]]:
        """Flat row -> (sample shape, tile shape) as the tile index has them."""
        return self.state.tiles.entries

    def locate(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of the chunk table that hold samples, and the samples' places in those chunks."""
        wanted = np.asarray(rows, dtype=np.int64)
        ordinal, local = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
        native.locate_rows(self.state.table.ids.last, wanted, ordinal, local)
        return ordinal, local

    def _place(self, row: int) -> tuple[int, int]:
        last = self._last
        ordinal = bisect_left(last, row)
        if row < 0 or ordinal == len(last):
            raise IndexError(f"row {row} is out of range")
        return ordinal, row - (last[ordinal - 1] + 1 if ordinal else 0)

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (row of the chunk table, first row, first place inside, end inside) for rows from start to stop."""
        row = start
        while row < stop:
            ordinal, inside = self._place(row)
            end = min(stop, self._last[ordinal] + 1)
            yield ordinal, row, inside, inside + end - row
            row = end

    def tiles_of(self, row: int, ordinal: int) -> TiledSample | None:
        """Return the tiles of a sample, or None if it lies in one chunk with others."""
        last = self._last
        several = ordinal + 1 < len(last) and last[ordinal + 1] == row == last[ordinal]
        if not several and (not len(self.state.tiles) or row not in self.tile_entries or self.is_link):
            return None
        end = ordinal + 1
        while end < len(last) and last[end] == row:
            end += 1
        entry = self.tile_entries.get(row)
        if not several and (last[ordinal - 1] + 1 if ordinal else 0) != row:
            return None  # a stale entry: the sample shares its chunk
        with self.locating(row):
            return TiledSample(self, range(ordinal, end), entry)

    @cached_property
    def has_tiles(self) -> bool:
        """Whether samples may be cut into tiles."""
        last = self.state.table.ids.last
        return len(self.state.tiles) > 0 or bool(np.any(last[1:] == last[:-1]))

    # -- errors ----------------------------------------------------------------------------------------------

    def locating(self, row: int) -> Locating:
        """Return a context whose format errors come out naming tensor and row."""
        return Locating(self, row)

    def located(self, error: LakebedError, row: int) -> LakebedError:
        """Return a damage or limit error that names tensor and row."""
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

    # -- stored samples --------------------------------------------------------------------------------------

    def raw(self, row: int, *, decompress: bool = True) -> Stored:
        """Return the stored bytes and the shape of one sample that is not tiled.

        Parameters
        ----------
        decompress
            Undo a compression of bytes; files stay files.

        Raises
        ------
        CorruptError
            If the chunk or the sample is damaged; the error names tensor and row.
        """
        ordinal, inside = self._place(row)
        with self.locating(row):
            data, shape = self._stored(ordinal, inside)
            return (self.decoder.decompressed(data) if decompress else data), shape

    def is_tiled(self, row: int) -> bool:
        """Whether a sample is cut into tiles."""
        return self.has_tiles and self.tiles_of(row, self._place(row)[0]) is not None

    @property
    def reads_parts(self) -> bool:
        """Whether a part of a sample can be had for less than the whole."""
        codec = self.decoder.files
        return self.has_tiles or self.is_link or (codec is not None and codec.name in PARTS)

    def _stored(self, ordinal: int, inside: int) -> Stored:
        table = self.state.table
        chunk = self._ranged.get(ordinal)
        if chunk is None or not chunk.is_open:
            chunk = self.source.by_range(table, ordinal) if self._codec is None else None
            if chunk is None:
                return self.stored(self.source.chunk(table, ordinal, self._codec), inside)
            self._ranged[ordinal] = chunk
        data, place = self.source.sample(table, ordinal, inside, chunk)
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

        Chunks of which many rows are wanted are read as a whole.
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
            with self.locating(run[0]):
                ranged = self.by_range(ordinal, len(run)) is not None
                chunk = None if ranged else self.source.chunk(table, ordinal, codec)
            for row, inside in zip(run, insides_of_run, strict=True):
                with self.locating(row):
                    data, shape = (
                        self._stored(ordinal, inside) if chunk is None else self.stored(chunk, inside)
                    )
                yield row, data, shape

    def by_range(self, ordinal: int, count: int) -> OpenChunk | None:
        """Return a chunk of which ``count`` samples are wanted for reading by range; None if the whole is better."""
        table = self.state.table
        few = count == 1 or count * _WHOLE_FROM < table.samples(ordinal)
        return self.source.by_range(table, ordinal) if few and self._codec is None else None

    # -- values ----------------------------------------------------------------------------------------------

    def value(self, row: int) -> Value:
        """Return one sample: an ndarray, text, JSON value, list, or list of polygons.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far, so that no rank or dtype is known.
        CorruptError, LimitError, GetDataFromLinkError
            If the sample is damaged or promises too much, or its link leads nowhere.
        """
        ordinal, inside = self._place(row)
        with self.locating(row):
            if self.is_link:
                return self.links.value(row)
            tiles = self.tiles_of(row, ordinal)
            if tiles is not None:
                return tiles.array()
            return self.decode(*self._stored(ordinal, inside))

    def decode(self, data: Buffer, shape: Shape | None) -> Value:
        """Decode the stored bytes of one sample; large arrays lie in memory that is used again once they are gone."""
        decoder = self.decoder
        if self.storing is not Storing.ARRAY:
            return decoder.value(data, shape)
        if decoder.files is not None and len(data) and decoder.dtype is not None and shape is not None:
            size = math.prod(shape)
            if decoder.direct is not None and size <= limits.FREE_BYTES:
                # No more than blank images may have anyway, so the shape row needs no second opinion beforehand.
                # The allocator reuses memory for small arrays faster than the pool finds some.
                dtype = decoder.dtype
                room = np.empty(shape, dtype) if size < _POOLED_FROM else self.source.pool.array(shape, dtype)
                if decoder.direct(data, room):
                    return room
            wanted = self.room(shape, data)
            if wanted is not None:
                return decoder.array(data, shape, wanted, checked=True)
        return decoder.array(data, shape)

    def room(self, shape: Shape, data: Buffer) -> NDArray[Any] | None:
        """Return memory to decode a file into; None where the file decides on the shape itself."""
        decoder = self.decoder
        codec, dtype = decoder.files, decoder.known_dtype()
        if codec is None or codec.name not in self.rooms or dtype.kind == "O":
            return None
        decoder.check_facts(codec, data, shape)
        return self.source.pool.array(shape, dtype)

    def part(self, row: int, subscript: Any) -> Value:
        """Return ``sample[subscript]``, reading and decoding only what it needs where the layout allows it.

        Raises
        ------
        IndexError
            If the subscript leaves the sample.
        """
        ordinal, inside = self._place(row)
        with self.locating(row):
            if self.is_link:
                return self.links.part(row, subscript)
            tiles = self.tiles_of(row, ordinal)
            if tiles is not None:
                return tiles.part(subscript)
            if self.decoder.is_plain and (found := plain_part(self, ordinal, inside, subscript)) is not None:
                return found
            data, shape = self._stored(ordinal, inside)
            codec = self.decoder.files
            if codec is not None and codec.name in PARTS and len(data) and shape is not None:
                self.decoder.check_facts(codec, data, shape)
                return file_part(codec, data, subscript).astype(self.known_dtype(), copy=False)
            return self.decode(data, shape)[subscript]

    def values(self, rows: Rows) -> Iterator[Value]:
        """Yield the samples of many rows in the order given; each chunk is read once per run of rows in it."""
        if len(rows) <= 2 or self.is_link or self.has_tiles:
            for row in rows:
                yield self.value(int(row))
            return
        decode = self.decode
        for row, data, shape in self.many(rows):
            with self.locating(row):
                value = decode(data, shape)
            yield value

    # -- shapes ----------------------------------------------------------------------------------------------

    def shape(self, row: int) -> Shape:
        """Return the shape of one sample without decoding it."""
        ordinal, inside = self._place(row)
        with self.locating(row):
            if self.storing in (Storing.TEXT, Storing.JSON):
                return (1,)
            if self.is_link:
                return self.links.shape(row)
            tiles = self.tiles_of(row, ordinal)
            if tiles is not None:
                return tiles.shape
            shape = self._header_shape(ordinal, inside)
            return (0,) * len(self.state.meta.max_shape) if shape is None else shape

    def _header_shape(self, ordinal: int, inside: int) -> Shape | None:
        table = self.state.table
        if self._codec is None:
            header = self.source.header(table, ordinal)
            if header is not None:
                return header.place(inside).shape
        chunk = self.source.chunk(table, ordinal, self._codec)
        return None if chunk.ndim is None else chunk.shape(inside)

    def shapes(self, rows: Rows) -> NDArray[np.int64]:
        """Return the shapes of samples without decoding them: int64, shape (len(rows), rank)."""
        rank = len(self.state.meta.max_shape)
        if self.storing in (Storing.TEXT, Storing.JSON):
            return np.ones((len(rows), 1), dtype=np.int64)
        if self.is_link or self.has_tiles:
            return _table([self.shape(int(row)) for row in rows], rank)
        table = np.zeros((len(rows), rank), dtype=np.int64)
        ordinals, insides = self.locate(rows)
        ends = np.append(np.flatnonzero(np.diff(ordinals)) + 1, len(ordinals)).tolist() if len(rows) else []
        for begin, end in zip([0, *ends], ends, strict=False):
            with self.locating(int(rows[begin])):
                found = self._header_shapes(int(ordinals[begin]))
                if found.shape[1] not in (0, rank):
                    raise FormatError(
                        f"its chunk holds samples with {found.shape[1]} axes, the tensor has {rank}"
                    )
                if found.shape[1]:
                    table[begin:end] = found[insides[begin:end]]
        return table

    def _header_shapes(self, ordinal: int) -> NDArray[np.uint32]:
        table = self.state.table
        if self._codec is None:
            header = self.source.header(table, ordinal)
            if header is not None:
                return header.shape_table()
        return self.source.chunk(table, ordinal, self._codec).shapes()

    # -- many as one array -----------------------------------------------------------------------------------

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

    def stacked(self, rows: Rows) -> NDArray[Any]:
        """Return samples of one shape as one array: shape (len(rows), *sample shape).

        Raises
        ------
        DynamicTensorNumpyError
            If the shapes of the selected samples differ.
        """
        return stacked(self, rows)

    def listed(self, rows: Rows) -> list[NDArray[Any]]:
        """Return array samples as a list of arrays."""
        return listed(self, rows)


def _table(shapes: list[Shape], rank: int) -> NDArray[np.int64]:
    """Return shapes as a table; ranks that differ are padded with ones, in front of zeros none."""
    rank = max([rank, *map(len, shapes)])
    rows = [(*shape, *((0 if 0 in shape else 1,) * (rank - len(shape)))) for shape in shapes]
    return np.array(rows, dtype=np.int64).reshape(len(shapes), rank)
