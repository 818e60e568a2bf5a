"""Reasons for which a line is refused. A reason never quotes the line, which may contain secrets."""

from libc.stdint cimport uint8_t


cdef enum Reason:  # faults of JSON, then of messages; the texts below are in the same order
    UNEXPECTED
    BAD_CONTROL
    BAD_ESCAPE
    BAD_UTF8
    BAD_NUMBER
    TOO_DEEP
    TRAILING
    NOT_OBJECT
    NO_TYPE
    NO_RECORD
    NO_STREAM
    BAD_NAMESPACE
    NO_DATA
    NO_STATE
    NO_SCOPE
    TOO_LONG
    BAD_MESSAGE
    BAD_TEXT
    BAD_VALUE
    OTHER_COUNT


cdef extern from *:
    """
    static const char *const dl_reasons[] = {
        "invalid JSON",
        "control character in a string",
        "invalid escape in a string",
        "invalid UTF-8",
        "invalid number",
        "nested deeper than 1000",
        "something follows the message",
        "not a JSON object",
        "no string `type`",
        "RECORD without an object `record`",
        "RECORD without a string `stream`",
        "RECORD with a `namespace` that is neither string nor null",
        "RECORD without an object `data`",
        "STATE without an object `state`",
        "STATE of type STREAM without the name of a stream",
        "longer than 256 MiB",
        "invalid message of Protocol Buffers",
        "invalid UTF-8 in a text",
        "invalid JSON in a value",
        "more or fewer values than the stream has fields"};
    """
    const char** dl_reasons


cdef struct Fault:
    const uint8_t* at  # for reasons up to TRAILING
    Reason reason


cdef inline const uint8_t* fail(Fault* fault, const uint8_t* at, Reason reason) noexcept nogil:
    """Record a fault and return NULL."""
    fault.at = at
    fault.reason = reason
    return NULL
