"""Arrow binary and addresses -> samples of tensors of files, of plain bytes and of links (FORMAT.md 5.3).

    Arrow column                                   tensor
    binary, large_binary                           compressed by sample (images, sound, video, ...): a file in each row
    binary, large_binary                           uint8, not compressed by sample: its bytes, shape (size,)
    string, large_string                           link: an address in each row
    struct<path: string, creds_key: string>        link: with the name of its credentials

A null is an empty sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.codecs.sample import Sample
from lakebed.codecs.traits import is_plain
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.links.link import LinkedSample, link

if TYPE_CHECKING:
    import pyarrow as pa


def chunks_of(values: Any) -> list[pa.Array]:
    """Return what speaks the Arrow interface as arrays of pyarrow."""
    # pyarrow takes a tenth of a second to import, so only those who bring Arrow data pay for it.
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return [values]
    if isinstance(values, pa.ChunkedArray):
        return list(values.chunks)
    if hasattr(values, "__arrow_c_array__"):
        return [pa.array(values)]
    return list(pa.chunked_array(values).chunks)


def is_binary(array: pa.Array) -> bool:
    """Tell whether an array holds bytes."""
    import pyarrow as pa

    return bool(pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type))


def takes_files(meta: TensorMeta) -> bool:
    """Tell whether each sample of a tensor is a file."""
    return not is_plain(meta.sample_compression)


def files(array: pa.Array) -> list[Sample | None]:
    """Return the files of a binary array, None for nulls and for empty ones; their content is the array's memory."""
    data_buffer = array.buffers()[2]
    if data_buffer is None or not len(array):
        return [None] * len(array)
    bounds, there = _bounds(array), _present(array)
    filled = np.diff(bounds) > 0
    if there is not None:
        filled &= there
    data = memoryview(data_buffer).cast("B")
    ends = bounds.tolist()
    return [
        Sample(buffer=data[ends[i] : ends[i + 1]]) if is_filled else None
        for i, is_filled in enumerate(filled.tolist())
    ]


def bytes_block(array: pa.Array) -> tuple[Block, NDArray[np.bool_] | None]:
    """Return a binary array as samples of uint8 over the same memory, and True for its nulls, None if it has none."""
    _, _, data_buffer = array.buffers()
    count = len(array)
    if not count:
        return Block(memoryview(b""), 0, 0, (0,)), None
    data = memoryview(b"") if data_buffer is None else memoryview(data_buffer).cast("B")
    bounds, there = _bounds(array), _present(array)
    sizes = np.diff(bounds).astype(np.int64)
    if there is None:
        block = Block(data[int(bounds[0]) : int(bounds[-1])], count, sizes.astype(np.uint32), _shapes(sizes))
        return block, None
    ends = bounds.tolist()
    views = [data[ends[i] : ends[i + 1]] if is_there else b"" for i, is_there in enumerate(there.tolist())]
    return Block.of_buffers(views, _shapes(np.where(there, sizes, 0))), ~there


def _shapes(sizes: NDArray[np.int64]) -> NDArray[np.uint32]:
    return sizes.astype(np.uint32).reshape(-1, 1)


def _bounds(array: pa.Array) -> NDArray[Any]:
    """Return where each value begins, and where the last one ends, of an array that is not empty."""
    import pyarrow as pa

    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    return np.frombuffer(array.buffers()[1], dtype=width)[array.offset : array.offset + len(array) + 1]


def _present(array: pa.Array) -> NDArray[np.bool_] | None:
    """Return True for rows that are not null; None if none is."""
    validity = array.buffers()[0]
    if validity is None or not array.null_count:
        return None
    stop = array.offset + len(array)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), count=stop, bitorder="little")
    there: NDArray[np.bool_] = bits[array.offset :].view(np.bool_)
    return there


def links(values: Any) -> list[LinkedSample | None]:
    """Return the links of Arrow columns of addresses."""
    import pyarrow as pa

    found: list[LinkedSample | None] = []
    for array in chunks_of(values):
        if pa.types.is_struct(array.type):
            # `flatten` lets the fields of a null be null, too.
            fields = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
            paths = fields["path"].to_pylist()
            keys = fields["creds_key"].to_pylist() if "creds_key" in fields else [None] * len(paths)
        else:
            paths, keys = array.to_pylist(), [None] * len(array)
        found += [None if path is None else link(path, key) for path, key in zip(paths, keys, strict=True)]
    return found


__all__ = ["bytes_block", "chunks_of", "files", "is_binary", "links", "takes_files"]
