"""Segments as bytes: a header and named arrays.

    bytes      content
    8          "LBINDEX1"
    8          n, length of the header: uint64
    n          header, JSON: facts such as the kind, and the dtype, length and offset of each array
    ...        the arrays, each at a multiple of 64 bytes

Numbers are little-endian. A segment never changes; the registry has its size and checksum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError

MAGIC = b"LBINDEX1"
_ALIGN = 64
_DTYPES = frozenset(("|u1", "<u2", "<u4", "<u8", "<i8", "<f4"))


@dataclass(frozen=True, slots=True)
class Segment:
    """Contents of a segment: facts by name, and one-dimensional arrays by name."""

    facts: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def to_pieces(self) -> list[bytes | memoryview]:
        """Return the pieces of the file, without copying arrays."""
        places: dict[str, list[Any]] = {}
        at = 0
        for name, array in self.arrays.items():
            places[name] = [array.dtype.newbyteorder("<").str, len(array), at]
            at += -(-array.nbytes // _ALIGN) * _ALIGN
        header = json.dumps({"facts": dict(self.facts), "arrays": places}).encode()
        header += b" " * (-(len(MAGIC) + 8 + len(header)) % _ALIGN)
        parts: list[bytes | memoryview] = [MAGIC + len(header).to_bytes(8, "little") + header]
        for name, array in self.arrays.items():
            data = np.ascontiguousarray(array, places[name][0])
            parts += [data.view(np.uint8).data, b"\0" * (-data.nbytes % _ALIGN)]
        return parts

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Segment:
        """Parse a segment; its arrays are views of the bytes.

        Raises
        ------
        FormatError
            If the bytes are not a segment.
        """
        view = memoryview(data)
        if bytes(view[: len(MAGIC)]) != MAGIC or len(view) < len(MAGIC) + 8:
            raise FormatError("a segment of an index does not begin with LBINDEX1")
        start = len(MAGIC) + 8
        length = int.from_bytes(view[len(MAGIC) : start], "little")
        if length > len(view) - start:
            raise FormatError("a segment of an index ends inside its header")
        try:
            header = json.loads(bytes(view[start : start + length]))
            facts, places = header["facts"], header["arrays"].items()
            arrays = {}
            for name, (dtype, count, at) in places:
                if dtype not in _DTYPES or type(count) is not int or type(at) is not int:
                    raise FormatError(f"array {name!r} of a segment is of an unknown type")
                begin, size = start + length + at, count * np.dtype(dtype).itemsize
                if min(count, at) < 0 or begin + size > len(view):
                    raise FormatError(f"array {name!r} is not inside of the segment")
                arrays[name] = np.frombuffer(view[begin : begin + size], dtype)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"the header of a segment cannot be read: {error}") from error
        if not isinstance(facts, dict):
            raise FormatError('the index segment is damaged: its header has no "facts" object')
        return cls(facts, arrays)
