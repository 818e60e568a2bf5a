"""Buffers that grow, and the free list of buffers for the next batch.

The first access to a new page costs more than parsing the values written there. So a large buffer grows by moving its
pages instead of copying them, and a buffer that an Arrow array released is kept: up to `RECYCLED_BYTES` in all, and
the oldest buffers are dropped first. The list has its own lock, because columns grow without the GIL.
"""

from cpython.pythread cimport PyThread_acquire_lock, PyThread_release_lock, PyThread_type_lock
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memmove


cdef extern from *:
    """
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    static const size_t dl_mapped_from = 128 << 10;

    static void dl_free(uint8_t *data, size_t capacity)
    {
    #if defined(__linux__)
        if (capacity >= dl_mapped_from) {
            munmap(data, capacity);
            return;
        }
    #endif
        free(data);
    }

    /* Like realloc, with the size before and the bytes that count; NULL leaves the old memory as it is. */
    static uint8_t *dl_resize(uint8_t *data, size_t before, size_t after, size_t used)
    {
    #if defined(__linux__)
        void *mapped;
        if (after >= dl_mapped_from) {
            if (before >= dl_mapped_from)
                mapped = mremap(data, before, after, MREMAP_MAYMOVE);
            else
                mapped = mmap(NULL, after, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (mapped == MAP_FAILED) return NULL;
            if (before < dl_mapped_from) {
                if (used) memcpy(mapped, data, used);
                free(data);
            }
            return (uint8_t *)mapped;
        }
    #endif
        (void)used;
        return (uint8_t *)realloc(data, after);
    }
    """
    void dl_free(uint8_t* data, size_t capacity) noexcept nogil
    uint8_t* dl_resize(uint8_t* data, size_t before, size_t after, size_t used) noexcept nogil


cdef enum:
    RECYCLED_BYTES = 128 << 20
    RECYCLED_BUFFERS = 2048
    SLACK = 64  # number of bytes after the content that 16-byte steps may touch


cdef struct Buffer:
    uint8_t* data
    size_t capacity


cdef struct FreeList:
    PyThread_type_lock lock
    Buffer[RECYCLED_BUFFERS] buffers  # oldest first
    int count
    size_t bytes


cdef inline void take_out(FreeList* pool, int index) noexcept nogil:
    """Remove one entry."""
    pool.bytes -= pool.buffers[index].capacity
    pool.count -= 1
    memmove(&pool.buffers[index], &pool.buffers[index + 1], (pool.count - index) * sizeof(Buffer))


cdef inline Buffer recycled(FreeList* pool, size_t n) noexcept nogil:
    """Take the smallest free buffer of at least `n` bytes and not much over 2 * `n`; return an empty one without it."""
    cdef Buffer found
    cdef int best = -1
    cdef int i
    cdef size_t most = 2 * n + 4096
    found.data = NULL
    found.capacity = 0
    PyThread_acquire_lock(pool.lock, 1)
    for i in range(pool.count):
        if n <= pool.buffers[i].capacity <= most:
            best = i
            most = pool.buffers[i].capacity
    if best >= 0:
        found = pool.buffers[best]
        take_out(pool, best)
    PyThread_release_lock(pool.lock)
    return found


cdef inline void recycle(FreeList* pool, Buffer* buffer) noexcept nogil:
    """Return a buffer to the list; it is empty afterwards."""
    if buffer.data == NULL:
        return
    if buffer.capacity > RECYCLED_BYTES:
        dl_free(buffer.data, buffer.capacity)
    else:
        PyThread_acquire_lock(pool.lock, 1)
        while pool.count == RECYCLED_BUFFERS or pool.bytes + buffer.capacity > RECYCLED_BYTES:
            dl_free(pool.buffers[0].data, pool.buffers[0].capacity)
            take_out(pool, 0)
        pool.buffers[pool.count] = buffer[0]
        pool.count += 1
        pool.bytes += buffer.capacity
        PyThread_release_lock(pool.lock)
    buffer.data = NULL
    buffer.capacity = 0


cdef inline size_t with_slack(size_t n) noexcept nogil:
    """Return the capacity that `n` bytes and `SLACK` need."""
    return (n + 2 * SLACK - 1) & ~<size_t>(SLACK - 1)


cdef inline bint change_to_free(FreeList* pool, Buffer* buffer, size_t n, size_t used) noexcept nogil:
    """Replace a buffer by a free one for `n` bytes, if any, and keep the first `used` bytes."""
    cdef Buffer larger = recycled(pool, with_slack(n))
    if larger.data == NULL:
        return False
    if used:
        memcpy(larger.data, buffer.data, used)
    recycle(pool, buffer)
    buffer[0] = larger
    return True


cdef inline bint grow(FreeList* pool, Buffer* buffer, size_t n, size_t used) noexcept nogil:
    """Enlarge a buffer to `n` bytes and `SLACK`, and keep the first `used` bytes; False if memory is short."""
    cdef uint8_t* data
    if with_slack(n) <= buffer.capacity or change_to_free(pool, buffer, n, used):
        return True
    n = with_slack(n)
    data = dl_resize(buffer.data, buffer.capacity, n, used)
    if data == NULL:
        return False
    buffer.data = data
    buffer.capacity = n
    return True
