"""Column buffers under construction, one set per stream, in Arrow's layout.

A row is begun, its values written at index `rows` of every column, and then finished, which makes it count,
or dropped. Text begins at the end of the row before, so a dropped row leaves nothing to clean but its
validity bits. A validity bitmap exists from the first null of a batch on and is born all ones: only nulls
touch it.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from destination_deeplake.native.memory cimport SLACK, Buffer, FreeList, change_to_free, grow
from destination_deeplake.native.partitions cimport Partitions


cdef enum Kind:  # the numbers of columns.Kind
    TEXT
    INT64
    FLOAT64
    BOOL
    TIMESTAMP_TZ
    TIMESTAMP
    DATE
    TIME_TZ
    TIME
    JSON
    EXACT
    BYTES
    FLOATS


cdef enum Trouble:
    NO_TROUBLE
    NO_MEMORY
    TOO_LARGE


cdef enum:
    FIRST_ROWS = 256
    MOST_ROWS = 50_000_000  # 36 bytes of record id each stay within int32 offsets
    FIRST_TEXT = 4096


cdef struct Column:  # three lines of the cache, of which a value that needs nothing special touches the first
    Buffer values
    Buffer offsets  # variable kinds only, int32, in items
    Buffer validity
    uint64_t seen  # serial of the row that has a value
    Kind kind
    bint exact  # numbers and moments only: whether those that it may not hold to the last digit are kept as texts, too
    const uint8_t* name
    const uint8_t* key  # the name as most sources write it, with quotes and escapes
    uint32_t name_size
    uint32_t key_size
    int32_t next  # the column that came after this one in an earlier record
    int32_t parent  # the group whose object it is in
    uint64_t failed  # serial of the row whose value was refused
    uint64_t inexact  # serial of the row with a number that it may not hold to the last digit
    const uint8_t* bad  # the value of `failed` and `inexact`
    int64_t nulls
    const uint8_t* change  # the entry of `_airbyte_meta.changes` for a refused value
    size_t change_size
    size_t hint  # bytes of values in the batch before
    const int64_t* shape  # FLOATS only; NULL: one dimension of any size
    int32_t dimensions
    int32_t item  # bytes of what an offset counts
    int32_t first  # of a group: the column inside that came first in an earlier record
    int32_t own  # of a group: the column that keeps its whole value, or -1
    int64_t misfits  # values that were refused, since the table was made
    int64_t first_misfit  # number of the record with the first of them, from 1


cdef struct Refusals:  # values that became null, or may have been rounded, kept for whoever asks
    bint wanted
    int64_t count
    Buffer rows  # int64, of the batch
    Buffer lines  # int64
    Buffer columns  # int32
    Buffer sizes  # int64, bytes of the whole text
    Buffer offsets  # int32
    Buffer texts


cdef struct Field:  # of the stream's schema, in the order in which records without names have their values
    const uint8_t* key  # its name as a string of JSON
    size_t key_size
    int32_t column  # or group; -1: it is not wanted


cdef struct Table:
    # `count` columns from the schema, then extraction time and meta, then groups: objects with columns inside. The
    # extraction time stands for the data object itself, as the group around its fields.
    Column* columns
    void* allocated  # for them
    int32_t count
    int32_t groups
    int32_t files  # the group of `record.file_reference`, the one of `record.file` behind it; 0: not wanted
    int32_t* slots  # hash table of column numbers, -1 empty
    uint32_t mask
    int64_t rows
    int64_t capacity
    int64_t row_hint
    uint64_t serial
    int32_t present  # columns that have a value in this row
    bint refused
    bint rounded  # a column has an inexact number in this row
    int64_t unknown
    int32_t level  # objects around the current one, inside of data
    int32_t whole  # the level from which on a column keeps everything, so that nothing is unknown; 0: none
    const uint8_t* value  # where the current one starts
    const uint8_t* meta  # of a row without changes, with slack; changes go in before its last two bytes
    size_t meta_size
    Buffer scratch
    FreeList* pool
    Trouble trouble
    int64_t total_rows
    int64_t unknown_fields
    int64_t nulled
    int64_t rejected
    Refusals refusals
    Refusals numbers  # the inexact ones
    Field* fields
    int32_t field_count
    bint partitioned  # whether the records of each partition are counted
    Partitions partitions


cdef inline int width(Kind kind) noexcept nogil:
    """Return bytes per fixed-size value; 0 for values with offsets and for bits."""
    if is_variable(kind) or kind == BOOL:
        return 0
    return 4 if kind == DATE else 8


cdef inline bint is_variable(Kind kind) noexcept nogil:
    """Tell whether the values have offsets."""
    return kind == TEXT or kind >= JSON


cdef inline size_t bits(int64_t n) noexcept nogil:
    """Return the bytes that n bits take."""
    return <size_t>((n + 7) >> 3)


cdef inline bint in_trouble(Table* table, Trouble trouble) noexcept nogil:
    """Note why the row cannot be written and return False."""
    table.trouble = trouble
    return False


cdef inline bint grow_rows(Table* table) noexcept nogil:
    """Make room for more rows in every column."""
    cdef Column* column
    cdef int64_t used = table.rows
    cdef int64_t rows = table.capacity + (table.capacity >> (0 if table.capacity < 1 << 16 else 1))
    cdef int i
    cdef bint done
    if rows == 0:
        rows = FIRST_ROWS if table.partitioned else max(<int64_t>FIRST_ROWS, table.row_hint)
    if rows < table.row_hint:
        # Begun small beside a batch that was written; what that leaves is taken at once.
        column = &table.columns[table.count]
        if change_to_free(table.pool, &column.values, table.row_hint * width(column.kind), used * width(column.kind)):
            rows = table.row_hint
    if rows > MOST_ROWS:
        return in_trouble(table, TOO_LARGE)
    for i in range(table.count + 2):
        column = &table.columns[i]
        if is_variable(column.kind):
            done = grow(table.pool, &column.offsets, (rows + 1) * 4, (used + 1) * 4 if table.capacity else 0)
            if done and table.capacity == 0:
                (<int32_t*>column.offsets.data)[0] = 0
        elif column.kind == BOOL:
            done = grow(table.pool, &column.values, bits(rows), bits(used))
        else:
            done = grow(table.pool, &column.values, rows * width(column.kind), used * width(column.kind))
        if done and column.validity.data != NULL:
            done = grow(table.pool, &column.validity, bits(rows), bits(used))
            if done:
                memset(column.validity.data + bits(used), 0xFF, bits(rows) - bits(used))
        if not done:
            return in_trouble(table, NO_MEMORY)
    table.capacity = rows
    return True


cdef inline bint begin_row(Table* table) noexcept nogil:
    """Begin a row."""
    if table.rows == table.capacity and not grow_rows(table):
        return False
    table.serial += 1
    table.present = 0
    table.refused = table.rounded = False
    table.unknown = 0
    return True


cdef inline bint grow_text(Table* table, Column* column, size_t used, size_t need) noexcept nogil:
    """Make room for text that does not fit the column."""
    cdef size_t n
    if need > INT32_MAX:
        return in_trouble(table, TOO_LARGE)
    if need <= column.hint and change_to_free(table.pool, &column.values, column.hint, used):
        return True
    n = column.values.capacity + (column.values.capacity >> (0 if used < 1 << 20 else 1))
    n = max(min(n, <size_t>INT32_MAX), need)
    if used == 0:
        n = max(n, <size_t>FIRST_TEXT, <size_t>0 if table.partitioned else column.hint)
    if not grow(table.pool, &column.values, n, used):
        return in_trouble(table, NO_MEMORY)
    return True


cdef inline uint8_t* reserve(Table* table, Column* column, size_t n) noexcept nogil:
    """Return where the text of this row's value goes, with room for `n` bytes and slack, or NULL."""
    cdef size_t used = (<int32_t*>column.offsets.data)[table.rows]
    if used + n + SLACK > column.values.capacity and not grow_text(table, column, used, used + n):
        return NULL
    return column.values.data + used


cdef inline void end_text(Table* table, Column* column, const uint8_t* end) noexcept nogil:
    """Note where the text of this row's value ends."""
    (<int32_t*>column.offsets.data)[table.rows + 1] = <int32_t>(end - column.values.data)


cdef inline bint put_bytes(
    Table* table, Column* column, const uint8_t* p, size_t n, const uint8_t* lim
) noexcept nogil:
    """Write text."""
    cdef uint8_t* out = reserve(table, column, n)
    cdef size_t i = 0
    if out == NULL:
        return False
    if n <= SLACK and lim - p >= SLACK:
        while i < n:
            memcpy(out + i, p + i, 16)
            i += 16
    else:
        memcpy(out, p, n)
    end_text(table, column, out + n)
    return True


cdef inline void put_bit(Column* column, int64_t row, bint value) noexcept nogil:
    """Write a boolean; the first of a byte clears the other seven."""
    if row & 7:
        column.values.data[row >> 3] &= ~(1 << (row & 7))
        column.values.data[row >> 3] |= value << (row & 7)
    else:
        column.values.data[row >> 3] = value


cdef inline bint put_null(Table* table, Column* column) noexcept nogil:
    """Write a null."""
    cdef int64_t row = table.rows
    if column.validity.data == NULL:
        if not grow(table.pool, &column.validity, bits(table.capacity), 0):
            return in_trouble(table, NO_MEMORY)
        memset(column.validity.data, 0xFF, bits(table.capacity))
    column.validity.data[row >> 3] &= ~(1 << (row & 7))
    column.nulls += 1
    if is_variable(column.kind):
        (<int32_t*>column.offsets.data)[row + 1] = (<int32_t*>column.offsets.data)[row]
    elif column.kind == BOOL:
        put_bit(column, row, False)
    elif column.kind == DATE:
        (<int32_t*>column.values.data)[row] = 0
    else:
        (<int64_t*>column.values.data)[row] = 0
    return True


cdef inline bint put_int64(Table* table, Column* column, int64_t value) noexcept nogil:
    """Write a 64-bit value."""
    (<int64_t*>column.values.data)[table.rows] = value
    return True


cdef inline void retract(Table* table, Column* column) noexcept nogil:
    """Forget the value of this row: it did not count, or a later duplicate key replaces it."""
    cdef int64_t row = table.rows
    column.failed = column.inexact = 0
    if column.validity.data != NULL and not column.validity.data[row >> 3] & (1 << (row & 7)):
        column.validity.data[row >> 3] |= 1 << (row & 7)
        column.nulls -= 1


cdef inline void drop_row(Table* table) noexcept nogil:
    """Leave the rows as they were before this one."""
    cdef int i
    for i in range(table.count + 2):
        retract(table, &table.columns[i])
    forget_kept(&table.refusals, table.rows)
    forget_kept(&table.numbers, table.rows)


cdef inline void forget_kept(Refusals* kept, int64_t row) noexcept nogil:
    """Forget the values of the last row."""
    while kept.count and (<int64_t*>kept.rows.data)[kept.count - 1] == row:
        kept.count -= 1


cdef inline bint refuse(Table* table, Column* column) noexcept nogil:
    """Write a null for a value that the column cannot hold, and remember it."""
    table.refused = True
    column.failed = table.serial
    column.bad = table.value
    return put_null(table, column)


cdef inline void note_number(Table* table, Column* column) noexcept nogil:
    """Remember that the column may not hold the number, date or time of this row to the last digit."""
    table.rounded = True
    column.inexact = table.serial
    column.bad = table.value
