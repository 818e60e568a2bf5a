"""Records of TFRecord files: their checksums (CRC-32C, RFC 3720, appendix B.4), and where records start.

    8     length of the data, little-endian
    4     masked checksum of these eight bytes
    n     data
    4     masked checksum of the data

Eight bytes are taken at a time, by eight tables. Python's lock is released where data takes longer than that.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

cdef enum:
    HEADER = 12
    AROUND = 16     # bytes of a record that are not its data

# Bytes below which the lock is kept.
cdef Py_ssize_t SMALL = 1 << 12

cdef uint32_t TABLE[8][256]


cdef void prepare() noexcept nogil:
    cdef uint32_t value
    cdef int byte, bit, at
    for byte in range(256):
        value = <uint32_t> byte
        for bit in range(8):
            value = (value >> 1) ^ (<uint32_t> 0x82F63B78 if value & 1 else <uint32_t> 0)
        TABLE[0][byte] = value
    for byte in range(256):
        value = TABLE[0][byte]
        for at in range(1, 8):
            value = (value >> 8) ^ TABLE[0][value & 0xFF]
            TABLE[at][byte] = value


prepare()


cdef inline uint32_t le32(const uint8_t* p) noexcept nogil:
    return <uint32_t> p[0] | (<uint32_t> p[1] << 8) | (<uint32_t> p[2] << 16) | (<uint32_t> p[3] << 24)


cdef inline uint64_t le64(const uint8_t* p) noexcept nogil:
    return <uint64_t> le32(p) | (<uint64_t> le32(p + 4) << 32)


cdef uint32_t checksum(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef uint32_t crc = 0xFFFFFFFF, low, high
    while n >= 8:
        low = le32(p) ^ crc
        high = le32(p + 4)
        crc = (
            TABLE[7][low & 0xFF] ^ TABLE[6][(low >> 8) & 0xFF] ^ TABLE[5][(low >> 16) & 0xFF] ^ TABLE[4][low >> 24]
            ^ TABLE[3][high & 0xFF] ^ TABLE[2][(high >> 8) & 0xFF] ^ TABLE[1][(high >> 16) & 0xFF] ^ TABLE[0][high >> 24]
        )
        p += 8
        n -= 8
    while n > 0:
        crc = (crc >> 8) ^ TABLE[0][(crc ^ p[0]) & 0xFF]
        p += 1
        n -= 1
    return ~crc


cdef inline uint32_t masked(uint32_t crc) noexcept nogil:
    return ((crc >> 15) | (crc << 17)) + <uint32_t> 0xA282EAD8


def masked_crc32c(data):
    """Return the masked checksum of bytes, as TFRecord files store it.

    Parameters
    ----------
    data
        A contiguous buffer.
    """
    cdef Py_buffer given
    cdef uint32_t found
    PyObject_GetBuffer(data, &given, PyBUF_SIMPLE)
    try:
        if given.len < SMALL:
            found = masked(checksum(<const uint8_t*> given.buf, given.len))
        else:
            with nogil:
                found = masked(checksum(<const uint8_t*> given.buf, given.len))
    finally:
        PyBuffer_Release(&given)
    return found


def record_starts(data, Py_ssize_t step):
    """Return where records start that workers begin with, how many records there are, and where the last one ends.

    The checksums of lengths are verified, those of data are not: only 12 bytes of each record are looked at.

    Parameters
    ----------
    data
        A whole file, in memory or mapped.
    step
        Bytes after which the next record that starts is noted; the first one always is.

    Raises
    ------
    ValueError
        If ``step`` is not positive.
    """
    if step < 1:
        raise ValueError(f"records are noted after 1 byte or more, not {step}")
    cdef Py_buffer given
    cdef const uint8_t* p
    cdef Py_ssize_t size, at = 0, noted = 0
    cdef int64_t count = 0
    PyObject_GetBuffer(data, &given, PyBUF_SIMPLE)
    try:
        p = <const uint8_t*> given.buf
        size = given.len
        starts = np.zeros(size // step + 2, np.int64)
        noted = walk(p, size, step, starts, &count, &at)
    finally:
        PyBuffer_Release(&given)
    return starts[:noted], count, at


cdef Py_ssize_t walk(
    const uint8_t* p, Py_ssize_t size, Py_ssize_t step, int64_t[::1] starts, int64_t* count, Py_ssize_t* end
) noexcept:
    """Note the starts of records; there is room for one every ``step`` bytes, and the first one."""
    cdef Py_ssize_t at = 0, noted = 0, room = starts.shape[0], next_at = 0
    cdef uint64_t length
    cdef int64_t found = 0
    with nogil:
        while size - at >= AROUND:
            length = le64(p + at)
            if length > <uint64_t> (size - at - AROUND) or masked(checksum(p + at, 8)) != le32(p + at + 8):
                break
            if at >= next_at and noted < room:
                starts[noted] = at
                noted += 1
                next_at = at + step if step < size - at else size
            found += 1
            at += AROUND + <Py_ssize_t> length
    count[0] = found
    end[0] = at
    return noted
