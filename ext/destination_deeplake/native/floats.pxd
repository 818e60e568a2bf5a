"""JSON arrays of numbers -> flat values, in C order, with a check of their shape.

Each number becomes the nearest double, and then the nearest float if the column holds floats. The text is read in one
pass. Anything but an array of finite numbers of the column's shape does not fit; the caller then determines whether it
is valid JSON.
"""

from libc.math cimport isfinite, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t

from destination_deeplake.native.columns cimport (
    NO_MEMORY,
    Column,
    Table,
    grow_text,
    in_trouble,
)
from destination_deeplake.native.decimals cimport Decimal, decimal_to_double, read_decimal
from destination_deeplake.native.json cimport skip_space
from destination_deeplake.native.memory cimport SLACK


cdef enum:
    MOST_DIMENSIONS = 16  # columns.MAX_DIMENSIONS


cdef enum Fit:
    FITS
    NO_FIT
    NO_SPACE  # the table's `trouble` is set


cdef inline Fit put_item(
    Table* table, Column* column, size_t at, const uint8_t* p, const uint8_t* end, const Decimal* number
) noexcept nogil:
    """Write the number with the text [p, end) as item `at` of the column."""
    cdef size_t used = at * column.item
    cdef double value = decimal_to_double(number, p, end)
    cdef float single = <float>value
    if isnan(value):
        in_trouble(table, NO_MEMORY)
        return NO_SPACE
    if not isfinite(value) or (column.item == 4 and not isfinite(single)):
        return NO_FIT
    if used + 8 + SLACK > column.values.capacity and not grow_text(table, column, used, used + 8):
        return NO_SPACE
    if column.item == 4:
        (<float*>column.values.data)[at] = single
    else:
        (<double*>column.values.data)[at] = value
    return FITS


cdef inline bint is_sized(Column* column, int axis) noexcept nogil:
    """Whether all values of the column have the same size along an axis: a 0 as the first means any."""
    return column.shape != NULL and (axis > 0 or column.shape[0] != 0)


cdef inline Fit put_numbers(Table* table, Column* column, const uint8_t** text) noexcept nogil:
    """Write the array that begins at `text`, and move `text` to the end of the array if it fits."""
    cdef int64_t[MOST_DIMENSIONS] counts
    cdef int dimensions = column.dimensions
    cdef int depth = 0
    cdef int32_t* offsets = <int32_t*>column.offsets.data
    cdef size_t at = offsets[table.rows]
    cdef const uint8_t* p = text[0]
    cdef const uint8_t* start
    cdef Decimal number
    cdef Fit fit
    while True:
        # One value starts here: an array that is not the innermost one, or a number in it.
        if depth and is_sized(column, depth - 1) and counts[depth - 1] == column.shape[depth - 1]:
            return NO_FIT
        if p[0] == c"[":
            if depth == dimensions:
                return NO_FIT
            counts[depth] = 0
            depth += 1
            p = skip_space(p + 1)
            if p[0] != c"]":
                continue
        else:
            if depth != dimensions:
                return NO_FIT
            start = p
            p = read_decimal(p, False, &number)
            if p == NULL:
                return NO_FIT
            fit = put_item(table, column, at, start, p, &number)
            if fit != FITS:
                return fit
            at += 1
            counts[depth - 1] += 1
        # A value ends here: close the arrays that end, or go to the next value.
        while True:
            p = skip_space(p)
            if p[0] == c",":
                break
            if p[0] != c"]":
                return NO_FIT
            p += 1
            depth -= 1
            if is_sized(column, depth) and counts[depth] != column.shape[depth]:
                return NO_FIT
            if depth == 0:
                offsets[table.rows + 1] = <int32_t>at
                text[0] = p
                return FITS
            counts[depth - 1] += 1
        p = skip_space(p + 1)
