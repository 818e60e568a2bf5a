"""Number and shapes of the selected samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.typing import NDArray

from lakebed.dataset.base import TensorBase
from lakebed.errors import InvalidShapeIntervalError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ShapeInterval:
    """Smallest and largest extent of each axis; the axis of samples comes first.

    Raises
    ------
    InvalidShapeIntervalError
        If the two shapes differ in length, or a smallest extent exceeds the largest extent of the same axis.

    Examples
    --------
    >>> ShapeInterval((3, 4, 5), (3, 8, 5))
    (3, 4:8, 5)
    """

    lower: Shape
    upper: Shape

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper):
            raise InvalidShapeIntervalError(
                f"lower {self.lower} and upper {self.upper} differ in their number of axes"
            )
        if any(a > b for a, b in zip(self.lower, self.upper, strict=True)):
            raise InvalidShapeIntervalError(f"lower {self.lower} exceeds upper {self.upper} on some axis")

    @property
    def is_dynamic(self) -> bool:
        """True if the extent of an axis varies."""
        return self.lower != self.upper

    def astuple(self) -> tuple[int | None, ...]:
        """Return the extents; None for axes that vary."""
        return tuple(a if a == b else None for a, b in zip(self.lower, self.upper, strict=True))

    def __len__(self) -> int:
        return len(self.lower)

    def __repr__(self) -> str:
        axes = [str(a) if a == b else f"{a}:{b}" for a, b in zip(self.lower, self.upper, strict=True)]
        return f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"


class ShapeMethods(TensorBase):
    """Lengths and shapes."""

    @property
    def num_samples(self) -> int:
        """Number of samples of the whole tensor, whichever samples are selected."""
        return self._state.length

    def __len__(self) -> int:
        return len(self._rows())

    @property
    def is_single(self) -> bool:
        """True if a single sample is selected, so that arrays have no axis of samples."""
        return self._index.is_single

    @property
    def sample_indices(self) -> Sequence[int]:
        """Numbers of the selected rows."""
        rows = self._rows()
        return rows if isinstance(rows, range) else [int(row) for row in rows]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Number of samples, then the extent of each axis, None if it varies; for a single sample its shape."""
        return self._selection.shape()

    @property
    def shape_interval(self) -> ShapeInterval:
        """Number of selected samples, then the smallest and largest extent of each of their axes."""
        return ShapeInterval(*self._selection.interval())

    def shapes(self) -> NDArray[Any] | list[NDArray[Any]]:
        """Return the shape of every selected sample: int32, shape (samples, axes); for sequences, of their items."""
        shapes: NDArray[Any] | list[NDArray[Any]] = self._selection.shapes()
        return shapes

    @property
    def ndim(self) -> int:
        """Number of axes, including the axis of samples unless a single sample is selected."""
        return len(self.shape)

    @property
    def size(self) -> int | None:
        """Number of elements; None if samples differ in shape."""
        shape = self.shape
        return None if None in shape else prod(axis for axis in shape if axis is not None)

    @property
    def is_dynamic(self) -> bool:
        """True if the selected samples differ in shape."""
        if self._index.is_trivial and not self._state.meta.is_sequence:
            return tuple(self._state.meta.min_shape) != tuple(self._state.meta.max_shape)
        return self.shape_interval.is_dynamic

    @property
    def is_empty_tensor(self) -> bool:
        """True if the tensor has no samples, or only empty ones."""
        return len(self._state.meta.max_shape) == 0

    @property
    def sample_info(self) -> Any:
        """Recorded facts about the files of the samples (format, exif, fps, ...); None if nothing is recorded."""
        return self._selection.infos()
