# cython: auto_pickle=False
"""Keys of rows: hashes of Arrow columns, tables and filters of hashes, the newest row of each key; numbers as texts.

Hashes are rows of two 64-bit words. They are valid in one process only, because the points of the polynomials are drawn
at random. Tests compare all functions with plain Python. Objects are not thread-safe.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from decimal import MAX_EMAX as _MAX_EMAX
from decimal import Context, Decimal

import numpy as np

from lakebed.native.cells cimport (
    BOOL, BYTES, FLOAT64, INT64, LAYOUTS, UINT64, WIDE_BYTES, Cells, Span, absorb_cell, absorb_number, compared, is_null,
    offset_at, span
)
from lakebed.native.numerals cimport (
    A_FAR_NUMBER, NO_NUMBER, ROOM, Numeral, Reading, put_order, read_numeral, spell
)
from lakebed.native.residues cimport MODULUS, prefetch, scaled, scattered

LAYOUT_INT64 = INT64
LAYOUT_UINT64 = UINT64
LAYOUT_FLOAT64 = FLOAT64
LAYOUT_BOOL = BOOL
LAYOUT_BYTES = BYTES
LAYOUT_WIDE_BYTES = WIDE_BYTES

cdef enum:
    AHEAD = 32  # number of rows whose memory is prefetched
    BLOCK_WORDS = 8  # words per block of a filter: one cache line


cdef class Values:
    """The cells of one Arrow array; the array's memory stays alive with it.

    Parameters
    ----------
    layout
        One of LAYOUT_*.
    rows, offset
        Number of cells, and number of cells before the first one in every buffer.
    validity, offsets, data
        The array's buffers; None for a buffer that the array lacks.

    Raises
    ------
    ValueError
        If a buffer is too short, or offsets are not in order: nothing outside the buffers is ever read.
    """

    cdef Cells cells
    cdef Py_buffer[3] views
    cdef int held

    def __cinit__(
        self, int layout, Py_ssize_t rows, Py_ssize_t offset, object validity, object offsets, object data
    ):
        cdef Py_ssize_t need, most = <Py_ssize_t> 1 << 50
        self.held = 0
        if not (0 <= layout < LAYOUTS and 0 <= rows <= most and 0 <= offset <= most):
            raise ValueError("no such layout or number of rows")
        need = rows + offset
        self.cells.layout = layout
        self.cells.rows = rows
        self.cells.offset = offset
        self.cells.validity = NULL
        if validity is not None:
            self.cells.validity = self._hold(validity, (need + 7) // 8)
        if layout >= BYTES:
            self.cells.offsets = self._hold(offsets, (need + 1) * (4 if layout == BYTES else 8) if rows else 0)
            self.cells.data = self._hold(data, 0)
            if rows and not _in_order(&self.cells, self.views[self.held - 1].len if data is not None else 0):
                raise ValueError("offsets of texts are out of order or beyond their data")
        else:
            self.cells.data = self._hold(data, 0 if not rows else (need + 7) // 8 if layout == BOOL else need * 8)

    def __dealloc__(self):
        cdef int i
        for i in range(self.held):
            PyBuffer_Release(&self.views[i])

    cdef const uint8_t* _hold(self, object buffer, Py_ssize_t need) except? NULL:
        """Acquire a buffer, which must have at least `need` bytes."""
        if buffer is None:
            if need:
                raise ValueError("a buffer is missing")
            return NULL
        PyObject_GetBuffer(buffer, &self.views[self.held], PyBUF_SIMPLE)
        self.held += 1
        if self.views[self.held - 1].len < need:
            raise ValueError("a buffer is too short for its rows")
        return <const uint8_t*> self.views[self.held - 1].buf

    def __len__(self):
        return self.cells.rows


cdef bint _in_order(const Cells* cells, int64_t size) noexcept nogil:
    """Tell whether all offsets are within `size` bytes and never decrease."""
    cdef Py_ssize_t row
    cdef int64_t here, before = offset_at(cells, cells.offset)
    if before < 0:
        return False
    for row in range(1, cells.rows + 1):
        here = offset_at(cells, cells.offset + row)
        if here < before:
            return False
        before = here
    return before <= size


cdef class _Columns:
    """Cells of several columns of one length, as an array of C."""

    cdef list kept
    cdef Cells* cells
    cdef int count
    cdef Py_ssize_t rows

    def __cinit__(self, object columns):
        cdef Values values
        cdef int i
        self.kept = list(columns)
        self.count = len(self.kept)
        if self.count == 0:
            raise ValueError("at least one column is needed")
        self.cells = <Cells*> calloc(self.count, sizeof(Cells))
        if self.cells == NULL:
            raise MemoryError()
        for i in range(self.count):
            values = self.kept[i]
            self.cells[i] = values.cells
            if values.cells.rows != self.cells[0].rows:
                raise ValueError("columns differ in length")
        self.rows = self.cells[0].rows

    def __dealloc__(self):
        free(self.cells)

    cdef int order(self, Py_ssize_t i, _Columns others, Py_ssize_t j) noexcept nogil:
        """Compare two rows, column by column."""
        cdef int column, found
        for column in range(self.count):
            found = compared(&self.cells[column], i, &others.cells[column], j)
            if found != 0:
                return found
        return 0


# -- hashes ----------------------------------------------------------------------------------------------------


def hash_rows(object columns, tuple points, object numbers=None):
    """Hash every row over all columns.

    Parameters
    ----------
    columns
        `Values` of one length; the columns of one key must always come in the same layouts and order.
    points
        Two integers in [2, 2**61 - 1), drawn at random once per process.
    numbers
        None, or for each column None or `Values` of texts: a text that is not null replaces the cell.

    Returns
    -------
    uint64 array of shape (rows, 2).
    """
    cdef _Columns given = _Columns(columns)
    cdef Values exact
    cdef uint64_t[2] at
    cdef Py_ssize_t row
    cdef int column
    at[0], at[1] = points
    if not 2 <= at[0] < MODULUS or not 2 <= at[1] < MODULUS:
        raise ValueError("points must lie in [2, 2**61 - 1)")
    result = np.ones((given.rows, 2), dtype=np.uint64)
    cdef uint64_t[:, ::1] hashes = result
    cdef uint64_t* hash
    if given.rows == 0:
        return result
    hash = &hashes[0, 0]
    for column in range(given.count):
        exact = None if numbers is None else numbers[column]
        if exact is None:
            with nogil:
                for row in range(given.rows):
                    absorb_cell(hash + 2 * row, at, &given.cells[column], row)
            continue
        if exact.cells.rows != given.rows or exact.cells.layout < BYTES:
            raise ValueError("numbers are texts, one for each row")
        with nogil:
            for row in range(given.rows):
                if is_null(&exact.cells, row):
                    absorb_cell(hash + 2 * row, at, &given.cells[column], row)
                else:
                    absorb_number(hash + 2 * row, at, &exact.cells, row)
    with nogil:
        for row in range(2 * given.rows):
            hash[row] = scattered(hash[row])
    return result


# -- numbers as texts ------------------------------------------------------------------------------------------


def numerals(Values texts not None, bint order, bint quoted=False):
    """Return numbers as texts: in one spelling for each value, or such that the texts sort like the values.

    Parameters
    ----------
    texts
        Texts of numbers. Other texts are returned unchanged; with ``order``, they become null.
    order
        Whether to return texts that sort like the values.
    quoted
        Whether numbers may stand in quotes, with blanks around them.

    Returns
    -------
    Null count, validity, offsets (int32) and texts, as bytes.

    Raises
    ------
    OverflowError
        If the texts need 2 GiB or more.
    """
    cdef const Cells* cells = &texts.cells
    cdef Py_ssize_t row, used = 0, room = 0, nulls = 0
    cdef int64_t need
    cdef Span text
    cdef Numeral number
    cdef Reading found
    cdef uint8_t* out = NULL
    cdef uint8_t* grown
    cdef uint8_t* end
    cdef bytes other
    if cells.layout < BYTES:
        raise ValueError("numbers are given as texts")
    validity = np.zeros((cells.rows + 7) // 8, dtype=np.uint8)
    offsets = np.zeros(cells.rows + 1, dtype=np.int32)
    cdef uint8_t[::1] valid = validity
    cdef int32_t[::1] ends = offsets
    try:
        for row in range(cells.rows):
            ends[row + 1] = <int32_t> used
            if is_null(cells, row):
                nulls += 1
                continue
            text = span(cells, row)
            if quoted:
                text = bare(text)
            found = read_numeral(text.data, text.data + text.size, &number)
            if found == NO_NUMBER and order:
                nulls += 1
                continue
            other = None
            need = text.size + ROOM
            if found == A_FAR_NUMBER:
                other = far_numeral(text, order)
                need = len(other)
            if used + need > room:
                room = 2 * room + need + 4096
                grown = <uint8_t*> realloc(out, room)
                if grown == NULL:
                    raise MemoryError()
                out = grown
            end = out + used
            if other is not None:
                memcpy(end, <const uint8_t*> other, need)
                end += need
            elif found == NO_NUMBER:
                memcpy(end, text.data, text.size)
                end += text.size
            else:
                end = put_order(end, &number) if order else spell(end, &number)
            used = end - out
            if used > INT32_MAX:
                raise OverflowError("texts of numbers take more than 2 GiB")
            ends[row + 1] = <int32_t> used
            valid[row >> 3] |= 1 << (row & 7)
        return nulls, validity, offsets, PyBytes_FromStringAndSize(<const char*> out, used)
    finally:
        free(out)


cdef inline Span bare(Span text) noexcept nogil:
    """Return a JSON value without quotes, and without blanks inside of them."""
    if text.size >= 2 and text.data[0] == c'"':
        text.data += 1
        text.size -= 2
        while text.size > 0 and text.data[0] == c" ":
            text.data += 1
            text.size -= 1
        while text.size > 0 and text.data[text.size - 1] == c" ":
            text.size -= 1
    return text


cdef bytes far_numeral(Span text, bint order):
    """Return the result of `numerals` for a number whose exponent is beyond 64 bits."""
    mantissa, _, power = (<bytes> text.data[:text.size]).decode("ascii").lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    whole = whole.lstrip("0")
    shift = len(whole) if whole else -(len(fraction) - len(fraction.lstrip("0")))
    digits = (whole + fraction).strip("0")
    # Use Decimal, because Python refuses to parse integers of more than 4300 digits.
    exponent = Context(prec=len(power) + 30, Emax=_MAX_EMAX).add(Decimal(power), Decimal(shift if order else shift - 1))
    magnitude = f"{exponent.copy_abs():f}"
    if not order:
        point = "." if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}{digits[1:]}e{'-' if exponent < 0 else ''}{magnitude}".encode()
    complement = str.maketrans("0123456789", "9876543210")
    size = f"{len(magnitude):019d}{magnitude}"
    size = f"0{size.translate(complement)}" if exponent < 0 else f"9{size}"
    return (f"3{(size + digits).translate(complement)}:" if sign else f"5{size}{digits}").encode()


# -- the newest of several rows --------------------------------------------------------------------------------


def newest(const int32_t[::1] slots, Py_ssize_t count, object order):
    """Return for each of `count` slots its newest row; of equally new rows, the last.

    Parameters
    ----------
    slots
        Slot of every row, -1 for rows to ignore.
    order
        `Values` that are greater in newer rows, the most significant first.

    Returns
    -------
    int64 array of shape (count,): row numbers, -1 for slots without a row.
    """
    cdef _Columns given = _Columns(order)
    cdef Py_ssize_t row
    cdef int32_t slot
    if slots.shape[0] != given.rows:
        raise ValueError("slots and columns differ in length")
    result = np.full(count, -1, dtype=np.int64)
    cdef int64_t[::1] best = result
    cdef bint inside = True
    with nogil:
        for row in range(given.rows):
            slot = slots[row]
            if slot < 0:
                continue
            if slot >= count:
                inside = False
                break
            if best[slot] < 0 or given.order(row, given, best[slot]) >= 0:
                best[slot] = row
    if not inside:
        raise ValueError("a slot is beyond the number of slots")
    return result


def not_older(object left, const int64_t[::1] left_rows, object right, const int64_t[::1] right_rows):
    """Tell for pairs of rows of two tables whether the left row is as new as the right row, or newer.

    Parameters
    ----------
    left, right
        `Values` as in `newest`, of the same layouts.
    left_rows, right_rows
        Row numbers of the pairs in each table.

    Returns
    -------
    Boolean array of shape (pairs,).
    """
    cdef _Columns ours = _Columns(left), theirs = _Columns(right)
    cdef Py_ssize_t i
    cdef int column
    cdef bint inside = True
    if left_rows.shape[0] != right_rows.shape[0]:
        raise ValueError("pairs are incomplete")
    if ours.count != theirs.count:
        raise ValueError("tables differ in columns")
    for column in range(ours.count):
        if ours.cells[column].layout != theirs.cells[column].layout:
            raise ValueError("tables differ in layouts")
    result = np.empty(left_rows.shape[0], dtype=np.bool_)
    cdef uint8_t[::1] found = result.view(np.uint8)
    with nogil:
        for i in range(left_rows.shape[0]):
            if not (0 <= left_rows[i] < ours.rows and 0 <= right_rows[i] < theirs.rows):
                inside = False
                break
            found[i] = ours.order(left_rows[i], theirs, right_rows[i]) >= 0
    if not inside:
        raise ValueError("a row is beyond its table")
    return result


# -- tables and filters of hashes ------------------------------------------------------------------------------


cdef class KeyTable:
    """Hashes -> slots, which number distinct keys in the order of their first appearance.

    Open addressing: an entry is empty, or holds a slot and half of the hash's first word, so that a miss rarely reads a
    whole hash.
    """

    cdef uint64_t* keys  # two words per slot
    cdef uint64_t* places  # tag in the upper half, slot + 1 in the lower one; 0 is empty
    cdef Py_ssize_t count, room, size

    def __cinit__(self, Py_ssize_t expected=0):
        self.size = 64
        while self.size // 2 < expected and self.size < (<Py_ssize_t> 1 << 31):
            self.size *= 2
        self.room = self.size // 2
        self.places = <uint64_t*> calloc(self.size, sizeof(uint64_t))
        self.keys = <uint64_t*> realloc(NULL, self.room * 2 * sizeof(uint64_t))
        if self.places == NULL or self.keys == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.places)
        free(self.keys)

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        return self.size * sizeof(uint64_t) + self.room * 2 * sizeof(uint64_t)

    cdef inline uint64_t* place(self, uint64_t a, uint64_t b) noexcept nogil:
        """Return the entry of a key, or the empty entry for it."""
        cdef uint64_t mask = <uint64_t> self.size - 1, at = a & mask, tag = a >> 32, held
        cdef uint64_t* key
        while True:
            held = self.places[at]
            if held == 0:
                return &self.places[at]
            if held >> 32 == tag:
                key = self.keys + 2 * <uint64_t> (<uint32_t> held - 1)
                if key[0] == a and key[1] == b:
                    return &self.places[at]
            at = (at + 1) & mask

    cdef bint _grow(self) noexcept nogil:
        """Double the number of entries; return False if memory is short, or 32-bit slots do not suffice."""
        cdef uint64_t* places
        cdef uint64_t* keys
        cdef Py_ssize_t slot
        if self.room >= INT32_MAX // 2:
            return False
        places = <uint64_t*> calloc(2 * self.size, sizeof(uint64_t))
        if places == NULL:
            return False
        keys = <uint64_t*> realloc(self.keys, 2 * self.room * 2 * sizeof(uint64_t))
        if keys == NULL:
            free(places)
            return False
        free(self.places)
        self.places = places
        self.keys = keys
        self.size *= 2
        self.room *= 2
        for slot in range(self.count):
            self.place(keys[2 * slot], keys[2 * slot + 1])[0] = (keys[2 * slot] >> 32 << 32) | <uint64_t> (slot + 1)
        return True

    def insert(self, const uint64_t[:, ::1] hashes not None):
        """Add keys; return the slot of each, an int32 array of shape (rows,)."""
        cdef Py_ssize_t row, rows = _checked(hashes)
        cdef uint64_t a, b
        cdef uint64_t* place
        cdef bint enough = True
        result = np.empty(rows, dtype=np.int32)
        cdef int32_t[::1] slots = result
        with nogil:
            for row in range(rows):
                if row + AHEAD < rows:
                    prefetch(&self.places[hashes[row + AHEAD, 0] & <uint64_t> (self.size - 1)])
                if self.count == self.room and not self._grow():
                    enough = False
                    break
                a, b = hashes[row, 0], hashes[row, 1]
                place = self.place(a, b)
                if place[0] == 0:
                    self.keys[2 * self.count] = a
                    self.keys[2 * self.count + 1] = b
                    self.count += 1
                    place[0] = (a >> 32 << 32) | <uint64_t> self.count
                slots[row] = <int32_t> (<uint32_t> place[0] - 1)
        if not enough:
            raise MemoryError("too many keys for one table")
        return result

    def find(self, const uint64_t[:, ::1] hashes not None):
        """Return the slot of each key, -1 for unknown keys: an int32 array of shape (rows,)."""
        cdef Py_ssize_t row, rows = _checked(hashes)
        result = np.empty(rows, dtype=np.int32)
        cdef int32_t[::1] slots = result
        with nogil:
            for row in range(rows):
                if row + AHEAD < rows:
                    prefetch(&self.places[hashes[row + AHEAD, 0] & <uint64_t> (self.size - 1)])
                slots[row] = <int32_t> (<uint32_t> self.place(hashes[row, 0], hashes[row, 1])[0] - 1)
        return result


cdef class BloomFilter:
    """A set of hashes that recognises most hashes that are not in it; each test reads one cache line.

    Parameters
    ----------
    capacity
        Expected number of keys; with more keys, more unknown keys seem to be in the set.
    bits
        Bits per key; with 16 bits, about 0.2 % of unknown keys seem to be in a full set.

    Source: Bloom, "Space/time trade-offs in hash coding with allowable errors"; Putze and others, "Cache-, hash- and
    space-efficient Bloom filters".
    """

    cdef uint64_t* words
    cdef Py_ssize_t blocks
    cdef readonly Py_ssize_t capacity

    def __cinit__(self, Py_ssize_t capacity, Py_ssize_t bits=16):
        if capacity < 0 or not 1 <= bits <= 64 or capacity > (<Py_ssize_t> 1 << 50):
            raise ValueError("no such size of a filter")
        self.capacity = capacity
        self.blocks = capacity * bits // (64 * BLOCK_WORDS) + 1
        self.words = <uint64_t*> calloc(self.blocks * BLOCK_WORDS, sizeof(uint64_t))
        if self.words == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.words)

    @property
    def nbytes(self):
        return self.blocks * BLOCK_WORDS * sizeof(uint64_t)

    cdef inline uint64_t* block(self, uint64_t a) noexcept nogil:
        return self.words + scaled(a, <uint64_t> self.blocks) * BLOCK_WORDS

    def add(self, const uint64_t[:, ::1] hashes not None):
        """Add keys."""
        cdef Py_ssize_t row, rows = _checked(hashes)
        cdef uint64_t* block
        cdef uint64_t b
        cdef int i
        with nogil:
            for row in range(rows):
                if row + AHEAD < rows:
                    prefetch(self.block(hashes[row + AHEAD, 0]))
                block = self.block(hashes[row, 0])
                b = hashes[row, 1]
                for i in range(BLOCK_WORDS):
                    block[i] |= <uint64_t> 1 << (b & 63)
                    b >>= 6

    def may_hold(self, const uint64_t[:, ::1] hashes not None):
        """Tell for each key whether it may have been added: a boolean array of shape (rows,)."""
        cdef Py_ssize_t row, rows = _checked(hashes)
        cdef const uint64_t* block
        cdef uint64_t b, missing
        cdef int i
        result = np.empty(rows, dtype=np.bool_)
        cdef uint8_t[::1] found = result.view(np.uint8)
        with nogil:
            for row in range(rows):
                if row + AHEAD < rows:
                    prefetch(self.block(hashes[row + AHEAD, 0]))
                block = self.block(hashes[row, 0])
                b = hashes[row, 1]
                missing = 0
                for i in range(BLOCK_WORDS):
                    missing |= ~block[i] & (<uint64_t> 1 << (b & 63))
                    b >>= 6
                found[row] = missing == 0
        return result


cdef Py_ssize_t _checked(const uint64_t[:, ::1] hashes) except -1:
    """Return the number of rows."""
    if hashes.shape[1] != 2:
        raise ValueError("hashes have two words each")
    return hashes.shape[0]
