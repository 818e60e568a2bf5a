"""LZ4 blocks, decoded into existing memory, so that no block needs a new bytes object and a copy.

The C code is in ``lz4_block.h``. The GIL is released for large blocks.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t

cdef extern from "lakebed/native/lz4_block.h" nogil:
    int lz4_decode_block(const uint8_t *block, size_t block_size, uint8_t *memory, size_t size)
    cdef enum:
        LZ4_DONE, LZ4_ENDS, LZ4_LONG, LZ4_SHORT, LZ4_DISTANCE

# The GIL is kept for blocks with fewer bytes, because releasing it would take longer.
cdef Py_ssize_t SMALL = 1 << 14


def decompress(block, Py_ssize_t size):
    """Return the ``size`` bytes that a block decodes to.

    Raises
    ------
    ValueError
        If the block is damaged, or decodes to another number of bytes.
    """
    if size < 0:
        raise ValueError(f"a block does not decode to {size} bytes")
    cdef Py_buffer given
    PyObject_GetBuffer(block, &given, PyBUF_SIMPLE)
    try:
        made = PyBytes_FromStringAndSize(NULL, size)
        decode(&given, <uint8_t *> PyBytes_AS_STRING(made), size)
    finally:
        PyBuffer_Release(&given)
    return made


def decompress_into(block, out):
    """Decode a block into all of a writable contiguous buffer, whose content is undefined after an error.

    Raises
    ------
    ValueError
        If the block is damaged, or decodes to more or fewer bytes than the buffer has.
    """
    cdef Py_buffer given, room
    PyObject_GetBuffer(block, &given, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &room, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            decode(&given, <uint8_t *> room.buf, room.len)
        finally:
            PyBuffer_Release(&room)
    finally:
        PyBuffer_Release(&given)


cdef int decode(Py_buffer *given, uint8_t *room, Py_ssize_t size) except -1:
    cdef int status
    cdef const uint8_t *block = <const uint8_t *> given.buf
    cdef size_t length = <size_t> given.len
    if size < SMALL:
        status = lz4_decode_block(block, length, room, <size_t> size)
    else:
        with nogil:
            status = lz4_decode_block(block, length, room, <size_t> size)
    if status == LZ4_DONE:
        return 0
    if status == LZ4_ENDS:
        raise ValueError(f"its {length} bytes end inside of a sequence")
    if status == LZ4_LONG:
        raise ValueError(f"it goes on beyond {size} bytes, or ends with a match")
    if status == LZ4_SHORT:
        raise ValueError(f"it decodes to fewer than {size} bytes")
    raise ValueError("a match begins before the first byte")
