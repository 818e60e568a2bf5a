"""One typed value of a record in Protocol Buffers -> one cell of a column.

A value is a message with one field; the last of several fields counts, as everywhere in protobuf. Values that a column
holds without conversion are written here. Other values (a number for a column of texts, a date that does not fit) are
left to `spelled`, which writes them as JSON, so that the rules of JSON messages apply.
"""

from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from destination_deeplake.native.columns cimport (
    BOOL,
    BYTES,
    DATE,
    EXACT,
    FLOAT64,
    FLOATS,
    INT64,
    JSON,
    NO_MEMORY,
    TEXT,
    TIME,
    TIME_TZ,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Column,
    Table,
    end_text,
    in_trouble,
    put_bit,
    put_bytes,
    put_int64,
    put_null,
    reserve,
)
from destination_deeplake.native.decimals cimport Decimal, read_decimal
from destination_deeplake.native.faults cimport BAD_TEXT, BAD_VALUE, Fault, Reason
from destination_deeplake.native.json cimport Span, is_space, skip_space, skip_value
from destination_deeplake.native.memory cimport SLACK, Buffer, grow
from destination_deeplake.native.protobuf cimport LENGTH, VARINT, FIXED64, Field, is_utf8, read_field, read_near_varint, read_varint, signed_of
from destination_deeplake.native.temporal cimport dl_instant
from destination_deeplake.native.values cimport DATA_DEPTH, put_base64, put_decimal, put_double, put_value


cdef extern from *:
    """
    /* Copy n bytes in steps of 32, which may touch up to 31 more on both sides, and tell whether all n are ASCII. */
    static inline int dl_copy_ascii(uint8_t *out, const uint8_t *p, size_t n)
    {
    #if defined(__SSE2__)
        uint64_t high = 0;
        size_t i = 0;
        do {
            __m128i v = _mm_loadu_si128((const __m128i *)(p + i));
            __m128i w = _mm_loadu_si128((const __m128i *)(p + i + 16));
            _mm_storeu_si128((__m128i *)(out + i), v);
            _mm_storeu_si128((__m128i *)(out + i + 16), w);
            uint64_t mask = (uint32_t)_mm_movemask_epi8(v) | (uint64_t)_mm_movemask_epi8(w) << 16;
            high |= n - i < 32 ? mask & (((uint64_t)1 << (n - i)) - 1) : mask;
            i += 32;
        } while (i < n);
        return !high;
    #else
        uint8_t high = 0;
        for (size_t i = 0; i < n; i++) {
            out[i] = p[i];
            high |= p[i];
        }
        return high < 0x80;
    #endif
    }
    """
    bint dl_copy_ascii(uint8_t* out, const uint8_t* p, size_t n) noexcept nogil


cdef enum Typed:  # the field numbers of a value
    UNSET
    BOOLEAN
    STRING
    INTEGER
    BIG_INTEGER
    NUMBER
    BIG_DECIMAL
    DATE_
    TIME_WITH_ZONE
    TIME_WITHOUT_ZONE
    MOMENT_WITH_ZONE
    MOMENT_WITHOUT_ZONE
    JSON_
    NULL_


cdef enum Cell:
    STORED
    UNUSUAL  # the record must be written as JSON
    SCATTERED  # so must a record with fields of its head after values
    BROKEN  # not a valid message; `reason` is set
    IN_TROUBLE  # the table's `trouble` is set


cdef enum:
    LONGEST_DIGITS = 80
    NANOS_PER_SECOND = 1_000_000_000
    NANOS_PER_DAY = 86_400_000_000_000
    MICROS_IN_DAY = 86_400_000_000
    FAR = 192  # number of bytes of a short value, and of the steps in which it is read


cdef struct Value:
    Typed kind
    int64_t number  # BOOLEAN, INTEGER; days of DATE_ and MOMENT_WITHOUT_ZONE, seconds since 1970 of MOMENT_WITH_ZONE
    double real
    uint64_t nanos  # nanoseconds of the day; of the second for MOMENT_WITH_ZONE
    int64_t offset  # seconds east of UTC
    Span bytes


cdef inline bint read_parts(Span message, Value* value) noexcept nogil:
    """Read the message of a time or a moment."""
    cdef const uint8_t* p = message.start
    cdef Field field
    cdef int nanos = 1 if value.kind == TIME_WITH_ZONE else 2
    value.number = value.offset = 0
    value.nanos = 0
    while p < message.end:
        if p[0] in (1 << 3, 2 << 3, 3 << 3):  # nearly all fields: a varint whose field number is one byte
            field.number = p[0] >> 3
            p = read_varint(p + 1, message.end, &field.value)
            field.type = VARINT
        else:
            p = read_field(p, message.end, &field)
        if p == NULL:
            return False
        if field.type != VARINT:
            continue
        if field.number == <uint64_t>nanos:
            value.nanos = <uint32_t>field.value if value.kind == MOMENT_WITH_ZONE else field.value
        elif field.number == 1:
            value.number = signed_of(field.value)
        elif field.number == <uint64_t>nanos + 1 and value.kind != MOMENT_WITHOUT_ZONE:
            value.offset = <int32_t>signed_of(<uint32_t>field.value)
    return True


cdef inline bint read_typed(const uint8_t* p, const uint8_t* end, Value* value) noexcept nogil:
    """Read a value; False if it is invalid."""
    cdef Field field
    value.kind = UNSET
    value.number = value.offset = 0
    value.nanos = 0
    value.real = 0
    value.bytes.start = value.bytes.end = p
    while p < end:
        p = read_field(p, end, &field)
        if p == NULL:
            return False
        if field.number in (BOOLEAN, INTEGER, DATE_, TIME_WITHOUT_ZONE, NULL_):
            if field.type == VARINT:
                value.kind = <Typed>field.number
                value.nanos = field.value
                value.number = field.value != 0 if value.kind == BOOLEAN else signed_of(field.value)
        elif field.number == NUMBER:
            if field.type == FIXED64:
                value.kind = NUMBER
                memcpy(&value.real, &field.value, 8)
        elif field.number <= JSON_ and field.type == LENGTH:
            value.kind = <Typed>field.number
            value.bytes = field.bytes
            if field.number in (TIME_WITH_ZONE, MOMENT_WITH_ZONE, MOMENT_WITHOUT_ZONE):
                if not read_parts(field.bytes, value):
                    return False
    return True


cdef inline const uint8_t* sentinelled(Table* table, Buffer* room, Span text) noexcept nogil:
    """Copy a text and add the newline that all functions on JSON expect at its end; NULL if memory is short.

    Newlines between values become blanks; newlines in strings, which are invalid JSON, become a control character.
    """
    cdef size_t n = text.end - text.start
    cdef uint8_t* p
    cdef uint8_t* end
    if not grow(table.pool, room, n + 1, 0):
        in_trouble(table, NO_MEMORY)
        return NULL
    memcpy(room.data, text.start, n)
    end = room.data + n
    end[0] = c"\n"
    p = <uint8_t*>memchr(room.data, c"\n", n)
    if p != NULL:
        blank_newlines(room.data, end)
    return room.data


cdef inline void blank_newlines(uint8_t* p, const uint8_t* end) noexcept nogil:
    """Turn newlines outside of strings into blanks, and those in strings into a control character that JSON refuses."""
    cdef bint inside = False
    while p < end:
        if p[0] == c"\n":
            p[0] = 1 if inside else c" "
        elif p[0] == c"\\":
            p += inside and p + 1 < end
        elif p[0] == c'"':
            inside = not inside
        p += 1


cdef inline Cell put_document(Table* table, Column* column, Span text, Reason* reason) noexcept nogil:
    """Write a JSON value into a column of JSON; it is validated in the column's buffer."""
    cdef Fault fault
    cdef size_t n = text.end - text.start
    cdef uint8_t* out = reserve(table, column, n)
    cdef const uint8_t* end
    if out == NULL:
        return IN_TROUBLE
    memcpy(out, text.start, n)
    out[n] = c"\n"  # within the slack
    if n == 4 and memcmp(out, b"null", 4) == 0:
        return STORED if put_null(table, column) else IN_TROUBLE
    if is_space(out[0]):
        return UNUSUAL
    end = skip_value(out, column.values.data + column.values.capacity, DATA_DEPTH, &fault)
    if (end == NULL or skip_space(end) != out + n) and memchr(out, c"\n", n) != NULL:
        blank_newlines(out, out + n)
        if is_space(out[0]):
            return UNUSUAL
        end = skip_value(out, column.values.data + column.values.capacity, DATA_DEPTH, &fault)
    if end == NULL or skip_space(end) != out + n:
        reason[0] = BAD_VALUE
        return BROKEN
    end_text(table, column, end)
    return STORED


cdef inline Cell put_json(Table* table, Column* column, Buffer* room, Span text, Reason* reason) noexcept nogil:
    """Write a JSON value."""
    cdef Fault fault
    cdef const uint8_t* p = sentinelled(table, room, text)
    cdef const uint8_t* end
    if p == NULL:
        return IN_TROUBLE
    fault.at = NULL
    p = skip_space(p)
    end = put_value(table, column, p, room.data + room.capacity, &fault)
    if end == NULL and fault.at == NULL:
        return IN_TROUBLE
    if end == NULL or skip_space(end) != room.data + (text.end - text.start):
        reason[0] = BAD_VALUE
        return BROKEN
    return STORED


cdef inline Cell put_digits_of(Table* table, Column* column, const Value* value) noexcept nogil:
    """Write a number that the source spelled as digits."""
    cdef uint8_t[LONGEST_DIGITS + 16] text
    cdef Decimal number
    cdef size_t n = value.bytes.end - value.bytes.start
    if column.kind not in (FLOAT64, INT64, EXACT) or n > LONGEST_DIGITS:
        return UNUSUAL
    memcpy(text, value.bytes.start, n)
    text[n] = c"\n"
    if read_decimal(text, False, &number) != &text[n]:
        return UNUSUAL
    return STORED if put_decimal(table, column, &number, text, &text[n]) else IN_TROUBLE


cdef inline Cell put_text(Table* table, Column* column, const Value* value, const uint8_t* lim, Reason* reason) noexcept nogil:
    """Write a string if the column needs no conversion."""
    cdef const uint8_t* p = value.bytes.start
    cdef size_t n = value.bytes.end - p
    if column.kind == TEXT:
        if not is_utf8(p, value.bytes.end):
            reason[0] = BAD_TEXT
            return BROKEN
        return STORED if put_bytes(table, column, p, n, lim) else IN_TROUBLE
    if column.kind == BYTES and (n == 0 or memchr(p, c"\\", n) == NULL):
        return STORED if put_base64(table, column, p, value.bytes.end) else IN_TROUBLE
    return UNUSUAL


cdef inline Cell put_moment(Table* table, Column* column, const Value* value) noexcept nogil:
    """Write a date, time or moment, unless it would be rounded and its column must keep rounded values."""
    cdef int64_t micros = value.nanos // 1000
    if value.kind != DATE_ and column.exact and value.nanos % 1000:
        return UNUSUAL
    if value.kind == DATE_:
        if column.kind != DATE or not INT32_MIN <= value.number <= INT32_MAX:
            return UNUSUAL
        (<int32_t*>column.values.data)[table.rows] = <int32_t>value.number
        return STORED
    if value.kind == MOMENT_WITH_ZONE:
        if column.kind != TIMESTAMP_TZ or value.nanos >= NANOS_PER_SECOND:
            return UNUSUAL
        if value.number == INT64_MIN or not dl_instant(0, micros, -value.number, &micros):
            return UNUSUAL
    elif value.nanos >= NANOS_PER_DAY:
        return UNUSUAL
    elif value.kind == MOMENT_WITHOUT_ZONE:
        if column.kind != TIMESTAMP or not dl_instant(value.number, micros, 0, &micros):
            return UNUSUAL
    elif value.kind == TIME_WITH_ZONE:
        if column.kind != TIME_TZ or not -86400 < value.offset < 86400:
            return UNUSUAL
        micros = (micros - value.offset * 1_000_000 + <int64_t>MICROS_IN_DAY) % <int64_t>MICROS_IN_DAY
    elif column.kind != TIME:
        return UNUSUAL
    put_int64(table, column, micros)
    return STORED


cdef inline bint put_plain(
    Table* table, Column* column, const uint8_t* p, const uint8_t* end, const uint8_t* lim, Reason* reason
) noexcept nogil:
    """Write a value of the usual form: one field that its column holds without conversion; else return False."""
    cdef uint64_t bits, nanos = 0
    cdef size_t used, n
    cdef uint8_t* out
    cdef Span text
    if lim - p < FAR:  # the reads below may extend beyond a truncated value
        return False
    if p[0] == STRING << 3 | LENGTH:
        n = p[1]
        if column.kind != TEXT or n >= 0x80 or p + 2 + n != end:
            return False
        used = (<int32_t*>column.offsets.data)[table.rows]
        if used + n + SLACK > column.values.capacity:
            return False
        out = column.values.data + used
        if not dl_copy_ascii(out, p + 2, n) and not is_utf8(out, out + n):
            return False
        end_text(table, column, out + n)
        return True
    if p[0] == INTEGER << 3:
        if column.kind != INT64 or read_near_varint(p + 1, end, &bits) != end:
            return False
        return put_int64(table, column, signed_of(bits))
    if p[0] == MOMENT_WITH_ZONE << 3 | LENGTH:
        if column.kind != TIMESTAMP_TZ or p + 2 + p[1] != end or p[2] != 1 << 3:
            return False
        p = read_near_varint(p + 3, end, &bits)
        if p != NULL and p != end and p[0] == 2 << 3:
            p = read_near_varint(p + 1, end, &nanos)
            if column.exact and nanos % 1000:
                return False
        if p != end or nanos >= NANOS_PER_SECOND or bits >> 43:
            return False
        return put_int64(table, column, signed_of(bits) * 1_000_000 + <int64_t>(nanos // 1000))
    if p[0] == JSON_ << 3 | LENGTH:
        p = read_varint(p + 1, end, &bits)
        if column.kind != JSON or p == NULL or <uint64_t>(end - p) != bits:
            return False
        text.start = p
        text.end = end
        return put_document(table, column, text, reason) == STORED
    if p[0] == NULL_ << 3:
        return end - p == 2 and p[1] < 0x80 and put_null(table, column)
    if p[0] == NUMBER << 3 | FIXED64:
        if column.kind != FLOAT64 or end - p != 9:
            return False
        memcpy(&(<double*>column.values.data)[table.rows], p + 1, 8)
        return True
    if p[0] == BOOLEAN << 3 and column.kind == BOOL and end - p == 2 and p[1] < 0x80:
        put_bit(column, table.rows, p[1] != 0)
        return True
    return False


cdef inline Cell put_typed(
    Table* table, Column* column, const Value* value, Buffer* room, const uint8_t* lim, Reason* reason
) noexcept nogil:
    """Write a value without conversion, if its column holds such values."""
    if value.kind == UNSET or value.kind == NULL_:
        return STORED if put_null(table, column) else IN_TROUBLE
    if value.kind == STRING:
        return put_text(table, column, value, lim, reason)
    if value.kind == INTEGER:
        if column.kind == INT64:
            put_int64(table, column, value.number)
            return STORED
        if column.kind == FLOAT64 and -(<int64_t>1 << 53) <= value.number <= <int64_t>1 << 53:
            put_double(table, column, <double>value.number)
            return STORED
        return UNUSUAL
    if value.kind == NUMBER:
        if column.kind == FLOAT64:
            put_double(table, column, value.real)
            return STORED
        return UNUSUAL
    if value.kind == BOOLEAN:
        if column.kind == BOOL:
            put_bit(column, table.rows, value.number)
            return STORED
        return UNUSUAL
    if value.kind == JSON_:
        if column.kind == JSON:
            return put_document(table, column, value.bytes, reason)
        if column.kind == TEXT or column.kind == FLOATS:
            return put_json(table, column, room, value.bytes, reason)
        return UNUSUAL
    if value.kind == BIG_INTEGER or value.kind == BIG_DECIMAL:
        return put_digits_of(table, column, value)
    return put_moment(table, column, value)
