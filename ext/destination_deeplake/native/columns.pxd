"""Column buffers under construction, one set per stream, in Arrow's layout.

A row is begun, its values are written at index `rows` of every column, and it is then finished, which counts it, or
dropped. Text begins at the end of the previous row's text, so only the validity bits of a dropped row must be
restored. A validity bitmap is made, with all bits set, at the first null of a batch; only nulls change it.
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
    MOST_ROWS = 50_000_000  # the offsets of their record ids, 36 bytes each, fit in int32
    FIRST_TEXT = 4096


cdef struct Column:  # three cache lines; an ordinary value touches only the first one
    Buffer values
    Buffer offsets  # only for variable kinds: int32, counted in items
    Buffer validity
    uint64_t seen  # serial of the last row with a value
    Kind kind
    bint exact  # numbers and moments only: whether values that it may have rounded are also kept as texts
    const uint8_t* name
    const uint8_t* key  # the name as most sources write it, with quotes and escapes
    uint32_t name_size
    uint32_t key_size
    int32_t next  # the column that followed this one in an earlier record
    int32_t parent  # the group to which the column belongs
    uint64_t failed  # serial of the last row whose value was refused
    uint64_t inexact  # serial of the last row with a number that may have been rounded
    const uint8_t* bad  # the value of the row `failed` or `inexact`
    int64_t nulls
    const uint8_t* change  # the entry of `_airbyte_meta.changes` for a refused value
    size_t change_size
    size_t hint  # expected number of bytes of values, from the previous batch
    const int64_t* shape  # FLOATS only; NULL: one dimension of any size
    int32_t dimensions
    int32_t item  # number of bytes of an item, which offsets count
    int32_t first  # of a group: its column that came first in an earlier record
    int32_t own  # of a group: the column that holds its whole value, or -1
    int64_t misfits  # number of values refused since the table was made
    int64_t first_misfit  # number of the record with the first refused value, from 1


cdef struct Refusals:  # values that became null, or may have been rounded, kept until the caller takes them
    bint wanted
    int64_t count
    Buffer rows  # int64, row numbers in the batch
    Buffer lines  # int64
    Buffer columns  # int32
    Buffer sizes  # int64, numbers of bytes of the whole texts
    Buffer offsets  # int32
    Buffer texts


cdef struct Field:  # of the stream's schema, in the order of the values in records without names
    const uint8_t* key  # the name as a JSON string
    size_t key_size
    int32_t column  # number of its column or group; -1: the value is skipped


cdef struct Table:
    # `count` columns from the schema, then extraction time and meta, then groups: objects whose members have columns.
    # As the group of top-level fields, the entry of the extraction time represents the data object itself.
    Column* columns
    void* allocated  # memory of the columns
    int32_t count
    int32_t groups
    int32_t files  # the group of `record.file_reference`, before that of `record.file`; 0: files are not read
    int32_t* slots  # hash table of column numbers, -1 empty
    uint32_t mask
    int64_t rows
    int64_t capacity
    int64_t row_hint
    uint64_t serial
    int32_t present  # number of columns that have a value in this row
    bint refused
    bint rounded  # a column has an inexact number in this row
    int64_t unknown
    int32_t level  # number of objects of the data around the current value
    int32_t whole  # from this level on, a column holds the whole value, so that no field is unknown; 0: none
    const uint8_t* value  # start of the current value
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
    Refusals numbers  # numbers that may have been rounded
    Field* fields
    int32_t field_count
    bint partitioned  # whether the records of each partition are counted
    Partitions partitions


cdef inline int width(Kind kind) noexcept nogil:
    """Return the number of bytes of a fixed-size value; 0 for values with offsets and for bits."""
    if is_variable(kind) or kind == BOOL:
        return 0
    return 4 if kind == DATE else 8


cdef inline bint is_variable(Kind kind) noexcept nogil:
    """Tell whether the values have offsets."""
    return kind == TEXT or kind >= JSON


cdef inline size_t bits(int64_t n) noexcept nogil:
    """Return the number of bytes that n bits take."""
    return <size_t>((n + 7) >> 3)


cdef inline bint in_trouble(Table* table, Trouble trouble) noexcept nogil:
    """Record why the row cannot be written, and return False."""
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
        # The columns began small during the upload of a batch; its buffers are used as soon as they are free.
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
    """Return the address for the text of this row's value, with room for `n` bytes and slack, or NULL."""
    cdef size_t used = (<int32_t*>column.offsets.data)[table.rows]
    if used + n + SLACK > column.values.capacity and not grow_text(table, column, used, used + n):
        return NULL
    return column.values.data + used


cdef inline void end_text(Table* table, Column* column, const uint8_t* end) noexcept nogil:
    """Record the end of the text of this row's value."""
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
    """Write a boolean; the first boolean of a byte clears the other bits."""
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
    """Forget the value of this row, because it was invalid, or because a later duplicate key replaces it."""
    cdef int64_t row = table.rows
    column.failed = column.inexact = 0
    if column.validity.data != NULL and not column.validity.data[row >> 3] & (1 << (row & 7)):
        column.validity.data[row >> 3] |= 1 << (row & 7)
        column.nulls -= 1


cdef inline void drop_row(Table* table) noexcept nogil:
    """Restore the state before this row."""
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
    """Remember that the column may have rounded the number, date or time of this row."""
    table.rounded = True
    column.inexact = table.serial
    column.bad = table.value
