"""Lists and objects in the samples of LitData: JSON, or values behind tags; numbers are little-endian.

    1     tag; then, by tag:
          0  length, uint32; JSON                            5  count, uint32; of each key text, tagged value
          1  count, uint32; texts                            6  count, uint32; objects of the same keys (below)
          2, 3, 4  count, uint32; integers of 8 bytes, doubles, bytes of booleans
          7 text   8 integer   9 double   10 boolean   11 nothing

A text is its length, uint32, and UTF-8. Objects of the same keys: number of keys, uint32; the keys; then for each
object its values, each behind a tag from 0x10 to 0x14.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from lakebed.importers.core.contents import document

MAX_DEPTH = 64


def nested(data: bytes) -> Any:
    """Return lists and objects, as LitData stores them: JSON, or values behind tags.

    Raises
    ------
    IngestionError
        If they are not JSON.
    ValueError
        If they are damaged.
    """
    if not data or data[0] > 0x20:
        return document(data)
    return _tagged(data, 0, MAX_DEPTH)[0]


def _tagged(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Return the value after a tag, and the position of its end."""
    if depth == 0 or at >= len(data):
        raise ValueError("the object is cut short, or nested too deeply")
    tag, at = data[at], at + 1
    if tag in _IN_RECORDS.values():
        return _scalar(tag, data, at)
    count = struct.unpack_from("<I", data, at)[0]
    at += 4
    if count > len(data) - at:
        raise ValueError(f"{count:,} values are cut short")
    if tag == 0:
        return document(data[at : at + count]), at + count
    if tag in (2, 3, 4):
        dtype = np.dtype({2: "<i8", 3: "<f8", 4: "?"}[tag])
        return np.frombuffer(data, dtype, count, at).tolist(), at + count * dtype.itemsize
    if tag == 1:
        return _texts(data, at, count)
    if tag == 5:
        found = {}
        for _ in range(count):
            key, at = _text(data, at)
            found[key], at = _tagged(data, at, depth - 1)
        return found, at
    if tag == 6:
        return _records(data, at, count)
    raise ValueError(f"a value has the unknown tag {tag}")


# Tag of a value inside a record -> tag of the same value elsewhere: nothing, text, integer, double, boolean.
_IN_RECORDS = {0x10: 11, 0x11: 7, 0x12: 8, 0x13: 9, 0x14: 10}


def _scalar(tag: int, data: bytes, at: int) -> tuple[Any, int]:
    if tag == 11:
        return None, at
    if tag == 7:
        return _text(data, at)
    if tag == 10:
        return bool(struct.unpack_from("<B", data, at)[0]), at + 1
    return struct.unpack_from("<q" if tag == 8 else "<d", data, at)[0], at + 8


def _records(data: bytes, at: int, count: int) -> tuple[list[dict[str, Any]], int]:
    """Return objects that have the same keys."""
    width = struct.unpack_from("<I", data, at)[0]
    at += 4
    if width * max(count, 1) > len(data) - at:
        raise ValueError(f"{count:,} objects of {width:,} values are cut short")
    keys, at = _texts(data, at, width)
    found = []
    for _ in range(count):
        row: dict[str, Any] = {}
        for key in keys:
            tag = struct.unpack_from("<B", data, at)[0]
            if tag not in _IN_RECORDS:
                raise ValueError(f"a value has the unknown tag {tag}")
            row[key], at = _scalar(_IN_RECORDS[tag], data, at + 1)
        found.append(row)
    return found, at


def _texts(data: bytes, at: int, count: int) -> tuple[list[str], int]:
    found = []
    for _ in range(count):
        text, at = _text(data, at)
        found.append(text)
    return found, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    length = struct.unpack_from("<I", data, at)[0]
    if length > len(data) - at - 4:
        raise ValueError("a text is cut short")
    return data[at + 4 : at + 4 + length].decode(), at + 4 + length
