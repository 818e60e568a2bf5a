"""Refusal of JSON values that are nested too deeply for readers.

Readers refuse such a value (`lakebed.limits.MAX_JSON_DEPTH`), and with it the whole batch. The wire accepts deeper
ones.
"""

import numpy as np
import pyarrow as pa

import lakebed
from destination_deeplake.ndarrays import present
from destination_deeplake.stream.samples import Fitted, Rows, offsets_of


def documents(array: pa.Array) -> Fitted:
    """Replace JSON texts that are nested too deeply for readers by null.

    Parameters
    ----------
    array : pyarrow.Array of json
        Each text valid JSON.
    """
    deepest = lakebed.limits.MAX_JSON_DEPTH
    texts = array.storage
    offsets = offsets_of(texts)
    # Each level takes two bytes, its brackets.
    long = np.flatnonzero((np.diff(offsets) > 2 * deepest) & present(texts))
    data = memoryview(texts.buffers()[2] or b"").cast("B")
    refused: Rows = np.array(
        [row for row in long if lakebed.limits.json_depth(data[offsets[row] : offsets[row + 1]]) > deepest],
        np.int64,
    )
    if not len(refused):
        return Fitted(array)
    # Imported here, because that takes a tenth of a second, and few syncs need it.
    import pyarrow.compute as pc

    fits = np.ones(len(texts), np.bool_)
    fits[refused] = False
    kept = pc.if_else(pa.array(fits), texts, pa.scalar(None, texts.type))
    return Fitted(pa.ExtensionArray.from_storage(array.type, kept), refused)
