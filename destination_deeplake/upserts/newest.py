"""The newest of several rows of one key.

The greater cursor is newer; then the later extraction; then what arrived later. A null cursor, and one that is NaN, is
lower than all others; texts go by code point, JSON by its values (`json_order`).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from destination_deeplake.native import keys as native
from destination_deeplake.native.keys import KeyTable
from destination_deeplake.upserts.keys import Hashes, values


def newest_rows(hashes: Hashes, order: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Return the rows, ascending, that are the newest of their key.

    Parameters
    ----------
    hashes : uint64, shape (rows, 2)
        Keys, in the order of arrival.
    order : sequence of pyarrow.Array
        As `Keying.ordered` gives them.
    """
    table = KeyTable(len(hashes))
    slots = table.insert(hashes)
    if len(table) == len(hashes):
        return np.arange(len(hashes))
    return np.sort(native.newest(slots, len(table), [values(column) for column in order]))
