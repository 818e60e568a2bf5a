"""Large arrays that are appended one at a time are written to the file of their chunk before the chunk is full.

`append` has to copy its argument, which the caller may change. Eight megabytes of copies, those of one chunk, have left
the processor's cache by the time the chunk is packed. So the copies go into a buffer of one step. When the buffer is
full, its bytes enter the checksums of the file's blocks, and are written to a file without a name, at their place in
the chunk. A full chunk needs only a name. Nothing is read or written twice.

If the samples must be encoded before their chunk is full, they are read back and packed like all other samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.chunks.pack import POSITION_ROW, even_header, header_of
from lakebed.documents.manifest import BLOCK
from lakebed.errors import StorageError
from lakebed.native import gather as native
from lakebed.writing.replace_samples import fresh, placed

if TYPE_CHECKING:
    from lakebed.documents.tensor_meta import TensorMeta
    from lakebed.storage.files.early_files import EarlyFile
    from lakebed.writing.pending import Blocks

STEP = 1 << 20
"""Bytes written by one call; they fit into the second-level cache of a processor."""

MOST = 8
"""Maximum number of full chunks that wait for names: naming several chunks takes as long as naming one."""

xxh3 = xxhash.xxh3_64_intdigest

Begin = Callable[[int], "EarlyFile | None"]
"""Creates a file without a name for about `size` bytes; None if the storage does not support it."""


class Target(Protocol):
    """The tensor that gets the samples."""

    pending: Blocks

    @property
    def meta(self) -> TensorMeta: ...

    @property
    def chunk_limit(self) -> int: ...


class EarlyChunk:
    """A chunk under construction: samples of one shape, in a file except for the last step.

    Parameters
    ----------
    file
        The file, of this chunk alone.
    buffer
        The step that is being filled: uint8, shape (STEP,), aligned to a page. The next chunk may use the buffer once
        this chunk is settled.
    dtype, shape
        Dtype and shape of every sample.
    capacity
        Number of samples of the full chunk.

    Attributes
    ----------
    count
        Number of samples so far.
    sums
        The xxh3-64 of each sample.
    """

    __slots__ = (
        "_at",
        "_blocks",
        "_buffer",
        "_header",
        "_in_block",
        "_is_whole",
        "_size",
        "_state",
        "_written",
        "capacity",
        "count",
        "dtype",
        "file",
        "shape",
        "sums",
    )

    def __init__(
        self,
        file: EarlyFile,
        buffer: NDArray[np.uint8],
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        capacity: int,
    ) -> None:
        self.file, self.dtype, self.shape, self.capacity = file, dtype, shape, capacity
        self.count = 0
        self.sums: list[int] = []
        self._size = int(np.prod(shape)) * dtype.itemsize
        self._header = header_of(shape, self._size, capacity)
        self._buffer = buffer
        self._at = len(self._header)
        buffer[: self._at] = np.frombuffer(self._header, np.uint8)
        # End of the written part of the file. The bytes from here to `_at` are in the buffer, at their offset within
        # the current step of the file.
        self._written = 0
        self._blocks: list[int] = []
        self._state, self._in_block = xxhash.xxh3_64(), 0
        self._is_whole = True

    @property
    def is_full(self) -> bool:
        """Return whether the chunk has all of its samples."""
        return self.count == self.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of the file, so far."""
        return self._at

    @property
    def blocks(self) -> list[int]:
        """The xxh3-64 of each block of the file of a chunk that is full and settled."""
        if self._in_block:
            self._end_block()
        return self._blocks

    @property
    def nbytes_of_sample(self) -> int:
        """Bytes of each sample."""
        return self._size

    def put(self, value: NDArray[Any]) -> EarlySample | None:
        """Copy a contiguous sample into the file; if that fails, return None, and refuse further samples."""
        if not self._is_whole:
            return None
        self._is_whole = False  # an error or an interrupt may end this method halfway
        source, total, done = value.reshape(-1).view(np.uint8), xxhash.xxh3_64(), 0
        at, size, buffer = self._at, self._size, self._buffer
        while done < size:
            first = at % STEP
            length = min(STEP - first, size - done)
            copy = buffer[first : first + length]
            native.copy_bytes(copy, source[done : done + length])
            total.update(copy.data)  # sum the copy, because another thread may change the source
            at, done = at + length, done + length
            if first + length == STEP:
                try:
                    self._write(STEP)
                except StorageError:
                    return None  # ordinary writing then raises the same error
        self.sums.append(total.intdigest())
        self._at, self.count = at, self.count + 1
        self._is_whole = True
        return EarlySample(self, self.count - 1)

    def _write(self, length: int) -> None:
        """Write the first bytes of the buffer, which follow the end of the file."""
        step = self._buffer[:length].data
        self.file.write(self._written, step)
        self._sum(step)
        self._written += length

    def _sum(self, step: memoryview) -> None:
        """Add the next bytes of the file to the checksums of its blocks."""
        while step:
            part = step[: BLOCK - self._in_block]
            self._state.update(part)
            self._in_block += len(part)
            step = step[len(part) :]
            if self._in_block == BLOCK:
                self._end_block()

    def _end_block(self) -> None:
        self._blocks.append(self._state.intdigest())
        self._state.reset()
        self._in_block = 0

    @property
    def is_settled(self) -> bool:
        """Return whether the whole chunk is in the file."""
        return self._written >= self._at

    def is_chunk(self, samples: Sequence[object]) -> bool:
        """Return whether these are all samples of the full chunk, in order, and all bytes are in the file."""
        if not (self._is_whole and self.is_full and self.file.is_mine and len(samples) == self.capacity):
            return False
        return all(
            type(sample) is EarlySample and sample.chunk is self and sample.number == number
            for number, sample in enumerate(samples)
        )

    def settle(self) -> None:
        """Write the buffer of a chunk that is full.

        Raises
        ------
        StorageError
            If the storage fails.
        """
        if not self.is_settled:
            self._is_whole = False  # an error or a Ctrl-C may come at any point below
            self._write(self._at - self._written)
            self._is_whole = True

    def samples(self) -> list[NDArray[Any]]:
        """Return all samples of a chunk that is full, as arrays in its memory-mapped file.

        Raises
        ------
        StorageError
            If the storage fails.
        """
        self.settle()
        rows = np.frombuffer(self.file.map(self._at), np.uint8, offset=len(self._header))
        return list(rows.view(self.dtype).reshape(self.count, *self.shape))

    def read(self, number: int) -> NDArray[Any]:
        """Return a copy of a sample.

        Raises
        ------
        StorageError
            If the storage fails, or does not hold what was written.
        """
        start = len(self._header) + number * self._size
        end = start + self._size
        cut = min(max(start, self._written), end)
        data = self.file.read(start, cut - start)
        if cut < end:
            data += self._buffer[cut % STEP : (end - 1) % STEP + 1].data
        if xxh3(data) != self.sums[number]:
            raise StorageError(
                "unpublished samples were read back with other bytes than were written: the disk is failing, and the "
                "samples are lost; discard the unpublished changes and append them again, on a disk that works"
            )
        return np.frombuffer(data, np.uint8).view(self.dtype).reshape(self.shape)

    def pieces(self) -> tuple[bytes | memoryview, ...]:
        """Return the content of the file of a chunk that is full; errors as in `samples`."""
        return (self.file.map(self.nbytes),)


class EarlySample:
    """A sample of an early chunk.

    Parameters
    ----------
    chunk
        The chunk.
    number
        Number of the sample in the chunk.
    """

    __slots__ = ("chunk", "number")

    def __init__(self, chunk: EarlyChunk, number: int) -> None:
        self.chunk, self.number = chunk, number

    def read(self) -> NDArray[Any]:
        """Return a copy of the sample; errors as in `EarlyChunk.read`."""
        return self.chunk.read(self.number)


class EarlyChunks:
    """The early chunks of one tensor, one after the other.

    An early chunk never continues a chunk that was begun in memory: if encoded samples already wait for their chunk,
    the next arrays wait in memory until that chunk is full.

    Parameters
    ----------
    begin
        Makes the files.
    """

    __slots__ = ("_begin", "_buffer", "_chunk", "_full", "_left", "_missed", "_shape")

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._missed = False
        self._buffer: NDArray[np.uint8] | None = None
        self._chunk: EarlyChunk | None = None
        self._shape: tuple[int, ...] | None = None
        self._full = 0  # number of full chunks that have no name yet
        self._left = 0  # number of samples that should still wait in memory; if negative, no limit

    def is_due(self, *, soon: bool) -> bool:
        """Return whether to encode the samples now: they complete a chunk that began in memory, or fill several chunks.

        Parameters
        ----------
        soon
            True if the samples must be encoded soon for another reason, which is cheaper at the end of a chunk than in
            its middle.
        """
        chunk = self._chunk
        if chunk is None:
            return self._left == 0 and self._shape is not None
        return self._full >= MOST or (soon and chunk.is_full)

    def take(self, value: NDArray[Any], tensor: Target) -> EarlySample | None:
        """Take a contiguous array that fits a tensor; None if it has to wait in memory."""
        if self._shape is None:
            self._start(value, tensor)
        if value.shape != self._shape:
            self._leave()
        chunk = self._chunk
        if chunk is None:
            self._left -= 1
            return None
        if chunk.is_full:
            if not chunk.is_settled:  # a Ctrl-C came before the chunk was settled
                self._leave()
                return None
            chunk = self._chunk = self._new(value, chunk.capacity)
            if chunk is None:
                self._left = -1
                return None
        kept = chunk.put(value) if chunk.file.is_mine else None
        if kept is None:
            self._leave()
        elif chunk.is_full:
            self._full += 1
            try:
                chunk.settle()
            except StorageError:  # ordinary writing of its samples then raises the same error
                self._leave()
        return kept

    def _start(self, value: NDArray[Any], tensor: Target) -> None:
        """Begin a chunk file, or let samples wait in memory until they complete the chunk that began there."""
        self._shape, self._left = value.shape, -1
        low, high = tensor.meta.min_shape, tensor.meta.max_shape
        if self._missed or tuple(low) != value.shape or tuple(high) != value.shape:
            return  # if shapes differ, the length of the header is not known in advance
        limit, waiting = tensor.chunk_limit, tensor.pending.nbytes
        cost = value.nbytes + POSITION_ROW  # count like the code that cuts chunks
        rest, whole = (limit - waiting) // cost, limit // cost
        if waiting and rest > 0:
            self._left = rest
        elif whole > 1 and whole * value.nbytes >= STEP >= even_header(value.ndim):
            self._chunk = self._new(value, whole)

    def _new(self, value: NDArray[Any], capacity: int) -> EarlyChunk | None:
        """Begin a chunk for samples like this one; None if the storage does not support it now."""
        file = self._begin(even_header(value.ndim) + capacity * value.nbytes)
        if file is None:
            return None
        if self._buffer is None:
            # `fresh` memory is not shared with forked children: see `settle`.
            self._buffer = placed(STEP, 0, fresh)
        return EarlyChunk(file, self._buffer, value.dtype, value.shape, capacity)

    def _leave(self) -> None:
        """Write no more samples to the chunk file, so that later samples wait in memory.

        Samples of an incomplete chunk stay in its file and, the last of them, in its buffer; a later chunk gets another
        buffer.
        """
        if self._chunk is not None and not (self._chunk.is_full and self._chunk.is_settled):
            self._missed, self._buffer = True, None
        self._chunk, self._left = None, -1

    def clear(self) -> None:
        """Start over, because the waiting samples are being encoded.

        After an interruption in the middle of a chunk, whose bytes were written in vain, no other early chunk is begun.
        """
        self._leave()
        self._shape, self._full, self._left = None, 0, 0
