"""Reading of one tensor into batches: its spans are read, and the samples of each batch are made from the spans.

A span is a run of neighbouring samples of one chunk that are read together; see `order`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.codecs.base import Buffer
from lakebed.codecs.regions import decode_regions
from lakebed.errors import FormatError, InvalidInputError
from lakebed.htypes.base import Storing
from lakebed.loaders.portions import Portion, Shape, read_portion, shape_in
from lakebed.native import gather
from lakebed.reading.buffers import BufferPool
from lakebed.reading.columns.scan import ColumnScan
from lakebed.reading.locate import Locating
from lakebed.reading.remote.tasks import LazyFuture, submit
from lakebed.reading.samples import SampleReader
from lakebed.reading.selection import Selection
from lakebed.reading.subscripts import Index, Rows
from lakebed.runtime.failures import OnFailure

Decode = Literal["numpy", "bytes", "pil"]

RESIDENT_BYTES = 1 << 24
"""Maximum size of tensors that are loaded as a whole, so that every order is equally fast; never tensors of files."""

RESIDENT_SMALL = 1 << 28, 1 << 10
"""Maximum size (in total, per sample) of tensors of small samples that are loaded as a whole: single reads are slow."""

STREAMED_BYTES = 8 << 20
"""Minimum size of batches that are written past the processor's caches, which cannot keep them until their use."""

_ALIGNMENT = 64


class Room:
    """Memory for the samples of one tensor in one batch, while they are made."""

    values: Sequence[Any] | NDArray[Any]
    nbytes: int = 0
    """Bytes of memory, once the room is open."""

    def open(self) -> None:
        """Allocate the memory."""

    def largest(self) -> tuple[int, int]:
        """Return the size of the largest sample in bytes, and the number of that sample in the batch."""
        return 0, 0

    def fill(self, start: int, stop: int) -> None:
        """Make the samples ``start`` to ``stop`` of the batch; several threads may make different samples at once."""

    def value(self, i: int) -> Any:
        """Return sample `i` of the batch, which was made before."""
        return self.values[i]

    def stacked(self) -> NDArray[Any] | None:
        """Return all samples as one array if they are in one array; otherwise None."""
        return None


@dataclass(slots=True)
class Picked:
    """The stored samples of a batch: for each sample its row, its portion, and its position in the portion."""

    epoch: int
    rows: NDArray[np.int64]
    portions: Sequence[Portion]
    insides: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(eq=False)
class Column:
    """One tensor of the batches.

    Parameters
    ----------
    name
        Key of the tensor in the batches.
    pool
        Supplies the memory of batches.
    """

    name: str
    reader: SampleReader
    pool: BufferPool
    is_spanned = True
    """Whether the tensor is read span by span."""
    is_light = False
    """Whether making a sample costs less than handing the task to another thread."""

    def read(self, rows: Rows) -> Portion:
        """Read the data of a span of rows; errors as in :func:`read_portion`."""
        return read_portion(self.reader, rows)

    def whereabouts(self, row: int) -> tuple[str | None, tuple[int, int] | None]:
        """Return the chunk that holds a sample, and its byte range; see :meth:`StoredSamples.whereabouts`."""
        return (None, None) if self.reader.state.sequence is not None else self.reader.whereabouts(row)

    def prepare(self) -> None:
        """Request data that all batches need, if that takes time."""

    def finish(self) -> None:
        """Wait for the data that all batches need; errors as in :func:`read_portion`."""

    def room(self, picked: Picked) -> Room:
        """Return the memory for the samples of a batch; see :class:`Room`."""
        raise NotImplementedError


# -- in memory --------------------------------------------------------------------------------------------------


class Made(Room):
    """Room whose samples are in memory already."""

    def __init__(self, values: Sequence[Any] | NDArray[Any]) -> None:
        self.values = values

    def stacked(self) -> NDArray[Any] | None:
        return self.values if isinstance(self.values, np.ndarray) else None


@dataclass(eq=False)
class Resident(Column):
    """A tensor small enough to be kept in memory as a whole."""

    is_spanned = False
    is_light = True

    def __post_init__(self) -> None:
        self._restart()

    def _load(self) -> Any:
        reader = self.reader
        found = ColumnScan(reader, None).column(0, reader.state.length)
        # In a column of single numbers, return absent values as empty samples.
        if isinstance(found, list) and reader.is_nullable:
            empty = np.zeros(0, reader.known_dtype())
            return [empty if row is None else row for row in found]
        if isinstance(found, np.ndarray) and type(found) is not np.ndarray:
            values: Any = found.data
            present = np.logical_not(np.ma.getmaskarray(found)).reshape(-1).tolist()
            return [row if there else row[:0] for row, there in zip(values, present, strict=True)]
        # Arrays are views of chunks, so copy them; lists and texts are already copies.
        return found.copy() if isinstance(found, np.ndarray) else found

    @property
    def _all(self) -> Any:
        with OnFailure(self._restart):
            return self._loading.result()

    def _restart(self) -> None:
        # Create a new future, so that the next pass tries again.
        self._loading: LazyFuture[Any] = LazyFuture(self._load)

    def prepare(self) -> None:
        if self.reader.source.remote is not None:
            submit(self._loading)

    def finish(self) -> None:
        _ = self._all

    def room(self, picked: Picked) -> Made:
        found, rows = self._all, picked.rows
        if isinstance(found, np.ndarray):
            return Made(found.take(rows, axis=0))
        values = [found[row] for row in rows.tolist()]
        return Made([value.copy() if isinstance(value, np.ndarray) else value for value in values])


# -- arrays of one shape ----------------------------------------------------------------------------------------


class Gathered(Column):
    """A tensor whose samples are arrays of one shape that are stored uncompressed."""

    def read(self, rows: Rows) -> Portion:
        return read_portion(self.reader, rows, self._shape)

    @cached_property
    def _shape(self) -> Shape:
        return tuple(self.reader.state.meta.max_shape)

    def room(self, picked: Picked) -> Room:
        return _GatheredRoom(self.pool, picked, (len(picked), *self._shape), self.reader.known_dtype())


class _GatheredRoom(Room):
    """Samples in one array."""

    values: NDArray[Any]

    def __init__(self, pool: BufferPool, picked: Picked, shape: Shape, dtype: np.dtype[Any]) -> None:
        self._pool, self._picked = pool, picked
        self._shape, self._dtype = shape, dtype
        self.nbytes = math.prod(shape) * dtype.itemsize

    def open(self) -> None:
        self.values = self._pool.array(self._shape, self._dtype)

    def largest(self) -> tuple[int, int]:
        return self.nbytes // max(1, self._shape[0]), 0

    def fill(self, start: int, stop: int) -> None:
        """Copy samples without Python's lock; bypass the processor's caches if the batch is larger than they are."""
        portions, insides = self._picked.portions, self._picked.insides
        sources: list[Buffer] = []
        starts = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            data, starts[i - start] = portions[i].place(insides[i])
            sources.append(data)
        out = self.values[start:stop].reshape(stop - start, -1).view(np.uint8)
        gather.copy_samples(sources, starts * out.shape[1], out, self.nbytes >= STREAMED_BYTES)

    def stacked(self) -> NDArray[Any] | None:
        return self.values


# -- files ------------------------------------------------------------------------------------------------------


class Files(Column):
    """A tensor whose samples are decoded into memory of the batch: files such as images, or bytes of arrays."""

    def shapes(self, picked: Picked) -> tuple[list[Any], list[Shape]]:
        """Return the stored samples of a batch and the shapes that they decode to.

        Raises
        ------
        CorruptError, LimitError
            If a file has another format than its tensor, or a sample claims a size that its bytes cannot hold or that
            exceeds a limit of this process.
        """
        reader, found, shapes = self.reader, [], []
        itemsize, is_told = reader.known_dtype().itemsize, reader.decoder.traits.decodes_into
        rows = picked.rows.tolist()
        for row, portion, inside in zip(rows, picked.portions, picked.insides, strict=True):
            data, told = portion.at(inside)
            shape = shape_in(reader, data, told, row)
            if not is_told or itemsize * math.prod(shape) > limits.FREE_BYTES:
                with Locating(reader, row):
                    if reader.decoder.files is None:
                        _check_bytes(data, shape, itemsize, is_compressed=not reader.decoder.is_plain)
                    elif len(data):
                        reader.decoder.check_facts(data, shape)
                    else:
                        limits.check_sample(shape, itemsize, "sample without data")
            found.append(data)
            shapes.append(shape)
        return found, shapes

    def room(self, picked: Picked) -> Room:
        return _FilesRoom(self, picked, *self.shapes(picked))


def _check_bytes(data: Buffer, shape: Shape, itemsize: int, *, is_compressed: bool) -> None:
    """Check that an array's bytes can hold its shape, before memory for the shape is allocated."""
    if is_compressed:
        limits.check_sample(shape, itemsize, "compressed sample", len(data))
    elif len(data) != itemsize * math.prod(shape):
        raise FormatError(
            f"a sample has {len(data)} bytes, its shape {shape} needs {itemsize * math.prod(shape)}"
        )


class Arena(Room):
    """Arrays side by side in one buffer; one array if their shapes agree."""

    values: list[NDArray[Any]]

    def __init__(self, pool: BufferPool, shapes: list[Shape], dtype: np.dtype[Any]) -> None:
        self.pool, self.shapes, self.dtype = pool, shapes, dtype
        self.is_even = len(set(shapes)) == 1
        self.whole: NDArray[Any] | None = None
        self.sizes = [dtype.itemsize * math.prod(shape) for shape in shapes]
        self.nbytes = sum(self.sizes)

    def open(self) -> None:
        if self.is_even:
            self.whole = self.pool.array((len(self.shapes), *self.shapes[0]), self.dtype)
            self.values = list(self.whole)
            return
        starts = [0]
        for size in self.sizes:
            starts.append(starts[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
        buffer = self.pool.take(_rounded(starts[-1]))
        self.values = [
            buffer[start : start + size].view(self.dtype).reshape(shape)
            for start, size, shape in zip(starts, self.sizes, self.shapes, strict=False)
        ]

    def largest(self) -> tuple[int, int]:
        size = max(self.sizes)
        return size, self.sizes.index(size)

    def stacked(self) -> NDArray[Any] | None:
        return self.whole


def _rounded(size: int) -> int:
    """Round a size up, by at most an eighth, to one of few sizes, so that batches of similar size share buffers."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


class _FilesRoom(Arena):
    """Room for decoded files."""

    def __init__(self, column: Files, picked: Picked, files: list[Any], shapes: list[Shape]) -> None:
        super().__init__(column.pool, shapes, column.reader.known_dtype())
        self._reader, self._picked, self._files = column.reader, picked, files

    def fill(self, start: int, stop: int) -> None:
        reader, files, values = self._reader, self._files, self.values
        decoder = reader.decoder
        for i in self._left(start, stop):
            data, room = files[i], values[i]
            with Locating(reader, int(self._picked.rows[i])):
                if len(data) or decoder.files is None:
                    values[i] = decoder.array(data, self.shapes[i], room)
                else:
                    room[...] = 0

    def _left(self, start: int, stop: int) -> Sequence[int]:
        """Decode all JPEG files in one call, which releases Python's lock once; return the numbers of other samples."""
        found = range(start, stop)
        shapes = self.shapes[start:stop]
        if self._reader.decoder.direct is None or not all(map(all, shapes)):
            return found
        table = np.array([(*shape, 1)[:3] for shape in shapes], np.uint32)
        boxes = np.zeros((len(shapes), 4), np.int32)
        boxes[:, 2:] = table[:, :2]
        statuses = decode_regions(self._files[start:stop], table, boxes, self.values[start:stop])
        return [start + i for i in np.flatnonzero(statuses).tolist()]

    def stacked(self) -> NDArray[Any] | None:
        out = self.whole
        # A file whose values do not fit the dtype of the tensor becomes an array of another dtype, which cannot be
        # stacked with the others.
        return out if out is not None and all(value.dtype == out.dtype for value in self.values) else None


# -- anything else ----------------------------------------------------------------------------------------------


class _Listed(Room):
    """Room for samples of unknown size; `make` returns the samples of a range."""

    values: list[Any]

    def __init__(self, count: int, make: Callable[[int, int], list[Any]]) -> None:
        self.values = [None] * count
        self._make = make

    def fill(self, start: int, stop: int) -> None:
        self.values[start:stop] = self._make(start, stop)


@dataclass(eq=False)
class Decoded(Column):
    """A tensor of samples stored one by one in chunks: arrays of any shapes, text, JSON, lists, sounds, meshes."""

    decode: Callable[[Any, Shape | None], Any]

    def room(self, picked: Picked) -> Room:
        return _Listed(len(picked), partial(self._decoded, picked))

    def _decoded(self, picked: Picked, start: int, stop: int) -> list[Any]:
        found = []
        for i in range(start, stop):
            data, shape = picked.portions[i].at(picked.insides[i])
            with Locating(self.reader, int(picked.rows[i])):
                found.append(self.decode(data, shape))
        return found


@dataclass(eq=False)
class Selected(Column):
    """A tensor whose samples are read one by one: links, tiles, sequences, parts of samples."""

    is_spanned = False
    index: Index
    companion: Callable[[str], SampleReader | None]

    def room(self, picked: Picked) -> Room:
        return _Listed(len(picked), lambda start, stop: self._values(picked.rows[start:stop]))

    def _values(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return the samples of some rows as Python values: arrays, text or JSON; a sequence is a list of its items."""
        index = Index((tuple(rows.tolist()),), self.index.inside)
        found: list[Any] = Selection(self.reader, index, self.companion).python()
        return found


# -- choice of the kind -----------------------------------------------------------------------------------------


def column_of(
    name: str,
    reader: SampleReader,
    pool: BufferPool,
    index: Index,
    companion: Callable[[str], SampleReader | None],
    *,
    wanted: int,
    decode: Decode = "numpy",
) -> Column:
    """Return the column of a tensor.

    Parameters
    ----------
    index
        The selection, which may also select parts of samples.
    companion
        Function that returns the reader of a hidden companion tensor of a kind; None if the tensor has none.
    wanted
        Number of selected rows.
    decode
        ``numpy`` for values; ``bytes`` for stored bytes; ``pil`` for images of Pillow.

    Raises
    ------
    InvalidInputError
        If `decode` does not fit the tensor.
    """
    if decode != "numpy":
        return Decoded(name, reader, pool, _form(reader, decode))
    decoder = reader.decoder
    is_found_alone = reader.is_link or reader.has_tiles or bool(index.inside)
    if not is_found_alone and decoder.files is None and _is_small(reader, wanted):
        return Resident(name, reader, pool)
    if is_found_alone or reader.state.sequence is not None:
        return Selected(name, reader, pool, index, companion)
    if reader.is_gathered:
        return Gathered(name, reader, pool)
    has_room = (decoder.files is None or decoder.traits.decodes_into) and reader.storing is Storing.ARRAY
    if has_room and decoder.dtype is not None and decoder.dtype.kind != "O":
        return Files(name, reader, pool)
    return Decoded(name, reader, pool, reader.decode)


def _is_small(reader: SampleReader, wanted: int) -> bool:
    """Return whether most samples are selected, and the whole tensor takes little memory when decompressed."""
    state = reader.state
    stored = state.table.stored_bytes
    values = state.meta.length
    if reader.dtype is not None:
        values *= reader.dtype.itemsize * math.prod(state.meta.max_shape)
    is_compressed = bool(state.meta.sample_compression or state.meta.chunk_compression)
    size = max(stored * (8 if is_compressed else 1), values)
    total, each = RESIDENT_SMALL
    is_most = wanted * 8 >= state.length
    return size <= RESIDENT_BYTES // (1 if is_most else 16) or (
        is_most and size <= total and size <= each * state.length
    )


def _form(reader: SampleReader, decode: Decode) -> Callable[[Any, Shape | None], Any]:
    if reader.is_link or reader.has_tiles or reader.state.sequence is not None:
        raise InvalidInputError(
            f"tensor {reader.name!r} holds links, tiles or sequences, which are read as values only, not as {decode!r}"
        )
    if decode == "bytes":
        return lambda data, _: bytes(data)
    if reader.decoder.traits.kind != "image" and reader.state.meta.htype not in ("image", "binary_mask"):
        raise InvalidInputError(f"tensor {reader.name!r} holds no images, which 'pil' requires")
    return lambda data, shape: _picture(reader, data, shape)


def _picture(reader: SampleReader, data: Any, shape: Shape | None) -> Any:
    import io

    from PIL import Image

    if reader.decoder.files is None or not len(data):
        array = reader.decode(data, shape)
        if not array.size:
            return array
        return Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)
    reader.decoder.check_facts(data, reader.decoder.shape_of(shape))
    image = Image.open(io.BytesIO(data))
    image.load()
    return image
