"""Spans <-> Python strings, for the few messages that become Python objects."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from destination_deeplake.native.json cimport Span, unescape
from destination_deeplake.native.members cimport is_string


cdef inline str text_of(Span value):
    """Return a validated string value, lone surrogates included; None if it is absent or not a string."""
    cdef bytes buffer
    cdef uint8_t* out
    cdef bint lone
    if not is_string(value):
        return None
    buffer = PyBytes_FromStringAndSize(NULL, value.end - value.start)
    out = <uint8_t*>PyBytes_AS_STRING(buffer)
    size = unescape(value.start + 1, value.end - 1, out, &lone) - out
    return buffer[:size].decode("utf-8", "surrogatepass")


cdef inline bytes bytes_of(Span text):
    """Copy a span."""
    return PyBytes_FromStringAndSize(<const char*>text.start, text.end - text.start)


cdef inline Span span_of(bytes text) noexcept:
    """Return the bytes as a span."""
    cdef Span span
    span.start = <const uint8_t*>PyBytes_AS_STRING(text)
    span.end = span.start + PyBytes_GET_SIZE(text)
    return span
