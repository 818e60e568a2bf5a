"""Statistics of a chunk, for each piece of 16,384 samples, computed from its bytes: extremes, remainders, lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.chunks.chunk import Chunk
from lakebed.documents import chunk_statistics
from lakebed.documents.chunk_statistics import HAS_NAN, HAS_VALUES, PIECE_FIELDS, Pieces, pieces_of

_ALL = (1 << 64) - 1
_LARGEST = (1 << 32) - 1


def wide(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the 64-bit dtype that holds all values of `dtype` exactly; None if no such dtype exists."""
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return np.dtype(np.float64)
    return {"i": np.dtype(np.int64), "u": np.dtype(np.uint64), "b": np.dtype(np.uint64)}.get(dtype.kind)


def of_arrays(chunk: Chunk, dtype: np.dtype[Any]) -> Pieces | None:
    """Return the statistics of a chunk of uncompressed numbers; None if its bytes are not a sequence of such numbers.

    Parameters
    ----------
    dtype
        Dtype of the samples.
    """
    kind = wide(dtype)
    if kind is None or chunk.is_unwritten:
        return None
    offsets = _offsets(chunk)
    if offsets is None or (chunk.ndim is not None and np.any(offsets % dtype.itemsize)):
        return None
    values = np.frombuffer(chunk.data[: int(offsets[-1])], dtype)
    found = _lengths(offsets)
    ends = offsets // dtype.itemsize
    step = chunk_statistics.PIECE
    for piece, start in zip(found, range(0, chunk.count, step), strict=True):
        part = values[int(ends[start]) : int(ends[min(chunk.count, start + step)])]
        if not len(part):
            continue
        low, high = part.min(), part.max()
        if low != low or high != high:
            piece["flags"] |= HAS_NAN
            part = part[~np.isnan(part)]
            if not len(part):
                continue
            low, high = part.min(), part.max()
        piece["flags"] |= HAS_VALUES
        piece["low"], piece["high"] = np.array([low, high]).astype(kind).view(np.uint64)
        piece["bits"] = _bits(part) if dtype.kind in "iub" else _ALL
    return found


def of_texts(chunk: Chunk) -> Pieces | None:
    """Return the statistics of a chunk of texts; None if its bytes are not a sequence of texts."""
    offsets = _offsets(chunk)
    if offsets is None or chunk.is_unwritten:
        return None
    offsets = np.ascontiguousarray(offsets)
    data = chunk.data[: int(offsets[-1])]
    texts = pa.Array.from_buffers(
        pa.large_binary(), chunk.count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    found = _lengths(offsets)
    step = chunk_statistics.PIECE
    for piece, start in zip(found, range(0, chunk.count, step), strict=True):
        told = pc.min_max(texts.slice(start, step))
        piece["low"], piece["high"] = beginning(told["min"].as_py()), beginning(told["max"].as_py())
        piece["bits"], piece["flags"] = _ALL, HAS_VALUES
    return found


def beginning(text: bytes) -> int:
    """Return the first 8 bytes of a text as a number, which keeps the order of texts."""
    return int.from_bytes(text[:8].ljust(8, b"\0"), "big")


def _offsets(chunk: Chunk) -> NDArray[np.int64] | None:
    if chunk.count == 0:
        return None
    if chunk.ndim is None:
        return np.zeros(chunk.count + 1, np.int64)
    offsets = chunk.offsets()
    return offsets if int(offsets[0]) == 0 and int(offsets[-1]) <= len(chunk.data) else None


def _lengths(offsets: NDArray[np.int64]) -> Pieces:
    count = len(offsets) - 1
    sizes = np.diff(offsets)
    found = np.zeros(pieces_of(count), PIECE_FIELDS)
    starts = np.arange(0, count, chunk_statistics.PIECE)
    found["rows"] = np.diff(np.append(starts, count))
    found["empty"] = np.add.reduceat(sizes == 0, starts, dtype=np.int64)
    found["least"] = np.minimum(np.minimum.reduceat(sizes, starts), _LARGEST)
    found["most"] = np.minimum(np.maximum.reduceat(sizes, starts), _LARGEST)
    return found


def _bits(values: NDArray[Any]) -> int:
    """Return a 64-bit mask: bit r is set if a value has the remainder r modulo 64."""
    seen = np.zeros(64, np.bool_)
    seen[values.astype(np.uint8) & 63] = True
    return int.from_bytes(np.packbits(seen, bitorder="little").tobytes(), "little")
