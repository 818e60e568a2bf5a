"""Links in place of samples, and their bytes in a chunk (format.md 5.3, link and link_tiled).

kind         content
link         UTF-8 of the path or address as the user gave it; empty for None
link_tiled   version prefix
             u8 n, number of axes of the grid
             n u32 grid shape
             paths in C order, each ended by a NUL byte
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed import limits
from lakebed.documents.indexes import version_prefix
from lakebed.errors import FormatError, InvalidInputError
from lakebed.storage.address import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer


class LinkedSample:
    """A pointer to a file, for tensors of htype ``link[...]``.

    Parameters
    ----------
    path
        Path or address. A relative path counts from the working directory of the reader of the dataset.
    creds_key
        Name of the credentials that the address needs; the dataset stores the name only.
    """

    # Do not use a frozen dataclass: creating it takes four times as long, and millions of links are created.
    __slots__ = ("creds_key", "path")

    path: str
    creds_key: str | None

    def __init__(self, path: str, creds_key: str | None = None) -> None:
        self.path = path
        self.creds_key = creds_key

    def __repr__(self) -> str:
        return f"LinkedSample(path={shown(self.path)!r}, creds_key={self.creds_key!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinkedSample):
            return NotImplemented
        return self.path == other.path and self.creds_key == other.creds_key

    def __hash__(self) -> int:
        return hash((self.path, self.creds_key))

    @property
    def dtype(self) -> str:
        """Dtype of a path: text of any length."""
        return "<U1"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one link as a stored value."""
        return (1,)


class LinkedTiledSample:
    """Links to images of equal shape that together make one large sample.

    Parameters
    ----------
    path_array
        Paths or addresses, shape (rows, columns) or with as many axes as the image has.
    creds_key
        Name of the credentials that all of them need.
    """

    def __init__(self, path_array: NDArray[Any], creds_key: str | None = None) -> None:
        self.path_array = path_array
        self.creds_key = creds_key
        self._tile_shape: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"LinkedTiledSample(grid={self.path_array.shape}, creds_key={self.creds_key!r})"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the paths as text."""
        return self.path_array.dtype

    @property
    def tile_shape(self) -> tuple[int, ...] | None:
        """Shape of one linked image; None until the sample is appended."""
        return self._tile_shape

    @property
    def sample_shape(self) -> tuple[int, ...] | None:
        """Shape of the whole sample; None until it is appended."""
        if self._tile_shape is None:
            return None
        return tuple(
            g * t
            for g, t in zip(
                grid_shape(self.path_array.shape, len(self._tile_shape)), self._tile_shape, strict=True
            )
        )

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the whole sample; None until it is appended."""
        return self.sample_shape

    def measured(self, tile_shape: tuple[int, ...]) -> None:
        """Record the shape of the linked images."""
        grid_shape(self.path_array.shape, len(tile_shape))
        self._tile_shape = tile_shape


def link(path: str | os.PathLike[str], creds_key: str | None = None) -> LinkedSample:
    """Make a pointer to a file, to be appended to a tensor of htype ``link[...]`` or ``sequence[link[...]]``.

    Parameters
    ----------
    path
        Path, or address with ``file``, ``http``, ``https``, ``s3``, ``gs`` or ``az`` before ``://``. It is stored as
        given: relative paths count from the working directory of the reader of the dataset.
    creds_key
        Name of the credentials, added to the dataset with ``ds.add_creds_key``.

    Returns
    -------
    A sample for a ``link[...]`` tensor.

    Raises
    ------
    InvalidInputError
        If ``path`` is not a path.

    Examples
    --------
    >>> link("photos/cat.jpg").path
    'photos/cat.jpg'
    """
    if type(path) is str and (creds_key is None or type(creds_key) is str):
        return LinkedSample(path, creds_key)
    return LinkedSample(_text(path), _key(creds_key))


def link_tiled(path_array: NDArray[Any] | Sequence[Any], creds_key: str | None = None) -> LinkedTiledSample:
    """Make one large sample of images that lie side by side in files of their own.

    Parameters
    ----------
    path_array
        Paths or addresses as an array or nested lists; its axes are those of the image, and missing axes have one tile.
    creds_key
        Name of the credentials, added to the dataset with ``ds.add_creds_key``.

    Returns
    -------
    A sample for a ``link[...]`` tensor.

    Raises
    ------
    InvalidInputError
        If the array is empty, ragged, or holds anything but paths without NUL characters.

    Examples
    --------
    >>> link_tiled([["left.png", "right.png"]]).path_array.shape
    (1, 2)
    """
    try:
        array = np.array(path_array)
    except ValueError as error:
        raise InvalidInputError("the paths of tiles must make a regular grid") from error
    if array.dtype == object:
        array = np.array([_text(item) for item in array.flat]).reshape(array.shape)
    if array.dtype.kind != "U" or array.ndim == 0 or array.size == 0:
        raise InvalidInputError(
            f"link_tiled takes a grid of paths, not an array of {array.dtype} with shape {array.shape}"
        )
    for item in array.flat:
        if "\0" in item or not item:
            raise InvalidInputError("a path of a tile is empty or holds a NUL character")
    return LinkedTiledSample(array, _key(creds_key))


def _text(path: object) -> str:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise InvalidInputError(f"a link is a path or an address, not {type(path).__name__}")
    return text


def _key(creds_key: object) -> str | None:
    if creds_key is not None and not isinstance(creds_key, str):
        raise InvalidInputError(f"a credentials key is text, not {type(creds_key).__name__}")
    return creds_key


def grid_shape(paths: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Return the shape of a grid of tiles with as many axes as the sample: 1 for axes that are not given.

    Raises
    ------
    InvalidInputError
        If the paths have more axes than the images.
    """
    if len(paths) > ndim:
        raise InvalidInputError(f"paths with {len(paths)} axes cannot be tiles of a sample with {ndim} axes")
    return paths + (1,) * (ndim - len(paths))


def encode_link(value: LinkedSample | None) -> bytes:
    """Return the stored bytes of a link.

    Raises
    ------
    InvalidInputError
        If the path holds half a surrogate pair, which UTF-8 cannot store.
    """
    return b"" if value is None else _utf8(value.path)


def encode_paths(paths: Sequence[str]) -> tuple[bytes, NDArray[np.uint32]]:
    """Return the stored bytes of many links back to back, "" for None, and the number of bytes of each.

    Raises
    ------
    InvalidInputError
        As :func:`encode_link`.
    """
    joined = "".join(paths)
    if joined.isascii():
        return joined.encode("ascii"), np.fromiter(map(len, paths), dtype=np.uint32, count=len(paths))
    parts = list(map(_utf8, paths))
    return b"".join(parts), np.fromiter(map(len, parts), dtype=np.uint32, count=len(parts))


def _utf8(path: str) -> bytes:
    try:
        return path.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"the path {path!r} is not valid Unicode text, so it cannot be stored; rename the file"
        ) from error


def decode_link(data: Buffer) -> str:
    """Return the path or address of stored bytes; empty for None.

    Raises
    ------
    FormatError
        If the bytes are not UTF-8.
    """
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"a link is not UTF-8 text: {error}") from error


def encode_tiled(paths: NDArray[np.str_], ndim: int) -> bytes:
    """Return the stored bytes of a grid of links.

    Raises
    ------
    InvalidInputError
        If a path is not ASCII, which the format cannot store.
    """
    grid = grid_shape(paths.shape, ndim)
    try:
        body = b"".join(str(item).encode("ascii") + b"\0" for item in paths.flat)
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"paths of tiles can hold ASCII characters only: {error.object!r}") from error
    return version_prefix.PREFIX + bytes([len(grid)]) + np.array(grid, dtype="<u4").tobytes() + body


def decode_tiled(data: Buffer) -> NDArray[np.str_]:
    """Return the paths of stored bytes as an array of the grid's shape.

    Raises
    ------
    FormatError
        If the bytes are not a grid of links.
    LimitError
        If the grid has more tiles than allowed.
    """
    raw = bytes(data)
    _, start = version_prefix.split(raw, "a grid of links")
    if len(raw) <= start or len(raw) < start + 1 + 4 * raw[start]:
        raise FormatError("a grid of links ends within its header")
    ndim = raw[start]
    first = start + 1 + 4 * ndim
    grid = tuple(int(v) for v in np.frombuffer(raw, dtype="<u4", count=ndim, offset=start + 1))
    count = math.prod(grid)
    limits.check("MAX_TILES", count, f"a grid of links of shape {grid}")
    if count > len(raw) - first:
        raise FormatError(f"{len(raw) - first} bytes cannot hold the paths of {count} tiles")
    parts = raw[first:].split(b"\0")
    if ndim == 0 or count == 0 or len(parts) != count + 1 or parts[-1]:
        raise FormatError(f"a grid of links of shape {grid} holds {len(parts) - 1} paths")
    try:
        return np.array([part.decode("ascii") for part in parts[:-1]]).reshape(grid)
    except UnicodeDecodeError as error:
        raise FormatError(f"a path of a tile is not ASCII: {error}") from error
