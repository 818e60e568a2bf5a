"""Caffe's Datum: an image with its label, a message of Protocol Buffers, as values of LMDB and LevelDB hold it.

field  type       content
1-3    varint     channels, height, width
4      bytes      the values in that order, uint8; or a file, if encoded
5      varint     label
6      float32    the values as floating point numbers, packed or one by one
7      varint     whether ``data`` is a file
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError

_VARINT, _BYTES, _FLOAT = 0, 2, 5
_TYPES = {
    1: (_VARINT,),
    2: (_VARINT,),
    3: (_VARINT,),
    4: (_BYTES,),
    5: (_VARINT,),
    6: (_BYTES, _FLOAT),
    7: (_VARINT,),
}
_MOST_BITS = 70


@dataclass(frozen=True)
class Datum:
    """A message.

    Parameters
    ----------
    shape
        Channels, height, width.
    data
        Values, or a file.
    floats
        Values as float32, in place of ``data``.
    """

    shape: tuple[int, int, int]
    data: bytes
    floats: bytes
    label: int | None
    is_encoded: bool

    @classmethod
    def from_bytes(cls, message: bytes) -> Datum:
        """Parse a message.

        Raises
        ------
        IngestionError
            If it is none, or its values are not as many as its shape says.
        """
        numbers: dict[int, int] = {}
        data, floats, at = b"", [], 0
        while at < len(message):
            key, at = _varint(message, at)
            field, kind = key >> 3, key & 7
            if kind not in _TYPES.get(field, ()):
                raise IngestionError("a value is no Datum")
            if kind == _VARINT:
                numbers[field], at = _varint(message, at)
                continue
            length, at = (4, at) if kind == _FLOAT else _varint(message, at)
            if at + length > len(message):
                raise IngestionError("a Datum is cut short")
            part = message[at : at + length]
            at += length
            if field == 4:
                data = part
            else:
                floats.append(part)
        label = numbers.get(5)
        if label is not None and label >= 1 << 63:
            label -= 1 << 64
        shape = (numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0))
        found = cls(shape, data, b"".join(floats), label, bool(numbers.get(7)))
        if not found.is_encoded:
            found.check()
        return found

    def check(self) -> None:
        """Compare shape and values.

        Raises
        ------
        IngestionError
            If they do not fit.
        """
        count = self.shape[0] * self.shape[1] * self.shape[2]
        if (
            count == 0
            or len(self.floats) % 4
            or (len(self.data), len(self.floats)) not in ((count, 0), (0, 4 * count))
        ):
            raise IngestionError(
                f"a Datum of shape {self.shape} has {len(self.data or self.floats):,} bytes of values"
            )

    @property
    def values(self) -> NDArray[Any]:
        """Its values, shape (channels, height, width), uint8 or float32."""
        if self.floats:
            return np.frombuffer(self.floats, "<f4").reshape(self.shape).astype(np.float32, copy=False)
        return np.frombuffer(self.data, np.uint8).reshape(self.shape)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = bits = 0
    while at < len(message) and bits < _MOST_BITS:
        byte = message[at]
        value |= (byte & 0x7F) << bits
        at += 1
        bits += 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise IngestionError("a Datum ends within a number")
