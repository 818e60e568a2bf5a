"""The streams that records name: streams with a table, and unknown streams (strangers), which are only counted."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from destination_deeplake.native.columns cimport Table
from destination_deeplake.native.json cimport Span
from destination_deeplake.native.memory cimport Buffer, FreeList, recycle
from destination_deeplake.native.rows cimport hash_text


cdef struct Stream:
    uint8_t* text  # namespace and name, `space_size` and `name_size` bytes
    size_t space_size
    size_t name_size
    Table* table  # NULL: a stranger
    int64_t ignored


cdef struct Streams:
    Stream* items
    int32_t count
    int32_t strangers
    int32_t* slots  # hash table of stream numbers, -1 empty
    uint32_t mask
    int32_t last  # the stream of the previous record, -1 none
    bint late  # the previous record had its namespace after its data
    int64_t line  # number of the line that is being read
    Buffer scratch
    FreeList* pool


cdef inline Span space_of(const Stream* stream) noexcept nogil:
    """Return the namespace of a stream."""
    cdef Span text
    text.start = stream.text
    text.end = stream.text + stream.space_size
    return text


cdef inline Span name_of(const Stream* stream) noexcept nogil:
    """Return the name of a stream."""
    cdef Span text
    text.start = stream.text + stream.space_size
    text.end = text.start + stream.name_size
    return text


cdef inline bint same_text(Span a, Span b) noexcept nogil:
    """Tell whether two spans hold the same bytes."""
    return a.end - a.start == b.end - b.start and memcmp(a.start, b.start, a.end - a.start) == 0


cdef inline bint is_stream(const Stream* stream, Span space, Span name) noexcept nogil:
    """Tell whether a stream has this namespace and name."""
    return same_text(name_of(stream), name) and same_text(space_of(stream), space)


cdef inline uint32_t hash_names(Span space, Span name) noexcept nogil:
    """Return the hash of a namespace and a name."""
    return hash_text(name.start, name.end - name.start) + 31 * hash_text(space.start, space.end - space.start)


cdef inline int32_t find_stream(Streams* streams, Span space, Span name) noexcept nogil:
    """Return the number of a stream, or -1 for a new stream."""
    cdef uint32_t slot
    cdef int32_t index = streams.last
    if index >= 0 and is_stream(&streams.items[index], space, name):
        return index
    if streams.count == 0:
        return -1
    slot = hash_names(space, name) & streams.mask
    index = streams.slots[slot]
    while index >= 0:
        if is_stream(&streams.items[index], space, name):
            streams.last = index
            return index
        slot = (slot + 1) & streams.mask
        index = streams.slots[slot]
    return -1


cdef inline void enter(Streams* streams, int32_t index) noexcept nogil:
    """Enter a stream into the hash table, which has a free slot."""
    cdef Stream* stream = &streams.items[index]
    cdef uint32_t slot = hash_names(space_of(stream), name_of(stream)) & streams.mask
    while streams.slots[slot] >= 0:
        slot = (slot + 1) & streams.mask
    streams.slots[slot] = index


cdef inline bint make_room(Streams* streams) noexcept nogil:
    """Double the hash table and the array of streams; False if memory is short."""
    cdef uint32_t size = 2 * (streams.mask + 1) if streams.count else 8
    cdef int32_t* slots
    cdef Stream* items = <Stream*>realloc(streams.items, size // 2 * sizeof(Stream))
    cdef int32_t i
    if items == NULL:
        return False
    streams.items = items
    slots = <int32_t*>malloc(size * sizeof(int32_t))
    if slots == NULL:
        return False
    memset(slots, 0xFF, size * sizeof(int32_t))
    free(streams.slots)
    streams.slots = slots
    streams.mask = size - 1
    for i in range(streams.count):
        enter(streams, i)
    return True


cdef inline Stream* add_stream(Streams* streams, Span space, Span name, Table* table) noexcept nogil:
    """Register a stream, with a table or as a stranger; NULL when memory is short."""
    cdef Stream* stream
    cdef size_t space_size = space.end - space.start
    cdef size_t name_size = name.end - name.start
    if (streams.count == 0 or streams.count == <int32_t>((streams.mask + 1) // 2)) and not make_room(streams):
        return NULL
    stream = &streams.items[streams.count]
    memset(stream, 0, sizeof(Stream))
    stream.text = <uint8_t*>malloc(space_size + name_size + 1)
    if stream.text == NULL:
        return NULL
    memcpy(stream.text, space.start, space_size)
    memcpy(stream.text + space_size, name.start, name_size)
    stream.space_size = space_size
    stream.name_size = name_size
    stream.table = table
    streams.strangers += table == NULL
    streams.count += 1
    enter(streams, streams.count - 1)
    return stream


cdef inline void free_streams(Streams* streams) noexcept nogil:
    """Free the registered streams, but not their tables, which other objects own."""
    cdef int32_t i
    for i in range(streams.count):
        free(streams.items[i].text)
    free(streams.items)
    free(streams.slots)
    recycle(streams.pool, &streams.scratch)
