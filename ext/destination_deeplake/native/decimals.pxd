"""Decimal text -> int64 or the nearest double.

One floating-point operation suffices if digits and power of ten are both exact doubles (Clinger 1990); else the
128-bit product of Lemire, "Number parsing at a gigabyte per second" (2021), is used. It leaves a few numbers of more
than 19 digits undecided, which `PyOS_string_to_double` converts: this takes the GIL and a copy. The locale has no
effect.
"""

from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from destination_deeplake.native.json cimport is_digit


cdef extern from *:
    """
    #include <stdint.h>

    #define DL_POWER_LOW (-342)
    #define DL_POWER_HIGH 308
    /* 5**q as 128 normalised bits, high half first, for q from DL_POWER_LOW; filled by fill_powers. */
    static uint64_t dl_power5[2 * (DL_POWER_HIGH - DL_POWER_LOW + 1)];

    static const double dl_power10[23] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22};

    static inline double dl_double_of_bits(uint64_t bits)
    {
        double value;
        memcpy(&value, &bits, 8);
        return value;
    }

    /* The bits of the double nearest to w * 10**q (w > 0); all ones when this method cannot decide. */
    static inline uint64_t dl_nearest(uint64_t w, int64_t q)
    {
        const uint64_t undecided = ~(uint64_t)0, infinite = (uint64_t)0x7FF << 52;
        if (q < DL_POWER_LOW) return 0;
        if (q > DL_POWER_HIGH) return infinite;
        int zeros = __builtin_clzll(w);
        const uint64_t *power = dl_power5 + 2 * (q - DL_POWER_LOW);
        unsigned __int128 product = (unsigned __int128)(w << zeros) * power[0];
        uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
        if ((high & 0x1FF) == 0x1FF) {
            uint64_t carry = (uint64_t)(((unsigned __int128)(w << zeros) * power[1]) >> 64);
            low += carry;
            if (low < carry) high++;
            if (low == ~(uint64_t)0 && (q < -27 || q > 55)) return undecided;
        }
        int upper = (int)(high >> 63);
        uint64_t mantissa = high >> (upper + 9);
        int64_t exponent = (((152170 + 65536) * q) >> 16) + 63 + upper - zeros + 1023;
        if (exponent <= 0) { /* subnormal */
            if (1 - exponent >= 64) return 0;
            mantissa >>= 1 - exponent;
            mantissa += mantissa & 1;
            mantissa >>= 1;
            return mantissa; /* reaching 1 << 52 makes the exponent field 1, as it should */
        }
        if (low <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1 && (mantissa << (upper + 9)) == high)
            mantissa &= ~(uint64_t)1; /* exactly half way: to even */
        mantissa += mantissa & 1;
        mantissa >>= 1;
        if (mantissa >= (uint64_t)2 << 52) {
            mantissa = (uint64_t)1 << 52;
            exponent++;
        }
        if (exponent >= 0x7FF) return infinite;
        return (mantissa & ~((uint64_t)1 << 52)) | ((uint64_t)exponent << 52);
    }
    """
    const int DL_POWER_LOW
    const int DL_POWER_HIGH
    uint64_t[1302] dl_power5
    const double[23] dl_power10
    double dl_double_of_bits(uint64_t bits) noexcept nogil
    uint64_t dl_nearest(uint64_t w, int64_t q) noexcept nogil


cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, void* overflow) except? -1.0


cdef struct Decimal:
    uint64_t digits  # the first 19 significant digits
    int64_t exponent  # value = digits * 10**exponent
    bint negative
    bint cut  # a digit other than 0 follows the 19 digits


cdef inline void reread_digits(const uint8_t* p, const uint8_t* end, Decimal* out) noexcept nogil:
    """Take the first 19 significant digits of a mantissa that has more than 19."""
    cdef uint64_t digits = 0
    cdef int64_t dropped = 0
    cdef int64_t fraction = 0
    cdef int held = 0
    cdef bint point = False
    out.cut = False
    while p < end:
        if p[0] == c".":
            point = True
        else:
            fraction += point
            if held == 19:
                dropped += 1
                if p[0] != c"0":
                    out.cut = True
            elif held or p[0] != c"0":
                digits = digits * 10 + (p[0] - 48)
                held += 1
        p += 1
    out.digits = digits
    out.exponent = dropped - fraction


cdef inline const uint8_t* read_decimal(const uint8_t* p, bint lenient, Decimal* out) noexcept nogil:
    """Read a number and return its end, or NULL if none starts at `p`.

    Strict is the JSON grammar. Lenient also accepts a plus sign, leading zeros, and a point with digits on one side
    only, which occur in strings. Any byte that is not part of a number is a sentinel.
    """
    cdef const uint8_t* start
    cdef const uint8_t* point
    cdef uint64_t digits = 0
    cdef int64_t exponent = 0
    cdef int64_t power = 0
    cdef int64_t count
    cdef bint down
    out.negative = p[0] == c"-"
    out.cut = False
    if out.negative or (lenient and p[0] == c"+"):
        p += 1
    start = p
    while is_digit(p[0]):
        digits = digits * 10 + (p[0] - 48)
        p += 1
    count = p - start
    if not lenient and (count == 0 or (count > 1 and start[0] == c"0")):
        return NULL
    if p[0] == c".":
        p += 1
        point = p
        while is_digit(p[0]):
            digits = digits * 10 + (p[0] - 48)
            p += 1
        exponent = point - p
        count -= exponent
        if p == point and not lenient:
            return NULL
    if count == 0:
        return NULL
    out.digits = digits
    out.exponent = exponent
    if count > 19:
        reread_digits(start, p, out)
    if p[0] == c"e" or p[0] == c"E":
        p += 1
        down = p[0] == c"-"
        if down or p[0] == c"+":
            p += 1
        if not is_digit(p[0]):
            return NULL
        while is_digit(p[0]):
            if power < <int64_t>1 << 40:  # far beyond any line length, so the sum below cannot overflow
                power = power * 10 + (p[0] - 48)
            p += 1
        out.exponent += -power if down else power
    return p


cdef inline bint decimal_to_int64(const Decimal* number, int64_t* out) noexcept nogil:
    """Convert an integer in the range, in any spelling (`1.0`, `1e3`); return False for other numbers."""
    cdef uint64_t digits = number.digits
    cdef int64_t exponent = number.exponent
    if digits == 0:
        out[0] = 0
        return True
    if number.cut:
        return False
    while exponent < 0:
        if digits % 10:
            return False
        digits //= 10
        exponent += 1
    while exponent > 0:
        if digits > UINT64_MAX // 10:
            return False
        digits *= 10
        exponent -= 1
    if number.negative:
        if digits > <uint64_t>1 << 63:
            return False
        out[0] = <int64_t>(0 - digits)
        return True
    if digits >= <uint64_t>1 << 63:
        return False
    out[0] = <int64_t>digits
    return True


cdef inline double undecided_double(const uint8_t* p, const uint8_t* end) noexcept with gil:
    """Convert the number text [p, end) by the interpreter's exact arithmetic; NaN if memory is short."""
    cdef size_t n = end - p
    cdef double value
    cdef char* copy = <char*>malloc(n + 1)
    if copy == NULL:
        return dl_double_of_bits(<uint64_t>0x7FF8 << 48)
    memcpy(copy, p, n)
    copy[n] = 0
    try:
        value = PyOS_string_to_double(copy, NULL, NULL)
    except (ValueError, MemoryError):
        value = dl_double_of_bits(<uint64_t>0x7FF8 << 48)
    free(copy)
    return value


cdef inline double decimal_to_double(
    const Decimal* number, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Return the double nearest to the number, whose text is [p, end); infinite beyond the largest double."""
    cdef uint64_t digits = number.digits
    cdef int64_t exponent = number.exponent
    cdef uint64_t bits
    cdef double value
    if digits == 0:
        value = 0.0
    elif not number.cut and digits <= <uint64_t>1 << 53 and -22 <= exponent <= 22:
        value = <double>digits
        value = value / dl_power10[-exponent] if exponent < 0 else value * dl_power10[exponent]
    else:
        bits = dl_nearest(digits, exponent)
        if bits == ~<uint64_t>0 or (number.cut and bits != dl_nearest(digits + 1, exponent)):
            return undecided_double(p, end)
        value = dl_double_of_bits(bits)
    return -value if number.negative else value


cdef inline int fill_powers() except -1:
    """Compute the powers of five: truncated from 5**0 on, rounded up below, as the proof of exactness requires."""
    cdef int q
    cdef object one = 1  # Python integers throughout: these have up to 2000 bits
    cdef object five, power, bits
    for q in range(DL_POWER_LOW, DL_POWER_HIGH + 1):
        five = (one * 5) ** abs(q)
        if q >= 0:
            power = (five << 128) >> five.bit_length()
        else:
            bits = (five - 1).bit_length()
            power = (one << (bits + (127 if q >= -27 else bits + 128))) // five + 1
            power >>= max(0, power.bit_length() - 128)
        dl_power5[2 * (q - DL_POWER_LOW)] = power >> 64
        dl_power5[2 * (q - DL_POWER_LOW) + 1] = power & (<uint64_t>UINT64_MAX)
    return 0
