# cython: auto_pickle=False
"""Objects in long arrays of JSON text (RFC 8259): the position of each object, its members, and members as columns.

:class:`ArrayScanner` reads an array once and makes no Python object of its elements. Of each element it records the
start, the end and the *shape*: the keys of its members, and the kind of each value. Most elements of an array have one
of a few shapes. Members are read later, by their number in the shape: as columns of numbers (:func:`columns`), or as
Python values (:func:`values`).

    kind    value
    n       null, true, false
    i       an integer
    f       another number; also NaN and the infinities, which Python's json accepts
    s       a string
    o       an object
    I       an array of integers, not empty
    F       an array of numbers, not empty
    A       any other array

The same texts are accepted as by Python's json. Numbers become the nearest double: numbers of up to about 15 digits by
one exact division or multiplication, other numbers by Python's own function.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

import json

import numpy as np

cdef extern from *:
    """
    #include <float.h>
    /* Whether a product of two doubles is rounded only once; not so if the processor computes with more digits. */
    #if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
    #define LB_ROUNDS_ONCE 1
    #else
    #define LB_ROUNDS_ONCE 0
    #endif
    static const double lb_powers[23] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
        1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    """
    const bint LB_ROUNDS_ONCE
    const double[23] lb_powers

cdef enum:
    MOST_DEPTH = 300        # maximum depth of nested arrays and objects
    MOST_TEXT = 800         # number of bytes of a number that suffice to determine the nearest double
    MOST_EXPONENT = 100_000
    MOST_SHAPES = 1 << 20

cdef enum Fault:
    FINE
    CUT
    NO_VALUE
    BAD_STRING
    BAD_NUMBER
    NO_COLON
    NO_COMMA
    NO_KEY
    TOO_DEEP

FAULTS = {
    CUT: "the end is missing",
    NO_VALUE: "a value was expected",
    BAD_STRING: "a string holds a control character or a wrong escape",
    BAD_NUMBER: "this is not a number",
    NO_COLON: "':' was expected",
    NO_COMMA: "',' or the end of an array or an object was expected",
    NO_KEY: "a key was expected",
    TOO_DEEP: "values are nested too deeply",
}


class JsonTextError(ValueError):
    """Text that is not JSON: ``at`` is the position of the error in bytes, ``what`` its description."""

    def __init__(self, at, what):
        super().__init__(f"no JSON at byte {at:,}: {what}")
        self.at, self.what = at, what


cdef struct Text:
    const uint8_t* begin
    const uint8_t* end
    const uint8_t* wrong    # position of the fault
    Fault fault


cdef struct Number:
    const uint8_t* begin
    const uint8_t* end
    uint64_t digits         # the first 19 significant digits
    int64_t exponent        # power of ten
    bint is_integer
    bint is_exact           # whether `digits` has all digits
    bint is_negative
    uint8_t special         # N for NaN, I for infinity


cdef inline const uint8_t* fail(Text* text, const uint8_t* p, Fault fault) noexcept nogil:
    text.wrong = p
    text.fault = fault
    return NULL


cdef inline const uint8_t* space(const uint8_t* p, const uint8_t* end) noexcept nogil:
    while p < end and (p[0] == c" " or p[0] == c"\n" or p[0] == c"\r" or p[0] == c"\t"):
        p += 1
    return p


cdef inline bint is_hex(uint8_t c) noexcept nogil:
    return c"0" <= c <= c"9" or c"a" <= c <= c"f" or c"A" <= c <= c"F"


cdef const uint8_t* string(Text* text, const uint8_t* p) noexcept nogil:
    """Read a string from its first quote on; return the position after it."""
    cdef const uint8_t* end = text.end
    cdef uint8_t c
    p += 1
    while p < end:
        c = p[0]
        if c == c'"':
            return p + 1
        if c < 0x20:
            return fail(text, p, BAD_STRING)
        if c != c"\\":
            p += 1
            continue
        if end - p < 2:
            break
        c = p[1]
        if c == c"u":
            if end - p < 6:
                break
            if not (is_hex(p[2]) and is_hex(p[3]) and is_hex(p[4]) and is_hex(p[5])):
                return fail(text, p, BAD_STRING)
            p += 6
        elif (
            c == c'"' or c == c"\\" or c == c"/" or c == c"b" or c == c"f" or c == c"n" or c == c"r" or c == c"t"
        ):
            p += 2
        else:
            return fail(text, p, BAD_STRING)
    return fail(text, end, CUT)


cdef inline bint is_word(const uint8_t* p, const uint8_t* end, const char* word, Py_ssize_t size) noexcept nogil:
    return end - p >= size and memcmp(p, word, size) == 0


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return c"0" <= c <= c"9"


cdef const uint8_t* number(Text* text, const uint8_t* p, Number* found) noexcept nogil:
    """Read a number; return the position after it, whose byte the caller must check."""
    cdef const uint8_t* end = text.end
    cdef const uint8_t* first
    cdef int kept = 0       # number of digits in the result, without leading zeros
    cdef int64_t exponent = 0
    cdef bint is_small
    found.begin = p
    found.digits, found.exponent, found.special = 0, 0, 0
    found.is_integer = found.is_exact = True
    found.is_negative = p < end and p[0] == c"-"
    if found.is_negative:
        p += 1
    if p == end:
        return fail(text, p, CUT)
    if p[0] == c"I" or p[0] == c"N":
        found.is_integer = False
        found.special = p[0]
        if is_word(p, end, b"Infinity", 8):
            p += 8
        elif is_word(p, end, b"NaN", 3) and not found.is_negative:
            p += 3
        else:
            return fail(text, p, NO_VALUE)
        found.end = p
        return p
    if not is_digit(p[0]):
        return fail(text, p, BAD_NUMBER if found.is_negative else NO_VALUE)
    if p[0] == c"0":
        p += 1
    else:
        while p < end and is_digit(p[0]):
            if kept < 19:
                found.digits = found.digits * 10 + (p[0] - c"0")
                kept += 1
            else:
                found.is_exact = False
            p += 1
    if p < end and p[0] == c"." and end - p > 1 and is_digit(p[1]):
        found.is_integer = False
        p += 1
        while p < end and is_digit(p[0]):
            if kept < 19:
                found.digits = found.digits * 10 + (p[0] - c"0")
                found.exponent -= 1
                kept += found.digits != 0
            elif p[0] != c"0":
                found.is_exact = False
            p += 1
    if p < end and (p[0] == c"e" or p[0] == c"E"):
        first = p + 1
        is_small = first < end and first[0] == c"-"
        if first < end and (first[0] == c"-" or first[0] == c"+"):
            first += 1
        if first < end and is_digit(first[0]):
            found.is_integer = False
            p = first
            while p < end and is_digit(p[0]):
                if exponent < MOST_EXPONENT:
                    exponent = exponent * 10 + (p[0] - c"0")
                p += 1
            found.exponent += -exponent if is_small else exponent
    found.end = p
    return p


cdef const uint8_t* value(Text* text, const uint8_t* p, int depth, uint8_t* kind) noexcept nogil:
    """Skip a value and determine its kind; return the position after it."""
    cdef const uint8_t* end = text.end
    cdef Number found
    if p == end:
        return fail(text, p, CUT)
    if p[0] == c'"':
        kind[0] = c"s"
        return string(text, p)
    if p[0] == c"{":
        kind[0] = c"o"
        return members(text, p, depth + 1)
    if p[0] == c"[":
        return elements(text, p, depth + 1, kind)
    if p[0] == c"t" or p[0] == c"f" or p[0] == c"n":
        kind[0] = c"n"
        if is_word(p, end, b"true", 4) or is_word(p, end, b"null", 4):
            return p + 4
        if is_word(p, end, b"false", 5):
            return p + 5
        return fail(text, p, NO_VALUE)
    p = number(text, p, &found)
    kind[0] = c"i" if found.is_integer else c"f"
    return p


cdef const uint8_t* elements(Text* text, const uint8_t* p, int depth, uint8_t* kind) noexcept nogil:
    """Skip an array from its bracket on, and determine its kind."""
    cdef const uint8_t* end = text.end
    cdef uint8_t of = 0
    if depth > MOST_DEPTH:
        return fail(text, p, TOO_DEEP)
    kind[0] = c"A"
    p = space(p + 1, end)
    if p < end and p[0] == c"]":
        return p + 1
    kind[0] = c"I"
    while True:
        p = value(text, p, depth, &of)
        if p == NULL:
            return NULL
        if of == c"f":
            kind[0] = c"F" if kind[0] == c"I" else kind[0]
        elif of != c"i":
            kind[0] = c"A"
        p = space(p, end)
        if p == end:
            return fail(text, p, CUT)
        if p[0] == c"]":
            return p + 1
        if p[0] != c",":
            return fail(text, p, NO_COMMA)
        p = space(p + 1, end)


cdef inline const uint8_t* key(Text* text, const uint8_t* p) noexcept nogil:
    """Skip a key and its colon; return the position of its value."""
    cdef const uint8_t* end = text.end
    if p == end:
        return fail(text, p, CUT)
    if p[0] != c'"':
        return fail(text, p, NO_KEY)
    p = string(text, p)
    if p == NULL:
        return NULL
    p = space(p, end)
    if p == end:
        return fail(text, p, CUT)
    if p[0] != c":":
        return fail(text, p, NO_COLON)
    return space(p + 1, end)


cdef inline const uint8_t* after_member(Text* text, const uint8_t* p, bint* is_last) noexcept nogil:
    """Return the position of the next member's key, or the position after the object."""
    cdef const uint8_t* end = text.end
    p = space(p, end)
    if p == end:
        return fail(text, p, CUT)
    is_last[0] = p[0] == c"}"
    if is_last[0]:
        return p + 1
    if p[0] != c",":
        return fail(text, p, NO_COMMA)
    return space(p + 1, end)


cdef inline const uint8_t* first_member(Text* text, const uint8_t* p, bint* is_empty) noexcept nogil:
    """Return the position of an object's first key, or the position after an empty object."""
    p = space(p + 1, text.end)
    is_empty[0] = p < text.end and p[0] == c"}"
    return p + 1 if is_empty[0] else p


cdef const uint8_t* members(Text* text, const uint8_t* p, int depth) noexcept nogil:
    """Skip an object from its brace on."""
    cdef bint is_last = False
    cdef uint8_t of = 0
    if depth > MOST_DEPTH:
        return fail(text, p, TOO_DEEP)
    p = first_member(text, p, &is_last)
    while not is_last:
        p = key(text, p)
        if p != NULL:
            p = value(text, p, depth, &of)
        if p != NULL:
            p = after_member(text, p, &is_last)
        if p == NULL:
            return NULL
    return p


# -- numbers -----------------------------------------------------------------------------------------------------


cdef inline bint as_integer(const Number* found, int64_t* to) noexcept nogil:
    """Tell whether a number is an integer of 64 bits, and write it to ``to``."""
    cdef uint64_t most = <uint64_t> 1 << 63
    if not found.is_integer or not found.is_exact:
        return False
    if found.is_negative:
        if found.digits > most:
            return False
        to[0] = <int64_t> (<uint64_t> 0 - found.digits)
        return True
    to[0] = <int64_t> found.digits
    return found.digits < most


cdef inline int as_double(const Number* found, double* to) except -1 nogil:
    """Write the nearest double to ``to``; return 0 for integers beyond the largest double, which Python refuses."""
    cdef double digits = <double> found.digits
    if (
        LB_ROUNDS_ONCE
        and found.is_exact
        and not found.special
        and found.digits <= <uint64_t> 1 << 53
        and -22 <= found.exponent <= 22
    ):
        digits = digits / lb_powers[-found.exponent] if found.exponent < 0 else digits * lb_powers[found.exponent]
        # As in Python, the integer -0 is 0, but -0.0 keeps its sign.
        to[0] = -digits if found.is_negative and (found.digits or not found.is_integer) else digits
        return 1
    return slow_double(found, to)


cdef int slow_double(const Number* found, double* to) except -1 with gil:
    text = PyBytes_FromStringAndSize(<const char*> found.begin, found.end - found.begin)
    if found.is_integer:
        if len(text) > MOST_TEXT:
            return 0
        try:
            to[0] = float(int(text))
        except OverflowError:
            return 0
    else:
        to[0] = float(text)
    return 1


# -- growing buffers -----------------------------------------------------------------------------------------------


cdef struct Grown:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room


cdef inline int add(Grown* to, const void* data, Py_ssize_t size) except -1 nogil:
    if size > to.room - to.size:
        grow(to, size)
    memcpy(to.data + to.size, data, size)
    to.size += size
    return 0


cdef int grow(Grown* to, Py_ssize_t size) except -1 nogil:
    cdef Py_ssize_t room = to.room + size if size > to.room else 2 * to.room
    cdef uint8_t* data
    room = room if room > 512 else 512
    data = <uint8_t*> PyMem_RawRealloc(to.data, room)
    if data == NULL:
        with gil:
            raise MemoryError
    to.data, to.room = data, room
    return 0


cdef inline int add_integer(Grown* to, int64_t item) except -1 nogil:
    return add(to, &item, 8)


cdef inline int64_t integer_at(const Grown* of, Py_ssize_t at) noexcept nogil:
    return (<const int64_t*> of.data)[at]


cdef array_of(const Grown* of, dtype):
    """Return items of eight bytes as an array."""
    found = np.empty(of.size // 8, dtype)
    cdef uint64_t[::1] into = found.view(np.uint64)
    if of.size:
        memcpy(&into[0], of.data, of.size)
    return found


cdef class _Held:
    """A buffer that is held while it is read."""

    cdef Py_buffer buffer
    cdef Text text

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.text.begin = <const uint8_t*> self.buffer.buf
        self.text.end = self.text.begin + self.buffer.len
        self.text.wrong, self.text.fault = NULL, FINE

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)

    cdef error(self):
        return JsonTextError(self.text.wrong - self.text.begin, FAULTS[self.text.fault])


# -- scanning of an array ------------------------------------------------------------------------------------------


def value_span(data, Py_ssize_t at):
    """Return the start and the end of the next value, without the spaces around it.

    Parameters
    ----------
    data
        A contiguous buffer of UTF-8.
    at
        Byte at which the search begins.

    Raises
    ------
    JsonTextError
        If no valid value follows.
    """
    cdef _Held held = _Held(data)
    if not 0 <= at <= held.buffer.len:
        raise IndexError(f"byte {at} of {held.buffer.len}")
    cdef const uint8_t* p = space(held.text.begin + at, held.text.end)
    cdef uint8_t kind = 0
    cdef const uint8_t* stop = value(&held.text, p, 0, &kind)
    if stop == NULL:
        raise held.error()
    return p - held.text.begin, stop - held.text.begin


cdef class ArrayScanner:
    """A scanner of an array of objects.

    Parameters
    ----------
    data
        A contiguous buffer of UTF-8, which must not change during the scan.
    at
        Byte of the opening bracket.
    wanted
        Keys of members whose positions are reported.

    Attributes
    ----------
    at
        Byte of the next element; at the end, the byte after the array.
    is_over
        Whether no further element follows.
    shapes
        (keys, kinds) of each shape: the distinct keys of the members, and a letter for the kind of each; of repeated
        keys the last one counts. None for elements that are not objects.
    members
        For each shape, the number in the text of each of its keys, which :func:`columns` needs.
    """

    cdef _Held held
    cdef tuple wanted
    cdef Py_ssize_t position
    cdef readonly bint is_over
    cdef readonly list shapes
    cdef readonly list members
    cdef dict known             # signature -> number of the shape
    cdef list wanted_at         # for each shape, the member of each wanted key; -1 if the shape lacks it
    cdef bytes last             # signature of the previous element, and its shape
    cdef int last_shape
    cdef Grown signature, inner, starts, ends, numbers, spans

    def __cinit__(self, data, Py_ssize_t at, wanted=()):
        self.held = _Held(data)
        self.wanted = tuple(wanted)
        self.shapes, self.members, self.wanted_at = [], [], []
        self.known, self.last, self.last_shape = {}, None, -1
        cdef Text* text = &self.held.text
        if not 0 <= at < self.held.buffer.len or text.begin[at] != c"[":
            raise JsonTextError(at, "'[' was expected")
        cdef const uint8_t* p = space(text.begin + at + 1, text.end)
        self.is_over = p < text.end and p[0] == c"]"
        self.position = p - text.begin + self.is_over

    def __dealloc__(self):
        PyMem_RawFree(self.signature.data)
        PyMem_RawFree(self.inner.data)
        PyMem_RawFree(self.starts.data)
        PyMem_RawFree(self.ends.data)
        PyMem_RawFree(self.numbers.data)
        PyMem_RawFree(self.spans.data)

    @property
    def at(self):
        return self.position

    def next(self, Py_ssize_t most):
        """Scan the next elements.

        Parameters
        ----------
        most
            Maximum number of elements.

        Returns
        -------
        tuple
            The starts, and the ends, of the elements: int64, shape (elements,) each. The number of each element's
            shape: int64. The start and end of the value of each wanted key, -1 if missing: int64, shape (elements,
            keys, 2).

        Raises
        ------
        JsonTextError
            If the text is not JSON.
        """
        cdef Text* text = &self.held.text
        cdef const uint8_t* p = text.begin + self.position
        cdef const uint8_t* start
        cdef Py_ssize_t count = 0
        cdef int shape, at
        self.starts.size = self.ends.size = self.numbers.size = self.spans.size = 0
        while not self.is_over and count < most:
            start = p
            p = self.element(p)
            if p == NULL:
                raise self.held.error()
            shape = self.element_shape()
            add_integer(&self.starts, start - text.begin)
            add_integer(&self.ends, p - text.begin)
            add_integer(&self.numbers, shape)
            for at in <list> self.wanted_at[shape]:
                add_integer(&self.spans, -1 if at < 0 else integer_at(&self.inner, 2 * at))
                add_integer(&self.spans, -1 if at < 0 else integer_at(&self.inner, 2 * at + 1))
            count += 1
            p = space(p, text.end)
            if p == text.end or (p[0] != c"]" and p[0] != c","):
                fail(text, p, CUT if p == text.end else NO_COMMA)
                raise self.held.error()
            self.is_over = p[0] == c"]"
            p = p + 1 if self.is_over else space(p + 1, text.end)
            self.position = p - text.begin
        return (
            array_of(&self.starts, np.int64),
            array_of(&self.ends, np.int64),
            array_of(&self.numbers, np.int64),
            array_of(&self.spans, np.int64).reshape(count, len(self.wanted), 2),
        )

    cdef const uint8_t* element(self, const uint8_t* p) except? NULL:
        """Skip an element; record the positions of its values, and its keys and kinds in the signature."""
        cdef Text* text = &self.held.text
        cdef const uint8_t* begin
        cdef bint is_last = False
        cdef uint8_t kind = 0
        self.inner.size = self.signature.size = 0
        if p == text.end or p[0] != c"{":
            return value(text, p, 0, &kind)
        add(&self.signature, b"{", 1)
        p = first_member(text, p, &is_last)
        while not is_last:
            begin = p
            p = key(text, p)
            if p == NULL:
                return NULL
            add(&self.signature, begin, p - begin)
            begin = p
            p = value(text, p, 1, &kind)
            if p == NULL:
                return NULL
            add(&self.signature, &kind, 1)
            add_integer(&self.inner, begin - text.begin)
            add_integer(&self.inner, p - text.begin)
            p = after_member(text, p, &is_last)
            if p == NULL:
                return NULL
        return p

    cdef int element_shape(self) except -1:
        """Return the number of the shape of the last element."""
        cdef Py_ssize_t size = self.signature.size
        if self.last is not None and len(self.last) == size:
            if size == 0 or memcmp(<const char*> self.last, self.signature.data, size) == 0:
                return self.last_shape
        signature = PyBytes_FromStringAndSize(<const char*> self.signature.data, size)
        found = self.known.get(signature)
        self.last_shape = self.new_shape(signature) if found is None else found
        self.last = signature
        return self.last_shape

    cdef int new_shape(self, bytes signature) except -1:
        """Add a new shape and return its number; the signature has the keys as they are in the text."""
        cdef int number = len(self.shapes)
        if number >= MOST_SHAPES:
            raise JsonTextError(self.position, f"objects have more than {MOST_SHAPES:,} kinds of keys")
        found = {}
        at, count = 1, 0
        while at < len(signature):
            _, stop = value_span(signature, at)
            name = json.loads(signature[at:stop])
            at = signature.index(b":", stop) + 1
            while signature[at] in b" \n\r\t":
                at += 1
            found[name] = (count, signature[at])
            at, count = at + 1, count + 1
        self.known[signature] = number
        self.shapes.append((tuple(found), bytes(kind for _, kind in found.values())) if signature else None)
        self.members.append([place for place, _ in found.values()])
        self.wanted_at.append([found[name][0] if name in found else -1 for name in self.wanted])
        return number


# -- members of elements -------------------------------------------------------------------------------------------


def values(data, const int64_t[::1] starts, const int64_t[::1] ends):
    """Return values as Python's json parses them; None for a negative position.

    Parameters
    ----------
    data
        A contiguous buffer of UTF-8.
    starts, ends
        Start and end of each value: int64, shape (values,).

    Raises
    ------
    ValueError
        If a position is not that of a value, or a text is not UTF-8.
    """
    cdef _Held held = _Held(data)
    cdef Py_ssize_t i, count = starts.shape[0], size
    cdef const uint8_t* p
    cdef Number found
    cdef int64_t whole = 0
    cdef Text text = held.text
    if ends.shape[0] != count:
        raise ValueError(f"{count} values begin, and {ends.shape[0]} end")
    made = [None] * count
    for i in range(count):
        if starts[i] < 0:
            continue
        size = ends[i] - starts[i]
        if not 0 < size <= held.buffer.len - starts[i] or starts[i] > held.buffer.len:
            raise ValueError(f"bytes {starts[i]} to {ends[i]} are no value of {held.buffer.len}")
        p = held.text.begin + starts[i]
        text.end = p + size
        if p[0] == c'"' and string(&text, p) == text.end and memchr(p, c"\\", size) == NULL:
            made[i] = PyUnicode_DecodeUTF8(<const char*> p + 1, size - 2, NULL)
        elif p[0] != c'"' and number(&text, p, &found) == text.end and as_integer(&found, &whole):
            made[i] = whole
        else:
            made[i] = json.loads(PyBytes_FromStringAndSize(<const char*> p, size).decode())
    return made


cdef struct Field:
    uint8_t kind
    Grown values    # numbers, or starts and ends of values
    Grown parts     # count of numbers in each inner array
    Grown counts    # count of numbers, or of inner arrays, in each element
    Py_ssize_t[3] before


cdef class _Fields:
    """The buffers of the columns while they grow."""

    cdef Field* fields
    cdef int count

    def __cinit__(self, bytes kinds):
        cdef int i
        self.count = len(kinds)
        self.fields = <Field*> PyMem_RawCalloc(self.count + 1, sizeof(Field))
        if self.fields == NULL:
            raise MemoryError
        for i in range(self.count):
            self.fields[i].kind = kinds[i]

    def __dealloc__(self):
        cdef int i
        if self.fields == NULL:
            return
        for i in range(self.count):
            PyMem_RawFree(self.fields[i].values.data)
            PyMem_RawFree(self.fields[i].parts.data)
            PyMem_RawFree(self.fields[i].counts.data)
        PyMem_RawFree(self.fields)

    cdef void note(self) noexcept nogil:
        cdef int i
        for i in range(self.count):
            self.fields[i].before[0] = self.fields[i].values.size
            self.fields[i].before[1] = self.fields[i].parts.size
            self.fields[i].before[2] = self.fields[i].counts.size

    cdef void back(self) noexcept nogil:
        cdef int i
        for i in range(self.count):
            self.fields[i].values.size = self.fields[i].before[0]
            self.fields[i].parts.size = self.fields[i].before[1]
            self.fields[i].counts.size = self.fields[i].before[2]

    cdef int add_nothing(self, int i) except -1 nogil:
        """Add an element without a value to a column; a number becomes 0."""
        cdef Field* field = &self.fields[i]
        if field.kind == c"i" or field.kind == c"f":
            return add_integer(&field.values, 0)
        if field.kind == c"v":
            add_integer(&field.values, -1)
            return add_integer(&field.values, -1)
        return add_integer(&field.counts, 0)

    cdef found(self):
        cdef int i
        columns = []
        for i in range(self.count):
            kind = self.fields[i].kind
            numbers = np.float64 if kind in b"fFP" else np.int64
            values = array_of(&self.fields[i].values, numbers)
            counts = array_of(&self.fields[i].counts, np.int64)
            if kind in b"if":
                columns.append(values)
            elif kind == b"v"[0]:
                columns.append(values.reshape(-1, 2))
            elif kind == b"P"[0]:
                columns.append((values, array_of(&self.fields[i].parts, np.int64), counts))
            else:
                columns.append((values, counts))
        return columns


def columns(
    data,
    const int64_t[::1] starts,
    const int64_t[::1] ends,
    const int64_t[::1] shapes,
    const int64_t[:, ::1] members,
    bytes kinds,
):
    """Return some members of objects as columns.

    Parameters
    ----------
    data
        A contiguous buffer of UTF-8.
    starts, ends
        Start and end of each object, from a scanner: int64, shape (objects,).
    shapes
        The number of each object's shape: int64, shape (objects,).
    members
        For each shape, the number of the member for each column, -1 for none: int64, shape (shapes, columns).
    kinds
        Type of each column: ``i`` integers, ``f`` numbers, ``I`` and ``F`` arrays of integers or numbers, ``P`` arrays
        of arrays of pairs of numbers, ``v`` positions of values.

    Returns
    -------
    tuple
        A list of the columns; and a mask of the objects of which a value does not fit its column: bool, shape
        (objects,). In all columns, such objects have zeros, empty arrays, or the positions -1.

        ``i``: int64, shape (objects,); ``f``: float64. ``I``, ``F``: all values, and the number of values of each
        object. ``P``: all values, their number in each inner array, and the number of inner arrays of each object,
        which is 0 if the member is missing or not an array. ``v``: start and end, int64, shape (objects, 2).
    """
    cdef Py_ssize_t i, count = starts.shape[0]
    cdef _Held held = _Held(data)
    cdef _Fields fields = _Fields(kinds)
    cdef Text text = held.text
    cdef int given
    if ends.shape[0] != count or shapes.shape[0] != count or members.shape[1] != fields.count:
        raise ValueError("the numbers of starts, ends and shapes of objects differ")
    for i in range(fields.count):
        if kinds[i] not in b"ifIFPv":
            raise ValueError(f"no column is of the kind {kinds[i:i + 1]!r}")
    odd = np.zeros(count, np.bool_)
    cdef uint8_t[::1] is_odd = odd.view(np.uint8)
    for i in range(count):
        if not 0 <= starts[i] < ends[i] <= held.buffer.len or not 0 <= shapes[i] < members.shape[0]:
            raise ValueError(f"bytes {starts[i]} to {ends[i]} are no object of {held.buffer.len}")
    with nogil:
        for i in range(count):
            text.end = held.text.begin + ends[i]
            fields.note()
            if not take(&text, held.text.begin, starts[i], fields, members[shapes[i]]):
                fields.back()
                is_odd[i] = True
                for given in range(fields.count):
                    fields.add_nothing(given)
    return fields.found(), odd


cdef int take(
    Text* text, const uint8_t* whole, Py_ssize_t start, _Fields fields, const int64_t[::1] members
) except -1 nogil:
    """Add the members of an object to the columns; return whether all of them fit."""
    cdef const uint8_t* p = whole + start
    cdef bint is_last = False
    cdef uint8_t kind = 0
    cdef int i
    cdef int64_t member = 0
    cdef bint is_taken
    if p[0] != c"{":
        return False
    p = first_member(text, p, &is_last)
    while not is_last:
        p = key(text, p)
        if p == NULL:
            return False
        is_taken = False
        for i in range(fields.count):
            if members[i] == member:
                if is_taken or not put(text, whole, &p, &fields.fields[i]):
                    return False
                is_taken = True
        if not is_taken:
            p = value(text, p, 1, &kind)
            if p == NULL:
                return False
        member += 1
        p = after_member(text, p, &is_last)
        if p == NULL:
            return False
    for i in range(fields.count):
        if members[i] >= member:
            return False
        if members[i] < 0:
            if fields.fields[i].kind != c"P":
                return False
            fields.add_nothing(i)
    return True


cdef int put(Text* text, const uint8_t* whole, const uint8_t** at, Field* field) except -1 nogil:
    """Add a value to a column, and move ``at`` to the position after it; return whether it fits."""
    cdef const uint8_t* p = at[0]
    cdef uint8_t kind = 0
    cdef int64_t parts = 0, numbers = 0
    if field.kind == c"v":
        at[0] = value(text, p, 1, &kind)
        if at[0] == NULL:
            return False
        add_integer(&field.values, p - whole)
        add_integer(&field.values, at[0] - whole)
        return True
    if field.kind == c"i" or field.kind == c"f":
        return put_number(text, at, field)
    if field.kind == c"P":
        if p < text.end and p[0] != c"[":
            at[0] = value(text, p, 1, &kind)
            if at[0] == NULL:
                return False
            add_integer(&field.counts, 0)
            return True
        if p == text.end:
            return False
        p = space(p + 1, text.end)
        if p < text.end and p[0] == c"]":
            at[0] = p + 1
            add_integer(&field.counts, 0)
            return True
        while True:
            if not put_numbers(text, &p, field, &numbers) or numbers % 2:
                return False
            add_integer(&field.parts, numbers)
            parts += 1
            p = space(p, text.end)
            if p == text.end or (p[0] != c"," and p[0] != c"]"):
                return False
            if p[0] == c"]":
                at[0] = p + 1
                add_integer(&field.counts, parts)
                return True
            p = space(p + 1, text.end)
    if not put_numbers(text, at, field, &numbers):
        return False
    add_integer(&field.counts, numbers)
    return True


cdef int put_numbers(Text* text, const uint8_t** at, Field* field, int64_t* count) except -1 nogil:
    """Add the numbers of an array to a column; return whether the value is an array of numbers."""
    cdef const uint8_t* p = at[0]
    count[0] = 0
    if p == text.end or p[0] != c"[":
        return False
    p = space(p + 1, text.end)
    if p < text.end and p[0] == c"]":
        at[0] = p + 1
        return True
    while True:
        if not put_number(text, &p, field):
            return False
        count[0] += 1
        p = space(p, text.end)
        if p == text.end or (p[0] != c"," and p[0] != c"]"):
            return False
        if p[0] == c"]":
            at[0] = p + 1
            return True
        p = space(p + 1, text.end)


cdef inline int put_number(Text* text, const uint8_t** at, Field* field) except -1 nogil:
    cdef Number found
    cdef int64_t whole = 0
    cdef double nearest = 0
    cdef const uint8_t* p = number(text, at[0], &found)
    if p == NULL:
        return False
    at[0] = p
    if field.kind == c"i" or field.kind == c"I":
        if not as_integer(&found, &whole):
            return False
        add_integer(&field.values, whole)
        return True
    if not as_double(&found, &nearest):
        return False
    add(&field.values, &nearest, 8)
    return True
