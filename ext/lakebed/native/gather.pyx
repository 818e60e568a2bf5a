"""Many arrays put back to back: of one dtype and rank (FORMAT.md 5.3), or of one size. Its oracle is plain NumPy."""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_ND, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

cdef extern from "lakebed/native/stream_copy.h" nogil:
    void stream_copy(uint8_t *out, const uint8_t *source, size_t size)
    void stream_end()

cdef type _ARRAY = np.ndarray


def gather_arrays(list values, object dtype, int ndim):
    """Copy arrays back to back.

    Parameters
    ----------
    values
        Arrays, or None for empty samples.
    dtype, ndim
        What all of them must have.

    Returns
    -------
    The bytes (uint8), the shapes (uint32, shape (samples, ndim)), zeros for None, and the sizes in bytes (uint32).
    None if a value is anything else than a C-contiguous array of that dtype and rank: then nothing was copied.
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
    """Copy samples of one size to neighbouring places.

    Parameters
    ----------
    sources
        For each sample a contiguous buffer that holds it.
    starts
        First byte of each sample in its buffer: int64, shape (samples,).
    out
        Where they go: uint8, shape (samples, bytes).
    streamed
        Write past the cache: for more than it holds, or what is not read soon.

    Raises
    ------
    ValueError
        If there are not as many sources and starts as places, or a sample leaves its buffer; nothing was copied then.
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
