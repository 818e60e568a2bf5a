"""STL meshes, binary and text (format.md 5.3, 7). A sample is (triangles, 3 corners, 3 coordinates) float32.

bytes       content (binary)
80          header, free text
4           u32 number of triangles
50 each     normal 3 f4, corners 9 f4, u16 attribute
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed import limits
from lakebed.codecs.base import FileCodec, FileFacts, into
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer

_TRIANGLE = np.dtype([("normal", "<f4", (3,)), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_HEADER = 84
# In a text file, each facet has these words at these positions, and twelve numbers at the other positions.
_WORDS = (b"facet", b"normal", b"outer", b"loop", b"vertex", b"vertex", b"vertex", b"endloop", b"endfacet")
_AT = (0, 1, 5, 6, 7, 11, 15, 19, 20)
_FACET = 21
_NUMBERS = (2, 3, 4, 8, 9, 10, 12, 13, 14, 16, 17, 18)


@dataclass(frozen=True, slots=True)
class Stl(FileCodec):
    """STL files; only files can be stored, arrays cannot be encoded."""

    name: str = "stl"

    def facts(self, data: Buffer) -> FileFacts:
        """Read the number of triangles.

        Raises
        ------
        FormatError, LimitError
            If the data is not an STL file, or a larger one than this process allows.
        """
        count = _binary_count(data)
        if count is None:
            count = len(_parsed(data)[1])
        return FileFacts((count, 3, 3), "float32")

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode the corners of all triangles: float32, shape (triangles, 3, 3).

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        return into(np.ascontiguousarray(_parsed(data)[1]), out)

    def part(self, data: Buffer, selection: int | slice) -> NDArray[Any]:
        """Decode, and return the selected triangles."""
        return np.ascontiguousarray(_parsed(data)[1][selection])

    def fields(self, data: Buffer) -> dict[str, NDArray[Any]]:
        """Return vertices (triangles, 3, 3), centroids and normals (triangles, 3), float32.

        Normals are computed from the corners, their length is twice the area of the triangle.
        """
        corners = np.ascontiguousarray(_parsed(data)[1])
        return {"vertices": corners, "centroids": _centroids(corners), "normals": _normals(corners)}

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return the name, the bounds, centroids and normals, as 3.9.52 records them."""
        name, corners = _parsed(data)
        flat = corners.reshape(-1, 3) if len(corners) else np.zeros((1, 3), dtype=np.float32)
        return {
            "name": name,
            "min_": flat.min(axis=0),
            "max_": flat.max(axis=0),
            "speedups": True,
            "centroids": _centroids(corners),
            "normals": _normals(corners),
            "extension": "stl",
        }


def _centroids(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return np.asarray(corners.mean(axis=1), dtype=np.float32).reshape(-1, 3)


def _normals(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return np.asarray(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), dtype=np.float32
        )


def _binary_count(data: Buffer) -> int | None:
    """Return the number of triangles of a binary file, None for a text file."""
    count = int.from_bytes(data[80:84], "little") if len(data) >= _HEADER else -1
    # A binary file may begin with "solid", too: its length tells whether it is binary.
    if bytes(data[:5]) == b"solid" and len(data) != _HEADER + _TRIANGLE.itemsize * count:
        return None
    if count < 0:
        raise FormatError(f"{len(data)} bytes are not an STL file: its header takes {_HEADER}")
    limits.check("MAX_POINTS", count, f"an STL file of {count} triangles")
    # Accept bytes that some writers append to the triangles. A file with such bytes but no triangles is not STL.
    if len(data) < _HEADER + _TRIANGLE.itemsize * count or (count == 0 and len(data) != _HEADER):
        raise FormatError(f"an STL file of {count} triangles ends after {len(data)} bytes")
    return count


def _parsed(data: Buffer) -> tuple[bytes, NDArray[np.float32]]:
    """Return the name in a file, and the corners of its triangles."""
    count = _binary_count(data)
    if count is None:
        return _parsed_text(bytes(data))
    triangles = np.frombuffer(data, dtype=_TRIANGLE, count=count, offset=_HEADER)
    return bytes(data[:80]).strip(b"\0 \t\r\n"), triangles["corners"]


def _parsed_text(data: bytes) -> tuple[bytes, NDArray[np.float32]]:
    first, _, rest = data.partition(b"\n")
    words = rest.split()
    end = next((at for at in range(0, len(words), _FACET) if words[at] == b"endsolid"), None)
    if end is None or end % _FACET:
        raise FormatError("a text STL file does not end with endsolid after a whole facet")
    count = end // _FACET
    limits.check("MAX_POINTS", count, f"an STL file of {count} triangles")
    for word, at in zip(_WORDS, _AT, strict=True):
        if any(found != word for found in words[at:end:_FACET]):
            raise FormatError(f"a text STL file has another word in place of {word.decode()!r}")
    try:
        columns = [
            np.array([float(word) for word in words[at:end:_FACET]], dtype=np.float32) for at in _NUMBERS
        ]
    except (ValueError, OverflowError) as error:
        raise FormatError(f"a text STL file holds something other than a number: {error}") from error
    corners = np.stack(columns[3:], axis=1).reshape(count, 3, 3) if count else np.zeros((0, 3, 3), np.float32)
    return first[5:].strip(), corners
