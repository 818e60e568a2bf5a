"""Hot loops over chunks: header emit and parse, row tables, gather, lookup (format.md 4.1, 5.1).

Every function takes typed memoryviews, checks every index against the end of its buffer before it is used, and
loops without the GIL. Tests in unit_tests/lakebed/native compare each function with plain NumPy.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

import numpy as np


# Target of the pointer to an empty buffer, because C forbids NULL even for copies of no bytes.
cdef uint8_t nothing = 0


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, p, 4)
    return value


cdef inline void store_u32(uint8_t* p, uint32_t value) noexcept nogil:
    memcpy(p, &value, 4)


def shape_rows(const uint32_t[:, ::1] shapes):
    """Merge equal neighbours into rows ``[dim0 .. dimN, last]``: uint32, shape (rows, ndim + 1)."""
    cdef Py_ssize_t n = shapes.shape[0], ndim = shapes.shape[1], i, d, r = 0
    cdef size_t width = <size_t> ndim * 4
    cdef const uint32_t* base
    rows = np.empty((n, ndim + 1), dtype=np.uint32)
    if n == 0:
        return rows
    cdef uint32_t[:, ::1] out = rows
    base = &shapes[0, 0] if ndim else NULL
    with nogil:
        for i in range(n):
            if i == n - 1 or (ndim and memcmp(base + i * ndim, base + (i + 1) * ndim, width) != 0):
                for d in range(ndim):
                    out[r, d] = shapes[i, d]
                out[r, ndim] = <uint32_t> i
                r += 1
    return rows[:r]


def position_rows(const uint32_t[::1] sizes):
    """Merge equal neighbouring sizes into rows ``[nbytes, start, last]``: uint32, shape (rows, 3).

    Raises
    ------
    OverflowError
        If the sizes add up to more than a 32-bit position can hold.
    """
    cdef Py_ssize_t n = sizes.shape[0], i, r = 0
    cdef uint64_t start = 0, first = 0
    rows = np.empty((n, 3), dtype=np.uint32)
    cdef uint32_t[:, ::1] out = rows
    with nogil:
        for i in range(n):
            start += sizes[i]
            if i == n - 1 or sizes[i] != sizes[i + 1]:
                if first > <uint64_t> 0xFFFFFFFF:
                    break
                out[r, 0] = sizes[i]
                out[r, 1] = <uint32_t> first
                out[r, 2] = <uint32_t> i
                r += 1
                first = start
    if start > <uint64_t> 0xFFFFFFFF:
        raise OverflowError("a chunk holds at most 4 GiB of data")
    return rows[:r]


def parse_header(const uint8_t[::1] buffer):
    """Find the tables of a chunk: ``(version_end, R, C, shapes_at, B, positions_at, data_at)``.

    All offsets are checked against the end of the buffer; ``data_at`` may equal its length.

    Raises
    ------
    ValueError
        If the buffer is shorter than its counts require.
    """
    cdef uint64_t n = <uint64_t> buffer.shape[0], at, shapes_at, positions_at
    cdef int64_t rows, columns, positions
    if n < 1:
        raise ValueError("the chunk is empty")
    cdef const uint8_t* p = &buffer[0]
    at = 1 + <uint64_t> p[0]
    if n < at + 8:
        raise ValueError(f"{n} bytes end inside the version prefix or the shape counts")
    cdef uint64_t version_end = at
    rows = <int64_t> <int> load_u32(p + at)
    columns = <int64_t> <int> load_u32(p + at + 4)
    if rows < 0 or columns < 0 or columns > 256 or (rows > 0 and columns < 1):
        raise ValueError(f"the shape table has {rows} rows of {columns} columns")
    shapes_at = at + 8
    if <uint64_t> rows * <uint64_t> columns > (n - shapes_at) // 4:
        raise ValueError(f"a shape table of {rows} x {columns} does not fit into {n} bytes")
    at = shapes_at + 4 * <uint64_t> rows * <uint64_t> columns
    if n < at + 4:
        raise ValueError(f"{n} bytes end before the position count")
    positions = <int64_t> <int> load_u32(p + at)
    positions_at = at + 4
    if positions < 0 or <uint64_t> positions > (n - positions_at) // 12:
        raise ValueError(f"a position table of {positions} rows does not fit into {n} bytes")
    return (version_end, rows, columns, shapes_at, positions, positions_at, positions_at + 12 * positions)


def last_column(const uint8_t[::1] buffer, Py_ssize_t at, Py_ssize_t rows, Py_ssize_t columns):
    """Check that the last column of a uint32 table strictly increases; return its last value (-1 when empty).

    Raises
    ------
    ValueError
        If the table extends beyond the buffer, or a value does not exceed the previous value.
    """
    if at < 0 or at > buffer.shape[0] or rows < 0 or columns < 1 or columns > 256:
        raise ValueError("the table leaves the buffer")
    if rows > (buffer.shape[0] - at) // (4 * columns):
        raise ValueError("the table leaves the buffer")
    if rows == 0:
        return -1
    cdef const uint8_t* p = &buffer[0] + at + 4 * (columns - 1)
    cdef int64_t previous = -1, value
    cdef Py_ssize_t r
    cdef bint ok = True
    with nogil:
        for r in range(rows):
            value = load_u32(p + 4 * columns * r)
            if value <= previous:
                ok = False
                break
            previous = value
    if not ok:
        raise ValueError(f"row {r} of a last-seen-index table covers no sample")
    return previous


ctypedef fused offset_t:
    int
    int64_t


cdef Py_ssize_t _expand(const uint8_t* p, Py_ssize_t rows, offset_t* out, Py_ssize_t count,
                        uint64_t data_len) noexcept nogil:
    """Fill count + 1 offsets; return -1, or the number of a damaged row."""
    cdef uint64_t at = 0, nbytes
    cdef Py_ssize_t r, i = 0, last
    out[0] = 0
    for r in range(rows):
        nbytes = load_u32(p + 12 * r)
        if load_u32(p + 12 * r + 4) != <uint32_t> at:
            return r
        last = load_u32(p + 12 * r + 8)
        if last >= count or last < i:
            return r
        if <uint64_t> (last - i + 1) * nbytes > data_len - at:
            return r
        while i <= last:
            at += nbytes
            i += 1
            out[i] = <offset_t> at
    while i < count:
        i += 1
        out[i] = <offset_t> at
    return -1


def expand_positions(const uint8_t[::1] buffer, Py_ssize_t at, Py_ssize_t rows, Py_ssize_t count,
                     uint64_t data_len, offset_t[::1] out):
    """Turn position rows into ``count + 1`` offsets; samples beyond the last row are empty.

    Raises
    ------
    ValueError
        If a row is out of order, leaves a gap, or points beyond ``data_len`` bytes of data.
    """
    if at < 0 or at > buffer.shape[0] or rows < 0 or rows > (buffer.shape[0] - at) // 12:
        raise ValueError("the position table leaves the buffer")
    if count < 0 or out.shape[0] - 1 != count:
        raise ValueError("the offsets need one place more than there are samples")
    if offset_t is int and data_len > <uint64_t> 0x7FFFFFFF:
        raise ValueError("32-bit offsets hold at most 2 GiB")
    cdef Py_ssize_t bad
    cdef const uint8_t* p = &buffer[0] if buffer.shape[0] else &nothing
    with nogil:
        bad = _expand(p + at, rows, &out[0], count, data_len)
    if bad >= 0:
        raise ValueError(f"byte position row {bad} points outside the data or leaves a gap")


def gather_fixed(const uint8_t[::1] source, Py_ssize_t item, const int64_t[::1] rows, uint8_t[::1] out):
    """Copy items of ``item`` bytes at the given row numbers into ``out``, back to back.

    Raises
    ------
    IndexError
        If a row lies outside the source or ``out`` is too short.
    """
    cdef Py_ssize_t n = rows.shape[0], i, count
    cdef int64_t row = 0
    cdef bint ok = True
    if item <= 0 or n == 0:
        return
    if n > out.shape[0] // item:
        raise IndexError("the destination is too short")
    count = source.shape[0] // item
    cdef uint8_t* q = &out[0]
    cdef const uint8_t* p = &source[0] if count else &nothing
    with nogil:
        if item == 8:
            for i in range(n):
                row = rows[i]
                if row < 0 or row >= count:
                    ok = False
                    break
                memcpy(q + 8 * i, p + 8 * row, 8)
        else:
            for i in range(n):
                row = rows[i]
                if row < 0 or row >= count:
                    ok = False
                    break
                memcpy(q + item * i, p + item * row, item)
    if not ok:
        raise IndexError(f"row {row} lies outside the {count} rows of the chunk")


def gather_variable(const uint8_t[::1] source, const int64_t[::1] offsets, const int64_t[::1] rows,
                    uint8_t[::1] out):
    """Copy variable-length items at the given row numbers into ``out``, back to back; return the number of bytes.

    Raises
    ------
    IndexError
        If a row or an offset lies outside the source or ``out`` is too short.
    """
    cdef Py_ssize_t n = rows.shape[0], i, count = offsets.shape[0] - 1
    cdef int64_t at = 0, row, start, stop, room = out.shape[0], length = source.shape[0]
    cdef bint ok = True
    if n == 0:
        return 0
    cdef uint8_t* q = &out[0] if room else &nothing
    cdef const uint8_t* p = &source[0] if length else &nothing
    with nogil:
        for i in range(n):
            row = rows[i]
            if row < 0 or row >= count:
                ok = False
                break
            start = offsets[row]
            stop = offsets[row + 1]
            if start < 0 or stop < start or stop > length or stop - start > room - at:
                ok = False
                break
            memcpy(q + at, p + start, <size_t> (stop - start))
            at += stop - start
    if not ok:
        raise IndexError(f"item {i} of the selection lies outside its buffers")
    return at


def fill_variable(const uint8_t[::1] source, const int64_t[::1] offsets, const uint8_t[::1] gone,
                  const uint8_t[::1] filler, uint8_t[::1] out):
    """Copy variable-length items into ``out``, back to back; items with a nonzero ``gone`` become ``filler``.

    Returns
    -------
    The number of bytes written.

    Raises
    ------
    IndexError
        If an offset lies outside the source or ``out`` is too short.
    """
    cdef Py_ssize_t n = gone.shape[0], i, width = filler.shape[0]
    cdef int64_t at = 0, start, stop, room = out.shape[0], length = source.shape[0]
    cdef bint ok = offsets.shape[0] == n + 1
    cdef uint8_t* q = &out[0] if room else &nothing
    cdef const uint8_t* p = &source[0] if length else &nothing
    cdef const uint8_t* f = &filler[0] if width else &nothing
    if ok:
        with nogil:
            for i in range(n):
                if gone[i]:
                    if width > room - at:
                        ok = False
                        break
                    memcpy(q + at, f, width)
                    at += width
                    continue
                start = offsets[i]
                stop = offsets[i + 1]
                if start < 0 or stop < start or stop > length or stop - start > room - at:
                    ok = False
                    break
                memcpy(q + at, p + start, <size_t> (stop - start))
                at += stop - start
    if not ok:
        raise IndexError("an item lies outside its buffers")
    return at


def scatter_fixed(const uint8_t[::1] source, Py_ssize_t item, const uint8_t[::1] present, uint8_t[::1] out):
    """Spread packed items over the slots where ``present`` is non-zero; the other slots become zero.

    Raises
    ------
    IndexError
        If the source does not hold exactly one item for each present slot, or ``out`` is too short.
    """
    cdef Py_ssize_t n = present.shape[0], i, taken = 0
    cdef Py_ssize_t count = source.shape[0] // item if item > 0 else 0
    if item <= 0 or n == 0:
        return
    if n > out.shape[0] // item:
        raise IndexError("the destination is too short")
    cdef uint8_t* q = &out[0]
    cdef const uint8_t* p = &source[0] if count else &nothing
    cdef Py_ssize_t b
    with nogil:
        for i in range(n):
            if present[i]:
                if taken < count:
                    memcpy(q + item * i, p + item * taken, item)
                taken += 1
            else:
                for b in range(item):
                    q[item * i + b] = 0
    if taken != count:
        raise IndexError(f"{taken} slots are present but the data holds {count} items")


def locate_rows(const uint64_t[::1] last, const int64_t[::1] rows, int64_t[::1] ordinal, int64_t[::1] local):
    """Find for each row the first table entry with ``last >= row`` and the row's position in it (format.md 4.1).

    Rows that follow each other are found without a new search, so a scan costs one comparison per row.

    Raises
    ------
    IndexError
        If a row is negative or beyond the table.
    """
    cdef Py_ssize_t n = rows.shape[0], m = last.shape[0], i, low, high, middle
    cdef Py_ssize_t at = 0
    cdef uint64_t row, first = 0
    cdef bint ok = True
    if ordinal.shape[0] < n or local.shape[0] < n:
        raise IndexError("the destination is too short")
    with nogil:
        for i in range(n):
            if rows[i] < 0 or m == 0 or <uint64_t> rows[i] > last[m - 1]:
                ok = False
                break
            row = <uint64_t> rows[i]
            if row < first or row > last[at]:
                low = 0
                high = m - 1
                while low < high:
                    middle = (low + high) // 2
                    if last[middle] < row:
                        low = middle + 1
                    else:
                        high = middle
                at = low
                first = last[at - 1] + 1 if at else 0
            ordinal[i] = at
            local[i] = <int64_t> (row - first)
    if not ok:
        raise IndexError(f"row {rows[i]} is out of range")
