"""Search for rows of a dataset whose key is also the key of a newer row.

Such rows exist only if the key had other columns before, or if rows were appended without a merge. A row in which all
columns of the key are null may have been written before these columns existed; such rows may differ from each other, so
they do not count as rows of one key. The search needs a table of all keys, so it is done in several passes, each with a
table that fits into memory.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.dataset.dataset import Dataset
from lakebed.native import keys as native
from lakebed.upserts.keying import Keying
from lakebed.upserts.keys import KeyTable, values
from lakebed.upserts.putting_off import Checkpoint, go_on
from lakebed.upserts.windows import taken, windows

ROWS_PER_PASS = 4_000_000
"""Number of rows whose keys are in memory at a time; each takes about 100 bytes."""


def older_duplicates(
    base: Dataset,
    keying: Keying,
    rows_per_pass: int = ROWS_PER_PASS,
    checkpoint: Checkpoint = go_on,
) -> NDArray[np.int64]:
    """Return the rows, ascending, that are not the newest row of their key; of equally new rows, the last one stays."""
    passes = -(-base.max_len // rows_per_pass)
    found = [_of_part(base, keying, part, passes, checkpoint) for part in range(passes)]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *found]))


def _of_part(
    base: Dataset, keying: Keying, part: int, parts: int, checkpoint: Checkpoint
) -> NDArray[np.int64]:
    """Return the older duplicates whose hashes are in one part of all hashes."""
    table = KeyTable()
    rows: list[NDArray[np.int64]] = []
    slots: list[NDArray[np.int32]] = []
    order: list[list[pa.Array]] = []
    for first, columns in windows(base, keying.tensors_in(base)):
        checkpoint()
        hashes = keying.hashes_of_window(base, first, columns)
        here = np.flatnonzero((hashes[:, 0] % np.uint64(parts) == part) & ~keying.is_blank(columns))
        rows.append(first + here)
        slots.append(table.insert(hashes[here]))
        order.append(keying.ordered(taken(columns, here)))
    every = np.concatenate(rows)
    joined = [values(pa.concat_arrays(parts)) for parts in zip(*order, strict=True)]
    best = native.newest(np.concatenate(slots), len(table), joined)
    stays = np.zeros(len(every), dtype=np.bool_)
    stays[best] = True
    return every[~stays]
