"""Blocks -> messages, each after its length. A message within one block is read in place, as lines are."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from destination_deeplake.native.lines cimport (
    A_LINE,
    A_LONG_LINE,
    MOST_LINE,
    NO_LINE,
    NO_ROOM,
    Found,
    Lines,
    begin_next,
    end_carried,
    reserve_carry,
)
from destination_deeplake.native.protobuf cimport read_varint


cdef enum:
    LONGEST_PREFIX = 10


cdef inline Found in_place(Lines* lines) noexcept nogil:
    """Find the next message, if the block has all of it."""
    cdef uint64_t size
    cdef const uint8_t* start = read_varint(lines.at, lines.stop, &size)
    if start == NULL:
        return A_LONG_LINE if lines.stop - lines.at >= LONGEST_PREFIX else NO_LINE
    if size > MOST_LINE:
        return A_LONG_LINE
    if size > <uint64_t>(lines.stop - start):
        return NO_LINE
    lines.line = start
    lines.end = lines.at = start + size
    lines.lim = lines.stop
    return A_LINE


cdef inline bint carry_bytes(Lines* lines, size_t n) noexcept nogil:
    """Move bytes of the block to the message that is being assembled."""
    if not reserve_carry(lines, n):
        return False
    memcpy(lines.carry.data + lines.carried, lines.at, n)
    lines.carried += n
    lines.at += n
    return True


cdef inline Found next_frame(Lines* lines) noexcept nogil:
    """Find the next message, or use up the block; return A_LONG_LINE for a length above the maximum."""
    cdef uint64_t size
    cdef size_t n
    cdef const uint8_t* start
    cdef Found found
    begin_next(lines)
    if lines.carried == 0 and lines.at != lines.stop:
        found = in_place(lines)
        if found != NO_LINE:
            lines.number += 1
            return found
    while lines.at != lines.stop:
        n = 1
        if lines.carried:
            start = read_varint(lines.carry.data, lines.carry.data + lines.carried, &size)
            if start == NULL and lines.carried >= LONGEST_PREFIX or start != NULL and size > MOST_LINE:
                lines.number += 1
                return A_LONG_LINE
            if start != NULL:
                n = (start - lines.carry.data) + size - lines.carried
                n = min(n, <size_t>(lines.stop - lines.at))
        if not carry_bytes(lines, n):
            return NO_ROOM
        start = read_varint(lines.carry.data, lines.carry.data + lines.carried, &size)
        if start != NULL and lines.carried == (start - lines.carry.data) + size:
            n = start - lines.carry.data
            end_carried(lines)
            lines.line += n
            return A_LINE
    return NO_LINE
