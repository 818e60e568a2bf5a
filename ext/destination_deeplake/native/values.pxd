"""One JSON value -> one cell of a column.

A value that its column cannot hold becomes a null and an entry of `_airbyte_meta.changes`; a JSON null becomes a null
without an entry. Numbers may be strings, and integers may be floats, because real sources send both.
"""

from libc.math cimport INFINITY, NAN, fabs, isfinite, isnan, rint
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from destination_deeplake.native.base64 cimport base64_room, decode_base64
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
    note_number,
    put_bit,
    put_bytes,
    put_int64,
    put_null,
    refuse,
    reserve,
)
from destination_deeplake.native.decimals cimport Decimal, decimal_to_double, decimal_to_int64, read_decimal
from destination_deeplake.native.faults cimport BAD_NUMBER, UNEXPECTED, Fault, fail
from destination_deeplake.native.floats cimport FITS, NO_FIT, NO_SPACE, Fit, put_numbers
from destination_deeplake.native.json cimport (
    Span,
    compact,
    is_digit,
    skip_space,
    skip_value,
    string_end,
    unescape,
)
from destination_deeplake.native.memory cimport grow
from destination_deeplake.native.temporal cimport Moment, dl_instant, read_clock, read_moment


cdef enum:
    DATA_DEPTH = 3  # number of containers around a value of record.data
    MICROS_PER_DAY = 86_400_000_000
    FIFTEEN_DIGITS = 1_000_000_000_000_000


cdef extern from "<float.h>":
    const double SMALLEST_NORMAL "DBL_MIN"


cdef inline bint put_double(Table* table, Column* column, double value) noexcept nogil:
    """Write a double."""
    (<double*>column.values.data)[table.rows] = value
    return True


cdef inline bint is_surely_held(const Decimal* number, double value) noexcept nogil:
    """Tell whether a number is surely the shortest one that becomes its double, as with at most fifteen digits."""
    if number.cut or not isfinite(value):
        return False
    if number.digits < FIFTEEN_DIGITS:
        return number.digits == 0 or fabs(value) >= SMALLEST_NORMAL
    return number.exponent == 0 and number.digits <= <uint64_t>1 << 53


cdef inline bint put_decimal(
    Table* table, Column* column, const Decimal* number, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Write the number whose text is [p, end)."""
    cdef int64_t whole
    cdef double value
    if column.kind == FLOAT64:
        value = decimal_to_double(number, p, end)
        if column.exact and not is_surely_held(number, value):
            note_number(table, column)
        if isfinite(value):
            return put_double(table, column, value)
        if isnan(value):
            return in_trouble(table, NO_MEMORY)
    elif column.kind == INT64:
        if decimal_to_int64(number, &whole):
            return put_int64(table, column, whole)
        if column.exact:
            note_number(table, column)
    elif column.kind == BOOL:
        if decimal_to_int64(number, &whole) and (whole == 0 or whole == 1):
            put_bit(column, table.rows, whole)
            return True
    elif column.kind == EXACT:
        return put_bytes(table, column, p, end - p, end)
    return refuse(table, column)


cdef inline bint spells(const uint8_t* p, const uint8_t* end, const char* name, Py_ssize_t n) noexcept nogil:
    """Tell whether [p, end) is `name`, of `n` bytes."""
    return end - p == n and memcmp(p, name, n) == 0


cdef inline bint spells_in_any_case(
    const uint8_t* p, const uint8_t* end, const char* name, Py_ssize_t n
) noexcept nogil:
    """Tell whether [p, end) is the lower-case `name`, of `n` letters, in any case."""
    cdef Py_ssize_t i
    if end - p != n:
        return False
    for i in range(n):
        if (p[i] | 0x20) != <uint8_t>name[i]:
            return False
    return True


cdef inline bint put_number_text(
    Table* table, Column* column, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Write the number that the text [p, end) of a string spells."""
    cdef Decimal number
    if read_decimal(p, True, &number) == end:
        return put_decimal(table, column, &number, p, end)
    if column.kind == EXACT:
        if spells(p, end, b"NaN", 3) or spells(p, end, b"Infinity", 8) or spells(p, end, b"-Infinity", 9):
            return put_bytes(table, column, p, end - p, end)
    elif column.kind == FLOAT64:
        if spells(p, end, b"NaN", 3):
            return put_double(table, column, NAN)
        if spells(p, end, b"Infinity", 8):
            return put_double(table, column, INFINITY)
        if spells(p, end, b"-Infinity", 9):
            return put_double(table, column, -INFINITY)
    return refuse(table, column)


cdef inline bint put_moment_text(
    Table* table, Column* column, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Write the date or time that the text [p, end) of a string spells."""
    cdef Moment moment
    cdef int64_t micros
    if column.kind == TIME or column.kind == TIME_TZ:
        if not read_clock(p, end, &moment):
            return refuse(table, column)
        if column.exact and moment.finer:
            note_number(table, column)
        micros = moment.micros
        if column.kind == TIME_TZ:
            micros -= moment.offset * 1_000_000
        return put_int64(table, column, (micros + MICROS_PER_DAY) % MICROS_PER_DAY)
    if not read_moment(p, end, &moment):
        return refuse(table, column)
    if column.kind == DATE:
        if moment.days < INT32_MIN or moment.days > INT32_MAX:
            return refuse(table, column)
        if column.exact and (moment.micros or moment.finer):
            note_number(table, column)
        (<int32_t*>column.values.data)[table.rows] = <int32_t>moment.days
        return True
    if column.kind == TIMESTAMP:
        moment.offset = 0
    if not dl_instant(moment.days, moment.micros, moment.offset, &micros):
        return refuse(table, column)
    if column.exact and moment.finer:
        note_number(table, column)
    return put_int64(table, column, micros)


cdef inline void blank_line_ends(uint8_t* p, const uint8_t* end) noexcept nogil:
    """Turn newlines into blanks, because inside of JSON in a string they do not end a line."""
    while p < end:
        if p[0] == c"\n":
            p[0] = c" "
        p += 1


cdef inline bint put_numbers_text(
    Table* table, Column* column, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Write the array of numbers that the text [p, end) of a string spells."""
    cdef const uint8_t* after = skip_space(p)
    cdef Fit fit = NO_FIT
    if after[0] == c"[":
        fit = put_numbers(table, column, &after)
    if fit == NO_SPACE:
        return False
    return (fit == FITS and skip_space(after) >= end) or refuse(table, column)


cdef inline bint put_base64(Table* table, Column* column, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Write the bytes that the string text [p, end), escapes included, spells in base64."""
    cdef uint8_t* out = reserve(table, column, base64_room(p, end))
    if out == NULL:
        return False
    out = decode_base64(p, end, out)
    if out == NULL:
        return refuse(table, column)
    end_text(table, column, out)
    return True


cdef inline bint put_from_text(
    Table* table, Column* column, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Convert the text [p, end) of a string for a column that does not hold text; spaces around it are ignored.

    `end` must be followed by spaces and then by a byte that no number, date or time contains.
    """
    while p < end and p[0] == c" ":
        p += 1
    while p < end and (end - 1)[0] == c" ":
        end -= 1
    if column.kind == INT64 or column.kind == FLOAT64 or column.kind == EXACT:
        return put_number_text(table, column, p, end)
    if column.kind == FLOATS:
        return put_numbers_text(table, column, p, end)
    if column.kind != BOOL:
        return put_moment_text(table, column, p, end)
    if spells_in_any_case(p, end, b"true", 4):
        put_bit(column, table.rows, True)
        return True
    if spells_in_any_case(p, end, b"false", 5):
        put_bit(column, table.rows, False)
        return True
    return refuse(table, column)


cdef inline bint put_unescaped(
    Table* table, Column* column, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Write a string that has escapes; a lone surrogate, which has no UTF-8 form, is refused."""
    cdef bint lone
    cdef uint8_t* out = reserve(table, column, end - p)
    if out == NULL:
        return False
    out = unescape(p, end, out, &lone)
    if lone:
        return refuse(table, column)
    end_text(table, column, out)
    return True


cdef inline const uint8_t* put_string(
    Table* table, Column* column, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Write the string whose opening quote is `p`."""
    cdef bint escaped, lone, done
    cdef uint8_t* plain
    cdef const uint8_t* end = string_end(p + 1, lim, &escaped, fault)
    if end == NULL:
        return NULL
    if column.kind == TEXT:
        if escaped:
            done = put_unescaped(table, column, p + 1, end)
        else:
            done = put_bytes(table, column, p + 1, end - p - 1, lim)
    elif column.kind == BYTES:
        done = put_base64(table, column, p + 1, end)
    elif not escaped:
        done = put_from_text(table, column, p + 1, end)
    elif grow(table.pool, &table.scratch, end - p, 0):
        plain = unescape(p + 1, end, table.scratch.data, &lone)
        plain[0] = 0
        if column.kind == FLOATS:
            blank_line_ends(table.scratch.data, plain)
        done = put_from_text(table, column, table.scratch.data, plain)
    else:
        done = in_trouble(table, NO_MEMORY)
    return end + 1 if done else NULL


cdef inline const uint8_t* put_number(
    Table* table, Column* column, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Write the number at `p`."""
    cdef Decimal number
    cdef const uint8_t* start = p
    cdef const uint8_t* first
    cdef uint64_t digits = 0
    if column.kind == INT64:
        p += p[0] == c"-"
        first = p
        while is_digit(p[0]):
            digits = digits * 10 + (p[0] - 48)
            p += 1
        # The common spelling: up to 18 digits, which cannot overflow, no fraction, no exponent.
        if p > first and p - first <= 18 and p[0] != c"." and (p[0] | 0x20) != c"e":
            if first[0] == c"0" and p - first > 1:
                return fail(fault, start, BAD_NUMBER)
            put_int64(table, column, -<int64_t>digits if start[0] == c"-" else <int64_t>digits)
            return p
    elif column.kind != FLOAT64 and column.kind != BOOL:
        p = skip_value(p, lim, 0, fault)
        if p == NULL:
            return NULL
        if column.kind == EXACT:
            return p if put_bytes(table, column, start, p - start, lim) else NULL
        return p if refuse(table, column) else NULL
    p = read_decimal(start, False, &number)
    if p == NULL:
        return fail(fault, start, BAD_NUMBER)
    return p if put_decimal(table, column, &number, start, p) else NULL


cdef inline const uint8_t* put_array(
    Table* table, Column* column, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Write the array at `p` as numbers; an array with other elements, or of another shape, is refused."""
    cdef const uint8_t* end = p
    cdef Fit fit = put_numbers(table, column, &end)
    if fit == NO_FIT:
        end = skip_value(p, lim, DATA_DEPTH + table.level, fault)
        if end == NULL or not refuse(table, column):
            return NULL
    elif fit == NO_SPACE:
        return NULL
    return end


cdef inline bint put_compact(Table* table, Column* column, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Write the array or object [p, end) as text, like other destinations of Airbyte."""
    cdef uint8_t* out = reserve(table, column, end - p)
    if out == NULL:
        return False
    end_text(table, column, compact(p, end, out))
    return True


cdef inline const uint8_t* put_value(
    Table* table, Column* column, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Write the value at `p` and return its end; NULL if it is invalid JSON or the table's `trouble` is set."""
    cdef const uint8_t* end
    cdef uint8_t c = p[0]
    cdef bint done
    table.value = p
    if c == c'"' and column.kind != JSON:
        return put_string(table, column, p, lim, fault)
    if c == c"n":
        if p[1] != c"u" or p[2] != c"l" or p[3] != c"l":
            return fail(fault, p, UNEXPECTED)
        return p + 4 if put_null(table, column) else NULL
    if (c == c"-" or is_digit(c)) and column.kind != JSON and column.kind != TEXT:
        return put_number(table, column, p, lim, fault)
    if c == c"[" and column.kind == FLOATS:
        return put_array(table, column, p, lim, fault)
    end = skip_value(p, lim, DATA_DEPTH + table.level, fault)
    if end == NULL:
        return NULL
    if column.kind == TEXT and (c == c"[" or c == c"{"):
        done = put_compact(table, column, p, end)
    elif column.kind == JSON or column.kind == TEXT:
        done = put_bytes(table, column, p, end - p, lim)
    elif column.kind == BOOL and (c == c"t" or c == c"f"):
        put_bit(column, table.rows, c == c"t")
        done = True
    else:
        done = refuse(table, column)
    return end if done else NULL


cdef inline bint extraction_time(Span value, int64_t* micros) noexcept nogil:
    """Convert `record.emitted_at`, milliseconds, to microseconds.

    Also accepted: a fraction, a number in a string, a date-time in a string. False for other values.
    """
    cdef Decimal number, thousandfold
    cdef Moment moment
    cdef double estimate
    cdef const uint8_t* p = value.start
    cdef const uint8_t* end = value.end
    cdef bint quoted
    if p == NULL:
        return False
    quoted = p[0] == c'"'
    if quoted:
        p += 1
        end -= 1
    if read_decimal(p, quoted, &number) == end:
        thousandfold = number
        thousandfold.exponent += 3
        if decimal_to_int64(&thousandfold, micros):
            return True
        estimate = rint(1000 * decimal_to_double(&number, p, end))
        if not -9.2e18 < estimate < 9.2e18:
            return False
        micros[0] = <int64_t>estimate
        return True
    if not quoted or not read_moment(p, end, &moment):
        return False
    return dl_instant(moment.days, moment.micros, moment.offset, micros)
