"""Date and time texts -> days and microseconds since 1970-01-01, in the proleptic Gregorian calendar.

    date       [+|-] yyyy.. - m[m] - d[d]          four to nine digits of year, astronomical (1 BC = 0)
               yyyy s m[m] s d[d]                  s is twice the same of - / . or a space
               yyyy mm dd                          the same with nothing between
    time       h[h] : mm [: ss [. or , fraction]]  fraction of any length, cut to microseconds
    offset     Z | UTC | GMT | +-hh[[:]mm[[:]ss]]  one space may come before it
    moment     date [T or space, time [offset]] [" BC" or " AD"]
    clock      time [offset]

In the last two forms of a date the month may also be the first three letters of its English name, in any case. These
forms are tried if the first one does not fit. The year always comes first, because 05/06 is ambiguous. Second 60 counts
as the first moment of the next minute, without its fraction. Hour 24, February 30, a signed year or year 0 with an era,
two-digit years, and names of zones other than UTC and GMT are not accepted.
"""

from libc.stdint cimport int64_t, uint8_t

from destination_deeplake.native.json cimport is_digit


cdef extern from *:
    """
    /* Days, microseconds of the day, offset in seconds -> microseconds since the epoch; 0 beyond 64 bits. */
    static inline int dl_instant(int64_t days, int64_t micros, int64_t offset, int64_t *out)
    {
        __int128 instant = (__int128)days * 86400000000 + micros - (__int128)offset * 1000000;
        *out = (int64_t)instant;
        return instant == *out;
    }
    """
    bint dl_instant(int64_t days, int64_t micros, int64_t offset, int64_t* out) noexcept nogil


cdef enum:
    MICROS_PER_SECOND = 1_000_000


cdef struct Moment:
    int64_t year
    int month
    int day
    bint signed_year
    int64_t days
    int64_t micros  # microseconds of the day; with a second 60, they may equal the length of the day
    int64_t offset  # seconds east of UTC
    bint finer  # nonzero digits were truncated


cdef inline int two_digits(const uint8_t* p) noexcept nogil:
    """Return the number that two digits spell, or -1."""
    if not is_digit(p[0]) or not is_digit(p[1]):
        return -1
    return (p[0] - 48) * 10 + (p[1] - 48)


cdef inline const uint8_t* one_or_two_digits(const uint8_t* p, int* value) noexcept nogil:
    """Read one or two digits."""
    if not is_digit(p[0]):
        return NULL
    value[0] = p[0] - 48
    p += 1
    if is_digit(p[0]):
        value[0] = value[0] * 10 + (p[0] - 48)
        p += 1
    return p


cdef inline const uint8_t* read_date(const uint8_t* p, Moment* out) noexcept nogil:
    """Read year, month and day; the calendar is not checked yet."""
    cdef const uint8_t* start
    cdef bint negative = p[0] == c"-"
    out.signed_year = negative or p[0] == c"+"
    p += out.signed_year
    start = p
    out.year = 0
    while is_digit(p[0]):
        if p - start == 9:
            return NULL
        out.year = out.year * 10 + (p[0] - 48)
        p += 1
    if p - start < 4 or p[0] != c"-":
        return NULL
    if negative:
        out.year = -out.year
    p = one_or_two_digits(p + 1, &out.month)
    if p == NULL or p[0] != c"-":
        return NULL
    return one_or_two_digits(p + 1, &out.day)


cdef inline const uint8_t* month_name(const uint8_t* p, int* month) noexcept nogil:
    """Read the first three letters of an English month."""
    cdef const char* names = b"janfebmaraprmayjunjulaugsepoctnovdec"
    cdef int i
    for i in range(12):
        if (p[0] | 0x20) == names[3 * i] and (p[1] | 0x20) == names[3 * i + 1] and (p[2] | 0x20) == names[3 * i + 2]:
            month[0] = i + 1
            return p + 3
    return NULL


cdef inline const uint8_t* month_or_day(const uint8_t* p, bint separated, int* value) noexcept nogil:
    """Read two digits; if `separated`, one digit is accepted, too."""
    if separated:
        return one_or_two_digits(p, value)
    value[0] = two_digits(p)
    if value[0] < 0:
        return NULL
    return p + 2


cdef inline const uint8_t* read_loose_date(const uint8_t* p, Moment* out) noexcept nogil:
    """Read a date with other separators or none, or with the name of a month; the calendar is not checked yet."""
    cdef int century = two_digits(p)
    cdef int of_century = -1 if century < 0 else two_digits(p + 2)
    cdef uint8_t separator
    cdef bint separated
    cdef const uint8_t* start
    if of_century < 0:
        return NULL
    out.signed_year = False
    out.year = 100 * century + of_century
    p += 4
    separator = p[0]
    separated = separator == c"-" or separator == c"/" or separator == c"." or separator == c" "
    start = p + separated
    p = month_name(start, &out.month)
    if p == NULL:
        p = month_or_day(start, separated, &out.month)
    if p == NULL or (separated and p[0] != separator):
        return NULL
    return month_or_day(p + separated, separated, &out.day)


cdef inline const uint8_t* read_time(const uint8_t* p, Moment* out) noexcept nogil:
    """Read hour, minute and the optional second with its fraction."""
    cdef int hour, minute
    cdef int second = 0
    cdef int64_t fraction = 0
    cdef int64_t unit = 100_000
    out.finer = False
    p = one_or_two_digits(p, &hour)
    if p == NULL or hour > 23 or p[0] != c":":
        return NULL
    minute = two_digits(p + 1)
    if minute < 0 or minute > 59:
        return NULL
    p += 3
    if p[0] == c":":
        second = two_digits(p + 1)
        if second < 0 or second > 60:
            return NULL
        p += 3
        if (p[0] == c"." or p[0] == c",") and is_digit(p[1]):
            p += 1
            while is_digit(p[0]):
                fraction += (p[0] - 48) * unit
                out.finer = out.finer or (unit == 0 and p[0] != c"0")
                unit //= 10
                p += 1
    if second == 60:
        fraction = 0
        out.finer = False
    out.micros = (hour * 3600 + minute * 60 + second) * <int64_t>MICROS_PER_SECOND + fraction
    return p


cdef inline const uint8_t* read_offset(const uint8_t* p, Moment* out) noexcept nogil:
    """Read the optional UTC offset; without one the offset is 0 and nothing is read."""
    cdef const uint8_t* start = p
    cdef int sign, part
    cdef int unit = 60
    out.offset = 0
    if p[0] == c" ":
        p += 1
    if p[0] == c"Z" or p[0] == c"z":
        return p + 1
    if (p[0] == c"U" and p[1] == c"T" and p[2] == c"C") or (p[0] == c"G" and p[1] == c"M" and p[2] == c"T"):
        return p + 3
    if p[0] != c"+" and p[0] != c"-":
        return start
    sign = -1 if p[0] == c"-" else 1
    part = two_digits(p + 1)
    if part < 0 or part > 23:
        return NULL
    out.offset = part * 3600
    p += 3
    while unit and (p[0] == c":" or is_digit(p[0])):
        p += p[0] == c":"
        part = two_digits(p)
        if part < 0 or part > 59:
            return NULL
        out.offset += part * unit
        p += 2
        unit //= 60
    out.offset *= sign
    return p


cdef inline bint is_leap(int64_t year) noexcept nogil:
    """Tell whether an astronomical year has a February 29."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


cdef inline bint set_days(Moment* out) noexcept nogil:
    """Check the calendar date and compute its day number (Hinnant, `days_from_civil`)."""
    cdef int last = 31
    cdef int64_t year = out.year
    cdef int64_t era, of_era, of_year
    if out.month == 2:
        last = 29 if is_leap(year) else 28
    elif out.month == 4 or out.month == 6 or out.month == 9 or out.month == 11:
        last = 30
    if out.month < 1 or out.month > 12 or out.day < 1 or out.day > last:
        return False
    if out.month <= 2:
        year -= 1
    era = (year if year >= 0 else year - 399) // 400
    of_era = year - era * 400
    of_year = (153 * (out.month - 3 if out.month > 2 else out.month + 9) + 2) // 5 + out.day - 1
    out.days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return True


cdef inline const uint8_t* read_era(const uint8_t* p, Moment* out) noexcept nogil:
    """Read the optional era, which makes the year an astronomical one."""
    cdef bint before
    if p[0] != c" ":
        return p
    before = p[1] == c"B" and p[2] == c"C"
    if not before and not (p[1] == c"A" and p[2] == c"D"):
        return p
    if out.signed_year or out.year == 0:
        return NULL
    if before:
        out.year = 1 - out.year
    return p + 3


cdef inline bint read_moment(const uint8_t* p, const uint8_t* end, Moment* out) noexcept nogil:
    """Read a date with an optional time, offset and era that fill [p, end)."""
    cdef const uint8_t* after = read_date(p, out)
    p = read_loose_date(p, out) if after == NULL else after
    if p == NULL:
        return False
    out.micros = 0
    out.offset = 0
    out.finer = False
    if p < end and (p[0] == c"T" or p[0] == c"t" or p[0] == c" ") and is_digit(p[1]):
        p = read_time(p + 1, out)
        if p == NULL:
            return False
        p = read_offset(p, out)
        if p == NULL:
            return False
    if p < end:
        p = read_era(p, out)
    return p == end and set_days(out)


cdef inline bint read_clock(const uint8_t* p, const uint8_t* end, Moment* out) noexcept nogil:
    """Read a time with an optional offset that fill [p, end)."""
    p = read_time(p, out)
    if p == NULL:
        return False
    p = read_offset(p, out)
    return p == end
