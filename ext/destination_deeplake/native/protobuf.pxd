"""Protocol Buffers over bytes: varints, fields, and skipping unknown fields.

Every length is compared with the number of bytes left before it is used. Source: protobuf.dev, "Encoding".
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from destination_deeplake.native.faults cimport Fault
from destination_deeplake.native.json cimport Span, skip_character


cdef extern from *:
    """
    /* Read a varint out of the next eight bytes and return how many it has, without a branch on that; 0: more, or the
       machine is of the other byte order. */
    static inline int dl_near_varint(const uint8_t *p, uint64_t *value)
    {
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        uint64_t word, last;
        memcpy(&word, p, 8);
        last = ~word & 0x8080808080808080u;
        if (!last) return 0;
        word &= last ^ (last - 1);
        word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
        word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
        *value = (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
        return (__builtin_ctzll(last) >> 3) + 1;
    #else
        return 0;
    #endif
    }
    """
    int dl_near_varint(const uint8_t* p, uint64_t* value) noexcept nogil


cdef enum:
    MOST_GROUPS = 100  # maximum depth of nested groups, which protobuf has deprecated


cdef enum WireType:
    VARINT
    FIXED64
    LENGTH
    GROUP
    END_GROUP
    FIXED32


cdef struct Field:
    uint64_t number
    WireType type
    uint64_t value  # of VARINT and FIXED64
    Span bytes  # of LENGTH


cdef inline const uint8_t* read_varint(const uint8_t* p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Read a varint of at most ten bytes; NULL if it is longer or the bytes end."""
    cdef uint64_t found = 0
    cdef int shift = 0
    if p < end and p[0] < 0x80:
        value[0] = p[0]
        return p + 1
    while p < end and shift < 70:
        found |= <uint64_t>(p[0] & 0x7F) << shift if shift < 64 else 0
        p += 1
        if (p - 1)[0] < 0x80:
            value[0] = found
            return p
        shift += 7
    return NULL


cdef inline const uint8_t* read_near_varint(const uint8_t* p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Do the same if eight bytes are readable at `p`, even beyond `end`."""
    cdef int size = dl_near_varint(p, value)
    if size == 0 or end - p < size:
        return read_varint(p, end, value)
    return p + size


cdef inline int64_t signed_of(uint64_t value) noexcept nogil:
    """Return the number of a zigzag varint, the encoding of sint32 and sint64."""
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef inline const uint8_t* skip_group(const uint8_t* p, const uint8_t* end, uint64_t number) noexcept nogil:
    """Skip the fields of a group to its end; NULL if the end is missing, or the group is invalid."""
    cdef uint64_t[MOST_GROUPS] open
    cdef uint64_t tag, value
    cdef int depth = 1
    open[0] = number
    while depth:
        p = read_varint(p, end, &tag)
        if p == NULL or tag >> 3 == 0:
            return NULL
        if tag & 7 == GROUP:
            if depth == MOST_GROUPS:
                return NULL
            open[depth] = tag >> 3
            depth += 1
        elif tag & 7 == END_GROUP:
            depth -= 1
            if open[depth] != tag >> 3:
                return NULL
        elif tag & 7 == VARINT or tag & 7 == LENGTH:
            p = read_varint(p, end, &value)
            if p == NULL or (tag & 7 == LENGTH and value > <uint64_t>(end - p)):
                return NULL
            p += value if tag & 7 == LENGTH else 0
        else:
            value = 8 if tag & 7 == FIXED64 else 4
            if tag & 7 > FIXED32 or value > <uint64_t>(end - p):
                return NULL
            p += value
    return p


cdef inline const uint8_t* read_field(const uint8_t* p, const uint8_t* end, Field* field) noexcept nogil:
    """Read the field at `p` and return its end; NULL if it is invalid or extends beyond `end`."""
    cdef uint64_t tag, size
    p = read_varint(p, end, &tag)
    if p == NULL or tag >> 3 == 0 or tag >> 3 > 0x1FFFFFFF:
        return NULL
    field.number = tag >> 3
    field.type = <WireType>(tag & 7)
    if field.type == LENGTH:
        p = read_varint(p, end, &size)
        if p == NULL or size > <uint64_t>(end - p):
            return NULL
        field.bytes.start = p
        field.bytes.end = p + size
        return field.bytes.end
    if field.type == VARINT:
        return read_varint(p, end, &field.value)
    if field.type == GROUP:
        return skip_group(p, end, field.number)
    size = 8 if field.type == FIXED64 else 4
    if field.type == END_GROUP or field.type > FIXED32 or size > <uint64_t>(end - p):
        return NULL
    field.value = 0
    memcpy(&field.value, p, size)
    return p + size


cdef inline bint is_utf8(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Tell whether [p, end) is UTF-8."""
    cdef uint8_t[8] tail
    cdef uint64_t word
    cdef Fault fault
    cdef const uint8_t* after
    while p < end:
        if end - p >= 8:
            memcpy(&word, p, 8)
            if not word & <uint64_t>0x8080808080808080:
                p += 8
                continue
        if p[0] < 0x80:
            p += 1
        elif end - p >= 4:
            p = skip_character(p, &fault)
            if p == NULL:
                return False
        else:  # zeros, so that no character ends beyond the text
            memcpy(tail, b"\0\0\0\0\0\0\0\0", 8)
            memcpy(tail, p, end - p)
            after = skip_character(tail, &fault)
            if after == NULL:
                return False
            p += after - tail
    return True
