"""The members of JSON objects, by name.

Names that this package reads are short ASCII texts; a source may spell them with escapes.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from destination_deeplake.native.faults cimport UNEXPECTED, Fault, fail
from destination_deeplake.native.json cimport Span, skip_space, skip_value, string_end, unescape


cdef struct Members:
    # A walk over the members of one object: `at` its opening brace before the first step.
    const uint8_t* at
    bint begun
    Span key  # between the quotes
    bint escaped  # the key holds a backslash
    Span value  # as written


cdef inline void walk(Members* members, const uint8_t* brace) noexcept nogil:
    """Begin a walk over the object at `brace`."""
    members.at = brace
    members.begun = False


cdef inline int next_key(Members* members, const uint8_t* lim, Fault* fault) noexcept nogil:
    """Step to the next key: 1 with `at` at its value, 0 with `at` after the closing brace, or -1 with a fault.

    Before the next step the caller moves `at` to the end of the value.
    """
    cdef const uint8_t* p = members.at
    if not members.begun:
        members.begun = True
        p += 1
        if p[0] != c'"':
            p = skip_space(p)
            if p[0] == c"}":
                members.at = p + 1
                return 0
    else:
        if p[0] != c",":
            p = skip_space(p)
            if p[0] == c"}":
                members.at = p + 1
                return 0
            if p[0] != c",":
                fail(fault, p, UNEXPECTED)
                return -1
        p += 1
        if p[0] != c'"':
            p = skip_space(p)
    if p[0] != c'"':
        fail(fault, p, UNEXPECTED)
        return -1
    members.key.start = p + 1
    p = string_end(p + 1, lim, &members.escaped, fault)
    if p == NULL:
        return -1
    members.key.end = p
    p = skip_space(p + 1)
    if p[0] != c":":
        fail(fault, p, UNEXPECTED)
        return -1
    members.at = skip_space(p + 1)
    return 1


cdef inline int next_member(Members* members, const uint8_t* lim, int depth, Fault* fault) noexcept nogil:
    """Step to the next member and past its value; `depth` containers are around it, the object included."""
    cdef int step = next_key(members, lim, fault)
    if step != 1:
        return step
    members.value.start = members.at
    members.at = skip_value(members.at, lim, depth, fault)
    if members.at == NULL:
        return -1
    members.value.end = members.at
    return 1


cdef inline bint text_is(const uint8_t* p, const uint8_t* end, const char* name, size_t n) noexcept nogil:
    """Tell whether the validated string text [p, end) spells the ASCII `name` of `n` <= 32 bytes."""
    cdef uint8_t[192] plain
    cdef bint lone
    if <size_t>(end - p) == n:
        return memcmp(p, name, n) == 0
    if <size_t>(end - p) < n or end - p > 6 * <Py_ssize_t>n or end - p > 192:
        return False
    return <size_t>(unescape(p, end, plain, &lone) - plain) == n and memcmp(plain, name, n) == 0


cdef inline bint is_named(const Members* members, const char* name, size_t n) noexcept nogil:
    """Tell whether the key of this step is the short ASCII `name` of `n` bytes."""
    return text_is(members.key.start, members.key.end, name, n)


cdef inline bint string_is(Span value, const char* name, size_t n) noexcept nogil:
    """Tell whether a value is a string that spells the short ASCII `name` of `n` bytes."""
    return (
        value.start != NULL and value.start[0] == c'"' and text_is(value.start + 1, value.end - 1, name, n)
    )


cdef inline bint is_object(Span value) noexcept nogil:
    """Tell whether a value is present and an object."""
    return value.start != NULL and value.start[0] == c"{"


cdef inline bint is_string(Span value) noexcept nogil:
    """Tell whether a value is present and a string."""
    return value.start != NULL and value.start[0] == c'"'


cdef inline Span member_of(Span value, const char* name, size_t n, const uint8_t* lim) noexcept nogil:
    """Return the last member named `name` of a valid value; absent without such a member."""
    cdef Members members
    cdef Fault fault
    cdef Span found
    found.start = found.end = NULL
    if is_object(value):
        walk(&members, value.start)
        while next_member(&members, lim, 0, &fault) == 1:
            if is_named(&members, name, n):
                found = members.value
    return found
