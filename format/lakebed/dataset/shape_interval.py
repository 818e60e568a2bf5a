"""The extents between which the samples of a tensor vary."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.errors import InvalidShapeIntervalError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ShapeInterval:
    """Smallest and largest extent per axis, the sample axis first.

    Raises
    ------
    InvalidShapeIntervalError
        If the two differ in length, or a smallest extent is above the largest.

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
        """Whether some axis varies."""
        return self.lower != self.upper

    def astuple(self) -> tuple[int | None, ...]:
        """Return the extents, None where they vary."""
        return tuple(a if a == b else None for a, b in zip(self.lower, self.upper, strict=True))

    def __len__(self) -> int:
        return len(self.lower)

    def __repr__(self) -> str:
        axes = [str(a) if a == b else f"{a}:{b}" for a, b in zip(self.lower, self.upper, strict=True)]
        return f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"
