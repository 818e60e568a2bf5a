"""Number of records of each partition in a table. A state is acknowledged when all its partitions are published."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from destination_deeplake.native.json cimport Span
from destination_deeplake.native.memory cimport Buffer, FreeList, grow, recycle


cdef struct Partition:
    size_t start  # of its id in `texts`
    size_t size
    int64_t rows


cdef struct Partitions:
    Buffer texts
    size_t used
    Buffer items
    Buffer slots  # hash table of numbers, int32, -1 empty; at least twice as many slots as items
    uint32_t mask
    int32_t count
    int32_t last  # the partition of the previous record


cdef inline uint32_t hash_id(Span id) noexcept nogil:
    """Return a 32-bit hash (FNV-1a) of an id."""
    cdef uint32_t state = 2166136261
    cdef const uint8_t* p = id.start
    while p < id.end:
        state = (state ^ p[0]) * 16777619
        p += 1
    return state


cdef inline bint is_partition(const Partitions* kept, int32_t index, Span id) noexcept nogil:
    """Tell whether a partition has this id."""
    cdef const Partition* one = &(<Partition*>kept.items.data)[index]
    return one.size == <size_t>(id.end - id.start) and memcmp(kept.texts.data + one.start, id.start, one.size) == 0


cdef inline bint rehash(FreeList* pool, Partitions* kept) noexcept nogil:
    """Double the hash table."""
    cdef uint32_t size = 2 * (kept.mask + 1) if kept.count else 64
    cdef int32_t* slots
    cdef Partition* one
    cdef Span id
    cdef uint32_t slot
    cdef int32_t i
    if not grow(pool, &kept.slots, size * sizeof(int32_t), 0):
        return False
    slots = <int32_t*>kept.slots.data
    memset(slots, 0xFF, size * sizeof(int32_t))
    kept.mask = size - 1
    for i in range(kept.count):
        one = &(<Partition*>kept.items.data)[i]
        id.start = kept.texts.data + one.start
        id.end = id.start + one.size
        slot = hash_id(id) & kept.mask
        while slots[slot] >= 0:
            slot = (slot + 1) & kept.mask
        slots[slot] = i
    return True


cdef inline bint count_record(FreeList* pool, Partitions* kept, Span id) noexcept nogil:
    """Count a record of a partition; False when memory is short."""
    cdef uint32_t slot
    cdef int32_t index
    cdef size_t size = id.end - id.start
    cdef Partition* one
    if kept.count and is_partition(kept, kept.last, id):
        (<Partition*>kept.items.data)[kept.last].rows += 1
        return True
    if (kept.count == 0 or 2 * <uint32_t>kept.count > kept.mask) and not rehash(pool, kept):
        return False
    slot = hash_id(id) & kept.mask
    index = (<int32_t*>kept.slots.data)[slot]
    while index >= 0 and not is_partition(kept, index, id):
        slot = (slot + 1) & kept.mask
        index = (<int32_t*>kept.slots.data)[slot]
    if index < 0:
        if not grow(
            pool, &kept.items, (kept.count + (kept.count >> 1) + 8) * sizeof(Partition), kept.count * sizeof(Partition)
        ) or not grow(pool, &kept.texts, kept.used + (kept.used >> 1) + size, kept.used):
            return False
        index = kept.count
        one = &(<Partition*>kept.items.data)[index]
        one.start = kept.used
        one.size = size
        one.rows = 0
        memcpy(kept.texts.data + kept.used, id.start, size)
        kept.used += size
        kept.count += 1
        (<int32_t*>kept.slots.data)[slot] = index
    kept.last = index
    (<Partition*>kept.items.data)[index].rows += 1
    return True


cdef inline void forget_partitions(FreeList* pool, Partitions* kept) noexcept nogil:
    """Free the memory, and forget the counts."""
    recycle(pool, &kept.texts)
    recycle(pool, &kept.items)
    recycle(pool, &kept.slots)
    kept.used = kept.count = kept.last = 0
    kept.mask = 0
