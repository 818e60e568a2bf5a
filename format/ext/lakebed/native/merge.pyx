"""Replacement of samples of a chunk: the loops of bulk updates and removals (format.md 5.1).

Every function checks each row and each offset against the end of its buffer before it is used, and loops without the
GIL. Tests in unit_tests/lakebed/native/test_merge.py compare with plain Python.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memcpy


# Target of the pointer to an empty buffer, because C forbids NULL even for copies of no bytes.
cdef uint8_t nothing = 0


def same_fixed(const uint8_t[::1] source, Py_ssize_t item, const int64_t[::1] rows, const uint8_t[::1] new):
    """Tell whether the items at the rows, each of ``item`` bytes, equal the items of ``new``, one for each row.

    Raises
    ------
    IndexError
        If a row lies outside the source or ``new`` is too short.
    """
    cdef Py_ssize_t n = rows.shape[0], i, count
    cdef int64_t row = 0
    cdef bint ok = True, same = True
    if item <= 0 or n == 0:
        return True
    if n > new.shape[0] // item:
        raise IndexError("there are fewer new items than rows")
    count = source.shape[0] // item
    cdef const uint8_t* p = &source[0] if count else &nothing
    cdef const uint8_t* q = &new[0]
    with nogil:
        for i in range(n):
            row = rows[i]
            if row < 0 or row >= count:
                ok = False
                break
            if memcmp(p + item * row, q + item * i, <size_t> item) != 0:
                same = False
                break
    if not ok:
        raise IndexError(f"row {row} lies outside the {count} rows of the chunk")
    return same


def put_fixed(uint8_t[::1] out, Py_ssize_t item, const int64_t[::1] rows, const uint8_t[::1] new):
    """Overwrite the items at the rows, each of ``item`` bytes, by the items of ``new``.

    Raises
    ------
    IndexError
        If a row lies outside ``out`` or ``new`` is too short.
    """
    cdef Py_ssize_t n = rows.shape[0], i, count
    cdef int64_t row = 0
    cdef bint ok = True
    if item <= 0 or n == 0:
        return
    if n > new.shape[0] // item:
        raise IndexError("there are fewer new items than rows")
    count = out.shape[0] // item
    cdef uint8_t* p = &out[0] if count else &nothing
    cdef const uint8_t* q = &new[0]
    with nogil:
        if item == 8:
            for i in range(n):
                row = rows[i]
                if row < 0 or row >= count:
                    ok = False
                    break
                memcpy(p + 8 * row, q + 8 * i, 8)
        else:
            for i in range(n):
                row = rows[i]
                if row < 0 or row >= count:
                    ok = False
                    break
                memcpy(p + item * row, q + item * i, <size_t> item)
    if not ok:
        raise IndexError(f"row {row} lies outside the {count} rows of the chunk")


def same_items(const uint8_t[::1] source, const int64_t[::1] offsets, const int64_t[::1] rows,
               const uint8_t[::1] new, const int64_t[::1] new_offsets):
    """Tell whether the variable-length items at the rows equal the items of ``new``, one for each row.

    Raises
    ------
    IndexError
        If a row or an offset lies outside its buffer.
    """
    cdef Py_ssize_t n = rows.shape[0], i, count = offsets.shape[0] - 1
    cdef int64_t row, start, stop, first, last, length = source.shape[0], room = new.shape[0]
    cdef bint ok = new_offsets.shape[0] == n + 1, same = True
    cdef const uint8_t* p = &source[0] if length else &nothing
    cdef const uint8_t* q = &new[0] if room else &nothing
    if ok:
        with nogil:
            for i in range(n):
                row = rows[i]
                if row < 0 or row >= count:
                    ok = False
                    break
                start, stop = offsets[row], offsets[row + 1]
                first, last = new_offsets[i], new_offsets[i + 1]
                if start < 0 or stop < start or stop > length or first < 0 or last < first or last > room:
                    ok = False
                    break
                if stop - start != last - first or memcmp(p + start, q + first, <size_t> (stop - start)) != 0:
                    same = False
                    break
    if not ok:
        raise IndexError("an item lies outside its buffers")
    return same


def replace_items(const uint8_t[::1] source, const int64_t[::1] offsets, const int64_t[::1] rows,
                  const uint8_t[::1] new, const int64_t[::1] new_offsets, uint8_t[::1] out):
    """Copy variable-length items into ``out``, back to back; the items at the rows are replaced by those of ``new``.

    Parameters
    ----------
    rows
        Ascending, each once.

    Returns
    -------
    The number of bytes written.

    Raises
    ------
    IndexError
        If the rows do not ascend, a row or an offset lies outside its buffer, or ``out`` is too short.
    """
    cdef Py_ssize_t n = rows.shape[0], i, count = offsets.shape[0] - 1
    cdef int64_t at = 0, row, done = 0, start, stop, first, last
    cdef int64_t length = source.shape[0], more = new.shape[0], room = out.shape[0]
    cdef bint ok = count >= 0 and new_offsets.shape[0] == n + 1
    cdef const uint8_t* p = &source[0] if length else &nothing
    cdef const uint8_t* q = &new[0] if more else &nothing
    cdef uint8_t* o = &out[0] if room else &nothing
    if ok:
        with nogil:
            for i in range(n + 1):
                row = rows[i] if i < n else count
                if row < done or row > count or (i < n and row == count):
                    ok = False
                    break
                # Copy the items between the previous row and this row together.
                start, stop = offsets[done], offsets[row]
                if start < 0 or stop < start or stop > length or stop - start > room - at:
                    ok = False
                    break
                memcpy(o + at, p + start, <size_t> (stop - start))
                at += stop - start
                if i == n:
                    break
                first, last = new_offsets[i], new_offsets[i + 1]
                if first < 0 or last < first or last > more or last - first > room - at:
                    ok = False
                    break
                memcpy(o + at, q + first, <size_t> (last - first))
                at += last - first
                done = row + 1
    if not ok:
        raise IndexError("the rows do not ascend, or an item lies outside its buffers")
    return at
