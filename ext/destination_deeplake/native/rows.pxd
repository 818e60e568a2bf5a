# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The `data` object of a record -> one row.

Records of one stream name their fields in the same order, so the key that followed this one last time is
compared first, then the one after that (an optional field is missing), and only then the hash table is asked.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from destination_deeplake.native.columns cimport (
    NO_MEMORY,
    Column,
    Table,
    drop_row,
    end_text,
    in_trouble,
    put_bytes,
    put_int64,
    put_null,
    reserve,
    retract,
)
from destination_deeplake.native.faults cimport UNEXPECTED, Fault, fail
from destination_deeplake.native.json cimport (
    Span,
    dl_same,
    is_space,
    skip_space,
    skip_value,
    string_end,
    unescape,
)
from destination_deeplake.native.members cimport member_of
from destination_deeplake.native.memory cimport SLACK, grow
from destination_deeplake.native.values cimport DATA_DEPTH, put_value


cdef enum:
    UNKNOWN_FIELD = -1
    BROKEN_KEY = -2


cdef inline uint32_t hash_text(const uint8_t* p, size_t n) noexcept nogil:
    """Return a 32-bit hash of a name."""
    cdef uint64_t state = n * <uint64_t>0x9E3779B97F4A7C15
    cdef uint64_t word
    while n >= 8:
        memcpy(&word, p, 8)
        state = (state ^ word) * <uint64_t>0xFF51AFD7ED558CCD
        state ^= state >> 32
        p += 8
        n -= 8
    word = 0
    memcpy(&word, p, n)
    state = (state ^ word) * <uint64_t>0xC4CEB9FE1A85EC53
    return <uint32_t>(state >> 32)


cdef inline int32_t find_column(const Table* table, const uint8_t* name, size_t n) noexcept nogil:
    """Return the number of the column of that name, or UNKNOWN_FIELD."""
    cdef uint32_t slot = hash_text(name, n) & table.mask
    cdef int32_t index = table.slots[slot]
    while index >= 0:
        if table.columns[index].name_size == n and memcmp(table.columns[index].name, name, n) == 0:
            return index
        slot = (slot + 1) & table.mask
        index = table.slots[slot]
    return UNKNOWN_FIELD


cdef inline bint has_key(const Column* column, const uint8_t* p, const uint8_t* lim) noexcept nogil:
    """Tell whether the key of this column, as most sources write it, stands at `p`."""
    return lim - p >= <Py_ssize_t>column.key_size and dl_same(p, column.key, column.key_size)


cdef inline int32_t look_up_key(
    Table* table, const uint8_t** at, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read any key and return its column; `at` moves behind the closing quote."""
    cdef bint escaped, lone
    cdef const uint8_t* name = at[0] + 1
    cdef const uint8_t* end = string_end(name, lim, &escaped, fault)
    cdef uint8_t* plain
    if end == NULL:
        return BROKEN_KEY
    at[0] = end + 1
    if not escaped:
        return find_column(table, name, end - name)
    if not grow(table.pool, &table.scratch, end - name, 0):
        in_trouble(table, NO_MEMORY)
        return BROKEN_KEY
    plain = unescape(name, end, table.scratch.data, &lone)
    return find_column(table, table.scratch.data, plain - table.scratch.data)


cdef inline int32_t next_column(
    Table* table, int32_t previous, const uint8_t** at, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the key at `at`, which comes after the one of column `previous`, and return its column."""
    cdef int32_t guess = table.columns[previous].next
    if has_key(&table.columns[guess], at[0], lim):
        at[0] += table.columns[guess].key_size
        return guess
    guess = table.columns[guess].next
    if has_key(&table.columns[guess], at[0], lim):
        at[0] += table.columns[guess].key_size
        return guess
    guess = look_up_key(table, at, lim, fault)
    if guess >= 0:
        table.columns[previous].next = guess
    return guess


cdef inline const uint8_t* read_field(
    Table* table, int32_t index, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the value at `p` into column `index`."""
    cdef Column* column
    if index == UNKNOWN_FIELD:
        table.unknown += 1
        return skip_value(p, lim, DATA_DEPTH, fault)
    column = &table.columns[index]
    if column.seen == table.serial:
        retract(table, column)
    else:
        column.seen = table.serial
        table.present += 1
    return put_value(table, column, p, lim, fault)


cdef inline const uint8_t* read_data(
    Table* table, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the data object at `p` into the row just begun and return what follows it, or NULL."""
    cdef int32_t previous = table.count  # the extraction time, which stands for the opening brace
    cdef int32_t index
    p = skip_space(p + 1)
    if p[0] == c"}":
        return p + 1
    while True:
        if p[0] != c'"':
            p = skip_space(p)
            if p[0] != c'"':
                return fail(fault, p, UNEXPECTED)
        index = next_column(table, previous, &p, lim, fault)
        if index == BROKEN_KEY:
            return NULL
        if p[0] != c":":
            p = skip_space(p)
            if p[0] != c":":
                return fail(fault, p, UNEXPECTED)
        p = read_field(table, index, skip_space(p + 1), lim, fault)
        if p == NULL:
            return NULL
        if index >= 0:
            previous = index
        if p[0] != c",":
            p = skip_space(p)
            if p[0] == c"}":
                return p + 1
            if p[0] != c",":
                return fail(fault, p, UNEXPECTED)
        p += 1


cdef inline Span changes_of(Span meta, const uint8_t* lim) noexcept nogil:
    """Return the text between the brackets of `changes` in a valid `meta`; empty if there is none."""
    cdef Span changes = member_of(meta, b"changes", 7, lim)
    if changes.start == NULL or changes.start[0] != c"[":
        changes.start = changes.end = NULL
        return changes
    changes.start = skip_space(changes.start + 1)
    changes.end -= 1
    while changes.end > changes.start and is_space((changes.end - 1)[0]):
        changes.end -= 1
    return changes


cdef inline bint put_meta(Table* table, Span changes, const uint8_t* lim) noexcept nogil:
    """Write `_airbyte_meta`: the record's own changes, then one for each refused value."""
    cdef Column* meta = &table.columns[table.count + 1]
    cdef Column* column
    cdef size_t n = table.meta_size + (changes.end - changes.start)
    cdef uint8_t* out
    cdef int i
    if changes.start == changes.end and not table.refused:
        return put_bytes(table, meta, table.meta, table.meta_size, table.meta + table.meta_size + SLACK)
    for i in range(table.count):
        if table.columns[i].failed == table.serial:
            n += table.columns[i].change_size + 1
    out = reserve(table, meta, n)
    if out == NULL:
        return False
    memcpy(out, table.meta, table.meta_size - 2)
    out += table.meta_size - 2
    n = changes.end - changes.start
    if n:
        memcpy(out, changes.start, n)
        out += n
    for i in range(table.count):
        column = &table.columns[i]
        if column.failed == table.serial:
            if n:
                out[0] = c","
                out += 1
            n = column.change_size
            memcpy(out, column.change, n)
            out += n
            table.nulled += 1
    out[0] = c"]"
    out[1] = c"}"
    end_text(table, meta, out + 2)
    return True


cdef inline bint finish_row(
    Table* table, bint timed, int64_t extracted, Span meta, const uint8_t* lim
) noexcept nogil:
    """Fill what the record left out and count the row; False when memory is short."""
    cdef int i
    cdef bint done = True
    if table.present != table.count:
        for i in range(table.count):
            if table.columns[i].seen != table.serial:
                done = done and put_null(table, &table.columns[i])
    if timed:
        put_int64(table, &table.columns[table.count], extracted)
    else:
        done = done and put_null(table, &table.columns[table.count])
    if not done or not put_meta(table, changes_of(meta, lim), lim):
        drop_row(table)
        return False
    table.rows += 1
    table.total_rows += 1
    table.unknown_fields += table.unknown
    return True
