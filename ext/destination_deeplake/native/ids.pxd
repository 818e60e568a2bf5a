# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Random bytes -> the text of version 4 UUIDs (RFC 9562, 5.4)."""

from libc.stdint cimport uint8_t
from libc.string cimport memcpy


cdef extern from *:
    """
    static const char dl_digits[] = "0123456789abcdef";
    """
    const char* dl_digits


cdef enum:
    ID_BYTES = 36


cdef inline uint8_t* put_digits(uint8_t* out, const uint8_t* random, int n) noexcept nogil:
    """Write `n` bytes as hexadecimal digits."""
    cdef int i
    for i in range(n):
        out[2 * i] = dl_digits[random[i] >> 4]
        out[2 * i + 1] = dl_digits[random[i] & 15]
    return out + 2 * n


cdef inline void put_ids(uint8_t* out, const uint8_t* random, Py_ssize_t n) noexcept nogil:
    """Write `n` ids of ID_BYTES each from 16 random bytes each."""
    cdef uint8_t[16] one
    cdef Py_ssize_t i
    for i in range(n):
        memcpy(one, random + 16 * i, 16)
        one[6] = (one[6] & 0x0F) | 0x40
        one[8] = (one[8] & 0x3F) | 0x80
        out = put_digits(out, one, 4)
        out[0] = c"-"
        out = put_digits(out + 1, one + 4, 2)
        out[0] = c"-"
        out = put_digits(out + 1, one + 6, 2)
        out[0] = c"-"
        out = put_digits(out + 1, one + 8, 2)
        out[0] = c"-"
        out = put_digits(out + 1, one + 10, 6)
