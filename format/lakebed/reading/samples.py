"""Stored bytes -> values of one tensor: one row, many rows, or a stacked array (FORMAT.md 5.2, 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.chunk import Chunk
from lakebed.chunks.probe import probe
from lakebed.codecs.base import ByteCodec
from lakebed.codecs.registry import byte_codec
from lakebed.errors import (
    CorruptError,
    DynamicTensorNumpyError,
    EmptyTensorError,
    FormatError,
    InvalidInputError,
    InvalidOperationError,
    MetaError,
    ReadSampleFromChunkError,
)
from lakebed.htypes.arrays import array_dtype, decode_sample
from lakebed.htypes.base import Storing
from lakebed.htypes.documents import decode_document
from lakebed.htypes.registry import htype_named
from lakebed.htypes.text import decode_text
from lakebed.limits import MAX_CHUNK_DATA
from lakebed.native import chunks as native
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.select import Rows
from lakebed.versions.state import TensorState

Value = Any


class SampleReader:
    """Reads the samples of one tensor of one version.

    Parameters
    ----------
    name
        The tensor's name, for messages.
    """

    def __init__(self, name: str, state: TensorState, source: ChunkSource) -> None:
        self.name = name
        self.state = state
        self.source = source
        self.htype = htype_named(state.meta.htype)

    # -- what kind of values ---------------------------------------------------------------------------------

    @property
    def storing(self) -> Storing:
        return self.htype.storing

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of array samples; None while unknown and for text, json and list.

        Raises
        ------
        InvalidOperationError
            If this release knows no such samples (complex numbers).
        """
        if self.storing is not Storing.ARRAY or self.state.meta.dtype is None:
            return None
        try:
            return array_dtype(self.state.meta.dtype)
        except MetaError as error:
            raise InvalidOperationError(
                f"tensor {self.name!r} holds {self.state.meta.dtype}: not read by this release yet"
            ) from error

    @property
    def is_fixed(self) -> bool:
        """Whether all samples are arrays of one shape, so that rows are plain slices of the data."""
        meta = self.state.meta
        return self.dtype is not None and tuple(meta.min_shape) == tuple(meta.max_shape) and meta.length > 0

    def known_dtype(self) -> np.dtype[Any]:
        """Dtype of array samples.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far.
        """
        dtype = self.dtype
        if dtype is None:
            raise EmptyTensorError(
                f"tensor {self.name!r} has only empty samples so far: it has neither dtype nor rank to read them with"
            )
        return dtype

    @property
    def came_as_list(self) -> str | None:
        """``list`` or ``fixed_size_list`` if the tensor was filled from an Arrow column of that type, else None."""
        kind = str(self.state.info.get("logical_type", "")).partition("<")[0]
        return kind if kind in ("list", "fixed_size_list") else None

    @property
    def is_scalar(self) -> bool:
        """Whether samples are single numbers, some of which may be absent."""
        return list(self.state.meta.max_shape) in ([1], [0]) and self.came_as_list is None

    def chunk_codec(self) -> ByteCodec | None:
        """Codec of whole chunks.

        Raises
        ------
        InvalidOperationError, UnsupportedCompressionError
            If this release can not decode the tensor's samples.
        """
        meta = self.state.meta
        kind = "links" if meta.is_link else "sequences" if meta.is_sequence else None
        if kind is not None or self.storing is Storing.FILE:
            raise InvalidOperationError(
                f"tensor {self.name!r} holds {kind or meta.htype}: not read by this release yet"
            )
        return byte_codec(meta.chunk_compression)

    # -- raw samples -----------------------------------------------------------------------------------------

    def raw(self, row: int, *, decompress: bool = True) -> tuple[bytes | memoryview, tuple[int, ...] | None]:
        """Return the bytes and the shape of one sample; compression by sample is undone unless told otherwise.

        Raises
        ------
        CorruptError
            If the chunk or the sample is damaged; the error names tensor and row.
        """
        at, local = self._locate(np.array([row], dtype=np.int64))
        ordinal, inside = int(at[0]), int(local[0])
        table = self.state.table
        codec = self.chunk_codec()
        self.refuse_tiles(ordinal, row)
        try:
            if codec is None and self.source.wants_probe(table, ordinal):
                data, shape = self._probed(ordinal, inside)
                return (self._decompressed(data) if decompress else data), shape
            return self.stored(self.source.chunk(table, ordinal, codec), inside, decompress=decompress)
        except FormatError as error:
            raise self.located(error, row) from error

    def _probed(self, ordinal: int, inside: int) -> tuple[bytes | memoryview, tuple[int, ...] | None]:
        table = self.state.table

        def read(start: int, length: int) -> bytes:
            return self.source.read(table, ordinal, start, length)

        place = probe(read, int(table.places.sizes[ordinal]), table.samples(ordinal), inside)
        data = read(place.start, place.nbytes) if place.nbytes else b""
        return data, place.shape

    def stored(
        self, chunk: Chunk, inside: int, *, decompress: bool = True
    ) -> tuple[bytes | memoryview, tuple[int, ...] | None]:
        """Return the bytes and the shape of one sample of a chunk; see :meth:`raw`."""
        shape = None if chunk.ndim is None else chunk.shape(inside)
        data = chunk.sample(inside)
        if chunk.is_unwritten and shape is not None and self.dtype is not None:
            return bytes(int(np.prod(shape)) * self.dtype.itemsize), shape
        return (self._decompressed(data) if decompress else data), shape

    def _decompressed(self, data: bytes | memoryview) -> bytes | memoryview:
        codec = byte_codec(self.state.meta.sample_compression)
        return data if codec is None else codec.decode(data, MAX_CHUNK_DATA)

    def _locate(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ordinal, local = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        native.locate_rows(self.state.table.ids.last, rows, ordinal, local)
        return ordinal, local

    def refuse_tiles(self, ordinal: int, row: int) -> None:
        last = self.state.table.ids.last
        if ordinal + 1 < len(last) and last[ordinal] == last[ordinal + 1]:
            raise InvalidOperationError(
                f"sample {row} of tensor {self.name!r} is tiled: not read by this release yet"
            )

    def located(self, error: FormatError, row: int) -> CorruptError:
        kind = type(error) if isinstance(error, CorruptError) else ReadSampleFromChunkError
        dataset = error.dataset if isinstance(error, CorruptError) else None
        return kind(f"tensor {self.name!r}, row {row}: {error}", dataset=dataset, tensor=self.name, row=row)

    # -- values ----------------------------------------------------------------------------------------------

    def value(self, row: int) -> Value:
        """Return one sample as an ndarray, str, or JSON value.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far, so that no rank or dtype is known.
        """
        data, shape = self.raw(row)
        return self.decode(data, shape, row)

    def decode(self, data: bytes | memoryview, shape: tuple[int, ...] | None, row: int) -> Value:
        try:
            if self.storing is Storing.TEXT:
                return decode_text(data)
            if self.storing in (Storing.JSON, Storing.LIST):
                if len(data) == 0:
                    return {} if self.storing is Storing.JSON else []
                return decode_document(data)
            return self._decode_array(memoryview(data), shape)
        except (FormatError, ValueError) as error:
            if isinstance(error, InvalidInputError):
                raise
            wrapped = error if isinstance(error, FormatError) else FormatError(str(error))
            raise self.located(wrapped, row) from error

    def _decode_array(self, data: memoryview, shape: tuple[int, ...] | None) -> NDArray[Any]:
        dtype = self.dtype
        if dtype is None or (shape is None and not self.state.meta.max_shape):
            raise EmptyTensorError(
                f"tensor {self.name!r} has only empty samples so far: it has neither dtype nor rank to read them with"
            )
        return decode_sample(data, (0,) * len(self.state.meta.max_shape) if shape is None else shape, dtype)

    def values(self, rows: Rows) -> Iterator[Value]:
        """Yield the samples of many rows in the order given; each chunk is read once per run of rows in it."""
        if len(rows) <= 2:
            for row in rows:
                yield self.value(int(row))
            return
        codec = self.chunk_codec()
        wanted = np.asarray(rows, dtype=np.int64)
        ordinals, locals_ = self._locate(wanted)
        current, chunk = -1, None
        for row, ordinal, inside in zip(wanted.tolist(), ordinals.tolist(), locals_.tolist(), strict=True):
            try:
                if ordinal != current or chunk is None:
                    self.refuse_tiles(ordinal, row)
                    chunk = self.source.chunk(self.state.table, ordinal, codec)
                    current = ordinal
                data, shape = self.stored(chunk, inside)
            except FormatError as error:
                raise self.located(error, row) from error
            yield self.decode(data, shape, row)

    def stacked(self, rows: Rows) -> NDArray[Any]:
        """Return fixed-shape samples of many rows as one new array: shape (len(rows), *sample shape).

        Raises
        ------
        DynamicTensorNumpyError
            If the shapes of the selected samples differ.
        """
        if self.is_fixed and not self.state.meta.sample_compression:
            return self._gathered(rows)
        return self.stack(list(self.values(rows)))

    def stack(self, samples: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return samples, or parts of samples, as one array.

        Raises
        ------
        DynamicTensorNumpyError
            If their shapes differ.
        """
        if len({s.shape for s in samples}) > 1:
            raise DynamicTensorNumpyError(
                f"tensor {self.name!r} has samples of different shapes and can not become one array; "
                "pass aslist=True to get a list of arrays"
            )
        return np.stack(samples) if samples else np.empty((0, *self.state.meta.max_shape), dtype=self.dtype)

    def _gathered(self, rows: Rows) -> NDArray[Any]:
        shape, dtype = tuple(self.state.meta.max_shape), self.dtype
        out = np.empty((len(rows), *shape), dtype=dtype)
        item = out.itemsize * int(np.prod(shape))
        flat = out.reshape(-1).view(np.uint8)
        if item == 0 or not len(rows):
            return out
        codec = self.chunk_codec()
        ordinals, locals_ = self._locate(np.asarray(rows, dtype=np.int64))
        # Runs of rows in the same chunk are copied with one call each.
        ends = np.append(np.flatnonzero(np.diff(ordinals)) + 1, len(ordinals))
        begin = 0
        for end in ends.tolist():
            ordinal, row = int(ordinals[begin]), int(rows[begin])
            self.refuse_tiles(ordinal, row)
            try:
                room = flat[begin * item : end * item]
                if end - begin == 1 and codec is None and self.source.wants_probe(self.state.table, ordinal):
                    self._copy_probed(ordinal, int(locals_[begin]), room)
                else:
                    chunk = self.source.chunk(self.state.table, ordinal, codec)
                    self._copy(chunk, item, locals_[begin:end], room)
            except FormatError as error:
                raise self.located(error, row) from error
            begin = end
        return out

    def _copy_probed(self, ordinal: int, inside: int, out: NDArray[np.uint8]) -> None:
        data = self._probed(ordinal, inside)[0]
        if len(data) != len(out):
            raise FormatError(f"the sample has {len(data)} bytes, its shape and dtype need {len(out)}")
        out[:] = np.frombuffer(data, np.uint8)

    def _copy(self, chunk: Chunk, item: int, local: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        if chunk.is_unwritten:
            out[:] = 0
            return
        if chunk.uniform is None or chunk.uniform[1] != item:
            raise FormatError(
                "the chunk's samples do not have the one shape that the tensor's metadata names"
            )
        native.gather_fixed(chunk.data, item, local, out)
