"""Many arrays copied back to back: of one dtype and rank (format.md 5.3), or of one size. Tests compare with NumPy."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_ND, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

cdef extern from "lakebed/native/stream_copy.h" nogil:
    void stream_copy(uint8_t *out, const uint8_t *source, size_t size)
    void steady_copy(uint8_t *out, const uint8_t *source, size_t size)
    void stream_end()
    void prefetch_line(const uint8_t *place)

cdef type _ARRAY = np.ndarray


def gather_arrays(list values, object dtype, int ndim):
    """Copy arrays back to back.

    Parameters
    ----------
    values
        Arrays, or None for empty samples.
    dtype, ndim
        Required dtype and rank of all arrays.

    Returns
    -------
    The bytes (uint8), the shapes (uint32, shape (samples, ndim)), zeros for None, and the sizes in bytes (uint32).
    None, without a copy, if a value is neither None nor a C-contiguous array of that dtype and rank.
    """
    cdef Py_ssize_t n = len(values), i
    cdef int64_t total = 0
    cdef int d
    cdef bint ok = True
    cdef object value
    cdef Py_buffer* views
    if n == 0 or ndim < 1:
        return None
    shapes = np.zeros((n, ndim), dtype=np.uint32)
    sizes = np.zeros(n, dtype=np.uint32)
    cdef uint32_t[:, ::1] extents = shapes
    cdef uint32_t[::1] lengths = sizes
    views = <Py_buffer*> calloc(n, sizeof(Py_buffer))
    if views == NULL:
        raise MemoryError()
    try:
        for i in range(n):
            value = values[i]
            if value is None:
                continue
            if type(value) is not _ARRAY or (value.dtype is not dtype and value.dtype != dtype):
                ok = False
                break
            try:
                PyObject_GetBuffer(value, &views[i], PyBUF_ND | PyBUF_C_CONTIGUOUS)
            except (BufferError, ValueError):
                ok = False
                break
            if views[i].ndim != ndim or views[i].len > 0xFFFFFFFF:
                ok = False
                break
            for d in range(ndim):
                if views[i].shape[d] > 0xFFFFFFFF:
                    ok = False
                extents[i, d] = <uint32_t> views[i].shape[d]
            lengths[i] = <uint32_t> views[i].len
            total += views[i].len
        if not ok:
            return None
        data = np.empty(total, dtype=np.uint8)
        if total:
            _copy(views, n, data)
        return data, shapes, sizes
    finally:
        # Releasing a buffer that was never taken does nothing.
        for i in range(n):
            PyBuffer_Release(&views[i])
        free(views)


cdef void _copy(Py_buffer* views, Py_ssize_t n, uint8_t[::1] out):
    cdef Py_ssize_t i, at = 0
    with nogil:
        for i in range(n):
            if views[i].len:
                memcpy(&out[at], views[i].buf, <size_t> views[i].len)
                at += views[i].len


def copy_samples(list sources, const int64_t[::1] starts, uint8_t[:, ::1] out, bint streamed):
    """Copy samples of one size to the rows of an array.

    Parameters
    ----------
    sources
        For each sample a contiguous buffer that contains it.
    starts
        First byte of each sample in its buffer: int64, shape (samples,).
    out
        Target: uint8, shape (samples, bytes).
    streamed
        Bypass the processor's cache: for samples that are larger than the cache, or are not read soon.

    Raises
    ------
    ValueError
        If the numbers of sources, starts and rows differ, or a sample extends beyond its buffer; nothing was copied.
    """
    cdef Py_ssize_t n = out.shape[0], size = out.shape[1], i
    cdef Py_buffer* views
    cdef const uint8_t* source
    if len(sources) != n or starts.shape[0] != n:
        raise ValueError(f"{len(sources)} sources and {starts.shape[0]} starts for {n} samples")
    if n == 0 or size == 0:
        return
    views = <Py_buffer*> calloc(n, sizeof(Py_buffer))
    if views == NULL:
        raise MemoryError()
    try:
        for i in range(n):
            PyObject_GetBuffer(sources[i], &views[i], PyBUF_SIMPLE)
            if starts[i] < 0 or size > views[i].len or starts[i] > views[i].len - size:
                raise ValueError(
                    f"sample {i} of {size} bytes begins at {starts[i]}, its buffer has {views[i].len}"
                )
        with nogil:
            for i in range(n):
                source = <const uint8_t*> views[i].buf + starts[i]
                if streamed:
                    stream_copy(&out[i, 0], source, <size_t> size)
                else:
                    memcpy(&out[i, 0], source, <size_t> size)
            if streamed:
                stream_end()
    finally:
        for i in range(n):
            PyBuffer_Release(&views[i])
        free(views)


def copy_bytes(uint8_t[::1] out, source):
    """Copy all bytes of a contiguous buffer to the start of another, through the processor's cache.

    NumPy's own copies take up to seven times as long if the target is a few bytes beyond the source, modulo 4096.

    Raises
    ------
    ValueError
        If the target is shorter; nothing was copied.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
    try:
        if view.len > out.shape[0]:
            raise ValueError(f"{view.len} bytes do not fit into {out.shape[0]}")
        if view.len:
            with nogil:
                steady_copy(&out[0], <const uint8_t*> view.buf, <size_t> view.len)
    finally:
        PyBuffer_Release(&view)


# Before the first of some rows is copied, AHEAD rows are located, and LINES_AHEAD cache lines of each are prefetched.
cdef enum:
    AHEAD = 32
    LINES_AHEAD = 8


@cython.auto_pickle(False)
cdef class RowSources:
    """Locations of the rows of a tensor whose samples all have one size: buffers of chunks, and their verified blocks.

    Parameters
    ----------
    last
        Last row of each chunk: uint64, shape (chunks,).
    item
        Number of bytes of a sample, at least 1.
    block
        Number of bytes that one checksum covers.

    Raises
    ------
    ValueError
        If the last rows decrease, or samples or blocks have no bytes.
    """

    cdef const uint64_t[::1] last
    cdef Py_ssize_t item, block, count
    cdef Py_buffer* data
    cdef Py_buffer* seen
    cdef Py_ssize_t* start

    def __cinit__(self, const uint64_t[::1] last, Py_ssize_t item, Py_ssize_t block):
        if item < 1 or block < 1:
            raise ValueError(f"samples of {item} bytes, blocks of {block}")
        cdef Py_ssize_t i
        for i in range(1, last.shape[0]):
            if last[i] < last[i - 1]:
                raise ValueError(f"the last row of chunk {i} is less than that of the previous chunk")
        self.last, self.item, self.block, self.count = last, item, block, last.shape[0]
        self.data = <Py_buffer*> calloc(self.count + 1, sizeof(Py_buffer))
        self.seen = <Py_buffer*> calloc(self.count + 1, sizeof(Py_buffer))
        self.start = <Py_ssize_t*> calloc(self.count + 1, sizeof(Py_ssize_t))
        if self.data == NULL or self.seen == NULL or self.start == NULL:
            raise MemoryError()
        for i in range(self.count):
            self.start[i] = -1  # the chunk was not added

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.data != NULL and self.seen != NULL:
            # Releasing a buffer that was never taken does nothing.
            for i in range(self.count):
                PyBuffer_Release(&self.data[i])
                PyBuffer_Release(&self.seen[i])
        free(self.data)
        free(self.seen)
        free(self.start)

    def has(self, Py_ssize_t chunk):
        """Return whether a chunk was added."""
        return 0 <= chunk < self.count and self.start[chunk] >= 0

    def put(self, Py_ssize_t chunk, object data, Py_ssize_t start, object seen):
        """Add the file of a chunk, whose samples begin at byte ``start``.

        Parameters
        ----------
        seen
            One byte per block, nonzero if the block is verified; empty if blocks need not be verified.

        Raises
        ------
        ValueError
            If the chunk does not exist or was added before, or its samples extend beyond the buffer.
        """
        cdef Py_buffer found, blocks
        cdef uint64_t rows
        if not 0 <= chunk < self.count or self.start[chunk] >= 0:
            raise ValueError(f"chunk {chunk} of {self.count} does not exist, or was added before")
        rows = self.last[chunk] + 1 if chunk == 0 else self.last[chunk] - self.last[chunk - 1]
        PyObject_GetBuffer(data, &found, PyBUF_SIMPLE)
        try:
            if start < 0 or start > found.len or rows > <uint64_t> ((found.len - start) // self.item):
                raise ValueError(f"{rows} samples of {self.item} bytes leave a file of {found.len}")
            PyObject_GetBuffer(seen, &blocks, PyBUF_SIMPLE)
            if blocks.len and blocks.len < (found.len + self.block - 1) // self.block:
                PyBuffer_Release(&blocks)
                raise ValueError(f"{blocks.len} blocks of {self.block} bytes are less than {found.len}")
        except BaseException:
            PyBuffer_Release(&found)
            raise
        self.data[chunk], self.seen[chunk], self.start[chunk] = found, blocks, start

    def take(self, const int64_t[::1] rows, uint8_t[::1] out, Py_ssize_t done):
        """Copy samples into ``out``, back to back, up to the first whose chunk is missing or whose block is unverified.

        Parameters
        ----------
        done
            Number of samples that were copied by earlier calls.

        Returns
        -------
        The number of samples copied so far; if some remain, the caller adds or verifies the chunk of the next sample.

        Raises
        ------
        IndexError
            If a row is not in the tensor, or ``out`` is too short.
        """
        cdef Py_ssize_t n = rows.shape[0], item = self.item, i = done, k, ready, bad = -1
        cdef uint8_t* target = &out[0] if out.shape[0] else NULL
        cdef const uint8_t* places[AHEAD]
        if done < 0 or n > out.shape[0] // item:
            raise IndexError("the destination is too short")
        with nogil:
            while i < n:
                ready = 0
                while ready < AHEAD and i + ready < n:
                    if rows[i + ready] < 0 or not self.count or <uint64_t> rows[i + ready] > self.last[self.count - 1]:
                        bad = i + ready
                        break
                    places[ready] = self._find(<uint64_t> rows[i + ready])
                    if places[ready] == NULL:
                        break
                    for k in range(0, min(item, 64 * LINES_AHEAD), 64):
                        prefetch_line(places[ready] + k)
                    ready += 1
                for k in range(ready):
                    memcpy(target + (i + k) * item, places[k], <size_t> item)
                i += ready
                if bad >= 0 or (i < n and ready < AHEAD):
                    break
        if bad >= 0:
            raise IndexError(f"row {rows[bad]} is out of range")
        return i

    cdef const uint8_t* _find(self, uint64_t row) noexcept nogil:
        """Return the address of a row of the tensor; NULL if its chunk is missing or its block is unverified."""
        cdef Py_ssize_t low = 0, size = self.count, half, start, block
        cdef const uint8_t* seen
        while size > 1:
            half = size // 2
            low += half if self.last[low + half - 1] < row else 0
            size -= half
        if self.start[low] < 0:
            return NULL
        start = self.start[low] + self.item * <Py_ssize_t> (row - (self.last[low - 1] + 1 if low else 0))
        if self.seen[low].len:
            seen = <const uint8_t*> self.seen[low].buf
            for block in range(start // self.block, (start + self.item - 1) // self.block + 1):
                if not seen[block]:
                    return NULL
        return <const uint8_t*> self.data[low].buf + start
