"""Exact numbers as texts beside a column that would round them, so that keys and cursors are compared exactly.

A cell represents the shortest number that is rounded to it: an integer represents itself, the double 0.1 represents
`0.1`. For any other number, a second column of text holds the exact digits, in one spelling for each value, and the
cell is the nearest value, or null. So ordinary numbers need no second column.
"""

from decimal import ROUND_FLOOR, Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.native import keys as native
from lakebed.upserts.keys import plain, values
from lakebed.upserts.ndarrays import as_arrow, present
from lakebed.upserts.ndarrays import numbers_of as as_numpy

Rows = NDArray[np.int64]

_INT64 = (-(2**63), 2**63 - 1)


def spelled(texts: pa.Array, *, quoted: bool = False) -> pa.Array:
    """Rewrite numbers so that each value has one spelling; other texts and nulls are unchanged.

    Parameters
    ----------
    texts : pyarrow.Array
        Numbers as a source wrote them.
    quoted : bool
        Whether the numbers may be JSON strings.
    """
    if quoted:
        # Numbers need no JSON escapes, but a source may have written some; remove them.
        texts = _unescaped(texts)
    return _texts(native.numerals(values(texts), order=False, quoted=quoted), len(texts))


def ordered(texts: pa.Array) -> pa.Array:
    """Return texts that sort like the numbers; null for other texts."""
    return _texts(native.numerals(values(texts), order=True), len(texts))


def numbers_of(cells: pa.Array) -> pa.Array:
    """Return the numbers that cells represent, in the spelling of `spelled`; for NaN and infinity, other texts."""
    if pa.types.is_floating(cells.type) and cells.type.bit_width < 64:
        floats = cells.to_numpy(zero_copy_only=False)
        return spelled(pa.array([str(value) for value in floats], pa.string()))
    return spelled(cells.cast(pa.string()))


def differing(cells: pa.Array, texts: pa.Array) -> Rows:
    """Return the mask of cells that do not represent the numbers beside them, given in the spelling of `spelled`."""
    import pyarrow.compute as pc

    same = pc.fill_null(pc.equal(numbers_of(cells), texts), False)
    found: Rows = np.flatnonzero(~as_numpy(same))
    return found


def floors(cells: pa.Array, texts: pa.Array) -> pa.Array:
    """Return for each row with a text the greatest cell value that is not above the exact number; else the cell.

    Rows sorted by the result, and then by the texts, are in the exact order of their numbers.
    """
    rows = np.flatnonzero(present(texts))
    if not len(rows):
        return plain(cells)
    wanted = as_arrow(rows)
    numbers, near = texts.take(wanted), cells.take(wanted)
    # Convert to the wider type in which the compiled code compares: its values are denser than those of the cells.
    cells = plain(cells)
    if pa.types.is_floating(cells.type):
        below = _floors_of_floats(near, numbers)
    else:
        least = 0 if cells.type == pa.uint64() else _INT64[0]
        below = pa.array([_floor(text, least) for text in numbers.to_pylist()], cells.type)
    places = np.arange(len(cells))
    places[rows] = len(cells) + np.arange(len(rows))
    return pa.concat_arrays([cells, below]).take(as_arrow(places))


def _floors_of_floats(near: pa.Array, texts: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    nearest = plain(near).to_numpy(zero_copy_only=False).copy()
    lost = np.isnan(nearest)  # numbers beyond the largest float
    nearest[lost] = [
        -np.inf if text.startswith("-") else np.inf for text in texts.filter(as_arrow(lost)).to_pylist()
    ]
    # Compare with the shortest digits of the cell in its own type: a 32-bit cell represents 1e23, the widened cell does
    # not.
    own = pc.fill_null(ordered(numbers_of(near)), "")
    is_above = pc.greater(own, ordered(texts)).to_numpy(zero_copy_only=False) | (lost & (nearest > 0))
    return as_arrow(np.where(is_above, np.nextafter(nearest, -np.inf), nearest))


def _floor(text: str, least: int) -> int | None:
    """Return the greatest 64-bit integer that is not above a number; None if no such integer exists."""
    rough = float(text)
    if abs(rough) < 1:
        found = -1 if text.startswith("-") else 0
    elif abs(rough) > 2.0**70:
        found = _INT64[1] if rough > 0 else _INT64[0] - 1
    else:
        found = int(Decimal(text).to_integral_value(rounding=ROUND_FLOOR))
    return None if found < least else min(found, _INT64[1])


def _unescaped(texts: pa.Array) -> pa.Array:
    import json

    import pyarrow.compute as pc

    escaped = pc.match_substring(texts, "\\")
    if not pc.any(escaped).as_py():
        return texts
    pairs = zip(texts.to_pylist(), escaped.to_pylist(), strict=True)
    return pa.array(
        [json.loads(text).strip() if is_escaped else text for text, is_escaped in pairs], pa.string()
    )


def _texts(found: tuple[int, NDArray[np.uint8], NDArray[np.int32], bytes], rows: int) -> pa.Array:
    nulls, validity, offsets, texts = found
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), rows, buffers, nulls)
