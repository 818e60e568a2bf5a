"""Typed values -> JSON, for values that need the rules of JSON messages: rare values, and values that do not fit.

    boolean         true, false
    integer, big    digits                     a big integer that is not a number: a string
    number          the shortest digits that become the same double, `2.0`; "NaN", "Infinity", "-Infinity"
    date            "2024-05-06"               years beyond four digits with a sign, as ISO 8601 has them
    time            "07:08:09.123456789"       without zeros at the end; with a zone "+02:00" or "Z"
    moment          "2024-05-06T07:08:09Z"     local time if it has an offset
    json            unchanged

Impossible moments (such as a nanosecond of the day that exceeds the day) are written as a text that does not fit a
column of moments.
"""

from libc.math cimport isfinite, isnan
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtod
from libc.string cimport memchr, memcpy, strlen

from destination_deeplake.native.json cimport Span, skip_space, skip_value
from destination_deeplake.native.faults cimport Fault
from destination_deeplake.native.memory cimport Buffer, FreeList, grow
from destination_deeplake.native.typed cimport (
    BIG_DECIMAL,
    BIG_INTEGER,
    BOOLEAN,
    DATE_,
    INTEGER,
    JSON_,
    MOMENT_WITH_ZONE,
    NANOS_PER_DAY,
    NANOS_PER_SECOND,
    NUMBER,
    STRING,
    TIME_WITHOUT_ZONE,
    TIME_WITH_ZONE,
    Value,
    blank_newlines,
)


cdef enum:
    LONGEST_SCALAR = 96
    LAST_SECOND = 36_028_797_018_963_968  # 2 ** 55
    LAST_DAY = 400_000_000_000  # before or after 1970: years of nine digits and more


cdef struct Text:
    Buffer* room
    FreeList* pool
    size_t size
    bint failed  # memory is short


cdef inline uint8_t* more(Text* text, size_t n) noexcept nogil:
    """Return the address for `n` more bytes and a newline after them; NULL if memory is short."""
    if text.size + n + 1 > text.room.capacity and not grow(
        text.pool, text.room, text.size + n + 1 + (text.size >> 1), text.size
    ):
        text.failed = True
        return NULL
    return text.room.data + text.size


cdef inline void add(Text* text, const uint8_t* p, size_t n) noexcept nogil:
    """Write bytes."""
    cdef uint8_t* out = more(text, n)
    if out != NULL:
        memcpy(out, p, n)
        text.size += n


cdef inline void add_word(Text* text, const char* word) noexcept nogil:
    """Write a word."""
    add(text, <const uint8_t*>word, strlen(word))


cdef inline void add_string(Text* text, Span value) noexcept nogil:
    """Write a JSON string."""
    cdef uint8_t* out = more(text, 6 * (value.end - value.start) + 2)
    cdef const uint8_t* p = value.start
    if out == NULL:
        return
    out[0] = c'"'
    out += 1
    while p < value.end:
        if p[0] < 0x20:
            if p[0] in b"\b\t\n\f\r":
                out[0] = c"\\"
                out[1] = (<const uint8_t*>b"btn?fr")[p[0] - 8]
                out += 2
            else:
                snprintf(<char*>out, 7, b"\\u%04x", <int>p[0])
                out += 6
        else:
            if p[0] == c'"' or p[0] == c"\\":
                out[0] = c"\\"
                out += 1
            out[0] = p[0]
            out += 1
        p += 1
    out[0] = c'"'
    text.size = out + 1 - text.room.data


cdef inline void add_double(Text* text, double value) noexcept nogil:
    """Write the shortest number that becomes the same double."""
    cdef char[LONGEST_SCALAR] room
    cdef int digits = 15
    cdef int n
    if not isfinite(value):
        add_word(text, b'"NaN"' if isnan(value) else b'"Infinity"' if value > 0 else b'"-Infinity"')
        return
    while True:
        n = snprintf(room, LONGEST_SCALAR, b"%.*g", digits, value)
        if digits == 17 or strtod(room, NULL) == value:
            break
        digits += 1
    if memchr(room, c".", n) == NULL and memchr(room, c"e", n) == NULL:
        memcpy(room + n, b".0", 3)
    add_word(text, room)


cdef inline int spell_date(char* out, int64_t days) noexcept nogil:
    """Write a day since 1970 as a date of the proleptic Gregorian calendar; return the number of letters."""
    cdef int64_t shifted = days + 719468  # March 1 of year 0
    cdef int64_t era = (shifted if shifted >= 0 else shifted - 146096) // 146097
    cdef int64_t day = shifted - era * 146097
    cdef int64_t year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    cdef int64_t left = day - (365 * year + year // 4 - year // 100)
    cdef int64_t month = (5 * left + 2) // 153
    cdef int date = <int>(left - (153 * month + 2) // 5 + 1)
    month += 3 if month < 10 else -9
    year += era * 400 + (month <= 2)
    if 0 <= year <= 9999:
        return snprintf(out, LONGEST_SCALAR, b"%04d-%02d-%02d", <int>year, <int>month, date)
    return snprintf(out, LONGEST_SCALAR, b"%+05lld-%02d-%02d", <long long>year, <int>month, date)


cdef inline int spell_clock(char* out, uint64_t nanos) noexcept nogil:
    """Write a nanosecond of the day as a time; return the number of letters."""
    cdef uint64_t seconds = nanos // NANOS_PER_SECOND
    cdef int n = snprintf(
        out,
        LONGEST_SCALAR,
        b"%02d:%02d:%02d.%09d",
        <int>(seconds // 3600),
        <int>(seconds // 60 % 60),
        <int>(seconds % 60),
        <int>(nanos % NANOS_PER_SECOND),
    )
    while out[n - 1] == c"0":
        n -= 1
    return n - (out[n - 1] == c".")


cdef inline int spell_offset(char* out, int64_t offset) noexcept nogil:
    """Write an offset from UTC; return the number of letters."""
    cdef int seconds = <int>(offset if offset >= 0 else -offset)
    cdef int sign = c"+" if offset >= 0 else c"-"
    if offset == 0:
        out[0] = c"Z"
        return 1
    if seconds % 60:
        return snprintf(out, 16, b"%c%02d:%02d:%02d", sign, seconds // 3600, seconds // 60 % 60, seconds % 60)
    return snprintf(out, 16, b"%c%02d:%02d", sign, seconds // 3600, seconds // 60 % 60)


cdef inline void add_moment(Text* text, const Value* value) noexcept nogil:
    """Write a date, time or moment."""
    cdef char[3 * LONGEST_SCALAR] room
    cdef int64_t days = value.number
    cdef int64_t seconds
    cdef uint64_t nanos = value.nanos
    cdef int n = 1
    cdef bint has_zone = value.kind == MOMENT_WITH_ZONE or value.kind == TIME_WITH_ZONE
    cdef bint has_date = value.kind not in (TIME_WITH_ZONE, TIME_WITHOUT_ZONE)
    room[0] = c'"'
    if value.kind == MOMENT_WITH_ZONE and nanos < NANOS_PER_SECOND and -<int64_t>LAST_SECOND < value.number < <int64_t>LAST_SECOND:
        seconds = value.number + value.offset
        days = seconds // 86400 - (seconds % 86400 < 0)
        nanos += <uint64_t>(seconds - days * 86400) * NANOS_PER_SECOND
    elif value.kind == MOMENT_WITH_ZONE:
        nanos = NANOS_PER_DAY
    if (
        (value.kind != DATE_ and nanos >= NANOS_PER_DAY)
        or (has_date and not -<int64_t>LAST_DAY < days < <int64_t>LAST_DAY)
        or not -86400 < value.offset < 86400
    ):
        snprintf(
            room,
            3 * LONGEST_SCALAR,
            b'"no such moment: %lld, %llu ns, offset %lld s"',
            <long long>value.number,
            <unsigned long long>value.nanos,
            <long long>(value.offset if has_zone else 0),
        )
        add_word(text, room)
        return
    if has_date:
        n += spell_date(room + n, days)
    if value.kind != DATE_:
        if has_date:
            room[n] = c"T"
            n += 1
        n += spell_clock(room + n, nanos)
        if has_zone:
            n += spell_offset(room + n, value.offset)
    room[n] = c'"'
    add(text, <uint8_t*>room, n + 1)


cdef inline bint add_json(Text* text, Span value) noexcept nogil:
    """Write a text of JSON; False if it is not exactly one valid value."""
    cdef Fault fault
    cdef size_t start = text.size
    cdef uint8_t* p
    cdef const uint8_t* end
    add(text, value.start, value.end - value.start)
    if text.failed:
        return True
    p = text.room.data + start
    blank_newlines(p, text.room.data + text.size)
    text.room.data[text.size] = c"\n"
    end = skip_value(skip_space(p), text.room.data + text.room.capacity, 0, &fault)
    return end != NULL and skip_space(end) == text.room.data + text.size


cdef inline bint add_value(Text* text, const Value* value) noexcept nogil:
    """Write a value; False if it is a JSON value with an invalid text."""
    cdef char[LONGEST_SCALAR] room
    cdef size_t size = text.size
    if value.kind == STRING:
        add_string(text, value.bytes)
    elif value.kind == BOOLEAN:
        add_word(text, b"true" if value.number else b"false")
    elif value.kind == INTEGER:
        snprintf(room, LONGEST_SCALAR, b"%lld", <long long>value.number)
        add_word(text, room)
    elif value.kind == NUMBER:
        add_double(text, value.real)
    elif value.kind == JSON_:
        return add_json(text, value.bytes)
    elif value.kind == BIG_INTEGER or value.kind == BIG_DECIMAL:
        if (value.bytes.start == value.bytes.end or value.bytes.start[0] not in b"-0123456789") or not add_json(
            text, value.bytes
        ):
            text.size = size
            add_string(text, value.bytes)
    elif DATE_ <= value.kind < JSON_:
        add_moment(text, value)
    else:
        add_word(text, b"null")
    return True
