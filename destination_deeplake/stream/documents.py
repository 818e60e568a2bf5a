"""JSON values that readers could not open again: what is nested too deeply for them does not fit.

Readers refuse such a value before a parser goes down into it (`lakebed.limits.MAX_JSON_DEPTH`), and with it the batch
that it is in. What the wire takes goes deeper.
"""

import numpy as np
import pyarrow as pa

import lakebed
from destination_deeplake.ndarrays import present
from destination_deeplake.stream.samples import Fitted, Rows, offsets_of


def documents(array: pa.Array) -> Fitted:
    """Fit JSON texts to what a reader goes down into.

    Parameters
    ----------
    array : pyarrow.Array of json
        Each text valid JSON.
    """
    deepest = lakebed.limits.MAX_JSON_DEPTH
    texts = array.storage
    offsets = offsets_of(texts)
    # A bracket takes a byte, and so does the one that closes it.
    long = np.flatnonzero((np.diff(offsets) > 2 * deepest) & present(texts))
    data = memoryview(texts.buffers()[2] or b"").cast("B")
    refused: Rows = np.array(
        [row for row in long if lakebed.limits.json_depth(data[offsets[row] : offsets[row + 1]]) > deepest],
        np.int64,
    )
    if not len(refused):
        return Fitted(array)
    # Its import takes a tenth of a second, which nearly all syncs need not pay.
    import pyarrow.compute as pc

    fits = np.ones(len(texts), np.bool_)
    fits[refused] = False
    kept = pc.if_else(pa.array(fits), texts, pa.scalar(None, texts.type))
    return Fitted(pa.ExtensionArray.from_storage(array.type, kept), refused)
