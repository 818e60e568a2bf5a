"""Strict JSON (RFC 8259) over bytes: validate, skip, unescape, make compact.

Every text ends with a sentinel: the newline of its line, which no rule below accepts inside a value, so a scan stops
there without comparing with an end. `lim` is the end of the readable memory, at least one byte after the sentinel; only
the 16-byte steps, which may read beyond the sentinel, compare with it.

A function that returns a pointer returns the first byte after the part that it read, or NULL and a `Fault`.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from destination_deeplake.native.faults cimport (
    BAD_CONTROL,
    BAD_ESCAPE,
    BAD_NUMBER,
    BAD_UTF8,
    TOO_DEEP,
    UNEXPECTED,
    Fault,
    fail,
)


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    static const uint8_t dl_hex[256] = {
        ['0'] = 16, ['1'] = 17, ['2'] = 18, ['3'] = 19, ['4'] = 20, ['5'] = 21, ['6'] = 22, ['7'] = 23,
        ['8'] = 24, ['9'] = 25, ['a'] = 26, ['b'] = 27, ['c'] = 28, ['d'] = 29, ['e'] = 30, ['f'] = 31,
        ['A'] = 26, ['B'] = 27, ['C'] = 28, ['D'] = 29, ['E'] = 30, ['F'] = 31};

    static const uint8_t dl_escape[256] = {
        ['"'] = '"', ['\\\\'] = '\\\\', ['/'] = '/',
        ['b'] = 8, ['f'] = 12, ['n'] = 10, ['r'] = 13, ['t'] = 9};

    /* How many of the next 16 bytes come before the first that needs a look inside a JSON string:
       a quote, a backslash, a control character, or the start of a multi-byte character. */
    static inline int dl_plain_run(const uint8_t *p)
    {
    #if defined(__SSE2__)
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
        __m128i slash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\\\'));
        __m128i other = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)); /* signed: below 0x20 or above 0x7f */
        int hit = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), other));
        return __builtin_ctz(hit | 0x10000);
    #elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
        for (int i = 0; i < 16; i += 8) {
            uint64_t v, q, s, hit;
            memcpy(&v, p + i, 8);
            q = v ^ (ones * '"');
            s = v ^ (ones * '\\\\');
            hit = (((v - ones * 0x20) & ~v) | ((q - ones) & ~q) | ((s - ones) & ~s) | v) & high;
            if (hit) return i + __builtin_ctzll(hit) / 8;
        }
        return 16;
    #else
        int i = 0;
        while (i < 16 && p[i] >= 0x20 && p[i] < 0x80 && p[i] != '"' && p[i] != '\\\\') i++;
        return i;
    #endif
    }

    /* Bits of the next 64 bytes: those that need a look inside a JSON string, by the rule of dl_plain_run. */
    static inline uint64_t dl_marks(const uint8_t *p)
    {
        uint64_t bits = 0;
    #if defined(__SSE2__)
        for (int i = 0; i < 64; i += 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(p + i));
            __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
            __m128i slash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\\\'));
            __m128i other = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
            bits |= (uint64_t)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), other)) << i;
        }
    #else
        for (int i = 0; i < 64; i++)
            bits |= (uint64_t)(p[i] < 0x20 || p[i] >= 0x80 || p[i] == '"' || p[i] == '\\\\') << i;
    #endif
        return bits;
    }

    static inline int dl_first(uint64_t bits) { return __builtin_ctzll(bits); }

    /* Copy the next 16 bytes and return how many of them come before the first backslash. */
    static inline int dl_copy_unescaped(uint8_t *out, const uint8_t *p)
    {
    #if defined(__SSE2__)
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        _mm_storeu_si128((__m128i *)out, v);
        return __builtin_ctz(_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8('\\\\'))) | 0x10000);
    #else
        int i = 0;
        memmove(out, p, 16);
        while (i < 16 && p[i] != '\\\\') i++;
        return i;
    #endif
    }

    /* Whether n >= 2 bytes are equal; reads exactly those. */
    static inline int dl_same(const uint8_t *a, const uint8_t *b, size_t n)
    {
        uint64_t x, y;
        if (n >= 8) {
            for (size_t i = 0; i + 8 < n; i += 8) {
                memcpy(&x, a + i, 8);
                memcpy(&y, b + i, 8);
                if (x != y) return 0;
            }
            memcpy(&x, a + n - 8, 8);
            memcpy(&y, b + n - 8, 8);
            return x == y;
        }
        if (n >= 4) {
            uint32_t s, t, u, v;
            memcpy(&s, a, 4);
            memcpy(&t, b, 4);
            memcpy(&u, a + n - 4, 4);
            memcpy(&v, b + n - 4, 4);
            return s == t && u == v;
        }
        return a[0] == b[0] && a[1] == b[1] && a[n - 1] == b[n - 1];
    }
    """
    const uint8_t[256] dl_hex
    const uint8_t[256] dl_escape
    int dl_plain_run(const uint8_t* p) noexcept nogil
    uint64_t dl_marks(const uint8_t* p) noexcept nogil
    int dl_first(uint64_t bits) noexcept nogil
    int dl_copy_unescaped(uint8_t* out, const uint8_t* p) noexcept nogil
    bint dl_same(const uint8_t* a, const uint8_t* b, size_t n) noexcept nogil


cdef enum:
    MAX_DEPTH = 1000  # maximum depth of nested arrays and objects in a line


cdef struct Span:
    const uint8_t* start  # NULL: absent
    const uint8_t* end


cdef struct Marks:  # special bytes (see `dl_plain_run`) in the 64 bytes before `stop` that were not reached yet
    const uint8_t* stop
    uint64_t bits


cdef inline bint is_space(uint8_t c) noexcept nogil:
    """Tell whether `c` is JSON whitespace; the newline, which is the sentinel, does not count."""
    return c == c" " or c == c"\t" or c == c"\r"


cdef inline const uint8_t* skip_space(const uint8_t* p) noexcept nogil:
    """Skip whitespace."""
    while is_space(p[0]):
        p += 1
    return p


cdef inline const uint8_t* skip_escape(const uint8_t* p, Fault* fault) noexcept nogil:
    """Skip one escape sequence that starts at a backslash."""
    if dl_escape[p[1]]:
        return p + 2
    if p[1] == c"u" and dl_hex[p[2]] and dl_hex[p[3]] and dl_hex[p[4]] and dl_hex[p[5]]:
        return p + 6
    return fail(fault, p, BAD_ESCAPE)


cdef inline const uint8_t* skip_character(const uint8_t* p, Fault* fault) noexcept nogil:
    """Skip one multi-byte UTF-8 character: shortest form, no surrogate, up to U+10FFFF."""
    cdef uint8_t lead = p[0]
    cdef uint8_t second = p[1]
    if lead < 0xC2 or lead > 0xF4 or (second & 0xC0) != 0x80:
        return fail(fault, p, BAD_UTF8)
    if lead < 0xE0:
        return p + 2
    if (p[2] & 0xC0) != 0x80:
        return fail(fault, p, BAD_UTF8)
    if lead < 0xF0:
        if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F):
            return fail(fault, p, BAD_UTF8)
        return p + 3
    if (p[3] & 0xC0) != 0x80 or (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
        return fail(fault, p, BAD_UTF8)
    return p + 4


cdef inline const uint8_t* skip_special(const uint8_t* p, bint* escaped, Fault* fault) noexcept nogil:
    """Skip an escape sequence or multi-byte characters in a string."""
    if p[0] == c"\\":
        escaped[0] = True
        return skip_escape(p, fault)
    if p[0] < 0x20:
        return fail(fault, p, BAD_CONTROL)
    while p != NULL and p[0] >= 0x80:
        p = skip_character(p, fault)
    return p


cdef inline const uint8_t* string_end(
    const uint8_t* p, const uint8_t* lim, bint* escaped, Fault* fault
) noexcept nogil:
    """Return the closing quote of the string that begins at `p`; `escaped` becomes whether it has a backslash."""
    cdef int run
    escaped[0] = False
    while True:
        if lim - p >= 16:
            run = dl_plain_run(p)
            p += run
            if run == 16:
                continue
        else:
            while p[0] >= 0x20 and p[0] < 0x80 and p[0] != c'"' and p[0] != c"\\":
                p += 1
        if p[0] == c'"':
            return p
        p = skip_special(p, escaped, fault)
        if p == NULL:
            return NULL


cdef inline const uint8_t* next_string_end(
    const uint8_t* p, const uint8_t* lim, Marks* marks, Fault* fault
) noexcept nogil:
    """Do the same as `string_end`, with marks that are reused for the next string."""
    cdef bint escaped
    cdef const uint8_t* mark
    while True:
        while marks.bits == 0:
            if lim - marks.stop < 64:
                return string_end(p, lim, &escaped, fault)
            marks.bits = dl_marks(marks.stop)
            marks.stop += 64
        mark = marks.stop - 64 + dl_first(marks.bits)
        marks.bits &= marks.bits - 1
        if mark < p:
            continue
        if mark[0] == c'"':
            return mark
        p = skip_special(mark, &escaped, fault)
        if p == NULL:
            return NULL


cdef inline uint32_t hex4(const uint8_t* p) noexcept nogil:
    """Return the value of four hexadecimal digits."""
    return (
        (<uint32_t>(dl_hex[p[0]] & 15) << 12)
        | (<uint32_t>(dl_hex[p[1]] & 15) << 8)
        | (<uint32_t>(dl_hex[p[2]] & 15) << 4)
        | <uint32_t>(dl_hex[p[3]] & 15)
    )


cdef inline uint8_t* put_character(uint8_t* out, uint32_t code) noexcept nogil:
    """Write one code point as UTF-8 (a surrogate as three bytes, which is not UTF-8)."""
    if code < 0x80:
        out[0] = <uint8_t>code
        return out + 1
    if code < 0x800:
        out[0] = <uint8_t>(0xC0 | (code >> 6))
        out[1] = <uint8_t>(0x80 | (code & 63))
        return out + 2
    if code < 0x10000:
        out[0] = <uint8_t>(0xE0 | (code >> 12))
        out[1] = <uint8_t>(0x80 | ((code >> 6) & 63))
        out[2] = <uint8_t>(0x80 | (code & 63))
        return out + 3
    out[0] = <uint8_t>(0xF0 | (code >> 18))
    out[1] = <uint8_t>(0x80 | ((code >> 12) & 63))
    out[2] = <uint8_t>(0x80 | ((code >> 6) & 63))
    out[3] = <uint8_t>(0x80 | (code & 63))
    return out + 4


cdef inline uint8_t* unescape(const uint8_t* p, const uint8_t* end, uint8_t* out, bint* lone) noexcept nogil:
    """Write the validated string text [p, end) with its escapes decoded, and return the end of the written bytes.

    Writes at most `end - p` bytes. A surrogate without its partner is written as three bytes, as Python's
    `surrogatepass` does, and sets `lone`.
    """
    cdef int run
    cdef uint32_t code, low
    lone[0] = False
    while p < end:
        if p[0] != c"\\":
            if end - p >= 16:
                run = dl_copy_unescaped(out, p)
                p += run
                out += run
            else:
                out[0] = p[0]
                out += 1
                p += 1
        elif p[1] != c"u":
            out[0] = dl_escape[p[1]]
            out += 1
            p += 2
        else:
            code = hex4(p + 2)
            p += 6
            if code >= 0xD800 and code < 0xE000:
                low = 0
                if code < 0xDC00 and end - p >= 6 and p[0] == c"\\" and p[1] == c"u":
                    low = hex4(p + 2)
                if low >= 0xDC00 and low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    p += 6
                else:
                    lone[0] = True
            out = put_character(out, code)
    return out


cdef inline uint8_t* put_escape(uint8_t* out, uint32_t code) noexcept nogil:
    """Write a UTF-16 code unit as `\\u` and four digits."""
    cdef int shift = 12
    out[0] = c"\\"
    out[1] = c"u"
    out += 2
    while shift >= 0:
        out[0] = (<const uint8_t*>b"0123456789ABCDEF")[(code >> shift) & 15]
        out += 1
        shift -= 4
    return out


cdef inline uint8_t* compact_escape(const uint8_t** at, const uint8_t* end, uint8_t* out) noexcept nogil:
    """Write the escape sequence at `at` in its shortest form, and move `at` to its end."""
    cdef const uint8_t* p = at[0]
    cdef uint32_t code, low
    cdef uint8_t letter = p[1]
    at[0] = p + 2
    if letter == c"u":
        code = hex4(p + 2)
        at[0] = p = p + 6
        if code >= 0xD800 and code < 0xE000:
            low = 0
            if code < 0xDC00 and end - p >= 6 and p[0] == c"\\" and p[1] == c"u":
                low = hex4(p + 2)
            if low < 0xDC00 or low >= 0xE000:
                return put_escape(out, code)  # half a pair has no form in UTF-8
            at[0] = p + 6
            return put_character(out, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
        if code == 8:
            letter = c"b"
        elif code == 9:
            letter = c"t"
        elif code == 10:
            letter = c"n"
        elif code == 12:
            letter = c"f"
        elif code == 13:
            letter = c"r"
        elif code < 0x20:
            return put_escape(out, code)
        elif code == c'"' or code == c"\\":
            letter = <uint8_t>code
        else:
            return put_character(out, code)
    if letter == c"/":
        out[0] = letter
        return out + 1
    out[0] = c"\\"
    out[1] = letter
    return out + 2


cdef inline uint8_t* compact(const uint8_t* p, const uint8_t* end, uint8_t* out) noexcept nogil:
    """Write the validated value [p, end) without space between its parts, and return the end of the written bytes.

    Writes at most `end - p` bytes. Numbers and the order of members do not change; strings escape only the characters
    that must be escaped, and lone surrogates.
    """
    cdef bint inside = False
    while p < end:
        if inside and p[0] == c"\\":
            out = compact_escape(&p, end, out)
            continue
        if p[0] == c'"':
            inside = not inside
        if inside or not is_space(p[0]):
            out[0] = p[0]
            out += 1
        p += 1
    return out


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    """Tell whether `c` is an ASCII digit."""
    return <uint8_t>(c - 48) <= 9


cdef inline const uint8_t* skip_number(const uint8_t* p, Fault* fault) noexcept nogil:
    """Skip a number."""
    if p[0] == c"-":
        p += 1
    if p[0] == c"0":
        p += 1
    else:
        if not is_digit(p[0]):
            return fail(fault, p, BAD_NUMBER)
        while is_digit(p[0]):
            p += 1
    if p[0] == c".":
        p += 1
        if not is_digit(p[0]):
            return fail(fault, p, BAD_NUMBER)
        while is_digit(p[0]):
            p += 1
    if p[0] == c"e" or p[0] == c"E":
        p += 1
        if p[0] == c"+" or p[0] == c"-":
            p += 1
        if not is_digit(p[0]):
            return fail(fault, p, BAD_NUMBER)
        while is_digit(p[0]):
            p += 1
    return p


cdef inline const uint8_t* skip_scalar(
    const uint8_t* p, const uint8_t* lim, Marks* marks, Fault* fault
) noexcept nogil:
    """Skip a string, a number or a literal."""
    cdef uint8_t c = p[0]
    if c == c'"':
        p = next_string_end(p + 1, lim, marks, fault)
        return p if p == NULL else p + 1
    if c == c"-" or is_digit(c):
        return skip_number(p, fault)
    if c == c"n" and p[1] == c"u" and p[2] == c"l" and p[3] == c"l":
        return p + 4
    if c == c"t" and p[1] == c"r" and p[2] == c"u" and p[3] == c"e":
        return p + 4
    if c == c"f" and p[1] == c"a" and p[2] == c"l" and p[3] == c"s" and p[4] == c"e":
        return p + 5
    return fail(fault, p, UNEXPECTED)


cdef inline const uint8_t* skip_key(
    const uint8_t* p, const uint8_t* lim, Marks* marks, Fault* fault
) noexcept nogil:
    """Skip a key, its colon and the space around them; return the first byte of the value."""
    if p[0] != c'"':
        p = skip_space(p)
        if p[0] != c'"':
            return fail(fault, p, UNEXPECTED)
    p = next_string_end(p + 1, lim, marks, fault)
    if p == NULL:
        return NULL
    p = skip_space(p + 1)
    if p[0] != c":":
        return fail(fault, p, UNEXPECTED)
    return skip_space(p + 1)


cdef inline const uint8_t* skip_nested(
    const uint8_t* p, const uint8_t* lim, int depth, Fault* fault
) noexcept nogil:
    """Skip the array or object at `p`, which has `depth` containers around it."""
    cdef uint8_t[MAX_DEPTH + 1] closing
    cdef int top = depth
    cdef Marks marks
    marks.stop = p
    marks.bits = 0
    while True:
        # One value starts here.
        if p[0] == c"{" or p[0] == c"[":
            top += 1
            if top > MAX_DEPTH:
                return fail(fault, p, TOO_DEEP)
            closing[top] = p[0] + 2
            p = skip_space(p + 1)
            if p[0] != closing[top]:
                if closing[top] == c"}":
                    p = skip_key(p, lim, &marks, fault)
                    if p == NULL:
                        return NULL
                continue
            p += 1
            top -= 1
        else:
            p = skip_scalar(p, lim, &marks, fault)
            if p == NULL:
                return NULL
        # A value ends here: close the arrays and objects that end, or go to the next value.
        while True:
            if top == depth:
                return p
            p = skip_space(p)
            if p[0] == c",":
                break
            if p[0] != closing[top]:
                return fail(fault, p, UNEXPECTED)
            p += 1
            top -= 1
        p = skip_space(p + 1)
        if closing[top] == c"}":
            p = skip_key(p, lim, &marks, fault)
            if p == NULL:
                return NULL


cdef inline const uint8_t* skip_value(
    const uint8_t* p, const uint8_t* lim, int depth, Fault* fault
) noexcept nogil:
    """Skip any value; `depth` containers are around it."""
    cdef Marks marks
    if p[0] == c"{" or p[0] == c"[":
        return skip_nested(p, lim, depth, fault)
    marks.stop = p
    marks.bits = 0
    return skip_scalar(p, lim, &marks, fault)
