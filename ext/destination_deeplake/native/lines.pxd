"""Blocks -> lines. A line within one block is read in place; a line that spans blocks is assembled in a buffer."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy

from destination_deeplake.native.memory cimport SLACK, Buffer, FreeList, grow, recycle


cdef enum:
    MOST_LINE = 256 << 20  # the platform stops at 20,000,000 characters
    KEEP_CARRY = 4 << 20
    LONG_SAMPLE = 1 << 20  # minimum number of bytes kept of a line that is too long


cdef enum Found:
    A_LINE
    NO_LINE
    A_LONG_LINE
    NO_ROOM


cdef struct Lines:
    const uint8_t* at  # the rest of the block
    const uint8_t* stop
    Buffer carry  # the line whose end was not read yet, or the last assembled line
    size_t carried
    bint assembled  # the line is in `carry`
    bint skipping  # the rest of a line that is too long is skipped
    const uint8_t* line
    const uint8_t* end  # its newline
    const uint8_t* lim  # the end of the readable memory, see `json`
    int64_t number
    FreeList* pool


cdef inline bint reserve_carry(Lines* lines, size_t n) noexcept nogil:
    """Make room for `n` more bytes of the line that is being assembled."""
    return lines.carried + n + SLACK <= lines.carry.capacity or grow(
        lines.pool, &lines.carry, lines.carried + n + (lines.carried >> 1), lines.carried
    )


cdef inline Found carry_on(Lines* lines, const uint8_t* stop) noexcept nogil:
    """Move the bytes before `stop` to the line that is being assembled."""
    cdef size_t n = stop - lines.at
    if lines.carried + n > MOST_LINE:
        return cut_line(lines, n)
    if not reserve_carry(lines, n):
        return NO_ROOM
    memcpy(lines.carry.data + lines.carried, lines.at, n)
    lines.carried += n
    lines.at = stop
    return NO_LINE


cdef inline Found cut_line(Lines* lines, size_t n) noexcept nogil:
    """Return the beginning of a line that is too long as a line; the next call skips the rest."""
    if lines.carried < LONG_SAMPLE:
        n = min(n, LONG_SAMPLE - lines.carried)
        if not reserve_carry(lines, n):
            return NO_ROOM
        memcpy(lines.carry.data + lines.carried, lines.at, n)
        lines.carried += n
    lines.skipping = True
    end_carried(lines)
    return A_LONG_LINE


cdef inline void end_carried(Lines* lines) noexcept nogil:
    """Make the assembled bytes the current line."""
    lines.carry.data[lines.carried] = c"\n"  # within the slack
    lines.assembled = True
    lines.line = lines.carry.data
    lines.end = lines.carry.data + lines.carried
    lines.lim = lines.carry.data + lines.carry.capacity
    lines.number += 1


cdef inline void skip_rest(Lines* lines) noexcept nogil:
    """Skip the rest of a line that is too long, or use up the block."""
    cdef const uint8_t* newline = NULL
    if lines.at != lines.stop:
        newline = <const uint8_t*>memchr(lines.at, c"\n", lines.stop - lines.at)
    lines.skipping = newline == NULL
    lines.at = lines.stop if newline == NULL else newline + 1


cdef inline void skip_mark(Lines* lines) noexcept nogil:
    """Skip the byte order mark that some programs write before the first line."""
    if lines.end - lines.line >= 3 and memcmp(lines.line, b"\xef\xbb\xbf", 3) == 0:
        lines.line += 3


cdef inline void begin_next(Lines* lines) noexcept nogil:
    """Release the assembled line, which was read."""
    if lines.assembled:
        lines.assembled = False
        lines.carried = 0
        if lines.carry.capacity > KEEP_CARRY:
            recycle(lines.pool, &lines.carry)


cdef inline Found next_line(Lines* lines, bint last) noexcept nogil:
    """Find the next line, or use up the block; `last` means that the input ends with the block."""
    cdef const uint8_t* newline = NULL
    cdef Found found
    begin_next(lines)
    if lines.skipping:
        skip_rest(lines)
    if lines.at != lines.stop:
        newline = <const uint8_t*>memchr(lines.at, c"\n", lines.stop - lines.at)
        if newline != NULL and lines.carried == 0 and newline - lines.at <= MOST_LINE:
            lines.line = lines.at
            lines.end = newline
            lines.lim = lines.stop
            lines.at = newline + 1
            lines.number += 1
            return A_LINE
        found = carry_on(lines, lines.stop if newline == NULL else newline)
        if found != NO_LINE:
            return found
    if newline == NULL:
        if not last or lines.carried == 0:
            return NO_LINE
    else:
        lines.at = newline + 1
    end_carried(lines)
    return A_LINE
