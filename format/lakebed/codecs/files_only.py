"""What codecs have in common that store files as they are and encode no arrays (FORMAT.md 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lakebed.codecs.traits import Described
from lakebed.errors import SampleCompressionError


@dataclass(frozen=True, slots=True)
class FilesOnly(Described):
    """A kind of file that only files of that kind become."""

    name: str
    can_encode: bool = False

    def encode(self, array: NDArray[Any]) -> bytes:
        """Refuse.

        Raises
        ------
        SampleCompressionError
            Always.
        """
        raise SampleCompressionError(
            f"arrays of shape {array.shape} cannot be encoded as {self.name}: append a file with lakebed.read(path)"
        )
