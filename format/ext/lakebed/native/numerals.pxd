"""Numbers as they are written -> one spelling for each value, and texts that sort like the values. Nothing is rounded.

A number is a sign, its significant digits (the first and the last are not 0) and the position of its point: 0.DIGITS
times 10 to the power of `point`. Zero has no digits, and no sign.

    one spelling, for  0 < point <= 40     123, 120, 1.5          digits filled up with zeros, or a point among them
                      -6 < point <= 0      0.00015
                       any other           1.5e-7, 1e41           valid in JSON, too
    order    sign 3 - negative, 4 zero, 5 positive; point + 5 * 10**18 in 19 digits; digits. After the sign of a
             negative number all digits are complements to 9, and a colon, which sorts after digits, ends the text.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset


cdef enum:
    MOST_ZEROS = 40
    ROOM = 64  # maximum number of bytes of a spelling, or of a text that sorts, in addition to its digits


cdef extern from *:
    """
    #define DL_FAR INT64_C(1000000000000000000)
    #define DL_BIAS INT64_C(5000000000000000000)
    """
    const int64_t FAR "DL_FAR"
    const int64_t BIAS "DL_BIAS"


cdef enum Reading:
    NO_NUMBER
    A_NUMBER
    A_FAR_NUMBER  # its exponent is beyond `FAR`


cdef struct Numeral:
    bint negative
    const uint8_t* digits  # the first significant digit; a point may follow between the digits
    const uint8_t* end  # after the last significant digit
    int64_t count
    int64_t point


cdef inline Reading read_numeral(const uint8_t* p, const uint8_t* end, Numeral* out) noexcept nogil:
    """Read a number from the text [p, end): as in JSON, or with a plus, leading zeros, or a bare point."""
    cdef int64_t power = 0
    cdef int64_t whole = 0  # number of digits before the point, from the first significant digit
    cdef int64_t zeros = 0  # number of zeros between the point and the first significant digit
    cdef int64_t found = 0
    cdef bint point = False, down = False, far = False
    out.negative = False
    out.digits = out.end = NULL
    out.count = 0
    out.point = 0
    if p < end and (p[0] == c"-" or p[0] == c"+"):
        out.negative = p[0] == c"-"
        p += 1
    while p < end and (48 <= p[0] <= 57 or (p[0] == c"." and not point)):
        if p[0] == c".":
            point = True
            p += 1
            continue
        found += 1
        if out.digits == NULL and p[0] != c"0":
            out.digits = p
        if out.digits != NULL:
            whole += not point
            out.count += 1
            if p[0] != c"0":
                out.end = p + 1
        elif point:
            zeros += 1
        p += 1
    if found == 0:
        return NO_NUMBER
    if p < end and (p[0] == c"e" or p[0] == c"E"):
        p += 1
        if p < end and (p[0] == c"-" or p[0] == c"+"):
            down = p[0] == c"-"
            p += 1
        if p == end:
            return NO_NUMBER
        while p < end and 48 <= p[0] <= 57:
            if power >= FAR // 100:
                far = True
            else:
                power = power * 10 + (p[0] - 48)
            p += 1
    if p != end:
        return NO_NUMBER
    if out.digits == NULL:
        out.negative = False
        return A_NUMBER
    out.count = 0
    p = out.digits
    while p < out.end:
        out.count += p[0] != c"."
        p += 1
    out.point = whole - zeros + (-power if down else power)
    return A_FAR_NUMBER if far else A_NUMBER


cdef inline uint8_t* put_digits(uint8_t* out, const Numeral* number, int64_t first, int64_t last) noexcept nogil:
    """Write the significant digits from number `first` to before `last`."""
    cdef const uint8_t* p = number.digits
    cdef int64_t i = 0
    while p < number.end and i < last:
        if p[0] != c".":
            if i >= first:
                out[0] = p[0]
                out += 1
            i += 1
        p += 1
    return out


cdef inline uint8_t* put_whole(uint8_t* out, int64_t value, int least) noexcept nogil:
    """Write a number that is not negative, with leading zeros up to `least` digits."""
    cdef uint8_t[20] digits
    cdef int n = 0
    while value or n < least:
        digits[19 - n] = <uint8_t>(48 + value % 10)
        value //= 10
        n += 1
    memcpy(out, digits + 20 - n, n)
    return out + n


cdef inline uint8_t* spell(uint8_t* out, const Numeral* number) noexcept nogil:
    """Write the one spelling of a number: at most its digits and `ROOM` bytes more."""
    cdef int64_t power
    if number.digits == NULL:
        out[0] = c"0"
        return out + 1
    if number.negative:
        out[0] = c"-"
        out += 1
    if 0 < number.point <= MOST_ZEROS:
        out = put_digits(out, number, 0, number.point)
        if number.count <= number.point:
            memset(out, c"0", number.point - number.count)
            return out + (number.point - number.count)
        out[0] = c"."
        return put_digits(out + 1, number, number.point, number.count)
    if -6 < number.point <= 0:
        memcpy(out, b"0.00000", 7)
        return put_digits(out + 2 - number.point, number, 0, number.count)
    out = put_digits(out, number, 0, 1)
    if number.count > 1:
        out[0] = c"."
        out = put_digits(out + 1, number, 1, number.count)
    out[0] = c"e"
    out += 1
    power = number.point - 1
    if power < 0:
        out[0] = c"-"
        out += 1
        power = -power
    return put_whole(out, power, 1)


cdef inline uint8_t* put_order(uint8_t* out, const Numeral* number) noexcept nogil:
    """Write the text that sorts like a number: at most its digits and `ROOM` bytes more."""
    cdef uint8_t* start
    if number.digits == NULL:
        out[0] = c"4"
        return out + 1
    out[0] = c"3" if number.negative else c"5"
    start = out + 1
    out = put_digits(put_whole(start, number.point + BIAS, 19), number, 0, number.count)
    if number.negative:
        while start < out:
            start[0] = <uint8_t>(105 - start[0])
            start += 1
        out[0] = c":"
        out += 1
    return out
