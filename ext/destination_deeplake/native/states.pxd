"""STATE and stream-status messages: their streams, and the position of the record count in a state.

The acknowledged state is the original line with one insertion or replacement, so that numbers, key order and unknown
keys (such as the platform's `id`) are returned byte for byte.
"""

from libc.stdint cimport uint8_t

from destination_deeplake.native.json cimport Span, skip_space
from destination_deeplake.native.members cimport is_object, is_string, member_of, string_is


cdef enum Scope:
    OF_STREAM
    OF_ALL
    OF_LEGACY


cdef struct About:
    Scope scope
    Span name  # a string as written; absent: none
    Span space


cdef struct Splice:
    Span cut  # replaced by `before`, the count, `after`
    const char* before
    const char* after


cdef inline bint describe(Span descriptor, const uint8_t* lim, About* about) noexcept nogil:
    """Read a stream descriptor; False if it names no stream."""
    about.name = member_of(descriptor, b"name", 4, lim)
    about.space = member_of(descriptor, b"namespace", 9, lim)
    if not is_string(about.space):
        about.space.start = about.space.end = NULL
    return is_string(about.name)


cdef inline bint read_scope(Span state, const uint8_t* lim, About* about) noexcept nogil:
    """Read the scope of a valid state; False if it is the state of a stream but names no stream."""
    cdef Span kind = member_of(state, b"type", 4, lim)
    cdef bint is_named
    about.name.start = about.name.end = about.space.start = about.space.end = NULL
    if string_is(kind, b"GLOBAL", 6):
        about.scope = OF_ALL
        return True
    is_named = describe(
        member_of(member_of(state, b"stream", 6, lim), b"stream_descriptor", 17, lim), lim, about
    )
    if string_is(kind, b"STREAM", 6):
        about.scope = OF_STREAM
        return is_named
    about.scope = OF_LEGACY
    if not is_named:
        about.name.start = about.name.end = about.space.start = about.space.end = NULL
    return True


cdef inline Splice before_brace(
    Span value, const char* first, const char* later, const char* after
) noexcept nogil:
    """Return the insertion of a member at the end of an object; `later` begins with a comma."""
    cdef Splice splice
    splice.cut.start = splice.cut.end = value.end - 1
    splice.before = first if skip_space(value.start + 1) == value.end - 1 else later
    splice.after = after
    return splice


cdef inline Splice count_splice(Span state, const uint8_t* lim) noexcept nogil:
    """Return the change that adds `destinationStats.recordCount` to a valid state."""
    cdef Splice splice
    cdef Span stats = member_of(state, b"destinationStats", 16, lim)
    if stats.start == NULL:
        return before_brace(
            state, b'"destinationStats":{"recordCount":', b',"destinationStats":{"recordCount":', b"}"
        )
    if not is_object(stats):
        splice.cut = stats
        splice.before = b'{"recordCount":'
        splice.after = b"}"
        return splice
    splice.cut = member_of(stats, b"recordCount", 11, lim)
    if splice.cut.start == NULL:
        return before_brace(stats, b'"recordCount":', b',"recordCount":', b"")
    splice.before = b""
    splice.after = b""
    return splice


cdef inline Span rejected_count(Span state, const uint8_t* lim) noexcept nogil:
    """Return `destinationStats.rejectedRecordCount` of a valid state; absent without one."""
    return member_of(member_of(state, b"destinationStats", 16, lim), b"rejectedRecordCount", 19, lim)
