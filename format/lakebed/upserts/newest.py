"""The newest of several rows of one key.

The row with the greater cursor is newer; if cursors are equal, the row that was extracted later; if these times are
equal too, the row that arrived later. A cursor that is null or NaN is lower than all other cursors; texts are compared
by code points, JSON by its values (`json_order`).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.native import keys as native
from lakebed.native.keys import KeyTable
from lakebed.upserts.keys import Hashes, values


def newest_rows(hashes: Hashes, order: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Return the rows, ascending, that are the newest row of their key.

    Parameters
    ----------
    hashes : uint64, shape (rows, 2)
        Keys, in the order of arrival.
    order : sequence of pyarrow.Array
        Columns from `Keying.ordered`.
    """
    table = KeyTable(len(hashes))
    slots = table.insert(hashes)
    if len(table) == len(hashes):
        return np.arange(len(hashes))
    return np.sort(native.newest(slots, len(table), [values(column) for column in order]))
