"""The text of a JSON string -> the bytes that it spells in base64 (RFC 4648).

Accepted: the standard alphabet, the URL-safe one, both in one text; padding or none; white space anywhere; a `data:`
URL (RFC 2397) around the base64. A text is decoded with its JSON escapes: each escape that occurs in base64 (`\\/`,
`\\n`, `\\u003d`) is one symbol, so that even a long text is not copied first.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from destination_deeplake.native.json cimport dl_escape, hex4


cdef extern from *:
    """
    /* 0 to 63 the value of a symbol, 64 white space, 65 padding, 255 anything else. */
    static uint8_t dl_base64[256];

    static void dl_fill_base64(void)
    {
        const char *symbols = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        memset(dl_base64, 255, 256);
        for (int i = 0; i < 64; i++) dl_base64[(uint8_t)symbols[i]] = (uint8_t)i;
        dl_base64['-'] = 62;
        dl_base64['_'] = 63;
        dl_base64[' '] = dl_base64['\\t'] = dl_base64['\\n'] = dl_base64['\\v'] = dl_base64['\\f'] = dl_base64['\\r'] = 64;
        dl_base64['='] = 65;
    }
    """
    uint8_t[256] dl_base64
    void dl_fill_base64() noexcept nogil


cdef enum:
    SPACE = 64
    PADDING = 65
    NO_SYMBOL = 255


cdef inline size_t base64_room(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return the maximum number of bytes that `decode_base64` writes for [p, end)."""
    return <size_t>(end - p) // 4 * 3 + 4


cdef inline uint32_t next_letter(const uint8_t** at) noexcept nogil:
    """Read one character of a validated string; NO_SYMBOL for an escaped character beyond ASCII."""
    cdef const uint8_t* p = at[0]
    cdef uint32_t code
    if p[0] != c"\\":
        at[0] = p + 1
        return p[0]
    if p[1] != c"u":
        at[0] = p + 2
        return dl_escape[p[1]]
    at[0] = p + 6
    code = hex4(p + 2)
    return code if code < 128 else NO_SYMBOL


cdef inline const uint8_t* behind_data_url(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return the start of the base64: after the head of a `data:` URL, if any; NULL if the URL has no base64."""
    cdef const uint8_t* start = p
    cdef uint64_t letters = 0  # the last eight letters, lower case
    cdef uint32_t letter = SPACE
    cdef int64_t n = 0
    while p < end and n < 5:
        start = p if n == 0 else start
        letter = next_letter(&p)
        if n or dl_base64[letter] != SPACE:
            letters = (letters << 8) | (letter | 0x20)
            n += 1
    if n < 5 or letters != <uint64_t>0x646174613A:  # data:
        return start
    while p < end:
        letter = next_letter(&p)
        if letter == c",":
            # ;base64
            return p if n >= 12 and letters & ((<uint64_t>1 << 56) - 1) == <uint64_t>0x3B626173653634 else NULL
        letters = (letters << 8) | (letter | 0x20)
        n += 1
    return NULL


cdef inline uint8_t* decode_base64(const uint8_t* p, const uint8_t* end, uint8_t* out) noexcept nogil:
    """Decode the validated string text [p, end) and return the end of the written bytes; NULL if it is not base64.

    Writes at most `base64_room` bytes.
    """
    cdef uint32_t group = 0
    cdef uint32_t symbols
    cdef int held = 0  # symbols in `group`
    cdef int padding = 0
    cdef int symbol
    cdef uint8_t a, b, c, d
    p = behind_data_url(p, end)
    if p == NULL:
        return NULL
    while p < end:
        if held == 0 and padding == 0:
            while end - p >= 4:
                a, b, c, d = dl_base64[p[0]], dl_base64[p[1]], dl_base64[p[2]], dl_base64[p[3]]
                if (a | b | c | d) >= 64:
                    break
                symbols = (<uint32_t>a << 18) | (<uint32_t>b << 12) | (<uint32_t>c << 6) | d
                out[0] = <uint8_t>(symbols >> 16)
                out[1] = <uint8_t>(symbols >> 8)
                out[2] = <uint8_t>symbols
                out += 3
                p += 4
            if p == end:
                break
        symbol = dl_base64[next_letter(&p)]
        if symbol < 64:
            if padding:
                return NULL
            group = (group << 6) | <uint32_t>symbol
            held += 1
            if held == 4:
                out[0] = <uint8_t>(group >> 16)
                out[1] = <uint8_t>(group >> 8)
                out[2] = <uint8_t>group
                out += 3
                held = 0
                group = 0
        elif symbol == PADDING:
            padding += 1
        elif symbol != SPACE:
            return NULL
    if held == 1 or (padding and (held == 0 or held + padding != 4)):
        return NULL
    if held >= 2:
        group <<= 6 * (4 - held)
        out[0] = <uint8_t>(group >> 16)
        out[1] = <uint8_t>(group >> 8)
        out += held - 1
    return out
