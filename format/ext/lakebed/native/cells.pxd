"""Cells of Arrow arrays: absorbed into hashes, and compared.

    layout        data                      a cell as words below 2**61
    INT64         8 bytes                   2**32 + low half, high half
    UINT64        8 bytes                   the same
    FLOAT64       8 bytes                   the same, of one zero and one NaN
    BOOL          1 bit                     2 or 3
    BYTES         32-bit offsets, bytes     2**32 + length, then 7 bytes each, the last ones filled up with zeros
    WIDE_BYTES    64-bit offsets, bytes     the same
    any           null                      0
    any           a number replaces it      1, then its text like BYTES

The first word determines how many words follow, so different rows of the same columns are different sequences of words.
Data need not be aligned: columns may be views of files.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from lakebed.native.residues cimport absorbed


cdef enum Layout:
    INT64
    UINT64
    FLOAT64
    BOOL
    BYTES
    WIDE_BYTES
    LAYOUTS


cdef struct Cells:
    int layout
    Py_ssize_t rows
    Py_ssize_t offset  # number of cells before the first one, in every buffer
    const uint8_t* validity  # NULL: no nulls
    const uint8_t* offsets  # only for the layouts BYTES and WIDE_BYTES
    const uint8_t* data


cdef struct Span:
    const uint8_t* data
    int64_t size


cdef inline bint is_null(const Cells* cells, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t at = cells.offset + row
    return cells.validity != NULL and not (cells.validity[at >> 3] >> (at & 7)) & 1


cdef inline uint64_t word(const Cells* cells, Py_ssize_t row) noexcept nogil:
    """Return the bits of a number or boolean."""
    cdef Py_ssize_t at = cells.offset + row
    cdef uint64_t bits
    if cells.layout == BOOL:
        return (cells.data[at >> 3] >> (at & 7)) & 1
    memcpy(&bits, cells.data + 8 * at, 8)
    return bits


cdef inline double real(uint64_t bits) noexcept nogil:
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef inline int64_t offset_at(const Cells* cells, Py_ssize_t at) noexcept nogil:
    cdef int32_t narrow
    cdef int64_t wide
    if cells.layout == BYTES:
        memcpy(&narrow, cells.offsets + 4 * at, 4)
        return narrow
    memcpy(&wide, cells.offsets + 8 * at, 8)
    return wide


cdef inline Span span(const Cells* cells, Py_ssize_t row) noexcept nogil:
    """Return the bytes of a text."""
    cdef Span found
    cdef int64_t start = offset_at(cells, cells.offset + row)
    found.data = cells.data + start
    found.size = offset_at(cells, cells.offset + row + 1) - start
    return found


cdef inline uint64_t one_spelling(uint64_t bits) noexcept nogil:
    """Return the bits of a float, the same bits for equal floats and for all NaNs."""
    cdef double value = real(bits)
    if value == 0:
        return 0
    return <uint64_t> 0x7FF8000000000000 if value != value else bits


cdef inline uint64_t up_to_seven(const uint8_t* data, int64_t n) noexcept nogil:
    cdef uint64_t bits = 0
    memcpy(&bits, data, n)
    return bits


cdef inline void absorb(uint64_t* a, uint64_t* b, const uint64_t* at, uint64_t w) noexcept nogil:
    """Add a word to both polynomials."""
    a[0] = absorbed(a[0], at[0], w)
    b[0] = absorbed(b[0], at[1], w)


cdef inline void absorb_span(uint64_t* hash, const uint64_t* points, Span text) noexcept nogil:
    cdef uint64_t a = hash[0], b = hash[1], w
    absorb(&a, &b, points, (<uint64_t> 1 << 32) + <uint64_t> text.size)
    while text.size >= 8:
        memcpy(&w, text.data, 8)
        absorb(&a, &b, points, w & <uint64_t> 0x00FFFFFFFFFFFFFF)
        text.data += 7
        text.size -= 7
    if text.size > 0:
        absorb(&a, &b, points, up_to_seven(text.data, min(text.size, 7)))
    hash[0] = a
    hash[1] = b


cdef inline void absorb_cell(uint64_t* hash, const uint64_t* points, const Cells* cells, Py_ssize_t row) noexcept nogil:
    """Add the words of a cell to the hash of a row."""
    cdef uint64_t bits
    if is_null(cells, row):
        absorb(&hash[0], &hash[1], points, 0)
    elif cells.layout >= BYTES:
        absorb_span(hash, points, span(cells, row))
    elif cells.layout == BOOL:
        absorb(&hash[0], &hash[1], points, 2 + word(cells, row))
    else:
        bits = word(cells, row)
        if cells.layout == FLOAT64:
            bits = one_spelling(bits)
        absorb(&hash[0], &hash[1], points, (<uint64_t> 1 << 32) + <uint32_t> bits)
        absorb(&hash[0], &hash[1], points, bits >> 32)


cdef inline void absorb_number(uint64_t* hash, const uint64_t* points, const Cells* texts, Py_ssize_t row) noexcept nogil:
    """Add the words of a number that replaces a cell."""
    absorb(&hash[0], &hash[1], points, 1)
    absorb_span(hash, points, span(texts, row))


cdef inline int compared(const Cells* left, Py_ssize_t i, const Cells* right, Py_ssize_t j) noexcept nogil:
    """Return -1, 0 or 1: nulls and NaNs are lowest and equal, texts are compared by bytes, that is, by code point."""
    cdef bint no_left = is_null(left, i), no_right = is_null(right, j)
    cdef uint64_t p, q
    cdef Span s, t
    cdef int order
    if left.layout == FLOAT64:
        no_left = no_left or real(word(left, i)) != real(word(left, i))
        no_right = no_right or real(word(right, j)) != real(word(right, j))
    if no_left or no_right:
        return <int> no_right - <int> no_left
    if left.layout >= BYTES:
        s, t = span(left, i), span(right, j)
        order = memcmp(s.data, t.data, <size_t> min(s.size, t.size)) if min(s.size, t.size) else 0
        if order != 0:
            return 1 if order > 0 else -1
        return <int> (s.size > t.size) - <int> (s.size < t.size)
    p, q = word(left, i), word(right, j)
    if left.layout == INT64:
        return <int> (<int64_t> p > <int64_t> q) - <int> (<int64_t> p < <int64_t> q)
    if left.layout == FLOAT64:
        return <int> (real(p) > real(q)) - <int> (real(p) < real(q))
    return <int> (p > q) - <int> (p < q)
