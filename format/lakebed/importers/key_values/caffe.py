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
from lakebed.importers.tfrecord.varints import BYTES, FIXED32, VARINT, fields

_TYPES = {
    1: (VARINT,),
    2: (VARINT,),
    3: (VARINT,),
    4: (BYTES,),
    5: (VARINT,),
    6: (BYTES, FIXED32),
    7: (VARINT,),
}


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
        data, floats = b"", []
        for field, wire, start, stop in fields(message, 0, len(message)):
            if wire not in _TYPES.get(field, ()):
                raise IngestionError("a value is no Datum")
            if wire == VARINT:
                numbers[field] = start
            elif field == 4:
                data = message[start:stop]
            else:
                floats.append(message[start:stop])
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
