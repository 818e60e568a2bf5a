"""Type and stream of a line that is not a valid message, as far as they can be read."""

from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp

from destination_deeplake.native.faults cimport Fault
from destination_deeplake.native.json cimport Span, is_space, skip_space, skip_value
from destination_deeplake.native.members cimport Members, is_named, is_string, next_key, string_is, walk


cdef struct Hint:
    Span type  # a string as written; absent: unknown
    Span name  # of the record's stream
    Span space
    bint ended  # the record was read to its end, so that no namespace can follow
    bint stateful  # it has a member called `state`


cdef inline const uint8_t* hint_at_stream(const uint8_t* p, const uint8_t* lim, Hint* hint) noexcept nogil:
    """Read the record at `p` as far as it is valid; return NULL if this is not to its end."""
    cdef Members members
    cdef Fault fault
    cdef Span value
    cdef int step
    walk(&members, p)
    while True:
        step = next_key(&members, lim, &fault)
        if step != 1:
            break
        value.start = members.at
        value.end = members.at = skip_value(members.at, lim, 2, &fault)
        if value.end == NULL:
            break
        if is_named(&members, b"stream", 6):
            hint.name = value
        elif is_named(&members, b"namespace", 9):
            hint.space = value
    hint.ended = step == 0
    return members.at if step == 0 else NULL


cdef inline void hint_at(const uint8_t* p, const uint8_t* lim, Hint* hint) noexcept nogil:
    """Read the line at `p` as far as it is valid."""
    cdef Members members
    cdef Fault fault
    cdef Span value
    hint.type.start = hint.name.start = hint.space.start = NULL
    hint.ended = hint.stateful = False
    p = skip_space(p)
    if p[0] != c"{":
        return
    walk(&members, p)
    while next_key(&members, lim, &fault) == 1:
        value.start = members.at
        hint.stateful = hint.stateful or is_named(&members, b"state", 5)
        if value.start[0] == c"{" and is_named(&members, b"record", 6):
            value.end = hint_at_stream(value.start, lim, hint)
        else:
            value.end = skip_value(value.start, lim, 1, &fault)
        if value.end == NULL:
            return
        members.at = value.end
        if is_string(value) and is_named(&members, b"type", 4):
            hint.type = value


cdef inline const uint8_t* find_text(
    const uint8_t* p, const uint8_t* end, const char* text, Py_ssize_t n
) noexcept nogil:
    """Return the first position of `text`, of `n` bytes, in [p, end), or NULL."""
    while end - p >= n:
        p = <const uint8_t*>memchr(p, text[0], end - p - n + 1)
        if p == NULL or memcmp(p, text, n) == 0:
            return p
        p += 1
    return NULL


cdef inline bint mentions_state(const uint8_t* line, const uint8_t* end) noexcept nogil:
    """Tell whether a STATE type occurs anywhere in a line."""
    cdef const uint8_t* p = find_text(line, end, b'STATE"', 6)
    cdef const uint8_t* back
    while p != NULL:
        back = p - 1
        if back > line and back[0] == c'"':
            back -= 1
            while back > line and is_space(back[0]):
                back -= 1
            if back > line and back[0] == c":":
                back -= 1
                while back > line and is_space(back[0]):
                    back -= 1
                if back - line >= 5 and memcmp(back - 5, b'"type"', 6) == 0:
                    return True
        p = find_text(p + 1, end, b'STATE"', 6)
    return False


cdef inline bint steers(const Hint* hint, const uint8_t* line, const uint8_t* end) noexcept nogil:
    """Tell whether the line may be a STATE or a stream status, without which the sync must not continue."""
    if hint.type.start == NULL:
        return hint.stateful or mentions_state(line, end)
    if string_is(hint.type, b"TRACE", 5):
        return find_text(line, end, b"STREAM_STATUS", 13) != NULL
    return string_is(hint.type, b"STATE", 5)
