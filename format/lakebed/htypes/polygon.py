"""polygon: any number of polygons per sample, each an array of points (format.md 5.3).

bytes        content
2            u16 P, number of polygons
2 P          u16 points of each polygon
rest         points of all polygons, C order, little-endian, in the tensor's dtype

The shape of a sample is (P, maximum number of points, axes of a point). An empty sample and None have no bytes and the
shape (0, 0, 0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.codecs.base import Buffer
from lakebed.codecs.block import Block, join_samples
from lakebed.errors import (
    EmptyPolygonError,
    FormatError,
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
)

_MOST = 0xFFFF
_COUNT = np.dtype("<u2")


class Polygon:
    """One polygon.

    Parameters
    ----------
    coords
        Points, shape (points, axes).
    dtype
        NumPy dtype of the points as an array.
    """

    def __init__(self, coords: Any, dtype: Any = "float32") -> None:
        if coords is None or len(coords) == 0:
            raise EmptyPolygonError(
                "A polygons sample can be empty or None but a polygon within a sample can not be empty."
            )
        self.coords = coords
        self.dtype = np.dtype(dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.coords, dtype=self.dtype if dtype is None else dtype)

    def __len__(self) -> int:
        return len(self.coords)

    @property
    def ndim(self) -> int:
        """Number of axes of a point."""
        return len(self.coords[0])

    @property
    def shape(self) -> tuple[int, int]:
        """(points, axes of a point)."""
        return len(self.coords), self.ndim

    def tobytes(self) -> bytes:
        """Return the points as they are stored."""
        return np.asarray(self).tobytes()


class Polygons:
    """Polygons of one sample.

    Parameters
    ----------
    data
        Sequence of polygons, each of shape (points, axes); all have the same number of axes.
    dtype
        NumPy dtype of the points.

    Raises
    ------
    EmptyPolygonError
        If a polygon has no point.
    TensorInvalidSampleShapeError
        If the points differ in their number of axes, or are too many.

    Examples
    --------
    >>> shapes = Polygons([[(0, 0), (4, 0), (4, 3)], [(1, 1), (2, 2)]])
    >>> len(shapes), shapes.shape, shapes[1].shape
    (2, (2, 3, 2), (2, 2))
    """

    def __init__(self, data: Any, dtype: Any = "float32") -> None:
        self.dtype = np.dtype(dtype)
        self.data: list[NDArray[Any]] = [_points(item, self.dtype) for item in data]
        axes = {item.shape[1] for item in self.data}
        if len(axes) > 1:
            raise TensorInvalidSampleShapeError(
                f"all points in a sample must have the same number of axes, not {sorted(axes)}"
            )
        most = max(map(len, self.data), default=0)
        if most > _MOST or len(self.data) > _MOST:
            raise TensorInvalidSampleShapeError(
                f"a sample holds up to {_MOST} polygons of up to {_MOST} points, not {len(self.data)} of {most}"
            )
        self.ndim = axes.pop() if axes else 0
        self.shape = (len(self.data), most, self.ndim)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, item: int | slice) -> Polygon | Polygons:
        if isinstance(item, slice):
            return Polygons(self.data[item], self.dtype)
        return Polygon(self.data[item], self.dtype)

    def __iter__(self) -> Iterator[Polygon]:
        return (Polygon(item, self.dtype) for item in self.data)

    def numpy(self) -> list[NDArray[Any]]:
        """Return the points of each polygon, shape (points, axes)."""
        return [item.copy() for item in self.data]

    def copy(self) -> Polygons:
        """Return a copy of the polygons."""
        return Polygons(self.numpy(), self.dtype)

    def astype(self, dtype: Any) -> Polygons:
        """Return the polygons with points of another dtype."""
        return Polygons(self.data, dtype)

    def tobytes(self) -> memoryview:
        """Return the stored bytes of the sample."""
        if not self.data:
            return memoryview(b"")
        return memoryview(_stored(self.data))

    @classmethod
    def frombuffer(cls, buff: Buffer, dtype: Any, ndim: int) -> Polygons:
        """Decode the polygons of a sample.

        Parameters
        ----------
        ndim
            Number of axes of a point.

        Raises
        ------
        FormatError
            If the bytes are not polygons in this form.
        """
        return cls(decode_polygons(buff, (0, 0, ndim), np.dtype(dtype)), dtype)


def _points(item: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the points of one polygon, shape (points, axes)."""
    if item is None or (hasattr(item, "__len__") and len(item) == 0):
        raise EmptyPolygonError(
            "A polygons sample can be empty or None but a polygon within a sample can not be empty."
        )
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(item).astype(dtype, order="C")
    except (ValueError, TypeError) as error:
        raise TensorDtypeMismatchError(f"a polygon is a list of points, not {item!r:.60}: {error}") from error
    if array.ndim == 3 and 1 in array.shape:
        array = array.reshape(-1, array.shape[-1])
    if array.ndim != 2:
        raise TensorInvalidSampleShapeError(
            f"a polygon is a list of points, shape (points, axes), not an array of shape {array.shape}"
        )
    return array


def encode_polygons(values: Iterable[Any], dtype: np.dtype[Any]) -> Block:
    """Encode samples, each a sequence of polygons, an array of shape (polygons, points, axes), or None.

    Raises
    ------
    EmptyPolygonError, TensorInvalidSampleShapeError, TensorDtypeMismatchError
        If a sample is anything else.
    """
    parts: list[bytes] = []
    shapes: list[tuple[int, ...]] = []
    for value in values:
        shape = _shape_as_stored(value, dtype)
        if shape is not None:
            parts.append(_stored(value))
            shapes.append(shape)
            continue
        sample = _sample(value, dtype)
        parts.append(bytes(sample.tobytes()) if sample is not None else b"")
        shapes.append(sample.shape if sample is not None else (0, 0, 0))
    return join_samples(parts, np.array(shapes, dtype=np.uint32).reshape(-1, 3))


def _shape_as_stored(value: Any, dtype: np.dtype[Any]) -> tuple[int, int, int] | None:
    """Return the shape of a list of arrays that are stored unchanged; None for an empty list and other values."""
    if type(value) is not list or not 0 < len(value) <= _MOST:
        return None
    most, axes = 0, set()
    for item in value:
        if type(item) is not np.ndarray or item.dtype != dtype or item.ndim != 2:
            return None
        points, wide = item.shape
        if not 0 < points <= _MOST:
            return None
        most = max(most, points)
        axes.add(wide)
    return (len(value), most, axes.pop()) if len(axes) == 1 else None


def _stored(polygons: Sequence[NDArray[Any]]) -> bytes:
    """Return the stored bytes of a sample with one polygon or more."""
    head = np.array([len(polygons), *map(len, polygons)], dtype=_COUNT)
    return head.tobytes() + b"".join([item.tobytes() for item in polygons])


def _sample(value: Any, dtype: np.dtype[Any]) -> Polygons | None:
    if value is None:
        return None
    if isinstance(value, Polygons):
        return value if value.dtype == dtype else value.astype(dtype)
    if isinstance(value, str | bytes | dict) or not isinstance(value, Sequence | np.ndarray):
        raise TensorDtypeMismatchError(
            f"a polygon tensor takes lists of polygons, not {type(value).__name__}"
        )
    return Polygons(value, dtype) if len(value) else None


def decode_polygons(data: Buffer, shape: Sequence[int], dtype: np.dtype[Any]) -> list[NDArray[Any]]:
    """Return the points of each polygon of a sample, shape (points, axes).

    Parameters
    ----------
    shape
        The sample's row of the shape table; its last extent is the number of axes of a point.

    Raises
    ------
    FormatError
        If the bytes are not polygons in this form.
    LimitError
        If the sample has more polygons than this process allows.
    """
    view = memoryview(data).cast("B")
    if len(view) == 0:
        return []
    if len(view) < 2 or len(shape) != 3:
        raise FormatError(f"{len(view)} bytes of shape {tuple(shape)} are not polygons")
    count = int(np.frombuffer(view, _COUNT, 1)[0])
    limits.check("MAX_POLYGONS", count, "polygons of a sample")
    start = 2 + 2 * count
    if len(view) < start:
        raise FormatError(f"{len(view)} bytes end inside the table of {count} polygons")
    lengths = np.frombuffer(view, _COUNT, count, 2).astype(np.int64)
    width = int(shape[2]) * dtype.itemsize
    if int(lengths.sum()) * width != len(view) - start:
        raise FormatError(
            f"{int(lengths.sum())} points of {shape[2]} {dtype} do not fit {len(view) - start} bytes"
        )
    if width == 0:
        raise FormatError("the points of polygons have no axes")
    points = np.frombuffer(view, dtype, offset=start).reshape(-1, int(shape[2]))
    return [part.copy() for part in np.split(points, np.cumsum(lengths)[:-1])] if count else []
