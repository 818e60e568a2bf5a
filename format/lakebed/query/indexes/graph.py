"""Checks of the bytes of a usearch graph (file format 2.*).

usearch trusts the numbers in a file. A dataset may come from anyone, so graphs are checked before usearch reads them.

    bytes               content
    4, 4                number of vectors, n; bytes per vector
    n * bytes           vectors
    64                  "usearch", version (3 uint16), kinds of metric, numbers, keys and slots (a byte each), number of
                        nodes, of removed nodes and of dimensions (uint64)
    5 * 8               number of nodes; number of neighbours, m on upper levels and m0 on the lowest; highest level;
                        node where a search begins
    2 n                 level of each node: int16
    per node            key (uint64), level (int16), and for each level up to it: number of neighbours (uint32),
                        neighbours (uint32, m0 or m of them)
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError

METRICS = {"cosine": ("cos", ord("c")), "l2": ("l2sq", ord("e")), "dot": ("ip", ord("i"))}
"""Metric -> its name and its code in usearch."""

DTYPES = {"f32": (11, 4), "f16": (12, 2), "i8": (23, 1)}
"""Dtype -> its code in usearch, and its size in bytes."""

_KEYS, _SLOTS = 14, 15
_HEAD = struct.Struct("<7s3H4B3Q")
_SHAPE = struct.Struct("<5Q")
_HEAD_BYTES = 64
_MOST_NEIGHBOURS = 1 << 10
_AT_ONCE = 1 << 16


def check_graph(data: NDArray[np.uint8], metric: str, dtype: str, width: int, samples: int) -> None:
    """Check that bytes are a graph of vectors, and that all numbers in it are in range.

    Parameters
    ----------
    width
        Length of a vector.
    samples
        Number of samples of the segment; all keys are below this number.

    Raises
    ------
    FormatError
        If the bytes are not such a graph.
    """
    code, size = DTYPES[dtype]
    view = memoryview(np.ascontiguousarray(data)).cast("B")  # type: ignore[arg-type] # it is a buffer
    if len(data) < 8 + _HEAD_BYTES + _SHAPE.size:
        raise _refused("ends inside its header")
    count, step = struct.unpack_from("<II", view)
    at = 8 + count * step
    if step != width * size or len(data) < at + _HEAD_BYTES + _SHAPE.size:
        raise _refused("has vectors of another size")
    magic, major, _, _, kind, number, keys, slots, nodes, removed, dimensions = _HEAD.unpack_from(view, at)
    if magic != b"usearch" or major != 2:
        raise _refused("is of another version")
    if (kind, number, keys, slots) != (METRICS[metric][1], code, _KEYS, _SLOTS) or dimensions != width:
        raise _refused("has another metric, dtype or width")
    at += _HEAD_BYTES
    found, above, ground, top, begin = _SHAPE.unpack_from(view, at)
    at += _SHAPE.size
    if found != count or nodes != count or removed or max(above, ground) > _MOST_NEIGHBOURS:
        raise _refused("is inconsistent")
    if not count:
        return
    levels = data[at : at + 2 * count].view("<i2").astype(np.int64) if len(data) >= at + 2 * count else None
    if levels is None or int(levels.min()) < 0 or begin >= count or not levels.max() <= top == levels[begin]:
        raise _refused("has impossible levels")
    at += 2 * count
    sizes = 14 + 4 * ground + levels * (4 + 4 * above)
    if at + int(sizes.sum()) != len(data):
        raise _refused("is of another length")
    starts = at + np.cumsum(sizes) - sizes
    _check_nodes(data, starts, levels, above, ground, samples)


def _check_nodes(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    levels: NDArray[np.int64],
    above: int,
    ground: int,
    samples: int,
) -> None:
    keys = _words(data, starts, 8).view("<u8")
    if int(keys.max()) >= samples or not np.array_equal(
        _words(data, starts + 8, 2).view("<i2").reshape(-1), levels
    ):
        raise _refused("has impossible nodes")
    for level in range(int(levels.max()) + 1):
        (nodes,) = np.nonzero(levels >= level)
        most = above if level else ground
        places = starts[nodes] + 10 + (4 + 4 * ground + (level - 1) * (4 + 4 * above) if level else 0)
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            counts = _words(data, some, 4).view("<u4").reshape(-1)
            if int(counts.max()) > most:
                raise _refused("has too many neighbours")
            if not most:
                continue
            near = _words(data, some + 4, 4 * most).view("<u4")
            used = near[np.arange(most) < counts[:, None]]
            if len(used) and (int(used.max()) >= len(levels) or int(levels[used].min()) < level):
                raise _refused("has neighbours that do not exist")


def _words(data: NDArray[np.uint8], places: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Return the `size` bytes that begin at each position in `places`: shape (places, size)."""
    return np.ascontiguousarray(data[places[:, None] + np.arange(size)])


def _refused(why: str) -> FormatError:
    return FormatError(f"the graph {why}")
