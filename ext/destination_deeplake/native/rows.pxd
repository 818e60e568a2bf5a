"""The `data` object of a record -> one row.

Records of one stream usually have their fields in the same order. So a key is compared with the key that came next in
the last record, then with the one after it (if an optional field is missing), and only then looked up in the hash
table.

An object whose members have columns is a group: its members are read by the same loop, one level deeper, with their
own keys. Groups may be nested as deep as a column's path is long.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
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
from destination_deeplake.native.partitions cimport count_record
from destination_deeplake.native.refusals cimport MOST_VALUE, keep_value
from destination_deeplake.native.values cimport DATA_DEPTH, put_value


cdef enum:
    UNKNOWN_FIELD = -1
    BROKEN_KEY = -2


cdef struct Record:  # the values of its members as written
    Span stream
    Span space
    Span data
    Span emitted
    Span meta
    Span reference
    Span file
    Span partition  # the text of its id
    int32_t index  # of its stream
    Table* table  # contains the row that was begun


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


cdef inline uint32_t hash_key(int32_t group, const uint8_t* name, size_t n) noexcept nogil:
    """Return a 32-bit hash of a name in a group."""
    return hash_text(name, n) + <uint32_t>group * <uint32_t>0x9E3779B1


cdef inline int32_t find_column(
    const Table* table, int32_t group, const uint8_t* name, size_t n
) noexcept nogil:
    """Return the number of the column, or of the group, that has this name in `group`; or UNKNOWN_FIELD."""
    cdef uint32_t slot = hash_key(group, name, n) & table.mask
    cdef int32_t index = table.slots[slot]
    cdef const Column* column
    while index >= 0:
        column = &table.columns[index]
        if column.parent == group and column.name_size == n and memcmp(column.name, name, n) == 0:
            return index
        slot = (slot + 1) & table.mask
        index = table.slots[slot]
    return UNKNOWN_FIELD


cdef inline bint has_key(const Column* column, const uint8_t* p, const uint8_t* lim) noexcept nogil:
    """Tell whether the key of this column, as most sources write it, is at `p`."""
    return lim - p >= <Py_ssize_t>column.key_size and dl_same(p, column.key, column.key_size)


cdef inline int32_t look_up_key(
    Table* table, int32_t group, const uint8_t** at, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read any key and return its column; `at` moves to the byte after the closing quote."""
    cdef bint escaped, lone
    cdef const uint8_t* name = at[0] + 1
    cdef const uint8_t* end = string_end(name, lim, &escaped, fault)
    cdef uint8_t* plain
    if end == NULL:
        return BROKEN_KEY
    at[0] = end + 1
    if not escaped:
        return find_column(table, group, name, end - name)
    if not grow(table.pool, &table.scratch, end - name, 0):
        in_trouble(table, NO_MEMORY)
        return BROKEN_KEY
    plain = unescape(name, end, table.scratch.data, &lone)
    return find_column(table, group, table.scratch.data, plain - table.scratch.data)


cdef inline int32_t next_column(
    Table* table, int32_t group, int32_t* guess, const uint8_t** at, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the key at `at`, a name in `group`, and return its column or group; it is likely to be `guess`."""
    cdef int32_t index = guess[0]
    if has_key(&table.columns[index], at[0], lim):
        at[0] += table.columns[index].key_size
        return index
    index = table.columns[index].next
    if has_key(&table.columns[index], at[0], lim):
        at[0] += table.columns[index].key_size
        return index
    index = look_up_key(table, group, at, lim, fault)
    if index >= 0:
        guess[0] = index
    return index


cdef inline const uint8_t* read_field(
    Table* table, int32_t index, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the value at `p` into column `index`."""
    cdef Column* column = &table.columns[index]
    if column.seen == table.serial:
        retract(table, column)
    else:
        column.seen = table.serial
        table.present += 1
    return put_value(table, column, p, lim, fault)


cdef inline const uint8_t* skip_unknown(
    Table* table, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Skip the value of a field that has no column."""
    table.unknown += table.whole == 0
    return skip_value(p, lim, DATA_DEPTH + table.level, fault)


cdef inline void forget_group(Table* table, int32_t group) noexcept nogil:
    """Forget the values that an earlier value of a group put into its columns: the last of duplicate keys counts."""
    cdef Column* column
    cdef int32_t around
    cdef int32_t i
    for i in range(table.count + 2 + table.groups):
        column = &table.columns[i]
        if column.seen != table.serial:
            continue
        around = column.parent
        while around > group:  # the groups that contain a group have smaller numbers
            around = table.columns[around].parent
        if around == group:
            retract(table, column)
            column.seen = 0
            table.present -= i < table.count


cdef inline const uint8_t* read_group(
    Table* table, int32_t index, const uint8_t* p, const uint8_t* lim, bint* inside, Fault* fault
) noexcept nogil:
    """Read the value of a group at `p`; `inside` becomes True if its members come next, at the returned brace."""
    cdef Column* group = &table.columns[index]
    cdef const uint8_t* end
    if group.seen == table.serial:
        retract(table, group)
        forget_group(table, index)
    group.seen = table.serial
    inside[0] = p[0] == c"{" and group.first != table.count
    if group.own >= 0:
        end = read_field(table, group.own, p, lim, fault)
        return p if inside[0] and end != NULL else end
    if inside[0]:
        return p
    end = skip_value(p, lim, DATA_DEPTH + table.level, fault)
    if p[0] != c"n":
        table.refused = True
        group.failed = table.serial
        group.bad = p
    return end


cdef inline const uint8_t* read_members(
    Table* table, int32_t top, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the object at `p`, which is that of group `top`, into the row just begun; return its end, or NULL."""
    cdef int32_t group = top
    cdef int32_t* guess = &table.columns[top].first
    cdef int32_t index
    cdef bint inside
    p = skip_space(p + 1)
    if p[0] == c"}":
        return p + 1
    while True:
        if p[0] != c'"':
            p = skip_space(p)
            if p[0] != c'"':
                return fail(fault, p, UNEXPECTED)
        index = next_column(table, group, guess, &p, lim, fault)
        if index == BROKEN_KEY:
            return NULL
        if p[0] != c":":
            p = skip_space(p)
            if p[0] != c":":
                return fail(fault, p, UNEXPECTED)
        p = skip_space(p + 1)
        if <uint32_t>index < <uint32_t>table.count:
            guess = &table.columns[index].next
            p = read_field(table, index, p, lim, fault)
        elif index == UNKNOWN_FIELD:
            p = skip_unknown(table, p, lim, fault)
        else:
            guess = &table.columns[index].next
            p = read_group(table, index, p, lim, &inside, fault)
            if p != NULL and inside:
                group = index
                guess = &table.columns[group].first
                table.level += 1
                if table.whole == 0 and table.columns[group].own >= 0:
                    table.whole = table.level
                p = skip_space(p + 1)
                if p[0] != c"}":
                    continue
        if p == NULL:
            return NULL
        # A value ends here: close the objects that end, or go to the next key.
        while p[0] != c",":
            p = skip_space(p)
            if p[0] == c",":
                break
            if p[0] != c"}":
                return fail(fault, p, UNEXPECTED)
            p += 1
            if group == top:
                return p
            if table.whole == table.level:
                table.whole = 0
            table.level -= 1
            guess = &table.columns[group].next
            group = table.columns[group].parent
        p += 1


cdef inline const uint8_t* read_data(
    Table* table, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the data object at `p` into the row just begun; return its end, or NULL."""
    table.level = 0
    table.whole = 0
    return read_members(table, table.count, p, lim, fault)


cdef inline bint read_reference(Table* table, const Record* record, const uint8_t* lim) noexcept nogil:
    """Read the file of a validated record, in the current form or the older one; False if memory is short."""
    cdef Fault fault
    cdef int32_t group = table.files
    cdef Span value = record.reference
    if value.start == NULL or value.start[0] == c"n":
        value = record.file
        group += 1
    if value.start == NULL or value.start[0] == c"n":
        return True
    if value.start[0] == c"{":
        table.level = 0
        table.whole = -1  # other members are not counted as unknown
        return read_members(table, group, value.start, lim, &fault) != NULL
    table.refused = True
    table.columns[group].failed = table.serial
    table.columns[group].bad = value.start
    return True


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


cdef inline bint put_meta(Table* table, Span changes, const uint8_t* lim, int64_t line) noexcept nogil:
    """Write `_airbyte_meta`: the record's own changes, then one for each refused value."""
    cdef Column* meta = &table.columns[table.count + 1]
    cdef Column* column
    cdef int32_t all = table.count + 2 + table.groups
    cdef size_t n = table.meta_size + (changes.end - changes.start)
    cdef uint8_t* out
    cdef int32_t i
    if changes.start == changes.end and not table.refused:
        return put_bytes(table, meta, table.meta, table.meta_size, table.meta + table.meta_size + SLACK)
    for i in range(all):
        if table.columns[i].failed == table.serial:
            n += table.columns[i].change_size + 1
            if table.refusals.wanted and not keep_value(
                table, &table.refusals, MOST_VALUE, i, table.columns[i].bad, lim, line
            ):
                return False
    out = reserve(table, meta, n)
    if out == NULL:
        return False
    memcpy(out, table.meta, table.meta_size - 2)
    out += table.meta_size - 2
    n = changes.end - changes.start
    if n:
        memcpy(out, changes.start, n)
        out += n
    for i in range(all):
        column = &table.columns[i]
        if column.failed == table.serial:
            if n:
                out[0] = c","
                out += 1
            n = column.change_size
            memcpy(out, column.change, n)
            out += n
            table.nulled += 1
            column.misfits += 1
            if column.misfits == 1:
                column.first_misfit = table.total_rows + 1
    out[0] = c"]"
    out[1] = c"}"
    end_text(table, meta, out + 2)
    return True


cdef inline bint keep_numbers(Table* table, const uint8_t* lim, int64_t line) noexcept nogil:
    """Keep the numbers of this row that may have been rounded; False if memory is short."""
    cdef int32_t i
    for i in range(table.count):
        if table.columns[i].inexact == table.serial and not keep_value(
            table, &table.numbers, INT32_MAX, i, table.columns[i].bad, lim, line
        ):
            return False
    return True


cdef inline bint finish_row(
    Table* table, bint timed, int64_t extracted, const Record* record, const uint8_t* lim, int64_t line
) noexcept nogil:
    """Fill the columns missing in the record of line number `line`, and count the row; False if memory is short."""
    cdef int i
    cdef bint done = table.files == 0 or read_reference(table, record, lim)
    if table.present != table.count:
        for i in range(table.count):
            if table.columns[i].seen != table.serial:
                done = done and put_null(table, &table.columns[i])
    if timed:
        put_int64(table, &table.columns[table.count], extracted)
    else:
        done = done and put_null(table, &table.columns[table.count])
    if table.rounded:
        done = done and keep_numbers(table, lim, line)
    if not done or not put_meta(table, changes_of(record.meta, lim), lim, line):
        drop_row(table)
        return False
    if table.partitioned and not count_record(table.pool, &table.partitions, record.partition):
        drop_row(table)
        return False
    table.rows += 1
    table.total_rows += 1
    table.unknown_fields += table.unknown
    return True
