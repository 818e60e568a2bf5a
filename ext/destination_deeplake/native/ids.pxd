"""The text of version 7 UUIDs (RFC 9562, 5.7), those of a batch counting up from a random one (6.2, method 1).

    digits       content
    8-4          milliseconds since 1970, 48 bits
    4            version 7, and 12 random bits
    4-12         variant 10, and 62 bits: a random number below 2**61, plus the position in the batch

Consecutive ids share all but a few digits, so that LZ4, which cannot compress random hexadecimal digits, reduces them
to a seventh.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    static const char dl_digits[] = "0123456789abcdef";
    """
    const char* dl_digits


cdef enum:
    ID_BYTES = 36


cdef inline void put_digits(uint8_t* out, uint64_t value, int n) noexcept nogil:
    """Write the lowest `n` hexadecimal digits of a number."""
    while n:
        n -= 1
        out[n] = dl_digits[value & 15]
        value >>= 4


cdef inline void put_ids(
    uint8_t* out, uint64_t milliseconds, uint64_t chance, uint64_t first, Py_ssize_t n
) noexcept nogil:
    """Write `n` ids of ID_BYTES each, with 12 random bits from `chance` and 61 from `first`."""
    cdef uint8_t[ID_BYTES] one
    cdef uint64_t count = (first & (((<uint64_t>1) << 61) - 1)) | (<uint64_t>1) << 63
    cdef Py_ssize_t i
    one[8] = one[13] = one[18] = one[23] = c"-"
    put_digits(one, milliseconds >> 16, 8)
    put_digits(&one[9], milliseconds, 4)
    put_digits(&one[14], (chance & 0xFFF) | 0x7000, 4)
    for i in range(n):
        put_digits(&one[19], (count + i) >> 48, 4)
        put_digits(&one[24], count + i, 12)
        memcpy(out, one, ID_BYTES)
        out += ID_BYTES
