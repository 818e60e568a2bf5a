"""Values that did not fit their column, or may have been rounded, kept as the source wrote them."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from destination_deeplake.native.columns cimport (
    NO_MEMORY,
    TOO_LARGE,
    Buffer,
    Refusals,
    Table,
    in_trouble,
)
from destination_deeplake.native.faults cimport Fault
from destination_deeplake.native.json cimport skip_value
from destination_deeplake.native.memory cimport FreeList, grow


cdef enum:
    MOST_VALUE = 64 << 10  # maximum number of bytes kept of a value


cdef inline bint room_for(FreeList* pool, Buffer* buffer, size_t used, size_t more) noexcept nogil:
    """Enlarge a buffer by `more` bytes, and some in advance."""
    return used + more <= buffer.capacity or grow(pool, buffer, used + more + (used >> 1) + 256, used)


cdef inline bint keep_value(
    Table* table, Refusals* kept, size_t most, int32_t index, const uint8_t* value, const uint8_t* lim, int64_t line
) noexcept nogil:
    """Keep at most `most` bytes of the validated JSON value at `value`, which belongs to column `index` in this row."""
    cdef Fault fault
    cdef size_t n = kept.count
    cdef size_t size = skip_value(value, lim, 0, &fault) - value
    cdef size_t taken = size
    cdef size_t used = (<int32_t*>kept.offsets.data)[n] if n else 0
    if taken > most:
        taken = most
        while value[taken] & 0xC0 == 0x80:  # never cut inside a character
            taken -= 1
    if used + taken > INT32_MAX:
        return in_trouble(table, TOO_LARGE)
    if not (
        room_for(table.pool, &kept.rows, 8 * n, 8)
        and room_for(table.pool, &kept.lines, 8 * n, 8)
        and room_for(table.pool, &kept.columns, 4 * n, 4)
        and room_for(table.pool, &kept.sizes, 8 * n, 8)
        and room_for(table.pool, &kept.offsets, 4 * (n + 1) if n else 0, 8)
        and room_for(table.pool, &kept.texts, used, taken)
    ):
        return in_trouble(table, NO_MEMORY)
    (<int64_t*>kept.rows.data)[n] = table.rows
    (<int64_t*>kept.lines.data)[n] = line
    (<int32_t*>kept.columns.data)[n] = index
    (<int64_t*>kept.sizes.data)[n] = size
    (<int32_t*>kept.offsets.data)[n] = <int32_t>used
    (<int32_t*>kept.offsets.data)[n + 1] = <int32_t>(used + taken)
    memcpy(kept.texts.data + used, value, taken)
    kept.count += 1
    return True
